//! Asks one Sentinel and listens to it, for as long as the program runs, whatever becomes of that Sentinel.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::account::Account;
use super::jitter::Jitter;
use super::link::{Link, LinkError};
use super::sentinel::{Heard, Told, ping, questions, read_answers, read_message, subscribe};
use crate::roster::Server;
use crate::tls::Connector;

/// From one question to the next, and to the next attempt to reach a Sentinel that has failed: so a switch is followed
/// within a second even where its message is lost.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long a Sentinel may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// Pings that may be unanswered: a Sentinel that tells nothing for so long is given up.
const PINGS_MAX: u32 = 3;

/// What one Sentinel has told.
#[derive(Debug)]
pub(super) struct Report {
    /// Its index among the backend's Sentinels.
    pub(super) sentinel: usize,
    pub(super) told: Told,
}

/// Watches one Sentinel.
pub(super) struct Watcher {
    pub(super) sentinel: usize,
    pub(super) server: Server,
    pub(super) connector: Option<Connector>,
    /// Shared by all Sentinels of the backend.
    pub(super) account: Arc<Account>,
    /// What they call the primary.
    pub(super) name: Box<str>,
    pub(super) reports: Sender<Report>,
}

/// The two connections to a Sentinel.
struct Talk {
    questions: Link,
    messages: Link,
    pings_open: u32,
}

impl Watcher {
    /// Watches until nobody wants to know.
    pub(super) async fn run(self) {
        let mut jitter = Jitter::new();
        while !self.reports.is_closed() {
            let why = match within(self.open()).await {
                Ok(talk) => self.converse(talk, &mut jitter).await,
                Err(why) => why,
            };
            self.report(Told::Trouble(why)).await;
            sleep(jitter.spread(ASK_AGAIN)).await;
        }
    }

    async fn open(&self) -> Result<Talk, String> {
        let questions = self.connect().await?;
        let mut messages = self.connect().await?;
        let reply = messages.call(&subscribe()).await.map_err(|error| error.to_string())?;
        match read_message(&reply, &self.name) {
            Heard::Trouble(why) => Err(why),
            Heard::Switched | Heard::Nothing => Ok(Talk { questions, messages, pings_open: 0 }),
        }
    }

    async fn connect(&self) -> Result<Link, String> {
        let link = Link::connect(&self.server.address, self.connector.as_ref()).await;
        let mut link = link.map_err(|error| error.to_string())?;
        self.account.log_in(&mut link).await?;
        Ok(link)
    }

    /// Asks at once, after each message that matters, and now and then. Gives why that is over.
    async fn converse(&self, mut talk: Talk, jitter: &mut Jitter) -> String {
        loop {
            match within(talk.ask(&self.name)).await {
                Ok(Told::Trouble(why)) | Err(why) => return why,
                Ok(told) => self.report(told).await,
            }
            if let Err(why) = talk.listen(&self.name, Instant::now() + jitter.spread(ASK_AGAIN)).await {
                return why;
            }
        }
    }

    async fn report(&self, told: Told) {
        // Nobody listens when the program ends.
        let _ = self.reports.send(Report { sentinel: self.sentinel, told }).await;
    }
}

impl Talk {
    async fn ask(&mut self, name: &str) -> Result<Told, String> {
        let [address, details] = questions(name);
        let ask = async {
            // Together, so that no failover comes between the answers.
            self.questions.send(&address).await?;
            self.questions.send(&details).await?;
            Ok((self.questions.reply().await?, self.questions.reply().await?))
        };
        let answers: Result<_, LinkError> = ask.await;
        answers.map(|(address, details)| read_answers(&address, &details)).map_err(|error| error.to_string())
    }

    /// Listens until it is time to ask again.
    async fn listen(&mut self, name: &str, until: Instant) -> Result<(), String> {
        loop {
            let heard = tokio::select! {
                () = sleep_until(until) => break,
                () = self.questions.over() => return Err(LinkError::Ended.to_string()),
                message = self.messages.reply() => message.map_err(|error| error.to_string())?,
            };
            self.pings_open = 0;
            match read_message(&heard, name) {
                Heard::Switched => return Ok(()),
                Heard::Nothing => {}
                Heard::Trouble(why) => return Err(why),
            }
        }
        if self.pings_open == PINGS_MAX {
            return Err("it is silent on the connection for its messages".to_owned());
        }
        self.pings_open += 1;
        within(async { self.messages.send(&ping()).await.map_err(|error| error.to_string()) }).await
    }
}

/// With the time that a Sentinel has to answer.
async fn within<T>(answer: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = |_| Err(format!("no answer within {}s", ANSWER.as_secs()));
    timeout(ANSWER, answer).await.unwrap_or_else(late)
}
