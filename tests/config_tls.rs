//! Each mistake in a listener's `tls` table and what it is told, word for word.

mod config_support;
use config_support::refusal_of_minimal_with;

#[test]
fn what_is_wrong_in_a_list_of_certificates_is_named() {
    let one = "certificate = \"server.crt\", private_key = \"server.key\"";
    for (keys, message) in [
        ("", "listener.tls.certificate: is missing: a file in PEM form"),
        ("certificates = []", "listener.tls.certificate: is missing: a file in PEM form"),
        (
            "certificates = [{ certificate = \"a.crt\" }]",
            "listener.tls.certificates.private_key: is missing: a file in PEM form",
        ),
        (
            "certificates = [{ certificate = \"a.crt\", key = \"a.key\" }]",
            "listener.tls.certificates.key: unknown key; known here: certificate, private_key, ocsp",
        ),
        ("certificates = [\"a.crt\"]", "listener.tls.certificates: \"a.crt\" must be a table"),
        ("certificate = 1, private_key = \"a\"", "listener.tls.certificate: 1 is not a text; a file in PEM form"),
        ("cert_dir = \"\"", "listener.tls.cert_dir: \"\" is not a path; a folder of certificates and keys"),
        ("cert_dir = \"a\", strict_sni = 1", "listener.tls.strict_sni: 1 is neither true nor false"),
    ] {
        assert_eq!(refusal_of_minimal_with(one, keys), format!("4: {message}"));
    }
}

#[test]
fn what_a_listener_cannot_agree_to_is_refused() {
    let suites = "\"TLS_AES_128_GCM_SHA256\", \"TLS_AES_256_GCM_SHA384\", \"TLS_CHACHA20_POLY1305_SHA256\", \
                  \"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256\", \"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\", \
                  \"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\", \"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256\", \
                  \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\", \"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\"";
    let groups = "\"X25519MLKEM768\", \"SecP256r1MLKEM768\", \"x25519\", \"secp256r1\", \"secp384r1\", \"MLKEM768\", \
                  \"MLKEM1024\"";
    let no_pq = "does not fit require_pq = true: TLS 1.2 has no post-quantum key exchange; write \"1.3\" or leave the \
                 key out";
    for (keys, message) in [
        ("min_version = \"1.1\"", "min_version: \"1.1\" is none of \"1.2\", \"1.3\"; did you mean \"1.2\"?".to_owned()),
        (
            "max_version = 1.3",
            "max_version: 1.3 is a number and must be a text: write it in quotes, \"1.3\"".to_owned(),
        ),
        (
            "min_version = 1.2",
            "min_version: 1.2 is a number and must be a text: write it in quotes, \"1.2\"".to_owned(),
        ),
        ("min_version = 1.1", "min_version: 1.1 is none of \"1.2\", \"1.3\"".to_owned()),
        (
            "min_version = \"1.3\", max_version = \"1.2\"",
            "max_version: \"1.2\" is older than min_version, which is \"1.3\"".to_owned(),
        ),
        ("require_pq = true, max_version = \"1.2\"", format!("max_version: \"1.2\" {no_pq}")),
        ("require_pq = true, min_version = \"1.2\"", format!("min_version: \"1.2\" {no_pq}")),
        ("require_pq = 1", "require_pq: 1 is neither true nor false".to_owned()),
        (
            "cipher_suites = [\"ECDHE-RSA-AES128-GCM-SHA256\"]",
            format!("cipher_suites: \"ECDHE-RSA-AES128-GCM-SHA256\" is none of {suites}"),
        ),
        (
            "cipher_suites = [\"TLS_AES_128_GCM_SHA265\"]",
            format!(
                "cipher_suites: \"TLS_AES_128_GCM_SHA265\" is none of {suites}; did you mean \"TLS_AES_128_GCM_SHA256\"?"
            ),
        ),
        (
            "cipher_suites = [\"TLS_AES_128_GCM_SHA256\"]",
            "cipher_suites: [\"TLS_AES_128_GCM_SHA256\"] lacks a cipher suite for TLS 1.2: add one or write min_version = \
             \"1.3\""
                .to_owned(),
        ),
        (
            "max_version = \"1.2\", cipher_suites = [\"TLS_AES_128_GCM_SHA256\"]",
            "cipher_suites: \"TLS_AES_128_GCM_SHA256\" is of TLS 1.3, which min_version and max_version leave out".to_owned(),
        ),
        (
            "cipher_suites = []",
            "cipher_suites: [] is empty: write a list of cipher suites, such as [\"TLS_AES_128_GCM_SHA256\"]".to_owned(),
        ),
        (
            "groups = [\"X25519\", \"x25519\"]",
            format!("groups: \"X25519\" is none of {groups}; did you mean \"x25519\"?"),
        ),
        ("groups = [\"x25519\", \"x25519\"]", "groups: \"x25519\" is listed twice".to_owned()),
        (
            "groups = [\"X25519MLKEM768\"]",
            "groups: [\"X25519MLKEM768\"] lacks a group for TLS 1.2: add one or write min_version = \"1.3\"".to_owned(),
        ),
        (
            "require_pq = true, groups = [\"X25519MLKEM768\", \"x25519\"]",
            "groups: \"x25519\" is not post-quantum, which require_pq = true demands; leave it out of the list".to_owned(),
        ),
        ("alpn = \"redis\"", "alpn: \"redis\" is not a list of application protocols, such as [\"redis\"]".to_owned()),
        ("alpn = [\"\"]", "alpn: \"\" is not the name of a protocol, which has 1 to 255 bytes".to_owned()),
        (
            "alpn = [6]",
            "alpn: 6 is not a text; alpn is a list of application protocols, such as [\"redis\"]".to_owned(),
        ),
    ] {
        let refusal = refusal_of_minimal_with("\"server.key\" }", &format!("\"server.key\", {keys} }}"));
        assert_eq!(refusal, format!("4: listener.tls.{message}"));
    }
}

#[test]
fn keys_about_clients_that_would_check_nobody_are_refused() {
    let auth = "client_auth = \"required\", client_ca = \"ca.pem\"";
    for (keys, message) in [
        (
            "client_auth = \"require\"".to_owned(),
            "client_auth: \"require\" is none of \"none\", \"optional\", \"required\"; did you mean \"required\"?",
        ),
        (
            "client_auth = \"required\"".to_owned(),
            "client_ca: is missing: the certificates of the authorities that clients must have theirs from, a file in PEM \
             form",
        ),
        (
            "client_ca = \"ca.pem\"".to_owned(),
            "client_ca: \"ca.pem\" is of no use without client_auth = \"required\" or \"optional\"",
        ),
        (
            "client_auth = \"none\", allowed_cn = [\"a\"]".to_owned(),
            "allowed_cn: [\"a\"] is of no use without client_auth = \"required\" or \"optional\"",
        ),
        (
            format!("{auth}, client_crl_coverage = \"leaf\""),
            "client_crl_coverage: \"leaf\" is of no use without client_crl",
        ),
        (
            format!("{auth}, client_crl = [\"a\"], client_crl_coverage = \"all\""),
            "client_crl_coverage: \"all\" is none of \"chain\", \"leaf\", \"available\"",
        ),
        (
            format!("{auth}, client_crl = \"a.crl\""),
            "client_crl: \"a.crl\" is not a list of files with revocation lists, such as [\"clients.crl\"]",
        ),
        (
            format!("{auth}, allowed_cn = []"),
            "allowed_cn: [] is empty: write a list of common names, such as [\"worker\"]",
        ),
        (
            format!("{auth}, allowed_cn = [\"a\\u0000b\"]"),
            "allowed_cn: \"a\\u0000b\" is no item of a list of common names, such as [\"worker\"]",
        ),
        (
            format!("{auth}, allowed_dns = [\"a.*.test\"]"),
            "allowed_dns: \"a.*.test\" is no item of a list of DNS names, such as [\"worker.example\", \
             \"*.workers.example\"]",
        ),
        (
            format!("{auth}, allowed_uri = [\"spiffe://*/a\"]"),
            "allowed_uri: \"spiffe://*/a\" is no item of a list of URIs, such as [\"spiffe://example/worker\", \
             \"spiffe://example/workers/*\"]",
        ),
        (
            format!("{auth}, allowed_spki = [\"abc\"]"),
            "allowed_spki: \"abc\" is no item of a list of SHA-256 digests of public keys, 64 hexadecimal digits each",
        ),
    ] {
        let refusal = refusal_of_minimal_with("\"server.key\" }", &format!("\"server.key\", {keys} }}"));
        assert_eq!(refusal, format!("4: listener.tls.{message}"));
    }
}
