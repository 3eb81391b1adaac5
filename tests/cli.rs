//! The real program at its command line: what it prints, and its exit codes.

use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Lines, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use ringwall::server::StartError;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const CONFIG: &str = r#"[[listener]]
name = "public"
bind = "127.0.0.1:0"
backend = "valkey"
tls = { certificate = "server.crt", private_key = "server.key" }

[[backend]]
name = "valkey"
servers = ["127.0.0.1:6379", "unix:/run/valkey.sock"]

[limits]
max_connections = 100
shutdown_timeout = "1s"

[runtime]
shards = 2
"#;

/// What `check` has nothing to say about: a port that clients know, and servers at no unix socket, which may not be there.
fn checked_config() -> String {
    CONFIG.replace("127.0.0.1:0", "127.0.0.1:6380").replace("unix:/run/valkey.sock", "127.0.0.1:6378")
}

/// A folder with `ringwall.toml` and the files it names.
fn folder_with(config: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the folder takes a file");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("own file");
    };
    let made = rcgen::generate_simple_self_signed(vec!["ringwall.example".to_owned()]).expect("a certificate");
    write("server.crt", &made.cert.pem());
    write("server.key", &made.signing_key.serialize_pem());
    write("ringwall.toml", config);
    folder
}

/// The program, to be run in `folder`.
fn ringwall(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringwall"));
    command.current_dir(folder).args(arguments).env_remove("RINGWALL_LOG").env_remove("NOTIFY_SOCKET");
    command
}

struct Printed {
    code: Option<i32>,
    output: String,
    errors: String,
}

fn printed(command: &mut Command) -> Printed {
    let output = command.output().expect("the program runs");
    Printed {
        code: output.status.code(),
        output: String::from_utf8(output.stdout).expect("text"),
        errors: String::from_utf8(output.stderr).expect("text"),
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let folder = tempfile::tempdir().unwrap();
    let printed = printed(&mut ringwall(folder.path(), &["--version"]));
    assert_eq!((printed.code, &*printed.output), (Some(0), "ringwall 0.1.0\n"));
}

#[test]
fn wrong_arguments_are_exit_code_2_and_say_how_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&[][..], &["check"], &["run"], &["serve", "--config", "x"], &["run", "--config"]] {
        let printed = printed(&mut ringwall(folder.path(), arguments));
        assert_eq!(printed.code, Some(2), "{arguments:?}");
        assert!(printed.errors.contains("--help"), "{arguments:?}: {}", printed.errors);
    }
}

#[test]
fn a_valid_configuration_is_told_what_it_means() {
    let folder = folder_with(&checked_config());
    let printed = printed(&mut ringwall(folder.path(), &["check", "--config", "ringwall.toml"]));
    let core = printed.output.split_once("cores               ").unwrap().1.split_once('\n').unwrap().0.to_owned();
    assert_eq!(
        printed.output.replace(&format!("cores               {core}"), "cores               N, N"),
        "\
ringwall.toml: valid
listener public
  bind                127.0.0.1:6380
  backend             valkey
  max_connections     100
  certificate         server.crt
  private key         server.key
  strict_sni          false
  tls versions        1.2, 1.3
  cipher suite        TLS_AES_128_GCM_SHA256
  cipher suite        TLS_AES_256_GCM_SHA384
  cipher suite        TLS_CHACHA20_POLY1305_SHA256
  cipher suite        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
  cipher suite        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
  cipher suite        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
  cipher suite        TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
  cipher suite        TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
  cipher suite        TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
  groups              X25519MLKEM768, x25519, secp256r1, secp384r1
  client_auth         none
backend valkey
  server              127.0.0.1:6379
  server              127.0.0.1:6378
  balance             roundrobin
  retries             every other server
  tls                 none: servers are spoken to in plain text
runtime
  shards              2
  cores               N, N
  dispatcher_core     any
limits
  max_connections     100
  listen_backlog      4096
  handshake_timeout   10s
  connect_timeout     5s
  idle_timeout        off
  half_close_timeout  30s
  max_lifetime        off
  shutdown_timeout    1s
  tcp_keepalive       1m
  tcp_user_timeout    5m
  send_buffer         256KiB
  shard_memory        256MiB
coalesce
  bytes               64KiB
log
  target              stderr
  format              text
  level               info
  sessions            true
  sample              1
  failures_per_second 20
needs at most
  open files          337
  session memory      816KiB
  shard memory        256MiB
  all shards          512MiB
"
    );
    assert_eq!((printed.code, &*printed.errors), (Some(0), ""));
}

#[test]
fn a_host_name_is_shown_with_its_address() {
    let folder = folder_with(&CONFIG.replace("unix:/run/valkey.sock", "localhost:6379"));
    let printed = printed(&mut ringwall(folder.path(), &["check", "--config", "ringwall.toml"]));
    assert!(
        printed.output.contains("\n  server              localhost:6379 at 127.0.0.1:6379\n"),
        "{}",
        printed.output
    );
}

#[test]
fn what_is_said_of_servers_is_shown() {
    let servers = "servers = [{ address = \"127.0.0.1:6379\", name = \"a\", weight = 3, max_connections = 9 }, \
                   { address = \"localhost:6379\", backup = true }]\nbalance = \"leastconn\"\nretries = 2\n\
                   source_addresses = [\"127.0.0.2\"]\nresolve_interval = \"1m\"";
    let config = CONFIG.replace("servers = [\"127.0.0.1:6379\", \"unix:/run/valkey.sock\"]", servers);
    let printed = printed(&mut ringwall(folder_with(&config).path(), &["check", "--config", "ringwall.toml"]));
    let block = "backend valkey
  server              a at 127.0.0.1:6379
  weight              3
  max_connections     9
  server              localhost:6379 at 127.0.0.1:6379
  backup              true
  balance             leastconn
  retries             2
  max_queue           1024
  queue_timeout       5s
  source address      127.0.0.2
  resolve_interval    1m
";
    assert!(printed.output.contains(block), "{}\n{}", printed.output, printed.errors);
}

#[test]
fn either_side_is_told_what_it_speaks() {
    let listener = "tls = { certificate = \"server.crt\", private_key = \"server.key\" }";
    let servers = "servers = [\"127.0.0.1:6379\", \"127.0.0.1:6378\"]";
    let tls = "tls = { ca = \"server.crt\", server_name = \"cache.example\", certificate = \"server.crt\", \
               private_key = \"server.key\", cipher_suites = [\"TLS_AES_128_GCM_SHA256\"], min_version = \"1.3\", \
               require_pq = true }";
    let config = checked_config().replace(listener, "plain = true").replace(servers, &format!("{servers}\n{tls}"));
    let printed = printed(&mut ringwall(folder_with(&config).path(), &["check", "--config", "ringwall.toml"]));
    for block in [
        "  max_connections     100\n  tls                 none: clients speak plain text\nbackend valkey\n",
        "  server              127.0.0.1:6379\n  server_name         cache.example\n  \
         server              127.0.0.1:6378\n  server_name         cache.example\n  \
         balance             roundrobin\n  retries             every other server\n  \
         verify              full\n  ca                  server.crt\n  certificate         server.crt\n  \
         private key         server.key\n  tls versions        1.3\n  cipher suite        TLS_AES_128_GCM_SHA256\n  \
         groups              X25519MLKEM768\nruntime\n",
    ] {
        assert!(printed.output.contains(block), "{}\n{}", printed.output, printed.errors);
    }
    assert_eq!((printed.code, &*printed.errors), (Some(0), ""));
}

#[test]
fn checks_and_sentinels_are_told() {
    let servers = "servers = [\"127.0.0.1:6379\", \"unix:/run/valkey.sock\"]";
    let check = "health_check = { type = \"role\", username = \"probe\", password_file = \"password\" }";
    let sentinel = "sentinel = { addresses = [\"10.0.0.1:26379\", \"10.0.0.2:26379\"], name = \"mymaster\" }";
    for (keys, block) in [
        (
            format!("{servers}\n{check}"),
            "  health_check        role primary, every 2s within 1s, rise 2, fall 3\n  \
             username            probe\n  password_file       password\n  on_demotion         close\nruntime\n",
        ),
        (
            format!("{servers}\nhealth_check = {{ type = \"ping\" }}"),
            "  health_check        ping, every 2s within 1s, rise 2, fall 3\nruntime\n",
        ),
        (
            sentinel.to_owned(),
            "  health_check        role primary, every 2s within 1s, rise 2, fall 3\n  on_demotion         close\n  \
             sentinel            the primary \"mymaster\"\n  sentinel address    10.0.0.1:26379\n  \
             sentinel address    10.0.0.2:26379\n  \
             sentinel tls        none: Sentinels are spoken to in plain text\nruntime\n",
        ),
    ] {
        let folder = folder_with(&CONFIG.replace(servers, &keys));
        std::fs::write(folder.path().join("password"), "correct-horse\n").expect("the folder takes a file");
        let printed = printed(&mut ringwall(folder.path(), &["check", "--config", "ringwall.toml"]));
        assert!(printed.output.contains(block), "{}\n{}", printed.output, printed.errors);
        assert!(!printed.output.contains("correct-horse"));
    }
}

#[test]
fn the_certificate_that_the_readme_makes_is_taken_without_a_word() {
    let readme = include_str!("../README.md");
    let (_, command) = readme.split_once("```sh\nopenssl req ").expect("it has the command");
    let (command, _) = command.split_once("```").expect("it ends");
    let folder = folder_with(&checked_config());
    for file in ["server.crt", "server.key"] {
        std::fs::remove_file(folder.path().join(file)).expect("it is there");
    }
    let made = Command::new("sh").arg("-c").arg(format!("openssl req {command}")).current_dir(&folder).output();
    let made = made.expect("openssl starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let printed = printed(&mut ringwall(folder.path(), &["check", "--config", "ringwall.toml"]));
    assert_eq!((printed.code, &*printed.errors), (Some(0), ""));
}

#[test]
fn warnings_of_a_valid_configuration_are_shown() {
    let folder =
        folder_with(&format!("{}\n[[backend]]\nname = \"spare\"\nservers = [\"127.0.0.1:6377\"]\n", checked_config()));
    let printed = printed(&mut ringwall(folder.path(), &["check", "--config", "ringwall.toml"]));
    assert_eq!(
        (printed.code, &*printed.errors),
        (Some(0), "ringwall: warning: ringwall.toml:18: backend: \"spare\" is used by no listener; leave it out\n")
    );
}

#[test]
fn a_port_that_the_kernel_chooses_and_a_socket_that_is_not_there_are_warnings_of_check() {
    let folder = folder_with(&CONFIG.replace("/run/valkey.sock", "/nowhere/valkey.sock"));
    let printed = printed(&mut ringwall(folder.path(), &["check", "--config", "ringwall.toml"]));
    assert!(printed.output.contains("\n  server              unix:/nowhere/valkey.sock\n"), "{}", printed.output);
    let lines: Vec<_> = printed.errors.lines().collect();
    let [port, socket] = lines[..] else { panic!("{}", printed.errors) };
    let starts = "ringwall: warning: ringwall.toml:3: listener.bind: \"127.0.0.1:0\" has port 0: ";
    assert!(port.starts_with(starts), "{port}");
    let starts = "\"unix:/nowhere/valkey.sock\" cannot be reached at the moment: No such file or directory";
    assert!(socket.contains(starts), "{socket}");
    // A program that starts says neither.
    let serving = Serving::start(&mut ringwall(folder.path(), &["run", "--config", "ringwall.toml"]));
    serving.signal(Signal::TERM);
    let (status, lines) = serving.end();
    assert_eq!(status.code(), Some(0));
    assert!(lines.iter().all(|line| !line.contains("has port 0") && !line.contains("cannot be reached")), "{lines:?}");
}

#[test]
fn source_addresses_of_another_machine_are_a_warning_and_run_refuses_them() {
    // Of the addresses for documentation (RFC 5737): no machine has it.
    let with_sources = |config: &str| folder_with(&config.replace("\"]", "\"]\nsource_addresses = [\"192.0.2.1\"]"));
    let problem = "backend \"valkey\": cannot connect from 192.0.2.1 of source_addresses: Cannot assign requested address \
                   (os error 99); no interface of this machine has that address\n";
    let folder = with_sources(&checked_config());
    let checked = printed(&mut ringwall(folder.path(), &["check", "--config", "ringwall.toml"]));
    assert_eq!((checked.code, checked.errors), (Some(0), format!("ringwall: warning: {problem}")));
    let folder = with_sources(CONFIG);
    let run = printed(&mut ringwall(folder.path(), &["run", "--config", "ringwall.toml"]));
    assert_eq!((run.code, run.errors), (Some(1), format!("ringwall: {problem}")));
}

#[test]
fn a_refused_configuration_is_one_line_and_exit_code_1_and_starts_nothing() {
    let folder = folder_with(&CONFIG.replace("\"1s\"", "\"2d\""));
    for command in ["check", "run"] {
        let printed = printed(&mut ringwall(folder.path(), &[command, "--config", "ringwall.toml"]));
        assert_eq!((printed.code, &*printed.output), (Some(1), ""));
        assert_eq!(
            printed.errors,
            "ringwall: ringwall.toml:13: limits.shutdown_timeout: \"2d\" is not a duration, a whole number and ms, s, m \
             or h such as \"24h\"\n"
        );
    }
}

#[test]
fn a_file_that_is_not_there_is_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let printed = printed(&mut ringwall(folder.path(), &["run", "--config", "none.toml"]));
    assert_eq!(printed.code, Some(1));
    assert_eq!(printed.errors, "ringwall: none.toml: cannot be read: No such file or directory (os error 2)\n");
}

#[test]
fn a_filter_of_the_log_that_is_none_is_exit_code_1() {
    let folder = folder_with(CONFIG);
    for command in ["check", "run"] {
        let printed =
            printed(ringwall(folder.path(), &[command, "--config", "ringwall.toml"]).env("RINGWALL_LOG", "inf"));
        assert_eq!(printed.code, Some(1));
        assert_eq!(
            printed.errors,
            "ringwall: RINGWALL_LOG=\"inf\": \"inf\" is neither a level (off, error, warn, info, debug, trace) nor a \
             target and its level, such as \"warn,ringwall::session=info\"\n"
        );
    }
}

#[test]
fn an_address_in_use_is_exit_code_1_and_names_the_listener() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = folder_with(&CONFIG.replace("127.0.0.1:0", &address.to_string()));
    let printed = printed(&mut ringwall(folder.path(), &["run", "--config", "ringwall.toml"]));
    assert_eq!(printed.code, Some(1));
    assert!(
        printed.errors.starts_with(&format!("ringwall: listener \"public\": cannot listen on {address}: ")),
        "{}",
        printed.errors
    );
}

#[test]
fn a_check_whose_result_cannot_be_written_is_exit_code_1() {
    let folder = folder_with(&checked_config());
    let mut check = ringwall(folder.path(), &["check", "--config", "ringwall.toml"]);
    let output = check.stdout(File::create("/dev/full").unwrap()).output().unwrap();
    assert_eq!(
        (output.status.code(), &*String::from_utf8_lossy(&output.stderr)),
        (Some(1), "ringwall: standard output cannot be written: No space left on device (os error 28)\n")
    );
    // Who reads no further has not made it invalid.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut check = ringwall(folder.path(), &["check", "--config", "ringwall.toml"]);
    let output = check.stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn a_log_that_has_reached_the_limit_of_a_file_s_size_does_not_end_the_program() {
    let folder = folder_with(CONFIG);
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let log = File::create(folder.path().join("log")).unwrap();
    let mut command = ringwall_under("-f 0", folder.path());
    let mut program = Spawned::by(command.env("NOTIFY_SOCKET", &socket).stderr(log));
    manager.recv(&mut [0; 256]).unwrap();
    kill_process(Pid::from_child(&program.0), Signal::TERM).unwrap();
    assert_eq!(program.0.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read(folder.path().join("log")).unwrap(), b"");
}

#[test]
fn a_thread_that_cannot_be_started_is_named_with_the_limits_to_raise() {
    let refused = || io::Error::from_raw_os_error(11);
    assert_eq!(
        StartError::Thread { name: "shard-3".to_owned(), error: refused() }.to_string(),
        "the thread \"shard-3\" cannot be started: Resource temporarily unavailable (os error 11); a limit of threads \
         (ulimit -u, TasksMax= of the systemd unit, pids.max of the control group) or of memory (ulimit -v) is reached: \
         raise it, or write a lower runtime.shards"
    );
}

/// A program that a test which fails does not leave behind.
struct Spawned(Child);

impl Spawned {
    fn by(command: &mut Command) -> Self {
        Self(command.spawn().expect("the program starts"))
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // To one that has been waited for this does nothing.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The program while it serves.
struct Serving {
    program: Spawned,
    log: Lines<BufReader<ChildStderr>>,
}

impl Serving {
    /// Starts it and waits for its first line.
    fn start(command: &mut Command) -> Self {
        let mut program = Spawned::by(command.stderr(Stdio::piped()));
        let log = BufReader::new(program.0.stderr.take().expect("its standard error is a pipe")).lines();
        let mut serving = Self { program, log };
        let started = serving.line();
        assert!(started.contains(" started version=0.1.0 "), "{started}");
        serving
    }

    fn line(&mut self) -> String {
        self.log.next().expect("the program goes on").expect("a line of text")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.program.0), signal).expect("it lives");
    }

    /// Waits for its end; gives the rest of its log.
    fn end(mut self) -> (ExitStatus, Vec<String>) {
        let lines = self.log.by_ref().map(|line| line.expect("a line of text")).collect();
        (self.program.0.wait().expect("it ends"), lines)
    }
}

#[test]
fn a_program_that_is_asked_to_stop_drains_and_ends_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = folder_with(CONFIG);
        let serving = Serving::start(&mut ringwall(folder.path(), &["run", "--config", "ringwall.toml"]));
        serving.signal(signal);
        let (status, lines) = serving.end();
        assert_eq!(status.code(), Some(0), "{lines:?}");
        assert!(lines.last().unwrap().ends_with("INFO ended sessions_cut_off=0"), "{lines:?}");
    }
}

/// The program under a limit of open files, as `ulimit` takes it.
fn ringwall_under(limit: &str, folder: &Path) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit {limit} && exec \"$0\" run --config ringwall.toml");
    command.current_dir(folder).args(["-c", &script, env!("CARGO_BIN_EXE_ringwall")]);
    command.env_remove("RINGWALL_LOG").env_remove("NOTIFY_SOCKET");
    command
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_connections_need_it() {
    let folder = folder_with(CONFIG);
    let serving = Serving::start(&mut ringwall_under("-Sn 64", folder.path()));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", serving.program.0.id())).unwrap();
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    assert_eq!(soft, Some("337"));
    serving.signal(Signal::TERM);
    assert_eq!(serving.end().0.code(), Some(0));
}

#[test]
fn more_connections_than_files_can_be_open_is_exit_code_1() {
    let folder = folder_with(CONFIG);
    let printed = printed(&mut ringwall_under("-n 300", folder.path()));
    assert_eq!(printed.code, Some(1));
    assert_eq!(
        printed.errors,
        "ringwall: ringwall.toml:12: limits.max_connections: 100 needs 337 open files, 2 per connection, and the hard \
         limit RLIMIT_NOFILE is 300: raise it (LimitNOFILE= of the systemd unit, ulimit -Hn) or write at most 81\n"
    );
}

#[test]
fn the_service_manager_is_told_when_it_serves_and_when_it_stops() {
    let folder = folder_with(CONFIG);
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let mut command = ringwall(folder.path(), &["run", "--config", "ringwall.toml"]);
    let serving = Serving::start(command.env("NOTIFY_SOCKET", &socket));
    let told = || {
        let mut message = [0; 256];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    assert_eq!(told(), "READY=1\nSTATUS=serving, listeners: 1, shards: 2\n");
    serving.signal(Signal::TERM);
    assert_eq!(told(), "STOPPING=1\nSTATUS=draining, at most 1s\n");
    assert_eq!(serving.end().0.code(), Some(0));
}

#[test]
fn the_log_can_be_json_and_silenced_by_the_environment() {
    let folder = folder_with(&format!("{CONFIG}\n[log]\nformat = \"json\"\n"));
    let mut command = ringwall(folder.path(), &["run", "--config", "ringwall.toml"]);
    let mut program = Spawned::by(command.stderr(Stdio::piped()));
    let mut log = BufReader::new(program.0.stderr.take().unwrap()).lines();
    let line = log.next().unwrap().unwrap();
    assert!(line.starts_with("{\"timestamp\":\"") && line.contains("\"message\":\"started\""), "{line}");
    kill_process(Pid::from_child(&program.0), Signal::TERM).unwrap();
    assert_eq!(program.0.wait().unwrap().code(), Some(0));

    // Nothing tells when a silent program serves, but a service manager.
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let mut command = ringwall(folder.path(), &["run", "--config", "ringwall.toml"]);
    command.env("RINGWALL_LOG", "off").env("NOTIFY_SOCKET", &socket).stderr(Stdio::piped());
    let mut program = Spawned::by(&mut command);
    manager.recv(&mut [0; 256]).unwrap();
    kill_process(Pid::from_child(&program.0), Signal::TERM).unwrap();
    let mut errors = Vec::new();
    program.0.stderr.take().unwrap().read_to_end(&mut errors).unwrap();
    assert_eq!((program.0.wait().unwrap().code(), errors.len()), (Some(0), 0));
}
