//! Bounds on each session of a listener: what `[limits]` and `[coalesce]` say, unless the listener says otherwise.

use std::time::Duration;

use toml::Spanned;

use super::error::ConfigError;
use super::limits::{self, Limits};
use super::raw::{RawListener, Value};
use super::section::Section;
use super::{Coalesce, size};

/// Bounds on each session of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// A session without a byte in either direction ends after this; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// What a session has left after one side ended, extended while bytes flow.
    pub half_close_timeout: Duration,
    /// How old a session may become; `None`: as old as it likes.
    pub max_lifetime: Option<Duration>,
    /// How long sent bytes may stay unacknowledged; `None`: as long as the kernel tries.
    pub tcp_user_timeout: Option<Duration>,
    /// High-water mark of bytes waiting to be sent, per direction.
    pub send_buffer: usize,
    /// How long small writes are gathered into one record.
    pub coalesce: Coalesce,
}

impl SessionLimits {
    pub(super) fn read(
        section: &Section<'_>,
        raw: &RawListener,
        limits: &Limits,
        coalesce: Coalesce,
    ) -> Result<Self, ConfigError> {
        let s = section;
        let read = Self {
            idle_timeout: own(&raw.idle_timeout, limits.idle_timeout, |raw| limits::read_idle_timeout(s, raw))?,
            half_close_timeout: own(&raw.half_close_timeout, limits.half_close_timeout, |raw| {
                limits::read_half_close_timeout(s, raw)
            })?,
            max_lifetime: own(&raw.max_lifetime, limits.max_lifetime, |raw| limits::read_max_lifetime(s, raw))?,
            tcp_user_timeout: own(&raw.tcp_user_timeout, limits.tcp_user_timeout, |raw| {
                limits::read_tcp_user_timeout(s, raw)
            })?,
            send_buffer: own(&raw.send_buffer, limits.send_buffer, |raw| limits::read_send_buffer(s, raw))?,
            coalesce: own(&raw.coalesce, coalesce, |raw| Coalesce::read(s, "coalesce", raw))?,
        };
        let session = limits::session_memory_max(read.send_buffer);
        match &raw.send_buffer {
            Some(value) if session > limits.shard_memory => {
                let shard = size::show(limits.shard_memory);
                let problem = format!(
                    "does not fit: with it one session may hold {session} bytes, and limits.shard_memory is {shard}"
                );
                Err(s.error("send_buffer", value, &problem))
            }
            Some(_) | None => Ok(read),
        }
    }
}

/// What is written under the listener, else what holds for all.
fn own<'v, T>(
    raw: &'v Option<Spanned<Value>>,
    of_all: T,
    read: impl FnOnce(Option<&'v Spanned<Value>>) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    if raw.is_some() { read(raw.as_ref()) } else { Ok(of_all) }
}
