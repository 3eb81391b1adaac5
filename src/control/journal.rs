//! Records in the form of systemd's journal, each a datagram
//! (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>).
//!
//! A record has its text, its level and each of its fields by name, so `journalctl RINGWALL_REASON=handshake_timeout` finds
//! them. It is made where something is logged, which only copies, and sent by the thread of the log's queue, which may
//! wait. Its length is bounded far below what a datagram may have, so nothing is handed over in a file: what is longer is
//! cut off, and says so.

use std::fmt::{self, Write as _};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::log_queue::LogQueue;

/// Where the journal listens.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";
/// Bytes of a record's text at most.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a field's value at most. With the 32 fields that an event may have, a record stays below 96 KiB; the kernel
/// takes datagrams of twice that length.
const VALUE_BYTES_MAX: usize = 2 * 1024;
/// The end of what was longer.
const CUT_OFF: &str = "... (cut off)";
/// Bytes of a field's name at most, as journald has it.
const NAME_BYTES_MAX: usize = 64;

/// The way to the journal. Each datagram goes to whoever has the socket's name then, so it may be started anew.
pub(super) struct Journal {
    socket: UnixDatagram,
    to: PathBuf,
}

impl Journal {
    /// Whose socket this is.
    ///
    /// # Errors
    ///
    /// When none listens there, or not to this user.
    pub(super) fn at(to: &Path) -> io::Result<Self> {
        UnixDatagram::unbound()?.connect(to)?;
        Ok(Self { socket: UnixDatagram::unbound()?, to: to.to_owned() })
    }

    /// Sends a record. Waits while the journal's queue is full.
    pub(super) fn send(&self, record: &[u8]) -> io::Result<()> {
        self.socket.send_to(record, &self.to).map(|_| ())
    }
}

/// Makes a record of each event.
pub(super) struct JournalLayer(LogQueue);

impl JournalLayer {
    pub(super) const fn new(queue: LogQueue) -> Self {
        Self(queue)
    }
}

impl<S: Subscriber> Layer<S> for JournalLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut record = Record::default();
        event.record(&mut record);
        self.0.push(&record.finish(*metadata.level(), metadata.target()));
    }
}

/// A record that is being made.
#[derive(Default)]
struct Record {
    fields: Vec<u8>,
    /// What happened.
    message: String,
    /// The fields, as they are told to people.
    told: String,
}

impl Record {
    fn finish(mut self, level: Level, target: &str) -> Vec<u8> {
        let mut message = self.message + &self.told;
        cut_off(&mut message, MESSAGE_BYTES_MAX);
        put(&mut self.fields, "MESSAGE", &message);
        put(&mut self.fields, "PRIORITY", priority(level));
        put(&mut self.fields, "SYSLOG_IDENTIFIER", "ringwall");
        put(&mut self.fields, "RINGWALL_TARGET", target);
        self.fields
    }

    fn take(&mut self, field: &Field, mut value: String) {
        if field.name() == "message" {
            self.message = value;
            return;
        }
        cut_off(&mut value, VALUE_BYTES_MAX);
        put(&mut self.fields, &name(field.name()), &value);
        let is_word = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"');
        // Writing to a text never fails.
        let _ = if is_word {
            write!(self.told, " {}={value}", field.name())
        } else {
            write!(self.told, " {}={value:?}", field.name())
        };
    }
}

impl Visit for Record {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}"));
    }
}

/// The levels of syslog, which the journal has taken over.
const fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

/// What journald takes for a name: capital letters, digits and underscores. With our word in front, it is no other
/// program's and none of the journal's own.
fn name(field: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    "RINGWALL_".chars().chain(field.chars().map(plain)).take(NAME_BYTES_MAX).collect()
}

fn cut_off(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let is_whole = |&end: &usize| text.is_char_boundary(end);
        let end = (0..=bytes_max - CUT_OFF.len()).rev().find(is_whole).unwrap_or(0);
        text.truncate(end);
        text.push_str(CUT_OFF);
    }
}

/// Adds a field: on one line where it fits, else with its length, little-endian, in front.
fn put(record: &mut Vec<u8>, name: &str, value: &str) {
    record.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        record.push(b'\n');
        record.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        record.push(b'=');
    }
    record.extend_from_slice(value.as_bytes());
    record.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tracing::{debug, info, warn};

    use super::*;
    use crate::config::{Log, LogFormat, LogLevel, LogTarget};
    use crate::control::{LogOutput, Logging};

    /// A journal, and this thread's log that goes there.
    fn journal() -> (tempfile::TempDir, UnixDatagram, Logging) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        journal.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let log = Log {
            target: LogTarget::Journal,
            format: LogFormat::Text,
            level: LogLevel::Info,
            sessions: true,
            sample: 1,
            failures_per_second: 20,
        };
        let logging = Logging::start(&log, None, LogOutput::journal_at(&path).unwrap()).unwrap();
        (folder, journal, logging)
    }

    fn received(journal: &UnixDatagram) -> Vec<u8> {
        let mut record = vec![0; 256 * 1024];
        let length = journal.recv(&mut record).unwrap();
        record.truncate(length);
        record
    }

    #[test]
    fn a_record_has_its_text_its_level_and_its_fields() {
        let (_folder, journal, _logging) = journal();
        debug!(target: "ringwall::session", "not logged at this level");
        let client = "127.0.0.1:50000";
        info!(target: "ringwall::session", reason = "client_closed", %client, bytes = 7, why = "two words", "session closed");
        let expected = "RINGWALL_REASON=client_closed\nRINGWALL_CLIENT=127.0.0.1:50000\nRINGWALL_BYTES=7\nRINGWALL_WHY=two words\n\
                        MESSAGE=session closed reason=client_closed client=127.0.0.1:50000 bytes=7 why=\"two words\"\n\
                        PRIORITY=6\nSYSLOG_IDENTIFIER=ringwall\nRINGWALL_TARGET=ringwall::session\n";
        assert_eq!(String::from_utf8(received(&journal)).unwrap(), expected);
    }

    #[test]
    fn a_value_of_several_lines_cannot_pass_for_other_fields() {
        let (_folder, journal, _logging) = journal();
        warn!(target: "ringwall::session", identity = "a\nMESSAGE=b", "x");
        let expected =
            b"RINGWALL_IDENTITY\n\x0b\0\0\0\0\0\0\0a\nMESSAGE=b\nMESSAGE=x identity=\"a\\nMESSAGE=b\"\nPRIORITY=4\n\
                         SYSLOG_IDENTIFIER=ringwall\nRINGWALL_TARGET=ringwall::session\n";
        assert_eq!(String::from_utf8_lossy(&received(&journal)), String::from_utf8_lossy(expected));
    }

    #[test]
    fn what_is_too_long_is_cut_off_and_says_so() {
        let (_folder, journal, _logging) = journal();
        let long = "\u{e9}".repeat(1_000_000);
        warn!(target: "ringwall::control", %long, "{long}");
        let record = String::from_utf8(received(&journal)).unwrap();
        let lines: Vec<_> = record.lines().take(2).collect();
        assert!(lines.iter().all(|line| line.ends_with("\u{e9}... (cut off)")), "{record}");
        // The names and `=` are part of the lines; 2 bytes are a letter.
        assert_eq!((lines[0].len(), lines[1].len()), (14 + 2_047, 8 + 16_383));
    }

    /// A log of lines.
    struct Lines(mpsc::Sender<String>);

    impl io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.send(String::from_utf8_lossy(line).into_owned()).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_has_the_form_of_where_it_goes_from_the_moment_that_it_does() {
        let (folder, journal, logging) = journal();
        let (sender, lines) = mpsc::channel();
        info!(target: "ringwall::control", number = 1, "here");
        logging.exchange(LogFormat::Text, Some(LogOutput::stream(Lines(sender))));
        info!(target: "ringwall::control", number = 2, "there");
        logging.exchange(LogFormat::Json, None);
        info!(target: "ringwall::control", number = 3, "there");
        logging.exchange(LogFormat::Json, Some(LogOutput::journal_at(&folder.path().join("socket")).unwrap()));
        info!(target: "ringwall::control", number = 4, "here");
        assert!(received(&journal).starts_with(b"RINGWALL_NUMBER=1\nMESSAGE=here number=1\n"));
        assert!(received(&journal).starts_with(b"RINGWALL_NUMBER=4\nMESSAGE=here number=4\n"));
        let lines: Vec<String> = lines.iter().collect();
        let [text, json] = &lines[..] else { panic!("{lines:?}") };
        assert!(text.ends_with(" INFO there number=2\n"), "{text}");
        assert!(json.contains("\"message\":\"there\",\"number\":3"), "{json}");
    }

    #[test]
    fn a_journal_that_is_started_anew_is_found_again() {
        let (folder, journal, _logging) = journal();
        drop(journal);
        let path = folder.path().join("socket");
        std::fs::remove_file(&path).unwrap();
        let journal = UnixDatagram::bind(&path).unwrap();
        journal.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        info!(target: "ringwall::control", "again");
        assert!(received(&journal).starts_with(b"MESSAGE=again\n"));
    }
}
