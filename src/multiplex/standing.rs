//! What a client's connection stands at: user, protocol, database, name. It is what must be the same on every connection
//! that runs the client's commands, and is said to it before they are.
//!
//! A command that changes it is asked of a server, and the change counts when the server says that it does. Credentials
//! are kept to be said again on the client's behalf, are wiped when they are dropped, and appear in no debug output.

use zeroize::Zeroizing;

use super::route::Effect;
use crate::wire::frame::Kind;

/// Whom a client has proven to be.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    /// `None` where the client gave only a password, which is the default user's.
    user: Option<Box<[u8]>>,
    password: Zeroizing<Box<[u8]>>,
}

impl Login {
    fn user(&self) -> &[u8] {
        self.user.as_deref().unwrap_or(b"default")
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login")
    }
}

/// The version of RESP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// The state of a connection, as far as it is known here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    login: Option<Login>,
    protocol: Protocol,
    database: u32,
    reads_replicas: bool,
    name: Option<Box<[u8]>>,
    library_name: Option<Box<[u8]>>,
    library_version: Option<Box<[u8]>>,
}

/// What connections that clients share have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassKey {
    user: Option<Box<[u8]>>,
    protocol: Protocol,
    database: u32,
    reads_replicas: bool,
}

/// A change that a command asks for, until its reply decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Login(Login),
    Hello {
        protocol: Protocol,
        login: Option<Login>,
        name: Option<Box<[u8]>>,
    },
    Database(u32),
    Name(Box<[u8]>),
    LibraryName(Box<[u8]>),
    LibraryVersion(Box<[u8]>),
    ReadsReplicas(bool),
    Reset,
    Nothing,
    /// What it would change is not understood here: a server that agrees to it knows more.
    Unknown,
}

impl Change {
    /// What the command with this effect and these arguments, its name first, asks for.
    pub(super) fn asked<'a>(effect: Effect, mut arguments: impl Iterator<Item = &'a [u8]>) -> Self {
        arguments.next();
        let asked = match effect {
            Effect::Auth => auth(arguments),
            Effect::Hello => hello(arguments),
            Effect::Select => arguments.next().and_then(number).map(Self::Database),
            Effect::SetName => arguments.nth(1).map(|name| Self::Name(name.into())),
            Effect::SetInfo => {
                arguments.next();
                match (arguments.next(), arguments.next()) {
                    (Some(option), Some(value)) if option.eq_ignore_ascii_case(b"LIB-NAME") => {
                        Some(Self::LibraryName(value.into()))
                    }
                    (Some(option), Some(value)) if option.eq_ignore_ascii_case(b"LIB-VER") => {
                        Some(Self::LibraryVersion(value.into()))
                    }
                    _ => None,
                }
            }
            Effect::ReadOnly => Some(Self::ReadsReplicas(true)),
            Effect::ReadWrite => Some(Self::ReadsReplicas(false)),
            Effect::Reset => Some(Self::Reset),
            Effect::Nothing | Effect::Multi | Effect::EndMulti | Effect::Watch | Effect::Unwatch | Effect::Asking => {
                Some(Self::Nothing)
            }
        };
        asked.unwrap_or(Self::Unknown)
    }

    /// Whether the reply that begins with `head` says that the change is made.
    pub(super) fn is_made(&self, kind: Kind, head: &[u8]) -> bool {
        match self {
            Self::Hello { .. } => kind == Kind::Value,
            Self::Reset => head.starts_with(b"+RESET"),
            Self::Nothing => false,
            Self::Unknown => kind != Kind::Error,
            Self::Login(_)
            | Self::Database(_)
            | Self::Name(_)
            | Self::LibraryName(_)
            | Self::LibraryVersion(_)
            | Self::ReadsReplicas(_) => head.starts_with(b"+OK"),
        }
    }
}

fn auth<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Option<Change> {
    let (first, second, third) = (arguments.next()?, arguments.next(), arguments.next());
    let login = match (second, third) {
        (None, _) => Login { user: None, password: secret(first) },
        (Some(password), None) => Login { user: Some(first.into()), password: secret(password) },
        (Some(_), Some(_)) => return None,
    };
    Some(Change::Login(login))
}

/// `HELLO [protover [AUTH username password] [SETNAME clientname]]`
fn hello<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Option<Change> {
    let protocol = match arguments.next() {
        None => return Some(Change::Nothing),
        Some(b"2") => Protocol::Resp2,
        Some(b"3") => Protocol::Resp3,
        Some(_) => return None,
    };
    let (mut login, mut name) = (None, None);
    while let Some(option) = arguments.next() {
        if option.eq_ignore_ascii_case(b"AUTH") {
            let user = arguments.next()?.into();
            login = Some(Login { user: Some(user), password: secret(arguments.next()?) });
        } else if option.eq_ignore_ascii_case(b"SETNAME") {
            name = Some(arguments.next()?.into());
        } else {
            return None;
        }
    }
    Some(Change::Hello { protocol, login, name })
}

fn secret(bytes: &[u8]) -> Zeroizing<Box<[u8]>> {
    Zeroizing::new(bytes.into())
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// What an answer to something that is said on a client's behalf means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An error means that the connection cannot be used for the client.
    Must,
    /// An error is of no consequence.
    May,
    /// An error that no login is given means that a connection without one can do nothing.
    LoginNeeded,
    /// It must be `+RESET`, and the connection is as a fresh one, which nobody needs.
    Reset,
    /// It must be `+RESET`, and the connection is as a fresh one for what follows.
    Renew,
    /// An error means that a following WAIT would not wait for what was written before.
    MoveOffset,
}

impl Standing {
    /// What connections must have in common with this one to be shared with it.
    pub(super) fn class(&self) -> ClassKey {
        ClassKey {
            user: self.login.as_ref().map(|login| login.user().into()),
            protocol: self.protocol,
            database: self.database,
            reads_replicas: self.reads_replicas,
        }
    }

    /// Whether the client has proven to be somebody.
    pub(super) const fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// Whether [`Standing::class`] would be `key`.
    pub(super) fn is_of(&self, key: &ClassKey) -> bool {
        self.login.as_ref().map(Login::user) == key.user.as_deref()
            && self.protocol == key.protocol
            && self.database == key.database
            && self.reads_replicas == key.reads_replicas
    }

    /// Makes a change that a server has made.
    pub(super) fn make(&mut self, change: Change) {
        match change {
            Change::Login(login) => self.login = Some(login),
            Change::Hello { protocol, login, name } => {
                self.protocol = protocol;
                self.login = login.or_else(|| self.login.take());
                if let Some(name) = name {
                    self.set_name(name);
                }
            }
            Change::Database(database) => self.database = database,
            Change::Name(name) => self.set_name(name),
            Change::LibraryName(name) => self.library_name = Some(name),
            Change::LibraryVersion(version) => self.library_version = Some(version),
            Change::ReadsReplicas(reads) => self.reads_replicas = reads,
            // RESET leaves what the library has said of itself, and nothing else.
            Change::Reset => {
                let (library_name, library_version) = (self.library_name.take(), self.library_version.take());
                *self = Self { library_name, library_version, ..Self::default() };
            }
            Change::Nothing | Change::Unknown => {}
        }
    }

    fn set_name(&mut self, name: Box<[u8]>) {
        self.name = Some(name).filter(|name| !name.is_empty());
    }

    /// What brings a fresh connection to where this one stands, for clients that share it, and what the answers mean.
    pub(super) fn for_sharing(&self) -> Script {
        let mut script = Script::default();
        self.write_class(&mut script);
        if self.login.is_none() {
            // Any command but those that log in tells whether one may go without.
            script.say(Step::LoginNeeded, &[b"PING"]);
        }
        script
    }

    /// The same for a connection of the client's own.
    pub(super) fn for_one(&self) -> Script {
        let mut script = Script::default();
        self.write_class(&mut script);
        if let Some(name) = &self.name {
            script.say(Step::May, &[b"CLIENT", b"SETNAME", name]);
        }
        for (option, value) in self.library() {
            if let Some(value) = value {
                script.say(Step::May, &[b"CLIENT", b"SETINFO", option, value]);
            }
        }
        script
    }

    /// What makes a connection that stands here a fresh one. RESET leaves what the library has said of itself.
    pub(super) fn reset(&self) -> Script {
        let mut script = Script::default();
        for (option, value) in self.library() {
            if value.is_some() {
                script.say(Step::May, &[b"CLIENT", b"SETINFO", option, b""]);
            }
        }
        script.say(Step::Reset, &[b"RESET"]);
        script
    }

    /// What makes the server decide anew what a connection may that stands as a fresh one.
    pub(super) fn renewal(&self) -> Script {
        let mut script = Script::default();
        script.say(Step::Renew, &[b"RESET"]);
        script
    }

    fn library(&self) -> [(&'static [u8], Option<&[u8]>); 2] {
        [(b"LIB-NAME", self.library_name.as_deref()), (b"LIB-VER", self.library_version.as_deref())]
    }

    fn write_class(&self, script: &mut Script) {
        match (self.protocol, &self.login) {
            (Protocol::Resp2, None) => {}
            (Protocol::Resp2, Some(Login { user: None, password })) => script.say(Step::Must, &[b"AUTH", password]),
            (Protocol::Resp2, Some(Login { user: Some(user), password })) => {
                script.say(Step::Must, &[b"AUTH", user, password]);
            }
            (Protocol::Resp3, None) => script.say(Step::Must, &[b"HELLO", b"3"]),
            (Protocol::Resp3, Some(login)) => {
                script.say(Step::Must, &[b"HELLO", b"3", b"AUTH", login.user(), &login.password]);
            }
        }
        if self.database != 0 {
            script.say(Step::Must, &[b"SELECT", self.database.to_string().as_bytes()]);
        }
        if self.reads_replicas {
            script.say(Step::Must, &[b"READONLY"]);
        }
    }
}

/// Requests on a client's behalf, and what each answer means.
#[derive(Default)]
pub(super) struct Script {
    /// As on the wire; wiped when it is dropped.
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) steps: Vec<Step>,
}

impl Script {
    pub(super) fn say(&mut self, step: Step, arguments: &[&[u8]]) {
        self.steps.push(step);
        self.bytes.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
        for argument in arguments {
            self.bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            self.bytes.extend_from_slice(argument);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(effect: Effect, line: &str) -> Change {
        Change::asked(effect, line.split(' ').map(str::as_bytes))
    }

    fn said(script: &Script) -> String {
        let text = String::from_utf8(script.bytes.to_vec()).expect("ASCII");
        let words: Vec<_> = text.split("\r\n").filter(|line| !line.starts_with('$') && !line.is_empty()).collect();
        words.join(" ")
    }

    #[test]
    fn a_connect_sequence_is_said_again_on_a_connection_of_the_clients_own() {
        let mut standing = Standing::default();
        standing.make(change(Effect::Hello, "HELLO 3 AUTH alice wonder SETNAME app"));
        standing.make(change(Effect::SetInfo, "CLIENT SETINFO LIB-NAME redis-py"));
        standing.make(change(Effect::SetInfo, "CLIENT SETINFO lib-ver 5.0"));
        standing.make(change(Effect::Select, "SELECT 4"));
        standing.make(change(Effect::ReadOnly, "READONLY"));
        assert_eq!(
            said(&standing.for_one()),
            "*5 HELLO 3 AUTH alice wonder *2 SELECT 4 *1 READONLY *3 CLIENT SETNAME app \
             *4 CLIENT SETINFO LIB-NAME redis-py *4 CLIENT SETINFO LIB-VER 5.0"
        );
        assert_eq!(said(&standing.for_sharing()), "*5 HELLO 3 AUTH alice wonder *2 SELECT 4 *1 READONLY");
    }

    #[test]
    fn a_connection_is_reset_with_what_the_library_has_said() {
        let mut standing = Standing::default();
        assert_eq!(said(&standing.reset()), "*1 RESET");
        standing.make(change(Effect::SetInfo, "CLIENT SETINFO LIB-NAME redis-py"));
        assert_eq!(said(&standing.reset()), "*4 CLIENT SETINFO LIB-NAME *1 RESET");
        assert_eq!(standing.reset().steps, [Step::May, Step::Reset]);
        standing.make(Change::Database(3));
        standing.make(Change::Reset);
        assert_eq!(said(&standing.for_one()), "*4 CLIENT SETINFO LIB-NAME redis-py");
    }

    #[test]
    fn a_login_is_said_as_the_client_said_it() {
        let mut standing = Standing::default();
        standing.make(change(Effect::Auth, "AUTH secret"));
        assert_eq!(said(&standing.for_sharing()), "*2 AUTH secret");
        standing.make(change(Effect::Auth, "AUTH bob builder"));
        assert_eq!(said(&standing.for_sharing()), "*3 AUTH bob builder");
        assert!(!format!("{standing:?}").contains("builder"));
    }

    #[test]
    fn clients_are_of_one_class_if_user_protocol_and_database_are_the_same() {
        let with = |lines: &[(Effect, &str)]| {
            let mut standing = Standing::default();
            lines.iter().for_each(|(effect, line)| standing.make(change(*effect, line)));
            standing
        };
        let key = with(&[(Effect::Auth, "AUTH default pw"), (Effect::SetName, "CLIENT SETNAME a")]).class();
        assert!(with(&[(Effect::Auth, "AUTH pw")]).is_of(&key));
        assert!(!with(&[]).is_of(&key));
        assert!(!with(&[(Effect::Auth, "AUTH other pw")]).is_of(&key));
        assert!(!with(&[(Effect::Auth, "AUTH pw"), (Effect::Select, "SELECT 1")]).is_of(&key));
        assert!(!with(&[(Effect::Auth, "AUTH pw"), (Effect::ReadOnly, "READONLY")]).is_of(&key));
        assert!(!with(&[(Effect::Hello, "HELLO 3 AUTH default pw")]).is_of(&key));
    }

    #[test]
    fn a_change_counts_when_the_server_says_so() {
        let select = change(Effect::Select, "SELECT 4");
        assert!(select.is_made(Kind::Status, b"+OK\r\n"));
        assert!(!select.is_made(Kind::Status, b"+QUEUED\r\n"));
        assert!(!select.is_made(Kind::Error, b"-ERR DB index is out of range\r\n"));
        let hello = change(Effect::Hello, "HELLO 3");
        assert!(hello.is_made(Kind::Value, b"%7\r\n"));
        assert!(!hello.is_made(Kind::Status, b"+QUEUED\r\n"));
        assert_eq!(change(Effect::Hello, "HELLO"), Change::Nothing);
        assert_eq!(change(Effect::Hello, "HELLO 3 FUTURE"), Change::Unknown);
        assert_eq!(change(Effect::Select, "SELECT x"), Change::Unknown);
        assert_eq!(change(Effect::Auth, "AUTH a b c"), Change::Unknown);
    }
}
