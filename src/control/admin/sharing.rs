//! The families of metrics of listeners whose sessions share connections.

use super::exposition::{Exposition, Kind, Value};
use super::families::{distinct, in_seconds};
use crate::control::{Running, RunningListener};
use crate::ledger::Ledger;
use crate::metrics::SharingTotals;
use crate::multiplex::{Departure, Family};

/// Writes them. Each listener that multiplexes is shown, and those that did before a reload.
pub(super) fn expose(text: &mut Exposition, running: &Running, shards: usize) {
    let listeners = running.config.listeners.iter().zip(&running.listeners);
    let shown: Vec<(&str, SharingTotals)> = listeners
        .filter_map(|(listener, RunningListener { ledger, .. })| {
            let counted = ledger.shared_in_all();
            Some((ledger.name(), counted.or_else(|| listener.multiplex.map(|_| SharingTotals::default()))?))
        })
        .collect();
    connections(text, running, shards);
    requests(text, &shown);
    durations(text, &shown);
    departures(text, &shown);
}

fn connections(text: &mut Exposition, running: &Running, shards: usize) {
    let help =
        "Connections to servers of multiplexed sessions: shared ones, and those that are one session's own or kept.";
    let mut family = text.family(Kind::Gauge, "ringwall_multiplex_connections", help);
    let of_listeners = running.listeners.iter().map(|listener| &listener.ledger);
    let names = of_listeners.chain(&running.left).map(|ledger| ((), ledger.name()));
    for ((), listener) in distinct(names) {
        for shard in 0..shards {
            let counted =
                running.ledgers_named(listener).filter_map(|ledger: &std::sync::Arc<Ledger>| ledger.shared(shard));
            let counted = counted.map(|of| (of.shared_connections, of.own_connections));
            let Some((shared, own)) = counted.reduce(|(a, b), (c, d)| (a + c, b + d)) else { continue };
            let shard = &*shard.to_string();
            family.sample(&[("listener", listener), ("shard", shard), ("kind", "shared")], shared);
            family.sample(&[("listener", listener), ("shard", shard), ("kind", "own")], own);
        }
    }
}

fn requests(text: &mut Exposition, shown: &[(&str, SharingTotals)]) {
    let help = "Requests of multiplexed sessions by the connection they went over; those of sessions that are on their own \
                for life are passed on unread and not counted.";
    let mut family = text.family(Kind::Counter, "ringwall_multiplex_requests_total", help);
    for (listener, counted) in shown {
        family.sample(&[("listener", listener), ("connection", "shared")], counted.requests_shared);
        family.sample(&[("listener", listener), ("connection", "own")], counted.requests_own);
    }
    let help = "Requests that left together over a shared connection.";
    let mut family = text.family(Kind::Histogram, "ringwall_multiplex_batch_requests", help);
    for (listener, counted) in shown {
        let batch = &counted.shared_batch;
        let cumulative = batch.cumulative().map(|(bound, values)| (bound as f64, values));
        family.histogram(&[("listener", listener)], cumulative, batch.count(), Value::Whole(batch.sum));
    }
}

fn durations(text: &mut Exposition, shown: &[(&str, SharingTotals)]) {
    let help = "Time from a request's way to a server to its complete reply, by the family of the command. Blocking ones take \
                what other clients take; those in transactions are of these.";
    let mut family = text.family(Kind::Histogram, "ringwall_multiplex_request_duration_seconds", help);
    for (listener, counted) in shown {
        for (index, name) in Family::LABELS.iter().enumerate() {
            let micros = &counted.request_micros[index];
            if micros.count() > 0 {
                in_seconds(&mut family, &[("listener", listener), ("family", name)], micros);
            }
        }
    }
}

fn departures(text: &mut Exposition, shown: &[(&str, SharingTotals)]) {
    let help = "Times that a multiplexed session took a connection of its own, by the command that needed one.";
    let mut family = text.family(Kind::Counter, "ringwall_multiplex_departures_total", help);
    for (listener, counted) in shown {
        for (index, command) in Departure::labels().enumerate() {
            let value = counted.departures[index];
            if value > 0 {
                family.sample(&[("listener", listener), ("command", command)], value);
            }
        }
    }
}
