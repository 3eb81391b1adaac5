//! Client certificates.

use rcgen::KeyPair;

use crate::program::{Authority, Folder, Program};

#[test]
fn a_client_is_known_by_its_certificate_or_refused_for_a_reason() {
    let (folder, authority) = Folder::with_server();
    folder.write_pair("worker", authority.certify(&["worker.test"], &KeyPair::generate().unwrap()));
    folder.write_pair("other", authority.certify(&["other.test"], &KeyPair::generate().unwrap()));
    folder.write_pair("stranger", Authority::new().certify(&["worker.test"], &KeyPair::generate().unwrap()));
    let keys = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\nclient_auth = \"required\"\n\
                client_ca = \"ca.pem\"\nallowed_dns = [\"worker.test\"]\n";
    let mut program = Program::start(&folder, keys);
    for version in ["-tls1_3", "-tls1_2"] {
        program.s_client(&[version, "-cert", "worker.crt", "-key", "worker.key"]);
        let line = program.closed();
        assert!(line.contains("resumed=false client_identity=\"worker.test\" handshake_ms="), "{line}");
        for (arguments, logged) in [
            (&["-cert", "other.crt", "-key", "other.key"][..], "client_identity=\"other.test\""),
            (&["-cert", "other.crt", "-key", "other.key"], "no allowed_ rule lets its owner in"),
            (
                &["-cert", "stranger.crt", "-key", "stranger.key"],
                "another authority with the same name as one of client_ca",
            ),
            (&[], "the client has shown no certificate"),
        ] {
            program.s_client(&[&[version], arguments].concat());
            let line = program.closed();
            assert!(line.contains("reason=handshake_failed") && line.contains(logged), "{line}");
        }
    }
}
