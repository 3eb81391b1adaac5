//! The two queues shared with the kernel and the one system call that moves them.
//!
//! An entry pushed here reaches the kernel in order, whatever happens on the way: a full queue is submitted, what the
//! kernel does not take stays queued, and what does not fit waits in a backlog. Nothing here knows what an entry means.

#![expect(unsafe_code, reason = "the queues are shared with the kernel")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use io_uring::register::Restriction;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{CompletionQueue, EnterFlags, IoUring, SubmissionQueue, Submitter, cqueue, squeue};

use super::sys;
use super::{Confinement, DriverCounts, Errno, Wait};

/// How long to wait for completions when the kernel has no memory or no room for more submissions: short, because
/// nothing else happens meanwhile.
const REFUSED_WAIT: Duration = Duration::from_millis(1);

/// `IORING_UNREGISTER_RING_FDS`: what a restricted ring may still register, see [`Ring::enable`].
const UNREGISTER_RING_FDS: u8 = 21;

/// How often a ring is asked for while the kernel has no memory for it. It takes all pages of a ring at once from those
/// that are free, and only then begins to empty its caches: on a machine whose memory is full of files, the next attempt
/// finds them.
const ATTEMPTS_MAX: u32 = 20;

/// How long the kernel is given between two of these.
const PAUSE: Duration = Duration::from_millis(50);

fn build(builder: &io_uring::Builder, submissions: u32) -> io::Result<IoUring> {
    for _ in 1..ATTEMPTS_MAX {
        match builder.build(submissions) {
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => thread::park_timeout(PAUSE),
            result => return result,
        }
    }
    builder.build(submissions)
}

/// An io_uring with its queues.
pub(super) struct Ring {
    // The queues write their ends to shared memory when they are dropped: before `_owner`, which unmaps it.
    submitter: Submitter<'static>,
    submissions: SubmissionQueue<'static>,
    completions: CompletionQueue<'static>,
    backlog: VecDeque<squeue::Entry>,
    counts: DriverCounts,
    fd: i32,
    _owner: Owner,
}

impl Ring {
    /// A ring that is disabled until [`Ring::enable`].
    pub(super) fn new(submissions: u32, completions: u32) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(completions)
            .setup_clamp()
            .setup_r_disabled();
        let plain = builder.clone();
        // Known since 6.6; older kernels answer EINVAL.
        let ring = match build(builder.setup_no_sqarray(), submissions) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => build(&plain, submissions)?,
            result => result?,
        };
        let fd = ring.as_raw_fd();
        let owner = Owner(Box::into_raw(Box::new(ring)));
        // SAFETY: the pointer comes from a box that only `owner` frees. It is dereferenced here alone, so this is the
        // only reference; what it lends lives in fields that are dropped before `owner`.
        let (mut submitter, submissions, completions) = unsafe { (*owner.0).split() };
        // Saves the look-up of the descriptor on each call. A kernel that refuses it costs speed, nothing else.
        let _ = submitter.register_ring_fd();
        let backlog = VecDeque::new();
        Ok(Self { submitter, submissions, completions, backlog, counts: DriverCounts::default(), fd, _owner: owner })
    }

    /// What registers buffers; before [`Ring::enable`].
    pub(super) const fn submitter(&self) -> &Submitter<'static> {
        &self.submitter
    }

    /// Allows `opcodes` and `flags` and nothing else from here on, and lets the ring run, on this thread only. Requests of
    /// a ring pass by a seccomp filter: this is what confines them. A kernel that refuses the restrictions forgets all of
    /// them and has the ring run without; its answer is given back then.
    pub(super) fn enable(&self, opcodes: &[u8], flags: squeue::Flags) -> io::Result<Confinement> {
        let mut allowed: Vec<_> = opcodes.iter().map(|&opcode| Restriction::sqe_op(opcode)).collect();
        allowed.push(Restriction::sqe_flags_allowed(flags.bits()));
        allowed.push(Restriction::register_op(UNREGISTER_RING_FDS));
        let confinement = match self.submitter.register_restrictions(&mut allowed) {
            Ok(()) => Confinement::Restricted,
            Err(error) => Confinement::Refused(Errno(error.raw_os_error().unwrap_or(libc::EIO))),
        };
        self.submitter.register_enable_rings()?;
        Ok(confinement)
    }

    /// The ring's file descriptor.
    pub(super) const fn fd(&self) -> i32 {
        self.fd
    }

    /// Queues an entry.
    ///
    /// # Safety
    ///
    /// What the entry points to must stay valid, and its buffer unmoved, until its last completion has come or the
    /// entry is known not to touch memory.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry) {
        if self.backlog.is_empty() && self.submissions.is_full() {
            self.submissions.sync();
            // Whatever goes wrong goes wrong again in the next `enter`, which reports it.
            let _ = self.call(self.submissions.len(), 0, EnterFlags::empty(), None);
            self.submissions.sync();
        }
        // SAFETY: the promise of our caller.
        if !self.backlog.is_empty() || unsafe { self.submissions.push(&entry) }.is_err() {
            self.backlog.push_back(entry);
        }
    }

    /// Submits what is queued and waits for at least one completion or the end of `wait`. It may return earlier when
    /// the kernel refuses more submissions until completions are taken.
    pub(super) fn enter(&mut self, wait: Wait) -> io::Result<()> {
        loop {
            self.refill();
            self.submissions.sync();
            self.completions.sync();
            let queued = self.submissions.len();
            let ready = !self.completions.is_empty();
            let timeout = if ready { Some(Duration::ZERO) } else { remaining(wait) };
            let sleeps = timeout != Some(Duration::ZERO) && self.backlog.is_empty();
            if queued == 0 && !sleeps && (ready || !self.kernel_holds_work()) {
                return Ok(());
            }
            let timeout = timeout.filter(|_| sleeps);
            match self.call(queued, u32::from(sleeps), EnterFlags::GETEVENTS, timeout) {
                Ok(0) if queued > 0 => return self.wait_refused(),
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::ETIME | libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::EBUSY) => return self.wait_refused(),
                    _ => return Err(error),
                },
            }
        }
    }

    /// The next completion of those that the last [`Ring::enter`] found.
    pub(super) fn next(&mut self) -> Option<cqueue::Entry> {
        self.completions.next()
    }

    pub(super) const fn counts(&self) -> DriverCounts {
        self.counts
    }

    /// Moves the backlog into the queue as far as there is room.
    fn refill(&mut self) {
        while let Some(entry) = self.backlog.front() {
            // SAFETY: it was promised when the entry was pushed to the backlog.
            if unsafe { self.submissions.push(entry) }.is_err() {
                break;
            }
            self.backlog.pop_front();
        }
    }

    /// Whether an enter would bring completions although nothing is queued.
    fn kernel_holds_work(&self) -> bool {
        self.submissions.taskrun() || self.submissions.cq_overflow()
    }

    /// The kernel takes no more requests for now: completions free what it lacks.
    fn wait_refused(&mut self) -> io::Result<()> {
        let result = self.call(0, 1, EnterFlags::GETEVENTS, Some(REFUSED_WAIT));
        self.completions.sync();
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// One `io_uring_enter(2)`. Returns how many entries were taken.
    fn call(
        &mut self,
        queued: usize,
        completions_min: u32,
        flags: EnterFlags,
        timeout: Option<Duration>,
    ) -> io::Result<usize> {
        let queued = u32::try_from(queued).unwrap_or(u32::MAX);
        let timespec = timeout.map(Timespec::from);
        let mut args = SubmitArgs::new();
        if let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        self.counts.enters += 1;
        let flags = (flags | EnterFlags::EXT_ARG).bits();
        // SAFETY: the kernel demands with EXT_ARG an argument of the size and form of `SubmitArgs`, which `args` is; the
        // timespec it points to lives until the end of this function. The queued entries were promised to be valid.
        let result = unsafe { self.submitter.enter(queued, completions_min, flags, Some(&args)) };
        if self.submissions.cq_overflow() {
            self.counts.overflows += 1;
        }
        result
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A registered descriptor keeps the ring alive until the thread ends.
        let _ = self.submitter.unregister_ring_fd();
    }
}

/// Frees the ring that the queues of a [`Ring`] borrow.
struct Owner(*mut IoUring);

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from `Box::into_raw` and is freed here alone; as the last field of its `Ring` it is
        // dropped when the borrows are gone.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// How long to sleep; `None` is for ever.
fn remaining(wait: Wait) -> Option<Duration> {
    match wait {
        Wait::No => Some(Duration::ZERO),
        Wait::Until(time) => Some(time.since(sys::now())),
        Wait::Forever => None,
    }
}

#[cfg(test)]
mod tests {
    use io_uring::opcode;
    use io_uring::types::Fd;

    use super::*;

    const NONE: squeue::Flags = squeue::Flags::empty();

    /// What the kernel answers to an entry.
    fn answer(ring: &mut Ring, entry: squeue::Entry) -> i32 {
        // SAFETY: the entries of these tests point to no memory.
        unsafe { ring.push(entry) };
        ring.enter(Wait::Forever).unwrap();
        ring.next().unwrap().result()
    }

    #[test]
    fn a_restricted_ring_takes_its_operations_and_flags_and_no_others() {
        let mut ring = Ring::new(8, 8).unwrap();
        let flags = squeue::Flags::SKIP_SUCCESS;
        assert_eq!(ring.enable(&[opcode::Nop::CODE], flags).unwrap(), Confinement::Restricted);
        assert_eq!(answer(&mut ring, opcode::Nop::new().build()), 0);
        assert_eq!(answer(&mut ring, opcode::Nop::new().build().flags(squeue::Flags::ASYNC)), -libc::EACCES);
        assert_eq!(answer(&mut ring, opcode::Close::new(Fd(-1)).build()), -libc::EACCES);
        assert_eq!(ring.submitter().register_eventfd(0).unwrap_err().raw_os_error(), Some(libc::EACCES));
    }

    #[test]
    fn a_ring_whose_restrictions_the_kernel_refuses_runs_without_them() {
        let mut ring = Ring::new(8, 8).unwrap();
        let no_opcode = u8::MAX;
        assert_eq!(ring.enable(&[no_opcode], NONE).unwrap(), Confinement::Refused(Errno(libc::EINVAL)));
        assert_eq!(answer(&mut ring, opcode::Nop::new().build()), 0);
        assert_eq!(answer(&mut ring, opcode::Close::new(Fd(-1)).build()), -libc::EBADF);
    }
}
