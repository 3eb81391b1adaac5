//! A backend's servers as all threads see them.
//!
//! A [`Member`] is one server: what the configuration says of it, and two cells. Its standing is written by the control
//! plane alone and read by shards when they place a session; its connections are counted by the shards, once when a
//! session takes a [`Place`] and once when it gives it back, never per request. A [`Roster`] is a snapshot of all members
//! of one backend: who joins or leaves makes a new one, and each shard exchanges its own.
//!
//! Invariants:
//! - A member that has left its roster lives on in its sessions, so its name is right to the end.
//! - A server that is described otherwise, such as with another weight, is another member with the same record: its
//!   standing, its connections and what is known of it go on.
//! - A member never has more places taken than it may, whatever the shards do at the same moment.
//! - Each place that was taken is given back exactly once: when it is dropped.
//!
//! Read the tests below first.

pub mod balance;
pub mod dials;
pub mod waiting;

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::dials::Dials;
use crate::auth_check::AuthCheck;
use crate::io::Address;
use crate::tls::ServerName;

/// What is said of a server before anybody has asked it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// As the configuration names or writes it.
    pub name: Box<str>,
    /// Where it is; what tells the members of one backend apart.
    pub address: Address,
    /// The name that it is asked for in TLS, where there is one.
    pub server_name: Option<ServerName>,
    /// Its share of the sessions, in proportion to the weights of the others: 1 to 256.
    pub weight: u16,
    /// Whether it gets sessions only when no server that is not a backup can be used.
    pub backup: bool,
    /// Connections to it beyond which sessions wait, from all shards together.
    pub connections_max: Option<u32>,
}

impl Server {
    /// The weight of a server of which nothing is said.
    pub const WEIGHT: u16 = 1;

    /// A server of which nothing is said but where it is.
    #[must_use]
    pub fn at(address: Address) -> Self {
        Self {
            name: address.to_string().into(),
            address,
            server_name: None,
            weight: Self::WEIGHT,
            backup: false,
            connections_max: None,
        }
    }
}

/// Whether a server gets new sessions. The sessions that it has are not touched by a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Standing {
    /// It does. Where nobody checks, every server is up.
    Up,
    /// It does not: it does not answer as it should.
    Down,
    /// It does not: it answers, and is not what the backend is for, such as a replica where a primary is wanted.
    WrongRole,
    /// It does not: an operator has said so.
    Drained,
    /// It does not: its host name does not lead to it any more.
    Gone,
}

impl Standing {
    const ALL: [Self; 5] = [Self::Up, Self::Down, Self::WrongRole, Self::Drained, Self::Gone];

    /// The standing's name in logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::WrongRole => "wrong_role",
            Self::Drained => "drained",
            Self::Gone => "gone",
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::WrongRole => "has another role",
            Self::Drained => "drained",
            Self::Gone => "gone",
        })
    }
}

/// Two cache lines: neighbouring lines are fetched together, so less would still be shared between cores.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// A backend's number: no two that a process has or has had have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackendId(pub u32);

/// One server of a backend.
#[derive(Debug)]
pub struct Member {
    server: Server,
    /// Whether it asks for a password, as shards have seen it.
    pub auth: AuthCheck,
    record: Arc<Record>,
}

/// How a server stands and what it has to do, however it is described.
#[derive(Debug)]
struct Record {
    standing: AtomicU8,
    /// Held while the standing changes.
    reasons: Mutex<Reasons>,
    dials: Dials,
    /// Written by every shard, so it must not lie beside what they all read.
    connections: Apart<AtomicU32>,
    /// Those of them that one client has for itself where others share some.
    apart: AtomicU32,
}

/// Why a member stands as it does, in one line without secrets each.
#[derive(Debug, Default)]
struct Reasons {
    /// Of its standing.
    why: Box<str>,
    /// What checks came to last, whether or not it is in force; nothing where nobody checks.
    checked: Option<(Standing, Box<str>)>,
}

impl Deref for Member {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl From<Server> for Member {
    /// A member that is up and has no connections.
    fn from(server: Server) -> Self {
        let record = Record {
            standing: AtomicU8::new(Standing::Up as u8),
            reasons: Mutex::default(),
            dials: Dials::default(),
            connections: Apart::default(),
            apart: AtomicU32::new(0),
        };
        Self { server, auth: AuthCheck::new(), record: Arc::new(record) }
    }
}

impl Member {
    /// The same server, described otherwise.
    fn described_as(&self, server: Server) -> Self {
        Self { server, auth: self.auth.clone(), record: Arc::clone(&self.record) }
    }

    /// Whether both are one server, however it is described.
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.record, &other.record)
    }

    /// Whether it gets new sessions.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing::ALL[usize::from(self.record.standing.load(Ordering::Relaxed))]
    }

    /// Says whether it gets new sessions, and `why`, in one line without secrets. For the control plane alone.
    pub fn set_standing(&self, standing: Standing, why: &str) {
        self.put_in_force(&mut self.reasons(), standing, why.into());
    }

    /// As [`Member::set_standing`], for whoever checks it: what an operator has said and that it is gone stand above what
    /// checks have to say, and stay; [`Member::enable`] comes back to it.
    pub fn set_checked_standing(&self, standing: Standing, why: &str) {
        let mut reasons = self.reasons();
        reasons.checked = Some((standing, why.into()));
        if !matches!(self.standing(), Standing::Drained | Standing::Gone) {
            self.put_in_force(&mut reasons, standing, why.into());
        }
    }

    /// Takes an operator's drain back: it stands as checks have said last, and is up where nobody checks. Nothing where it
    /// is not drained. For the control plane alone.
    pub fn enable(&self) {
        let mut reasons = self.reasons();
        if self.standing() == Standing::Drained {
            let (standing, why) = reasons.checked.clone().unwrap_or((Standing::Up, Box::default()));
            self.put_in_force(&mut reasons, standing, why);
        }
    }

    /// Nobody checks it any more: it stands as an operator has said, or up. For the control plane alone.
    pub fn forget_checks(&self) {
        let mut reasons = self.reasons();
        if reasons.checked.take().is_some() && !matches!(self.standing(), Standing::Drained | Standing::Gone) {
            self.put_in_force(&mut reasons, Standing::Up, Box::default());
        }
    }

    fn put_in_force(&self, reasons: &mut Reasons, standing: Standing, why: Box<str>) {
        // The reason first: who sees the standing and finds the reason of the one before is told nothing wrong for long.
        reasons.why = why;
        self.record.standing.store(standing as u8, Ordering::Relaxed);
    }

    fn reasons(&self) -> MutexGuard<'_, Reasons> {
        self.record.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its standing in words, with the reason where one was given. Never waits: while the reason is being written, it
    /// is left out.
    #[must_use]
    pub fn standing_in_words(&self) -> String {
        let standing = self.standing();
        match self.record.reasons.try_lock() {
            Ok(reasons) if !reasons.why.is_empty() => format!("{standing}: {}", reasons.why),
            Ok(_) | Err(_) => standing.to_string(),
        }
    }

    /// What came of the attempts to reach it.
    #[must_use]
    pub fn dials(&self) -> &Dials {
        &self.record.dials
    }

    /// Connections to it that are open or being opened, from all shards.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.record.connections.0.load(Ordering::Relaxed)
    }

    /// Connections to it that one client has for itself where others share some, from all shards.
    #[must_use]
    pub fn connections_apart(&self) -> u32 {
        self.record.apart.load(Ordering::Relaxed)
    }

    /// Whether a place can be taken, unless another shard is faster.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.connections_max.is_none_or(|max| self.connections() < max)
    }
}

/// A session's place at a server, counted until it is dropped.
#[derive(Debug)]
pub struct Place(Arc<Member>);

impl Place {
    /// Takes a place; `None` when the server has as many connections as it may.
    #[must_use]
    pub fn take(member: &Arc<Member>) -> Option<Self> {
        let max = member.connections_max.unwrap_or(u32::MAX);
        let one_more = |connections: u32| (connections < max).then(|| connections + 1);
        let cell = &member.record.connections.0;
        let taken = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.is_ok().then(|| Self(Arc::clone(member)))
    }

    /// Whose it is.
    #[must_use]
    pub const fn member(&self) -> &Arc<Member> {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.record.connections.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many connections to a server clients of one shard have for themselves where others share some: they leave room for
/// these. Counted until it is dropped.
#[derive(Debug)]
pub struct Apartness {
    member: Arc<Member>,
    count: u32,
}

impl Apartness {
    /// No connections to this server.
    #[must_use]
    pub const fn none(member: Arc<Member>) -> Self {
        Self { member, count: 0 }
    }

    /// So many, all in all.
    pub fn set(&mut self, count: u32) {
        let cell = &self.member.record.apart;
        if count > self.count {
            cell.fetch_add(count - self.count, Ordering::Relaxed);
        } else if count < self.count {
            cell.fetch_sub(self.count - count, Ordering::Relaxed);
        }
        self.count = count;
    }

    /// Whether these may be so many, with those of other shards, when as many places are to be `kept` for shared ones, or half
    /// of all where there are fewer than twice as many.
    #[must_use]
    pub fn may_be(&self, count: u32, kept: u32) -> bool {
        let Some(max) = self.member.connections_max else { return true };
        let others = self.member.connections_apart() - self.count;
        others + count <= max - kept.min(max / 2)
    }
}

impl Drop for Apartness {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A backend's members at one time, in the order of the configuration. Clones are the same snapshot.
#[derive(Clone, Debug)]
pub struct Roster(Arc<[Arc<Member>]>);

impl Deref for Roster {
    type Target = [Arc<Member>];

    fn deref(&self) -> &[Arc<Member>] {
        &self.0
    }
}

impl From<Vec<Arc<Member>>> for Roster {
    fn from(members: Vec<Arc<Member>>) -> Self {
        Self(members.into())
    }
}

impl FromIterator<Server> for Roster {
    /// New members, all of them up.
    fn from_iter<I: IntoIterator<Item = Server>>(servers: I) -> Self {
        Self(servers.into_iter().map(|server| Arc::new(Member::from(server))).collect())
    }
}

impl Roster {
    /// A snapshot of `servers` that keeps the members which are there already, with their standings and connections.
    /// One whose server is described otherwise is another member with the same record.
    #[must_use]
    pub fn with(&self, servers: impl IntoIterator<Item = Server>) -> Self {
        let mut left: Vec<Option<&Arc<Member>>> = self.iter().map(Some).collect();
        let mut take = |fits: &dyn Fn(&Member) -> bool| {
            left.iter_mut().find(|member| member.is_some_and(|member| fits(member))).and_then(Option::take)
        };
        // First those that stay as they are, so that none of them is taken for another at its address.
        let servers: Vec<Server> = servers.into_iter().collect();
        let kept: Vec<_> = servers.iter().map(|server| take(&|member| member.server == *server)).collect();
        let members = servers.into_iter().zip(kept).map(|(server, kept)| match kept {
            Some(member) => Arc::clone(member),
            None => Arc::new(match take(&|member| member.address == server.address) {
                Some(member) => member.described_as(server),
                None => Member::from(server),
            }),
        });
        members.collect::<Vec<_>>().into()
    }

    /// Whether both are the same snapshot.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16) -> Server {
        Server::at(Address::Tcp(([127, 0, 0, 1], port).into()))
    }

    #[test]
    fn a_member_has_as_many_places_as_it_may_and_each_comes_back() {
        let member = Arc::new(Member::from(Server { connections_max: Some(2), ..server(1) }));
        let (first, second) = (Place::take(&member), Place::take(&member));
        assert!(first.is_some() && second.is_some() && Place::take(&member).is_none());
        assert_eq!((member.connections(), member.has_room()), (2, false));
        drop(first);
        assert_eq!((member.connections(), member.has_room()), (1, true));
        assert!(Place::take(&member).is_some());
        drop(second);
        assert_eq!(member.connections(), 0);
    }

    #[test]
    fn connections_of_clients_own_leave_places_for_shared_ones() {
        let member = Arc::new(Member::from(Server { connections_max: Some(10), ..server(1) }));
        let (mut one, other) = (Apartness::none(Arc::clone(&member)), Apartness::none(Arc::clone(&member)));
        assert!(one.may_be(6, 4) && !one.may_be(7, 4));
        assert!(one.may_be(5, 100) && !one.may_be(6, 100));
        one.set(5);
        one.set(4);
        assert_eq!(member.connections_apart(), 4);
        assert!(one.may_be(6, 4) && other.may_be(2, 4) && !other.may_be(3, 4));
        drop(one);
        assert_eq!(member.connections_apart(), 0);
        let free = Arc::new(Member::from(server(1)));
        assert!(Apartness::none(free).may_be(1_000_000, 100));
    }

    #[test]
    fn threads_together_take_no_more_places_than_there_are() {
        let member = Arc::new(Member::from(Server { connections_max: Some(100), ..server(1) }));
        let taken: usize = std::thread::scope(|scope| {
            let threads = [0; 4].map(|_| {
                let take = || (0..50).filter_map(|_| Place::take(&member)).map(std::mem::forget).count();
                scope.spawn(take)
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((taken, member.connections()), (100, 100));
    }

    #[test]
    fn a_standing_is_told_with_its_reason() {
        let member = Member::from(server(1));
        assert_eq!((member.standing(), member.standing_in_words()), (Standing::Up, "up".to_owned()));
        member.set_standing(Standing::Down, "no answer within 1s");
        assert_eq!((member.standing(), &*member.standing_in_words()), (Standing::Down, "down: no answer within 1s"));
        member.set_standing(Standing::Drained, "");
        assert_eq!((member.standing(), &*member.standing_in_words()), (Standing::Drained, "drained"));
        for standing in Standing::ALL {
            member.set_standing(standing, "");
            assert_eq!(member.standing(), standing);
        }
    }

    #[test]
    fn checks_have_no_say_about_what_is_drained_or_gone() {
        let member = Member::from(server(1));
        member.set_checked_standing(Standing::Down, "refused");
        assert_eq!(member.standing_in_words(), "down: refused");
        for above in [Standing::Drained, Standing::Gone] {
            member.set_standing(above, "said so");
            member.set_checked_standing(Standing::Up, "");
            assert_eq!(member.standing_in_words(), format!("{above}: said so"));
        }
    }

    #[test]
    fn who_is_enabled_stands_as_checks_have_said_last() {
        let member = Member::from(server(1));
        member.set_standing(Standing::Drained, "said so");
        member.enable();
        assert_eq!(member.standing_in_words(), "up");
        member.set_standing(Standing::Drained, "said so");
        for (standing, why) in [(Standing::Up, ""), (Standing::Down, "refused")] {
            member.set_checked_standing(standing, why);
            assert_eq!(member.standing_in_words(), "drained: said so");
        }
        member.enable();
        assert_eq!(member.standing_in_words(), "down: refused");
        member.set_standing(Standing::Gone, "");
        member.enable();
        assert_eq!(member.standing(), Standing::Gone);
    }

    #[test]
    fn a_new_snapshot_keeps_the_members_that_stay() {
        let before: Roster = [server(1), server(2), server(3)].into_iter().collect();
        before[2].set_standing(Standing::Drained, "");
        let after = before.with([server(3), server(4), Server { weight: 7, ..server(1) }]);
        let kept = |new: usize, old: usize| Arc::ptr_eq(&after[new], &before[old]);
        assert!(kept(0, 2) && !kept(1, 1) && !kept(2, 0));
        assert_eq!((after.len(), after[0].standing(), after[2].weight), (3, Standing::Drained, 7));
    }

    #[test]
    fn a_server_that_is_described_otherwise_goes_on_with_its_connections_and_its_standing() {
        let before: Roster = [server(1), server(2)].into_iter().collect();
        before[1].set_checked_standing(Standing::Down, "refused");
        let place = Place::take(&before[1]);
        let after = before.with([Server { weight: 7, connections_max: Some(1), ..server(2) }]);
        assert!(after[0].is_same_server(&before[1]) && !after[0].is_same_server(&before[0]));
        assert_eq!((&*after[0].standing_in_words(), after[0].connections()), ("down: refused", 1));
        assert!(Place::take(&after[0]).is_none());
        drop(place);
        assert_eq!((after[0].connections(), Place::take(&after[0]).is_some()), (0, true));
        after[0].forget_checks();
        assert_eq!(before[1].standing_in_words(), "up");
    }

    #[test]
    fn servers_that_are_listed_twice_are_two_members_before_and_after() {
        let before: Roster = [server(1), server(1)].into_iter().collect();
        let after = before.with([server(1), server(1)]);
        assert!(Arc::ptr_eq(&after[0], &before[0]) && Arc::ptr_eq(&after[1], &before[1]));
        assert!(!Arc::ptr_eq(&after[0], &after[1]));
    }
}
