//! Versions, cipher suites, groups and protocols.

use crate::program::{Folder, Program};

const PAIR: &str = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\n";

/// The program with `keys` beside its certificate.
fn program(keys: &str) -> (Folder, Program) {
    let (folder, _) = Folder::with_server();
    let program = Program::start(&folder, &format!("{PAIR}{keys}"));
    (folder, program)
}

#[test]
fn a_client_gets_the_version_suite_group_and_protocol_that_the_keys_say() {
    let keys = "cipher_suites = [\"TLS_CHACHA20_POLY1305_SHA256\", \"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\"]\n\
                groups = [\"secp384r1\"]\nalpn = [\"redis\"]\n";
    let (_folder, mut program) = program(keys);
    for (arguments, shown, logged) in [
        (
            &["-servername", "redis.test", "-alpn", "resp,redis"][..],
            &[
                "Protocol version: TLSv1.3",
                "Ciphersuite: TLS_CHACHA20_POLY1305_SHA256",
                "Server Temp Key: ECDH, secp384r1",
            ][..],
            "tls_version=TLSv1.3 cipher=TLS_CHACHA20_POLY1305_SHA256 group=secp384r1 sni=redis.test alpn=redis \
             resumed=false",
        ),
        (
            &["-servername", "redis.test", "-tls1_2"],
            &[
                "Protocol version: TLSv1.2",
                "Ciphersuite: ECDHE-ECDSA-AES256-GCM-SHA384",
                "Server Temp Key: ECDH, secp384r1",
            ],
            "tls_version=TLSv1.2 cipher=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 group=secp384r1 sni=redis.test \
             resumed=false",
        ),
    ] {
        let output = program.s_client(arguments);
        for text in shown {
            assert!(output.contains(text), "{text}: {output}");
        }
        let line = program.closed();
        assert!(line.contains(logged), "{line}");
    }
}

/// That OpenSSL's client finds this alert with these arguments, and the log this detail.
fn expect_refusals(keys: &str, refusals: &[(&[&str], &str, &str)]) {
    let (_folder, mut program) = program(keys);
    for (arguments, alert, detail) in refusals {
        let output = program.s_client(arguments);
        assert!(output.contains(alert), "{arguments:?}: {output}");
        let line = program.closed();
        assert!(line.contains("reason=handshake_failed detail=") && line.contains(detail), "{line}");
    }
}

#[test]
fn a_client_that_cannot_agree_gets_the_alert_of_the_standard_and_the_log_says_on_what() {
    let (version, no_version) = ("alert protocol version", "no TLS version that this listener accepts");
    expect_refusals(
        "min_version = \"1.3\"\nalpn = [\"redis\"]\n",
        &[
            (&["-tls1_2"], version, no_version),
            (&["-alpn", "h2"], "alert no application protocol", "no application protocol (ALPN)"),
        ],
    );
    expect_refusals(
        "max_version = \"1.2\"\n",
        &[
            (&["-tls1_3"], version, no_version),
            (&["-cipher", "ECDHE-RSA-AES128-GCM-SHA256"], "alert handshake failure", "no cipher suite"),
        ],
    );
    // OpenSSL before 3.5 has no post-quantum group; later ones are told to leave it out.
    expect_refusals(
        "require_pq = true\n",
        &[
            (&["-groups", "X25519:P-256"], "alert handshake failure", "no key exchange group"),
            (&["-tls1_2"], version, no_version),
        ],
    );
}
