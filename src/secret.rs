//! A password that an operator keeps in a file of its own, out of the configuration and the process list.

use std::fmt;
use std::io;
use std::path::Path;

use zeroize::Zeroizing;

use crate::files;

/// More than any server takes.
const FILE_BYTES_MAX: usize = 4_096;

/// A password. It is wiped when dropped, and nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    bytes: Zeroizing<Vec<u8>>,
    exposed: Option<Box<str>>,
}

impl Secret {
    /// Reads the file at `path`: one line, whose end does not count.
    ///
    /// # Errors
    ///
    /// Why there is none, in one line that names the path.
    pub fn load(path: &Path) -> Result<Self, String> {
        let unreadable = |error: io::Error| format!("{} cannot be read: {error}", path.display());
        let contents = files::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
        let bytes = contents.bytes.strip_suffix(b"\n").unwrap_or(&contents.bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.is_empty() {
            return Err(format!("{} is empty; it must hold the password", path.display()));
        }
        if bytes.contains(&b'\n') {
            return Err(format!("{} has several lines; it must hold the password and nothing else", path.display()));
        }
        // Others than the file's owner and group may read or change it.
        let open_to_all = contents.mode & 0o006 != 0;
        let shown = path.display();
        let exposed = open_to_all.then(|| {
            let remedy = format!("restrict it with `chmod o-rw {shown}`");
            format!("{shown}: everybody on this machine may read or change it; {remedy}").into()
        });
        Ok(Self { bytes: Zeroizing::new(bytes.to_owned()), exposed })
    }

    /// The password itself.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A warning, where everybody on this machine may read or change the file.
    #[must_use]
    pub fn exposed(&self) -> Option<&str> {
        self.exposed.as_deref()
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self { bytes: Zeroizing::new(bytes.to_owned()), exposed: None }
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
    fn a_file_that_is_open_to_everybody_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, "secret").unwrap();
        for (mode, exposed) in [(0o600, false), (0o640, false), (0o660, false), (0o644, true), (0o602, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let secret = Secret::load(&path).unwrap();
            assert_eq!(secret.exposed().is_some_and(|told| told.contains("chmod o-rw")), exposed, "{mode:o}");
        }
    }

    #[test]
    fn nothing_shows_it() {
        assert_eq!(format!("{:?}", Secret::from(&b"hunter2"[..])), "Secret");
    }
}
