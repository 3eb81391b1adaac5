//! What a server's answers mean: to AUTH, PING, ROLE and INFO, in the words of Redis 4 to 8 and Valkey 7 to 9.

use std::fmt;

use crate::wire::Reply;

/// Characters of a server's own words that are repeated.
const SAID_CHARS_MAX: usize = 120;

/// Which part a server plays in replication, by its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerRole {
    /// It takes writes.
    Primary,
    /// It copies a primary.
    Replica,
    /// It is no server but a Sentinel.
    Sentinel,
}

impl ServerRole {
    /// The word for it in logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::Sentinel => "sentinel",
        }
    }

    /// The words of ROLE, and of INFO's line `role:`.
    fn of_word(word: &str) -> Option<Self> {
        match word {
            "master" | "primary" => Some(Self::Primary),
            "slave" | "replica" => Some(Self::Replica),
            "sentinel" => Some(Self::Sentinel),
            _ => None,
        }
    }
}

impl fmt::Display for ServerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// What was asked for, of which there is nothing to tell.
    Fine,
    /// Which part it plays.
    Role(ServerRole),
    /// It is alive and does not answer the question: why, with what to do.
    Excuse(String),
    /// It does not have this command, or not for this user.
    Refused(String),
    /// It is of no use: why.
    Failed(String),
}

/// The answer to AUTH. Nothing of the server's own words is repeated: some repeat the password.
pub(super) fn to_auth(reply: &Reply) -> Answer {
    let Reply::Error(error) = reply else { return accept(reply, "OK") };
    let code = code_of(error);
    if let Some(excuse) = excuse(&code) {
        return Answer::Excuse(excuse);
    }
    match &*code {
        "WRONGPASS" => Answer::Excuse(
            "it does not take the password (WRONGPASS): compare username and password_file with its users".to_owned(),
        ),
        // Without a password it takes everybody.
        "ERR" if says(error, "without any password configured") || says(error, "no password is set") => Answer::Fine,
        "ERR" if says(error, "invalid password") => {
            Answer::Excuse("it does not take the password: compare password_file with its requirepass".to_owned())
        }
        _ => failing(error).map_or_else(
            || Answer::Excuse(format!("it answers AUTH with an error ({code}), which is not repeated here")),
            Answer::Failed,
        ),
    }
}

/// Why a server has not taken a user and a password, in one line with what to do; `None` when it has, or wants none. `reply`
/// is its answer to AUTH.
#[must_use]
pub fn login_problem(reply: &Reply) -> Option<String> {
    match to_auth(reply) {
        Answer::Fine => None,
        Answer::Excuse(why) | Answer::Refused(why) | Answer::Failed(why) => Some(why),
        Answer::Role(_) => Some("its answer to AUTH is none".to_owned()),
    }
}

/// The answer to PING.
pub(super) fn to_ping(reply: &Reply) -> Answer {
    if let Reply::Error(error) = reply { of_error(error) } else { accept(reply, "PONG") }
}

/// The answer to ROLE: an array that begins with the role.
pub(super) fn to_role(reply: &Reply) -> Answer {
    if let Reply::Error(error) = reply {
        return of_error(error);
    }
    let word = reply.items().and_then(<[_]>::first).and_then(Reply::text);
    role_named(word, "ROLE")
}

/// The answer to INFO replication: lines, one of which is `role:` and the role.
pub(super) fn to_info(reply: &Reply) -> Answer {
    if let Reply::Error(error) = reply {
        return of_error(error);
    }
    let word = reply.text().and_then(|text| text.lines().find_map(|line| line.strip_prefix("role:")));
    role_named(word.map(str::trim), "INFO")
}

fn role_named(word: Option<&str>, command: &str) -> Answer {
    match word.map(|word| (word, ServerRole::of_word(word))) {
        Some((_, Some(role))) => Answer::Role(role),
        Some((word, None)) => {
            Answer::Failed(format!("it has a role that is none, \"{}\"", repeatable(word.as_bytes())))
        }
        None => Answer::Failed(format!("its answer to {command} tells no role")),
    }
}

fn accept(reply: &Reply, expected: &str) -> Answer {
    if reply.text() == Some(expected) {
        Answer::Fine
    } else {
        Answer::Failed(format!("it answers something else than {expected}"))
    }
}

fn of_error(error: &[u8]) -> Answer {
    let code = code_of(error);
    if let Some(excuse) = excuse(&code) {
        Answer::Excuse(excuse)
    } else if let Some(failure) = failing(error) {
        Answer::Failed(failure)
    } else if code == "NOPERM" || says(error, "unknown command") {
        Answer::Refused(repeatable(error))
    } else {
        // MISCONF, and whatever comes to a server's mind: it speaks, so it lives.
        Answer::Excuse(format!("it answers \"{}\"", repeatable(error)))
    }
}

/// Why a server that says this has nothing better to say.
fn excuse(code: &str) -> Option<String> {
    let words = match code {
        "LOADING" => "it loads its data (LOADING)",
        "BUSY" => "it is busy with a script (BUSY)",
        "MASTERDOWN" => "it has lost its primary (MASTERDOWN)",
        "NOAUTH" => "it asks for a password (NOAUTH): write password_file",
        _ => return None,
    };
    Some(words.to_owned())
}

/// Errors after which a server hangs up, on clients as on checks.
fn failing(error: &[u8]) -> Option<String> {
    if code_of(error) == "DENIED" {
        return Some("it takes only connections of its own host (DENIED): give it a password or a bind address".into());
    }
    says(error, "max number of clients").then(|| "it has as many clients as it may (maxclients)".to_owned())
}

/// The first word, which is in capitals.
fn code_of(error: &[u8]) -> String {
    let word = error.split(|&byte| byte == b' ').next().unwrap_or_default();
    if word.len() <= 20 && word.iter().all(u8::is_ascii_uppercase) {
        String::from_utf8_lossy(word).into_owned()
    } else {
        String::new()
    }
}

fn says(error: &[u8], words: &str) -> bool {
    error.windows(words.len()).any(|part| part.eq_ignore_ascii_case(words.as_bytes()))
}

/// A server's words as part of a line.
pub(super) fn repeatable(words: &[u8]) -> String {
    let shown = |c: char| if c.is_control() || c == '"' { '?' } else { c };
    String::from_utf8_lossy(words).chars().take(SAID_CHARS_MAX).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Reader;

    fn reply(bytes: &[u8]) -> Reply {
        Reader::new(4_096).read(&mut &*bytes).unwrap().unwrap()
    }

    fn excuse_in(answer: Answer) -> String {
        if let Answer::Excuse(excuse) = answer { excuse } else { panic!("{answer:?}") }
    }

    #[test]
    fn role_is_read_from_what_servers_and_sentinels_answer() {
        let primary =
            b"*3\r\n$6\r\nmaster\r\n:3129659\r\n*1\r\n*3\r\n$9\r\n127.0.0.1\r\n$4\r\n9001\r\n$7\r\n3129242\r\n";
        assert_eq!(to_role(&reply(primary)), Answer::Role(ServerRole::Primary));
        assert_eq!(to_role(&reply(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")), Answer::Role(ServerRole::Primary));
        let replica = b"*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:9000\r\n$9\r\nconnected\r\n:3167038\r\n";
        assert_eq!(to_role(&reply(replica)), Answer::Role(ServerRole::Replica));
        let sentinel = b"*2\r\n$8\r\nsentinel\r\n*1\r\n$8\r\nmymaster\r\n";
        assert_eq!(to_role(&reply(sentinel)), Answer::Role(ServerRole::Sentinel));
        assert_eq!(to_role(&reply(b"+OK\r\n")), Answer::Failed("its answer to ROLE tells no role".into()));
        let strange = to_role(&reply(b"*1\r\n$4\r\nki\"g\r\n"));
        assert_eq!(strange, Answer::Failed("it has a role that is none, \"ki?g\"".into()));
    }

    #[test]
    fn info_tells_the_role_in_a_line() {
        let info = |text: &str| to_info(&Reply::Bulk(text.as_bytes().to_owned()));
        let primary = "# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\n";
        assert_eq!(info(primary), Answer::Role(ServerRole::Primary));
        let replica = "# Replication\r\nrole:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:6379\r\n";
        assert_eq!(info(replica), Answer::Role(ServerRole::Replica));
        assert_eq!(info("# Replication\r\n"), Answer::Failed("its answer to INFO tells no role".into()));
    }

    #[test]
    fn a_server_that_is_busy_loads_or_wants_a_password_is_alive_and_told_apart() {
        let cases = [
            (&b"-LOADING Redis is loading the dataset in memory\r\n"[..], "it loads its data (LOADING)"),
            (b"-LOADING Valkey is loading the dataset in memory\r\n", "it loads its data (LOADING)"),
            (
                b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
                "it is busy with a script (BUSY)",
            ),
            (
                b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
                "it has lost its primary (MASTERDOWN)",
            ),
            (b"-NOAUTH Authentication required.\r\n", "it asks for a password (NOAUTH): write password_file"),
            (
                b"-MISCONF Valkey is configured to save RDB snapshots\r\n",
                "it answers \"MISCONF Valkey is configured to save RDB snapshots\"",
            ),
        ];
        for (bytes, excuse) in cases {
            for answer in [to_ping(&reply(bytes)), to_role(&reply(bytes)), to_info(&reply(bytes))] {
                assert_eq!(excuse_in(answer), excuse);
            }
        }
    }

    #[test]
    fn a_command_that_the_user_may_not_use_or_the_server_does_not_have_is_refused() {
        for bytes in [
            &b"-NOPERM User probe has no permissions to run the 'role' command\r\n"[..],
            b"-NOPERM this user has no permissions to run the 'role' command or its subcommand\r\n",
            b"-ERR unknown command 'ROLE', with args beginning with: \r\n",
            b"-ERR unknown command `ROLE`, with args beginning with: \r\n",
        ] {
            assert!(matches!(to_role(&reply(bytes)), Answer::Refused(_)), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_server_that_takes_nobody_has_failed() {
        let full = "it has as many clients as it may (maxclients)";
        assert_eq!(to_ping(&reply(b"-ERR max number of clients reached\r\n")), Answer::Failed(full.into()));
        let denied = to_ping(&reply(b"-DENIED Redis is running in protected mode because\r\n"));
        assert!(matches!(denied, Answer::Failed(why) if why.contains("(DENIED)")));
        assert_eq!(to_ping(&reply(b"+OK\r\n")), Answer::Failed("it answers something else than PONG".into()));
        assert_eq!(to_ping(&reply(b"+PONG\r\n")), Answer::Fine);
    }

    #[test]
    fn a_password_is_taken_refused_or_not_needed() {
        assert_eq!(to_auth(&reply(b"+OK\r\n")), Answer::Fine);
        for bytes in [
            &b"-ERR AUTH <password> called without any password configured for the default user. Are you sure your \
               configuration is correct?\r\n"[..],
            b"-ERR Client sent AUTH, but no password is set\r\n",
        ] {
            assert_eq!(to_auth(&reply(bytes)), Answer::Fine);
        }
        let wrong = excuse_in(to_auth(&reply(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")));
        assert!(wrong.contains("(WRONGPASS)"), "{wrong}");
        assert!(excuse_in(to_auth(&reply(b"-ERR invalid password\r\n"))).contains("requirepass"));
        assert_eq!(excuse_in(to_auth(&reply(b"-LOADING Redis\r\n"))), "it loads its data (LOADING)");
    }

    #[test]
    fn a_server_that_repeats_the_password_is_not_repeated() {
        for bytes in [
            &b"-ERR unknown command `AUTH`, with args beginning with: `hunter2`, \r\n"[..],
            b"-hunter2\r\n",
            b"-HUNTER\x32 hunter2\r\n",
            b"+hunter2\r\n",
        ] {
            let told = format!("{:?}", to_auth(&reply(bytes)));
            assert!(!told.to_lowercase().contains("hunter2"), "{told}");
        }
    }
}
