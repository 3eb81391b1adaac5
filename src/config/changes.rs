//! What one configuration has that another has not: what a reload tells of itself.

use std::fmt;

use toml::Spanned;

use super::raw::RawListener;
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
    /// From one configuration to the next. What follows from something else, such as a limit of a listener that is not
    /// written there, is no change of its own: it is told where it was written.
    #[must_use]
    pub fn between(before: &Config, after: &Config) -> Self {
        let (was_written, is_written) = (before.written(), after.written());
        let same = |one: &(&Listener, &Spanned<RawListener>), other: &(&Listener, &Spanned<RawListener>)| {
            let ((one, was_written), (other, is_written)) = (one, other);
            let backends = (&before.backends[one.backend].name, &after.backends[other.backend].name);
            let means_the_same = backends.0 == backends.1
                && Listener { backend: 0, ..(*one).clone() } == Listener { backend: 0, ..(*other).clone() };
            means_the_same || was_written == is_written && one.bind == other.bind
        };
        let listeners_before: Vec<_> = before.listeners.iter().zip(&was_written.listener).collect();
        let listeners_after: Vec<_> = after.listeners.iter().zip(&is_written.listener).collect();
        let sections = [
            ("limits", before.limits != after.limits && was_written.limits != is_written.limits),
            ("security", before.security != after.security),
            ("coalesce", before.coalesce != after.coalesce),
            ("log", before.log != after.log),
            ("admin", before.admin != after.admin),
        ];
        Self {
            listeners: Named::between(&listeners_before, &listeners_after, |(listener, _)| &listener.name, same),
            backends: Named::between(&before.backends, &after.backends, |backend| &backend.name, Backend::eq),
            sections: sections.into_iter().filter(|(_, changed)| *changed).map(|(section, _)| section).collect(),
        }
    }
}

impl Named {
    fn between<T>(before: &[T], after: &[T], name: impl Fn(&T) -> &Box<str>, same: impl Fn(&T, &T) -> bool) -> Self {
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
