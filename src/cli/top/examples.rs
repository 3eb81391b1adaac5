//! A ringwall as the tests of this folder see it.

use std::collections::BTreeMap;

use super::counters::{Counters, Flows};
use super::model::{Pace, Picture, Sample};
use super::sharing::Sharing;
use crate::control::admin::api::{Backend, Listener, Server, Session, Shard, Status};
use crate::time::Time;

fn listener(name: &str, port: u16, connections: u64) -> Listener {
    Listener {
        name: name.into(),
        address: format!("10.0.1.1:{port}"),
        backend: "cache".into(),
        mode: "transparent".into(),
        shared_connections: None,
        own_connections: None,
        state: "open".into(),
        connections,
    }
}

fn server(name: &str, state: &str, why: &str, connections: u32) -> Server {
    let address = format!("10.0.0.{}:6379", &name[1..]);
    let role = Some(if connections > 0 { "primary" } else { "replica" }.to_owned());
    Server {
        name: name.into(),
        address,
        state: state.into(),
        why: why.into(),
        role,
        check: None,
        failure: None,
        connections,
    }
}

pub(super) fn session(id: &str, received: u64, sent: u64) -> Session {
    Session {
        id: id.into(),
        client: Some("192.168.100.100:40001".into()),
        client_identity: None,
        tls_version: Some("TLSv1.3".into()),
        listener: "public".into(),
        backend: "cache".into(),
        server: Some("10.0.0.1:6379".into()),
        server_local_port: Some(50_001),
        connection: None,
        own_for: None,
        state: "relaying".into(),
        pending: false,
        age_seconds: 75.0,
        idle_seconds: 0.1,
        client_rx_bytes: received,
        client_tx_bytes: sent,
        server_rx_bytes: sent,
        server_tx_bytes: received,
    }
}

fn counters() -> Counters {
    let flows = Flows {
        connections: 1_000.0,
        handshakes: 900.0,
        handshakes_failed: 30.0,
        rejected: 4.0,
        from_clients: 2_000_000.0,
        to_clients: 30_000_000.0,
        from_servers: 40_000_000.0,
        to_servers: 2_000_000.0,
    };
    Counters { flows, requests: BTreeMap::new(), stalled: 1.0 }
}

/// Two shards, two listeners, two servers and three sessions, of which one is stalled.
pub(super) fn sample() -> Sample {
    let stalled = Session {
        client: Some("10.0.3.9:40002".into()),
        listener: "internal".into(),
        pending: true,
        idle_seconds: 42.0,
        age_seconds: 7_300.0,
        ..session("0-2-1", 500, 900)
    };
    let identified = Session { client_identity: Some("billing".into()), ..session("1-7-2", 10, 20) };
    Sample {
        at: Time::from_nanos(1_000_000_000),
        status: Status {
            version: "0.1.0".into(),
            kernel: "6.18.0".into(),
            phase: "serving".into(),
            log_level: "ringwall=info".into(),
            reload_success: true,
            changes_allowed: true,
            listeners: vec![listener("public", 6380, 2), listener("internal", 6381, 1)],
            shards: vec![
                Shard { shard: 0, connections: 2, pending: 1, handshakes: 0, busy: 0.95 },
                Shard { shard: 1, connections: 1, pending: 0, handshakes: 3, busy: 0.25 },
            ],
            backends: vec![Backend {
                name: "cache".into(),
                queue: 0,
                sentinel: None,
                servers: vec![server("a1", "up", "up", 3), server("b2", "down", "down: it does not answer in time", 0)],
            }],
            certificates: Vec::new(),
        },
        counters: counters(),
        sessions: vec![session("0-1-1", 4_000, 9_000), stalled, identified],
        complete: true,
    }
}

/// The sample with rates.
pub(super) fn picture() -> Picture {
    let mut picture = Picture::of(sample(), None);
    picture.rates = Some(Flows {
        connections: 12.0,
        handshakes: 8.1,
        handshakes_failed: 0.5,
        rejected: 0.0,
        from_clients: 1_258_291.2,
        to_clients: 35_756_441.6,
        from_servers: 35_546_726.4,
        to_servers: 1_153_433.6,
    });
    picture.paces =
        vec![Pace { received: 512.0, sent: 35_756_441.6 }, Pace::default(), Pace { received: 2_048.0, sent: 100.0 }];
    picture
}

/// The same, with a listener whose clients share connections.
pub(super) fn multiplexed() -> Picture {
    let mut picture = picture();
    let listener = &mut picture.sample.status.listeners[1];
    listener.mode = "multiplex".into();
    (listener.shared_connections, listener.own_connections) = (Some(2), Some(11));
    picture.sharing = vec![Sharing {
        shared_rate: Some(48_210.4),
        share: Some(0.987),
        batch: Some(14.33),
        duration: Some(0.000_412),
    }];
    picture
}
