//! Which keys two texts of the configuration do not have in common.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::error::Source;

/// Keys that a reload takes: how listeners and backends speak TLS, but not which name each server is asked for.
fn is_taken(key: &str) -> bool {
    let of_backend = key.starts_with("backend.tls") && key != "backend.tls.server_name";
    key.starts_with("listener.tls") || of_backend
}

/// The names of the keys that no reload takes and whose values differ, as messages give them, each once. Both texts
/// have been parsed before.
pub(super) fn changed_keys(before: &Source, after: &Source) -> Vec<String> {
    let (before, after) = (values(before), values(after));
    let either: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed = either.into_iter().filter(|&place| before.get(place) != after.get(place));
    let keys: BTreeSet<_> = changed.map(|place| place.key.as_str()).collect();
    keys.into_iter().filter(|key| !is_taken(key)).map(ToOwned::to_owned).collect()
}

/// Where a value stands: its key, and which one of each list of tables around it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Default)]
struct Place {
    key: String,
    positions: Vec<usize>,
}

fn values(source: &Source) -> BTreeMap<Place, String> {
    let mut found = BTreeMap::new();
    if let Ok(table) = source.text().parse::<Table>() {
        gather(&Value::Table(table), Place::default(), &mut found);
    }
    found
}

fn gather(value: &Value, place: Place, found: &mut BTreeMap<Place, String>) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                let key = if place.key.is_empty() { name.clone() } else { format!("{}.{name}", place.key) };
                gather(value, Place { key, positions: place.positions.clone() }, found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_table) => {
            for (position, item) in items.iter().enumerate() {
                let positions = [&place.positions[..], &[position]].concat();
                gather(item, Place { key: place.key.clone(), positions }, found);
            }
        }
        Value::Array(_)
        | Value::String(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_) => {
            found.insert(place, value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn keys_that_differ_are_named_once_and_those_of_tls_not_at_all() {
        let source = |text: &str| Source::new(Path::new("f.toml"), text.as_bytes()).unwrap();
        let before = source(
            "[[listener]]\nname = \"a\"\nmax_connections = 5\ntls = { certificate = \"a\" }\n[[listener]]\nname = \"b\"\n\
             [limits]\nidle_timeout = \"1s\"\n[coalesce]\nbytes = 1024 # same\n",
        );
        let after = source(
            "[[listener]]\nname = \"a\"\n[listener.tls]\ncertificate = \"b\"\nstrict_sni = true\n\
             [[listener]]\nname = \"b\"\nmax_connections = 5\n\
             [[backend]]\nname = \"b\"\ntls = { ca = \"new\", server_name = \"c\" }\n[limits]\nidle_timeout = \"2s\"\n[coalesce]\nbytes = 1024\n[log]\nsessions = true\n",
        );
        assert_eq!(
            changed_keys(&before, &after),
            [
                "backend.name",
                "backend.tls.server_name",
                "limits.idle_timeout",
                "listener.max_connections",
                "log.sessions"
            ]
        );
        assert_eq!(changed_keys(&before, &before), [""; 0]);
    }
}
