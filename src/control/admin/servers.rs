//! The families of metrics about backends: their servers, the sessions that wait for one, and their Sentinels.

use std::sync::Arc;

use super::Watched;
use super::exposition::{Exposition, Kind};
use super::families::distinct;
use crate::control::Hold;
use crate::control::health::{BackendStatus, Contact, ServerStatus};
use crate::roster::{Member, Standing};

/// The role of a server that no check has asked, or that has not told.
const UNKNOWN_ROLE: &str = "unknown";

/// A server as its metrics call it.
struct Shown<'a> {
    backend: &'a str,
    server: String,
    member: &'a Arc<Member>,
    checked: Option<&'a ServerStatus>,
}

pub(super) fn expose(text: &mut Exposition, watched: &Watched) {
    let backends = watched.rosters.all();
    let checks = watched.checks.read();
    let shown = shown(&backends, &checks);
    let help = "Whether a server gets new sessions; its role as it told the last check, where that is asked.";
    let mut family = text.family(Kind::Gauge, "ringwall_backend_up", help);
    for Shown { backend, server, member, checked } in &shown {
        let role = checked.and_then(|status| status.role).map_or(UNKNOWN_ROLE, |role| role.label());
        family.sample(&[("backend", backend), ("server", server), ("role", role)], member.standing() == Standing::Up);
    }
    let help = "Connections to a server that are open or being opened.";
    let mut family = text.family(Kind::Gauge, "ringwall_backend_connections", help);
    for Shown { backend, server, member, .. } in &shown {
        family.sample(&[("backend", backend), ("server", server)], u64::from(member.connections()));
    }
    let help = "Sessions that wait for a place at one of a backend's servers.";
    let mut family = text.family(Kind::Gauge, "ringwall_backend_queue_sessions", help);
    for Hold { name, waiting, .. } in &backends {
        family.sample(&[("backend", name)], u64::from(waiting.total()));
    }
    health_checks(text, &shown);
    sentinels(text, &checks);
}

/// All servers; one that is written twice is shown once.
fn shown<'a>(backends: &'a [Hold], checks: &'a [BackendStatus]) -> Vec<Shown<'a>> {
    let all = backends.iter().flat_map(|Hold { id, name: backend, roster, .. }| {
        let status = checks.iter().find(move |status| status.backend == *id);
        roster.iter().map(move |member| {
            let server = member.address.to_string();
            let checked = status.and_then(|status| status.server(member));
            (Shown { backend, server: server.clone(), member, checked }, (&**backend, server))
        })
    });
    distinct(all).map(|(shown, _)| shown).collect()
}

fn health_checks(text: &mut Exposition, shown: &[Shown<'_>]) {
    let help = "Health checks of a server, by what came of them.";
    let mut family = text.family(Kind::Counter, "ringwall_health_checks_total", help);
    for Shown { backend, server, checked, .. } in shown {
        let Some(ServerStatus { checks, checks_excused: excused, checks_failed: failed, .. }) = checked else {
            continue;
        };
        for (result, value) in [("answered", checks - excused - failed), ("excused", *excused), ("failed", *failed)] {
            family.sample(&[("backend", backend), ("server", server), ("result", result)], value);
        }
    }
    let help = "How long the last health check of a server took.";
    let mut family = text.family(Kind::Gauge, "ringwall_health_check_duration_seconds", help);
    for Shown { backend, server, checked, .. } in shown {
        if let Some(status) = checked.filter(|status| status.checked.is_some()) {
            family.sample(&[("backend", backend), ("server", server)], status.took.as_secs_f64());
        }
    }
}

fn sentinels(text: &mut Exposition, checks: &[BackendStatus]) {
    let all = || checks.iter().filter_map(|backend| Some((&*backend.name, backend.sentinel.as_ref()?)));
    let help = "Whether a Sentinel answers and knows the primary.";
    let mut family = text.family(Kind::Gauge, "ringwall_sentinel_up", help);
    let each = all().flat_map(|(backend, status)| {
        status.sentinels.iter().map(move |(sentinel, contact)| (contact, (backend, &**sentinel)))
    });
    for (contact, (backend, sentinel)) in distinct(each) {
        family.sample(&[("backend", backend), ("sentinel", sentinel)], *contact == Contact::Answers);
    }
    let help = "Whether a primary is known that Sentinels have named.";
    let mut family = text.family(Kind::Gauge, "ringwall_sentinel_primary_known", help);
    for (backend, status) in all() {
        family.sample(&[("backend", backend)], status.primary.is_some());
    }
    let help = "Times that Sentinels have named another primary than the one before.";
    let mut family = text.family(Kind::Counter, "ringwall_sentinel_switches_total", help);
    for (backend, status) in all() {
        family.sample(&[("backend", backend)], status.switches);
    }
}
