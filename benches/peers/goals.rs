//! The figures that ringwall is to reach, as ratios within one run, and whether it does.

use crate::cases::Better;
use crate::comparison::best;
use crate::measures::requests::{PROXY, THROUGHPUT};
use crate::peer::Role;
use crate::stage::Row;

/// The cases that have been measured: their names and rows.
pub(crate) type Measured = [(&'static str, Vec<Row>)];

/// What a figure of ringwall's is compared with.
#[derive(Clone, Copy, Debug)]
enum Against {
    /// The best of these, as a ratio.
    BestOf(Role),
    /// Nothing: it is the figure itself.
    Nothing,
    /// The same figure in another case, from which it rises. What counts is by how much more, in hundredths, than that of the
    /// floor that is the best in this case.
    RiseFrom(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

use Against::{BestOf, Nothing, RiseFrom};
use Bound::{AtLeast, AtMost};

/// Case, figure, what it is compared with, and the bound.
type Goal = (&'static str, &'static str, Against, Bound);

const PEER: Against = BestOf(Role::Peer);
const FLOOR: Against = BestOf(Role::Floor);
const CONNECTIONS: &str = "per proxy CPU s";
const UNEVEN: &str = "most loaded worker to the mean";

const GOALS: &[Goal] = &[
    ("64 B, 50 clients", PROXY, PEER, AtMost(0.85)),
    ("64 B, 50 clients", PROXY, FLOOR, AtMost(1.15)),
    ("64 B, 500 clients", PROXY, PEER, AtMost(0.85)),
    ("64 B, 500 clients", PROXY, FLOOR, AtMost(1.15)),
    ("unix socket, 64 B, 50 clients", PROXY, PEER, AtMost(0.85)),
    ("unix socket, 64 B, 500 clients", PROXY, PEER, AtMost(0.85)),
    // Elsewhere the proxy has a core to itself, and the clients' is the bottleneck.
    ("server on the proxy's core, 64 B, 50 clients", THROUGHPUT, PEER, AtLeast(1.0)),
    ("server on the proxy's core, 64 B, 500 clients", THROUGHPUT, PEER, AtLeast(1.0)),
    ("latency at a fixed rate, 50 clients", "p99 us", PEER, AtMost(1.0)),
    ("64 B, 50 clients, pipeline 16", PROXY, PEER, AtMost(0.88)),
    ("64 B, 50 clients, pipeline 64", PROXY, PEER, AtMost(1.0)),
    ("16 KiB, 8 clients", PROXY, PEER, AtMost(0.70)),
    ("64 KiB, 8 clients", PROXY, PEER, AtMost(0.75)),
    ("1 MiB, 8 clients", PROXY, PEER, AtMost(0.90)),
    ("full handshakes", CONNECTIONS, PEER, AtLeast(1.25)),
    ("resumed handshakes", CONNECTIONS, PEER, AtLeast(1.25)),
    ("idle connections", "KiB each, of 9,000", Nothing, AtMost(6.0)),
    ("added latency, 1 client", "added p50 us", PEER, AtMost(0.5)),
    ("system calls, server on the proxy's core", "of which io_uring_enter", Nothing, AtMost(0.15)),
    ("system calls, server on the proxy's core", "calls per request", Nothing, AtMost(0.3)),
    ("system calls, server on the proxy's core", "futex", Nothing, AtMost(0.0)),
    ("64 B, 500 clients", PROXY, RiseFrom("64 B, 50 clients"), AtMost(5.0)),
    ("64 B, 5000 clients", PROXY, RiseFrom("64 B, 50 clients"), AtMost(5.0)),
    ("9000 connections, 90 busy", "dispatcher's CPU, % of shards'", Nothing, AtMost(1.0)),
    ("skewed load, 2 workers", UNEVEN, Nothing, AtMost(1.25)),
    ("skewed load, 4 workers", UNEVEN, Nothing, AtMost(1.25)),
];

/// A line of a table for each goal that was measured.
pub(crate) fn lines(measured: &Measured) -> Vec<String> {
    let line = |&goal: &Goal| {
        let (case, figure, against, bound) = goal;
        let value = value(measured, goal)?;
        let beside = match against {
            BestOf(Role::Floor) => "to the best of the floors".to_owned(),
            BestOf(_) => "to the best peer".to_owned(),
            Nothing => String::new(),
            RiseFrom(case) => format!("points that it rises from \"{case}\" beyond the best floor"),
        };
        let (bound, holds) = match bound {
            AtMost(most) => (format!("at most {most}"), value <= most),
            AtLeast(least) => (format!("at least {least}"), value >= least),
        };
        let verdict = if holds { "reached" } else { "NOT reached" };
        Some(format!("| {case} | {figure} {beside} | {value:.2} | {bound} | {verdict} |"))
    };
    GOALS.iter().filter_map(line).collect()
}

fn value(measured: &Measured, (case, figure, against, bound): Goal) -> Option<f64> {
    let rows = rows(measured, case)?;
    let ours = ours(rows)?;
    match against {
        Nothing => Some(ours.figure(figure)?.median()),
        BestOf(role) => {
            let better = if matches!(bound, AtMost(_)) { Better::Less } else { Better::More };
            Some(ours.ratio_to(best(rows, role, figure, better)?, figure)?.0.median())
        }
        RiseFrom(other) => {
            let before = self::rows(measured, other)?;
            let floor = best(rows, Role::Floor, figure, Better::Less)?;
            let floor_before = before.iter().find(|row| row.program == floor.program)?;
            let rise = |row: &Row, before: &Row| Some(row.ratio_to(before, figure)?.0.median());
            Some((rise(ours, self::ours(before)?)? - rise(floor, floor_before)?) * 100.0)
        }
    }
}

fn rows<'a>(measured: &'a Measured, case: &str) -> Option<&'a [Row]> {
    measured.iter().find(|(name, _)| *name == case).map(|(_, rows)| &rows[..])
}

/// ringwall as it is by default.
fn ours(rows: &[Row]) -> Option<&Row> {
    rows.iter().find(|row| row.role == Role::Ours)
}
