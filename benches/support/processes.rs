//! What processes cost, as /proc tells it.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::fs;
use std::time::Duration;

/// A process and those that it started, and they started.
pub(crate) fn family(process: u32) -> Vec<u32> {
    let mut processes = vec![process];
    let mut index = 0;
    while let Some(&process) = processes.get(index) {
        processes.extend(children(process));
        index += 1;
    }
    processes
}

fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// The time that a process has spent on a core: of its living threads to the nanosecond, or of all to a clock tick,
/// where threads have ended.
pub(crate) fn cpu_time(process: u32) -> Duration {
    let living = threads(process).into_iter().map(|thread| thread.cpu_time).sum::<Duration>();
    living.max(of_all_threads(process).unwrap_or_default())
}

/// The fields `utime` and `stime` of `stat`, the 14th and 15th, in hundredths of a second.
fn of_all_threads(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in brackets, and may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let ticks: u64 = rest.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

/// A thread of a process.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// The time that it has spent on a core, in user and kernel mode: the first number of `schedstat`, in nanoseconds. The
    /// kernel brings it up to date when it switches threads, and at each clock tick.
    pub(crate) cpu_time: Duration,
}

/// The living threads of a process.
pub(crate) fn threads(process: u32) -> Vec<Thread> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let read = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let schedstat = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let nanos = schedstat.split(' ').next()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?.trim().to_owned();
        Some(Thread { id, name, cpu_time: Duration::from_nanos(nanos) })
    };
    threads.filter_map(|entry| read(entry.ok()?)).collect()
}

/// The resident memory of a process in bytes.
pub(crate) fn memory(process: u32) -> u64 {
    let resident = || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    resident().unwrap_or(0) * 1024
}
