//! What is said to a server in one check, and what came of it: without a connection, driven reply by reply.

use super::answer::{self, Answer, ServerRole};
use crate::secret::Secret;
use crate::wire::{Command, Reply};

/// Who a check is to a server.
#[derive(Clone, Debug)]
pub(super) struct Login {
    /// Without a name, the server's default user.
    pub(super) username: Option<Box<str>>,
    pub(super) password: Secret,
}

impl Login {
    pub(super) fn command(&self) -> Command {
        match &self.username {
            // Of two arguments, which servers before Redis 6 do not take, the first is the user.
            Some(username) => Command::new(&[b"AUTH", username.as_bytes(), self.password.bytes()]),
            None => Command::new(&[b"AUTH", self.password.bytes()]),
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether it answers.
    Ping,
    /// Which part it plays.
    Role,
}

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It answers as it should; its role where that was asked.
    Answered(Option<ServerRole>),
    /// It is alive, and says why it does not answer the question.
    Excused(String),
    /// There was no answer, or none that is of use.
    Failed(String),
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Step {
    /// Say this, and hand over the reply.
    Say(Command),
    /// The check is over. With `keep`, the connection is good for the next one.
    Done { outcome: Outcome, keep: bool },
}

/// The words that are waited for an answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Auth,
    Ping,
    Role,
    Info,
}

/// One check on one connection.
#[derive(Debug)]
pub(super) struct Dialog {
    question: Question,
    stage: Stage,
}

impl Dialog {
    /// Begins a check with the first words; `login` on a connection that has not said it yet.
    pub(super) fn begin(question: Question, login: Option<&Login>) -> (Self, Command) {
        let mut dialog = Self { question, stage: Stage::Auth };
        let command = match login {
            Some(login) => login.command(),
            None => dialog.ask(),
        };
        (dialog, command)
    }

    fn ask(&mut self) -> Command {
        match self.question {
            Question::Ping => {
                self.stage = Stage::Ping;
                Command::new(&[b"PING"])
            }
            Question::Role => {
                self.stage = Stage::Role;
                Command::new(&[b"ROLE"])
            }
        }
    }

    /// Takes the answer to what was said last.
    pub(super) fn handle_reply(&mut self, reply: &Reply) -> Step {
        let answer = match self.stage {
            Stage::Auth => answer::to_auth(reply),
            Stage::Ping => answer::to_ping(reply),
            Stage::Role => answer::to_role(reply),
            Stage::Info => answer::to_info(reply),
        };
        let outcome = match (answer, self.stage) {
            (Answer::Fine, Stage::Auth) => return Step::Say(self.ask()),
            (Answer::Refused(_), Stage::Role) => {
                self.stage = Stage::Info;
                return Step::Say(Command::new(&[b"INFO", b"replication"]));
            }
            (Answer::Fine, Stage::Ping | Stage::Role | Stage::Info) => Outcome::Answered(None),
            (Answer::Role(role), _) => Outcome::Answered(Some(role)),
            (Answer::Excuse(excuse), _) => Outcome::Excused(excuse),
            (Answer::Refused(said), Stage::Ping | Stage::Auth) => Outcome::Excused(format!("it answers \"{said}\"")),
            (Answer::Refused(_), Stage::Info) => {
                let problem = "it tells its role neither by ROLE nor by INFO: give the check's user +role or +info";
                Outcome::Excused(problem.to_owned())
            }
            (Answer::Failed(failure), _) => Outcome::Failed(failure),
        };
        // A connection that has not logged in is of no use to the next check, nor is one that a server has given up.
        let keep = self.stage != Stage::Auth && !matches!(outcome, Outcome::Failed(_));
        Step::Done { outcome, keep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Reader;

    /// Holds a conversation: what is said by us and by the server in turn. Gives what came of it.
    fn hold(question: Question, login: Option<&Login>, lines: &[(&str, &str)]) -> (Outcome, bool) {
        let (mut dialog, mut command) = Dialog::begin(question, login);
        for (ours, theirs) in lines {
            let said = String::from_utf8(command.bytes().to_owned()).unwrap();
            let words: Vec<_> = said.split("\r\n").skip(2).step_by(2).collect();
            assert_eq!(words.join(" "), *ours);
            let reply = Reader::new(4_096).read(&mut format!("{theirs}\r\n").as_bytes()).unwrap().unwrap();
            match dialog.handle_reply(&reply) {
                Step::Say(next) => command = next,
                Step::Done { outcome, keep } => return (outcome, keep),
            }
        }
        panic!("not over after {lines:?}")
    }

    fn login(username: Option<&str>) -> Login {
        Login { username: username.map(Into::into), password: Secret::from(&b"pass word"[..]) }
    }

    const PRIMARY: &str = "*3\r\n$6\r\nmaster\r\n:0\r\n*0";

    #[test]
    fn a_check_pings() {
        assert_eq!(hold(Question::Ping, None, &[("PING", "+PONG")]), (Outcome::Answered(None), true));
    }

    #[test]
    fn a_check_logs_in_once_and_asks_for_the_role() {
        let answered = (Outcome::Answered(Some(ServerRole::Primary)), true);
        let lines = [("AUTH probe pass word", "+OK"), ("ROLE", PRIMARY)];
        assert_eq!(hold(Question::Role, Some(&login(Some("probe"))), &lines), answered);
        let lines = [("AUTH pass word", "+OK"), ("ROLE", PRIMARY)];
        assert_eq!(hold(Question::Role, Some(&login(None)), &lines), answered);
        assert_eq!(hold(Question::Role, None, &[("ROLE", PRIMARY)]), answered);
    }

    #[test]
    fn where_role_is_not_to_be_had_info_is_asked() {
        let noperm = "-NOPERM User probe has no permissions to run the 'role' command";
        let lines = [("ROLE", noperm), ("INFO replication", "$27\r\n# Replication\r\nrole:slave\r\n")];
        assert_eq!(hold(Question::Role, None, &lines), (Outcome::Answered(Some(ServerRole::Replica)), true));
        let lines = [("ROLE", noperm), ("INFO replication", noperm)];
        let excuse = "it tells its role neither by ROLE nor by INFO: give the check's user +role or +info";
        assert_eq!(hold(Question::Role, None, &lines), (Outcome::Excused(excuse.into()), true));
    }

    #[test]
    fn a_wrong_password_is_named_and_its_connection_is_not_kept() {
        let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
        let (outcome, keep) = hold(Question::Ping, Some(&login(None)), &[("AUTH pass word", wrong)]);
        assert!(matches!(outcome, Outcome::Excused(why) if why.contains("WRONGPASS")) && !keep);
    }

    #[test]
    fn a_server_that_loads_is_excused_and_its_connection_is_kept() {
        let loading = "-LOADING Valkey is loading the dataset in memory";
        let excused = Outcome::Excused("it loads its data (LOADING)".into());
        assert_eq!(hold(Question::Ping, None, &[("PING", loading)]), (excused, true));
    }
}
