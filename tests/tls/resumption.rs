//! Tickets: who resumes with what, where and until when.

use std::cell::Cell;
use std::sync::Arc;

use ringwall::tls::{KeyLogFile, OpenStatus, Options, Summary, TicketKeys, TicketSecret};
use rustls::crypto::aws_lc_rs;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SupportedProtocolVersion};

use crate::support::{Folder, KeyKind, Peer, Server, World, shake_hands};

/// Ticket keys of one process for the listener named `binding`.
pub(crate) fn keys(binding: &str) -> TicketKeys {
    TicketKeys::new(&TicketSecret::from_bytes([7; 32]), binding.as_bytes())
}

/// The start of a ticket epoch, some time in 2025: a multiple of 21,600.
const EPOCH_START: u64 = 81_000 * 21_600;

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(EPOCH_START) };
}

fn options(keys: TicketKeys) -> Options {
    Options { tickets: Some(keys), unix_time: || NOW.get(), ..Options::default() }
}

fn config(world: &World, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    world.client_config(aws_lc_rs::default_provider(), &[version])
}

/// One connection to a new acceptor; the client keeps the ticket.
fn connect(world: &World, options: &Options, config: &Arc<ClientConfig>) -> Summary {
    let mut client = Peer::client(config.clone(), "redis.test");
    let mut server = Server::new(world.acceptor(options).engine());
    shake_hands(&mut client, &mut server);
    // Traffic flows whichever way it came about.
    client.take(&server.seal(b"+PONG\r\n").unwrap()).unwrap();
    assert_eq!(client.received, b"+PONG\r\n");
    server.open(&client.seal(b"PING\r\n"));
    assert_eq!(server.received, b"PING\r\n");
    server.engine.summary().unwrap()
}

#[test]
fn a_session_resumes_on_another_acceptor_of_the_same_listener() {
    let world = World::new(KeyKind::Ecdsa);
    for (version, group) in [(&TLS13, Some("X25519MLKEM768")), (&TLS12, None)] {
        let config = config(&world, version);
        assert!(!connect(&world, &options(keys("a")), &config).resumed);
        for _ in 0..3 {
            let summary = connect(&world, &options(keys("a")), &config);
            assert!(summary.resumed);
            assert_eq!(summary.group, group);
            assert_eq!(summary.server_name.as_deref(), Some("redis.test"));
        }
    }
}

#[test]
fn a_session_does_not_resume_on_another_listener_or_with_another_secret() {
    let world = World::new(KeyKind::Ecdsa);
    let other_secret = TicketKeys::new(&TicketSecret::random(), b"a");
    for version in [&TLS13, &TLS12] {
        for other in [keys("b"), other_secret.clone()] {
            let config = config(&world, version);
            assert!(!connect(&world, &options(keys("a")), &config).resumed);
            assert!(!connect(&world, &options(other), &config).resumed);
        }
    }
}

#[test]
fn a_secret_from_a_file_is_the_bytes_that_its_digits_say() {
    let (world, folder) = (World::new(KeyKind::Ecdsa), Folder::new());
    let file = folder.write("tickets.secret", "07".repeat(32) + "\n");
    let secret = TicketSecret::load(&file).unwrap();
    let config = config(&world, &TLS13);
    assert!(!connect(&world, &options(keys("a")), &config).resumed);
    assert!(connect(&world, &options(TicketKeys::new(&secret, b"a")), &config).resumed);
    let shown = format!("{secret:?}");
    assert_eq!(shown, format!("TicketSecret {{ file: Some({file:?}), .. }}"));
}

#[test]
fn no_text_about_an_acceptor_and_what_it_is_made_of_holds_a_secret() {
    let (world, folder) = (World::new(KeyKind::Ecdsa), Folder::new());
    let key_log = KeyLogFile::open(&folder.path("keys.log")).unwrap();
    assert_eq!(format!("{key_log:?}"), "KeyLogFile");
    let options = Options { key_log: Some(Arc::new(key_log)), ..options(keys("a")) };
    assert_eq!(format!("{:?}", world.acceptor(&options)), "Acceptor");
    let text = format!("{options:?}");
    assert!(text.contains("tickets: Some(TicketKeys), key_log: Some(KeyLogFile)"), "{text}");
    let mut credentials = world.credentials;
    credentials.ticket_secret = Some(TicketSecret::from_bytes([0xab; 32]));
    let text = format!("{credentials:?}");
    assert!(text.ends_with(", clients: None, ticket_secret: Some(TicketSecret { file: None, .. }) }"), "{text}");
    assert!(text.starts_with("Credentials { identities: [Identity { certificate: "), "{text}");
}

#[test]
fn a_ticket_lasts_into_the_next_epoch_and_not_beyond() {
    let world = World::new(KeyKind::Ecdsa);
    for version in [&TLS13, &TLS12] {
        for (age, resumed) in [(0, true), (21_600, true), (43_199, true), (43_200, false), (86_400, false)] {
            NOW.set(EPOCH_START);
            let config = config(&world, version);
            assert!(!connect(&world, &options(keys("a")), &config).resumed);
            NOW.set(EPOCH_START + age);
            assert_eq!(connect(&world, &options(keys("a")), &config).resumed, resumed, "{age} s");
        }
    }
}

#[test]
fn one_ticket_leaves_with_the_end_of_the_handshake() {
    let world = World::new(KeyKind::Ecdsa);
    for (option, tickets) in [(options(keys("a")), 1), (Options::default(), 0)] {
        let mut client = Peer::client(config(&world, &TLS13), "redis.test");
        let mut server = Server::new(world.acceptor(&option).engine());
        server.open(&client.output());
        client.take(&server.engine.take_replies()).unwrap();
        assert_eq!(server.open(&client.output()).status, OpenStatus::Drained);
        assert!(server.engine.summary().is_some());
        assert_eq!(server.engine.has_replies(), tickets == 1);
        client.take(&server.engine.take_replies()).unwrap();
        assert_eq!(client.tickets(), tickets);
    }
}

#[test]
fn without_ticket_keys_no_session_resumes() {
    let world = World::new(KeyKind::Ecdsa);
    for version in [&TLS13, &TLS12] {
        let config = config(&world, version);
        for _ in 0..2 {
            assert!(!connect(&world, &Options::default(), &config).resumed);
        }
    }
}

#[test]
fn a_client_is_known_by_a_ticket_that_opens_and_by_nothing_else() {
    let world = World::new(KeyKind::Ecdsa);
    for version in [&TLS13, &TLS12] {
        let config = config(&world, version);
        let hello = || Peer::client(config.clone(), "redis.test").output();
        let acceptor = world.acceptor(&options(keys("a")));
        assert!(!acceptor.knows(&hello()), "without a ticket");
        connect(&world, &options(keys("a")), &config);
        let with_ticket = hello();
        assert!(acceptor.knows(&with_ticket));
        assert!(!world.acceptor(&options(keys("b"))).knows(&with_ticket), "another listener's");
        assert!(!acceptor.knows(&with_ticket[..with_ticket.len() - 1]), "cut");
        // A ticket that was made up is as long as a real one.
        let ticket = 81_000_u64.to_be_bytes();
        let at = with_ticket.windows(8).position(|bytes| bytes == ticket).unwrap();
        let mut forged = with_ticket.clone();
        forged[at + 8] ^= 1;
        assert!(!acceptor.knows(&forged), "forged");
    }
}
