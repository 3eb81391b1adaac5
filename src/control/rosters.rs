//! The control plane's hold on the backends' servers: who they are, how each stands, and the way to have the shards follow.
//!
//! Whoever checks servers, resolves names or takes an operator's word works through this. A standing is in force for the
//! next session of every shard as soon as it is set; a roster and a dismissal are when each shard has taken its order.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::dispatcher::Command;
use crate::roster::{Member, Roster, Standing};
use crate::shard::Dismissal;

/// All backends' servers. Any thread may use it; nothing here waits.
pub struct Rosters {
    backends: Vec<Backend>,
    send: Box<dyn Fn(Command) -> Result<(), Command> + Send + Sync>,
    /// Counts the exchanges.
    exchanges: watch::Sender<u64>,
}

struct Backend {
    name: Box<str>,
    roster: Mutex<Roster>,
}

/// The data plane did not take an order: it is about to end, or far behind. What was asked for has not been done and may
/// be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTaken;

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the dispatcher takes no command")
    }
}

impl std::error::Error for NotTaken {}

impl Rosters {
    /// Of backends with their names and the rosters that the shards have, in the configuration's order; `send` gives the
    /// dispatcher a command.
    pub fn new(
        backends: impl IntoIterator<Item = (Box<str>, Roster)>,
        send: impl Fn(Command) -> Result<(), Command> + Send + Sync + 'static,
    ) -> Self {
        let backends =
            backends.into_iter().map(|(name, roster)| Backend { name, roster: Mutex::new(roster) }).collect();
        Self { backends, send: Box::new(send), exchanges: watch::Sender::default() }
    }

    /// The name and the servers of each backend, in the configuration's order.
    pub fn all(&self) -> impl Iterator<Item = (&str, Roster)> {
        self.backends.iter().map(|backend| (&*backend.name, backend.current()))
    }

    /// The servers of the backend with this index in the configuration. Panics when there is none.
    #[must_use]
    pub fn roster(&self, backend: u16) -> Roster {
        self.backends[usize::from(backend)].current()
    }

    /// Has new sessions of a backend go to these servers; [`Roster::with`] makes the snapshot. Members that are not in it
    /// are gone, and keep their sessions. Panics when there is no such backend.
    ///
    /// # Errors
    /// When the data plane did not take it; the roster is as before then.
    pub fn replace(&self, backend: u16, roster: Roster) -> Result<(), NotTaken> {
        let mut current = self.backends[usize::from(backend)].roster.lock().unwrap_or_else(PoisonError::into_inner);
        (self.send)(Command::Roster { backend, roster: roster.clone() }).map_err(|_| NotTaken)?;
        for member in current.iter().filter(|member| !roster.iter().any(|stays| Arc::ptr_eq(member, stays))) {
            member.set_standing(Standing::Gone, "");
        }
        *current = roster;
        self.exchanges.send_modify(|exchanges| *exchanges += 1);
        Ok(())
    }

    /// What changes whenever a roster is exchanged, of whichever backend, for whoever follows them.
    #[must_use]
    pub fn exchanges(&self) -> watch::Receiver<u64> {
        self.exchanges.subscribe()
    }

    /// Says whether a server gets new sessions, and `why`, in one line without secrets. `false` when it stood so before:
    /// then only the reason is another.
    pub fn set_standing(&self, member: &Member, standing: Standing, why: &str) -> bool {
        let before = member.standing();
        member.set_standing(standing, why);
        before != standing
    }

    /// Has no session stay at a server. Set its standing first, or they come back.
    ///
    /// # Errors
    /// When the data plane did not take it.
    pub fn dismiss(&self, member: &Arc<Member>, dismissal: Dismissal) -> Result<(), NotTaken> {
        (self.send)(Command::Dismiss { member: Arc::clone(member), dismissal }).map_err(|_| NotTaken)
    }
}

impl Backend {
    fn current(&self) -> Roster {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Rosters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.all()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Address;
    use crate::roster::Server;

    fn server(port: u16) -> Server {
        Server::at(Address::Tcp(([127, 0, 0, 1], port).into()))
    }

    /// One backend of two servers, and the commands that were given.
    fn rosters(takes: bool) -> (Rosters, Arc<Mutex<Vec<Command>>>) {
        let given = Arc::new(Mutex::new(Vec::new()));
        let roster: Roster = [server(1), server(2)].into_iter().collect();
        let commands = Arc::clone(&given);
        let send = move |command| {
            if !takes {
                return Err(command);
            }
            commands.lock().unwrap().push(command);
            Ok(())
        };
        (Rosters::new([("cache".into(), roster)], send), given)
    }

    #[test]
    fn a_roster_is_exchanged_on_every_shard_and_who_is_not_in_it_is_gone() {
        let (rosters, given) = rosters(true);
        let before = rosters.roster(0);
        let mut exchanges = rosters.exchanges();
        rosters.replace(0, before.with([server(2), server(3)])).unwrap();
        assert_eq!((exchanges.has_changed().unwrap(), *exchanges.borrow_and_update()), (true, 1));
        let after = rosters.roster(0);
        assert!(Arc::ptr_eq(&after[0], &before[1]));
        assert_eq!((before[0].standing(), after[0].standing(), after[1].standing()), {
            (Standing::Gone, Standing::Up, Standing::Up)
        });
        let given = given.lock().unwrap();
        assert!(matches!(&given[..], [Command::Roster { backend: 0, roster }] if roster.len() == 2));
    }

    #[test]
    fn a_roster_that_is_not_taken_changes_nothing() {
        let (rosters, _) = rosters(false);
        let before = rosters.roster(0);
        assert_eq!(rosters.replace(0, before.with([server(3)])), Err(NotTaken));
        assert!(Arc::ptr_eq(&rosters.roster(0)[0], &before[0]));
        assert_eq!(before[0].standing(), Standing::Up);
        assert_eq!(rosters.dismiss(&before[0], Dismissal::Down), Err(NotTaken));
    }

    #[test]
    fn a_standing_says_whether_it_has_changed() {
        let (rosters, given) = rosters(true);
        let roster = rosters.roster(0);
        assert!(rosters.set_standing(&roster[0], Standing::Down, "refused"));
        assert!(!rosters.set_standing(&roster[0], Standing::Down, "no answer"));
        assert_eq!(roster[0].standing_in_words(), "down: no answer");
        rosters.dismiss(&roster[0], Dismissal::Demoted).unwrap();
        let given = given.lock().unwrap();
        assert!(matches!(&given[..], [Command::Dismiss { dismissal: Dismissal::Demoted, .. }]));
    }
}
