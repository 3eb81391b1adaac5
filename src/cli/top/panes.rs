//! The rows of each part of the screen.

use super::columns::{Cell, Column, Fitted, Tone};
use super::figures;
use super::model::{Pace, Picture, is_stalled};
use super::screen::{Pane, Screen};
use super::sharing::Sharing;
use crate::control::admin::api::{Backend, Listener, Server, Session, Shard};

/// Where the bar of a shard stands among the columns.
const BAR: usize = 1;
/// Above these shares of its time a shard is nearly, or quite, at its end.
const BUSY_WARNING: f64 = 0.7;
const BUSY_BAD: f64 = 0.9;

const SHARDS: &[Column] = &[
    Column::text("SHARD", 11, 0),
    Column::text("BUSY", 12, 3).growing(),
    Column::number("", 5, 0),
    Column::number("SESSIONS", 10, 0),
    Column::number("PENDING", 9, 1),
    Column::number("HANDSHAKES", 11, 2),
];

const LISTENERS: &[Column] = &[
    Column::text("LISTENER", 14, 0).growing(),
    Column::text("ADDRESS", 21, 2).growing(),
    Column::text("BACKEND", 14, 3),
    Column::text("STATE", 10, 0),
    Column::number("SESSIONS", 10, 1),
];

const MULTIPLEXED: &[Column] = &[
    Column::text("MULTIPLEXED", 14, 0).growing(),
    Column::number("SHARED", 7, 3),
    Column::number("OWN", 7, 2),
    Column::number("SHARED/s", 9, 0),
    Column::number("SHARE", 6, 1),
    Column::number("BATCH", 7, 5),
    Column::number("LATENCY", 9, 4),
];

const SERVERS: &[Column] = &[
    Column::text("BACKEND", 14, 2),
    Column::text("SERVER", 21, 0).growing(),
    Column::text("ADDRESS", 21, 5),
    Column::text("ROLE", 8, 3),
    Column::text("STATE", 10, 0),
    Column::text("WHY", 36, 4).growing(),
    Column::number("CONNECTIONS", 11, 1),
];

const SESSIONS: &[Column] = &[
    Column::text("CLIENT", 18, 0).growing(),
    Column::text("LISTENER", 9, 5).growing(),
    Column::text("SERVER", 21, 6).growing(),
    Column::text("IDENTITY", 16, 7).growing(),
    Column::text("ID", 12, 8),
    Column::text("STATE", 11, 1),
    Column::number("AGE", 4, 4),
    Column::number("IDLE", 4, 3),
    Column::number("IN/s", 8, 2),
    Column::number("OUT/s", 8, 0),
];

impl Pane {
    pub(super) const fn columns(self) -> &'static [Column] {
        match self {
            Self::Shards => SHARDS,
            Self::Listeners => LISTENERS,
            Self::Multiplexed => MULTIPLEXED,
            Self::Servers => SERVERS,
            Self::Sessions => SESSIONS,
        }
    }
}

/// How many rows a pane has.
pub(super) fn count(pane: Pane, picture: &Picture, screen: &Screen) -> usize {
    let status = &picture.sample.status;
    match pane {
        Pane::Shards => status.shards.len(),
        Pane::Listeners => status.listeners.len(),
        Pane::Multiplexed => picture.sharing.len(),
        Pane::Servers => status.backends.iter().map(|backend| backend.servers.len()).sum(),
        Pane::Sessions => screen.sessions(picture).len(),
    }
}

/// Rows of a pane, as many as `rows_max` from the row `from` on.
pub(super) fn rows(
    pane: Pane,
    picture: &Picture,
    screen: &Screen,
    fitted: &Fitted,
    (from, rows_max): (usize, usize),
) -> Vec<Vec<Cell>> {
    let status = &picture.sample.status;
    match pane {
        Pane::Shards => {
            let bar_width = usize::from(fitted.width(BAR));
            status.shards.iter().skip(from).take(rows_max).map(|of| shard(of, bar_width)).collect()
        }
        Pane::Listeners => status.listeners.iter().skip(from).take(rows_max).map(listener).collect(),
        Pane::Multiplexed => {
            let multiplexed = picture.multiplexed().zip(&picture.sharing);
            multiplexed.skip(from).take(rows_max).map(|(of, sharing)| shared(of, sharing)).collect()
        }
        Pane::Servers => {
            let servers = status.backends.iter().flat_map(|of| of.servers.iter().map(move |server| (of, server)));
            servers.skip(from).take(rows_max).map(|(of, each)| server(of, each)).collect()
        }
        Pane::Sessions => {
            let shown = screen.sessions(picture).into_iter().skip(from).take(rows_max);
            shown.map(|index| session(&picture.sample.sessions[index], picture.paces[index])).collect()
        }
    }
}

fn shard(of: &Shard, bar_width: usize) -> Vec<Cell> {
    let tone = match of.busy {
        busy if busy >= BUSY_BAD => Tone::Bad,
        busy if busy >= BUSY_WARNING => Tone::Warning,
        _ => Tone::Good,
    };
    vec![
        Cell::plain(of.shard),
        Cell::toned(bar(of.busy, bar_width), tone),
        Cell::plain(format!("{:.0} %", of.busy * 100.0)),
        Cell::plain(of.connections),
        Cell::toned(of.pending, if of.pending > 0 { Tone::Warning } else { Tone::Plain }),
        Cell::plain(of.handshakes),
    ]
}

/// A bar between brackets, rounded up: any work shows.
fn bar(share: f64, width: usize) -> String {
    let room = width.saturating_sub(2);
    let share = share.clamp(0.0, 1.0);
    // Counting needs no rounding of a float to a whole number.
    let filled = (1..=room).filter(|&cell| (cell as f64) <= (share * room as f64).ceil()).count();
    format!("[{}{}]", "|".repeat(filled), " ".repeat(room - filled))
}

fn listener(of: &Listener) -> Vec<Cell> {
    let tone = if of.state == "open" { Tone::Good } else { Tone::Warning };
    vec![
        Cell::plain(&of.name),
        Cell::plain(&of.address),
        Cell::plain(&of.backend),
        Cell::toned(&of.state, tone),
        Cell::plain(of.connections),
    ]
}

fn shared(of: &Listener, sharing: &Sharing) -> Vec<Cell> {
    let number = |number: Option<u64>| Cell::plain(number.unwrap_or_default());
    let or_none = |number: Option<f64>, shown: fn(f64) -> String| Cell::plain(number.map_or("-".to_owned(), shown));
    vec![
        Cell::plain(&of.name),
        number(of.shared_connections),
        number(of.own_connections),
        or_none(sharing.shared_rate, figures::rate),
        or_none(sharing.share, |share| format!("{:.0} %", share * 100.0)),
        or_none(sharing.batch, figures::rate),
        or_none(sharing.duration, figures::short_time),
    ]
}

fn server(backend: &Backend, of: &Server) -> Vec<Cell> {
    let tone = match &*of.state {
        "up" => Tone::Good,
        "unchecked" if of.failure.is_none() => Tone::Plain,
        "unchecked" | "drained" => Tone::Warning,
        _ => Tone::Bad,
    };
    let why = of.why.split_once(": ").map_or("", |(_, reason)| reason);
    vec![
        Cell::plain(&backend.name),
        Cell::plain(&of.name),
        Cell::plain(&of.address),
        Cell::plain(of.role.as_deref().unwrap_or("-")),
        Cell::toned(&of.state, tone),
        Cell::plain(why),
        Cell::plain(of.connections),
    ]
}

fn session(of: &Session, pace: Pace) -> Vec<Cell> {
    let state = match (is_stalled(of), of.pending) {
        (true, _) => Cell::toned("stalled", Tone::Bad),
        (false, true) => Cell::toned("pending", Tone::Warning),
        (false, false) => Cell::plain(&of.state),
    };
    let or_none = |text: &Option<String>| Cell::plain(text.as_deref().unwrap_or("-"));
    vec![
        or_none(&of.client),
        Cell::plain(&of.listener),
        or_none(&of.server),
        or_none(&of.client_identity),
        Cell::plain(&of.id),
        state,
        Cell::plain(figures::age(of.age_seconds)),
        Cell::plain(figures::age(of.idle_seconds)),
        Cell::plain(figures::bytes(pace.received)),
        Cell::plain(figures::bytes(pace.sent)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_any_work() {
        for (share, shown) in [
            (0.0, "[          ]"),
            (0.001, "[|         ]"),
            (0.5, "[|||||     ]"),
            (0.99, "[||||||||||]"),
            (1.0, "[||||||||||]"),
            (7.0, "[||||||||||]"),
        ] {
            assert_eq!(bar(share, 12), shown, "{share}");
        }
        assert_eq!(bar(0.5, 0), "[]");
    }
}
