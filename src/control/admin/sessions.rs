//! `/sessions`: which are meant, and a page of them gathered from the shards.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Desk;
use super::api::{Session, Sessions};
use super::asking::NoAnswer;
use crate::config::{Listener, parse_duration};
use crate::control::{Hold, Running, RunningListener};
use crate::multiplex::Way;
use crate::shard::SessionId;
use crate::shard::listing::{Filter, Row};

/// Sessions of a page when the request says nothing, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;
/// Questions to shards for one page at most: with rare matches among many sessions, the page is short.
const QUESTIONS_MAX: usize = 256;

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    filter: Filter,
    page: usize,
    /// The shard and the slot to begin at.
    from: (u16, u32),
}

impl Wish {
    /// Reads the names and values of a request's query.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in one line.
    pub(super) fn read<'q>(
        pairs: impl Iterator<Item = (std::borrow::Cow<'q, str>, std::borrow::Cow<'q, str>)>,
        running: &Running,
        backends: &[Hold],
    ) -> Result<Self, String> {
        let mut wish = Self { page: PAGE, ..Self::default() };
        for (name, value) in pairs {
            let wrong = |allowed: &str| format!("{name}={value}: it must be {allowed}");
            match &*name {
                "listener" => wish.filter.listener = Some(Arc::clone(&listener(running, &value)?.1.ledger)),
                "backend" => wish.filter.backend = Some(backend(backends, &value)?.id),
                "client" => {
                    let client: IpAddr = value.parse().map_err(|_| wrong("an address without a port"))?;
                    wish.filter.client = Some(client);
                }
                "min_age" => {
                    let age = parse_duration(&value).ok_or_else(|| wrong("a duration such as 10s"))?;
                    wish.filter.age_min = age;
                }
                "min_bytes" => wish.filter.bytes_min = value.parse().map_err(|_| wrong("a number of bytes"))?,
                "pending" => wish.filter.pending = Some(value.parse().map_err(|_| wrong("true or false"))?),
                "limit" => {
                    let page = value.parse().ok().filter(|page| (1..=PAGE_MAX).contains(page));
                    wish.page = page.ok_or_else(|| wrong("1 to 1000"))?;
                }
                "after" => {
                    let place = value.split_once('-');
                    let place = place.and_then(|(shard, slot)| Some((shard.parse().ok()?, slot.parse().ok()?)));
                    wish.from = place.ok_or_else(|| wrong("the `next` of another page"))?;
                }
                _ => {
                    return Err(format!(
                        "{name}: there are listener, backend, client, min_age, min_bytes, pending, limit, after"
                    ));
                }
            }
        }
        Ok(wish)
    }
}

/// The listener with this name, as it is written and as it runs.
pub(super) fn listener<'r>(running: &'r Running, name: &str) -> Result<(&'r Listener, &'r RunningListener), String> {
    let mut all = running.config.listeners.iter().zip(&running.listeners);
    let names = || running.config.listeners.iter().map(|listener| &*listener.name);
    all.find(|(listener, _)| *listener.name == *name)
        .ok_or_else(|| format!("no listener is called {name}; there are {}", joined(names())))
}

/// The backend with this name.
pub(super) fn backend<'h>(backends: &'h [Hold], name: &str) -> Result<&'h Hold, String> {
    let names = || backends.iter().map(|hold| &*hold.name);
    let found = backends.iter().find(|hold| *hold.name == *name);
    found.ok_or_else(|| format!("no backend is called {name}; there are {}", joined(names())))
}

fn joined<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// What `close` calls a session.
pub(in crate::control) fn shown(shard: u16, id: SessionId) -> String {
    format!("{shard}-{}-{}", id.slot, id.generation)
}

/// The session of this name.
pub(super) fn named(name: &str) -> Option<(u16, SessionId)> {
    let mut parts = name.splitn(3, '-');
    let shard = parts.next()?.parse().ok()?;
    Some((shard, SessionId { slot: parts.next()?.parse().ok()?, generation: parts.next()?.parse().ok()? }))
}

impl Desk {
    /// A page of the sessions that are meant.
    pub(super) async fn sessions(&self, wish: Wish) -> Result<Sessions, NoAnswer> {
        let shards = u16::try_from(self.watched.shards.len()).unwrap_or(u16::MAX);
        let Wish { filter, page, from: (mut shard, mut slot) } = wish;
        let mut sessions = Vec::new();
        for _ in 0..QUESTIONS_MAX {
            if shard >= shards || sessions.len() >= page {
                break;
            }
            let answer = self.list(shard, filter.clone(), slot, page - sessions.len()).await?;
            sessions.extend(answer.rows.into_iter().map(|row| session(shard, row)));
            (shard, slot) = answer.next.map_or((shard + 1, 0), |next| (shard, next));
        }
        let next = (shard < shards).then(|| format!("{shard}-{slot}"));
        Ok(Sessions { sessions, next })
    }
}

fn session(shard: u16, row: Row) -> Session {
    let (connection, own_for) = match row.way {
        None => (None, None),
        Some(Way::Shared) => (Some("shared".to_owned()), None),
        Some(Way::Own(departure)) => (Some("own".to_owned()), Some(departure.label().to_owned())),
    };
    Session {
        id: shown(shard, row.id),
        client: row.client.map(|client| client.to_string()),
        client_identity: row.client_identity.map(String::from),
        tls_version: row.tls_version.map(str::to_owned),
        listener: row.listener.name().to_owned(),
        backend: row.backend.to_string(),
        server: row.server.map(|server| server.address.to_string()),
        server_local_port: row.server_local_port,
        connection,
        own_for,
        state: row.stage.to_owned(),
        pending: row.pending,
        age_seconds: seconds(row.age),
        idle_seconds: seconds(row.idle),
        client_rx_bytes: row.client_bytes.0,
        client_tx_bytes: row.client_bytes.1,
        server_rx_bytes: row.server_bytes.0,
        server_tx_bytes: row.server_bytes.1,
    }
}

/// With milliseconds as decimals.
fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_a_name_that_is_read_back() {
        let id = SessionId { slot: 17, generation: 4_000_000_000 };
        assert_eq!(shown(3, id), "3-17-4000000000");
        assert_eq!(named("3-17-4000000000"), Some((3, id)));
        for wrong in ["", "3", "3-17", "3-17-", "3-17-1-1", "a-b-c", "3-17-4294967296"] {
            assert_eq!(named(wrong), None, "{wrong}");
        }
    }
}
