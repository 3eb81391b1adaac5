//! What a server is asked and told before its client's first byte: whether it lets anybody in, who the client's user
//! is, what the connection is called. The replies are swallowed.
//!
//! ```text
//!   connected, secured ──► all commands in one write ──► replies, in order ──► relay
//!                                  │                        ├──► the client is refused
//!                                  └── closed, silent, odd ─┴──► HangUp, next server
//! ```
//!
//! No command waits for the reply of the one before it, so a greeting costs one round trip. What the client says
//! meanwhile is held back as in a handshake. Bytes of the server behind the last reply are the client's.

use std::fmt;

use zeroize::Zeroizing;

use super::close::CloseReason;
use super::dial::{HandshakeEnd, HangUp};
use super::{Phase, Session, Side, Turn};
use crate::auth_check::{AuthCheck, Demand};
use crate::io::Errno;
use crate::metrics::Tally;
use crate::secret::Secret;
use crate::wire::{Reader, Reply, encode};

/// The longest reply to a command of a greeting. What a server in protected mode says has about 1,000 bytes.
const REPLY_BYTES_MAX: usize = 4096;

/// What a client of an open server is told: the remedy, for whoever can apply it.
const DENIED: &str = "-DENIED ringwall: the server takes commands without a password, and this listener is not for this \
                      host alone. Set requirepass or ACL users on the server, or client_auth = \"required\" or \
                      allow_unauthenticated = true on the listener\r\n";
const OPEN_TO_RESET: &str = "-ERR ringwall: the server's default user needs no password, so that RESET would make anybody \
                             that user. Give it one, or turn it off: ACL SETUSER default off\r\n";
const NO_USER: &str = "-NOAUTH ringwall: this listener has no user for your certificate\r\n";
const USER_REFUSED: &str = "-NOAUTH ringwall: the server refuses the user that is for your certificate\r\n";

/// What a server is told first.
#[derive(Debug, Default)]
pub struct Opening {
    /// Goes out as it is, in front of TLS: a PROXY header.
    pub header: Vec<u8>,
    /// Commands, and what their replies mean; `None` where there are none.
    pub greeting: Option<Greeting>,
}

/// What a reply is the answer to.
#[derive(Debug)]
enum Step {
    /// PING of a connection that has not authenticated.
    Probe(Demand, AuthCheck),
    /// AUTH.
    Authenticate,
    /// A command whose refusal changes nothing.
    Describe,
}

/// Commands to a server, and how far it has answered them.
pub struct Greeting {
    /// It may hold a password.
    commands: Zeroizing<Vec<u8>>,
    steps: Vec<Step>,
    /// Steps answered.
    answered: usize,
    reader: Reader,
}

impl fmt::Debug for Greeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Greeting({} of {} answered)", self.answered, self.steps.len())
    }
}

impl Default for Greeting {
    /// Without a command: to be sent when it [has one](Greeting::is_empty).
    fn default() -> Self {
        Self { commands: Zeroizing::default(), steps: Vec::new(), answered: 0, reader: Reader::new(REPLY_BYTES_MAX) }
    }
}

impl Greeting {
    /// Whether nothing is to be said.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Asks whether the server lets in whoever has no password. To be said first: behind AUTH it would ask nothing.
    pub fn probe(&mut self, demand: Demand, check: AuthCheck) {
        self.say(&[b"PING"], Step::Probe(demand, check));
    }

    /// Makes the client this user.
    pub fn authenticate(&mut self, user: &str, password: &Secret) {
        self.say(&[b"AUTH", user.as_bytes(), password.bytes()], Step::Authenticate);
    }

    /// Tells the server something that it need not know.
    pub fn describe(&mut self, command: &[&[u8]]) {
        self.say(command, Step::Describe);
    }

    fn say(&mut self, command: &[&[u8]], step: Step) {
        // Growing would leave what is there behind, unwiped.
        let mut all = Zeroizing::new(Vec::with_capacity(self.commands.len() + encoded_len_max(command)));
        all.extend_from_slice(&self.commands);
        encode(command, &mut all);
        self.commands = all;
        self.steps.push(step);
    }

    /// Takes replies from the front of `bytes`.
    fn hear(&mut self, bytes: &mut &[u8], turn: &mut Turn<'_>) -> Progress {
        while let Some(step) = self.steps.get(self.answered) {
            let reply = match self.reader.read(bytes) {
                Ok(Some(reply)) => reply,
                Ok(None) => return Progress::Waiting,
                Err(_) => return Progress::Failed(GreetingEnd::Malformed),
            };
            self.answered += 1;
            let judged = match step {
                Step::Probe(demand, check) => judge_probe(*demand, check, &reply, turn),
                Step::Authenticate => judge_auth(&reply),
                Step::Describe => {
                    turn.tally.greetings_refused.add(u64::from(matches!(reply, Reply::Error(_))));
                    Ok(())
                }
            };
            if let Err(end) = judged {
                return end;
            }
        }
        Progress::Over
    }
}

/// Each part has a head of at most 1 + 20 + 2 bytes, and two at its end.
fn encoded_len_max(command: &[&[u8]]) -> usize {
    23 + command.iter().map(|argument| argument.len() + 25).sum::<usize>()
}

/// Where a greeting has got to.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// More bytes are needed.
    Waiting,
    /// All is answered.
    Over,
    /// This server will not do; another one may.
    Failed(GreetingEnd),
    /// The client is not served.
    Refused(&'static str, CloseReason),
}

/// What the answer to PING says about who is let in. Servers look at that before anything else, so every other
/// answer than NOAUTH is one to somebody who was let in.
fn judge_probe(demand: Demand, check: &AuthCheck, reply: &Reply, turn: &Turn<'_>) -> Result<(), Progress> {
    let asks_for_auth = match reply {
        Reply::Error(text) => match code(text) {
            b"NOAUTH" => true,
            // The default user is open, and somebody has given thought to what it may do.
            b"NOPERM" if demand == Demand::Guarded => false,
            b"NOPERM" | b"LOADING" | b"BUSY" | b"MASTERDOWN" => return Err(refused_as_open(demand)),
            // Of the connection and not of the command: too many clients, protected mode.
            _ => return Err(Progress::Failed(GreetingEnd::Refused(Excerpt::of(text)))),
        },
        Reply::Simple(text) if text == b"PONG" => return Err(refused_as_open(demand)),
        Reply::Simple(_) | Reply::Integer(_) | Reply::Bulk(_) | Reply::Null | Reply::Array(_) => {
            return Err(Progress::Failed(GreetingEnd::Malformed));
        }
    };
    check.note(turn.now, asks_for_auth);
    Ok(())
}

const fn refused_as_open(demand: Demand) -> Progress {
    let told = match demand {
        Demand::Guarded => DENIED,
        Demand::Closed => OPEN_TO_RESET,
    };
    Progress::Refused(told, CloseReason::ServerOpen)
}

/// What the answer to AUTH says. Of an error only its first word is kept: a server that knows no AUTH repeats what came
/// with it.
fn judge_auth(reply: &Reply) -> Result<(), Progress> {
    match reply {
        Reply::Simple(_) => Ok(()),
        Reply::Error(text) if code(text) == b"WRONGPASS" => {
            Err(Progress::Refused(USER_REFUSED, CloseReason::UserRefused))
        }
        Reply::Error(text) => Err(Progress::Failed(GreetingEnd::AuthRefused(Excerpt::of(code(text))))),
        Reply::Integer(_) | Reply::Bulk(_) | Reply::Null | Reply::Array(_) => {
            Err(Progress::Failed(GreetingEnd::Malformed))
        }
    }
}

/// An error's first word, which says of what kind it is.
fn code(error: &[u8]) -> &[u8] {
    error.split(|&byte| byte == b' ').next().unwrap_or_default()
}

/// The first characters of what a server has said, fit for a log and for a client's error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl Excerpt {
    const BYTES_MAX: usize = 63;

    /// Of `text`, with what is no printable ASCII exchanged.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let mut excerpt = Self { bytes: [0; Self::BYTES_MAX], len: 0 };
        for (place, &byte) in excerpt.bytes.iter_mut().zip(text) {
            *place = if byte == b' ' || byte.is_ascii_graphic() { byte } else { b'?' };
            excerpt.len += 1;
        }
        excerpt
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default())
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a greeting ended that a server has not answered as servers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GreetingEnd {
    /// The server ended the connection.
    Closed,
    /// The connection failed.
    Lost(Option<Errno>),
    /// It was not answered within the time of the attempt.
    Timeout,
    /// The server was not to be used any more.
    Dismissed,
    /// What came is no reply, or none to what was said.
    Malformed,
    /// The server refuses the connection, in these words.
    Refused(Excerpt),
    /// The server refuses AUTH for another reason than its user and password: the first word of its error.
    AuthRefused(Excerpt),
}

impl fmt::Display for GreetingEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the server ended the connection instead of answering"),
            Self::Lost(None) => f.write_str("the connection failed before the server had answered"),
            Self::Lost(Some(errno)) => write!(f, "the connection failed before the server had answered: {errno}"),
            Self::Timeout => f.write_str("no answer to the first command within the connect timeout"),
            Self::Dismissed => f.write_str("the server is not to be used any more"),
            Self::Malformed => f.write_str("what the server answers is no reply to the first commands"),
            Self::Refused(text) => write!(f, "the server refuses the connection: {text}"),
            Self::AuthRefused(code) => write!(f, "the server answers AUTH with {code}"),
        }
    }
}

impl Session {
    /// The server can be spoken to: it is greeted first, where there is something to say.
    pub(super) fn begin_greeting(&mut self, turn: &mut Turn<'_>) {
        let Some(greeting) = &self.greeting else { return self.begin_relaying(turn) };
        self.phase = Phase::Greeting;
        let pushed = self.backend.queue.push_ahead(&greeting.commands, &mut self.backend.transport, turn.pool);
        if let Err(failure) = pushed {
            self.fail_backend_handshake(failure, turn);
        }
    }

    /// Takes plaintext of the server while the greeting is not answered.
    pub(super) fn hear_greeting(&mut self, bytes: &[u8], turn: &mut Turn<'_>) {
        let (Phase::Greeting, Some(greeting)) = (self.phase, &mut self.greeting) else { return };
        self.backend.has_spoken = true;
        let mut rest = bytes;
        match greeting.hear(&mut rest, turn) {
            Progress::Waiting => {}
            Progress::Over => {
                self.greeting = None;
                turn.tally.greetings.add(1);
                self.begin_relaying(turn);
                if !rest.is_empty() {
                    self.relay(Side::Backend, rest, turn);
                }
            }
            Progress::Failed(end) => self.fail_greeting(end, turn),
            Progress::Refused(told, reason) => {
                count_refusal(reason, turn.tally);
                self.refuse(told, reason, turn);
            }
        }
    }

    /// The server will not be greeted; the next one is tried.
    pub(super) fn fail_greeting(&mut self, end: GreetingEnd, turn: &mut Turn<'_>) {
        self.hang_up(HangUp::Now(HandshakeEnd::Greeting(end)), turn);
    }

    /// The listener has no user for the client, who is told so. To be called instead of dialling.
    pub fn refuse_user(&mut self, turn: &mut Turn<'_>) {
        if self.phase == Phase::Connecting {
            count_refusal(CloseReason::NoUser, turn.tally);
            self.refuse(NO_USER, CloseReason::NoUser, turn);
        }
    }
}

fn count_refusal(reason: CloseReason, tally: &Tally) {
    if matches!(reason, CloseReason::ServerOpen) {
        tally.refused_at_open_server.add(1);
    } else {
        tally.users_refused.add(1);
    }
}
