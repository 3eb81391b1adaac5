//! The running process's side: it starts the next one, hands over, and ends it where it fails.
//!
//! A thread of its own does what waits. It owns the process that it starts: as long as that is not the heir, whatever
//! happens to the thread's channel ends it, and it is waited for in any case, so that nothing is left of it.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use zeroize::Zeroizing;

use super::channel::Channel;
use super::{VARIABLE, word};

/// What the kernel appends to the path of a program whose file has been replaced.
const DELETED: &[u8] = b" (deleted)";

/// Variables that speak of this process alone: a successor's watchdog is its own, and sockets come over the channel.
const NOT_INHERITED: [&str; 4] = ["WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// How to start this program once more.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    /// The first is the program's name.
    arguments: Vec<OsString>,
}

impl Program {
    /// As this process was started. To be called at the start: a file that is moved away later is not where the next
    /// version will be.
    ///
    /// # Errors
    ///
    /// When the system does not tell where the program is, as without `/proc`.
    pub fn of_this_process() -> io::Result<Self> {
        let path = std::env::current_exe()?.into_os_string().into_vec();
        let path = OsString::from_vec(path.strip_suffix(DELETED).unwrap_or(&path).to_vec()).into();
        Ok(Self { path, arguments: std::env::args_os().collect() })
    }

    /// The program at `path` with these arguments, of which the first is its name.
    #[must_use]
    pub const fn new(path: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { path, arguments }
    }

    /// Starts it with `end` as its standard input, and nothing else that is open here but output and errors.
    fn start(&self, end: OwnedFd) -> io::Result<Child> {
        let mut command = Command::new(&self.path);
        if let Some((name, arguments)) = self.arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        for variable in NOT_INHERITED {
            command.env_remove(variable);
        }
        command.env(VARIABLE, "1").stdin(end);
        command.spawn()
    }
}

/// What is handed over.
#[derive(Debug)]
pub struct Estate {
    /// The listeners: their names, the addresses they are configured with, their sockets.
    pub listeners: Vec<(Box<str>, SocketAddr, OwnedFd)>,
    /// Where administrators connect.
    pub admin: Option<(String, OwnedFd)>,
    /// What the keys of tickets derive from.
    pub ticket_secret: Zeroizing<[u8; 32]>,
}

/// What became of a start.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// The new process serves and waits to be told that all is its own.
    Ready {
        /// Its number.
        pid: u32,
        /// Whether it takes the socket that administrators connect to.
        admin: bool,
    },
    /// There is none: why.
    Failed(String),
    /// There is none: it was dropped.
    CalledOff,
}

/// What has been decided about a successor.
const OPEN: u8 = 0;
const HEIR: u8 = 1;
const CALLED_OFF: u8 = 2;

/// A process that is to take this one's place. It is called off when this is dropped.
pub struct Successor {
    channel: Arc<Channel>,
    decided: Arc<AtomicU8>,
}

impl Successor {
    /// Starts it, and tells what becomes of it: once whether it is ready, which it must be within `patience`, and a second
    /// time when it fails after that.
    ///
    /// # Errors
    ///
    /// When there is no pair of sockets or no thread to be had.
    pub fn start(
        program: Program,
        estate: Estate,
        patience: Duration,
        tell: impl Fn(News) + Send + 'static,
    ) -> io::Result<Self> {
        let (channel, end) = Channel::pair()?;
        let (channel, decided) = (Arc::new(channel), Arc::new(AtomicU8::new(OPEN)));
        let raising = Raising { channel: Arc::clone(&channel), decided: Arc::clone(&decided), patience };
        let body = move || raising.run(&program, end, estate, tell);
        thread::Builder::new().name("takeover".to_owned()).spawn(body)?;
        Ok(Self { channel, decided })
    }

    /// Leaves everything to it. It is told to read files again where they may have changed since it was started.
    ///
    /// # Errors
    ///
    /// When it has just ended; nothing is lost then.
    pub fn bequeath(self, reload: bool) -> io::Result<()> {
        self.decided.store(HEIR, Ordering::SeqCst);
        let rest = if reload { word::RELOAD } else { "" };
        let told = self.channel.send(word::YOURS, rest.as_bytes(), None);
        if told.is_err() {
            self.decided.store(OPEN, Ordering::SeqCst);
        }
        told
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if self.decided.compare_exchange(OPEN, CALLED_OFF, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.channel.end();
        }
    }
}

impl fmt::Debug for Successor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Successor").finish_non_exhaustive()
    }
}

/// The thread's side.
struct Raising {
    channel: Arc<Channel>,
    decided: Arc<AtomicU8>,
    patience: Duration,
}

impl Raising {
    fn run(self, program: &Program, end: OwnedFd, estate: Estate, tell: impl Fn(News)) {
        let mut child = match program.start(end) {
            Ok(child) => child,
            Err(error) => return tell(News::Failed(format!("{} cannot be started: {error}", program.path.display()))),
        };
        let ready = self.hand_over(estate).and_then(|()| self.wait_until_ready());
        let failure = match ready {
            Ok(admin) => {
                tell(News::Ready { pid: child.id(), admin });
                // Nothing more comes but its end, or that of the wait.
                let _ = self.channel.set_patience(None);
                while let Ok(Some(_)) = self.channel.receive() {}
                Failure::Seen("it ended before it had taken over".to_owned())
            }
            Err(failure) => failure,
        };
        let decided = self.decided.load(Ordering::SeqCst);
        if decided != HEIR {
            // It may have ended by itself, which its status tells.
            let _ = child.kill();
        }
        let status = child.wait();
        match decided {
            OPEN => tell(News::Failed(failure.with(status.ok()))),
            CALLED_OFF => tell(News::CalledOff),
            _ => {}
        }
    }

    fn hand_over(&self, estate: Estate) -> Result<(), Failure> {
        let Estate { listeners, admin, ticket_secret } = estate;
        let handed = self.channel.set_patience(Some(self.patience)).and_then(|()| {
            for (name, bind, socket) in &listeners {
                self.channel.send(word::LISTENER, format!("{bind} {name}").as_bytes(), Some(socket.as_fd()))?;
            }
            if let Some((address, socket)) = &admin {
                self.channel.send(word::ADMIN, address.as_bytes(), Some(socket.as_fd()))?;
            }
            self.channel.send(word::SECRET, &*ticket_secret, None)?;
            self.channel.send(word::ALL, b"", None)
        });
        // One that has ended, or has said why it will.
        let ended =
            |error: &io::Error| [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset].contains(&error.kind());
        handed.or_else(|error| if ended(&error) { Ok(()) } else { Err(self.failure(&error)) })
    }

    /// Returns whether it takes the socket that administrators connect to.
    fn wait_until_ready(&self) -> Result<bool, Failure> {
        loop {
            let message = match self.channel.receive() {
                Ok(Some(message)) => message,
                Ok(None) => return Err(Failure::Seen("it ended without saying why".to_owned())),
                Err(error) => return Err(self.failure(&error)),
            };
            let (first, rest) = message.parts();
            if first == word::READY.as_bytes() {
                return Ok(rest == word::ADMIN.as_bytes());
            }
            if first == word::FAILED.as_bytes() {
                // It ends by itself, and says so on its own standard error first.
                while let Ok(Some(_)) = self.channel.receive() {}
                return Err(Failure::Told(String::from_utf8_lossy(rest).into_owned()));
            }
        }
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let late = error.kind() == io::ErrorKind::WouldBlock;
        Failure::Seen(if late { format!("it was not ready within {:?}", self.patience) } else { error.to_string() })
    }
}

/// Why there is no successor.
enum Failure {
    /// As it said itself.
    Told(String),
    /// As it looks from here.
    Seen(String),
}

impl Failure {
    /// The reason; with the status that the process ended with, where that tells more.
    fn with(self, status: Option<ExitStatus>) -> String {
        match (self, status) {
            (Self::Seen(failure), Some(status)) => format!("{failure} ({status})"),
            (Self::Seen(failure) | Self::Told(failure), _) => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    fn start(path: &str, arguments: &[&str], patience: Duration) -> (Successor, Receiver<News>) {
        let (tell, told) = channel();
        let arguments = [path].iter().chain(arguments).map(OsString::from).collect();
        let estate = Estate { listeners: vec![], admin: None, ticket_secret: Zeroizing::new([7; 32]) };
        let program = Program::new(path.into(), arguments);
        (Successor::start(program, estate, patience, move |news| tell.send(news).unwrap()).unwrap(), told)
    }

    fn failure(told: &Receiver<News>) -> String {
        let news = told.recv().unwrap();
        let News::Failed(why) = news else { panic!("{news:?}") };
        why
    }

    #[test]
    fn a_program_that_is_not_there_that_ends_or_is_late_has_failed_and_is_gone() {
        let long = Duration::from_secs(60);
        let (_successor, told) = start("/nowhere/ringwall", &[], long);
        assert_eq!(failure(&told), "/nowhere/ringwall cannot be started: No such file or directory (os error 2)");
        let (_successor, told) = start("/bin/sh", &["-c", "exit 3"], long);
        assert_eq!(failure(&told), "it ended without saying why (exit status: 3)");
        let (_successor, told) = start("/bin/sh", &["-c", "printf 'failed the file is bad' >&0"], long);
        assert_eq!(failure(&told), "the file is bad");
        let (_successor, told) = start("/bin/sleep", &["1000"], Duration::from_millis(100));
        assert_eq!(failure(&told), "it was not ready within 100ms (signal: 9 (SIGKILL))");
    }

    #[test]
    fn a_program_that_was_ready_and_has_ended_is_no_heir() {
        let (_successor, told) =
            start("/bin/sh", &["-c", "printf 'later words' >&0; printf 'ready admin' >&0"], Duration::from_secs(60));
        let news = told.recv().unwrap();
        assert!(matches!(news, News::Ready { admin: true, .. }), "{news:?}");
        assert_eq!(failure(&told), "it ended before it had taken over (exit status: 0)");
    }

    #[test]
    fn a_program_that_is_called_off_is_ended() {
        let (successor, told) = start("/bin/sleep", &["1000"], Duration::from_secs(60));
        drop(successor);
        assert_eq!(told.recv().unwrap(), News::CalledOff);
        assert!(told.recv().is_err());
    }
}
