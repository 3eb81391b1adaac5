//! Why a client leaves the shared connections: by the command, or by what else it needs a connection of its own for.

/// Why a client needs a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure(usize);

/// Commands by their names, in order; what else leads away stands behind them.
const COMMANDS: &[&str] = &[
    "acl",
    "asking",
    "auth",
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
    "client",
    "config",
    "debug",
    "failover",
    "flushall",
    "flushdb",
    "function",
    "hello",
    "keys",
    "latency",
    "module",
    "monitor",
    "multi",
    "psubscribe",
    "psync",
    "readonly",
    "readwrite",
    "replconf",
    "reset",
    "script",
    "select",
    "slowlog",
    "sort",
    "sort_ro",
    "ssubscribe",
    "subscribe",
    "sync",
    "wait",
    "waitaof",
    "watch",
    "xread",
    "xreadgroup",
];

/// The longest name of a command in the list.
const NAME_BYTES_MAX: usize = 10;

const OTHER: usize = COMMANDS.len();
const TOO_LARGE: usize = OTHER + 1;
const UNSHARED: usize = OTHER + 2;

impl Departure {
    /// How many there are.
    pub const COUNT: usize = UNSHARED + 1;
    /// A request or a reply is too large to be shared.
    pub(super) const TOO_LARGE: Self = Self(TOO_LARGE);
    /// There is nothing to share for whoever stands there: the server wants a login first, or there are too many classes.
    pub(super) const UNSHARED: Self = Self(UNSHARED);

    /// The command of this name.
    pub(super) fn of(name: Option<&[u8]>) -> Self {
        let mut lower = [0; NAME_BYTES_MAX];
        let Some(lower) = name.and_then(|name| Some((name, lower.get_mut(..name.len())?))).map(|(name, lower)| {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            &*lower
        }) else {
            return Self(OTHER);
        };
        Self(COMMANDS.binary_search_by(|command| command.as_bytes().cmp(lower)).unwrap_or(OTHER))
    }

    /// Its place among all of them.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }

    /// Its name.
    #[must_use]
    pub fn label(self) -> &'static str {
        Self::labels().nth(self.0).unwrap_or_default()
    }

    /// All names, in the order of their places.
    pub fn labels() -> impl Iterator<Item = &'static str> {
        COMMANDS.iter().copied().chain(["other", "too_large", "unshared"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_departure_has_the_name_of_its_command_or_is_another() {
        let label = |name: &str| Departure::of(Some(name.as_bytes())).label();
        assert_eq!(label("Watch"), "watch");
        assert_eq!(label("brpoplpush"), "brpoplpush");
        assert_eq!(label("json.get"), "other");
        assert_eq!(label("a-name-longer-than-any"), "other");
        assert_eq!(Departure::of(None).label(), "other");
        assert_eq!(Departure::UNSHARED.label(), "unshared");
        assert_eq!(Departure::labels().count(), Departure::COUNT);
    }

    #[test]
    fn commands_stand_in_order_and_fit() {
        assert!(COMMANDS.is_sorted());
        assert_eq!(COMMANDS.iter().map(|name| name.len()).max(), Some(NAME_BYTES_MAX));
    }
}
