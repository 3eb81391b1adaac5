//! Which server a session is sent to, and what that server speaks.

use std::rc::Rc;
use std::sync::Arc;

use crate::roster::{Member, Place, Roster, Standing};
use crate::session::transport::Transport;
use crate::tls::Connector;

/// Members of a backend that a client is told about when none can be reached.
const TOLD_MAX: usize = 4;

/// A backend as its listeners' sessions see it.
#[derive(Debug)]
pub struct Backend {
    /// Its name in the configuration.
    pub name: Box<str>,
    /// Its servers.
    pub roster: Roster,
    /// What makes the TLS side of connections to each of them; without one they are spoken to in plain text.
    pub connector: Option<Connector>,
}

/// A server as one shard reaches it.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) member: Arc<Member>,
    /// Makes the TLS side of connections to it.
    pub(super) connector: Option<Connector>,
}

impl Target {
    fn new(member: &Arc<Member>, connector: Option<&Connector>) -> Rc<Self> {
        let connector = connector.map(|connector| connector.towards(member.server_name.clone()));
        Rc::new(Self { member: Arc::clone(member), connector })
    }

    /// A connection's wire form.
    pub(super) fn transport(&self) -> Transport {
        self.connector.as_ref().map_or(Transport::Plain, |connector| Transport::Tls(Box::new(connector.engine())))
    }
}

/// A backend as one shard sees it: its snapshot of the servers, and its turn-taking among them.
#[derive(Debug)]
pub(super) struct Upstream {
    name: Box<str>,
    targets: Vec<Rc<Target>>,
    connector: Option<Connector>,
    next: usize,
}

impl Upstream {
    pub(super) fn new(backend: Backend) -> Self {
        let Backend { name, roster, connector } = backend;
        let targets = roster.iter().map(|member| Target::new(member, connector.as_ref())).collect();
        Self { name, targets, connector, next: 0 }
    }

    /// Takes a place at a server for a session that has tried some already; `None` when none is left that can be used.
    pub(super) fn take_place(&mut self, tried: &[Arc<Member>]) -> Option<(Rc<Target>, Place)> {
        let count = self.targets.len();
        for index in (self.next..self.next + count).map(|index| index % count) {
            let target = &self.targets[index];
            let is_tried = tried.iter().any(|member| Arc::ptr_eq(member, &target.member));
            if !is_tried
                && target.member.standing() == Standing::Up
                && let Some(place) = Place::take(&target.member)
            {
                self.next = (index + 1) % count;
                return Some((Rc::clone(target), place));
            }
        }
        None
    }

    /// Takes over another snapshot. Members that stay keep what their servers gave for the next connections.
    pub(super) fn exchange(&mut self, roster: &Roster) {
        let targets = roster.iter().map(|member| {
            let same = self.targets.iter().find(|target| Arc::ptr_eq(&target.member, member));
            same.map_or_else(|| Target::new(member, self.connector.as_ref()), Rc::clone)
        });
        self.targets = targets.collect();
        self.next = 0;
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
            0 => told.push("it has none".to_owned()),
            count if count > TOLD_MAX => told.push(format!("and {} more", count - TOLD_MAX)),
            _ => {}
        }
        format!("backend '{name}': no server is up ({})", told.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Address;
    use crate::roster::Server;

    fn upstream(ports: &[u16]) -> Upstream {
        let roster = roster(ports);
        Upstream::new(Backend { name: "cache".into(), roster, connector: None })
    }

    fn roster(ports: &[u16]) -> Roster {
        ports.iter().map(|&port| Server::at(Address::Tcp(([127, 0, 0, 1], port).into()))).collect()
    }

    /// Takes a place for a session that has tried `tried`, and gives it back; the server's name.
    fn choose(upstream: &mut Upstream, tried: &[Arc<Member>]) -> Option<String> {
        upstream.take_place(tried).map(|(target, _)| target.member.name.to_string())
    }

    #[test]
    fn sessions_take_the_servers_in_turn() {
        let mut upstream = upstream(&[1, 2, 3]);
        let chosen: Vec<_> = (0..4).filter_map(|_| choose(&mut upstream, &[])).collect();
        assert_eq!(chosen, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:1"]);
    }

    #[test]
    fn a_session_tries_every_server_once() {
        let mut upstream = upstream(&[1, 2, 3]);
        let mut tried = Vec::new();
        for _ in 0..3 {
            let (target, _) = upstream.take_place(&tried).unwrap();
            tried.push(Arc::clone(&target.member));
        }
        let mut names: Vec<_> = tried.iter().map(|member| &*member.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]);
        assert_eq!(choose(&mut upstream, &tried), None);
    }

    #[test]
    fn a_server_that_is_not_up_is_passed_over_and_told_of() {
        let mut upstream = upstream(&[1, 2]);
        upstream.targets[0].member.set_standing(Standing::Down, "no answer");
        assert_eq!(choose(&mut upstream, &[]).as_deref(), Some("127.0.0.1:2"));
        assert_eq!(choose(&mut upstream, &[]).as_deref(), Some("127.0.0.1:2"));
        upstream.targets[1].member.set_standing(Standing::Drained, "");
        assert_eq!(choose(&mut upstream, &[]), None);
        let text = "backend 'cache': no server is up (127.0.0.1:1: down: no answer; 127.0.0.1:2: drained)";
        assert_eq!(upstream.unreachable_text(None), text);
    }

    #[test]
    fn many_servers_that_are_not_up_are_told_of_in_one_short_line() {
        let upstream = upstream(&[1, 2, 3, 4, 5, 6]);
        upstream.targets.iter().for_each(|target| target.member.set_standing(Standing::Down, ""));
        let text = "backend 'cache': no server is up (127.0.0.1:1: down; 127.0.0.1:2: down; 127.0.0.1:3: down; \
                    127.0.0.1:4: down; and 2 more)";
        assert_eq!(upstream.unreachable_text(None), text);
        let none = Upstream::new(Backend { name: "cache".into(), roster: roster(&[]), connector: None });
        assert_eq!(none.unreachable_text(None), "backend 'cache': no server is up (it has none)");
    }

    #[test]
    fn another_snapshot_keeps_the_targets_of_members_that_stay() {
        let mut upstream = upstream(&[1, 2]);
        let before: Roster =
            upstream.targets.iter().map(|target| Arc::clone(&target.member)).collect::<Vec<_>>().into();
        let kept = Rc::clone(&upstream.targets[1]);
        let server = |port| Server::at(Address::Tcp(([127, 0, 0, 1], port).into()));
        upstream.exchange(&before.with([server(2), server(3)]));
        assert!(Rc::ptr_eq(&upstream.targets[0], &kept));
        assert_eq!(choose(&mut upstream, &[]).as_deref(), Some("127.0.0.1:2"));
        assert_eq!(choose(&mut upstream, &[]).as_deref(), Some("127.0.0.1:3"));
        upstream.exchange(&Roster::from(Vec::new()));
        assert_eq!(choose(&mut upstream, &[]), None);
    }
}
