//! What stands in front of clients' first bytes: proxies in front, users by certificate, open servers, and what servers
//! are told, word for word.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use ringwall::cli::Plan;
use ringwall::config::{Config, ListenerEdge};
use ringwall::shard::BackendEdge;
use ringwall::tls::ClientRules;
use ringwall::wire::Template;
use ringwall::wire::proxy::Version;

mod config_support;
use config_support::{MINIMAL, machine, parse_on, refusal, refusal_of_minimal_with};

/// What the minimal file's listener says of TLS.
const TLS: &str = "tls = { certificate = \"server.crt\", private_key = \"server.key\" }";
/// The same with client certificates.
const WITH_CLIENTS: &str = "tls = { certificate = \"server.crt\", private_key = \"server.key\", client_auth = \"required\", \
                            client_ca = \"ca.pem\" }";
const SERVERS: &str = "servers = [\"127.0.0.1:6379\"]";

fn parse(text: &str) -> Config {
    parse_on(&machine(), text).expect("a valid configuration")
}

/// The minimal file with these lines behind its listener's.
fn with_listener(keys: &str) -> String {
    MINIMAL.replacen(TLS, &format!("{TLS}\n{keys}"), 1)
}

/// The same where client certificates are required.
fn with_users(keys: &str) -> String {
    MINIMAL.replacen(TLS, &format!("{WITH_CLIENTS}\n{keys}"), 1)
}

fn listener_edge(text: &str) -> ListenerEdge {
    parse(text).listeners.remove(0).edge
}

fn backend_edge(keys: &str) -> BackendEdge {
    parse(&MINIMAL.replacen(SERVERS, &format!("{SERVERS}\n{keys}"), 1)).backends.remove(0).edge
}

#[test]
fn proxies_in_front_are_believed_where_they_are_named() {
    let keys = "accept_proxy = true\ntrusted_proxies = [\"10.0.0.0/28\", \"2001:db8::7\"]";
    let edge = listener_edge(&with_listener(keys));
    let networks = ["10.0.0.0/28", "2001:db8::7/128"].map(|network| network.parse().unwrap());
    assert_eq!(edge.trusted_proxies.as_deref(), Some(&networks[..]));
    assert_eq!(parse(&with_listener(keys)).warnings, Vec::<String>::new());
    assert_eq!(listener_edge(&with_listener("accept_proxy = false")), ListenerEdge::default());
    assert_eq!(listener_edge(MINIMAL), ListenerEdge::default());
}

#[test]
fn what_is_wrong_about_proxies_is_named() {
    for (keys, message) in [
        (
            "accept_proxy = true",
            "1: listener.trusted_proxies: is missing: a list of the networks of the proxies in front, such as \
             [\"10.0.0.0/28\"]: a PROXY header says who a client is, so not everybody may send one",
        ),
        (
            "trusted_proxies = [\"10.0.0.1\"]",
            "5: listener.trusted_proxies: [\"10.0.0.1\"] is of no use without accept_proxy = true",
        ),
        ("accept_proxy = \"v2\"", "5: listener.accept_proxy: \"v2\" is neither true nor false"),
        (
            "accept_proxy = true\ntrusted_proxies = []",
            "6: listener.trusted_proxies: [] is empty: write a list of networks, such as [\"192.0.2.0/24\", \"2001:db8::/32\"]",
        ),
        (
            "accept_proxy = true\ntrusted_proxies = [\"10.0.0.1/28\"]",
            "6: listener.trusted_proxies: \"10.0.0.1/28\" has bits behind its prefix: write \"10.0.0.0/28\"",
        ),
    ] {
        assert_eq!(refusal(&with_listener(keys)), message, "{keys}");
    }
}

#[test]
fn a_list_that_believes_everybody_and_a_rate_that_counts_proxies_are_warnings() {
    let keys = "accept_proxy = true\ntrusted_proxies = [\"0.0.0.0/0\"]\nhandshake_rate_per_source = 5";
    assert_eq!(
        parse(&with_listener(keys)).warnings,
        [
            "/etc/ringwall.toml:6: listener.trusted_proxies: \"0.0.0.0/0\" lets whoever connects say that it is somebody \
             else: write the addresses of the proxies in front",
            "/etc/ringwall.toml:7: listener.handshake_rate_per_source: 5 counts the clients of one proxy in front as those \
             of one address, with accept_proxy",
        ]
    );
}

#[test]
fn users_are_what_their_tables_say() {
    let keys = r#"[[listener.user]]
cn = "worker"
name = "app"
password_file = "app.password"
[[listener.user]]
dns = "*.workers.example"
name = "workers"
password_file = "secrets/workers"
[[listener.user]]
uri = "spiffe://example/batch/**"
name = "batch"
password_file = "/run/batch""#;
    let edge = listener_edge(&with_users(keys));
    let rules: Vec<_> = edge.users.iter().map(|user| user.rules.clone()).collect();
    let none = ClientRules::default;
    assert_eq!(
        rules,
        [
            ClientRules { common_names: vec!["worker".into()], ..none() },
            ClientRules { dns_names: vec!["*.workers.example".into()], ..none() },
            ClientRules { uris: vec!["spiffe://example/batch/**".into()], ..none() },
        ]
    );
    let users: Vec<_> = edge.users.iter().map(|user| (&*user.name, user.password_file.clone())).collect();
    assert_eq!(
        users,
        [
            ("app", PathBuf::from("/etc/app.password")),
            ("workers", PathBuf::from("/etc/secrets/workers")),
            ("batch", PathBuf::from("/run/batch")),
        ]
    );
}

#[test]
fn what_is_wrong_in_a_user_is_named() {
    let good = "name = \"app\"\npassword_file = \"p\"";
    for (keys, message) in [
        (
            good.to_owned(),
            "5: listener.user: lacks cn, dns or uri: whose certificate makes a client this user, such as cn = \"worker\"",
        ),
        (
            format!("cn = \"a\"\ndns = \"a.example\"\n{good}"),
            "7: listener.user.dns: \"a.example\" does not fit cn: write another [[listener.user]] for it",
        ),
        (format!("cn = \"\"\n{good}"), "6: listener.user.cn: \"\" is not a common name, such as \"worker\""),
        (
            format!("dns = \"a.*.example\"\n{good}"),
            "6: listener.user.dns: \"a.*.example\" is not a DNS name, such as \"worker.example\" or \"*.workers.example\"",
        ),
        (
            format!("uri = \"worker\"\n{good}"),
            "6: listener.user.uri: \"worker\" is not a URI, such as \"spiffe://example/worker\" or \
             \"spiffe://example/workers/*\"",
        ),
        (
            "cn = \"a\"\npassword_file = \"p\"".to_owned(),
            "5: listener.user.name: is missing: the name of a user on the server (ACL LIST shows them)",
        ),
        (
            "cn = \"a\"\nname = \"a b\"\npassword_file = \"p\"".to_owned(),
            "7: listener.user.name: \"a b\" is not a name of 1 to 128 bytes without blanks",
        ),
        (
            "cn = \"a\"\nname = \"app\"".to_owned(),
            "5: listener.user.password_file: is missing: a file that holds the user's password and nothing else",
        ),
        (
            format!("cn = \"a\"\n{good}\n[[listener.user]]\ncn = \"a\"\n{good}"),
            "10: listener.user.cn: \"a\" is that of an earlier [[listener.user]], which comes first",
        ),
        (
            format!("cn = \"a\"\npassword = \"hunter2\"\n{good}"),
            "7: listener.user.password: unknown key; known here: cn, dns, uri, name, password_file",
        ),
    ] {
        assert_eq!(refusal(&with_users(&format!("[[listener.user]]\n{keys}"))), message, "{keys}");
    }
}

#[test]
fn users_need_certificates_and_closed_servers() {
    let user = "[[listener.user]]\ncn = \"a\"\nname = \"app\"\npassword_file = \"p\"";
    let message = "5: listener.user: is of no use without client certificates: write tls.client_auth = \"required\" or \
                   \"optional\"";
    assert_eq!(refusal(&with_listener(user)), message);
    assert_eq!(refusal_of_minimal_with(TLS, &format!("plain = true\n{user}")), message);
    assert_eq!(
        refusal(&with_users(&format!("allow_unauthenticated = true\n{user}"))),
        "5: listener.allow_unauthenticated: true does not fit [[listener.user]]: on a server that asks for no password, \
         RESET would make every client its default user"
    );
}

#[test]
fn a_listener_for_strangers_is_told_about_unless_open_servers_are_allowed() {
    let warned = |bind: &str, text: String| {
        let config = parse(&text.replacen("127.0.0.1:6380", bind, 1));
        assert_eq!(config.warnings, Vec::<String>::new());
        config.to_be_probed
    };
    let expected = "/etc/ringwall.toml:2: listener.bind: \"0.0.0.0:6380\" can be reached by strangers, who need no \
                    certificate: servers are asked whether they want a password, and no client is let at one that does not. \
                    Should that be meant, write allow_unauthenticated = true";
    assert_eq!(warned("0.0.0.0:6380", MINIMAL.to_owned()), [expected]);
    let user = "[[listener.user]]\ncn = \"a\"\nname = \"app\"\npassword_file = \"p\"";
    for (bind, text) in [
        ("127.0.0.1:6380", MINIMAL.to_owned()),
        ("[::1]:6380", MINIMAL.to_owned()),
        ("0.0.0.0:6380", with_listener("allow_unauthenticated = true")),
        ("0.0.0.0:6380", with_users("")),
        ("0.0.0.0:6380", with_users(user).replacen("required", "optional", 1)),
    ] {
        assert_eq!(warned(bind, text), Vec::<String>::new(), "{bind}");
    }
    let optional = with_users("").replacen("required", "optional", 1);
    assert_eq!(warned("0.0.0.0:6380", optional), [expected]);
}

#[test]
fn servers_are_told_what_a_backend_s_keys_say() {
    assert_eq!(backend_edge(""), BackendEdge::default());
    assert_eq!(backend_edge("send_proxy = \"v1\"").send_proxy, Some(Version::V1));
    let keys = "send_proxy = \"v2\"\nclient_name = \"tls:{client_addr}\"\nclient_info = \"ringwall\"";
    let edge = BackendEdge {
        send_proxy: Some(Version::V2),
        client_name: Some(Template::parse("tls:{client_addr}").unwrap()),
        client_info: Some(Template::parse("ringwall").unwrap()),
    };
    assert_eq!(backend_edge(keys), edge);
}

#[test]
fn what_is_wrong_about_what_servers_are_told_is_named() {
    for (keys, message) in [
        ("send_proxy = true", "send_proxy: true is none of \"v1\", \"v2\""),
        ("send_proxy = \"V2\"", "send_proxy: \"V2\" is none of \"v1\", \"v2\"; did you mean \"v2\"?"),
        ("client_name = 5", "client_name: 5 is not a text; a name for connections, such as \"{client_addr}\""),
        ("client_name = \"\"", "client_name: \"\" is not a text of 1 to 128 bytes"),
        (
            "client_name = \"a b\"",
            "client_name: \"a b\" has ' ', which servers take in no name: they take ASCII without blanks",
        ),
        (
            "client_info = \"{client}\"",
            "client_info: \"{client}\" has {client}; there are {client_addr}, {client_cn} and {sni}",
        ),
    ] {
        let refusal = refusal_of_minimal_with(SERVERS, &format!("{SERVERS}\n{keys}"));
        assert_eq!(refusal, format!("9: backend.{message}"), "{keys}");
    }
}

#[test]
fn a_check_prints_all_of_it() {
    let keys = "accept_proxy = true\ntrusted_proxies = [\"10.0.0.0/28\"]\n[[listener.user]]\ncn = \"a\"\nname = \"app\"\n\
                password_file = \"p\"";
    let backend = format!("{SERVERS}\nsend_proxy = \"v2\"\nclient_name = \"{{client_addr}}\"\nclient_info = \"x\"");
    let plan = Plan(&parse(&with_users(keys).replacen(SERVERS, &backend, 1))).to_string();
    for row in [
        "  trusted_proxies     10.0.0.0/28\n",
        "  user                app for cn a, password in /etc/p\n",
        "  send_proxy          v2\n",
        "  client_name         {client_addr}\n",
        "  client_info         x\n",
    ] {
        assert!(plan.contains(row), "{row}{plan}");
    }
    let plan = Plan(&parse(&with_listener("allow_unauthenticated = true"))).to_string();
    assert!(plan.contains("  allow_unauthenticated true\n"), "{plan}");
}

#[test]
fn passwords_are_loaded_and_their_files_named_when_they_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["ringwall.example".to_owned()]).unwrap();
    for (name, text) in
        [("server.crt", made.cert.pem()), ("ca.pem", made.cert.pem()), ("server.key", made.signing_key.serialize_pem())]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let file = folder.path().join("ringwall.toml");
    let user = "[[listener.user]]\ncn = \"a\"\nname = \"app\"\npassword_file = \"app.password\"";
    std::fs::write(&file, with_users(user)).unwrap();
    let at = folder.path().display();
    let missing = Config::load(&file, &machine()).unwrap_err().to_string();
    let expected = "listener.user.password_file: ";
    assert_eq!(
        missing,
        format!(
            "{at}/ringwall.toml:8: {expected}{at}/app.password cannot be read: No such file or directory (os error 2)"
        )
    );
    std::fs::write(folder.path().join("app.password"), "hunter2\n").unwrap();
    let open = |mode| {
        let path = folder.path().join("app.password");
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        Config::load(&file, &machine())
    };
    let problem = format!(
        "{at}/ringwall.toml:8: {expected}{at}/app.password: everybody on this machine may read or change it; restrict it \
         with `chmod o-rw {at}/app.password`"
    );
    assert!(open(0o644).unwrap().0.warnings.contains(&problem));
    let strict = format!("{}\n[security]\nstrict_key_permissions = true\n", with_users(user));
    let loose = std::fs::read(&file).unwrap();
    std::fs::write(&file, strict).unwrap();
    std::fs::set_permissions(folder.path().join("server.key"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    let refused = open(0o644).unwrap_err().to_string();
    assert_eq!(refused, format!("{problem}; security.strict_key_permissions refuses such a file"));
    std::fs::write(&file, loose).unwrap();
    let (config, keyring) = open(0o640).unwrap();
    assert!(!config.warnings.contains(&problem));
    assert_eq!(keyring.passwords[0][0].bytes(), b"hunter2");
    assert!(!format!("{keyring:?}").contains("hunter2"));
}
