//! Which side speaks TLS: plain listeners, and a backend's `tls` table, word for word.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ringwall::config::{Backend, BackendTls, Config, Pair};
use ringwall::tls::{Policy, ServerAuth, Version};

mod config_support;
use config_support::{MINIMAL, machine, parse_on, refusal_of_minimal_with};

/// What the minimal file's listener says of TLS.
const LISTENER_TLS: &str = "tls = { certificate = \"server.crt\", private_key = \"server.key\" }";
/// Its backend's servers.
const SERVERS: &str = "servers = [\"127.0.0.1:6379\"]";

fn parse(text: &str) -> Config {
    parse_on(&machine(), text).expect("a valid configuration")
}

/// The backend with these servers and keys of `tls`.
fn backend(servers: &str, tls: &str) -> Backend {
    parse(&MINIMAL.replacen(SERVERS, &format!("servers = [{servers}]\ntls = {{ {tls} }}"), 1)).backends.remove(0)
}

/// The names that the servers of a backend are asked for.
fn names(backend: &Backend) -> Vec<Option<String>> {
    let name = |server: &ringwall::config::Server| server.server_name.as_ref().map(ToString::to_string);
    backend.servers().map(|server| name(&server)).collect()
}

#[test]
fn a_plain_listener_says_so() {
    let config = parse(&MINIMAL.replacen(LISTENER_TLS, "plain = true", 1));
    assert_eq!(config.listeners[0].tls, None);
    assert_eq!(config.warnings, Vec::<String>::new());
    let config = parse(&MINIMAL.replacen(LISTENER_TLS, &format!("{LISTENER_TLS}\nplain = false"), 1));
    assert!(config.listeners[0].tls.is_some());
}

#[test]
fn a_plain_listener_that_strangers_can_reach_is_a_warning() {
    let plain = MINIMAL.replacen(LISTENER_TLS, "plain = true", 1);
    for (bind, warns) in [("127.0.0.1", false), ("[::1]", false), ("0.0.0.0", true), ("[::]", true), ("10.0.0.9", true)]
    {
        let config = parse(&plain.replacen("127.0.0.1:6380", &format!("{bind}:6380"), 1));
        let expected = "/etc/ringwall.toml:4: listener.plain: true lets whoever can reach this address read and change \
                        what clients and server say: bind it to loopback, or give it tls";
        assert_eq!(config.warnings, if warns { vec![expected.to_owned()] } else { vec![] }, "{bind}");
    }
}

#[test]
fn a_listener_has_tls_or_is_plain_and_never_both_or_neither() {
    let missing = "1: listener.tls: is missing: { certificate = \"server.crt\", private_key = \"server.key\" }; or write \
                   plain = true for clients that speak no TLS";
    for (keys, message) in [
        ("", missing),
        ("plain = false", missing),
        ("plain = \"yes\"", "4: listener.plain: \"yes\" is neither true nor false"),
        (
            &format!("plain = true\n{LISTENER_TLS}"),
            "4: listener.plain: true does not fit tls: a listener has one of them",
        ),
    ] {
        assert_eq!(refusal_of_minimal_with(LISTENER_TLS, keys), message, "{keys}");
    }
}

#[test]
fn a_backend_s_authorities_are_enough() {
    let backend = backend("\"valkey.example:6379\"", "ca = \"ca.pem\"");
    let tls = BackendTls {
        auth: ServerAuth::Full(PathBuf::from("/etc/ca.pem")),
        server_name: None,
        identity: None,
        policy: Policy::default(),
    };
    assert_eq!(backend.tls, Some(tls));
    assert_eq!(names(&backend), [Some("valkey.example".to_owned())]);
}

#[test]
fn every_key_of_a_backend_s_tls_takes_what_the_reference_says() {
    let table = r#"servers = ["127.0.0.1:6379"]
[backend.tls]
ca = "/ca.pem"
verify = "ca"
server_name = "valkey.example"
certificate = "proxy.crt"
private_key = "proxy.key"
min_version = "1.3"
max_version = "1.3"
cipher_suites = ["TLS_AES_256_GCM_SHA384"]
groups = ["SecP256r1MLKEM768"]
require_pq = true"#;
    let backend = parse(&MINIMAL.replacen(SERVERS, table, 1)).backends.remove(0);
    assert_eq!(names(&backend), [Some("valkey.example".to_owned())]);
    let tls = backend.tls.unwrap();
    assert_eq!(tls.auth, ServerAuth::Chain(PathBuf::from("/ca.pem")));
    assert_eq!(tls.server_name.map(|name| name.to_string()).as_deref(), Some("valkey.example"));
    let pair = Pair { certificate: "/etc/proxy.crt".into(), private_key: "/etc/proxy.key".into(), ocsp: None };
    assert_eq!(tls.identity, Some(pair));
    assert_eq!((tls.policy.version_min, tls.policy.version_max), (Version::Tls13, Version::Tls13));
    let suites: Vec<_> = tls.policy.cipher_suites.iter().map(|suite| suite.name()).collect();
    assert_eq!(suites, ["TLS_AES_256_GCM_SHA384"]);
    let groups: Vec<_> = tls.policy.groups.iter().map(|group| group.name()).collect();
    assert_eq!(groups, ["SecP256r1MLKEM768"]);
}

#[test]
fn each_server_is_asked_for_by_its_host_unless_the_backend_has_a_name() {
    let servers = "\"pair.example:6379\", \"10.0.0.7:6379\", \"[::1]:6379\"";
    let some = |name: &str| Some(name.to_owned());
    let by_host = [some("pair.example"), some("pair.example"), some("10.0.0.7"), some("::1")];
    assert_eq!(names(&backend(servers, "ca = \"ca.pem\"")), by_host);
    let named = backend(servers, "ca = \"ca.pem\", server_name = \"one.example\"");
    assert_eq!(names(&named), [(); 4].map(|()| some("one.example")));
    // A unix socket has no name, which matters only where one is verified.
    for (tls, name) in [
        ("ca = \"ca.pem\", verify = \"ca\"", None),
        ("verify = \"none\"", None),
        ("ca = \"ca.pem\", server_name = \"one.example\"", some("one.example")),
    ] {
        assert_eq!(names(&backend("\"unix:/run/valkey.sock\"", tls)), [name]);
    }
    assert_eq!(names(&parse(MINIMAL).backends[0]), [None]);
}

#[test]
fn what_is_wrong_in_a_backend_s_tls_is_named() {
    let ca = "the certificates of the authorities that servers must have theirs from, a file in PEM form";
    for (tls, message) in [
        ("tls = true", "tls: true must be a table".to_owned()),
        ("tls = {}", format!("tls.ca: is missing: {ca}")),
        ("tls = { verify = \"ca\" }", format!("tls.ca: is missing: {ca}")),
        ("tls = { ca = \"\" }", format!("tls.ca: \"\" is not a path; {ca}")),
        ("tls = { ca = \"a\", verify = \"none\" }", "tls.ca: \"a\" is of no use with verify = \"none\"".to_owned()),
        (
            "tls = { ca = \"a\", verify = \"fulll\" }",
            "tls.verify: \"fulll\" is none of \"full\", \"ca\", \"none\"; did you mean \"full\"?".to_owned(),
        ),
        (
            "tls = { ca = \"a\", server_name = \"a b\" }",
            "tls.server_name: \"a b\" is not a DNS name or an IP address, such as \"valkey.example\"".to_owned(),
        ),
        ("tls = { ca = \"a\", certificate = \"a\" }", "tls.private_key: is missing: a file in PEM form".to_owned()),
        ("tls = { ca = \"a\", private_key = \"a\" }", "tls.certificate: is missing: a file in PEM form".to_owned()),
        (
            "tls = { ca = \"a\", min_version = \"1.3\", max_version = \"1.2\" }",
            "tls.max_version: \"1.2\" is older than min_version, which is \"1.3\"".to_owned(),
        ),
        (
            "tls = { ca = \"a\", groups = [\"X25519MLKEM768\"] }",
            "tls.groups: [\"X25519MLKEM768\"] lacks a group for TLS 1.2: add one or write min_version = \"1.3\""
                .to_owned(),
        ),
        (
            "tls = { ca = \"a\", alpn = [\"redis\"] }",
            "tls.alpn: unknown key; known here: ca, verify, server_name, certificate, private_key, min_version, \
             max_version, cipher_suites, groups, require_pq"
                .to_owned(),
        ),
    ] {
        let refusal = refusal_of_minimal_with(SERVERS, &format!("{SERVERS}\n{tls}"));
        assert_eq!(refusal, format!("9: backend.{message}"));
    }
}

#[test]
fn a_server_without_a_name_that_could_be_verified_is_told_what_to_write() {
    let message = "has no name that a certificate can be for: write tls.server_name, or tls.verify = \"ca\"";
    let lines = "servers = [\"unix:/run/valkey.sock\"]\ntls = { ca = \"ca.pem\" }";
    let refusal = refusal_of_minimal_with(SERVERS, lines);
    assert_eq!(refusal, format!("8: backend.servers: \"unix:/run/valkey.sock\" {message}"));
}

/// What loading the minimal file with these lines in the place of the listener's TLS, and these keys in the backend's,
/// gives: the warnings, or why it was refused.
fn load(folder: &Path, tls: &str) -> Result<Vec<String>, String> {
    let text = MINIMAL.replacen(LISTENER_TLS, "plain = true", 1).replacen(SERVERS, &format!("{SERVERS}\n{tls}"), 1);
    let file = folder.join("ringwall.toml");
    std::fs::write(&file, text).unwrap();
    let (config, keyring) = Config::load(&file, &machine()).map_err(|error| error.to_string())?;
    assert!(keyring.listeners[0].is_none() && keyring.backends[0].is_some());
    Ok(config.warnings)
}

#[test]
fn the_files_of_a_backend_are_loaded_and_what_is_odd_about_them_told() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["proxy.example".to_owned()]).unwrap();
    for (name, text) in [("ca.pem", made.cert.pem()), ("proxy.key", made.signing_key.serialize_pem())] {
        std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o600)).unwrap();
    }
    let at = folder.path().display();
    let identity = "certificate = \"ca.pem\", private_key = \"proxy.key\"";
    let none = || Ok(vec![]);
    assert_eq!(load(folder.path(), "tls = { ca = \"ca.pem\" }"), none());
    assert_eq!(load(folder.path(), &format!("tls = {{ ca = \"ca.pem\", {identity} }}")), none());
    let unverified = "verify = \"none\": whoever can answer at a server's address can read and change everything; write \
                      \"full\" and a ca";
    assert_eq!(
        load(folder.path(), "tls = { verify = \"none\" }"),
        Ok(vec![format!("{at}/ringwall.toml:9: backend.tls: {unverified}")])
    );
    std::fs::write(folder.path().join("empty.pem"), "\n").unwrap();
    for (tls, problem) in [
        (
            "ca = \"nowhere.pem\"".to_owned(),
            format!(
                "ca {at}/nowhere.pem: cannot be read: No such file or directory (os error 2); it must be a file that \
                 ringwall's user may read"
            ),
        ),
        ("ca = \"empty.pem\"".to_owned(), format!("ca {at}/empty.pem: the file is empty; it must hold PEM")),
        (
            "ca = \"proxy.key\"".to_owned(),
            format!("ca {at}/proxy.key: holds no certificate; it must hold those of the authorities, in PEM"),
        ),
        (
            "ca = \"ca.pem\", certificate = \"ca.pem\", private_key = \"empty.pem\"".to_owned(),
            format!("private_key {at}/empty.pem: the file is empty; it must hold PEM"),
        ),
    ] {
        let refusal = load(folder.path(), &format!("tls = {{ {tls} }}")).unwrap_err();
        assert_eq!(refusal, format!("{at}/ringwall.toml:9: backend.tls: {problem}"));
    }
}
