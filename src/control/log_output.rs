//! Where the log goes: a stream such as standard error, a file, or the journal.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::journal::{Journal, SOCKET};
use crate::config::LogTarget;

/// The permissions of a file that is made: of the log's readers, a group may be one.
const FILE_MODE: u32 = 0o640;

/// Where records go, one at a time. It may wait; the queue's thread has nothing else to do.
pub struct LogOutput(Kind);

enum Kind {
    Stream(Box<dyn Write + Send>),
    File(LogFile),
    Journal(Journal),
}

impl LogOutput {
    /// Opens what the configuration says.
    ///
    /// # Errors
    ///
    /// When nothing can be written there.
    pub fn open(target: &LogTarget) -> Result<Self, LogOutputError> {
        match target {
            LogTarget::Stderr => Ok(Self::stream(io::stderr())),
            LogTarget::Journal => Self::journal_at(Path::new(SOCKET)),
            LogTarget::File(path) => match LogFile::open(path) {
                Ok(file) => Ok(Self(Kind::File(file))),
                Err(error) => Err(LogOutputError::File { path: path.clone(), error }),
            },
        }
    }

    /// Lines are written to this.
    pub fn stream(stream: impl Write + Send + 'static) -> Self {
        Self(Kind::Stream(Box::new(stream)))
    }

    /// The journal whose socket this is.
    ///
    /// # Errors
    ///
    /// When none listens there.
    pub fn journal_at(socket: &Path) -> Result<Self, LogOutputError> {
        let error = |error| LogOutputError::Journal { socket: socket.to_owned(), error };
        Journal::at(socket).map(|journal| Self(Kind::Journal(journal))).map_err(error)
    }

    /// Whether records are in the journal's form, and not lines.
    pub(super) const fn is_journal(&self) -> bool {
        matches!(self.0, Kind::Journal(_))
    }

    /// Writes one record.
    pub(super) fn write(&mut self, record: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Kind::Stream(stream) => stream.write_all(record),
            Kind::File(LogFile { file, .. }) => file.write_all(record),
            Kind::Journal(journal) => journal.send(record),
        }
    }

    /// Has what was written leave the program.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Stream(stream) => stream.flush(),
            Kind::File(_) | Kind::Journal(_) => Ok(()),
        }
    }

    /// Goes on in the file that has the name now. None where the log is no file; when it fails, the one before stays in use.
    pub(super) fn reopen(&mut self) -> Option<io::Result<()>> {
        match &mut self.0 {
            Kind::File(file) => Some(LogFile::open(&file.path).map(|opened| *file = opened)),
            Kind::Stream(_) | Kind::Journal(_) => None,
        }
    }
}

impl fmt::Debug for LogOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Stream(_) => "LogOutput(stream)",
            Kind::File(_) => "LogOutput(file)",
            Kind::Journal(_) => "LogOutput(journal)",
        })
    }
}

struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        // A pipe that nobody reads would keep its writer waiting, here and at each line.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = OpenOptions::new().append(true).create(true).mode(FILE_MODE).custom_flags(flags).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        Ok(Self { path: path.to_owned(), file })
    }
}

/// Why nothing can be logged.
#[derive(Debug)]
pub enum LogOutputError {
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The journal.
    Journal {
        /// Where it should listen.
        socket: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

impl fmt::Display for LogOutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, error } => write!(
                f,
                "log.target {}: cannot be opened to append to it: {error}; it must be a file, or a new name in a folder, \
                 that this user may write",
                path.display()
            ),
            Self::Journal { socket, error } => write!(
                f,
                "log.target \"journal\": no journal listens at {}: {error}; it takes systemd-journald and access to its \
                 socket, and \"stderr\" takes neither",
                socket.display()
            ),
        }
    }
}

impl std::error::Error for LogOutputError {}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lines_go_to_the_file_that_has_the_name_when_it_is_reopened() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("ringwall.log"), folder.path().join("ringwall.log.1"));
        fs::write(&path, "before\n").unwrap();
        let mut output = LogOutput::open(&LogTarget::File(path.clone())).unwrap();
        output.write(b"first\n").unwrap();
        fs::rename(&path, &aside).unwrap();
        output.write(b"second\n").unwrap();
        output.reopen().unwrap().unwrap();
        output.write(b"third\n").unwrap();
        assert_eq!(fs::read_to_string(&aside).unwrap(), "before\nfirst\nsecond\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "third\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o037, 0);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(output.reopen().unwrap().unwrap_err().kind(), io::ErrorKind::IsADirectory);
        output.write(b"fourth\n").unwrap();
        assert!(LogOutput::stream(io::sink()).reopen().is_none());
    }

    #[test]
    fn where_nothing_can_be_written_is_told() {
        let error = LogOutput::open(&LogTarget::File("/nowhere/ringwall.log".into())).unwrap_err().to_string();
        let expected = "log.target /nowhere/ringwall.log: cannot be opened to append to it: No such file or directory";
        assert!(error.starts_with(expected), "{error}");
        let error = LogOutput::open(&LogTarget::File("/dev/null".into())).unwrap_err().to_string();
        assert!(error.contains("it is no file"), "{error}");
        let error = LogOutput::journal_at(Path::new("/nowhere/socket")).unwrap_err().to_string();
        let expected = "log.target \"journal\": no journal listens at /nowhere/socket: No such file or directory";
        assert!(error.starts_with(expected), "{error}");
    }
}
