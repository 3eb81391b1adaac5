//! The control plane's hold on the backends' servers: who they are, how each stands, and the way to have the shards follow.
//!
//! Whoever checks servers, resolves names or takes an operator's word works through this. A standing is in force for the
//! next session of every shard as soon as it is set; a roster and a dismissal are when each shard has taken its order.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::health;
use crate::config::HealthCheck;
use crate::dispatcher::Command;
use crate::roster::waiting::Waiting;
use crate::roster::{BackendId, Member, Roster, Server, Standing};
use crate::shard::Dismissal;

/// All backends' servers. Any thread may use it; nothing here waits for the data plane.
pub struct Rosters {
    backends: Mutex<Vec<Hold>>,
    send: Box<dyn Fn(Command) -> Result<(), Command> + Send + Sync>,
    /// Counts the exchanges.
    exchanges: watch::Sender<u64>,
}

/// A backend as the control plane has hold of it.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Which.
    pub id: BackendId,
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// The sessions that wait for a place at one of its servers.
    pub waiting: Arc<Waiting>,
    /// Its servers.
    pub roster: Roster,
    /// Who may say which these are.
    tenure: u64,
}

/// The right to say which servers a backend has, until a reload gives it to somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    backend: BackendId,
    number: u64,
}

/// What a backend is to be after a reload.
#[derive(Debug)]
pub struct Wanted {
    /// Which.
    pub id: BackendId,
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// The sessions that wait for a place at one of its servers.
    pub waiting: Arc<Waiting>,
    /// Its servers; `None`: those that it has, and whoever has found them goes on.
    pub servers: Option<Vec<Server>>,
    /// How they are checked.
    pub check: Option<HealthCheck>,
}

/// The data plane did not take an order: it is about to end, or far behind; or who gave it has lost the right to. What was
/// asked for has not been done and may be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTaken;

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the dispatcher takes no command")
    }
}

impl std::error::Error for NotTaken {}

impl Tenure {
    /// Of a backend that is new.
    #[must_use]
    pub const fn first(backend: BackendId) -> Self {
        Self { backend, number: 0 }
    }

    /// Whose servers.
    #[must_use]
    pub const fn backend(self) -> BackendId {
        self.backend
    }
}

impl Hold {
    /// Of a backend that the shards have with this roster.
    #[must_use]
    pub const fn new(id: BackendId, name: Arc<str>, waiting: Arc<Waiting>, roster: Roster) -> Self {
        Self { id, name, waiting, roster, tenure: 0 }
    }

    /// The right to say which servers it has.
    #[must_use]
    pub const fn tenure(&self) -> Tenure {
        Tenure { backend: self.id, number: self.tenure }
    }
}

impl Rosters {
    /// Of the backends that the shards have, in the configuration's order; `send` gives the dispatcher a command.
    pub fn new(
        backends: impl IntoIterator<Item = Hold>,
        send: impl Fn(Command) -> Result<(), Command> + Send + Sync + 'static,
    ) -> Self {
        let backends = Mutex::new(backends.into_iter().collect());
        Self { backends, send: Box::new(send), exchanges: watch::Sender::default() }
    }

    /// Each backend as it is at the moment, in the configuration's order.
    pub fn all(&self) -> Vec<Hold> {
        self.lock().clone()
    }

    /// The servers of a backend, and the right to say which these are; `None` when it is gone.
    #[must_use]
    pub fn roster(&self, backend: BackendId) -> Option<(Roster, Tenure)> {
        let backends = self.lock();
        let hold = backends.iter().find(|hold| hold.id == backend)?;
        Some((hold.roster.clone(), hold.tenure()))
    }

    /// Has new sessions of a backend go to these servers; [`Roster::with`] makes the snapshot. Servers that are not in it
    /// are gone, and keep their sessions.
    ///
    /// # Errors
    /// When the data plane did not take it, or the right is somebody else's; the roster is as before then.
    pub fn replace(&self, tenure: Tenure, roster: Roster) -> Result<(), NotTaken> {
        let mut backends = self.lock();
        let current = backends.iter_mut().find(|hold| hold.id == tenure.backend && hold.tenure == tenure.number);
        let hold = current.ok_or(NotTaken)?;
        (self.send)(Command::Roster { backend: hold.id, roster: roster.clone() }).map_err(|_| NotTaken)?;
        let before = std::mem::replace(&mut hold.roster, roster);
        note_those_gone(&before, &hold.roster);
        drop(backends);
        self.exchanges.send_modify(|exchanges| *exchanges += 1);
        Ok(())
    }

    /// Has other backends from now on: `command` makes of their rosters, in their order, what the dispatcher is told.
    /// Servers that stay, however they are described, go on as they stand. Where a role is wanted, those that join wait for
    /// their first check.
    ///
    /// # Errors
    /// When the data plane did not take it; everything is as before then.
    pub fn renew(&self, wanted: Vec<Wanted>, command: impl FnOnce(&[Roster]) -> Command) -> Result<(), NotTaken> {
        let mut backends = self.lock();
        let known = |id| backends.iter().find(|hold| hold.id == id);
        let holds: Vec<Hold> = wanted
            .iter()
            .map(|wanted| match (known(wanted.id), &wanted.servers) {
                (Some(hold), None) => hold.clone(),
                (Some(hold), Some(servers)) => {
                    let roster = hold.roster.with(servers.iter().cloned());
                    hold_back(&roster, &hold.roster, wanted.check.as_ref());
                    Hold { roster, tenure: hold.tenure + 1, ..hold.clone() }
                }
                (None, servers) => {
                    let roster: Roster = servers.iter().flatten().cloned().collect();
                    hold_back(&roster, &[], wanted.check.as_ref());
                    Hold::new(wanted.id, Arc::clone(&wanted.name), Arc::clone(&wanted.waiting), roster)
                }
            })
            .collect();
        let rosters: Vec<_> = holds.iter().map(|hold| hold.roster.clone()).collect();
        (self.send)(command(&rosters)).map_err(|_| NotTaken)?;
        let before = std::mem::replace(&mut *backends, holds);
        for hold in before {
            let after = backends.iter().find(|after| after.id == hold.id);
            note_those_gone(&hold.roster, after.map_or(&[], |after| &after.roster));
        }
        for (hold, _) in backends.iter().zip(&wanted).filter(|(_, wanted)| wanted.check.is_none()) {
            hold.roster.iter().for_each(|member| member.forget_checks());
        }
        drop(backends);
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

    /// Each change is whole when it ends, and none of them panics.
    fn lock(&self) -> MutexGuard<'_, Vec<Hold>> {
        self.backends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the servers that join from getting sessions before their role is known, where that matters.
fn hold_back(roster: &Roster, before: &[Arc<Member>], check: Option<&HealthCheck>) {
    let Some(check) = check else { return };
    let joins = |member: &&Arc<Member>| !before.iter().any(|known| known.is_same_server(member));
    roster.iter().filter(joins).for_each(|member| health::BackendPlan::hold_back(check, member));
}

/// Says of the servers of one snapshot that are not in the other that they are gone.
fn note_those_gone(before: &[Arc<Member>], after: &[Arc<Member>]) {
    for member in before.iter().filter(|member| !after.iter().any(|stays| stays.is_same_server(member))) {
        member.set_standing(Standing::Gone, "");
    }
}

impl fmt::Debug for Rosters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Address;

    const CACHE: BackendId = BackendId(3);

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
        (Rosters::new([Hold::new(CACHE, "cache".into(), Arc::new(Waiting::new(1, 1)), roster)], send), given)
    }

    #[test]
    fn a_roster_is_exchanged_on_every_shard_and_who_is_not_in_it_is_gone() {
        let (rosters, given) = rosters(true);
        let (before, tenure) = rosters.roster(CACHE).unwrap();
        let mut exchanges = rosters.exchanges();
        rosters.replace(tenure, before.with([server(2), server(3)])).unwrap();
        assert_eq!((exchanges.has_changed().unwrap(), *exchanges.borrow_and_update()), (true, 1));
        let (after, _) = rosters.roster(CACHE).unwrap();
        assert!(Arc::ptr_eq(&after[0], &before[1]));
        assert_eq!((before[0].standing(), after[0].standing(), after[1].standing()), {
            (Standing::Gone, Standing::Up, Standing::Up)
        });
        let given = given.lock().unwrap();
        assert!(matches!(&given[..], [Command::Roster { backend: CACHE, roster }] if roster.len() == 2));
    }

    #[test]
    fn a_roster_that_is_not_taken_changes_nothing() {
        let (rosters, _) = rosters(false);
        let (before, tenure) = rosters.roster(CACHE).unwrap();
        assert_eq!(rosters.replace(tenure, before.with([server(3)])), Err(NotTaken));
        assert!(rosters.roster(CACHE).unwrap().0.is_same(&before));
        assert_eq!(before[0].standing(), Standing::Up);
        assert_eq!(rosters.dismiss(&before[0], Dismissal::Down), Err(NotTaken));
    }

    #[test]
    fn a_standing_says_whether_it_has_changed() {
        let (rosters, given) = rosters(true);
        let (roster, _) = rosters.roster(CACHE).unwrap();
        assert!(rosters.set_standing(&roster[0], Standing::Down, "refused"));
        assert!(!rosters.set_standing(&roster[0], Standing::Down, "no answer"));
        assert_eq!(roster[0].standing_in_words(), "down: no answer");
        rosters.dismiss(&roster[0], Dismissal::Demoted).unwrap();
        let given = given.lock().unwrap();
        assert!(matches!(&given[..], [Command::Dismiss { dismissal: Dismissal::Demoted, .. }]));
    }

    fn wanted(id: u32, servers: Option<Vec<Server>>) -> Wanted {
        let waiting = Arc::new(Waiting::new(1, 1));
        Wanted { id: BackendId(id), name: "cache".into(), waiting, servers, check: None }
    }

    #[test]
    fn after_a_reload_whoever_found_the_servers_before_has_no_say_any_more() {
        let (rosters, _) = rosters(true);
        let (before, tenure) = rosters.roster(CACHE).unwrap();
        let told = |rosters: &[Roster]| Command::Roster { backend: CACHE, roster: rosters[0].clone() };
        rosters.renew(vec![wanted(3, None)], told).unwrap();
        assert!(rosters.roster(CACHE).unwrap().0.is_same(&before));
        assert_eq!(rosters.replace(tenure, before.clone()), Ok(()));
        rosters
            .renew(vec![wanted(3, Some(vec![server(2), server(3)])), wanted(4, Some(vec![server(1)]))], told)
            .unwrap();
        assert_eq!(rosters.replace(tenure, before.clone()), Err(NotTaken));
        let (after, _) = rosters.roster(CACHE).unwrap();
        assert!(after[0].is_same_server(&before[1]));
        assert_eq!([before[0].standing(), before[1].standing()], [Standing::Gone, Standing::Up]);
        // A backend that is gone has no servers.
        rosters.renew(vec![wanted(4, None)], told).unwrap();
        assert!(rosters.roster(CACHE).is_none());
        assert_eq!(after[0].standing(), Standing::Gone);
    }
}
