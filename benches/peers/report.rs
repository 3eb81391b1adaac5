//! The report: tables with ratios for people, plots, and all values as JSON, for programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cases::{Better, Case};
use crate::comparison::{Ratio, best};
use crate::cores::Cores;
use crate::goals;
use crate::measures::requests::{BUSY, THROUGHPUT};
use crate::peer::Role;
use crate::plot;
use crate::samples::Samples;
use crate::stage::{Findings, Row, Stage};

/// How busy a proxy's core is, in percent, when the proxy is what limits throughput.
const LIMITING: f64 = 95.0;

/// What was measured so far.
pub(crate) struct Report {
    folder: PathBuf,
    /// The versions that have been told.
    told: Vec<String>,
    markdown: String,
    cases: Vec<Value>,
    measured: Vec<(&'static str, Vec<Row>)>,
    head: Map<String, Value>,
}

impl Report {
    /// A report into `folder`.
    pub(crate) fn begin(folder: &Path, cores: Cores, rounds: usize, took: Duration) -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let (kernel, processor) = (kernel.trim().to_owned(), processor());
        let head = json!({ "kernel": kernel, "processor": processor, "rounds": rounds, "seconds": took.as_secs_f64() });
        let mut report = Self {
            folder: folder.to_owned(),
            told: Vec::new(),
            markdown: String::new(),
            cases: Vec::new(),
            measured: Vec::new(),
            head: head.as_object().expect("it is one").clone(),
        };
        fs::create_dir_all(folder).expect("the target folder can be written");
        report.say(&format!("{processor}, Linux {kernel}; {cores}; {rounds} rounds of {took:?} in turn\n"));
        report
    }

    fn say(&mut self, line: &str) {
        println!("{line}");
        self.markdown.push_str(line);
        self.markdown.push('\n');
    }

    /// Tells the versions of programs that have not been told.
    pub(crate) fn present(&mut self, stage: &Stage) {
        let versions = stage.programs.iter().map(|program| format!("- {}: {}", program.name, program.version));
        for line in versions.chain([format!("- server: {}", stage.server.version)]) {
            if !self.told.contains(&line) {
                self.say(&line);
                self.told.push(line);
            }
        }
    }

    /// Adds what a case has shown, and writes what there is so far.
    pub(crate) fn add(&mut self, case: &Case, findings: Findings) {
        self.say(&format!("\n### {}\n", case.name));
        if let Some(first) = findings.rows.first() {
            self.tabulate(first, &findings.rows);
            for line in verdicts(&findings.rows, case.kind.better()) {
                self.say(&line);
            }
            let file = format!("{}.svg", case.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
            self.write(&file, &plot::bars(case.name, &findings.rows));
        }
        for note in &findings.notes {
            self.say(&format!("\n{note}"));
        }
        self.cases.push(value_of(case, &findings));
        self.measured.push((case.name, findings.rows));
        self.head.insert("versions".to_owned(), json!(self.told));
        self.head.insert("cases".to_owned(), json!(self.cases));
        let json = serde_json::to_string_pretty(&self.head).expect("it is JSON");
        self.write("report.md", &self.markdown);
        self.write("report.json", &json);
    }

    /// Adds which goals are reached.
    pub(crate) fn end(mut self) {
        let lines = goals::lines(&self.measured);
        if !lines.is_empty() {
            self.say("\n### goals\n\n| case | figure of ringwall's | is | is to be | |\n|---|---|---|---|---|");
            lines.iter().for_each(|line| self.say(line));
            self.write("report.md", &self.markdown);
        }
        println!("\nwritten to {}", self.folder.display());
    }

    /// A table with a row for each program, ringwall's first.
    fn tabulate(&mut self, ours: &Row, rows: &[Row]) {
        let heads: Vec<_> = ours.figures.iter().map(|(name, _)| format!(" {name} |")).collect();
        self.say(&format!("| |{} to {} |", heads.concat(), ours.program));
        self.say(&format!("|---|{}---|", "---|".repeat(heads.len())));
        let mut unlimited = false;
        for row in rows {
            let limits = row.figure(BUSY).is_none_or(|busy| busy.median() >= LIMITING || busy.median().is_nan());
            let cell = |(name, samples): &(&str, Samples)| {
                let mark = if *name == THROUGHPUT && !limits { "*" } else { "" };
                format!(" {}{mark} |", show(samples.median()))
            };
            unlimited |= !limits;
            let cells: String = row.figures.iter().map(cell).collect();
            let ratio = Ratio(row.figures[0].1.relative_to(&ours.figures[0].1));
            self.say(&format!("| {} |{cells} {ratio} |", row.program));
        }
        self.say("");
        if unlimited {
            self.say("*: not limited by the proxy: its core was less than 95 % busy.\n");
        }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("the target folder can be written");
    }
}

/// Each ringwall beside the best of the peers, and of the floors.
fn verdicts(rows: &[Row], better: Better) -> Vec<String> {
    let Some((figure, _)) = rows.first().and_then(|row| row.figures.first()) else { return Vec::new() };
    let bests = [("peer", Role::Peer), ("of the floors", Role::Floor)];
    let ours = rows.iter().filter(|row| row.role == Role::Ours);
    ours.flat_map(|ours| {
        bests.iter().filter_map(|&(what, role)| {
            let best = best(rows, role, figure, better)?;
            let ratio = ours.ratio_to(best, figure)?;
            Some(format!("- {} to the best {what}, {}: {ratio}", ours.program, best.program))
        })
    })
    .collect()
}

/// As many digits as mean something.
fn show(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "-".to_owned(),
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn value_of(case: &Case, findings: &Findings) -> Value {
    let figures = |row: &Row| -> Map<String, Value> {
        row.figures.iter().map(|(name, samples)| ((*name).to_owned(), json!(samples.values()))).collect()
    };
    let rows: Vec<_> =
        findings.rows.iter().map(|row| json!({ "program": row.program, "figures": figures(row) })).collect();
    json!({ "case": case.name, "rows": rows, "notes": findings.notes })
}

/// What the processor calls itself.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "processor unknown".to_owned(), |(_, name)| name.to_owned())
}
