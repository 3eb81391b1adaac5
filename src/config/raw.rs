//! The configuration file as it is written: its tables and keys, each value with its place in the text.
//!
//! This and `value` are the only places that know serde. Nothing is judged here except the shape of the tables; a value
//! of any type is taken as it stands, so that whoever reads it can name the key, the value and what is allowed.

mod checks;
mod users;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(super) use self::checks::{RawHealthCheck, RawSentinel};
use super::error::{ConfigError, Source};
pub(super) use super::value::Value;
pub(super) use users::RawUser;

/// The whole file.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConfig {
    #[serde(deserialize_with = "tables")]
    pub(super) listener: Vec<Spanned<RawListener>>,
    #[serde(deserialize_with = "tables")]
    pub(super) backend: Vec<Spanned<RawBackend>>,
    #[serde(deserialize_with = "table")]
    pub(super) runtime: RawRuntime,
    #[serde(deserialize_with = "table")]
    pub(super) limits: RawLimits,
    #[serde(deserialize_with = "table")]
    pub(super) security: RawSecurity,
    #[serde(deserialize_with = "table")]
    pub(super) coalesce: RawCoalesce,
    #[serde(deserialize_with = "table")]
    pub(super) log: RawLog,
    #[serde(deserialize_with = "placed_table")]
    pub(super) admin: Option<Spanned<RawAdmin>>,
}

/// One `[[listener]]`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawListener {
    pub(super) name: Option<Spanned<Value>>,
    pub(super) bind: Option<Spanned<Value>>,
    pub(super) backend: Option<Spanned<Value>>,
    #[serde(deserialize_with = "placed_table")]
    pub(super) tls: Option<Spanned<RawTls>>,
    pub(super) plain: Option<Spanned<Value>>,
    pub(super) allow: Option<Spanned<Value>>,
    pub(super) deny: Option<Spanned<Value>>,
    pub(super) max_connections: Option<Spanned<Value>>,
    pub(super) max_connections_per_source: Option<Spanned<Value>>,
    pub(super) connection_rate: Option<Spanned<Value>>,
    pub(super) connection_rate_per_source: Option<Spanned<Value>>,
    pub(super) handshake_rate: Option<Spanned<Value>>,
    pub(super) handshake_rate_per_source: Option<Spanned<Value>>,
    pub(super) listen_backlog: Option<Spanned<Value>>,
    pub(super) idle_timeout: Option<Spanned<Value>>,
    pub(super) half_close_timeout: Option<Spanned<Value>>,
    pub(super) max_lifetime: Option<Spanned<Value>>,
    pub(super) tcp_user_timeout: Option<Spanned<Value>>,
    pub(super) send_buffer: Option<Spanned<Value>>,
    pub(super) coalesce: Option<Spanned<Value>>,
    pub(super) unreachable: Option<Spanned<Value>>,
    pub(super) mode: Option<Spanned<Value>>,
    pub(super) multiplex_bytes_max: Option<Spanned<Value>>,
    pub(super) connections_per_shard: Option<Spanned<Value>>,
    pub(super) client_requests_max: Option<Spanned<Value>>,
    pub(super) connection_requests_max: Option<Spanned<Value>>,
    pub(super) slow_log: Option<Spanned<Value>>,
    pub(super) accept_proxy: Option<Spanned<Value>>,
    pub(super) trusted_proxies: Option<Spanned<Value>>,
    pub(super) allow_unauthenticated: Option<Spanned<Value>>,
    #[serde(deserialize_with = "tables")]
    pub(super) user: Vec<Spanned<RawUser>>,
}

/// A listener's `tls`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawTls {
    pub(super) certificate: Option<Spanned<Value>>,
    pub(super) private_key: Option<Spanned<Value>>,
    pub(super) ocsp: Option<Spanned<Value>>,
    #[serde(deserialize_with = "tables")]
    pub(super) certificates: Vec<Spanned<RawPair>>,
    pub(super) cert_dir: Option<Spanned<Value>>,
    pub(super) strict_sni: Option<Spanned<Value>>,
    pub(super) min_version: Option<Spanned<Value>>,
    pub(super) max_version: Option<Spanned<Value>>,
    pub(super) cipher_suites: Option<Spanned<Value>>,
    pub(super) groups: Option<Spanned<Value>>,
    pub(super) require_pq: Option<Spanned<Value>>,
    pub(super) alpn: Option<Spanned<Value>>,
    pub(super) ticket_secret: Option<Spanned<Value>>,
    pub(super) client_auth: Option<Spanned<Value>>,
    pub(super) client_ca: Option<Spanned<Value>>,
    pub(super) client_crl: Option<Spanned<Value>>,
    pub(super) client_crl_coverage: Option<Spanned<Value>>,
    pub(super) allowed_cn: Option<Spanned<Value>>,
    pub(super) allowed_dns: Option<Spanned<Value>>,
    pub(super) allowed_uri: Option<Spanned<Value>>,
    pub(super) allowed_spki: Option<Spanned<Value>>,
}

/// One of a listener's `tls.certificates`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawPair {
    pub(super) certificate: Option<Spanned<Value>>,
    pub(super) private_key: Option<Spanned<Value>>,
    pub(super) ocsp: Option<Spanned<Value>>,
}

/// One `[[backend]]`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawBackend {
    pub(super) name: Option<Spanned<Value>>,
    pub(super) servers: Option<Spanned<Value>>,
    pub(super) balance: Option<Spanned<Value>>,
    pub(super) retries: Option<Spanned<Value>>,
    pub(super) max_queue: Option<Spanned<Value>>,
    pub(super) queue_timeout: Option<Spanned<Value>>,
    pub(super) source_addresses: Option<Spanned<Value>>,
    pub(super) resolve_interval: Option<Spanned<Value>>,
    pub(super) send_proxy: Option<Spanned<Value>>,
    pub(super) client_name: Option<Spanned<Value>>,
    pub(super) client_info: Option<Spanned<Value>>,
    #[serde(deserialize_with = "placed_table")]
    pub(super) tls: Option<Spanned<RawBackendTls>>,
    #[serde(deserialize_with = "placed_table")]
    pub(super) health_check: Option<Spanned<RawHealthCheck>>,
    #[serde(deserialize_with = "placed_table")]
    pub(super) sentinel: Option<Spanned<RawSentinel>>,
}

/// A backend's `tls`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawBackendTls {
    pub(super) ca: Option<Spanned<Value>>,
    pub(super) verify: Option<Spanned<Value>>,
    pub(super) server_name: Option<Spanned<Value>>,
    pub(super) certificate: Option<Spanned<Value>>,
    pub(super) private_key: Option<Spanned<Value>>,
    pub(super) min_version: Option<Spanned<Value>>,
    pub(super) max_version: Option<Spanned<Value>>,
    pub(super) cipher_suites: Option<Spanned<Value>>,
    pub(super) groups: Option<Spanned<Value>>,
    pub(super) require_pq: Option<Spanned<Value>>,
}

/// `[runtime]`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawRuntime {
    pub(super) shards: Option<Spanned<Value>>,
    pub(super) cores: Option<Spanned<Value>>,
    pub(super) dispatcher_core: Option<Spanned<Value>>,
}

/// `[limits]`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLimits {
    pub(super) max_connections: Option<Spanned<Value>>,
    pub(super) listen_backlog: Option<Spanned<Value>>,
    pub(super) handshake_timeout: Option<Spanned<Value>>,
    pub(super) connect_timeout: Option<Spanned<Value>>,
    pub(super) idle_timeout: Option<Spanned<Value>>,
    pub(super) half_close_timeout: Option<Spanned<Value>>,
    pub(super) max_lifetime: Option<Spanned<Value>>,
    pub(super) shutdown_timeout: Option<Spanned<Value>>,
    pub(super) tcp_keepalive: Option<Spanned<Value>>,
    pub(super) tcp_user_timeout: Option<Spanned<Value>>,
    pub(super) send_buffer: Option<Spanned<Value>>,
    pub(super) shard_memory: Option<Spanned<Value>>,
    pub(super) max_handshakes: Option<Spanned<Value>>,
}

/// `[security]`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSecurity {
    pub(super) strict_key_permissions: Option<Spanned<Value>>,
}

/// `[coalesce]`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawCoalesce {
    pub(super) bytes: Option<Spanned<Value>>,
}

/// `[log]`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLog {
    pub(super) target: Option<Spanned<Value>>,
    pub(super) format: Option<Spanned<Value>>,
    pub(super) level: Option<Spanned<Value>>,
    pub(super) sessions: Option<Spanned<Value>>,
    pub(super) sample: Option<Spanned<Value>>,
    pub(super) failures_per_second: Option<Spanned<Value>>,
    pub(super) key_log: Option<Spanned<Value>>,
}

/// `[admin]`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawAdmin {
    pub(super) listen: Option<Spanned<Value>>,
    pub(super) socket_mode: Option<Spanned<Value>>,
    pub(super) allow_changes: Option<Spanned<Value>>,
}

/// A table and nothing else. Derived readers of structs also take a list of the fields' values in order, which no
/// operator means.
struct Table<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TableVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(entries))
            }
        }

        deserializer.deserialize_map(TableVisitor(PhantomData)).map(Self)
    }
}

fn table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Table::deserialize(deserializer).map(|table| table.0)
}

fn placed_table<'de, D, T>(deserializer: D) -> Result<Option<Spanned<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Spanned::deserialize(deserializer).map(|table| Some(without_wrapper(table)))
}

/// Reads an array of tables. Its own visitor, because a single table (`[listener]`) is an easy mistake and deserves
/// to be told the remedy.
fn tables<'de, D, T>(deserializer: D) -> Result<Vec<Spanned<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct TablesVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for TablesVisitor<T> {
        type Value = Vec<Spanned<T>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of tables, each under its own header in double brackets: [[...]]")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element()? {
                list.push(without_wrapper(item));
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(TablesVisitor(PhantomData))
}

fn without_wrapper<T>(table: Spanned<Table<T>>) -> Spanned<T> {
    Spanned::new(table.span(), table.into_inner().0)
}

/// Reads the text's tables and keys.
pub(super) fn parse(source: &Source) -> Result<RawConfig, ConfigError> {
    let document = DeTable::parse(source.text()).map_err(|error| syntax_error(source, &error))?;
    toml::from_str(source.text()).map_err(|error| shape_error(source, document.get_ref(), &error))
}

/// The text is not TOML.
fn syntax_error(source: &Source, error: &toml::de::Error) -> ConfigError {
    let span = error.span().unwrap_or_default();
    if error.message() == "duplicate key" {
        return duplicate(source, span);
    }
    let line = source.line_text(span.start);
    source.error(span, String::new(), format!("is not TOML: {}: {line}", error.message()))
}

/// What a duplicate is called to be found: no key of ours.
const STAND_IN: &str = "the-second-of-its-name";

/// A key or table that is there already. The parser says where it stands and neither its table nor the first one: under
/// another name it is no duplicate, and both can be looked for.
fn duplicate(source: &Source, span: Range<usize>) -> ConfigError {
    let found = source.text().get(span.clone()).and_then(|written| {
        let mut text = source.text().to_owned();
        text.replace_range(span.clone(), STAND_IN);
        let (document, _) = DeTable::parse_recoverable(&text);
        let renamed = span.start..span.start + STAND_IN.len();
        twin(document.get_ref(), &renamed, written.trim_matches(['"', '\'']))
    });
    match found {
        Some((key, first)) if first < span.start => {
            let line = source.line(first);
            source.error(span, key, format!("is given twice, first in line {line}"))
        }
        Some(_) | None => source.error(span.clone(), source.shown(&span), "is given twice".to_owned()),
    }
}

/// The dotted path and the place of the key `name` in the table that has a key at `renamed`.
fn twin(table: &DeTable<'_>, renamed: &Range<usize>, name: &str) -> Option<(String, usize)> {
    if table.iter().any(|(key, _)| key.span() == *renamed) {
        let (key, _) = table.iter().find(|(key, _)| key.get_ref() == name)?;
        return Some((name.to_owned(), key.span().start));
    }
    table.iter().find_map(|(key, value)| {
        let (path, first) = twin_in(value, renamed, name)?;
        Some((format!("{}.{path}", key.get_ref()), first))
    })
}

/// As [`twin`], for the tables in a value.
fn twin_in(value: &Spanned<DeValue<'_>>, renamed: &Range<usize>, name: &str) -> Option<(String, usize)> {
    if let Some(table) = value.get_ref().as_table() {
        twin(table, renamed, name)
    } else {
        value.get_ref().as_array()?.iter().find_map(|item| twin_in(item, renamed, name))
    }
}

/// The text is TOML, with an unknown key or something else where a table belongs.
fn shape_error(source: &Source, document: &DeTable<'_>, error: &toml::de::Error) -> ConfigError {
    let span = error.span().unwrap_or_default();
    let key = path_of(document, &span).unwrap_or_default();
    let message = error.message();
    let problem = if let Some(rest) = message.strip_prefix("unknown field ") {
        unknown_key(rest)
    } else if let Some((_, expected)) = message.split_once(", expected ") {
        format!("{} must be {expected}", source.shown(&span))
    } else {
        message.to_owned()
    };
    source.error(span, key, problem)
}

/// Says what may have been meant. `rest` is serde's "`given`, expected `a` or `b`" or "`given`, expected one of `a`,
/// `b`": what stands between backticks is the key given and the keys that exist.
fn unknown_key(rest: &str) -> String {
    let mut names = rest.split('`').skip(1).step_by(2);
    let given = names.next().unwrap_or_default();
    let known: Vec<&str> = names.collect();
    match super::closest(given, known.iter().copied()) {
        Some(close) => format!("unknown key; did you mean \"{close}\"?"),
        None => format!("unknown key; known here: {}", known.join(", ")),
    }
}

/// The dotted path of the key that stands at `span`, or whose value does.
fn path_of(table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref();
        if key.span() == *span {
            return Some(name.to_string());
        }
        match path_in(value, span) {
            Some(path) if path.is_empty() => Some(name.to_string()),
            Some(path) => Some(format!("{name}.{path}")),
            None => None,
        }
    })
}

/// As [`path_of`], for a value: an empty path means the value itself, or an item of it.
fn path_in(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> Option<String> {
    let inner = if let Some(table) = value.get_ref().as_table() {
        path_of(table, span)
    } else if let Some(list) = value.get_ref().as_array() {
        list.iter().find_map(|item| path_in(item, span))
    } else {
        None
    };
    inner.or_else(|| (value.span() == *span).then(String::new))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The reference with the keys and tables that it comments out, which are the comment lines of the forms
    /// `# key = value` and `# [table]`.
    pub(super) fn reference_with_every_key() -> String {
        let is_key = |line: &str| {
            line.starts_with("# [")
                || line
                    .strip_prefix("# ")
                    .and_then(|rest| rest.split_once(" = "))
                    .is_some_and(|(key, _)| !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        };
        let lines = include_str!("../../config/ringwall.toml").lines();
        lines.map(|line| if is_key(line) { &line[2..] } else { line }.to_owned() + "\n").collect()
    }

    /// A key that the reference lacks is read as nothing, and its field says so.
    #[test]
    fn the_reference_has_every_key_there_is() {
        let source = Source::new(Path::new("ringwall.toml"), reference_with_every_key().as_bytes()).unwrap();
        let fields = format!("{:#?}", parse(&source).unwrap());
        let lacking: Vec<_> = fields.lines().filter_map(|field| field.trim().strip_suffix(": None,")).collect();
        // The Sentinels' own `tls` has the keys of a backend's, of which the reference repeats one.
        let not_repeated = [
            "verify",
            "server_name",
            "certificate",
            "private_key",
            "min_version",
            "max_version",
            "cipher_suites",
            "groups",
            "require_pq",
        ];
        assert_eq!(lacking, not_repeated);
        for table in [
            "RawListener {",
            "RawUser {",
            "RawTls {",
            "RawPair {",
            "RawBackend {",
            "RawBackendTls {",
            "RawHealthCheck {",
            "RawSentinel {",
            "RawAdmin {",
            "max_handshakes: Some(",
        ] {
            assert!(fields.contains(table), "{table} was not looked into");
        }
    }
}
