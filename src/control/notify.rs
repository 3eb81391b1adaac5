//! Tells the service manager how far the program is; see `sd_notify(3)`.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::time::Time;

/// The environment variable by which a service manager says where it listens.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// Those by which it says within which time, in microseconds, it wants signs of life, and of which process.
const PATIENCE_VARIABLES: (&str, &str) = ("WATCHDOG_USEC", "WATCHDOG_PID");

/// The way to the service manager, if there is one. Telling never waits and never fails: a manager that does not
/// listen is none.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    patience: Option<Duration>,
    /// Another process speaks to the manager.
    silent: Cell<bool>,
}

impl Notifier {
    /// The service manager that started this program.
    ///
    /// # Errors
    ///
    /// When the environment names a socket that cannot be reached.
    pub fn from_environment() -> io::Result<Self> {
        let Some(name) = std::env::var_os(SOCKET_VARIABLE) else { return Ok(Self::default()) };
        let variable = |name| std::env::var(name).ok();
        let (patience, process) = (variable(PATIENCE_VARIABLES.0), variable(PATIENCE_VARIABLES.1));
        let patience = patience_with(patience.as_deref(), process.as_deref(), std::process::id());
        Ok(Self { patience, ..Self::to(name)? })
    }

    /// The service manager that listens at `name`: a path, or a name in the abstract namespace after an `@`.
    ///
    /// # Errors
    ///
    /// When it cannot be reached.
    pub fn to(name: OsString) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Some(socket), ..Self::default() })
    }

    /// Within which time the manager wants a sign of life; `None`: it wants none.
    pub(super) const fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// The program is alive.
    pub(super) fn alive(&self) {
        self.tell("WATCHDOG=1\n");
    }

    /// Every listener accepts.
    pub(super) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// What was read from files is being replaced; [`Notifier::ready`] says that this is over. `now` is a time after
    /// the order for it, by which the manager knows for which order this is.
    pub(super) fn reloading(&self, now: Time) {
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading\n", now.as_nanos() / 1_000));
    }

    /// The program is on its way to its end.
    pub(super) fn stopping(&self, status: &str) {
        self.tell(&format!("STOPPING=1\nSTATUS={status}\n"));
    }

    /// How the program is doing.
    pub(super) fn status(&self, status: &str) {
        self.tell(&format!("STATUS={status}\n"));
    }

    /// This process is the service from here on; what another one says counts no more.
    pub(super) fn main_process(&self, pid: u32) {
        self.tell(&format!("MAINPID={pid}\n"));
    }

    /// Tells nothing from here on: what the process says that is not the main one would be taken for its word, or be
    /// complained about.
    pub(super) fn fall_silent(&self) {
        self.silent.set(true);
    }

    fn tell(&self, message: &str) {
        if let Some(socket) = self.socket.as_ref().filter(|_| !self.silent.get())
            && let Err(error) = socket.send(message.as_bytes())
        {
            tracing::warn!(target: "ringwall::control", %error, "the service manager could not be told");
        }
    }
}

/// See `sd_watchdog_enabled(3)`.
fn patience_with(microseconds: Option<&str>, process: Option<&str>, own: u32) -> Option<Duration> {
    let microseconds = microseconds?.parse().ok().filter(|&microseconds| microseconds > 0)?;
    let wanted = process.is_none_or(|process| process.parse() == Ok(own));
    wanted.then(|| Duration::from_micros(microseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_service_manager_at_a_path_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::to(path.into()).unwrap();
        notifier.ready("serving");
        assert_eq!(received(&manager), "READY=1\nSTATUS=serving\n");
        notifier.reloading(Time::from_nanos(1_234_567_890));
        assert_eq!(received(&manager), "RELOADING=1\nMONOTONIC_USEC=1234567\nSTATUS=reloading\n");
        notifier.stopping("draining");
        assert_eq!(received(&manager), "STOPPING=1\nSTATUS=draining\n");
    }

    #[test]
    fn who_has_named_another_process_is_silent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let notifier = Notifier::to(path.into()).unwrap();
        notifier.status("a new version starts");
        assert_eq!(received(&manager), "STATUS=a new version starts\n");
        notifier.main_process(17);
        notifier.fall_silent();
        notifier.stopping("draining");
        notifier.alive();
        assert_eq!(received(&manager), "MAINPID=17\n");
        assert_eq!(manager.recv(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_service_manager_in_the_abstract_namespace_is_told() {
        let name = format!("ringwall-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Notifier::to(format!("@{name}").into()).unwrap().ready("serving");
        assert_eq!(received(&manager), "READY=1\nSTATUS=serving\n");
    }

    #[test]
    fn signs_of_life_are_wanted_of_the_process_that_is_named() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(patience_with(Some("1000000"), None, 7), second);
        assert_eq!(patience_with(Some("1000000"), Some("7"), 7), second);
        for (microseconds, process) in
            [(Some("1000000"), Some("8")), (Some("0"), None), (Some("x"), None), (None, Some("7"))]
        {
            assert_eq!(patience_with(microseconds, process, 7), None, "{microseconds:?} {process:?}");
        }
    }

    #[test]
    fn no_service_manager_is_fine_and_an_absent_one_is_an_error() {
        Notifier::default().ready("serving");
        assert!(Notifier::to("/nowhere/notify".into()).is_err());
    }
}
