//! What the default policy makes of a client's offers.

use crate::program::{Folder, Program};

const PAIR: &str = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\n";

#[test]
fn of_the_groups_that_both_have_the_clients_first_is_used_also_after_a_retry() {
    let (folder, _) = Folder::with_server();
    let mut program = Program::start(&folder, PAIR);
    // The client shows a key share of its first group; where the server does not have it, another is asked for.
    for (version, groups, group, hellos) in [
        ("-tls1_3", "X25519:P-256:P-384", "x25519", 1),
        ("-tls1_3", "P-256:X25519", "secp256r1", 1),
        ("-tls1_3", "P-384:P-256:X25519", "secp384r1", 1),
        ("-tls1_3", "P-521:P-384:X25519", "secp384r1", 2),
        ("-tls1_3", "X448:X25519", "x25519", 2),
        // In TLS 1.2 the list is also about the keys in certificates, which is P-256 here.
        ("-tls1_2", "P-521:P-384:P-256", "secp384r1", 1),
        ("-tls1_2", "P-256:X25519", "secp256r1", 1),
    ] {
        let output = program.s_client(&[version, "-groups", groups, "-msg"]);
        assert_eq!(output.matches(", ClientHello").count(), hellos, "{groups}: {output}");
        let line = program.closed();
        assert!(line.contains(&format!(" group={group} ")), "{groups}: {line}");
    }
    for version in ["-tls1_3", "-tls1_2"] {
        let output = program.s_client(&[version, "-groups", "P-521:X448"]);
        assert!(output.contains("alert handshake failure"), "{output}");
        assert!(program.closed().contains("no key exchange group"));
    }
}

#[test]
fn a_client_that_cannot_verify_the_kind_of_key_is_told_so() {
    let (folder, _) = Folder::with_server();
    let mut program = Program::start(&folder, PAIR);
    for (version, signatures) in [
        ("-tls1_3", "ECDSA+SHA256:RSA-PSS+SHA256"),
        ("-tls1_2", "RSA+SHA512:ECDSA+SHA256"),
        ("-tls1_3", "ECDSA+SHA256"),
    ] {
        let output = program.s_client(&[version, "-sigalgs", signatures]);
        assert!(output.contains("Signature type: ECDSA"), "{signatures}: {output}");
        program.closed();
    }
    for (version, signatures, alert) in [
        ("-tls1_3", "RSA-PSS+SHA256:ed25519", "alert handshake failure"),
        ("-tls1_3", "ECDSA+SHA384:ECDSA+SHA512", "alert handshake failure"),
        // Here the library ends without an alert, and the one that is sent says less.
        ("-tls1_2", "ECDSA+SHA384:ECDSA+SHA512", "alert decode error"),
    ] {
        let output = program.s_client(&[version, "-sigalgs", signatures]);
        assert!(output.contains(alert), "{signatures}: {output}");
        let line = program.closed();
        assert!(line.contains("cannot verify signatures of this listener's kind of key"), "{signatures}: {line}");
    }
}

#[test]
fn an_application_protocol_is_answered_where_the_listener_has_some_and_not_heard_where_it_has_none() {
    let (folder, _) = Folder::with_server();
    let mut none = Program::start(&folder, PAIR);
    let mut some = Program::start(&folder, &format!("{PAIR}alpn = [\"redis\", \"resp\"]\n"));
    for version in ["-tls1_3", "-tls1_2"] {
        let answered = |program: &Program, protocols| {
            let output = program.s_client_at_length(&[version, "-alpn", protocols]);
            let answer = output.lines().find(|line| line.contains("ALPN")).map(str::to_owned);
            answer.unwrap_or_else(|| panic!("{output}"))
        };
        assert_eq!(answered(&none, "h2,redis"), "No ALPN negotiated");
        assert!(!none.closed().contains(" alpn="));
        assert_eq!(answered(&some, "h2,resp,redis"), "ALPN protocol: redis");
        assert!(some.closed().contains(" alpn=redis "));
        assert_eq!(answered(&some, "resp"), "ALPN protocol: resp");
        assert!(some.closed().contains(" alpn=resp "));
    }
}

#[test]
fn a_client_that_asks_for_a_revocation_status_goes_on_without_one() {
    let (folder, _) = Folder::with_server();
    let mut program = Program::start(&folder, PAIR);
    for version in ["-tls1_3", "-tls1_2"] {
        let output = program.s_client_at_length(&[version, "-status"]);
        assert!(output.contains("OCSP response: no response sent"), "{output}");
        assert!(output.contains("Verification: OK"), "{output}");
        assert!(program.closed().contains("tls_version="));
    }
}
