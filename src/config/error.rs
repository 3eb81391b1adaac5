//! What is wrong with a configuration, and where: file, line, key, then value and remedy.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::files;

/// The largest file in bytes: a thousand listeners and backends with all their keys have less.
const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Why a configuration was refused. Its display is one line, complete for whoever has to mend the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    line: Option<usize>,
    key: String,
    problem: String,
}

impl ConfigError {
    /// An error of the file as a whole.
    pub(super) fn of_file(file: &Path, problem: String) -> Self {
        Self { file: file.to_owned(), line: None, key: String::new(), problem }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.problem)
    }
}

impl std::error::Error for ConfigError {}

/// The longest piece of the file that a message repeats, in characters.
const SHOWN_CHARS_MAX: usize = 80;

/// The text of a configuration file, and the file's name for messages.
#[derive(Debug)]
pub(super) struct Source {
    file: PathBuf,
    text: String,
}

impl Source {
    /// Reads `file`.
    pub(super) fn read(file: &Path) -> Result<Self, ConfigError> {
        let contents = files::read(file, FILE_BYTES_MAX)
            .map_err(|error| ConfigError::of_file(file, format!("cannot be read: {error}")))?;
        Self::new(file, &contents.bytes)
    }

    /// Takes the bytes of `file`, which must be UTF-8.
    pub(super) fn new(file: &Path, bytes: &[u8]) -> Result<Self, ConfigError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self { file: file.to_owned(), text: text.to_owned() }),
            Err(error) => {
                let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
                let problem = "is not UTF-8 text".to_owned();
                Err(ConfigError { file: file.to_owned(), line: Some(line), key: String::new(), problem })
            }
        }
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// An error at `span`, about `key` (empty: about the text there).
    pub(super) fn error(&self, span: Range<usize>, key: impl Into<String>, problem: impl Into<String>) -> ConfigError {
        ConfigError {
            file: self.file.clone(),
            line: Some(self.line(span.start)),
            key: key.into(),
            problem: problem.into(),
        }
    }

    /// The number of the line that holds byte `at`, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|&byte| byte == b'\n').count()
    }

    /// The line that holds byte `at`, without the blanks around it.
    pub(super) fn line_text(&self, at: usize) -> String {
        shorten(self.text.lines().nth(self.line(at) - 1).unwrap_or_default())
    }

    /// The text at `span` as it stands in the file.
    pub(super) fn shown(&self, span: &Range<usize>) -> String {
        shorten(self.text.get(span.clone()).unwrap_or_default())
    }
}

/// One line of at most [`SHOWN_CHARS_MAX`] characters.
fn shorten(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let mut shown: String = line.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.trim().len() {
        shown.push_str("...");
    }
    shown
}
