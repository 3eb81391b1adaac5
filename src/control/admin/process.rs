//! What the kernel says of this process, under the names that all Prometheus clients use.

use std::fs;
use std::path::Path;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::exposition::{Exposition, Kind};
use crate::files;

/// Writes the families of the process; those that cannot be known are left out.
pub(super) fn expose(text: &mut Exposition) {
    if let Some(stat) = Stat::read() {
        let cpu_seconds = stat.cpu_ticks as f64 / clock_ticks_per_second() as f64;
        let help = "CPU time of all threads, user and kernel.";
        text.single(Kind::Counter, "process_cpu_seconds_total", help, cpu_seconds);
        let bytes = stat.resident_pages * page_size() as u64;
        text.single(Kind::Gauge, "process_resident_memory_bytes", "Memory in use.", bytes);
        if let Some(booted) = boot_time_unix() {
            let started = booted as f64 + stat.started_ticks as f64 / clock_ticks_per_second() as f64;
            let help = "When the process started, in seconds since 1970.";
            text.single(Kind::Gauge, "process_start_time_seconds", help, started);
        }
    }
    if let Some(open) = open_files() {
        text.single(Kind::Gauge, "process_open_fds", "Open file descriptors.", open);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        text.single(Kind::Gauge, "process_max_fds", "File descriptors that may be open.", most);
    }
}

/// From `/proc/self/stat`; see `proc_pid_stat(5)`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    started_ticks: u64,
    resident_pages: u64,
}

impl Stat {
    fn read() -> Option<Self> {
        let contents = files::read(Path::new("/proc/self/stat"), 4 * 1024).ok()?;
        Self::parse(&String::from_utf8_lossy(&contents.bytes))
    }

    fn parse(text: &str) -> Option<Self> {
        // The name may hold anything, parentheses too; the fields behind it are numbered from 3.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self { cpu_ticks: field(14)? + field(15)?, started_ticks: field(22)?, resident_pages: field(24)? })
    }
}

fn boot_time_unix() -> Option<u64> {
    let contents = files::read(Path::new("/proc/stat"), 1024 * 1024).ok()?;
    let text = String::from_utf8_lossy(&contents.bytes);
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Since Linux 6.2 the size of the folder is their number; before, they are counted.
fn open_files() -> Option<u64> {
    let folder = Path::new("/proc/self/fd");
    let told = fs::metadata(folder).ok()?.len();
    if told > 0 { Some(told) } else { Some(fs::read_dir(folder).ok()?.count() as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let text =
            "7 (a) b) S 1 7 7 0 -1 4194560 2101 0 1 0 250 50 0 0 20 0 6 0 123456 9000000 4321 18446744073709551615";
        assert_eq!(Stat::parse(text), Some(Stat { cpu_ticks: 300, started_ticks: 123_456, resident_pages: 4_321 }));
        assert_eq!(Stat::parse("7 (a"), None);
    }

    #[test]
    fn this_process_has_a_cpu_time_files_and_a_start() {
        assert!(Stat::read().unwrap().resident_pages > 100);
        assert!(open_files().unwrap() >= 3);
        assert!(boot_time_unix().unwrap() > 1_000_000_000);
    }
}
