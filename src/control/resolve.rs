//! The thread that looks host names of servers up again: a name server may be slow, and the control plane waits for nobody.
//!
//! Servers that a name leads to newly join their backend's roster, and those that it does not lead to any more leave it;
//! sessions stay. Where a name cannot be looked up, its servers stay. It logs nothing: what there is to say, it tells the
//! control plane, each failure once.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use super::rosters::{Rosters, Tenure};
use crate::config::{Backend, Config, ENTRIES_MAX, Machine};
use crate::io::Address;
use crate::roster::{Member, Roster, Server};

/// What the thread tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// A backend has other servers.
    Changed { backend: Box<str>, joined: Vec<Address>, left: Vec<Address> },
    /// The servers of a backend could not be looked up, or not be exchanged: why, in one line.
    Failed { backend: Box<str>, problem: String },
    /// They can be looked up again.
    Recovered { backend: Box<str> },
}

/// The control plane's way to the thread, which ends when this is dropped. None is started where nothing is looked up.
/// A reload that changes backends has another one started.
pub(super) struct Resolving(Option<UnboundedReceiver<News>>);

impl Resolving {
    pub(super) fn start(config: &Config, machine: &Machine, rosters: &Arc<Rosters>) -> io::Result<Self> {
        let holds = rosters.all();
        let backends = config.backends.iter().filter_map(|backend| {
            let interval = backend.resolve_interval?;
            let tenure = holds.iter().find(|hold| *hold.name == *backend.name)?.tenure();
            Some(Lookup { tenure, interval, backend: backend.clone(), problem: None })
        });
        let lookups: Vec<_> = backends.collect();
        if lookups.is_empty() {
            return Ok(Self(None));
        }
        let (news_there, news) = unbounded_channel();
        let (machine, rosters) = (machine.clone(), Arc::clone(rosters));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let run = move || runtime.block_on(run(lookups, &machine, &rosters, &news_there));
        thread::Builder::new().name("resolve".to_owned()).spawn(run)?;
        Ok(Self(Some(news)))
    }

    /// What the thread tells next; never, where there is none. May be given up at any moment.
    pub(super) async fn news(&mut self) -> News {
        if let Some(news) = &mut self.0
            && let Some(news) = news.recv().await
        {
            return news;
        }
        std::future::pending().await
    }
}

/// Looks up each backend's names in its interval, until nobody listens any more.
async fn run(lookups: Vec<Lookup>, machine: &Machine, rosters: &Rosters, news: &UnboundedSender<News>) {
    let start = Instant::now();
    let mut due: Vec<_> = lookups.into_iter().map(|lookup| (start + lookup.interval, lookup)).collect();
    while let Some((at, lookup)) = due.iter_mut().min_by_key(|(at, _)| *at) {
        tokio::select! {
            () = news.closed() => return,
            () = sleep_until(*at) => {}
        }
        for told in lookup.look_up(machine, rosters) {
            // A control plane that has ended needs not know.
            let _ = news.send(told);
        }
        *at = Instant::now() + lookup.interval;
    }
}

/// A backend whose names are looked up again.
struct Lookup {
    tenure: Tenure,
    interval: Duration,
    backend: Backend,
    /// What was told to be wrong and has not been told to be over.
    problem: Option<String>,
}

impl Lookup {
    /// Looks all names up once, and has the shards follow.
    fn look_up(&mut self, machine: &Machine, rosters: &Rosters) -> Vec<News> {
        let mut news = Vec::new();
        let mut problem = None;
        for entry in self.backend.entries.iter_mut().filter(|entry| entry.is_name()) {
            if let Err(error) = entry.look_up(machine) {
                problem.get_or_insert(error);
            }
        }
        match self.follow(rosters) {
            Ok(changed) => news.extend(changed),
            Err(error) => problem = problem.or(Some(error)),
        }
        let backend = self.backend.name.clone();
        match (&problem, &self.problem) {
            (Some(now), before) if before.as_ref() != Some(now) => {
                news.push(News::Failed { backend, problem: now.clone() });
            }
            (None, Some(_)) => news.push(News::Recovered { backend }),
            (_, _) => {}
        }
        self.problem = problem;
        news
    }

    /// Exchanges the roster for what the entries stand for, where that is something else. The order says nothing: name
    /// servers change it all the time.
    fn follow(&self, rosters: &Rosters) -> Result<Option<News>, String> {
        let servers: Vec<Server> = self.backend.servers().take(ENTRIES_MAX).collect();
        let Some((before, _)) = rosters.roster(self.tenure.backend()) else { return Ok(None) };
        let after = before.with(servers);
        let (joined, left) = (missing(&after, &before), missing(&before, &after));
        if joined.is_empty() && left.is_empty() {
            return Ok(None);
        }
        rosters.replace(self.tenure, after).map_err(|error| error.to_string())?;
        Ok(Some(News::Changed { backend: self.backend.name.clone(), joined, left }))
    }
}

/// Where the members of one snapshot are that are not in the other.
fn missing(of: &Roster, from: &Roster) -> Vec<Address> {
    let is_there = |member: &Arc<Member>| from.iter().any(|other| other.is_same_server(member));
    of.iter().filter(|member| !is_there(member)).map(|member| member.address.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::Path;

    use super::super::rosters::Hold;
    use super::*;
    use crate::dispatcher::Command;
    use crate::roster::waiting::Waiting;
    use crate::roster::{BackendId, Standing};

    fn machine(resolve: fn(&str, u16) -> io::Result<Vec<SocketAddr>>) -> Machine {
        Machine { cores: vec![0], open_files_max: 100_000, memory_max: None, resolve }
    }

    fn at(last: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], port))
    }

    fn address(last: u8) -> Address {
        Address::Tcp(at(last, 6379))
    }

    /// A backend of one name, which leads to 10.0.0.1 and 10.0.0.2, and one server with an address.
    fn lookup(takes: bool) -> (Lookup, Rosters) {
        let text = "[[listener]]\nbind = \"127.0.0.1:1\"\nbackend = \"b\"\nplain = true\n[[backend]]\nname = \"b\"\n\
                    servers = [\"pool.example:6379\", \"10.0.0.9:6379\"]\nresolve_interval = \"1s\"\n";
        let both = machine(|_, port| Ok(vec![at(1, port), at(2, port)]));
        let config = Config::parse(text.as_bytes(), Path::new("f.toml"), &both).unwrap();
        let backend = config.backends[0].clone();
        let send = move |command: Command| if takes { Ok(()) } else { Err(command) };
        let (id, waiting, roster) = (BackendId(0), Arc::new(Waiting::new(1, 1)), backend.servers().collect());
        let hold = Hold::new(id, (*backend.name).into(), waiting, roster);
        let tenure = hold.tenure();
        (Lookup { tenure, interval: Duration::from_secs(1), backend, problem: None }, Rosters::new([hold], send))
    }

    #[test]
    fn servers_follow_their_name_and_those_that_stay_are_the_same() {
        let (mut lookup, rosters) = lookup(true);
        let roster = || rosters.roster(BackendId(0)).unwrap().0;
        let before = roster();
        let turned = machine(|_, port| Ok(vec![at(2, port), at(1, port)]));
        assert_eq!(lookup.look_up(&turned, &rosters), []);
        let moved = machine(|_, port| Ok(vec![at(2, port), at(3, port)]));
        let changed = News::Changed { backend: "b".into(), joined: vec![address(3)], left: vec![address(1)] };
        assert_eq!(lookup.look_up(&moved, &rosters), [changed]);
        let after = roster();
        let addresses: Vec<_> = after.iter().map(|member| member.address.clone()).collect();
        assert_eq!(addresses, [address(2), address(3), address(9)]);
        assert!(Arc::ptr_eq(&after[0], &before[1]) && Arc::ptr_eq(&after[2], &before[2]));
        assert_eq!((before[0].standing(), after[1].standing()), (Standing::Gone, Standing::Up));
        assert_eq!(lookup.look_up(&moved, &rosters), []);
    }

    #[test]
    fn where_a_name_cannot_be_looked_up_its_servers_stay_and_that_is_told_once() {
        let (mut lookup, rosters) = lookup(true);
        let silent = machine(|_, _| Err(io::Error::other("no name server")));
        let problem = "pool.example:6379 cannot be resolved: no name server".to_owned();
        assert_eq!(lookup.look_up(&silent, &rosters), [News::Failed { backend: "b".into(), problem }]);
        assert_eq!((lookup.look_up(&silent, &rosters), rosters.roster(BackendId(0)).unwrap().0.len()), (vec![], 3));
        let one = machine(|_, port| Ok(vec![at(1, port)]));
        let changed = News::Changed { backend: "b".into(), joined: vec![], left: vec![address(2)] };
        assert_eq!(lookup.look_up(&one, &rosters), [changed, News::Recovered { backend: "b".into() }]);
    }

    #[test]
    fn what_is_not_taken_is_tried_again() {
        let (mut lookup, rosters) = lookup(false);
        let one = machine(|_, port| Ok(vec![at(1, port)]));
        let problem = "the dispatcher takes no command".to_owned();
        assert_eq!(lookup.look_up(&one, &rosters), [News::Failed { backend: "b".into(), problem }]);
        assert_eq!((lookup.look_up(&one, &rosters), rosters.roster(BackendId(0)).unwrap().0.len()), (vec![], 3));
    }
}
