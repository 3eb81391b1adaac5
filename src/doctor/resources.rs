//! What the system leaves this process, against what the configuration asks for: files, locked memory, queues, cores,
//! memory.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use crate::cgroup::ControlGroup;
use crate::config::{Config, Machine, show_size};
use crate::io::uring::Unavailable;
use crate::server::try_rings;

/// The main thread, and those of the dispatcher, the supervisor, the log and reloads.
const THREADS_BESIDE_SHARDS: usize = 5;

pub(super) struct Facts {
    open_files_max: u64,
    /// Bytes; `None` without a limit.
    locked_memory_max: Option<u64>,
    /// `net.core.somaxconn`.
    backlog_max: Option<u32>,
    cores: usize,
    /// The cores of the control group, as the kernel lists them.
    cpuset: Option<String>,
    cpu_max_millicores: Option<u64>,
    tasks_max: Option<u64>,
    memory_max: Option<u64>,
    try_rings: fn(&Config) -> Result<(), Unavailable>,
}

/// What a configuration asks for.
#[derive(Clone, Copy)]
struct Needs {
    open_files: u64,
    backlog: u32,
    shards: usize,
    shard_memory: usize,
}

impl Facts {
    pub(super) fn gather(machine: &Machine) -> Self {
        let group = ControlGroup::of_this_process();
        let backlog_max = fs::read_to_string("/proc/sys/net/core/somaxconn").ok();
        Self {
            open_files_max: machine.open_files_max,
            locked_memory_max: getrlimit(Resource::Memlock).current,
            backlog_max: backlog_max.and_then(|text| text.trim().parse().ok()),
            cores: machine.cores.len(),
            cpuset: group.as_ref().and_then(ControlGroup::cores).filter(|cores| !cores.is_empty()),
            cpu_max_millicores: group.as_ref().and_then(ControlGroup::cpu_max_millicores),
            tasks_max: group.as_ref().and_then(ControlGroup::tasks_max),
            memory_max: machine.memory_max,
            try_rings,
        }
    }

    /// Without a configuration there is nothing to compare with, and what is found is what counts.
    pub(super) fn judge(&self, config: Option<&Config>) -> Vec<Finding> {
        let needs = config.map(|config| Needs {
            open_files: config.open_files_max(),
            backlog: config.limits.listen_backlog,
            shards: config.runtime.cores.len(),
            shard_memory: config.limits.shard_memory,
        });
        let rings = config.map(self.try_rings);
        vec![
            self.judge_open_files(needs),
            self.judge_locked_memory(rings),
            self.judge_backlog(needs),
            self.judge_cores(needs),
            self.judge_threads(needs),
            self.judge_memory(needs),
        ]
    }

    fn judge_open_files(&self, needs: Option<Needs>) -> Finding {
        let (what, most) = ("open files", self.open_files_max);
        match needs {
            None => Finding::good(what, format!("{most} at most")),
            Some(needs) if needs.open_files <= most => {
                Finding::good(what, format!("{} needed, {most} at most", needs.open_files))
            }
            // The configuration is refused before that.
            Some(needs) => Finding::bad(
                what,
                format!("{} needed, {most} at most", needs.open_files),
                "raise the hard limit: LimitNOFILE= of the systemd unit, --ulimit nofile of a container, ulimit -Hn",
            ),
        }
    }

    fn judge_locked_memory(&self, rings: Option<Result<(), Unavailable>>) -> Finding {
        let what = "locked memory";
        let most = self.locked_memory_max.map_or_else(|| "no limit".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
        match rings {
            None => Finding::good(what, most),
            Some(Ok(())) => Finding::good(what, format!("{most}: all rings fit")),
            Some(Err(error)) => {
                Finding::bad(what, format!("{most}: {} failed: {}", error.step, error.errno), error.advice())
            }
        }
    }

    fn judge_backlog(&self, needs: Option<Needs>) -> Finding {
        let what = "net.core.somaxconn";
        match (self.backlog_max, needs) {
            (Some(most), Some(needs)) if most < needs.backlog => Finding::attention(
                what,
                format!("{most}, and limits.listen_backlog is {}", needs.backlog),
                format!(
                    "sysctl -w net.core.somaxconn={0}, and keep that in a file of /etc/sysctl.d; or write \
                     limits.listen_backlog = {most}",
                    needs.backlog
                ),
            ),
            (Some(most), _) => Finding::good(what, most),
            (None, _) => Finding::good(what, "cannot be read here"),
        }
    }

    fn judge_cores(&self, needs: Option<Needs>) -> Finding {
        let (what, cores) = ("cores", self.cores);
        let Some(Needs { shards, .. }) = needs else { return Finding::good(what, cores) };
        let time = self.cpu_max_millicores.filter(|&most| most < 1_000 * u64::try_from(shards).unwrap_or(u64::MAX));
        if let Some(most) = time {
            let found =
                format!("{shards} shards, and the control group leaves the time of {} cores (cpu.max)", decimal(most));
            let fewer = (most / 1_000).max(1);
            let remedy = format!(
                "write runtime.shards = {fewer}, or raise the limit: a shard that the kernel stops holds up all its clients"
            );
            return Finding::attention(what, found, remedy);
        }
        if shards > cores {
            let found = format!("{shards} shards share {cores}");
            return Finding::attention(what, found, format!("write runtime.shards = {cores}, or leave it out"));
        }
        let cpuset = self.cpuset.iter().map(|list| format!(", cpuset {list}")).collect::<String>();
        Finding::good(what, format!("{shards} for shards, of {cores}{cpuset}"))
    }

    fn judge_threads(&self, needs: Option<Needs>) -> Finding {
        let what = "threads";
        let limit =
            self.tasks_max.map_or_else(|| "no limit of a control group".to_owned(), |most| format!("{most} at most"));
        let Some(Needs { shards, .. }) = needs else { return Finding::good(what, limit) };
        let needed = shards + THREADS_BESIDE_SHARDS;
        let found = format!("{needed} needed, {limit}");
        match self.tasks_max {
            Some(most) if most < u64::try_from(needed).unwrap_or(u64::MAX) => {
                let remedy = "raise the limit (TasksMax= of the systemd unit, pids.max of the control group), or write fewer \
                              runtime.shards";
                Finding::bad(what, found, remedy)
            }
            Some(_) | None => Finding::good(what, found),
        }
    }

    fn judge_memory(&self, needs: Option<Needs>) -> Finding {
        let what = "memory";
        let limit = self.memory_max.map(|bytes| format!("{} MiB (memory.max)", bytes >> 20));
        match (needs, limit) {
            (None, None) => Finding::good(what, "no limit of a control group"),
            (None, Some(limit)) => Finding::good(what, limit),
            // A share that does not fit is a warning of the configuration.
            (Some(needs), limit) => {
                let all = needs.shard_memory.saturating_mul(needs.shards);
                let limit = limit.unwrap_or_else(|| "no limit of a control group".to_owned());
                Finding::good(what, format!("{} for all shards, {limit}", show_size(all)))
            }
        }
    }
}

/// Thousandths as a decimal number of one place.
fn decimal(thousandths: u64) -> String {
    format!("{}.{}", thousandths / 1_000, thousandths % 1_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;
    use crate::io::Errno;
    use crate::io::uring::Step;

    fn facts() -> Facts {
        Facts {
            open_files_max: 1_048_576,
            locked_memory_max: Some(8 << 20),
            backlog_max: Some(4_096),
            cores: 4,
            cpuset: Some("0-3".to_owned()),
            cpu_max_millicores: None,
            tasks_max: Some(9),
            memory_max: Some(2 << 30),
            try_rings: |_| Ok(()),
        }
    }

    const NEEDS: Option<Needs> = Some(Needs { open_files: 20_149, backlog: 4_096, shards: 4, shard_memory: 256 << 20 });

    fn all(facts: &Facts, rings: Result<(), Unavailable>) -> Vec<(Verdict, String)> {
        let findings = [
            facts.judge_open_files(NEEDS),
            facts.judge_locked_memory(Some(rings)),
            facts.judge_backlog(NEEDS),
            facts.judge_cores(NEEDS),
            facts.judge_threads(NEEDS),
            facts.judge_memory(NEEDS),
        ];
        findings.into_iter().map(|finding| (finding.verdict, finding.found)).collect()
    }

    #[test]
    fn what_is_enough_is_good() {
        let expected = [
            "20149 needed, 1048576 at most",
            "8192 KiB: all rings fit",
            "4096",
            "4 for shards, of 4, cpuset 0-3",
            "9 needed, 9 at most",
            "1GiB for all shards, 2048 MiB (memory.max)",
        ];
        assert_eq!(all(&facts(), Ok(())), expected.map(|found| (Verdict::Good, found.to_owned())));
        assert!(facts().judge(None).iter().all(|finding| finding.verdict == Verdict::Good));
    }

    #[test]
    fn too_few_files_and_threads_and_too_little_locked_memory_are_failures() {
        let error = Unavailable {
            step: Step::Ring,
            errno: Errno(libc::ENOMEM),
            kernel: "6.12.1".to_owned(),
            disabled: None,
            filtered: false,
        };
        let facts = Facts { open_files_max: 1_024, locked_memory_max: Some(65_536), tasks_max: Some(8), ..facts() };
        let found = all(&facts, Err(error));
        assert_eq!(found[0], (Verdict::Bad, "20149 needed, 1024 at most".to_owned()));
        let refused = "64 KiB: setting up a ring (io_uring_setup) failed: Cannot allocate memory (os error 12)";
        assert_eq!(found[1], (Verdict::Bad, refused.to_owned()));
        assert_eq!(found[4], (Verdict::Bad, "9 needed, 8 at most".to_owned()));
    }

    #[test]
    fn a_short_queue_and_few_cores_need_attention() {
        let found = all(&Facts { backlog_max: Some(128), cores: 2, ..facts() }, Ok(()));
        assert_eq!(found[2], (Verdict::Attention, "128, and limits.listen_backlog is 4096".to_owned()));
        assert_eq!(found[3], (Verdict::Attention, "4 shards share 2".to_owned()));
        let finding = Facts { cpu_max_millicores: Some(1_500), ..facts() }.judge_cores(NEEDS);
        assert_eq!(finding.found, "4 shards, and the control group leaves the time of 1.5 cores (cpu.max)");
        assert!(finding.remedy.unwrap().starts_with("write runtime.shards = 1, or raise"));
    }
}
