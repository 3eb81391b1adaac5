//! How the program stands, as `/status` says it.

use std::sync::Arc;

use super::Desk;
use super::api::{Asked, Backend, Certificate, Check, DialFailure, Listener, Sentinel, Server, Shard, Status};
use super::door::Entrance;
use crate::control::health::{Contact, SentinelStatus, ServerStatus};
use crate::control::standing::Phase;
use crate::control::{Hold, RunningListener};
use crate::io::sys;
use crate::roster::{Member, Standing};

/// The state of a server that gets sessions and that no check has looked at.
const UNCHECKED: &str = "unchecked";

impl Desk {
    pub(super) fn status(&self, entrance: Entrance) -> Status {
        let state = self.standing.read();
        let running = self.watched.in_force.read();
        let config = &running.config;
        let listeners = config.listeners.iter().zip(&running.listeners);
        let listeners = listeners.map(|(listener, RunningListener { address, ledger })| {
            let shared = listener.multiplex.map(|_| ledger.shared_in_all().unwrap_or_default());
            Listener {
                name: listener.name.to_string(),
                address: address.to_string(),
                backend: config.backends[listener.backend].name.to_string(),
                mode: if shared.is_some() { "multiplex" } else { "transparent" }.to_owned(),
                shared_connections: shared.as_ref().map(|shared| shared.shared_connections),
                own_connections: shared.as_ref().map(|shared| shared.own_connections),
                state: if self.is_drained(ledger) { "drained" } else { "open" }.to_owned(),
                connections: ledger.open_in_all(),
            }
        });
        let shards = self.watched.shards.iter().enumerate().map(|(number, shard)| {
            let load = shard.load.read(sys::now());
            // In this order, so that none is counted as ended that was not counted before.
            let ended = shard.tally.sessions_ended.get();
            Shard {
                shard: number,
                connections: shard.tally.sessions.get().saturating_sub(ended),
                pending: load.pending,
                handshakes: load.handshakes,
                busy: f64::from(load.busy_permille) / 1e3,
            }
        });
        let certificates = state.certificates.iter().map(|shown| Certificate {
            listener: shown.listener.to_string(),
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
            changes_allowed: self.changes_allowed(entrance),
            listeners: listeners.collect(),
            shards: shards.collect(),
            backends: self.backends(),
            certificates: certificates.collect(),
        }
    }

    fn backends(&self) -> Vec<Backend> {
        let checks = self.watched.checks.read();
        let backends = self.watched.rosters.all().into_iter();
        let backends = backends.map(|Hold { id, name, roster, waiting, .. }| {
            let checks = checks.iter().find(|status| status.backend == id);
            let server = |member| server(member, checks.and_then(|status| status.server(member)));
            Backend {
                name: name.to_string(),
                queue: waiting.total(),
                sentinel: checks.and_then(|status| status.sentinel.as_ref()).map(sentinel),
                servers: roster.iter().map(server).collect(),
            }
        });
        backends.collect()
    }
}

fn server(member: &Arc<Member>, checks: Option<&ServerStatus>) -> Server {
    let failure = member.dials().failure();
    let is_unchecked = member.standing() == Standing::Up && checks.is_none_or(|status| status.checked.is_none());
    let (state, why) = if is_unchecked {
        let problem = failure.as_ref().map(|(_, problem)| format!(": {problem}"));
        (UNCHECKED, UNCHECKED.to_owned() + &problem.unwrap_or_default())
    } else {
        (member.standing().label(), member.standing_in_words())
    };
    Server {
        name: member.name.to_string(),
        address: member.address.to_string(),
        state: state.to_owned(),
        why,
        role: checks.and_then(|status| status.role).map(|role| role.label().to_owned()),
        check: checks.and_then(check),
        failure: failure.map(|(at, problem)| DialFailure {
            age_seconds: sys::now().since(at).as_secs_f64(),
            problem: problem.into(),
        }),
        connections: member.connections(),
    }
}

fn check(status: &ServerStatus) -> Option<Check> {
    let now = sys::now();
    status.checked.map(|(checked, result)| Check {
        age_seconds: now.since(checked).as_secs_f64(),
        took_seconds: status.took.as_secs_f64(),
        result: result.label().to_owned(),
        problem: status.problem.as_deref().map(str::to_owned),
        state: status.state.label().to_owned(),
        state_age_seconds: now.since(status.since).as_secs_f64(),
        checks: status.checks,
        checks_failed: status.checks_failed,
    })
}

fn sentinel(status: &SentinelStatus) -> Sentinel {
    let unnamed = || status.primary.is_none().then(|| "none of them has named a primary yet".to_owned());
    Sentinel {
        primary_name: status.primary_name.to_string(),
        primary: status.primary.as_ref().map(ToString::to_string),
        epoch: status.epoch,
        switches: status.switches,
        problem: status.problem.as_deref().map(str::to_owned).or_else(unnamed),
        asked: status.sentinels.iter().map(|(address, contact)| asked(address, contact)).collect(),
    }
}

fn asked(address: &str, contact: &Contact) -> Asked {
    let (state, problem) = match contact {
        Contact::Unasked => ("unasked", None),
        Contact::Answers => ("answers", None),
        Contact::UnknownName => ("unknown_name", Some("it knows no primary by this name".to_owned())),
        Contact::Trouble(why) => ("trouble", Some(why.clone())),
    };
    Asked { address: address.to_owned(), state: state.to_owned(), problem }
}
