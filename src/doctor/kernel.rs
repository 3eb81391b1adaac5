//! What the kernel gives to this process: io_uring, found by trying, and what stands in its way; who the process is; the
//! time.

use std::fs;

use super::finding::Finding;
use crate::date::date;
use crate::io::Confinement;
use crate::io::uring::{Unavailable, probe};
use crate::tls::unix_time;

/// No clock that is right shows less: 2026-01-01, when this was written.
const BORN_UNIX: u64 = 1_767_225_600;

/// `CAP_NET_BIND_SERVICE`, the one capability that there is a use for.
const NET_BIND_SERVICE: u64 = 1 << 10;

pub(super) struct Facts {
    release: String,
    io_uring: Result<Confinement, Unavailable>,
    /// `/proc/sys/kernel/io_uring_disabled`; `None` where the kernel (before 6.6) does not have it.
    disabled: Option<u8>,
    filtered: bool,
    user: u32,
    capabilities: u64,
    unix_time: u64,
}

impl Facts {
    pub(super) fn gather() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/self/status");
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        Self {
            release: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            io_uring: probe(),
            disabled: read("/proc/sys/kernel/io_uring_disabled").trim().parse().ok(),
            filtered: !["", "0"].contains(&field("Seccomp:")),
            user: rustix::process::geteuid().as_raw(),
            capabilities: u64::from_str_radix(field("CapEff:"), 16).unwrap_or(0),
            unix_time: unix_time(),
        }
    }

    pub(super) fn judge(&self) -> Vec<Finding> {
        let mut findings = vec![Finding::good("kernel", &self.release)];
        match &self.io_uring {
            Ok(_) => findings.push(Finding::good("io_uring", "does all that is needed")),
            Err(error) => {
                let found = format!("{} failed: {}", error.step, error.errno);
                findings.push(Finding::bad("io_uring", found, error.advice()));
            }
        }
        match self.io_uring {
            Ok(Confinement::Restricted) => {
                findings.push(Finding::good("io_uring restrictions", "rings are held to the operations in use"));
            }
            Ok(Confinement::Refused(errno)) => findings.push(Finding::attention(
                "io_uring restrictions",
                format!("refused: {errno}"),
                "a kernel of 6.1 or later takes them; perhaps a sandbox does not. ringwall runs without, and whoever took it \
                 over could ask its rings for anything",
            )),
            // What the probe has said is enough.
            Err(_) => {}
        }
        findings.push(Finding::good("io_uring_disabled", self.shown_disabled()));
        let filtered = if self.filtered { "a filter is in force, which lets io_uring pass" } else { "no filter" };
        if self.io_uring.is_ok() || !self.filtered {
            findings.push(Finding::good("seccomp", filtered));
        }
        findings.push(self.judge_user());
        findings.push(self.judge_clock());
        findings
    }

    fn shown_disabled(&self) -> &'static str {
        match self.disabled {
            None => "no such sysctl: not disabled",
            Some(0) => "0: everybody may use it",
            Some(1) => "1: for the group of kernel.io_uring_group and the privileged",
            Some(_) => "2: nobody may use it",
        }
    }

    fn judge_user(&self) -> Finding {
        let remedy = "ringwall needs no privilege: run it as a user of its own, as deploy/ringwall.service does";
        match (self.user, self.capabilities & !NET_BIND_SERVICE) {
            (0, _) => Finding::attention("user", "root", remedy),
            (user, 0) => Finding::good("user", format!("{user}, without privileges")),
            (user, more) => Finding::attention("user", format!("{user}, with capabilities: {more:#x}"), remedy),
        }
    }

    fn judge_clock(&self) -> Finding {
        let today = date(i64::try_from(self.unix_time).unwrap_or(i64::MAX));
        if self.unix_time < BORN_UNIX {
            let found = format!("{today}, which is past");
            return Finding::attention("clock", found, "set it (NTP): no certificate is valid at that time");
        }
        Finding::good("clock", today)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;
    use crate::io::Errno;
    use crate::io::uring::Step;

    fn facts() -> Facts {
        Facts {
            release: "6.12.1".to_owned(),
            io_uring: Ok(Confinement::Restricted),
            disabled: Some(0),
            filtered: false,
            user: 1_000,
            capabilities: NET_BIND_SERVICE,
            unix_time: 1_790_000_000,
        }
    }

    fn verdict(facts: &Facts, what: &str) -> (Verdict, String) {
        let finding = facts.judge().into_iter().find(|finding| finding.what == what).unwrap();
        (finding.verdict, finding.found)
    }

    #[test]
    fn a_machine_as_it_should_be_has_nothing_to_mend() {
        let found: Vec<_> = facts().judge().into_iter().map(|finding| (finding.verdict, finding.found)).collect();
        let expected = [
            "6.12.1",
            "does all that is needed",
            "rings are held to the operations in use",
            "0: everybody may use it",
            "no filter",
            "1000, without privileges",
            "2026-09-21",
        ];
        assert_eq!(found, expected.map(|found| (Verdict::Good, found.to_owned())));
    }

    #[test]
    fn io_uring_that_is_not_there_is_a_failure_with_its_remedy() {
        let error = Unavailable {
            step: Step::Ring,
            errno: Errno(libc::EPERM),
            kernel: "6.12.1".to_owned(),
            disabled: Some(2),
            filtered: true,
        };
        let facts = Facts { io_uring: Err(error), disabled: Some(2), filtered: true, ..facts() };
        let findings = facts.judge();
        assert_eq!(findings[1].verdict, Verdict::Bad);
        assert_eq!(
            findings[1].found,
            "setting up a ring (io_uring_setup) failed: Operation not permitted (os error 1)"
        );
        assert!(findings[1].remedy.as_ref().unwrap().contains("sysctl kernel.io_uring_disabled=0"));
        assert_eq!(findings[2].found, "2: nobody may use it");
    }

    #[test]
    fn rings_without_restrictions_root_and_a_clock_that_is_past_need_attention() {
        let unrestricted = Facts { io_uring: Ok(Confinement::Refused(Errno(libc::EINVAL))), ..facts() };
        let refused = "refused: Invalid argument (os error 22)".to_owned();
        assert_eq!(verdict(&unrestricted, "io_uring restrictions"), (Verdict::Attention, refused));
        let root = Facts { user: 0, ..facts() };
        assert_eq!(verdict(&root, "user"), (Verdict::Attention, "root".to_owned()));
        let mighty = Facts { capabilities: 1 << 21, ..facts() };
        let capable = "1000, with capabilities: 0x200000".to_owned();
        assert_eq!(verdict(&mighty, "user"), (Verdict::Attention, capable));
        let past = Facts { unix_time: 86_400, ..facts() };
        assert_eq!(verdict(&past, "clock"), (Verdict::Attention, "1970-01-02, which is past".to_owned()));
    }
}
