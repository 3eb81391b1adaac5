//! A listener's `user` tables as they are written.

use serde::Deserialize;
use toml::Spanned;

use super::Value;

/// One `[[listener.user]]`.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct RawUser {
    pub(in crate::config) cn: Option<Spanned<Value>>,
    pub(in crate::config) dns: Option<Spanned<Value>>,
    pub(in crate::config) uri: Option<Spanned<Value>>,
    pub(in crate::config) name: Option<Spanned<Value>>,
    pub(in crate::config) password_file: Option<Spanned<Value>>,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::reference_with_every_key;
    use super::super::{Source, parse};
    use super::*;

    #[test]
    fn the_reference_has_every_key_of_a_user() {
        let source = Source::new(Path::new("ringwall.toml"), reference_with_every_key().as_bytes()).unwrap();
        let listeners = parse(&source).unwrap().listener;
        let users = &listeners[0].get_ref().user;
        let RawUser { cn, dns, uri, name, password_file } = users[0].get_ref();
        let missing = [cn, dns, uri, name, password_file].iter().position(|key| key.is_none());
        assert_eq!(missing, None, "the reference lacks this key, counted from 0");
    }
}
