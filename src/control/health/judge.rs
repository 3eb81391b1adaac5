//! Whether a server gets new sessions, check by check: the rule of `rise` and `fall`, and what a role decides.

use super::answer::ServerRole;
use super::dialog::Outcome;
use crate::config::WantedRole;

/// What checks have to say for a server to change its state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Good checks in a row that bring back a server that had failed.
    pub(super) rise: u32,
    /// Failed checks in a row after which it gets no new sessions.
    pub(super) fall: u32,
    /// The role that it must have; none where that is not asked.
    pub(super) wanted: Option<WantedRole>,
}

/// What is known of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No check has decided anything yet. Where roles matter, it gets no sessions.
    Unknown,
    /// It is as it should be.
    Up,
    /// It has failed.
    Down,
    /// It answers, and has another role than is wanted.
    WrongRole,
}

impl State {
    /// The word for it in logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
            Self::WrongRole => "wrong_role",
        }
    }
}

/// Draws conclusions from checks.
///
/// Invariants: only a definite answer makes a server [`State::WrongRole`]; and where a role is wanted, only a definite
/// answer makes it [`State::Up`].
#[derive(Debug)]
pub(super) struct Judge {
    rule: Rule,
    state: State,
    /// Checks in a row that speak against the state.
    against: u32,
}

impl Judge {
    /// Of a server of which this is known.
    pub(super) const fn new(rule: Rule, state: State) -> Self {
        Self { rule, state, against: 0 }
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// Takes what came of a check; the state afterwards.
    pub(super) fn note(&mut self, outcome: &Outcome) -> State {
        match (outcome, self.rule.wanted) {
            (Outcome::Failed(_), _) => self.note_failure(),
            (Outcome::Answered(_) | Outcome::Excused(_), None) => self.note_success(),
            (Outcome::Answered(role), Some(wanted)) => {
                if role.is_some_and(|role| fits(role, wanted)) {
                    self.note_success();
                } else {
                    self.settle(State::WrongRole);
                }
            }
            // It lives, which says nothing about its role: what is known of that stays.
            (Outcome::Excused(_), Some(_)) => self.against = 0,
        }
        self.state
    }

    fn note_success(&mut self) {
        match self.state {
            State::Up => self.against = 0,
            // The first check decides, and so does a role.
            State::Unknown | State::WrongRole => self.settle(State::Up),
            State::Down => self.count_against(self.rule.rise, State::Up),
        }
    }

    fn note_failure(&mut self) {
        match self.state {
            State::Down => self.against = 0,
            State::Unknown => self.settle(State::Down),
            State::Up | State::WrongRole => self.count_against(self.rule.fall, State::Down),
        }
    }

    fn count_against(&mut self, enough: u32, state: State) {
        self.against += 1;
        if self.against >= enough {
            self.settle(state);
        }
    }

    fn settle(&mut self, state: State) {
        self.state = state;
        self.against = 0;
    }
}

fn fits(role: ServerRole, wanted: WantedRole) -> bool {
    match (role, wanted) {
        (ServerRole::Primary, WantedRole::Primary | WantedRole::Any)
        | (ServerRole::Replica, WantedRole::Replica | WantedRole::Any) => true,
        (ServerRole::Primary, WantedRole::Replica)
        | (ServerRole::Replica, WantedRole::Primary)
        | (ServerRole::Sentinel, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judge(wanted: Option<WantedRole>) -> Judge {
        Judge::new(Rule { rise: 2, fall: 3, wanted }, State::Unknown)
    }

    fn states(judge: &mut Judge, outcomes: &[Outcome]) -> Vec<State> {
        outcomes.iter().map(|outcome| judge.note(outcome)).collect()
    }

    fn is(role: ServerRole) -> Outcome {
        Outcome::Answered(Some(role))
    }

    fn failed() -> Outcome {
        Outcome::Failed("no answer".into())
    }

    fn busy() -> Outcome {
        Outcome::Excused("busy".into())
    }

    const PONG: Outcome = Outcome::Answered(None);
    use State::{Down, Unknown, Up, WrongRole};

    #[test]
    fn the_first_check_decides() {
        assert_eq!(judge(None).note(&PONG), Up);
        assert_eq!(judge(None).note(&failed()), Down);
        assert_eq!(judge(None).note(&busy()), Up);
        assert_eq!(judge(Some(WantedRole::Primary)).note(&is(ServerRole::Primary)), Up);
        assert_eq!(judge(Some(WantedRole::Primary)).note(&is(ServerRole::Replica)), WrongRole);
        assert_eq!(judge(Some(WantedRole::Primary)).note(&busy()), Unknown);
    }

    #[test]
    fn it_takes_fall_failures_in_a_row_to_fall_and_rise_successes_in_a_row_to_rise() {
        let mut judge = judge(None);
        let outcomes = [PONG, failed(), failed(), PONG, failed(), failed(), failed(), PONG, failed(), PONG, PONG];
        assert_eq!(states(&mut judge, &outcomes), [Up, Up, Up, Up, Up, Up, Down, Down, Down, Down, Up]);
    }

    #[test]
    fn a_role_decides_at_once_in_either_direction() {
        let mut judge = judge(Some(WantedRole::Primary));
        let (primary, replica) = (is(ServerRole::Primary), is(ServerRole::Replica));
        let outcomes = [primary.clone(), replica.clone(), primary, failed(), failed(), failed(), replica];
        assert_eq!(states(&mut judge, &outcomes), [Up, WrongRole, Up, Up, Up, Down, WrongRole]);
    }

    #[test]
    fn a_server_that_is_alive_keeps_the_role_that_it_had() {
        let mut judge = judge(Some(WantedRole::Primary));
        let (primary, replica) = (is(ServerRole::Primary), is(ServerRole::Replica));
        let outcomes = [primary.clone(), failed(), failed(), busy(), failed(), failed(), busy(), replica, busy()];
        assert_eq!(states(&mut judge, &outcomes), [Up, Up, Up, Up, Up, Up, Up, WrongRole, WrongRole]);
        // What has failed may have been started again as something else.
        let outcomes = [primary, failed(), failed(), failed(), busy(), busy(), busy()];
        assert_eq!(states(&mut judge, &outcomes), [Up, Up, Up, Down, Down, Down, Down]);
    }

    #[test]
    fn a_sentinel_is_never_what_is_wanted() {
        assert_eq!(judge(Some(WantedRole::Any)).note(&is(ServerRole::Replica)), Up);
        assert_eq!(judge(Some(WantedRole::Replica)).note(&is(ServerRole::Replica)), Up);
        assert_eq!(judge(Some(WantedRole::Any)).note(&is(ServerRole::Sentinel)), WrongRole);
    }

    fn any_outcome() -> impl Strategy<Value = Outcome> {
        prop_oneof![
            Just(is(ServerRole::Primary)),
            Just(is(ServerRole::Replica)),
            Just(busy()),
            Just(failed()),
            Just(failed())
        ]
    }

    proptest! {
        #[test]
        fn only_a_definite_answer_changes_what_a_role_decides(
            outcomes in proptest::collection::vec(any_outcome(), 1..60),
        ) {
            let mut judge = judge(Some(WantedRole::Primary));
            for outcome in outcomes {
                let before = judge.state();
                let after = judge.note(&outcome);
                prop_assert!(outcome != is(ServerRole::Replica) || after == WrongRole);
                match after {
                    WrongRole if before != WrongRole => prop_assert_eq!(outcome, is(ServerRole::Replica)),
                    Up if before != Up => prop_assert_eq!(outcome, is(ServerRole::Primary)),
                    Down if before != Down => prop_assert_eq!(outcome, failed()),
                    Unknown => prop_assert_eq!(outcome, busy()),
                    Up | Down | WrongRole => {}
                }
            }
        }
    }
}
