//! Keeps what is in the memory of this process, private keys and payload, from getting out of it by the system's own
//! ways: core files, and debuggers of others under the same user.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Has the system write no core file of this process, and let no process without `CAP_SYS_PTRACE` read its memory
/// (`PR_SET_DUMPABLE` of `prctl(2)`, `RLIMIT_CORE`). To be called before the first secret is read.
///
/// # Errors
///
/// The kernel's. It has no reason to refuse either.
pub fn keep_memory_private() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // A core file that goes to a program (`core_pattern` with a pipe) ignores this limit, which is why it is not enough.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}
