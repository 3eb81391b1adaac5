//! Tables of medians with ratios to ringwall, for people, and the same as JSON, for programs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::cases::{Case, Row};
use crate::cores::Cores;
use crate::peer::Running;
use crate::samples::Samples;
use crate::server::Server;

/// Where the report goes, beside standard output.
const FOLDER: &str = "target/peers";

/// What was measured so far.
pub(crate) struct Report {
    names: Vec<&'static str>,
    markdown: String,
    json: Vec<String>,
}

impl Report {
    pub(crate) fn begin(peers: &[Running], server: &Server, cores: Cores, rounds: usize, took: Duration) -> Self {
        let mut report =
            Self { names: peers.iter().map(|peer| peer.name).collect(), markdown: String::new(), json: Vec::new() };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        report.say(&format!(
            "Linux {}; {cores}; {rounds} rounds of {took:?} in turn; {}\n",
            kernel.trim(),
            server.version
        ));
        for peer in peers {
            report.say(&format!("- {}: {}", peer.name, peer.version));
        }
        report
    }

    fn say(&mut self, line: &str) {
        println!("{line}");
        self.markdown.push_str(line);
        self.markdown.push('\n');
    }

    /// Adds the rows of a case, one for each proxy, ringwall's first.
    pub(crate) fn add(&mut self, case: &Case, rows: &[Row]) {
        let Some((ours, _)) = rows.split_first() else { return };
        self.say(&format!("\n### {}\n", case.name));
        let heads: Vec<_> = ours.iter().map(|(name, _)| format!(" {name} |")).collect();
        self.say(&format!("| |{} to ringwall |", heads.concat()));
        self.say(&format!("|---|{}---|", "---|".repeat(heads.len())));
        for (name, row) in self.names.clone().into_iter().zip(rows) {
            let cells: Vec<_> = row.iter().map(|(_, samples)| format!(" {} |", show(samples))).collect();
            let ratio = row[0].1.relative_to(&ours[0].1);
            let ratio = match (ratio.median(), ratio.min(), ratio.max()) {
                // There is no proxy.
                (0.0, ..) => "-".to_owned(),
                (median, min, max) => format!("{median:.2} ({min:.2} to {max:.2})"),
            };
            self.say(&format!("| {name} |{} {ratio} |", cells.concat()));
            self.json.push(json(case.name, name, row));
        }
    }

    /// Writes both forms.
    pub(crate) fn write(&self) {
        let folder = Path::new(FOLDER);
        fs::create_dir_all(folder).expect("the target folder can be written");
        fs::write(folder.join("report.md"), &self.markdown).expect("the target folder can be written");
        let json = format!("[\n{}\n]\n", self.json.join(",\n"));
        fs::write(folder.join("report.json"), json).expect("the target folder can be written");
        println!("\nwritten to {FOLDER}/report.md and {FOLDER}/report.json");
    }
}

/// The median, with as many digits as mean something.
fn show(samples: &Samples) -> String {
    let median = samples.median();
    match median {
        0.0 => "-".to_owned(),
        _ if median >= 100.0 => format!("{median:.0}"),
        _ if median >= 10.0 => format!("{median:.1}"),
        _ => format!("{median:.2}"),
    }
}

fn json(case: &str, peer: &str, row: &Row) -> String {
    let mut text = format!("  {{\"case\": {case:?}, \"proxy\": {peer:?}");
    for (name, samples) in row {
        write!(text, ", {name:?}: {:?}", samples.values()).expect("text can be written");
    }
    text + "}"
}
