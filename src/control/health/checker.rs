//! Checks one server for as long as it is in its roster: a check, what follows from it, a pause, and so on.
//!
//! One connection stays open between the checks. Its end is a reason to check at once: a server that dies or changes its
//! role closes it, and Sentinel has it closed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::ServerRole;
use super::dialog::{Dialog, Outcome, Question, Step};
use super::jitter::Jitter;
use super::judge::{Judge, Rule, State};
use super::link::{Link, LinkError};
use super::news::News;
use super::plan::ROLE_UNKNOWN;
use super::scope::Scope;
use super::status::CheckResult;
use crate::config::{CheckKind, WantedRole, show_duration};
use crate::io::sys;
use crate::roster::{Member, Standing};
use crate::tls::Connector;

/// The shortest time from the end of one check to the next. A server that closes each connection is not asked without
/// end, and one that Sentinels have named is asked this often until it is the primary.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Checks one server.
pub(super) struct Checker {
    scope: Arc<Scope>,
    member: Arc<Member>,
    connector: Option<Connector>,
    link: Option<Link>,
    judge: Judge,
    jitter: Jitter,
    /// The last check's problem, so that each is told once.
    problem: Option<Box<str>>,
    /// It has been up.
    settled: bool,
    /// Sessions are to leave, and the data plane has not taken that yet.
    dismissal_owed: bool,
}

impl Checker {
    pub(super) fn new(scope: Arc<Scope>, member: Arc<Member>) -> Self {
        let check = scope.check();
        let wanted = if let CheckKind::Role(wanted) = check.kind { Some(wanted) } else { None };
        let rule = Rule { rise: check.rise, fall: check.fall, wanted };
        let connector = scope.connector(&member);
        let known = scope.status.state(scope.plan.backend(), &member).unwrap_or(State::Unknown);
        Self {
            scope,
            member,
            connector,
            link: None,
            judge: Judge::new(rule, known),
            jitter: Jitter::new(),
            problem: None,
            settled: known == State::Up,
            dismissal_owed: false,
        }
    }

    /// Checks for ever.
    pub(super) async fn run(mut self) {
        loop {
            let began = Instant::now();
            let limit = self.scope.check().timeout;
            let checked = timeout(limit, self.check()).await;
            let outcome = checked.unwrap_or_else(|_| {
                self.link = None;
                Outcome::Failed(format!("no answer within {}", show_duration(limit)))
            });
            self.conclude(&outcome, began.elapsed());
            self.pause(began).await;
        }
    }

    /// One check. Given up at its deadline, it leaves no connection behind.
    async fn check(&mut self) -> Outcome {
        if self.scope.check().kind == CheckKind::Tcp {
            return match Link::connect(&self.member.address, self.connector.as_ref()).await {
                Ok(link) => {
                    link.close();
                    Outcome::Answered(None)
                }
                Err(error) => Outcome::Failed(error.to_string()),
            };
        }
        // The connection that stayed open may have ended meanwhile, which says nothing about the server.
        if let Some(link) = self.link.take()
            && let Ok(outcome) = self.ask(link, false).await
        {
            return outcome;
        }
        match Link::connect(&self.member.address, self.connector.as_ref()).await {
            Ok(link) => self.ask(link, true).await.unwrap_or_else(|error| Outcome::Failed(error.to_string())),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    /// Holds the conversation of one check; the connection stays open where it is good for another.
    async fn ask(&mut self, mut link: Link, is_fresh: bool) -> Result<Outcome, LinkError> {
        let question = match self.scope.check().kind {
            CheckKind::Role(_) => Question::Role,
            CheckKind::Tcp | CheckKind::Ping => Question::Ping,
        };
        let login = if is_fresh { self.scope.account.login() } else { None };
        let (mut dialog, mut command) = Dialog::begin(question, login.as_ref());
        loop {
            let reply = link.call(&command).await?;
            match dialog.handle_reply(&reply) {
                Step::Say(next) => command = next,
                Step::Done { outcome, keep: true } => {
                    self.link = Some(link);
                    return Ok(outcome);
                }
                Step::Done { outcome, keep: false } => {
                    link.close();
                    if matches!(outcome, Outcome::Excused(_)) {
                        self.scope.account.refresh();
                    }
                    return Ok(outcome);
                }
            }
        }
    }

    /// Draws the conclusion from a check and puts it in force.
    fn conclude(&mut self, outcome: &Outcome, took: Duration) {
        let before = self.judge.state();
        let state = self.judge.note(outcome);
        let role = if let Outcome::Answered(role) = outcome { *role } else { None };
        let problem = self.problem_of(outcome, state);
        // First the standing, so that sessions which leave do not come back.
        let (standing, why) = match state {
            State::Up => (Standing::Up, ""),
            State::Down => (Standing::Down, problem.as_deref().unwrap_or("it has failed")),
            State::WrongRole => (Standing::WrongRole, problem.as_deref().unwrap_or_default()),
            State::Unknown if self.wanted().is_none() => (Standing::Up, ""),
            State::Unknown => (Standing::Down, problem.as_deref().unwrap_or(ROLE_UNKNOWN)),
        };
        self.member.set_checked_standing(standing, why);
        self.settled |= state == State::Up;
        let demoted = state == State::WrongRole && before != State::WrongRole;
        self.dismissal_owed |= demoted;
        if state != State::WrongRole {
            self.dismissal_owed = false;
        }
        if self.dismissal_owed {
            self.dismissal_owed = !self.scope.dismiss(&self.member);
        }
        self.publish(outcome, role, problem.as_deref(), took);
        if before != state || problem != self.problem {
            self.scope.tell(News::Server {
                backend: self.scope.plan.name.clone(),
                server: self.member.name.clone(),
                address: self.member.address.clone(),
                state,
                changed: before != state,
                result: CheckResult::from(outcome),
                role,
                problem: problem.clone(),
                sessions: demoted.then(|| self.scope.sessions_word()),
            });
        }
        self.problem = problem;
    }

    fn publish(&self, outcome: &Outcome, role: Option<ServerRole>, problem: Option<&str>, took: Duration) {
        let (state, now) = (self.judge.state(), sys::now());
        self.scope.change_status(|backend| {
            let Some(server) = backend.server_mut(&self.member) else { return };
            if server.state != state {
                server.state = state;
                server.since = now;
            }
            server.role = role.or(server.role);
            let result = CheckResult::from(outcome);
            server.checked = Some((now, result));
            server.took = took;
            server.problem = problem.map(Into::into);
            server.checks += 1;
            server.checks_excused += u64::from(result == CheckResult::Excused);
            server.checks_failed += u64::from(result == CheckResult::Failed);
        });
    }

    fn wanted(&self) -> Option<WantedRole> {
        match self.scope.check().kind {
            CheckKind::Role(wanted) => Some(wanted),
            CheckKind::Tcp | CheckKind::Ping => None,
        }
    }

    fn problem_of(&self, outcome: &Outcome, state: State) -> Option<Box<str>> {
        let wanted = match self.wanted() {
            Some(WantedRole::Primary) => "a primary",
            Some(WantedRole::Replica) => "a replica",
            Some(WantedRole::Any) | None => "a server",
        };
        match outcome {
            Outcome::Answered(Some(role)) if state == State::WrongRole => {
                Some(format!("it is a {role}, and the backend wants {wanted}").into())
            }
            Outcome::Answered(_) => None,
            Outcome::Excused(why) | Outcome::Failed(why) => Some(why.as_str().into()),
        }
    }

    /// Whether it is to be the primary any moment: Sentinels say so, and it has not yet. One that makes an excuse, such as
    /// that the password is wrong, is not worth a hurry.
    fn is_awaited(&self) -> bool {
        let state = self.judge.state();
        self.scope.primary_name.is_some() && (state == State::WrongRole || state == State::Down && !self.settled)
    }

    /// Waits for the next check to be due.
    async fn pause(&mut self, began: Instant) {
        let earliest = Instant::now() + PAUSE_MIN;
        let hurries = self.dismissal_owed || self.is_awaited();
        let interval = self.jitter.spread(self.scope.check().interval);
        let due = if hurries { earliest } else { earliest.max(began + interval) };
        tokio::select! {
            () = sleep_until(due) => {}
            () = over(self.link.as_mut()) => {
                self.link = None;
                sleep_until(earliest).await;
            }
        }
    }
}

/// Waits for the end of a connection; for ever where there is none.
async fn over(link: Option<&mut Link>) {
    match link {
        Some(link) => link.over().await,
        None => std::future::pending().await,
    }
}
