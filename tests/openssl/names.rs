//! Certificates by server name, from lists and folders.

use rcgen::KeyPair;

use crate::program::{Folder, Program};

#[test]
fn a_client_is_shown_the_certificate_of_the_name_and_kind_it_asks_for() {
    let (folder, authority) = Folder::with_server();
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    folder.write_pair("rsa", authority.certify(&["redis.test"], &rsa));
    std::fs::create_dir(folder.path().join("certs")).unwrap();
    folder.write_pair("certs/cache", authority.certify(&["*.cache.test"], &KeyPair::generate().unwrap()));
    let (certificate, key) = authority.certify(&["one.test"], &KeyPair::generate().unwrap());
    folder.write("certs/one.pem", &(certificate + &key));
    folder.write("certs/readme.txt", "not a certificate");
    let keys = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\n\
                certificates = [{ certificate = \"rsa.crt\", private_key = \"rsa.key\" }]\ncert_dir = \"certs\"\n";
    let program = Program::start(&folder, keys);
    for (arguments, shown) in [
        (&["-servername", "redis.test"][..], &["CN = redis.test", "Signature type: ECDSA"][..]),
        (&["-servername", "redis.test", "-sigalgs", "rsa_pss_rsae_sha256:ECDSA+SHA512"], &["Signature type: RSA-PSS"]),
        (&["-servername", "redis.test", "-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"], &["CN = redis.test"]),
        (&["-servername", "a.cache.test"], &["CN = *.cache.test"]),
        (&["-servername", "one.test"], &["CN = one.test"]),
        (&["-servername", "other.test"], &["CN = redis.test"]),
        (&["-noservername"], &["CN = redis.test"]),
    ] {
        let output = program.s_client(arguments);
        for text in shown {
            assert!(output.contains(text), "{arguments:?}: {text}: {output}");
        }
    }
}

#[test]
fn a_strict_listener_answers_with_the_alerts_of_the_standards() {
    let (folder, _) = Folder::with_server();
    let keys = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\nstrict_sni = true\n";
    let mut program = Program::start(&folder, keys);
    assert!(program.s_client(&["-servername", "redis.test"]).contains("CN = redis.test"));
    program.closed();
    for (arguments, alert, detail) in [
        (&["-servername", "other.test"][..], "SSL alert number 112", "no certificate for the name"),
        (&["-noservername"], "SSL alert number 109", "the client asked for no server name"),
    ] {
        let output = program.s_client(arguments);
        assert!(output.contains(alert), "{arguments:?}: {output}");
        let line = program.closed();
        assert!(line.contains("reason=handshake_failed detail=") && line.contains(detail), "{line}");
    }
}
