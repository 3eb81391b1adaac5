//! The control plane without a data plane: events are told, signals sent and endings announced by hand, and the log
//! is read line by line.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringwall::config::{Changes, Config, Machine, Named, TlsFiles};
use ringwall::control::{
    Cause, Ending, Heartbeat, Hold, InForce, LogFilter, LogOutput, Logging, NotReloaded, Notifier, Orders, Plane,
    Reload, Reloaded, Rosters, Running, RunningListener, Signal, Takeover, health, run_obeying,
};
use ringwall::events::{CloseRecord, Denial, Event, EventSender, events};
use ringwall::io::{Address, Errno, Fd};
use ringwall::ledger::Ledger;
use ringwall::mailbox::Doorbell;
use ringwall::roster::waiting::Waiting;
use ringwall::roster::{BackendId, Member, Server};
use ringwall::tls::Summary;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{getpid, kill_process};
use tokio::sync::{mpsc, oneshot};

const CONFIG: &str = r#"
[[listener]]
name = "public"
bind = "127.0.0.1:6380"
backend = "valkey"
tls = { certificate = "server.crt", private_key = "server.key" }

[[backend]]
name = "valkey"
servers = ["127.0.0.1:6379", "unix:/run/valkey.sock"]

[limits]
shutdown_timeout = "0s"
"#;

/// The log's output: each line goes to the test.
struct Lines(Sender<String>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line).trim_end().to_owned();
        self.0.send(text).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An order as the data plane sees it.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    Drain(Duration),
    Stop,
}

/// A control plane on a thread of its own, and everything around it.
struct World {
    events: EventSender,
    wake: std::fs::File,
    signals: mpsc::Sender<Signal>,
    ended: Option<oneshot::Sender<Ending>>,
    orders: Receiver<Order>,
    lines: Receiver<String>,
    manager: UnixDatagram,
    /// A folder for files that are watched: `a.crt` in it is.
    folder: tempfile::TempDir,
    /// Why reloads were done.
    causes: Receiver<Cause>,
    /// What they come to.
    reloads: Sender<Result<Reloaded, String>>,
    thread: JoinHandle<io::Result<Ending>>,
}

impl World {
    fn new(more_config: &str, filter: Option<&'static str>, events_max: usize) -> Self {
        Self::with_plane_run_by(run_obeying, more_config, filter, events_max)
    }

    fn with_plane_run_by(
        run: fn(Plane<'_>, mpsc::Receiver<Signal>) -> io::Result<Ending>,
        more_config: &str,
        filter: Option<&'static str>,
        events_max: usize,
    ) -> Self {
        let resolve = |_: &str, port: u16| Ok(vec![SocketAddr::from(([192, 0, 2, 1], port))]);
        let machine = Machine { cores: vec![0, 1], open_files_max: 100_000, memory_max: None, resolve };
        let text = format!("{CONFIG}{more_config}");
        let config = Config::parse(text.as_bytes(), Path::new("ringwall.toml"), &machine).expect("it is valid");

        let doorbell = Doorbell::new();
        let wake = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        let wake_here = std::fs::File::from(wake.try_clone().expect("a copy of it"));
        let (sender, receiver) = events(events_max, doorbell.clone(), Fd(wake.as_raw_fd()));
        let (signals, signals_there) = mpsc::channel(4);
        let (ended, ended_there) = oneshot::channel();
        let (orders_there, orders) = channel();
        let (lines_there, lines) = channel();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let manager = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        let notifier = Notifier::to(folder.path().join("notify").into()).expect("the manager listens");
        let files = TlsFiles { files: vec![folder.path().join("a.crt")], folders: vec![] };
        let (causes_there, causes) = channel();
        let (reloads, reloads_there) = channel::<Result<Reloaded, String>>();

        let holds = (0..).zip(&config.backends).map(|(number, backend)| {
            let (id, name, waiting) = (BackendId(number), (*backend.name).into(), Arc::new(Waiting::new(1, 1)));
            Hold::new(id, name, waiting, backend.servers().collect())
        });
        let rosters = Rosters::new(holds, |_| Ok(()));
        let listeners = vec![RunningListener { address: ([127, 0, 0, 1], 6380).into(), ledger: ledger() }];
        let in_force = InForce::new(Running { config: Arc::new(config), listeners, left: Vec::new() });
        // What a name leads to at start is not what it leads to later.
        let later = Machine { resolve: |_, port| Ok(vec![SocketAddr::from(([192, 0, 2, 2], port))]), ..machine };
        let thread = thread::spawn(move || {
            let filter = filter.map(|filter| LogFilter::parse(filter).expect("a filter"));
            let config = Arc::clone(&in_force.read().config);
            let logging = Logging::start(&config.log, filter, LogOutput::stream(Lines(lines_there))).expect("a log");
            let stop = orders_there.clone();
            run(
                Plane {
                    in_force,
                    logging: &logging,
                    notifier,
                    events: vec![receiver],
                    doorbell,
                    wake,
                    orders: Orders {
                        drain: Box::new(move |deadline| orders_there.send(Order::Drain(deadline)).expect("a test")),
                        stop: Box::new(move || stop.send(Order::Stop).expect("a test")),
                        tell_reached: Box::new(|_| {}),
                    },
                    rosters: Arc::new(rosters),
                    machine: later,
                    checks: health::Plan::default(),
                    heartbeat: Heartbeat { pulses: vec![], ask: Box::new(|_| {}) },
                    reload: Reload {
                        files,
                        run: Box::new(move |cause| {
                            causes_there.send(cause).expect("a test");
                            reloads_there.recv().expect("a test").map_err(NotReloaded::from)
                        }),
                    },
                    admin: None,
                    certificates: Vec::new(),
                    takeover: Takeover::none(),
                    ended: ended_there,
                },
                signals_there,
            )
        });
        Self {
            events: sender,
            wake: wake_here,
            signals,
            ended: Some(ended),
            orders,
            lines,
            manager,
            folder,
            causes,
            reloads,
            thread,
        }
    }

    fn tell(&mut self, event: Event) {
        self.events.send(event);
        if self.events.wake_due().is_some() {
            self.wake.write_all(&1_u64.to_ne_bytes()).expect("an eventfd takes it");
        }
    }

    /// The next line without its time stamp.
    fn line(&self) -> String {
        let line = self.lines.recv().expect("a line");
        line.split_once(' ').expect("a time stamp").1.trim_start().to_owned()
    }

    fn signal(&self) {
        self.signals.blocking_send(Signal::Stop).expect("it listens");
    }

    fn told_manager(&self) -> String {
        let mut message = [0; 256];
        let length = self.manager.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length]).into_owned()
    }

    /// Announces the end of the data plane; gives what the control plane ended with and the lines not yet read.
    fn end(mut self, ending: Ending) -> (Ending, Vec<String>) {
        self.ended.take().expect("it has not ended").send(ending).expect("it listens");
        let ending = self.thread.join().expect("it does not panic").expect("it has its runtime");
        let lines = self.lines.iter().map(|line| line.split_once(' ').expect("a time stamp").1.trim_start().to_owned());
        let mut lines: Vec<String> = lines.collect();
        // What was counted is the line before the last one in every log.
        let totals = lines.remove(lines.len() - 2);
        assert!(totals.starts_with("INFO totals sessions=") && totals.contains(" reloads="), "{totals}");
        (ending, lines)
    }
}

/// Of the one listener.
fn ledger() -> Arc<Ledger> {
    Ledger::new(0, "public", 2)
}

fn server(address: Address) -> Arc<Member> {
    Arc::new(Server::at(address).into())
}

fn record() -> CloseRecord {
    CloseRecord {
        client: Some(SocketAddr::from(([192, 0, 2, 7], 50_000))),
        proxy: None,
        listener: ledger(),
        backend: "valkey".into(),
        is_multiplexed: false,
        shard: 1,
        server: Some(server(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 6379))))),
        server_local_port: Some(40_001),
        tls: Some(Summary {
            version: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            group: Some("X25519MLKEM768"),
            server_name: Some("cache.example".into()),
            alpn: Some("redis".into()),
            resumed: false,
        }),
        server_tls: Some(Summary {
            version: "TLSv1.2",
            cipher: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            group: Some("x25519"),
            server_name: None,
            alpn: None,
            resumed: true,
        }),
        client_identity: Some("spiffe://example/app".into()),
        user: None,
        handshake: Some(Duration::from_micros(1_234)),
        duration: Duration::from_millis(60_000),
        client_received_bytes: 1,
        client_sent_bytes: 2,
        server_received_bytes: 3,
        server_sent_bytes: 4,
        reason: "client_closed",
        detail: None,
    }
}

fn closed(record: CloseRecord) -> Event {
    Event::Closed(Box::new(record))
}

#[test]
fn the_start_is_one_line_and_the_service_manager_is_told() {
    let world = World::new("", None, 8);
    let line = world.line();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(
        line,
        format!(
            "INFO started version=0.1.0 kernel={} shards=2 listeners=public on 127.0.0.1:6380 to valkey \
             max_connections=10000 session_memory_max=816KiB shard_memory=256MiB",
            kernel.trim()
        )
    );
    assert_eq!(world.told_manager(), "READY=1\nSTATUS=serving, listeners: 1, shards: 2\n");
}

#[test]
fn a_closed_session_is_one_line_with_everything_about_it() {
    let mut world = World::new("", None, 8);
    world.line();
    world.tell(closed(record()));
    assert_eq!(
        world.line(),
        "INFO session closed client=192.0.2.7:50000 listener=public mode=transparent shard=1 backend=valkey server=127.0.0.1:6379 \
         server_local_port=40001 server_tls_version=TLSv1.2 server_cipher=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 \
         server_group=x25519 server_resumed=true tls_version=TLSv1.3 cipher=TLS_AES_128_GCM_SHA256 group=X25519MLKEM768 \
         sni=cache.example alpn=redis resumed=false client_identity=\"spiffe://example/app\" \
         handshake_ms=1.234 duration_ms=60000.0 client_rx_bytes=1 client_tx_bytes=2 \
         server_rx_bytes=3 server_tx_bytes=4 reason=client_closed"
    );
    world.tell(closed(CloseRecord {
        client: None,
        server: None,
        server_local_port: None,
        tls: None,
        server_tls: None,
        client_identity: None,
        handshake: None,
        reason: "handshake_failed",
        detail: Some("no shared\nversion".into()),
        ..record()
    }));
    assert_eq!(
        world.line(),
        "INFO session closed listener=public mode=transparent shard=1 backend=valkey duration_ms=60000.0 client_rx_bytes=1 client_tx_bytes=2 \
         server_rx_bytes=3 server_tx_bytes=4 reason=handshake_failed detail=\"no shared\\nversion\""
    );
}

#[test]
fn a_line_can_be_an_object_of_json() {
    let mut world = World::new("[log]\nformat = \"json\"\n", None, 8);
    world.lines.recv().unwrap();
    world.tell(closed(CloseRecord {
        server: Some(server(Address::Unix("/run/valkey.sock".into()))),
        server_local_port: None,
        ..record()
    }));
    let line = world.lines.recv().unwrap();
    let (head, fields) = line.split_once(",\"level\":").unwrap();
    assert!(head.starts_with("{\"timestamp\":\""), "{head}");
    assert_eq!(
        fields,
        "\"INFO\",\"message\":\"session closed\",\"client\":\"192.0.2.7:50000\",\"listener\":\"public\",\"mode\":\"transparent\",\"shard\":1,\
         \"backend\":\"valkey\",\"server\":\"unix:/run/valkey.sock\",\
         \"server_tls_version\":\"TLSv1.2\",\"server_cipher\":\"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\",\
         \"server_group\":\"x25519\",\"server_resumed\":true,\"tls_version\":\"TLSv1.3\",\
         \"cipher\":\"TLS_AES_128_GCM_SHA256\",\"group\":\"X25519MLKEM768\",\"sni\":\"cache.example\",\"alpn\":\"redis\",\
         \"resumed\":false,\"client_identity\":\"spiffe://example/app\",\"handshake_ms\":1.234,\"duration_ms\":60000.0,\"client_rx_bytes\":1,\"client_tx_bytes\":2,\
         \"server_rx_bytes\":3,\"server_tx_bytes\":4,\"reason\":\"client_closed\",\"target\":\"ringwall::session\"}"
    );
}

#[test]
fn what_an_operator_should_know_is_a_line_each() {
    let mut world = World::new("", None, 8);
    world.line();
    let client = Some(SocketAddr::from(([192, 0, 2, 7], 50_000)));
    for (event, line) in [
        (
            Event::AcceptPaused { listener: ledger(), errno: Errno(24) },
            "WARN accepting paused until the system gives file descriptors and memory again listener=public \
             error=Too many open files (os error 24)",
        ),
        (Event::AcceptResumed { listener: ledger() }, "INFO accepting again listener=public"),
        (
            Event::Stalled { listener: ledger(), client, pending: Duration::from_secs(5) },
            "WARN session stalled: neither side reads client=192.0.2.7:50000 listener=public pending_ms=5000.0",
        ),
        (
            Event::Denied { listener: ledger(), why: Denial::Network, refused: 0, closed: 3, client },
            "WARN clients denied: they come from networks that the listener's allow or deny keeps out listener=public \
             clients=3 last=192.0.2.7:50000",
        ),
        (
            Event::Denied { listener: ledger(), why: Denial::HandshakeRate, refused: 0, closed: 40, client: None },
            "WARN clients refused: they come faster than handshake_rate or handshake_rate_per_source allows \
             listener=public clients=40",
        ),
        (
            Event::Denied { listener: ledger(), why: Denial::ConnectionRate, refused: 2, closed: 1, client },
            "WARN clients refused: they come faster than connection_rate or connection_rate_per_source allows \
             listener=public refused=2 closed=1 last=192.0.2.7:50000",
        ),
        (
            Event::Denied { listener: ledger(), why: Denial::SourceConnections, refused: 2, closed: 0, client },
            "WARN clients refused: the listener's max_connections_per_source is reached listener=public refused=2 \
             closed=0 last=192.0.2.7:50000",
        ),
        (
            Event::Denied { listener: ledger(), why: Denial::Connections, refused: 64, closed: 136, client: None },
            "WARN clients refused: limits.max_connections or the listener's own max_connections is reached \
             listener=public refused=64 closed=136",
        ),
        (Event::Draining, "INFO accepting nothing more"),
    ] {
        world.tell(event);
        assert_eq!(world.line(), line);
    }
}

#[test]
fn what_has_to_be_mended_is_a_warning_with_or_without_sessions() {
    let mut world = World::new("[log]\nsessions = false\n", None, 8);
    world.line();
    world.tell(closed(CloseRecord { reason: "plaintext", ..record() }));
    assert_eq!(
        world.line(),
        "WARN client speaks plain text to a TLS port: it has to be told to use TLS client=192.0.2.7:50000 listener=public"
    );
    let detail = Some("127.0.0.1:6379: Connection refused".into());
    world.tell(closed(CloseRecord { reason: "backend_unreachable", detail, ..record() }));
    assert_eq!(
        world.line(),
        "WARN no server of the backend reached backend=valkey detail=\"127.0.0.1:6379: Connection refused\""
    );
    for reason in ["queue_full", "queue_timeout"] {
        world.tell(closed(CloseRecord { reason, detail: Some("all are full".into()), ..record() }));
        let line = "WARN no server of the backend has a place backend=valkey detail=\"all are full\"";
        assert_eq!(world.line(), line);
    }
}

#[test]
fn sessions_can_be_left_out_by_key_and_by_environment() {
    let mut world = World::new("[log]\nsessions = false\n", None, 8);
    world.line();
    world.tell(closed(record()));
    world.tell(Event::Draining);
    assert_eq!(world.line(), "INFO accepting nothing more");

    let mut world = World::new("[log]\nlevel = \"error\"\n", Some("warn,ringwall::dispatcher=info"), 8);
    world.tell(closed(record()));
    world.tell(Event::Draining);
    assert_eq!(world.line(), "INFO accepting nothing more");
}

#[test]
fn a_filter_that_is_none_says_which_part_is_wrong() {
    for (filter, part) in [
        ("inf", "inf"),
        ("warn,ringwall::session=loud", "ringwall::session=loud"),
        ("info,hyper=debug", "hyper=debug"),
        ("warn,", ""),
        ("3", "3"),
    ] {
        let error = LogFilter::parse(filter).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "RINGWALL_LOG={filter:?}: {part:?} is neither a level (off, error, warn, info, debug, trace) nor a \
                 target and its level, such as \"warn,ringwall::session=info\""
            )
        );
    }
    for filter in ["off", "DEBUG", "ringwall=warn", "info, ringwall::session=off"] {
        assert!(LogFilter::parse(filter).is_ok(), "{filter:?}");
    }
}

#[test]
fn events_that_found_no_room_are_counted_in_a_line() {
    let mut world = World::new("", None, 1);
    world.line();
    // The reader may take one at any moment, so how many are dropped is not known; that all are accounted for is.
    let told = 20_000;
    for _ in 0..told {
        world.tell(Event::Draining);
    }
    let (_, lines) = world.end(Ending::default());
    let logged = lines.iter().filter(|line| *line == "INFO accepting nothing more").count();
    let dropped: usize = lines
        .iter()
        .filter_map(|line| line.strip_prefix("WARN ")?.split_once(" log records dropped")?.0.parse::<usize>().ok())
        .sum();
    assert!(dropped > 0);
    assert_eq!(logged + dropped, told);
}

#[test]
fn the_first_signal_drains_and_the_last_line_counts_those_cut_off() {
    let world = World::new("", None, 8);
    world.line();
    world.told_manager();
    world.signal();
    assert_eq!(world.orders.recv().unwrap(), Order::Drain(Duration::ZERO));
    assert_eq!(world.line(), "INFO draining; a second signal ends at once deadline=0s");
    assert_eq!(world.told_manager(), "STOPPING=1\nSTATUS=draining, at most 0s\n");
    let (ending, lines) = world.end(Ending { sessions_cut_off: 3, ..Ending::default() });
    assert_eq!(ending, Ending { sessions_cut_off: 3, ..Ending::default() });
    assert_eq!(lines, ["INFO ended sessions_cut_off=3"]);
}

#[test]
fn the_second_signal_stops_at_once() {
    let world = World::new("", None, 8);
    world.signal();
    world.signal();
    assert_eq!(world.orders.recv().unwrap(), Order::Drain(Duration::ZERO));
    assert_eq!(world.orders.recv().unwrap(), Order::Stop);
    let (ending, lines) = world.end(Ending { sessions_cut_off: 1, ..Ending::default() });
    assert_eq!(ending.failure, None);
    assert_eq!(lines[2..], ["INFO stopping at once", "INFO ended sessions_cut_off=1"]);
}

#[test]
fn sigusr2_sighup_sigterm_and_sigint_are_the_signals() {
    let world = World::with_plane_run_by(|plane, _| ringwall::control::run(plane), "", None, 8);
    // Written once the signals are received: before that they would end the test.
    world.line();
    kill_process(getpid(), rustix::process::Signal::USR2).unwrap();
    let refused = "ERROR takeover failed; this process goes on serving why=this process is not replaced";
    assert_eq!(world.line(), refused);
    kill_process(getpid(), rustix::process::Signal::HUP).unwrap();
    assert_eq!(world.causes.recv().unwrap(), Cause::Signal);
    world.reloads.send(Ok(Reloaded::default())).unwrap();
    kill_process(getpid(), rustix::process::Signal::TERM).unwrap();
    assert_eq!(world.orders.recv().unwrap(), Order::Drain(Duration::ZERO));
    kill_process(getpid(), rustix::process::Signal::INT).unwrap();
    assert_eq!(world.orders.recv().unwrap(), Order::Stop);
    world.end(Ending::default());
}

#[test]
fn a_signal_reloads_and_log_and_service_manager_are_told_how_it_went() {
    let world = World::new("", None, 8);
    world.line();
    world.told_manager();
    let reloading = |world: &World| {
        world.signals.blocking_send(Signal::Reload).expect("it listens");
        assert_eq!(world.causes.recv().unwrap(), Cause::Signal);
        let told = world.told_manager();
        let time = told
            .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
            .and_then(|rest| rest.strip_suffix("\nSTATUS=reloading\n"));
        assert!(time.is_some_and(|time| time.parse::<u64>().is_ok()), "{told}");
    };
    reloading(&world);
    let files = TlsFiles { files: vec![PathBuf::from("a.crt"), PathBuf::from("a.key")], folders: vec![] };
    let warnings = vec!["f.toml:4: odd".to_owned()];
    let listeners =
        Named { added: vec!["new".into(), "other".into()], changed: vec!["public".into()], ..Named::default() };
    let backends = Named { removed: vec!["old".into()], ..Named::default() };
    let changes = Some(Changes { listeners, backends, sections: vec!["limits", "admin"] });
    world.reloads.send(Ok(Reloaded { files, warnings, changes, ..Reloaded::default() })).unwrap();
    assert_eq!(world.line(), "WARN f.toml:4: odd");
    assert_eq!(
        world.line(),
        "INFO reloaded cause=SIGHUP changes=listeners added: new, other; listeners changed: public; backends removed: old; \
         changed: limits, admin files=2 folders=0 reloads=1"
    );
    assert_eq!(world.told_manager(), "READY=1\nSTATUS=serving, listeners: 1, shards: 2; reloaded\n");

    reloading(&world);
    world.reloads.send(Err("f.toml:4: no key".to_owned())).unwrap();
    assert_eq!(
        world.line(),
        "ERROR reload failed: what was in use stays cause=SIGHUP error=f.toml:4: no key reloads_failed=1"
    );
    assert_eq!(
        world.told_manager(),
        "READY=1\nSTATUS=serving, listeners: 1, shards: 2, as before: reload failed: f.toml:4: no key\n"
    );
}

#[test]
fn a_drain_is_not_taken_back_by_a_reload() {
    let world = World::new("", None, 8);
    world.line();
    world.told_manager();
    world.signals.blocking_send(Signal::Reload).expect("it listens");
    world.causes.recv().unwrap();
    world.told_manager();
    world.signal();
    assert_eq!(world.told_manager(), "STOPPING=1\nSTATUS=draining, at most 0s\n");
    world.line();
    world.reloads.send(Ok(Reloaded::default())).unwrap();
    assert_eq!(world.line(), "INFO reloaded cause=SIGHUP files=0 folders=0 reloads=1");
    world.signals.blocking_send(Signal::Reload).expect("it listens");
    assert_eq!(world.line(), "INFO not reloading while sessions end");
    world.manager.set_nonblocking(true).unwrap();
    assert!(world.manager.recv(&mut [0; 256]).is_err(), "told that it is ready while it ends");
}

#[test]
fn each_way_to_exchange_a_file_is_seen() {
    let world = World::new("", None, 8);
    world.line();
    let path = |name: &str| world.folder.path().join(name);
    let files = TlsFiles { files: vec![path("a.crt")], folders: vec![path("certs")] };
    let expect = |how: &str| {
        assert_eq!(world.causes.recv().unwrap(), Cause::Files, "{how}");
        world.reloads.send(Ok(Reloaded { files: files.clone(), ..Reloaded::default() })).unwrap();
        let line = world.line();
        assert!(line.starts_with("INFO reloaded cause=files changed files=1 folders=1 reloads="), "{how}: {line}");
        assert!(world.told_manager().starts_with("RELOADING=1\n") && world.told_manager().starts_with("READY=1\n"));
    };
    // The folder `certs` is watched from the first reload on.
    world.signals.blocking_send(Signal::Reload).expect("it listens");
    world.causes.recv().unwrap();
    world.reloads.send(Ok(Reloaded { files: files.clone(), ..Reloaded::default() })).unwrap();
    world.line();
    let told = [world.told_manager(), world.told_manager(), world.told_manager()];
    assert!(told[2].starts_with("READY=1\n"), "{told:?}");
    let write = |name: &str| std::fs::write(path(name), "x").unwrap();
    write("a.crt");
    expect("written for the first time");
    write("a.crt");
    expect("written over");
    write("new.crt");
    std::fs::rename(path("new.crt"), path("a.crt")).unwrap();
    expect("renamed over");
    std::fs::remove_file(path("a.crt")).unwrap();
    expect("removed");
    std::fs::create_dir(path("..1")).unwrap();
    write("..1/a.crt");
    std::os::unix::fs::symlink("..1", path("..data")).unwrap();
    std::os::unix::fs::symlink("..data/a.crt", path("a.crt")).unwrap();
    expect("a link to it made");
    std::fs::create_dir(path("..2")).unwrap();
    write("..2/a.crt");
    std::os::unix::fs::symlink("..2", path("..new")).unwrap();
    std::fs::rename(path("..new"), path("..data")).unwrap();
    expect("a link on the way exchanged");
    write("..2/a.crt");
    expect("written over at the end of the new link");
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(path("..2/a.crt"), readable).unwrap();
    expect("made readable");
    std::fs::create_dir(path("certs")).unwrap();
    expect("a folder made");
    write("certs/any");
    expect("any file in it written");
    std::fs::rename(path("certs"), path("old")).unwrap();
    std::fs::create_dir(path("certs")).unwrap();
    expect("the folder exchanged");
    write("certs/any");
    expect("any file in the new one written");
}

#[test]
fn files_nearby_and_files_that_are_only_read_are_no_reason_to_reload() {
    let (world, other) = (World::new("", None, 8), World::new("", None, 8));
    // They watch as soon as they say that they have started.
    world.line();
    other.line();
    let path = |name: &str| world.folder.path().join(name);
    std::fs::write(path("a.crt"), "x").unwrap();
    assert_eq!(world.causes.recv().unwrap(), Cause::Files);
    let files = TlsFiles { files: vec![path("a.crt")], folders: vec![] };
    world.reloads.send(Ok(Reloaded { files, ..Reloaded::default() })).unwrap();
    // For the other one, the file nearby is its own: when it has noticed, this one would have, too.
    std::os::unix::fs::symlink(path("b.crt"), other.folder.path().join("a.crt")).unwrap();
    for _ in 0..3 {
        assert_eq!(other.causes.recv().unwrap(), Cause::Files);
        let files = TlsFiles { files: vec![other.folder.path().join("a.crt")], folders: vec![] };
        other.reloads.send(Ok(Reloaded { files, ..Reloaded::default() })).unwrap();
        assert_eq!(std::fs::read(path("a.crt")).unwrap(), b"x");
        std::fs::write(path("b.crt"), "x").unwrap();
    }
    assert!(world.causes.try_recv().is_err());
}

#[test]
fn records_of_a_drain_are_written_before_the_last_line() {
    let mut world = World::new("", None, 8);
    world.line();
    world.events.send(closed(record()));
    world.events.send(Event::Draining);
    let (_, lines) = world.end(Ending::default());
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("INFO session closed"), "{lines:?}");
    assert_eq!(lines[2], "INFO ended sessions_cut_off=0");
}

#[test]
fn a_data_plane_that_fails_is_a_failure() {
    let world = World::new("", None, 8);
    world.line();
    let (ending, lines) = world.end(Ending { failure: Some("shard 1: no ring".to_owned()), ..Ending::default() });
    assert_eq!(ending.failure.as_deref(), Some("shard 1: no ring"));
    assert_eq!(lines, ["ERROR ended by a failure sessions_cut_off=0 failure=shard 1: no ring"]);
}

#[test]
fn a_data_plane_that_does_not_stop_is_not_waited_for() {
    let world = World::new("", None, 8);
    world.signal();
    world.signal();
    let ending = world.thread.join().unwrap().unwrap();
    assert_eq!(ending.failure.as_deref(), Some("the data plane has not ended in time"));
}

#[test]
fn a_data_plane_that_vanishes_is_a_failure() {
    let mut world = World::new("", None, 8);
    world.ended = None;
    let ending = world.thread.join().unwrap().unwrap();
    assert_eq!(ending.failure.as_deref(), Some("the data plane ended without saying why"));
}

#[test]
fn a_host_name_that_leads_elsewhere_is_told() {
    let more = "[[backend]]\nname = \"pool\"\nservers = [\"pool.example:6379\"]\nresolve_interval = \"1s\"\n";
    let world = World::new(more, None, 8);
    while !world.line().contains("started") {}
    assert_eq!(
        world.line(),
        "INFO servers have changed: their host names lead elsewhere backend=pool joined=192.0.2.2:6379 left=192.0.2.1:6379"
    );
    world.end(Ending::default());
}
