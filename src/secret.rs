//! A password that an operator keeps in a file of its own, out of the configuration and the process list.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::files;

/// More than any server takes.
const FILE_BYTES_MAX: usize = 4_096;

/// Where systemd puts what `LoadCredential=` and `SetCredential=` name (systemd.exec(5)).
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// A password. It is wiped when dropped, and nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Reads the file at `path`: one line, whose end does not count. A path that begins with `${CREDENTIALS_DIRECTORY}`
    /// is of the folder that systemd passes credentials in.
    ///
    /// # Errors
    ///
    /// Why there is none, in one line that names the path.
    pub fn load(path: &Path) -> Result<Self, String> {
        Self::load_with(path, |name| std::env::var_os(name).map(PathBuf::from))
    }

    fn load_with(path: &Path, variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Self, String> {
        let path = match path.strip_prefix(format!("${{{CREDENTIALS}}}")) {
            Err(_) => path.to_owned(),
            Ok(rest) => match variable(CREDENTIALS) {
                Some(folder) => folder.join(rest),
                None => {
                    let problem = "is in a folder that only systemd names: start the unit, with LoadCredential= in it";
                    return Err(format!("{} {problem}", path.display()));
                }
            },
        };
        let unreadable = |error: io::Error| format!("{} cannot be read: {error}", path.display());
        let contents = files::read(&path, FILE_BYTES_MAX).map_err(unreadable)?;
        let bytes = contents.bytes.strip_suffix(b"\n").unwrap_or(&contents.bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.is_empty() {
            return Err(format!("{} is empty; it must hold the password", path.display()));
        }
        if bytes.contains(&b'\n') {
            return Err(format!("{} has several lines; it must hold the password and nothing else", path.display()));
        }
        Ok(Self(Zeroizing::new(bytes.to_owned())))
    }

    /// The password itself.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_end_of_its_line_is_not_of_the_password_and_blanks_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        for (text, password) in [("a b ", "a b "), ("secret\n", "secret"), ("secret\r\n", "secret")] {
            fs::write(&path, text).unwrap();
            assert_eq!(Secret::load(&path).unwrap().bytes(), password.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn a_file_without_a_password_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let problem = |path: &Path| Secret::load(path).unwrap_err().replace(&folder.path().display().to_string(), "");
        assert_eq!(problem(&path), "/password cannot be read: No such file or directory (os error 2)");
        for (text, expected) in [
            ("", "/password is empty; it must hold the password"),
            ("\n", "/password is empty; it must hold the password"),
            ("a\nb\n", "/password has several lines; it must hold the password and nothing else"),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(problem(&path), expected);
        }
    }

    #[test]
    fn a_credential_of_systemd_is_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("valkey"), "secret\n").unwrap();
        let path = Path::new("${CREDENTIALS_DIRECTORY}/valkey");
        let given = |name: &str| (name == "CREDENTIALS_DIRECTORY").then(|| folder.path().to_owned());
        assert_eq!(Secret::load_with(path, given).unwrap().bytes(), b"secret");
        assert_eq!(
            Secret::load_with(path, |_| None).unwrap_err(),
            "${CREDENTIALS_DIRECTORY}/valkey is in a folder that only systemd names: start the unit, with \
             LoadCredential= in it"
        );
    }

    #[test]
    fn nothing_shows_it() {
        assert_eq!(format!("{:?}", Secret::from(&b"hunter2"[..])), "Secret");
    }
}
