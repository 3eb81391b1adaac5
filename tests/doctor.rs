//! `ringwall doctor`: its screens, its exit codes, and each trouble with listeners and servers provoked for real. What it
//! thinks of machines other than this one is tested where it is judged.
#![expect(clippy::unwrap_used, reason = "in a test an unexpected error is a failure")]

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use tempfile::TempDir;

/// The answers to PING and ROLE.
const PRIMARY: [&str; 2] = ["+PONG\r\n", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"];
const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";

/// Serves one client in plain text.
fn serve(answers: impl IntoIterator<Item = impl Into<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answers: Vec<String> = answers.into_iter().map(Into::into).collect();
    thread::spawn(move || answer(listener.accept().unwrap().0, answers));
    address
}

/// Serves one client in TLS, with the certificate that lies in `folder`.
fn serve_tls(folder: &Path, answers: [&'static str; 2]) -> String {
    let chain = CertificateDer::pem_file_iter(folder.join("server.crt")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let session = ServerConnection::new(Arc::new(config)).unwrap();
        answer(StreamOwned::new(session, listener.accept().unwrap().0), answers.map(str::to_owned));
    });
    address
}

/// Gives these answers, one to each read. One ends in the middle for a server that hangs up there.
fn answer(mut stream: impl Read + Write, answers: impl IntoIterator<Item = String>) {
    for reply in answers {
        if stream.read(&mut [0; 1_024]).is_ok_and(|read| read > 0) {
            stream.write_all(reply.as_bytes()).unwrap();
        }
    }
}

struct Patient {
    folder: TempDir,
}

struct Screen {
    code: Option<i32>,
    text: String,
}

impl Patient {
    /// A folder with a certificate, its key, and a configuration with one listener.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["ringwall.example".to_owned()]).unwrap();
        fs::write(folder.path().join("server.crt"), made.cert.pem()).unwrap();
        fs::write(folder.path().join("server.key"), made.signing_key.serialize_pem()).unwrap();
        fs::set_permissions(folder.path().join("server.key"), Permissions::from_mode(0o600)).unwrap();
        Self { folder }
    }

    fn configure(&self, bind: &str, servers: &str, more: &str) {
        let text = format!(
            "[[listener]]\nname = \"public\"\nbind = \"{bind}\"\nbackend = \"valkey\"\n\
             tls = {{ certificate = \"server.crt\", private_key = \"server.key\" }}\n\
             [[backend]]\nname = \"valkey\"\nservers = [{servers}]\n{more}\n\
             [runtime]\nshards = 1\n[limits]\nmax_connections = 100\nlisten_backlog = 16\n"
        );
        fs::write(self.folder.path().join("ringwall.toml"), text).unwrap();
    }

    fn examine(&self, arguments: &[&str]) -> Screen {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringwall"));
        command.current_dir(self.folder.path()).arg("doctor").args(arguments);
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        Screen { code: output.status.code(), text: String::from_utf8(output.stdout).unwrap() }
    }

    /// A ringwall with this configuration, once it serves.
    fn run(&self) -> Serving {
        let manager = UnixDatagram::bind(self.folder.path().join("notify")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringwall"));
        command.current_dir(self.folder.path()).args(["run", "--config", "ringwall.toml"]);
        let serving = Serving(command.env("NOTIFY_SOCKET", "notify").stderr(Stdio::null()).spawn().unwrap());
        manager.recv(&mut [0; 256]).unwrap();
        serving
    }

    /// The finding about this, out of the JSON.
    fn finding(&self, what: &str) -> (String, String, String) {
        let screen = self.examine(&["--config", "ringwall.toml", "--json"]);
        let json: Value = serde_json::from_str(&screen.text).unwrap();
        let findings = json["findings"].as_array().unwrap();
        let finding =
            findings.iter().find(|finding| finding["what"] == what).unwrap_or_else(|| panic!("{}", screen.text));
        let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        (text("verdict"), text("found"), text("remedy"))
    }
}

/// The program at work, which a test that fails does not leave behind.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// What differs between machines and runs.
const DIFFERS: [&str; 11] = [
    "net.core.somaxconn",
    "kernel",
    "io_uring_disabled",
    "seccomp",
    "user",
    "clock",
    "open files",
    "locked memory",
    "cores",
    "threads",
    "memory",
];

/// A screen in which the lines of [`DIFFERS`], and remedies for them, are replaced.
fn without_the_machine(screen: &str) -> String {
    let (mut lines, mut replaced) = (Vec::new(), false);
    for line in screen.lines() {
        let is_finding = line.starts_with("  ") && !line.starts_with("   ");
        let what = line.get(7..30).map_or("", str::trim_end);
        if line.starts_with(|c: char| c != ' ') || is_finding {
            replaced = is_finding && DIFFERS.contains(&what);
            lines.push(if replaced { format!("  ...  {what}") } else { line.to_owned() });
        } else if !replaced {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}

#[test]
fn the_screen_of_a_configuration_that_is_well() {
    let patient = Patient::new();
    let server = serve(PRIMARY);
    patient.configure("127.0.0.1:0", &format!("\"{server}\""), "");
    let Screen { code, text } = patient.examine(&["--config", "ringwall.toml"]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let shown = without_the_machine(&text).replace(&server, "127.0.0.1:NNNNN");
    let (shown, ending) = shown.split_once("\n\n").or_else(|| shown.split_once("primary\n")).unwrap();
    let between =
        |before: &str, after: &str| shown.split_once(before).unwrap().1.split_once(after).unwrap().0.to_owned();
    let (days, took) = (between("4096-01-01:", " days"), between("reached in ", " ms"));
    assert_eq!(
        shown.replace(&format!("4096-01-01:{days} days"), "4096-01-01: N days").replace(&format!("in {took}"), "in N"),
        "\
machine
  ...  kernel
  ok   io_uring               does all that is needed
  ok   io_uring restrictions  rings are held to the operations in use
  ...  io_uring_disabled
  ...  seccomp
  ...  user
  ...  clock
limits
  ...  open files
  ...  locked memory
  ...  net.core.somaxconn
  ...  cores
  ...  threads
  ...  memory
configuration
  ok   configuration          valid; listeners: 1, backends: 1
  ok   certificate server.crt ringwall.example, 1 certificate, until 4096-01-01: N days
  ok   private key server.key its owner alone may use it
  ok   tickets of public      sealed with a secret of each start
listeners
  ok   public                 127.0.0.1:0 is free
servers
  ok   valkey 127.0.0.1:NNNNN reached in N ms, PONG, primary"
    );
    assert!(ending.starts_with(if code == Some(0) { "Nothing needs" } else { "ringwall can serve, " }), "{text}");
    // Root needs attention, and so may this machine.
    assert!([Some(0), Some(2)].contains(&code), "{text}");
}

#[test]
fn without_a_configuration_the_machine_alone_is_looked_at() {
    let Screen { code, text } = Patient::new().examine(&[]);
    assert!(text.starts_with("machine\n") && text.contains("\nlimits\n") && !text.contains("servers"), "{text}");
    assert!([Some(0), Some(2)].contains(&code), "{text}");
}

#[test]
fn a_configuration_that_is_refused_is_exit_code_1() {
    let patient = Patient::new();
    patient.configure("127.0.0.1", "", "");
    let Screen { code, text } = patient.examine(&["--config", "ringwall.toml"]);
    assert_eq!(code, Some(1), "{text}");
    let refusal = "configuration\n  FAIL ringwall.toml          ringwall.toml:8: backend.servers: [] is empty:\n";
    assert!(text.contains(refusal), "{text}");
    assert!(text.ends_with("ringwall cannot serve: 1 thing has to be mended.\n"), "{text}");
}

#[test]
fn locked_memory_that_is_too_little_is_exit_code_1() {
    let patient = Patient::new();
    patient.configure("127.0.0.1:0", "\"unix:/nowhere\"", "");
    let mut command = Command::new("setpriv");
    // Root may lock what it likes.
    if rustix::process::geteuid().is_root() {
        command.args(["--inh-caps", "-all", "--bounding-set", "-all", "--reuid", "65534", "--clear-groups"]);
    }
    let program = patient.folder.path().join("ringwall");
    fs::copy(env!("CARGO_BIN_EXE_ringwall"), &program).unwrap();
    fs::set_permissions(patient.folder.path(), Permissions::from_mode(0o755)).unwrap();
    command.args(["--", "prlimit", "--memlock=0:0"]).arg(program).arg("doctor");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("\n  FAIL io_uring               setting up a ring (io_uring_setup) failed:"), "{text}");
    assert!(text.contains("LimitMEMLOCK=infinity"), "{text}");
}

#[test]
fn a_listener_s_address_is_free_in_use_or_not_to_be_had() {
    let patient = Patient::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    patient.configure(&address, "\"unix:/nowhere\"", "");
    let (verdict, found, remedy) = patient.finding("public");
    assert_eq!((&*verdict, found), ("warn", format!("{address} is in use")));
    assert!(remedy.contains("ss -ltnp"));
    // Of the addresses for documentation (RFC 5737): no machine has it.
    patient.configure("192.0.2.1:6380", "\"unix:/nowhere\"", "");
    let (verdict, found, remedy) = patient.finding("public");
    assert_eq!((&*verdict, &*found), ("fail", "192.0.2.1:6380: Cannot assign requested address (os error 99)"));
    assert!(remedy.contains("ip address"));
}

#[test]
fn a_server_without_a_password_behind_an_open_listener_needs_attention() {
    let patient = Patient::new();
    patient.configure("0.0.0.0:0", &format!("\"{}\"", serve(PRIMARY)), "");
    let (verdict, found, _) = patient.finding("clients of public");
    let all = "everybody who reaches it may do everything: its servers want no password";
    assert_eq!((&*verdict, &*found), ("warn", all));
    let guarded = serve([NOAUTH, NOAUTH]);
    patient.configure("0.0.0.0:0", &format!("\"{guarded}\""), "");
    let screen = patient.examine(&["--config", "ringwall.toml"]).text;
    assert!(!screen.contains("clients of public"), "{screen}");
}

#[test]
fn listeners_in_front_of_the_same_open_server_are_named_together() {
    let patient = Patient::new();
    patient.configure("0.0.0.0:0", &format!("\"{}\"", serve(PRIMARY)), "");
    let file = patient.folder.path().join("ringwall.toml");
    let second = "[[listener]]\nname = \"second\"\nbind = \"[::]:0\"\nbackend = \"valkey\"\n\
                  tls = { certificate = \"server.crt\", private_key = \"server.key\" }\n";
    let third = second.replace("second", "third").replace("[::]", "[::1]");
    fs::write(&file, fs::read_to_string(&file).unwrap() + second + &third).unwrap();
    let (verdict, found, _) = patient.finding("clients of public, second");
    let all = "everybody who reaches it may do everything: its servers want no password";
    assert_eq!((&*verdict, &*found), ("warn", all));
}

#[test]
fn the_password_of_health_checks_is_tried() {
    let patient = Patient::new();
    let password = patient.folder.path().join("password");
    fs::write(&password, "hunter-two\n").unwrap();
    fs::set_permissions(&password, Permissions::from_mode(0o640)).unwrap();
    let check = "health_check = { type = \"role\", password_file = \"password\" }";
    let examine = |auth: &str, role: &str| {
        let server = serve([NOAUTH, auth, role]);
        patient.configure("127.0.0.1:0", &format!("\"{server}\""), check);
        patient.finding(&format!("valkey {server}"))
    };
    let (verdict, found, _) = examine("+OK\r\n", PRIMARY[1]);
    assert!(verdict == "ok" && found.ends_with(" ms, wants a password, primary"), "{found}");
    let (verdict, found, remedy) = examine("-WRONGPASS invalid username-password pair\r\n", NOAUTH);
    assert!(
        verdict == "warn" && found.contains("health checks cannot log in: it does not take the password"),
        "{found}"
    );
    assert!(remedy.contains("health_check") && !found.contains("hunter"), "{found}: {remedy}");
    let (verdict, found, _) = patient.finding("password password");
    assert_eq!((&*verdict, &*found), ("ok", "its owner and its group may use it"));
}

#[test]
fn sentinels_are_asked_for_the_primary_and_the_primary_for_its_role() {
    let patient = Patient::new();
    let examine = |answer: String, what: &str| {
        let sentinel = serve([answer]);
        patient.configure("127.0.0.1:0", "", "");
        let file = patient.folder.path().join("ringwall.toml");
        let table = format!("sentinel = {{ addresses = [\"{sentinel}\"], name = \"mymaster\" }}");
        fs::write(&file, fs::read_to_string(&file).unwrap().replace("servers = []", &table)).unwrap();
        patient.finding(&what.replace("SENTINEL", &format!("Sentinel {sentinel}")))
    };
    let names = |primary: &str| {
        let (host, port) = primary.split_once(':').unwrap();
        format!("*2\r\n${}\r\n{host}\r\n${}\r\n{port}\r\n", host.len(), port.len())
    };
    let primary = serve(PRIMARY);
    let (verdict, found, _) = examine(names(&primary), &format!("valkey {primary}"));
    assert!(verdict == "ok" && found.ends_with(" ms, PONG, primary"), "{found}");
    let primary = serve(PRIMARY);
    let (verdict, found, _) = examine(names(&primary), "valkey SENTINEL");
    assert_eq!((&*verdict, found), ("ok", format!("names the primary: {primary}")));
    let (verdict, found, remedy) = examine("*-1\r\n".to_owned(), "valkey SENTINEL");
    assert_eq!((&*verdict, &*found), ("warn", "knows no primary by this name"));
    assert!(remedy.contains("sentinel.name"), "{remedy}");
    let (verdict, found, _) = examine(NOAUTH.to_owned(), "valkey SENTINEL");
    assert!(verdict == "warn" && found.contains("it asks for a password (NOAUTH)"), "{found}");
}

#[test]
fn addresses_to_connect_from_are_tried() {
    let patient = Patient::new();
    let sources = "source_addresses = [\"127.0.0.2\", \"192.0.2.1\"]";
    patient.configure("127.0.0.1:0", &format!("\"{}\"", serve(PRIMARY)), sources);
    let (verdict, found, _) = patient.finding("valkey from 127.0.0.2");
    assert_eq!((&*verdict, &*found), ("ok", "an address of this machine"));
    let (verdict, found, remedy) = patient.finding("valkey from 192.0.2.1");
    assert_eq!((&*verdict, &*found), ("fail", "Cannot assign requested address (os error 99)"));
    assert!(remedy.contains("ip address"));
}

#[test]
fn servers_that_are_not_there_are_told_apart() {
    let patient = Patient::new();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let dead = patient.folder.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let cases = [
        (gone.to_string(), "Connection refused (os error 111)", "start the server, or write the port"),
        ("unix:/nowhere".to_owned(), "No such file", "start the server, or write the path"),
        (
            format!("unix:{}", dead.display()),
            "Connection refused (os error 111)",
            "its socket is there, and nobody answers",
        ),
    ];
    for (server, problem, advice) in cases {
        patient.configure("127.0.0.1:0", &format!("\"{server}\""), "");
        // Its name is its address, which is said once.
        let (verdict, found, remedy) = patient.finding(&format!("valkey {server}"));
        assert_eq!(verdict, "warn");
        assert!(found.starts_with(problem), "{found}");
        assert!(remedy.contains(advice), "{remedy}");
        patient.configure("127.0.0.1:0", &format!("{{ address = \"{server}\", name = \"a\" }}"), "");
        let (_, found, _) = patient.finding("valkey a");
        assert!(found.starts_with(&format!("{server}: {problem}")), "{found}");
    }
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_beyond_the_timeout() {
    let patient = Patient::new();
    // Connections wait in its queue.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    patient.configure("127.0.0.1:0", &format!("\"{address}\""), "");
    let file = patient.folder.path().join("ringwall.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap() + "connect_timeout = \"100ms\"\n").unwrap();
    let (verdict, found, remedy) = patient.finding(&format!("valkey {address}"));
    assert_eq!((&*verdict, &*found), ("warn", "no answer within 0.1 s"));
    assert!(remedy.contains("firewalls"));
    drop(TcpStream::connect(address));
}

#[test]
fn tls_to_a_server_is_tried_as_the_backend_has_it() {
    let patient = Patient::new();
    let folder = patient.folder.path();
    let tls = "tls = { ca = \"server.crt\", server_name = \"ringwall.example\" }";
    let check = |server: String, tls: &str| {
        patient.configure("127.0.0.1:0", &format!("\"{server}\""), tls);
        patient.finding(&format!("valkey {server}"))
    };
    let (verdict, found, _) = check(serve_tls(folder, PRIMARY), tls);
    assert_eq!(verdict, "ok");
    assert!(found.ends_with(" ms, TLSv1.3 X25519MLKEM768, PONG, primary"), "{found}");
    let (verdict, found, remedy) = check(serve_tls(folder, PRIMARY), &tls.replace("ringwall.", "other."));
    assert_eq!(verdict, "warn");
    assert!(found.contains("TLS: ") && remedy.contains("server_name"), "{found}: {remedy}");
    // Either side takes the other for one that speaks as it does.
    let (verdict, found, remedy) = check(serve(["-ERR plain\r\n", ""]), tls);
    assert_eq!(verdict, "warn");
    assert!(found.contains("TLS: ") && remedy.contains("if its port speaks no TLS"), "{found}: {remedy}");
    let (verdict, found, remedy) = check(serve_tls(folder, PRIMARY), "");
    assert_eq!(verdict, "warn");
    assert!(found.contains("no reply of RESP") && remedy.contains("if its port speaks TLS"), "{found}: {remedy}");
}

#[test]
fn an_expired_certificate_and_an_open_key_need_attention() {
    let patient = Patient::new();
    let at = |name: &str| patient.folder.path().join(name);
    let mut params = rcgen::CertificateParams::new(vec!["ringwall.example".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(at("server.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(at("server.key"), key.serialize_pem()).unwrap();
    fs::set_permissions(at("server.key"), Permissions::from_mode(0o644)).unwrap();
    patient.configure("127.0.0.1:0", "\"unix:/nowhere\"", "");
    let Screen { code, text } = patient.examine(&["--config", "ringwall.toml"]);
    assert_eq!(code, Some(2), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("warn configuration ringwall.toml:5: listener.tls: certificate server.crt:"), "{text}");
    assert!(flat.contains("-> restrict it with `chmod o-rw server.key`"), "{text}");
}

#[test]
fn a_ringwall_that_serves_is_told_from_one_that_does_not() {
    let patient = Patient::new();
    // A port that is free, or was a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    patient.configure(&address.to_string(), "\"unix:/nowhere\"", "");
    let live = ["--live", "--config", "ringwall.toml"];
    let Screen { code, text } = patient.examine(&live);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&format!("  FAIL public                 {address}: Connection refused")), "{text}");
    let serving = patient.run();
    let Screen { code, text } = patient.examine(&live);
    drop(serving);
    let expected = format!("listeners\n  ok   public                 {address} serves\n\nNothing needs attention.\n");
    assert_eq!((code, text), (Some(0), expected));
}

#[test]
fn beside_a_ringwall_that_runs_its_ports_and_its_socket_are_its_own() {
    let patient = Patient::new();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let socket = patient.folder.path().join("admin.sock");
    patient.configure(&address.to_string(), "\"unix:/nowhere\"", "");
    let file = patient.folder.path().join("ringwall.toml");
    let admin = format!("[admin]\nlisten = \"unix:{}\"\n", socket.display());
    fs::write(&file, fs::read_to_string(&file).unwrap() + &admin).unwrap();
    let at =
        |found: &str| found.replace(&socket.display().to_string(), "SOCKET").replace(&address.to_string(), "ADDRESS");
    let found = |what: &str| {
        let (verdict, found, _) = patient.finding(what);
        (verdict, at(&found))
    };
    let ok = |found: &str| ("ok".to_owned(), found.to_owned());
    assert_eq!((found("public"), found("administrators")), (ok("ADDRESS is free"), ok("unix:SOCKET is free")));
    let serving = patient.run();
    let beside = (found("public"), found("administrators"));
    drop(serving);
    let served = ok("ADDRESS is served by the ringwall that runs");
    assert_eq!(beside, (served, ok("unix:SOCKET answers: a ringwall runs")));
}
