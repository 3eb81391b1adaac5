//! System calls, counted by the kernel while the program runs at its own speed.

use std::fs;
use std::process::{Child, Command, Stdio};

use ringwall::io::sys::now;

use crate::cases::Kind;
use crate::load::Shape;
use crate::peer::{Role, Running};
use crate::stage::{Findings, Stage};

/// What perf(1) counts: all of them, and two that are looked at by themselves.
const EVENTS: [&str; 3] = ["raw_syscalls:sys_enter", "syscalls:sys_enter_io_uring_enter", "syscalls:sys_enter_futex"];

impl Stage {
    pub(crate) fn system_calls(&self, kind: Kind, clients: usize) -> Findings {
        let (request, reply_bytes) = self.server.set(64);
        let shape = Shape { clients, outstanding: 1, request_bytes: request.len(), reply_bytes };
        let mut is_counted = true;
        // Counts hardly move from round to round.
        let rounds = self.rounds.min(2);
        let names = ["calls per request", "of which io_uring_enter", "futex"];
        let mut findings = self.rounds(kind, rounds, names, |_, program| {
            let mut load = self.load(program, shape);
            load.asks(&request);
            load.run_for(self.took / 5);
            let (before, started) = (load.replies(), now());
            let mut perf = self.perf(program);
            while perf.as_mut().is_some_and(|perf| matches!(perf.try_wait(), Ok(None))) {
                load.run_for(self.took / 50);
            }
            let per_second = (load.replies() - before) / now().since(started).as_secs_f64();
            load.rest();
            let counts = perf.and_then(|_| self.counts());
            is_counted &= counts.is_some();
            counts.unwrap_or_default().map(|count| count / self.took.as_secs_f64() / per_second)
        });
        if !is_counted {
            findings.rows.clear();
            findings
                .notes
                .push("perf(1) counts no system calls here: it needs tracefs and the right to use it".to_owned());
        }
        findings
    }

    /// Counts for as long as a measurement takes, and writes the counts to a file.
    fn perf(&self, program: &Running) -> Option<Child> {
        let processes = match program.role {
            Role::Direct => vec![self.server.process()],
            Role::Ours | Role::Peer | Role::Floor => program.processes(),
        };
        let processes: Vec<_> = processes.iter().map(u32::to_string).collect();
        Command::new("perf")
            .args(["stat", "-x", ",", "-e", &EVENTS.join(","), "-p", &processes.join(",")])
            .args(["--timeout", &self.took.as_millis().to_string(), "-o"])
            .arg(self.credentials.folder().join("perf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()
    }

    /// Of each event. A line is `COUNT,UNIT,EVENT,...`; of what has not happened it says in brackets that it is not counted.
    fn counts(&self) -> Option<[f64; EVENTS.len()]> {
        let text = fs::read_to_string(self.credentials.folder().join("perf")).ok()?;
        let count = |event: &str| {
            let line = text.lines().find(|line| line.split(',').nth(2) == Some(event))?;
            Some(line.split(',').next()?.parse().unwrap_or(0.0))
        };
        let [all, enters, futex] = EVENTS.map(count);
        Some([all.filter(|&all| all > 0.0)?, enters?, futex?])
    }
}
