//! Which server a session is sent to, and what that server speaks.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::BackendEdge;
use super::queue::Queue;
use crate::io::Address;
use crate::roster::balance::{self, Balance, Balancer, Candidate};
use crate::roster::waiting::Waiting;
use crate::roster::{BackendId, Member, Place, Roster, Standing};
use crate::session::transport::Transport;
use crate::time::Time;
use crate::tls::Connector;

/// Members of a backend that a client is told about when none can be reached.
const TOLD_MAX: usize = 4;

/// A backend as its listeners' sessions see it.
#[derive(Debug)]
pub struct Backend {
    /// Which it is, also after a reload.
    pub id: BackendId,
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Its servers.
    pub roster: Roster,
    /// What makes the TLS side of connections to each of them; without one they are spoken to in plain text.
    pub connector: Option<Connector>,
    /// How sessions are sent to them.
    pub options: BackendOptions,
    /// Who waits for a place, on all shards.
    pub waiting: Arc<Waiting>,
    /// What its servers are told before clients' first bytes.
    pub edge: BackendEdge,
}

/// How sessions are sent to a backend's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendOptions {
    /// Which server comes next.
    pub balance: Balance,
    /// How many further servers are tried when the first cannot be reached, each at most once; `None`: all.
    pub retries: Option<u16>,
    /// How long a session waits for a place while every server has as many connections as it may.
    pub queue_timeout: Duration,
    /// Our own addresses to connect from, in turn, of either family; without one, the kernel chooses.
    pub sources: Vec<IpAddr>,
}

/// What there is for a session that asks for a server.
#[derive(Debug)]
pub(super) enum Offer {
    /// A place.
    Place(Rc<Target>, Place),
    /// Those that could be used have as many connections as they may.
    Full,
    /// None can be used.
    Nothing,
}

/// A server as one shard reaches it.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) member: Arc<Member>,
    /// Makes the TLS side of connections to it.
    pub(super) connector: Option<Connector>,
    /// What stands for it in hashes.
    key: u64,
    /// The shard's sessions that share connections to it, whatever it has been made anew for.
    sharing: Rc<Cell<u32>>,
}

impl Target {
    fn new(member: &Arc<Member>, connector: Option<&Connector>) -> Rc<Self> {
        let connector = connector.map(|connector| connector.towards(member.server_name.clone()));
        let key = balance::key(&member.address.to_string());
        Rc::new(Self { member: Arc::clone(member), connector, key, sharing: Rc::default() })
    }

    /// The same server, as another connector reaches it or another description has it.
    fn again(&self, member: &Arc<Member>, connector: Option<&Connector>) -> Rc<Self> {
        let connector = connector.map(|connector| connector.towards(member.server_name.clone()));
        Rc::new(Self { member: Arc::clone(member), connector, key: self.key, sharing: Rc::clone(&self.sharing) })
    }

    fn candidate(&self, index: usize) -> Candidate {
        let connections = self.member.connections().saturating_add(self.sharing.get());
        Candidate { index, weight: self.member.weight, connections, key: self.key }
    }

    /// Counts sessions that share connections to it, for the balance.
    pub(super) fn count_sharing(&self, more: i32) {
        self.sharing.set(self.sharing.get().saturating_add_signed(more));
    }

    /// A connection's wire form.
    pub(super) fn transport(&self) -> Transport {
        self.connector.as_ref().map_or(Transport::Plain, |connector| Transport::Tls(Box::new(connector.engine())))
    }
}

/// A backend as one shard sees it: its snapshot of the servers, its turn-taking among them, and who waits.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) id: BackendId,
    pub(super) name: Arc<str>,
    /// No listener leads to it; it stays for the sessions that have come to it before.
    pub(super) gone: bool,
    /// Sessions of the shard that have come to it.
    pub(super) sessions: usize,
    targets: Vec<Rc<Target>>,
    connector: Option<Connector>,
    pub(super) options: BackendOptions,
    pub(super) waiting: Arc<Waiting>,
    pub(super) queue: Queue,
    pub(super) edge: BackendEdge,
    balancer: Balancer,
    candidates: Vec<Candidate>,
    /// The source address whose turn it is.
    next_source: usize,
    shard: u16,
}

impl Upstream {
    pub(super) fn new(backend: Backend, shard: u16, seed: u64) -> Self {
        let Backend { id, name, roster, connector, options, waiting, edge } = backend;
        let mut upstream = Self {
            id,
            name,
            gone: false,
            sessions: 0,
            targets: Vec::new(),
            connector,
            balancer: Balancer::new(options.balance, seed),
            options,
            waiting,
            queue: Queue::default(),
            edge,
            candidates: Vec::new(),
            next_source: usize::from(shard),
            shard,
        };
        upstream.exchange(&roster);
        upstream
    }

    /// What there is for a session that has tried some servers already; `source` is its client's address. Backups are for
    /// when no other server is up, or none that the session has not tried.
    pub(super) fn offer(&mut self, tried: &[Arc<Member>], source: Option<IpAddr>) -> Offer {
        if self.options.retries.is_some_and(|retries| tried.len() > usize::from(retries)) {
            return Offer::Nothing;
        }
        for backup in [false, true] {
            let mut full = self.gather(backup, tried);
            while let Some(position) = self.balancer.choose(&self.candidates, source) {
                let target = &self.targets[self.candidates[position].index];
                if let Some(place) = Place::take(&target.member) {
                    return Offer::Place(Rc::clone(target), place);
                }
                // Another shard was faster.
                full = true;
                self.candidates.remove(position);
            }
            if full {
                return Offer::Full;
            }
        }
        Offer::Nothing
    }

    /// The server for a session that shares connections, and so needs no place of its own; otherwise as
    /// [`Upstream::offer`].
    pub(super) fn choose(&mut self, tried: &[Arc<Member>], source: Option<IpAddr>) -> Option<Rc<Target>> {
        if self.options.retries.is_some_and(|retries| tried.len() > usize::from(retries)) {
            return None;
        }
        [false, true].into_iter().find_map(|backup| {
            self.gather_up(backup, tried);
            let position = self.balancer.choose(&self.candidates, source)?;
            Some(Rc::clone(&self.targets[self.candidates[position].index]))
        })
    }

    /// Gathers those that can be used; whether some of them have as many connections as they may.
    fn gather(&mut self, backup: bool, tried: &[Arc<Member>]) -> bool {
        self.gather_up(backup, tried);
        let up = self.candidates.len();
        self.candidates.retain(|candidate| self.targets[candidate.index].member.has_room());
        self.candidates.len() < up
    }

    /// Gathers those that are up and not tried, full ones among them.
    fn gather_up(&mut self, backup: bool, tried: &[Arc<Member>]) {
        self.candidates.clear();
        for (index, target) in self.targets.iter().enumerate() {
            let member = &target.member;
            let is_tried = tried.iter().any(|tried| tried.is_same_server(member));
            if member.backup == backup && !is_tried && member.standing() == Standing::Up {
                self.candidates.push(target.candidate(index));
            }
        }
    }

    /// Whether a session that has come at `since` may be served before those that wait: nobody does here, and nobody
    /// elsewhere has waited much longer.
    pub(super) fn may_be_served(&self, since: Time) -> bool {
        self.waiting.total() == 0 || self.queue.has_nobody_fresh() && !self.waiting.passes_by(self.shard, since)
    }

    /// Our own address to connect to a server from.
    pub(super) fn next_source(&mut self, address: &Address) -> Option<IpAddr> {
        let Address::Tcp(address) = address else { return None };
        let count = self.options.sources.len();
        let mut turns = (self.next_source..self.next_source + count).map(|turn| turn % count);
        let turn = turns.find(|&turn| self.options.sources[turn].is_ipv4() == address.is_ipv4())?;
        self.next_source = (turn + 1) % count;
        Some(self.options.sources[turn])
    }

    /// Takes over another snapshot. Members that stay keep what their servers gave for the next connections.
    pub(super) fn exchange(&mut self, roster: &Roster) {
        let targets =
            roster.iter().map(|member| match self.targets.iter().find(|target| target.member.is_same_server(member)) {
                Some(target) if Arc::ptr_eq(&target.member, member) => Rc::clone(target),
                Some(target) => target.again(member, self.connector.as_ref()),
                None => Target::new(member, self.connector.as_ref()),
            });
        self.targets = targets.collect();
        self.balancer.forget();
        // Shards that begin with the same server would send the first sessions of a burst all to that one.
        let all: Vec<_> = self.targets.iter().enumerate().map(|(index, target)| target.candidate(index)).collect();
        for _ in 0..self.shard {
            self.balancer.choose(&all, None);
        }
    }

    /// Is as `backend` says from the next connection on; the connectors that were used. Sessions with a place at a server
    /// keep what they began with.
    pub(super) fn renew(&mut self, backend: Backend, seed: u64) -> Vec<Connector> {
        let Backend { id: _, name: _, roster, connector, options, waiting: _, edge } = backend;
        if self.options.balance != options.balance {
            self.balancer = Balancer::new(options.balance, seed);
        }
        (self.options, self.edge, self.gone) = (options, edge, false);
        let used = self.targets.iter().filter_map(|target| target.connector.clone());
        let used = self.connector.take().into_iter().chain(used).collect();
        self.connector = connector;
        for target in &mut self.targets {
            *target = target.again(&target.member, self.connector.as_ref());
        }
        let members = self.targets.iter().map(|target| Arc::as_ptr(&target.member));
        if !members.eq(roster.iter().map(Arc::as_ptr)) {
            self.exchange(&roster);
        }
        used
    }

    /// What a client and the log are told when there was no place for a session.
    pub(super) fn full_text(&self, why: &str) -> String {
        format!("backend '{}': every server that is up has its max_connections, and {why}", self.name)
    }

    /// What a client and the log are told when no server could be reached; `last` is how the last attempt failed.
    pub(super) fn unreachable_text(&self, last: Option<&str>) -> String {
        let name = &self.name;
        if let Some(last) = last {
            return format!("backend '{name}': {last}");
        }
        let mut told: Vec<String> = self.targets[..self.targets.len().min(TOLD_MAX)]
            .iter()
            .map(|target| format!("{}: {}", target.member.name, target.member.standing_in_words()))
            .collect();
        match self.targets.len() {
            0 => told.push("none is known yet".to_owned()),
            count if count > TOLD_MAX => told.push(format!("and {} more", count - TOLD_MAX)),
            _ => {}
        }
        format!("backend '{name}': no server is up ({})", told.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::Server;

    fn server(port: u16) -> Server {
        Server::at(Address::Tcp(([127, 0, 0, 1], port).into()))
    }

    fn upstream_of(servers: impl IntoIterator<Item = Server>) -> Upstream {
        let options = BackendOptions {
            balance: Balance::RoundRobin,
            retries: None,
            queue_timeout: Duration::from_secs(1),
            sources: Vec::new(),
        };
        let roster = servers.into_iter().collect();
        let waiting = Arc::new(Waiting::new(1, 1));
        let edge = BackendEdge::default();
        let (id, name) = (BackendId(0), "cache".into());
        Upstream::new(Backend { id, name, roster, connector: None, options, waiting, edge }, 0, 1)
    }

    fn upstream(ports: &[u16]) -> Upstream {
        upstream_of(ports.iter().map(|&port| server(port)))
    }

    /// The port of the server that a session gets which has tried `tried`; its place is given back.
    fn choose(upstream: &mut Upstream, tried: &[Arc<Member>]) -> Option<u16> {
        match upstream.offer(tried, None) {
            Offer::Place(target, _) => match target.member.address {
                Address::Tcp(address) => Some(address.port()),
                Address::Unix(_) => None,
            },
            Offer::Full | Offer::Nothing => None,
        }
    }

    fn member(upstream: &Upstream, index: usize) -> Arc<Member> {
        Arc::clone(&upstream.targets[index].member)
    }

    #[test]
    fn sessions_take_the_servers_in_turn() {
        let mut upstream = upstream(&[1, 2, 3]);
        let chosen: Vec<_> = (0..4).filter_map(|_| choose(&mut upstream, &[])).collect();
        assert_eq!(chosen, [1, 2, 3, 1]);
    }

    #[test]
    fn a_session_tries_every_server_once_or_as_many_as_it_may() {
        let mut upstream = upstream(&[1, 2, 3]);
        let all = [0, 1, 2].map(|index| member(&upstream, index));
        assert_eq!(choose(&mut upstream, &all[..2]), Some(3));
        assert!(matches!(upstream.offer(&all, None), Offer::Nothing));
        upstream.options.retries = Some(1);
        assert_eq!(choose(&mut upstream, &all[..1]), Some(2));
        assert!(matches!(upstream.offer(&all[..2], None), Offer::Nothing));
        upstream.options.retries = Some(0);
        assert!(matches!(upstream.offer(&all[..1], None), Offer::Nothing));
    }

    #[test]
    fn a_server_that_is_not_up_is_passed_over_and_told_of() {
        let mut upstream = upstream(&[1, 2]);
        member(&upstream, 0).set_standing(Standing::Down, "no answer");
        assert_eq!([choose(&mut upstream, &[]), choose(&mut upstream, &[])], [Some(2), Some(2)]);
        member(&upstream, 1).set_standing(Standing::Drained, "");
        assert!(matches!(upstream.offer(&[], None), Offer::Nothing));
        let text = "backend 'cache': no server is up (127.0.0.1:1: down: no answer; 127.0.0.1:2: drained)";
        assert_eq!(upstream.unreachable_text(None), text);
    }

    #[test]
    fn many_servers_that_are_not_up_are_told_of_in_one_short_line() {
        let all = upstream(&[1, 2, 3, 4, 5, 6]);
        all.targets.iter().for_each(|target| target.member.set_standing(Standing::Down, ""));
        let text = "backend 'cache': no server is up (127.0.0.1:1: down; 127.0.0.1:2: down; 127.0.0.1:3: down; \
                    127.0.0.1:4: down; and 2 more)";
        assert_eq!(all.unreachable_text(None), text);
        assert_eq!(upstream(&[]).unreachable_text(None), "backend 'cache': no server is up (none is known yet)");
    }

    #[test]
    fn backups_are_for_when_no_other_is_up_or_untried() {
        let mut upstream = upstream_of([Server { backup: true, ..server(9) }, server(1), server(2)]);
        let (first, second) = (member(&upstream, 1), member(&upstream, 2));
        assert_eq!([choose(&mut upstream, &[]), choose(&mut upstream, &[])], [Some(1), Some(2)]);
        first.set_standing(Standing::Down, "");
        assert_eq!(choose(&mut upstream, &[]), Some(2));
        assert_eq!(choose(&mut upstream, &[Arc::clone(&second)]), Some(9));
        second.set_standing(Standing::WrongRole, "");
        assert_eq!(choose(&mut upstream, &[]), Some(9));
        first.set_standing(Standing::Up, "");
        assert_eq!(choose(&mut upstream, &[]), Some(1));
    }

    #[test]
    fn a_full_server_is_passed_over_and_backups_do_not_stand_in_for_it() {
        let full = |port, max| Server { connections_max: Some(max), ..server(port) };
        let mut upstream = upstream_of([full(1, 1), full(2, 2), Server { backup: true, ..server(9) }]);
        let mut places = Vec::new();
        for expected in [1, 2, 2] {
            let Offer::Place(target, place) = upstream.offer(&[], None) else { panic!("there is room") };
            assert_eq!(&*target.member.name, format!("127.0.0.1:{expected}"));
            places.push(place);
        }
        assert!(matches!(upstream.offer(&[], None), Offer::Full));
        places.remove(0);
        assert_eq!(choose(&mut upstream, &[]), Some(1));
    }

    #[test]
    fn another_snapshot_keeps_the_targets_of_members_that_stay() {
        let mut upstream = upstream(&[1, 2]);
        let before: Roster = vec![member(&upstream, 0), member(&upstream, 1)].into();
        let kept = Rc::clone(&upstream.targets[1]);
        upstream.exchange(&before.with([server(2), server(3)]));
        assert!(Rc::ptr_eq(&upstream.targets[0], &kept));
        assert_eq!([choose(&mut upstream, &[]), choose(&mut upstream, &[])], [Some(2), Some(3)]);
        upstream.exchange(&Roster::from(Vec::new()));
        assert!(matches!(upstream.offer(&[], None), Offer::Nothing));
    }

    #[test]
    fn source_addresses_take_turns_within_their_family() {
        let mut upstream = upstream(&[1]);
        upstream.options.sources = ["127.0.0.2", "::1", "127.0.0.3"].map(|ip| ip.parse().unwrap()).into();
        let (v4, v6) = (Address::Tcp("127.0.0.1:1".parse().unwrap()), Address::Tcp("[::1]:1".parse().unwrap()));
        let mut next = |address: &Address| upstream.next_source(address).map(|ip| ip.to_string());
        let turns: Vec<_> = [&v4, &v4, &v6, &v4, &v6].into_iter().filter_map(&mut next).collect();
        assert_eq!(turns, ["127.0.0.2", "127.0.0.3", "::1", "127.0.0.3", "::1"]);
        assert_eq!(next(&Address::Unix("/run/valkey.sock".into())), None);
    }
}
