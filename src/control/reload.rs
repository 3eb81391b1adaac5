//! The thread that reloads: it waits for a signal or for files to change, reads and checks them, and has the data plane
//! follow them.
//!
//! Reading may take long (a slow disk, a long revocation list), so it has a thread of its own, and the control plane goes
//! on obeying signals. It logs nothing: what there is to say, it tells the control plane.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::admin::NextDoor;
use super::health::BackendPlan;
use super::places::Places;
use super::watch::Watch;
use super::{LogOutput, ShownCertificate};
use crate::config::{Changes, RestartNeeded, TlsFiles};

/// Files must have been quiet for so long: a certificate and its key are written one after the other.
const QUIET: Duration = Duration::from_millis(100);
/// Files that change all the time are read after this long anyway.
const QUIET_MAX: Duration = Duration::from_millis(500);

/// Why a reload is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// SIGHUP: the configuration is read again, too.
    Signal,
    /// A file has changed.
    Files,
    /// An administrator: as SIGHUP.
    Administrator,
    /// An administrator: the keys of tickets are to be others, and files are read again.
    Tickets,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signal => "SIGHUP",
            Self::Files => "files changed",
            Self::Administrator => "administrator",
            Self::Tickets => "tickets rotated",
        })
    }
}

/// How to reload.
pub struct Reload {
    /// What is read.
    pub files: TlsFiles,
    /// Reads it and has the data plane use it; returns when it does. On an error, nothing has changed.
    pub run: Box<dyn FnMut(Cause) -> Result<Reloaded, NotReloaded> + Send>,
}

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reload").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Reload {
    /// Reads nothing.
    pub(super) fn idle() -> Self {
        Self { files: TlsFiles::default(), run: Box::new(|_| Ok(Reloaded::default())) }
    }
}

/// What a reload came to. The data plane does what was read, and [`InForce`](super::InForce) says so, already.
#[derive(Debug, Default)]
pub struct Reloaded {
    /// What was read.
    pub files: TlsFiles,
    /// What is allowed and probably not meant.
    pub warnings: Vec<String>,
    /// What has changed in the configuration, where that was read again.
    pub changes: Option<Changes>,
    /// What to find out about the servers from here on, and how; `None`: as before.
    pub checks: Option<Vec<BackendPlan>>,
    /// The certificates that clients are shown from here on.
    pub certificates: Vec<ShownCertificate>,
    /// Where the log goes from here on; `None`: where it went.
    pub log: Option<LogOutput>,
    /// Where administrators connect from here on.
    pub admin: NextDoor,
}

/// Why nothing was reloaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotReloaded {
    /// What is wrong, in one line.
    pub why: String,
    /// The keys that would have to change and cannot, where that is what is wrong.
    pub refused: Vec<&'static str>,
}

impl From<String> for NotReloaded {
    fn from(why: String) -> Self {
        Self { why, refused: Vec::new() }
    }
}

impl From<RestartNeeded> for NotReloaded {
    fn from(needed: RestartNeeded) -> Self {
        Self { why: needed.to_string(), refused: needed.keys }
    }
}

impl fmt::Display for NotReloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// What the thread tells.
#[derive(Debug)]
pub(super) enum Progress {
    Started,
    Finished(Cause, Result<Box<Reloaded>, NotReloaded>),
    /// Changes of files will not be seen: where and why.
    Unwatched(String),
}

/// Requests that wait at most; one more says nothing new.
const REQUESTS_MAX: usize = 8;

/// A wish for a reload, and where the answer goes, when somebody waits for one.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) cause: Cause,
    pub(super) answer: Option<oneshot::Sender<Result<Option<Changes>, NotReloaded>>>,
}

/// The control plane's way to the thread.
pub(super) struct Reloads {
    requests: Sender<Request>,
    progress: UnboundedReceiver<Progress>,
    pub(super) counts: ReloadCounts,
}

/// How reloads went so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReloadCounts {
    /// What was read is in use.
    pub(super) done: u64,
    /// What was in use stayed.
    pub(super) failed: u64,
}

impl Reloads {
    /// Watches the files from now on, and starts the thread. It ends when this is dropped.
    pub(super) fn start(reload: Reload) -> io::Result<Self> {
        let (requests, requests_there) = channel(REQUESTS_MAX);
        let (progress_there, progress) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut reloading = {
            let _within = runtime.enter();
            Reloading::new(requests_there, progress_there)
        };
        reloading.watch(&reload.files);
        thread::Builder::new().name("reload".to_owned()).spawn(move || runtime.block_on(reloading.run(reload)))?;
        Ok(Self { requests, progress, counts: ReloadCounts::default() })
    }

    /// Has the thread reload because of a signal.
    pub(super) fn request(&self) {
        // It is there for as long as this is, unless it has panicked.
        let _ = self.requests.try_send(Request { cause: Cause::Signal, answer: None });
    }

    /// The way to ask for more.
    pub(super) fn requests(&self) -> Sender<Request> {
        self.requests.clone()
    }

    /// What the thread tells next. May be given up at any moment.
    pub(super) async fn progress(&mut self) -> Option<Progress> {
        let progress = self.progress.recv().await;
        match &progress {
            Some(Progress::Finished(_, Ok(_))) => self.counts.done += 1,
            Some(Progress::Finished(_, Err(_))) => self.counts.failed += 1,
            Some(Progress::Started | Progress::Unwatched(_)) | None => {}
        }
        progress
    }
}

/// The thread's own side.
struct Reloading {
    requests: Receiver<Request>,
    progress: UnboundedSender<Progress>,
    /// None where the kernel gives none.
    watch: Option<Watch>,
    /// What has been told of folders that cannot be watched.
    told: BTreeSet<String>,
}

impl Reloading {
    /// Must be called within the thread's runtime.
    fn new(requests: Receiver<Request>, progress: UnboundedSender<Progress>) -> Self {
        let (watch, error) = match Watch::new() {
            Ok(watch) => (Some(watch), None),
            Err(error) => (None, Some(error)),
        };
        let reloading = Self { requests, progress, watch, told: BTreeSet::new() };
        if let Some(error) = error {
            reloading.tell(Progress::Unwatched(format!("{error}{}", remedy(error.raw_os_error()))));
        }
        reloading
    }

    async fn run(mut self, reload: Reload) {
        let Reload { mut files, mut run } = reload;
        while let Some(Request { cause, answer }) = self.request().await {
            self.tell(Progress::Started);
            // Before the files are read: what changes afterwards is seen.
            self.watch(&files);
            let result = run(cause).map(Box::new);
            if let Ok(reloaded) = &result
                && reloaded.files != files
            {
                files.clone_from(&reloaded.files);
                self.watch(&files);
            }
            if let Some(answer) = answer {
                // Whoever waited for it may have given up.
                let changes = result.as_ref().map(|reloaded| reloaded.changes.clone());
                let _ = answer.send(changes.map_err(NotReloaded::clone));
            }
            self.tell(Progress::Finished(cause, result));
        }
    }

    /// Watches where changes of `files` show themselves, and tells once of each folder that cannot be watched.
    fn watch(&mut self, files: &TlsFiles) {
        let unwatched = self.watch.as_mut().map(|watch| watch.set(Places::of(files))).unwrap_or_default();
        // A folder that is gone is replaced, and seen from the folder above it.
        for (folder, errno) in unwatched.into_iter().filter(|&(_, errno)| errno != Errno::NOENT) {
            let text = format!("{}: {errno}{}", folder.display(), remedy(Some(errno.raw_os_error())));
            if self.told.insert(text.clone()) {
                self.tell(Progress::Unwatched(text));
            }
        }
    }

    /// Waits for a reason to reload; none when the control plane has ended.
    async fn request(&mut self) -> Option<Request> {
        let watch = self.watch.as_ref();
        tokio::select! {
            request = self.requests.recv() => return request,
            () = changed(watch) => {}
        }
        let latest = Instant::now() + QUIET_MAX;
        loop {
            let quiet_at = latest.min(Instant::now() + QUIET);
            tokio::select! {
                request = self.requests.recv() => return request,
                more = timeout_at(quiet_at, changed(watch)) => {
                    if more.is_err() || Instant::now() >= latest {
                        return Some(Request { cause: Cause::Files, answer: None });
                    }
                }
            }
        }
    }

    fn tell(&self, progress: Progress) {
        // A control plane that has ended needs not know.
        let _ = self.progress.send(progress);
    }
}

/// Waits for a change that matters; for ever where nothing is watched or can be read.
async fn changed(watch: Option<&Watch>) {
    if let Some(watch) = watch
        && watch.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

fn remedy(errno: Option<i32>) -> &'static str {
    match errno {
        Some(libc::ENOSPC) => " (sysctl fs.inotify.max_user_watches is the bound)",
        Some(libc::EMFILE) => " (sysctl fs.inotify.max_user_instances is the bound)",
        Some(libc::EACCES) => " (ringwall's user must be able to list the folder)",
        Some(_) | None => "",
    }
}
