//! Why io_uring cannot be used here, and what to do about it.

use std::fmt;
use std::fs;
use std::io;

use super::Errno;

/// The attempt that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Making a ring with the features needed.
    Ring,
    /// Registering a ring of receive buffers.
    BufferRing,
    /// Starting the ring.
    Enable,
    /// Receiving from a socket pair until cancelled.
    MultishotReceive,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ring => "setting up a ring (io_uring_setup)",
            Self::BufferRing => "registering receive buffers (io_uring_register)",
            Self::Enable => "enabling the ring (io_uring_register)",
            Self::MultishotReceive => "a multishot receive on a socket pair (io_uring_enter)",
        })
    }
}

/// io_uring does not do here what ringwall needs of it. Its text says what failed, the probable cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// What was tried.
    pub step: Step,
    /// What the kernel answered.
    pub errno: Errno,
    /// The kernel's release, as in `uname -r`.
    pub kernel: String,
    /// `/proc/sys/kernel/io_uring_disabled`; `None` where the kernel (before 6.6) does not have it.
    pub disabled: Option<u8>,
    /// Whether the process runs under a seccomp filter, as most containers do.
    pub filtered: bool,
}

impl Unavailable {
    /// With what the machine tells about itself.
    pub(super) fn new(step: Step, error: &io::Error) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
        let disabled = read("/proc/sys/kernel/io_uring_disabled").trim().parse().ok();
        let status = read("/proc/self/status");
        let seccomp = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        let filtered = seccomp.is_some_and(|mode| mode.trim() != "0");
        Self { step, errno: Errno(error.raw_os_error().unwrap_or(libc::EIO)), kernel, disabled, filtered }
    }

    /// The probable cause and the remedy.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match (self.errno.0, self.disabled) {
            (libc::EPERM | libc::EACCES, Some(2)) => {
                "The sysctl kernel.io_uring_disabled is 2: nobody may use io_uring on this machine. Set it to 0 with \
                 `sysctl kernel.io_uring_disabled=0` and keep that in a file of /etc/sysctl.d. Inside a container, set it \
                 on the host."
            }
            (libc::EPERM | libc::EACCES, Some(1)) => {
                "The sysctl kernel.io_uring_disabled is 1: only privileged processes and the group named by \
                 kernel.io_uring_group may use io_uring. Put the user that runs ringwall into that group, or set the \
                 sysctl to 0. If that is done already, a seccomp filter forbids it: see the profile in deploy/."
            }
            (libc::EPERM | libc::EACCES, _) if self.filtered => {
                "The process runs under a seccomp filter that forbids io_uring, as the default profiles of Docker, \
                 containerd and Podman do. Run the container with the seccomp profile in deploy/ \
                 (`--security-opt seccomp=FILE`). Under systemd, allow the group @io-uring in SystemCallFilter."
            }
            (libc::EPERM | libc::EACCES, _) => {
                "A security policy forbids it: SELinux, AppArmor or another security module, or a filter of the system \
                 calls. Look for a denial in the audit log (`journalctl -k`, `ausearch -m avc`) and allow io_uring \
                 to the domain ringwall runs in."
            }
            (libc::ENOSYS, _) if self.filtered => {
                "Either a seccomp filter hides io_uring from the process, as container run-times do, or the kernel is built \
                 without it. Run the container with the seccomp profile in deploy/ (`--security-opt seccomp=FILE`); if \
                 that changes nothing, use a kernel built with CONFIG_IO_URING."
            }
            (libc::ENOSYS, _) => {
                "The kernel is built without io_uring, or a sandbox such as gVisor stands in for the kernel and does not \
                 have it. Use Linux 6.1 or later, built with CONFIG_IO_URING."
            }
            (libc::EINVAL | libc::EOPNOTSUPP | libc::ENOTTY, _) => {
                "The kernel has io_uring but not all of what ringwall needs: deferred task work, buffer rings, multishot \
                 accept and receive. They are together since Linux 6.1. Use a kernel of 6.1 or later."
            }
            (libc::ENOMEM, _) => {
                "The queues and buffer rings did not fit into the memory that the process may lock (RLIMIT_MEMLOCK), or \
                 the machine is out of memory. Raise the limit (`LimitMEMLOCK=infinity` in the systemd unit, \
                 `--ulimit memlock=-1` for a container, `ulimit -l` in a shell), or run fewer shards."
            }
            (libc::EMFILE | libc::ENFILE, _) => {
                "No file descriptor is left for it. Raise the limit of open files (`LimitNOFILE` in the systemd unit, \
                 `--ulimit nofile` for a container, `ulimit -n` in a shell), or fs.file-max for the whole machine."
            }
            (libc::ETIME, _) => {
                "The kernel took the request and never answered it. This is not known to happen on Linux 6.1 or later; a \
                 sandbox that imitates io_uring may do it. Run ringwall on a Linux kernel directly."
            }
            _ => {
                "ringwall knows no usual cause for this answer. It needs Linux 6.1 or later with io_uring allowed; \
                 `dmesg` and the audit log may tell more."
            }
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, errno, kernel, .. } = self;
        write!(f, "io_uring is not available: {step} failed on kernel {kernel}: {errno}. {}", self.advice())
    }
}

impl std::error::Error for Unavailable {}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(errno: i32, disabled: Option<u8>, filtered: bool) -> String {
        let kernel = "5.15.0-91-generic".to_owned();
        Unavailable { step: Step::Ring, errno: Errno(errno), kernel, disabled, filtered }.to_string()
    }

    #[test]
    fn every_text_names_step_kernel_and_errno() {
        assert_eq!(
            text(libc::EINVAL, None, false),
            "io_uring is not available: setting up a ring (io_uring_setup) failed on kernel 5.15.0-91-generic: \
             Invalid argument (os error 22). The kernel has io_uring but not all of what ringwall needs: deferred task \
             work, buffer rings, multishot accept and receive. They are together since Linux 6.1. Use a kernel of 6.1 \
             or later."
        );
    }

    #[test]
    fn each_cause_has_its_remedy() {
        let table = [
            (libc::EPERM, Some(2), false, "sysctl kernel.io_uring_disabled=0"),
            (libc::EPERM, Some(2), true, "sysctl kernel.io_uring_disabled=0"),
            (libc::EPERM, Some(1), false, "kernel.io_uring_group"),
            (libc::EPERM, Some(0), true, "seccomp profile in deploy/"),
            (libc::EPERM, None, true, "seccomp profile in deploy/"),
            (libc::EPERM, Some(0), false, "SELinux"),
            (libc::EACCES, None, false, "SELinux"),
            (libc::ENOSYS, None, true, "seccomp profile in deploy/"),
            (libc::ENOSYS, None, false, "CONFIG_IO_URING"),
            (libc::EINVAL, Some(0), true, "Use a kernel of 6.1 or later"),
            (libc::EOPNOTSUPP, None, false, "Use a kernel of 6.1 or later"),
            (libc::ENOMEM, None, false, "LimitMEMLOCK=infinity"),
            (libc::EMFILE, None, false, "LimitNOFILE"),
            (libc::ENFILE, None, false, "LimitNOFILE"),
            (libc::ETIME, None, false, "never answered"),
            (libc::EIO, None, false, "audit log may tell more"),
        ];
        for (errno, disabled, filtered, remedy) in table {
            let text = text(errno, disabled, filtered);
            assert!(text.contains(remedy), "errno {errno}, sysctl {disabled:?}, filter {filtered}: {text}");
        }
    }

    #[test]
    fn the_machine_is_described_as_it_is() {
        let unavailable = Unavailable::new(Step::BufferRing, &io::Error::from_raw_os_error(libc::ENOMEM));
        assert_eq!((unavailable.step, unavailable.errno), (Step::BufferRing, Errno(libc::ENOMEM)));
        assert!(unavailable.kernel.starts_with(|first: char| first.is_ascii_digit()), "{}", unavailable.kernel);
    }
}
