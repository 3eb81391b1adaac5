//! A backend's `health_check` and `sentinel` as they are written.

use serde::Deserialize;
use toml::Spanned;

use super::{RawBackendTls, Value, placed_table};

/// A backend's `health_check`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct RawHealthCheck {
    #[serde(rename = "type")]
    pub(in crate::config) kind: Option<Spanned<Value>>,
    pub(in crate::config) role: Option<Spanned<Value>>,
    pub(in crate::config) interval: Option<Spanned<Value>>,
    pub(in crate::config) timeout: Option<Spanned<Value>>,
    pub(in crate::config) rise: Option<Spanned<Value>>,
    pub(in crate::config) fall: Option<Spanned<Value>>,
    pub(in crate::config) username: Option<Spanned<Value>>,
    pub(in crate::config) password_file: Option<Spanned<Value>>,
    pub(in crate::config) on_demotion: Option<Spanned<Value>>,
}

/// A backend's `sentinel`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct RawSentinel {
    pub(in crate::config) addresses: Option<Spanned<Value>>,
    pub(in crate::config) name: Option<Spanned<Value>>,
    pub(in crate::config) username: Option<Spanned<Value>>,
    pub(in crate::config) password_file: Option<Spanned<Value>>,
    #[serde(deserialize_with = "placed_table")]
    pub(in crate::config) tls: Option<Spanned<RawBackendTls>>,
}
