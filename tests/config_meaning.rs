//! What configuration files mean: the shipped ones, every key, and what follows where a key is left out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringwall::config::{
    Admin, Admission, Coalesce, Config, Limits, Listener, ListenerEdge, Log, LogFormat, LogLevel, LogTarget, Machine,
    Pair, Runtime, Server, SessionLimits, Tls, Unreachable,
};
use ringwall::dispatcher::Rates;
use ringwall::io::Address;
use ringwall::roster::balance::Balance;
use ringwall::shard::{BackendEdge, BackendOptions};
use ringwall::tls::{ClientAuth, ClientRules, Coverage, Policy, Version};

mod config_support;
use config_support::{MINIMAL, REFERENCE, machine, parse_on};

fn parse(text: &str) -> Result<Config, String> {
    parse_on(&machine(), text)
}

/// The minimal file's listener with `keys` in its `tls` table.
fn policy_of(keys: &str) -> Policy {
    let text = MINIMAL.replacen("private_key = \"server.key\"", &format!("private_key = \"server.key\", {keys}"), 1);
    parse(&text).expect("valid keys").listeners.remove(0).tls.expect("a listener with TLS").policy
}

/// A log of which nothing else is said.
fn logged(format: LogFormat, level: LogLevel, sessions: bool) -> Log {
    Log { target: LogTarget::Stderr, format, level, sessions, sample: 1, failures_per_second: 20 }
}

fn pair(certificate: &str, private_key: &str) -> Pair {
    Pair { certificate: PathBuf::from(certificate), private_key: PathBuf::from(private_key), ocsp: None }
}

fn suites(policy: &Policy) -> Vec<&'static str> {
    policy.cipher_suites.iter().map(|suite| suite.name()).collect()
}

fn groups(policy: &Policy) -> Vec<&'static str> {
    policy.groups.iter().map(|group| group.name()).collect()
}

#[test]
fn the_least_that_starts_stays_as_it_is() {
    assert_eq!(
        MINIMAL,
        r#"[[listener]]
bind = "127.0.0.1:6380"
backend = "valkey"
tls = { certificate = "server.crt", private_key = "server.key" }

[[backend]]
name = "valkey"
servers = ["127.0.0.1:6379"]
"#
    );
}

#[test]
fn the_least_that_starts_means_the_defaults() {
    let config = parse(MINIMAL).unwrap();
    assert_eq!(
        config.listeners,
        [Listener {
            name: "127.0.0.1:6380".into(),
            bind: "127.0.0.1:6380".parse().unwrap(),
            backend: 0,
            tls: Some(Tls {
                certificates: vec![pair("/etc/server.crt", "/etc/server.key")],
                cert_dir: None,
                policy: Policy::default(),
                client_auth: None,
                ticket_secret: None,
            }),
            admission: Admission {
                max_connections: 10_000,
                max_connections_per_source: None,
                connection_rates: Rates { total: None, per_source: None },
                handshake_rates: Rates { total: None, per_source: None },
                allow: vec![],
                deny: vec![],
            },
            listen_backlog: 4_096,
            session: SessionLimits {
                idle_timeout: None,
                half_close_timeout: Duration::from_secs(30),
                max_lifetime: None,
                tcp_user_timeout: Some(Duration::from_secs(300)),
                send_buffer: 262_144,
                coalesce: Coalesce::Bytes(65_536),
            },
            unreachable: Unreachable::Error,
            multiplex: None,
            edge: ListenerEdge::default(),
        }]
    );
    let [backend] = &config.backends[..] else { panic!("{:?}", config.backends) };
    let server = Server::at(Address::Tcp("127.0.0.1:6379".parse().unwrap()));
    assert_eq!((server.weight, server.backup, server.connections_max), (1, false, None));
    assert_eq!((&*backend.name, &backend.tls, backend.servers().collect::<Vec<_>>()), ("valkey", &None, vec![server]));
    let options = BackendOptions {
        balance: Balance::RoundRobin,
        retries: None,
        queue_timeout: Duration::from_secs(5),
        sources: vec![],
    };
    assert_eq!(backend.edge, BackendEdge::default());
    assert_eq!((&backend.options, backend.queue_max, backend.resolve_interval), (&options, 1_024, None));
    assert_eq!(config.runtime, Runtime { cores: vec![0, 1, 2, 3], dispatcher_core: None });
    assert_eq!(
        config.limits,
        Limits {
            max_connections: 10_000,
            listen_backlog: 4_096,
            handshake_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            idle_timeout: None,
            half_close_timeout: Duration::from_secs(30),
            max_lifetime: None,
            shutdown_timeout: Duration::from_secs(30),
            tcp_keepalive: Some(Duration::from_secs(60)),
            tcp_user_timeout: Some(Duration::from_secs(300)),
            send_buffer: 262_144,
            shard_memory: 268_435_456,
            max_handshakes: 1_024,
        }
    );
    assert_eq!(config.coalesce, Coalesce::Bytes(65_536));
    assert_eq!(config.log, logged(LogFormat::Text, LogLevel::Info, true));
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn administrators_are_let_in_where_the_file_says_so() {
    let admin = |text: &str| parse(&format!("{MINIMAL}{text}")).unwrap().admin;
    let unix = |path: &str| Address::Unix(PathBuf::from(path));
    let default = Admin { listen: unix("/run/ringwall/admin.sock"), socket_mode: 0o600, allow_changes: false };
    assert_eq!(admin(""), None);
    assert_eq!(admin("[admin]"), Some(default.clone()));
    assert_eq!(parse(REFERENCE).unwrap().admin, Some(default));
    assert_eq!(
        admin("[admin]\nlisten = \"unix:/tmp/a.sock\"\nsocket_mode = \"0660\"\nallow_changes = true"),
        Some(Admin { listen: unix("/tmp/a.sock"), socket_mode: 0o660, allow_changes: true })
    );
    let tcp = Address::Tcp("[::1]:0".parse().unwrap());
    let expected = Admin { listen: tcp, socket_mode: 0o600, allow_changes: false };
    assert_eq!(admin("[admin]\nlisten = \"[::1]:0\"\nallow_changes = false"), Some(expected));
}

#[test]
fn the_reference_as_it_stands_means_the_defaults_too() {
    let (reference, minimal) = (parse(REFERENCE).unwrap(), parse(MINIMAL).unwrap());
    assert_eq!(reference.limits, minimal.limits);
    assert_eq!(reference.runtime, minimal.runtime);
    assert_eq!(reference.security, minimal.security);
    assert_eq!(reference.coalesce, minimal.coalesce);
    assert_eq!(reference.log, minimal.log);
    assert_eq!(reference.backends, minimal.backends);
    assert_eq!(reference.warnings, Vec::<String>::new());
}

#[test]
fn each_key_of_the_reference_says_its_default_or_that_it_is_required() {
    let mut comment = String::new();
    let mut keys = 0;
    for line in REFERENCE.lines() {
        let bare = line.trim_start_matches("# ");
        match bare.split_once(" = ") {
            Some((key, value)) if key.chars().all(|c| c.is_ascii_lowercase() || c == '_') => {
                keys += 1;
                let required = comment.contains("Required");
                assert!(required || comment.contains("Default: "), "{key}: {comment}");
                if !required && line == bare && key != "name" {
                    assert!(comment.contains(&format!("Default: {value}.")), "{key} = {value}: {comment}");
                }
                comment.clear();
            }
            Some(_) | None if line.starts_with('#') => comment = format!("{comment} {bare}"),
            Some(_) | None => comment.clear(),
        }
    }
    assert_eq!(keys, 118);
}

#[test]
fn every_key_takes_what_the_reference_says() {
    let config = parse(
        r#"
[[listener]]
name = "public"
bind = "[::]:6380"
backend = "unix"
tls = { certificate = "tls/a.crt", private_key = "/keys/a.key" }
max_connections = 7

[[listener]]
bind = "valkey.example:0"
backend = "names"
[listener.tls]
certificate = "b.crt"
private_key = "b.key"

[[backend]]
name = "names"
servers = ["pair.example:6379", "[::1]:6379"]

[[backend]]
name = "unix"
servers = ["unix:/run/valkey.sock"]

[runtime]
cores = [3, 1]
dispatcher_core = 0

[limits]
max_connections = 9
listen_backlog = 16
handshake_timeout = "100ms"
connect_timeout = "2m"
idle_timeout = "168h"
half_close_timeout = "1h"
max_lifetime = "8760h"
shutdown_timeout = "0s"
tcp_keepalive = "off"
tcp_user_timeout = "off"
send_buffer = 65536
shard_memory = "1GiB"

[coalesce]
bytes = "off"

[log]
target = "/var/log/ringwall.log"
format = "json"
level = "warn"
sessions = false
"#,
    )
    .unwrap();
    let [public, second] = &config.listeners[..] else { panic!("{:?}", config.listeners) };
    assert_eq!((&*public.name, public.backend, public.admission.max_connections), ("public", 1, 7));
    let (public_tls, second_tls) = (public.tls.as_ref().unwrap(), second.tls.as_ref().unwrap());
    assert_eq!(public_tls.certificates, [pair("/etc/tls/a.crt", "/keys/a.key")]);
    assert_eq!((&public_tls.cert_dir, public_tls.policy.strict_sni), (&None, false));
    assert_eq!((&*second.name, second.backend, second.admission.max_connections), ("valkey.example:0", 0, 9));
    assert_eq!(second.bind, "10.0.0.1:0".parse().unwrap());
    assert_eq!(second_tls.certificates, [pair("/etc/b.crt", "/etc/b.key")]);
    let server = |name: &str, at: &str| Server { name: name.into(), ..Server::at(Address::Tcp(at.parse().unwrap())) };
    assert_eq!(
        config.backends[0].servers().collect::<Vec<_>>(),
        [
            server("pair.example:6379", "10.0.0.1:6379"),
            server("pair.example:6379", "10.0.0.2:6379"),
            server("[::1]:6379", "[::1]:6379"),
        ]
    );
    assert_eq!(config.backends[1].servers().next().unwrap().address, Address::Unix("/run/valkey.sock".into()));
    assert_eq!(config.runtime, Runtime { cores: vec![3, 1], dispatcher_core: Some(0) });
    assert_eq!(config.limits.handshake_timeout, Duration::from_millis(100));
    assert_eq!(config.limits.connect_timeout, Duration::from_secs(120));
    assert_eq!(config.limits.idle_timeout, Some(Duration::from_secs(604_800)));
    assert_eq!(config.limits.shutdown_timeout, Duration::ZERO);
    assert_eq!((config.limits.tcp_keepalive, config.limits.tcp_user_timeout), (None, None));
    assert_eq!((config.limits.send_buffer, config.limits.shard_memory), (65_536, 1_073_741_824));
    assert_eq!(config.coalesce, Coalesce::Off);
    let target = LogTarget::File("/var/log/ringwall.log".into());
    assert_eq!(config.log, Log { target, ..logged(LogFormat::Json, LogLevel::Warn, false) });
}

#[test]
fn every_key_of_tls_takes_what_the_reference_says() {
    let one = "tls = { certificate = \"server.crt\", private_key = \"server.key\" }";
    let keys = r#"[listener.tls]
certificate = "b.crt"
private_key = "b.key"
ocsp = "b.ocsp"
certificates = [{ certificate = "c.crt", private_key = "/keys/c.key", ocsp = "/c.ocsp" }, { certificate = "d", private_key = "d" }]
cert_dir = "certs"
strict_sni = true
min_version = "1.2"
max_version = "1.2"
cipher_suites = ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
groups = ["secp384r1", "x25519"]
alpn = ["redis", "resp"]
ticket_secret = "tickets.secret"
"#;
    let tls = parse(&MINIMAL.replacen(one, keys, 1)).unwrap().listeners.remove(0).tls.unwrap();
    let with_ocsp = |pair, file| Pair { ocsp: Some(PathBuf::from(file)), ..pair };
    assert_eq!(
        tls.certificates,
        [
            with_ocsp(pair("/etc/b.crt", "/etc/b.key"), "/etc/b.ocsp"),
            with_ocsp(pair("/etc/c.crt", "/keys/c.key"), "/c.ocsp"),
            pair("/etc/d", "/etc/d")
        ]
    );
    assert_eq!(tls.cert_dir.as_deref(), Some(Path::new("/etc/certs")));
    assert_eq!(tls.ticket_secret.as_deref(), Some(Path::new("/etc/tickets.secret")));
    let policy = &tls.policy;
    assert!(policy.strict_sni);
    assert_eq!((policy.version_min, policy.version_max), (Version::Tls12, Version::Tls12));
    assert_eq!(suites(policy), ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]);
    assert_eq!(groups(policy), ["secp384r1", "x25519"]);
    assert_eq!(policy.alpn, ["redis".into(), "resp".into()]);
}

#[test]
fn every_key_about_clients_takes_what_the_reference_says() {
    let one = "private_key = \"server.key\" }";
    let tls = |keys: &str| {
        let text = MINIMAL.replacen(one, &format!("private_key = \"server.key\", {keys} }}"), 1);
        parse(&text).unwrap().listeners.remove(0).tls.unwrap().client_auth
    };
    let least = ClientAuth {
        required: true,
        authorities: PathBuf::from("/etc/ca.pem"),
        revocation_lists: vec![],
        coverage: Coverage::Chain,
        rules: ClientRules::default(),
    };
    assert_eq!(tls("client_auth = \"required\", client_ca = \"ca.pem\""), Some(least.clone()));
    assert_eq!(tls("client_auth = \"none\""), None);
    let key = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
    let keys = format!(
        "client_auth = \"optional\", client_ca = \"/ca.pem\", client_crl = [\"a.crl\", \"/b.crl\"], client_crl_coverage = \
         \"leaf\", allowed_cn = [\"worker\"], allowed_dns = [\"a.test\", \"*.b.test\"], allowed_uri = [\"spiffe://a/b\", \
         \"spiffe://a/**\"], allowed_spki = [\"{key}\"]"
    );
    let half = [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
    let rules = ClientRules {
        common_names: vec!["worker".into()],
        dns_names: vec!["a.test".into(), "*.b.test".into()],
        uris: vec!["spiffe://a/b".into(), "spiffe://a/**".into()],
        keys: vec![[half, half].concat().try_into().unwrap()],
    };
    let most = ClientAuth {
        required: false,
        authorities: PathBuf::from("/ca.pem"),
        revocation_lists: vec![PathBuf::from("/etc/a.crl"), PathBuf::from("/b.crl")],
        coverage: Coverage::Leaf,
        rules,
    };
    assert_eq!(tls(&keys), Some(most));
    let available = tls(&keys.replace("\"leaf\"", "\"available\"")).unwrap().coverage;
    assert_eq!(available, Coverage::Available);
}

#[test]
fn a_listener_offers_what_its_versions_have() {
    let tls13 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
    let tls12 = [
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ];
    let both = policy_of("min_version = \"1.2\"");
    assert_eq!(suites(&both), [&tls13[..], &tls12].concat());
    assert_eq!(groups(&both), ["X25519MLKEM768", "x25519", "secp256r1", "secp384r1"]);
    assert_eq!(both, Policy::default());
    assert_eq!(suites(&policy_of("min_version = \"1.3\"")), tls13);
    assert_eq!(suites(&policy_of("max_version = \"1.2\"")), tls12);
}

#[test]
fn requiring_post_quantum_key_exchange_leaves_tls13_and_its_groups() {
    let policy = policy_of("require_pq = true");
    assert_eq!((policy.version_min, policy.version_max), (Version::Tls13, Version::Tls13));
    assert_eq!(groups(&policy), ["X25519MLKEM768"]);
    assert_eq!(groups(&policy_of("require_pq = true, groups = [\"MLKEM1024\"]")), ["MLKEM1024"]);
}

#[test]
fn a_listener_may_have_its_certificates_in_a_list_or_a_folder_only() {
    let tls = |keys: &str| {
        let one = "certificate = \"server.crt\", private_key = \"server.key\"";
        parse(&MINIMAL.replacen(one, keys, 1)).unwrap().listeners.remove(0).tls.unwrap()
    };
    let listed = tls("certificates = [{ certificate = \"a.crt\", private_key = \"a.key\" }]");
    assert_eq!((listed.certificates, listed.cert_dir), (vec![pair("/etc/a.crt", "/etc/a.key")], None));
    let folder = tls("cert_dir = \"/certs\"");
    assert_eq!((folder.certificates, folder.cert_dir), (vec![], Some(PathBuf::from("/certs"))));
}

#[test]
fn coalescing_can_be_without_bound() {
    let config = parse(&format!("{MINIMAL}[coalesce]\nbytes = \"unbounded\"\n")).unwrap();
    assert_eq!(config.coalesce, Coalesce::Unbounded);
}

#[test]
fn shards_share_cores_when_there_are_more_of_them() {
    let config = parse(&format!("{MINIMAL}[runtime]\nshards = 6\n")).unwrap();
    assert_eq!(config.runtime.cores, [0, 1, 2, 3, 0, 1]);
}

#[test]
fn the_dispatcher_s_core_is_left_to_it() {
    let config = parse(&format!("{MINIMAL}[runtime]\ndispatcher_core = 2\n")).unwrap();
    assert_eq!(config.runtime, Runtime { cores: vec![0, 1, 3], dispatcher_core: Some(2) });
    let single = Machine { cores: vec![5], ..machine() };
    let config = parse_on(&single, &format!("{MINIMAL}[runtime]\ndispatcher_core = 5\n")).unwrap();
    assert_eq!(config.runtime, Runtime { cores: vec![5], dispatcher_core: Some(5) });
}

#[test]
fn an_unused_backend_is_a_warning() {
    let config = parse(&format!("{MINIMAL}\n[[backend]]\nname = \"spare\"\nservers = [\"unix:/s\"]\n")).unwrap();
    assert_eq!(config.warnings, ["/etc/ringwall.toml:10: backend: \"spare\" is used by no listener; leave it out"]);
}
