//! OCSP responses that are handed to clients with the certificate.

use rcgen::KeyPair;

use crate::program::{Authority, Folder, Program};

const STAPLED: &str = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\nocsp = \"server.ocsp\"\n";

/// A folder with a certificate of serial number 5001h.
fn folder() -> (Folder, Authority) {
    let (folder, authority) = Folder::with_server();
    folder.write_pair("server", authority.certify_as(&["redis.test"], &KeyPair::generate().unwrap(), 0x5001));
    (folder, authority)
}

#[test]
fn a_client_that_asks_for_it_gets_the_response_in_both_versions() {
    let (folder, authority) = folder();
    authority.respond(&folder, "server.ocsp", "5001", "V");
    let program = Program::start(&folder, STAPLED);
    for version in ["-tls1_3", "-tls1_2"] {
        let output = program.verbose_s_client(&[version, "-status"]);
        for text in ["OCSP Response Status: successful (0x0)", "Serial Number: 5001", "Cert Status: good"] {
            assert!(output.contains(text), "{version} {text}: {output}");
        }
        let output = program.verbose_s_client(&[version]);
        assert!(!output.contains("OCSP Response"), "{output}");
    }
}

#[test]
fn each_certificate_has_its_own_response_or_none() {
    let (folder, authority) = folder();
    std::fs::create_dir(folder.path().join("certs")).unwrap();
    folder.write_pair("certs/a", authority.certify_as(&["a.test"], &KeyPair::generate().unwrap(), 0x5002));
    folder.write_pair("certs/b", authority.certify_as(&["b.test"], &KeyPair::generate().unwrap(), 0x5003));
    authority.respond(&folder, "certs/a.ocsp", "5002", "V");
    authority.respond(&folder, "server.ocsp", "5001", "V");
    let program = Program::start(&folder, &format!("{STAPLED}cert_dir = \"certs\"\n"));
    for (name, text) in [
        ("redis.test", "Serial Number: 5001"),
        ("a.test", "Serial Number: 5002"),
        ("b.test", "OCSP response: no response sent"),
    ] {
        let output = program.verbose_s_client(&["-status", "-servername", name]);
        assert!(output.contains(text), "{name}: {output}");
    }
}

#[test]
fn a_new_response_is_handed_out_and_one_about_another_certificate_is_not() {
    let (folder, authority) = folder();
    authority.respond(&folder, "server.ocsp", "5001", "V");
    let mut program = Program::start(&folder, STAPLED);
    authority.respond(&folder, "server.ocsp", "5002", "V");
    let line = program.line_with("reload failed");
    let problem = "ocsp server.ocsp: the response is not about the certificate, whose serial number is 5001; ask for it \
                   with `openssl ocsp -cert`";
    assert!(line.contains(problem), "{line}");
    let output = program.verbose_s_client(&["-status"]);
    assert!(output.contains("Serial Number: 5001") && output.contains("Cert Status: good"), "{output}");
    authority.respond(&folder, "server.ocsp", "5001", "R240101000000Z");
    let line = program.line_with("WARN");
    assert!(line.contains("ocsp server.ocsp: the responder says of the certificate: revoked; clients"), "{line}");
    program.line_with("INFO reloaded");
    let output = program.verbose_s_client(&["-status"]);
    assert!(output.contains("Cert Status: revoked"), "{output}");
}
