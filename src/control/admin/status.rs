//! How the program stands, as `/status` says it.

use super::Desk;
use super::api::{Backend, Certificate, Listener, Server, Shard, Status};
use super::families::busy_permille;
use crate::control::standing::Phase;
use crate::metrics::Totals;

impl Desk {
    pub(super) fn status(&self) -> Status {
        let state = self.standing.read();
        let config = &self.watched.config;
        let totals: Vec<Totals> = self.watched.shards.iter().map(|shard| shard.tally.totals()).collect();
        let open = |totals: &Totals, listener: u16| {
            totals.sessions_of[listener].saturating_sub(totals.sessions_ended_of[listener])
        };
        let listeners = (0..).zip(config.listeners.iter().zip(&self.watched.listening));
        let listeners = listeners.map(|(index, (listener, address))| Listener {
            name: listener.name.to_string(),
            address: address.to_string(),
            backend: config.backends[listener.backend].name.to_string(),
            state: if self.is_drained(index) { "drained" } else { "open" }.to_owned(),
            connections: totals.iter().map(|totals| open(totals, index)).sum(),
        });
        let numbers = 0..u16::try_from(config.listeners.len()).unwrap_or(u16::MAX);
        let shards = self.watched.shards.iter().zip(&totals).enumerate().map(|(number, (shard, totals))| {
            let load = shard.load.read();
            Shard {
                shard: number,
                connections: numbers.clone().map(|listener| open(totals, listener)).sum(),
                pending: load.pending,
                handshakes: load.handshakes,
                busy: busy_permille(totals) as f64 / 1e3,
            }
        });
        let certificates = state.certificates.iter().map(|shown| Certificate {
            listener: config
                .listeners
                .get(shown.listener)
                .map(|listener| listener.name.to_string())
                .unwrap_or_default(),
            name: shown.facts.name.clone(),
            serial: shown.facts.serial.clone(),
            not_after_unix: shown.facts.not_after_unix,
            matches_disk: shown.facts.matches_disk(),
        });
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: self.watched.kernel.to_string(),
            phase: match state.phase {
                Phase::Serving => "serving",
                Phase::Draining => "draining",
                Phase::Stopping => "stopping",
            }
            .to_owned(),
            log_level: self.log_levels.shown(),
            reload_success: !state.reload_failed,
            listeners: listeners.collect(),
            shards: shards.collect(),
            backends: self.backends(),
            certificates: certificates.collect(),
        }
    }

    fn backends(&self) -> Vec<Backend> {
        let backends = self.watched.rosters.all().map(|(name, roster)| {
            let servers = roster.iter().map(|member| Server {
                name: member.name.to_string(),
                address: member.address.to_string(),
                state: member.standing().label().to_owned(),
                why: member.standing_in_words(),
                connections: member.connections(),
            });
            Backend { name: name.to_owned(), servers: servers.collect() }
        });
        backends.collect()
    }
}
