//! One table of the file, read key by key: a value that is absent is its default, one that is present is within its
//! bounds or an error that names them.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;

use super::error::{ConfigError, Source};
use super::raw::Value;
use super::{closest, duration, size};

/// Longest name of a listener or backend in bytes: it stands in every log line.
const NAME_BYTES_MAX: usize = 64;

/// A table of the file, for example `limits`.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    pub(super) source: &'a Source,
    pub(super) name: &'static str,
}

/// What one item of a list means, and where it stands.
pub(super) struct Item<'v, T> {
    pub(super) value: T,
    pub(super) place: &'v Spanned<Value>,
}

impl Section<'_> {
    /// The key's full name, as messages give it.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    /// An error about a value that is there: names the value and what is wrong with it.
    pub(super) fn error(&self, key: &str, value: &Spanned<Value>, problem: &str) -> ConfigError {
        let shown = self.source.shown(&value.span());
        self.source.error(value.span(), self.key(key), format!("{shown} {problem}"))
    }

    /// A duration. Default and bounds are written as the file writes them.
    pub(super) fn duration(
        &self,
        key: &str,
        raw: Option<&Spanned<Value>>,
        default: &'static str,
        bounds: RangeInclusive<&'static str>,
    ) -> Result<Duration, ConfigError> {
        match raw {
            None => Ok(literal_duration(default)),
            Some(value) => self.bounded_duration(key, value, &bounds, ""),
        }
    }

    /// A duration, or `"off"`.
    pub(super) fn duration_or_off(
        &self,
        key: &str,
        raw: Option<&Spanned<Value>>,
        default: &'static str,
        bounds: RangeInclusive<&'static str>,
    ) -> Result<Option<Duration>, ConfigError> {
        match raw {
            None => Ok((default != "off").then(|| literal_duration(default))),
            Some(value) if is_word(value, "off") => Ok(None),
            Some(value) => self.bounded_duration(key, value, &bounds, ", or \"off\"").map(Some),
        }
    }

    fn bounded_duration(
        &self,
        key: &str,
        value: &Spanned<Value>,
        bounds: &RangeInclusive<&'static str>,
        or: &str,
    ) -> Result<Duration, ConfigError> {
        let Some(duration) = as_text(value).and_then(duration::parse) else {
            let example = bounds.end();
            let problem = format!("is not a duration, a whole number and ms, s, m or h such as \"{example}\"{or}");
            return Err(self.error(key, value, &problem));
        };
        if (literal_duration(bounds.start())..=literal_duration(bounds.end())).contains(&duration) {
            Ok(duration)
        } else {
            Err(self.out_of_bounds(key, value, bounds.start(), bounds.end(), or))
        }
    }

    /// A number of bytes. Default and bounds are written as the file writes them.
    pub(super) fn size(
        &self,
        key: &str,
        raw: Option<&Spanned<Value>>,
        default: &'static str,
        bounds: RangeInclusive<&'static str>,
        or: &str,
    ) -> Result<usize, ConfigError> {
        let Some(value) = raw else { return Ok(literal_size(default)) };
        let bytes = match value.get_ref() {
            Value::Text(text) => size::parse(text).map(i128::from),
            Value::Integer(bytes) => Some(*bytes),
            Value::Boolean(_) | Value::List(_) | Value::Table(_) | Value::Other => None,
        };
        let Some(bytes) = bytes else {
            let example = bounds.end();
            let problem =
                format!("is not a size, a whole number of bytes or of KiB, MiB or GiB such as \"{example}\"{or}");
            return Err(self.error(key, value, &problem));
        };
        match usize::try_from(bytes) {
            Ok(bytes) if (literal_size(bounds.start())..=literal_size(bounds.end())).contains(&bytes) => Ok(bytes),
            Ok(_) | Err(_) => Err(self.out_of_bounds(key, value, bounds.start(), bounds.end(), or)),
        }
    }

    /// A whole number, `None` when it is absent.
    pub(super) fn count(
        &self,
        key: &str,
        raw: Option<&Spanned<Value>>,
        bounds: RangeInclusive<u32>,
    ) -> Result<Option<u32>, ConfigError> {
        let Some(value) = raw else { return Ok(None) };
        let Value::Integer(number) = value.get_ref() else {
            return Err(self.error(key, value, "is not a whole number"));
        };
        match u32::try_from(*number) {
            Ok(number) if bounds.contains(&number) => Ok(Some(number)),
            Ok(_) | Err(_) => {
                Err(self.out_of_bounds(key, value, &bounds.start().to_string(), &bounds.end().to_string(), ""))
            }
        }
    }

    fn out_of_bounds(&self, key: &str, value: &Spanned<Value>, least: &str, most: &str, or: &str) -> ConfigError {
        self.error(key, value, &format!("is out of bounds: {least} to {most}{or}"))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &str, raw: Option<&Spanned<Value>>, default: bool) -> Result<bool, ConfigError> {
        let Some(value) = raw else { return Ok(default) };
        match value.get_ref() {
            Value::Boolean(flag) => Ok(*flag),
            Value::Text(_) | Value::Integer(_) | Value::List(_) | Value::Table(_) | Value::Other => {
                Err(self.error(key, value, "is neither true nor false"))
            }
        }
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        raw: Option<&Spanned<Value>>,
        default: T,
        choices: &[(&'static str, T)],
    ) -> Result<T, ConfigError> {
        let Some(value) = raw else { return Ok(default) };
        if let Some((_, choice)) = choices.iter().find(|(word, _)| is_word(value, word)) {
            return Ok(*choice);
        }
        Err(self.none_of(key, value, choices))
    }

    /// Several of a few words, each once and at least one; `None` when the key is absent. `what` says what they are.
    pub(super) fn choices<'v, T: Copy>(
        &self,
        key: &str,
        raw: Option<&'v Spanned<Value>>,
        what: &str,
        choices: &[(&'static str, T)],
    ) -> Result<Option<Vec<Item<'v, T>>>, ConfigError> {
        let Some(texts) = self.distinct_texts(key, raw, what)? else { return Ok(None) };
        let mut chosen = Vec::new();
        for Item { value, place } in texts {
            match choices.iter().find(|(word, _)| *word == value) {
                Some((_, choice)) => chosen.push(Item { value: *choice, place }),
                None => return Err(self.none_of(key, place, choices)),
            }
        }
        Ok(Some(chosen))
    }

    /// A word that none is, with what was probably meant.
    fn none_of<T>(&self, key: &str, value: &Spanned<Value>, choices: &[(&'static str, T)]) -> ConfigError {
        let shown = self.source.shown(&value.span());
        if as_text(value).is_none() && choices.iter().any(|(word, _)| *word == shown) {
            return self.error(key, value, &format!("is a number and must be a text: write it in quotes, \"{shown}\""));
        }
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let mut problem = format!("is none of {}", words.join(", "));
        if let Some(close) = as_text(value).and_then(|given| closest(given, choices.iter().map(|(word, _)| *word))) {
            problem.push_str(&format!("; did you mean \"{close}\"?"));
        }
        self.error(key, value, &problem)
    }

    /// A list of texts, at least one; `None` when it is absent. `what` says what it is.
    pub(super) fn texts<'v>(
        &self,
        key: &str,
        raw: Option<&'v Spanned<Value>>,
        what: &str,
    ) -> Result<Option<Vec<Item<'v, &'v str>>>, ConfigError> {
        let Some(value) = raw else { return Ok(None) };
        let items = match value.get_ref() {
            Value::List(items) if !items.is_empty() => items,
            Value::List(_) => return Err(self.error(key, value, &format!("is empty: write {what}"))),
            Value::Text(_) | Value::Integer(_) | Value::Boolean(_) | Value::Table(_) | Value::Other => {
                return Err(self.error(key, value, &format!("is not {what}")));
            }
        };
        let mut texts = Vec::new();
        for item in items {
            let Some(text) = as_text(item) else {
                return Err(self.error(key, item, &format!("is not a text; {key} is {what}")));
            };
            texts.push(Item { value: text, place: item });
        }
        Ok(Some(texts))
    }

    /// As [`Section::texts`], each once.
    pub(super) fn distinct_texts<'v>(
        &self,
        key: &str,
        raw: Option<&'v Spanned<Value>>,
        what: &str,
    ) -> Result<Option<Vec<Item<'v, &'v str>>>, ConfigError> {
        let texts = self.texts(key, raw, what)?;
        let mut seen = HashSet::new();
        for Item { value, place } in texts.iter().flatten() {
            if !seen.insert(*value) {
                return Err(self.error(key, place, "is listed twice"));
            }
        }
        Ok(texts)
    }

    /// A text, `None` when it is absent. `what` says what it is, for the message when it is something else.
    pub(super) fn text<'v>(
        &self,
        key: &str,
        raw: Option<&'v Spanned<Value>>,
        what: &str,
    ) -> Result<Option<(&'v str, &'v Spanned<Value>)>, ConfigError> {
        let Some(value) = raw else { return Ok(None) };
        match as_text(value) {
            Some(text) => Ok(Some((text, value))),
            None => Err(self.error(key, value, &format!("is not a text; {what}"))),
        }
    }

    /// A text that must be there; `entry` is the table it is missing from.
    pub(super) fn required<'v, T>(
        &self,
        key: &str,
        entry: &Spanned<T>,
        raw: Option<&'v Spanned<Value>>,
        what: &str,
    ) -> Result<(&'v str, &'v Spanned<Value>), ConfigError> {
        self.text(key, raw, what)?.ok_or_else(|| self.missing(key, entry, what))
    }

    /// An error about a key that is not there.
    pub(super) fn missing<T>(&self, key: &str, entry: &Spanned<T>, what: &str) -> ConfigError {
        self.source.error(entry.span(), self.key(key), format!("is missing: {what}"))
    }

    /// Checks the name of a listener or backend.
    pub(super) fn check_name(&self, name: &str, value: &Spanned<Value>) -> Result<(), ConfigError> {
        let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        if fits && name.chars().all(|c| !c.is_control() && !c.is_whitespace() && c != '"') {
            return Ok(());
        }
        let problem = format!("is not a name of 1 to {NAME_BYTES_MAX} bytes without blanks and quotes");
        Err(self.error("name", value, &problem))
    }
}

/// The text of a value that is one.
pub(super) fn as_text(value: &Spanned<Value>) -> Option<&str> {
    match value.get_ref() {
        Value::Text(text) => Some(text),
        Value::Integer(_) | Value::Boolean(_) | Value::List(_) | Value::Table(_) | Value::Other => None,
    }
}

/// Whether a value is this word.
pub(super) fn is_word(value: &Spanned<Value>, word: &str) -> bool {
    as_text(value) == Some(word)
}

fn literal_duration(text: &'static str) -> Duration {
    duration::parse(text).expect("defaults and bounds in the source are well-formed durations")
}

fn literal_size(text: &'static str) -> usize {
    let bytes = size::parse(text).expect("defaults and bounds in the source are well-formed sizes");
    usize::try_from(bytes).expect("defaults and bounds in the source fit the address space")
}
