//! `[security]`: how strict ringwall is with the machine around it.

use super::error::{ConfigError, Source};
use super::raw::RawSecurity;
use super::section::Section;

/// How strict ringwall is with the machine around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Security {
    /// Whether files with secrets that everybody may read or change are refused; else they are warned about.
    pub strict_key_permissions: bool,
}

impl Security {
    pub(super) fn read(source: &Source, raw: &RawSecurity) -> Result<Self, ConfigError> {
        let section = Section { source, name: "security" };
        let strict = section.flag("strict_key_permissions", raw.strict_key_permissions.as_ref(), false)?;
        Ok(Self { strict_key_permissions: strict })
    }

    /// Refuses the first secret that is open to everybody, where that is not to be. `place` makes an error at the key
    /// that names the file.
    pub(super) fn judge(self, exposed: &[String], place: impl Fn(String) -> ConfigError) -> Result<(), ConfigError> {
        match exposed.first() {
            Some(problem) if self.strict_key_permissions => {
                Err(place(format!("{problem}; security.strict_key_permissions refuses such a file")))
            }
            Some(_) | None => Ok(()),
        }
    }
}
