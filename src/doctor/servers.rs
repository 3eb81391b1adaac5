//! Whether each server can be reached, speaks what the configuration says, and answers.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::finding::{Finding, at};
use super::sentinels;
use super::wire::{Wire, WireError};
use crate::config::{BackendTls, Config, Keyring, Login};
use crate::control::health::login_problem;
use crate::io::Address;
use crate::secret::Secret;
use crate::tls::{Connector, Options};
use crate::wire::Reply;

/// The longest that a server is waited for, whatever `connect_timeout` is: somebody sits in front of the screen.
const PATIENCE_MAX: Duration = Duration::from_secs(3);

/// What became of one server.
#[derive(Debug)]
pub(super) struct Answer {
    /// The index of its backend.
    pub(super) backend: usize,
    /// The backend's name and the server's.
    name: String,
    address: Address,
    talk: Result<Talk, Trouble>,
}

/// What a server said.
#[derive(Debug)]
struct Talk {
    /// Until the connection, and the handshake where there is one, was complete.
    took: Duration,
    /// What the handshake agreed on.
    tls: Option<String>,
    /// To somebody who has given no password.
    ping: Reply,
    /// Why it does not take the password of health checks, where they have one.
    login_problem: Option<String>,
    role: Reply,
}

/// Why nothing came of it.
#[derive(Debug)]
enum Trouble {
    /// No connector for it could be made.
    SetUp(String),
    Connect(io::Error),
    Wire(WireError),
    TimedOut(Duration),
}

/// Asks all servers, one after the other; where Sentinels name the server, those first. What the Sentinels said is the
/// second part.
///
/// # Errors
/// When the runtime for it cannot be had.
pub(super) fn ask(config: &Config, keyring: Keyring) -> io::Result<(Vec<Answer>, Vec<sentinels::Answer>)> {
    let patience = config.limits.connect_timeout.min(PATIENCE_MAX);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut answers, mut sentinels) = (Vec::new(), Vec::new());
    let backends = config.backends.iter().zip(keyring.backends).zip(keyring.checks);
    for (number, ((backend, credentials), secrets)) in backends.enumerate() {
        let mut servers: Vec<_> = backend.servers().collect();
        if let Some(sentinel) = &backend.sentinel {
            let told = sentinels::ask(&runtime, patience, &backend.name, sentinel, &secrets);
            let own = backend.tls.as_ref().and_then(|tls| tls.server_name.as_ref());
            servers.extend(told.iter().find_map(|answer| answer.server(own)));
            sentinels.extend(told);
        }
        let options = |tls: &BackendTls| Options { policy: tls.policy.clone(), ..Options::default() };
        let tls = credentials.zip(backend.tls.as_ref().map(options));
        let login = backend.health_check.as_ref().and_then(|check| check.login.as_ref());
        let login = login.zip(secrets.health_check.as_ref());
        for server in servers {
            let connector = tls
                .as_ref()
                .map(|(credentials, options)| Connector::new(credentials, options, server.server_name.clone()));
            let talk = match connector.transpose() {
                Err(error) => Err(Trouble::SetUp(error.to_string())),
                Ok(connector) => runtime.block_on(async {
                    let talk = timeout(patience, talk(&server.address, connector.as_ref(), login));
                    talk.await.unwrap_or(Err(Trouble::TimedOut(patience)))
                }),
            };
            let name = format!("{} {}", backend.name, server.name);
            answers.push(Answer { backend: number, name, address: server.address.clone(), talk });
        }
    }
    Ok((answers, sentinels))
}

async fn talk(
    address: &Address,
    connector: Option<&Connector>,
    login: Option<(&Login, &Secret)>,
) -> Result<Talk, Trouble> {
    let start = now();
    let mut wire = Wire::connect(address, connector).await.map_err(Trouble::Connect)?;
    wire.shake_hands().await.map_err(Trouble::Wire)?;
    let (took, tls) = (now() - start, wire.summary());
    let ping = wire.ask(&[b"PING"]).await.map_err(Trouble::Wire)?;
    let login_problem = match login {
        Some((login, password)) => {
            let reply = wire.log_in(login.username.as_deref(), password).await.map_err(Trouble::Wire)?;
            login_problem(&reply)
        }
        None => None,
    };
    let role = wire.ask(&[b"ROLE"]).await.map_err(Trouble::Wire)?;
    wire.leave().await;
    Ok(Talk { took, tls, ping, login_problem, role })
}

#[expect(clippy::disallowed_methods, reason = "a figure for the screen; nothing is decided by it")]
fn now() -> Instant {
    Instant::now()
}

impl Answer {
    /// Whether the server takes commands of somebody who has given no password.
    pub(super) fn is_open_to_all(&self) -> bool {
        self.talk.as_ref().is_ok_and(|talk| talk.ping.text() == Some("PONG"))
    }

    pub(super) fn judge(&self) -> Finding {
        match &self.talk {
            Ok(talk) => judge_talk(&self.name, talk),
            Err(trouble) => {
                let found = at(&self.name, &self.address, &format!(": {trouble}"));
                Finding::attention(&self.name, found, trouble.remedy(&self.address))
            }
        }
    }
}

fn judge_talk(name: &str, talk: &Talk) -> Finding {
    let reached = format!("reached in {:.1} ms", talk.took.as_secs_f64() * 1e3);
    let reached = talk.tls.iter().fold(reached, |reached, tls| format!("{reached}, {tls}"));
    if let Some(problem) = &talk.login_problem {
        let remedy = "mend username and password_file of health_check, or the server's users";
        return Finding::attention(name, format!("{reached}, health checks cannot log in: {problem}"), remedy);
    }
    if let Reply::Error(error) = &talk.ping {
        let error = String::from_utf8_lossy(error).into_owned();
        let found = format!("{reached}, answers: {error}");
        return match error.split(' ').next().unwrap_or_default() {
            "NOAUTH" => {
                Finding::good(name, format!("{reached}, wants a password{}", role_of(&talk.role).unwrap_or("")))
            }
            "LOADING" | "BUSY" | "MASTERDOWN" => Finding::attention(name, found, "wait until the server serves again"),
            "DENIED" => Finding::attention(
                name,
                found,
                "the server is in protected mode: give it a password, or have ringwall reach it over loopback or a unix \
                 socket",
            ),
            _ => Finding::attention(name, found, "ask the server's own log"),
        };
    }
    if talk.ping.text() != Some("PONG") {
        let found = format!("{reached}, and does not answer PING with PONG");
        return Finding::attention(name, found, "is it a Valkey or Redis server? Write where that is");
    }
    match role_of(&talk.role) {
        Some(", a Sentinel") => Finding::attention(
            name,
            format!("{reached}, is a Sentinel"),
            "a Sentinel stores nothing: write where the server is that it watches",
        ),
        // Its ACL may forbid ROLE.
        role => Finding::good(name, format!("{reached}, PONG{}", role.unwrap_or(""))),
    }
}

/// What is told of a role, where the server has said one.
fn role_of(role: &Reply) -> Option<&'static str> {
    match role.items().and_then(<[Reply]>::first).and_then(Reply::text)? {
        "master" => Some(", primary"),
        "slave" => Some(", replica"),
        "sentinel" => Some(", a Sentinel"),
        _ => None,
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetUp(error) => f.write_str(error),
            Self::Connect(error) => error.fmt(f),
            Self::Wire(error) => error.fmt(f),
            Self::TimedOut(patience) => write!(f, "no answer within {} s", patience.as_secs_f64()),
        }
    }
}

impl Trouble {
    fn remedy(&self, address: &Address) -> &'static str {
        match (self, address) {
            (Self::Connect(error), Address::Unix(_)) => match error.raw_os_error() {
                Some(libc::ENOENT) => "start the server, or write the path of its `unixsocket`",
                Some(libc::EACCES) => {
                    "let ringwall's user use the socket: `unixsocketperm 770` of the server, and SupplementaryGroups= of \
                     ringwall's unit with the server's group"
                }
                Some(_) | None => "start the server: its socket is there, and nobody answers at it",
            },
            (Self::Connect(error), Address::Tcp(_)) => match error.raw_os_error() {
                Some(libc::ECONNREFUSED) => "start the server, or write the port that it listens on",
                _ => "look at the routes and firewalls between this machine and the server",
            },
            (Self::TimedOut(_), _) => {
                "look at firewalls on the way, which drop what they forbid, and whether the server hangs"
            }
            (Self::Wire(error), _) => error.remedy(),
            (Self::SetUp(_), _) => "mend the backend's tls",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn judged(ping: Reply, role: Reply) -> (Verdict, String) {
        let talk = Talk { took: Duration::from_micros(420), tls: None, ping, login_problem: None, role };
        let finding = judge_talk("valkey 127.0.0.1:6379", &talk);
        (finding.verdict, finding.found)
    }

    fn error(text: &str) -> Reply {
        Reply::Error(text.into())
    }

    fn role(name: &str) -> Reply {
        Reply::Array(vec![Reply::Bulk(name.into()), Reply::Integer(0)])
    }

    #[test]
    fn what_a_server_answers_is_judged() {
        let pong = || Reply::Simple("PONG".into());
        let no_role = || error("NOPERM this user has no permissions to run the 'role' command");
        for (ping, role, verdict, found) in [
            (pong(), role("master"), Verdict::Good, "PONG, primary"),
            (pong(), role("slave"), Verdict::Good, "PONG, replica"),
            (pong(), no_role(), Verdict::Good, "PONG"),
            (pong(), role("sentinel"), Verdict::Attention, "is a Sentinel"),
            (error("NOAUTH Authentication required."), no_role(), Verdict::Good, "wants a password"),
            (
                error("LOADING Redis is loading the dataset in memory"),
                no_role(),
                Verdict::Attention,
                "answers: LOADING Redis is loading the dataset in memory",
            ),
            (
                error("DENIED Redis is running in protected mode"),
                no_role(),
                Verdict::Attention,
                "answers: DENIED Redis is \
             running in protected mode",
            ),
            (error("ERR unknown command"), no_role(), Verdict::Attention, "answers: ERR unknown command"),
        ] {
            assert_eq!(judged(ping, role), (verdict, format!("reached in 0.4 ms, {found}")));
        }
        let found = "reached in 0.4 ms, and does not answer PING with PONG".to_owned();
        assert_eq!(judged(Reply::Integer(1), no_role()), (Verdict::Attention, found));
    }
}
