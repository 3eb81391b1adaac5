//! Learns from the kernel that a file may have changed (`inotify(7)`).
//!
//! Folders are watched and not files: a file that is replaced is another file, and its watch would die with the old
//! one. Files on network file systems that another host changes go unseen.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use super::places::{Names, Places};

/// A few events with long names.
const BUFFER_BYTES: usize = 4096;

/// The folders that are watched.
pub(super) struct Watch {
    inotify: AsyncFd<OwnedFd>,
    folders: HashMap<i32, (PathBuf, Names)>,
}

impl Watch {
    /// Watches nothing yet. Must be called within the runtime.
    #[expect(deprecated, reason = "the successor is unsafe, for types that change their descriptor; this never does")]
    pub(super) fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self { inotify: AsyncFd::new(inotify)?, folders: HashMap::new() })
    }

    /// Watches these places and no others. Gives those that cannot be watched.
    pub(super) fn set(&mut self, places: Places) -> BTreeMap<PathBuf, Errno> {
        // What is written, named, renamed, removed, or made readable.
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let (mut watched, mut unwatched) = (HashMap::new(), BTreeMap::new());
        for (folder, names) in places.0 {
            match inotify::add_watch(&self.inotify, &folder, flags) {
                Ok(number) => {
                    watched.insert(number, (folder, names));
                }
                Err(errno) => {
                    unwatched.insert(folder, errno);
                }
            }
        }
        for number in self.folders.keys().filter(|&number| !watched.contains_key(number)) {
            // It is gone already when its folder is.
            let _ = inotify::remove_watch(&self.inotify, *number);
        }
        self.folders = watched;
        unwatched
    }

    /// Waits for a change that matters. May be given up at any moment.
    pub(super) async fn changed(&self) -> io::Result<()> {
        loop {
            let mut readable = self.inotify.readable().await?;
            let changed = self.take_events();
            // All events have been taken, unless that failed.
            readable.clear_ready();
            if changed? {
                return Ok(());
            }
        }
    }

    /// Takes all events that are there; whether one of them matters.
    fn take_events(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut changed = false;
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => return Ok(changed),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let lost = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
            changed |= lost || self.folders.get(&event.wd()).is_some_and(|(_, names)| names.contain(name));
        }
    }
}
