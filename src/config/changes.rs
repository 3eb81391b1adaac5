//! What one configuration has that another has not: what a reload tells of itself.

use std::fmt;

use super::{Backend, Config, Listener};

/// What has changed from one configuration to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Of the listeners.
    pub listeners: Named,
    /// Of the backends.
    pub backends: Named,
    /// Other tables that are not as they were.
    pub sections: Vec<&'static str>,
}

/// What has come, gone, or is another under the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Names that were not there before.
    pub added: Vec<Box<str>>,
    /// Names that are there no more.
    pub removed: Vec<Box<str>>,
    /// Names that stand for something else.
    pub changed: Vec<Box<str>>,
}

impl Changes {
    /// From one configuration to the next.
    #[must_use]
    pub fn between(before: &Config, after: &Config) -> Self {
        let same = |one: &Listener, other: &Listener| {
            let backends = (&before.backends[one.backend].name, &after.backends[other.backend].name);
            backends.0 == backends.1
                && Listener { backend: 0, ..one.clone() } == Listener { backend: 0, ..other.clone() }
        };
        let sections = [
            ("limits", before.limits != after.limits),
            ("security", before.security != after.security),
            ("coalesce", before.coalesce != after.coalesce),
            ("log", before.log != after.log),
            ("admin", before.admin != after.admin),
        ];
        Self {
            listeners: Named::between(&before.listeners, &after.listeners, |listener| &listener.name, same),
            backends: Named::between(&before.backends, &after.backends, |backend| &backend.name, Backend::eq),
            sections: sections.into_iter().filter(|(_, changed)| *changed).map(|(section, _)| section).collect(),
        }
    }
}

impl Named {
    fn between<T>(before: &[T], after: &[T], name: fn(&T) -> &Box<str>, same: impl Fn(&T, &T) -> bool) -> Self {
        let mut named = Self::default();
        for new in after {
            match before.iter().find(|old| name(old) == name(new)) {
                None => named.added.push(name(new).clone()),
                Some(old) if !same(old, new) => named.changed.push(name(new).clone()),
                Some(_) => {}
            }
        }
        let is_gone = |old: &&T| !after.iter().any(|new| name(new) == name(old));
        named.removed = before.iter().filter(is_gone).map(|old| name(old).clone()).collect();
        named
    }

    /// Whether all is as it was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl fmt::Display for Changes {
    /// In one line: "listeners added: a, b; backends changed: c; changed: limits".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut tell = |what: &str, names: &[&str]| {
            if names.is_empty() {
                return Ok(());
            }
            write!(f, "{separator}{what}: {}", names.join(", "))?;
            separator = "; ";
            Ok(())
        };
        for (whose, Named { added, removed, changed }) in [("listeners", &self.listeners), ("backends", &self.backends)]
        {
            for (how, names) in [("added", added), ("removed", removed), ("changed", changed)] {
                let names: Vec<&str> = names.iter().map(|name| &**name).collect();
                tell(&format!("{whose} {how}"), &names)?;
            }
        }
        tell("changed", &self.sections)?;
        if separator.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}
