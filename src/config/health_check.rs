//! A backend's `health_check` table: how its servers are checked, and what a demotion means to sessions.

use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;

use super::error::{ConfigError, Source};
use super::raw::{RawHealthCheck, Value};
use super::section::Section;
use super::tls::read_path;

/// Most checks in a row that a change of state may take.
const STREAK_MAX: u32 = 100;
/// Longest name of a user in bytes: it is sent with each new connection.
const USERNAME_BYTES_MAX: usize = 256;

/// How a backend's servers are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// What a server has to do.
    pub kind: CheckKind,
    /// From one check of a server to the next, with a tenth of it more or less by chance.
    pub interval: Duration,
    /// How long one check may take.
    pub timeout: Duration,
    /// Good checks in a row after which a server that had failed gets sessions again.
    pub rise: u32,
    /// Failed checks in a row after which a server gets no more of them.
    pub fall: u32,
    /// Who checks are to the servers; without it, whom they take for their default user.
    pub login: Option<Login>,
    /// What becomes of the sessions of a server that has lost its role.
    pub on_demotion: OnDemotion,
}

/// What a server has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// Take a connection, and shake hands where it speaks TLS.
    Tcp,
    /// Answer PING.
    Ping,
    /// Have this role.
    Role(WantedRole),
}

/// The role that a backend is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedRole {
    /// Takes writes.
    Primary,
    /// Copies a primary.
    Replica,
    /// Either: it has to be a server.
    Any,
}

/// What becomes of the sessions of a server that has lost its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDemotion {
    /// They end, and their clients connect anew.
    Close,
    /// They stay until one of their sides ends them.
    Keep,
    /// Each ends as soon as it is owed nothing and is quiet.
    Drain,
}

/// Who the control plane is to a server or a Sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Without it, the default user.
    pub username: Option<Box<str>>,
    /// Where the password is; see [`Secret::load`](crate::secret::Secret::load).
    pub password_file: PathBuf,
}

/// `found` says that Sentinels name the server, which needs a check of its role whether or not one is written.
pub(super) fn read_health_check(
    source: &Source,
    raw: Option<&Spanned<RawHealthCheck>>,
    found: bool,
) -> Result<Option<HealthCheck>, ConfigError> {
    let section = Section { source, name: "backend.health_check" };
    let absent = RawHealthCheck::default();
    let raw = match raw {
        Some(entry) => {
            if entry.get_ref().kind.is_none() && !found {
                return Err(section.missing("type", entry, "\"tcp\", \"ping\" or \"role\""));
            }
            entry.get_ref()
        }
        None if found => &absent,
        None => return Ok(None),
    };
    let kind = read_kind(&section, raw, found)?;
    let on_demotion = [("close", OnDemotion::Close), ("keep", OnDemotion::Keep), ("drain", OnDemotion::Drain)];
    let login = read_login(&section, raw.username.as_ref(), raw.password_file.as_ref())?;
    // Whoever writes one of these believes that it does something.
    for (key, value, without) in [
        ("on_demotion", &raw.on_demotion, matches!(kind, CheckKind::Tcp | CheckKind::Ping)),
        ("password_file", &raw.password_file, kind == CheckKind::Tcp),
    ] {
        if let Some(value) = value.as_ref().filter(|_| without) {
            let kind = if kind == CheckKind::Tcp { "tcp" } else { "ping" };
            return Err(section.error(key, value, &format!("is of no use with type = \"{kind}\"")));
        }
    }
    Ok(Some(HealthCheck {
        kind,
        interval: section.duration("interval", raw.interval.as_ref(), "2s", "100ms"..="1h")?,
        timeout: section.duration("timeout", raw.timeout.as_ref(), "1s", "10ms"..="1m")?,
        rise: section.count("rise", raw.rise.as_ref(), 1..=STREAK_MAX)?.unwrap_or(2),
        fall: section.count("fall", raw.fall.as_ref(), 1..=STREAK_MAX)?.unwrap_or(3),
        login,
        on_demotion: section.choice("on_demotion", raw.on_demotion.as_ref(), OnDemotion::Close, &on_demotion)?,
    }))
}

/// What a server has to do; one that Sentinels name has to be the primary.
fn read_kind(section: &Section<'_>, raw: &RawHealthCheck, found: bool) -> Result<CheckKind, ConfigError> {
    let roles = [("primary", WantedRole::Primary), ("replica", WantedRole::Replica), ("any", WantedRole::Any)];
    let role = section.choice("role", raw.role.as_ref(), WantedRole::Primary, &roles)?;
    let kinds = [("tcp", CheckKind::Tcp), ("ping", CheckKind::Ping), ("role", CheckKind::Role(role))];
    let kind = section.choice("type", raw.kind.as_ref(), CheckKind::Role(role), &kinds)?;
    let of_no_use = |key, value: &Option<Spanned<Value>>, problem| match value {
        Some(value) => Err(section.error(key, value, problem)),
        None => Ok(kind),
    };
    match kind {
        CheckKind::Tcp | CheckKind::Ping if found => {
            of_no_use("type", &raw.kind, "does not fit sentinel, whose word is verified: write \"role\"")
        }
        CheckKind::Role(WantedRole::Replica | WantedRole::Any) if found => {
            of_no_use("role", &raw.role, "does not fit sentinel, which names a primary: write \"primary\"")
        }
        CheckKind::Tcp => of_no_use("role", &raw.role, "is of no use with type = \"tcp\": write type = \"role\""),
        CheckKind::Ping => of_no_use("role", &raw.role, "is of no use with type = \"ping\": write type = \"role\""),
        CheckKind::Role(_) => Ok(kind),
    }
}

/// A user and a password's file; a user needs a password.
pub(super) fn read_login(
    section: &Section<'_>,
    username: Option<&Spanned<Value>>,
    password_file: Option<&Spanned<Value>>,
) -> Result<Option<Login>, ConfigError> {
    let path = read_path(section, "password_file", password_file, "a file that holds a password")?;
    let user = section.text("username", username, "the name of a user of the servers")?;
    match (user, path) {
        (None, None) => Ok(None),
        (Some((_, value)), None) => {
            Err(section.error("username", value, "is given without password_file, which it needs"))
        }
        (user, Some(password_file)) => {
            if let Some((text, value)) = user
                && (text.is_empty() || text.len() > USERNAME_BYTES_MAX)
            {
                let problem = format!("is not a name of 1 to {USERNAME_BYTES_MAX} bytes");
                return Err(section.error("username", value, &problem));
            }
            Ok(Some(Login { username: user.map(|(text, _)| text.into()), password_file }))
        }
    }
}
