//! What is asked of the programs, case by case.

use crate::credentials::KeyKind;
use crate::peer::{Role, Spoken};

/// One table of the report.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) setting: Setting,
    pub(crate) kind: Kind,
}

/// What stands around the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The certificate's.
    pub(crate) key: KeyKind,
    /// The server listens on a unix socket for the proxies.
    pub(crate) unix: bool,
    /// The server is on the proxy's core.
    pub(crate) together: bool,
    pub(crate) cast: Cast,
}

/// Which programs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    /// All, with one worker each.
    Everyone,
    /// ringwall with 1, 2, 4 and 8 shards.
    Shards,
    /// Those that place connections in different ways, with so many workers each.
    Placing(usize),
}

const PLAIN: Setting = Setting { key: KeyKind::Ecdsa, unix: false, together: false, cast: Cast::Everyone };
const UNIX: Setting = Setting { unix: true, ..PLAIN };
const TOGETHER: Setting = Setting { together: true, ..PLAIN };
const RSA: Setting = Setting { key: KeyKind::Rsa, ..PLAIN };
const SHARDS: Setting = Setting { cast: Cast::Shards, ..PLAIN };

const fn placing(workers: usize) -> Setting {
    Setting { cast: Cast::Placing(workers), ..PLAIN }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Clients that each keep so many GETs of a value of so many bytes outstanding.
    Requests { clients: usize, pipeline: usize, value_bytes: usize },
    /// What one client without pipeline waits for longer than if it asked the server directly.
    Added,
    /// How long clients wait whose requests do not wait for answers.
    Latency { clients: usize },
    /// Clients that connect, ask PING and leave.
    Handshakes { resumed: bool },
    /// Clients that do nothing.
    Idle,
    /// Of so many sessions so many ask.
    FewBusy { connections: usize, busy: usize },
    /// System calls of clients with one request outstanding each.
    SystemCalls { clients: usize },
    /// Sessions some of which ask far more than others: from when they come, or only when all have come.
    Skewed { late: bool },
}

/// Whether more of the first figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

impl Kind {
    pub(crate) const fn better(self) -> Better {
        match self {
            Self::Handshakes { .. } => Better::More,
            Self::Requests { .. }
            | Self::Added
            | Self::Latency { .. }
            | Self::Idle
            | Self::FewBusy { .. }
            | Self::SystemCalls { .. }
            | Self::Skewed { .. } => Better::Less,
        }
    }

    /// Whether it can be asked of such a program.
    pub(crate) fn suits(self, role: Role, spoken: Spoken) -> bool {
        match self {
            Self::Requests { .. } | Self::Latency { .. } | Self::SystemCalls { .. } => true,
            Self::Added | Self::Handshakes { .. } | Self::Idle => spoken == Spoken::Tls,
            Self::FewBusy { .. } | Self::Skewed { .. } => role != Role::Direct,
        }
    }
}

impl Case {
    /// All cases; those of one setting stand together, because it is set up once for them.
    pub(crate) fn all() -> Vec<Self> {
        let case = |name, setting, kind| Self { name, setting, kind };
        let requests = |name, setting, clients, pipeline, value_bytes| {
            case(name, setting, Kind::Requests { clients, pipeline, value_bytes })
        };
        vec![
            // First, because what a process has grown to it keeps.
            case("idle connections", PLAIN, Kind::Idle),
            case("9000 connections, 90 busy", PLAIN, Kind::FewBusy { connections: 9_000, busy: 90 }),
            requests("64 B, 1 client", PLAIN, 1, 1, 64),
            requests("64 B, 50 clients", PLAIN, 50, 1, 64),
            requests("64 B, 500 clients", PLAIN, 500, 1, 64),
            requests("64 B, 5000 clients", PLAIN, 5_000, 1, 64),
            requests("64 B, 50 clients, pipeline 16", PLAIN, 50, 16, 64),
            requests("64 B, 50 clients, pipeline 64", PLAIN, 50, 64, 64),
            requests("16 KiB, 8 clients", PLAIN, 8, 1, 16 << 10),
            requests("64 KiB, 8 clients", PLAIN, 8, 1, 64 << 10),
            requests("1 MiB, 8 clients", PLAIN, 8, 1, 1 << 20),
            case("added latency, 1 client", PLAIN, Kind::Added),
            case("latency at a fixed rate, 50 clients", PLAIN, Kind::Latency { clients: 50 }),
            case("system calls, 50 clients", PLAIN, Kind::SystemCalls { clients: 50 }),
            case("full handshakes", PLAIN, Kind::Handshakes { resumed: false }),
            case("resumed handshakes", PLAIN, Kind::Handshakes { resumed: true }),
            case("full handshakes, RSA", RSA, Kind::Handshakes { resumed: false }),
            requests("unix socket, 64 B, 50 clients", UNIX, 50, 1, 64),
            requests("unix socket, 64 B, 500 clients", UNIX, 500, 1, 64),
            requests("server on the proxy's core, 64 B, 50 clients", TOGETHER, 50, 1, 64),
            requests("server on the proxy's core, 64 B, 500 clients", TOGETHER, 500, 1, 64),
            case("system calls, server on the proxy's core", TOGETHER, Kind::SystemCalls { clients: 50 }),
            requests("shards on one core, 64 B, 50 clients", SHARDS, 50, 1, 64),
            requests("shards on one core, 64 B, 500 clients", SHARDS, 500, 1, 64),
            case("skewed load, 2 workers", placing(2), Kind::Skewed { late: false }),
            case("skewed load, 2 workers, busy late", placing(2), Kind::Skewed { late: true }),
            case("skewed load, 4 workers", placing(4), Kind::Skewed { late: false }),
        ]
    }
}
