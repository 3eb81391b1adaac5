//! What was found, what is to be thought of it, and what to do.

use std::fmt;

/// What is to be thought of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// ringwall starts, but.
    Attention,
    /// ringwall does not start.
    Bad,
}

/// One line of a diagnosis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub found: String,
    /// What is to be thought of it.
    pub verdict: Verdict,
    /// What to do, unless it is as it should be.
    pub remedy: Option<String>,
}

/// Findings that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) findings: Vec<Finding>,
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub(super) sections: Vec<Section>,
}

impl Finding {
    pub(super) fn good(what: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self { what: what.to_string(), found: found.to_string(), verdict: Verdict::Good, remedy: None }
    }

    pub(super) fn attention(what: impl fmt::Display, found: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::to_mend(Verdict::Attention, &what, &found, &remedy)
    }

    pub(super) fn bad(what: impl fmt::Display, found: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::to_mend(Verdict::Bad, &what, &found, &remedy)
    }

    fn to_mend(verdict: Verdict, what: &dyn fmt::Display, found: &dyn fmt::Display, remedy: &dyn fmt::Display) -> Self {
        Self { what: what.to_string(), found: found.to_string(), verdict, remedy: Some(remedy.to_string()) }
    }
}

/// What was found at an address, which is not said again where `what` ends with it, as the names of servers do that have no
/// other.
pub(super) fn at(what: &str, address: &impl fmt::Display, found: &str) -> String {
    let address = address.to_string();
    if what.ends_with(&address) { found.trim_start_matches([':', ' ']).to_owned() } else { address + found }
}

impl Diagnosis {
    /// All findings, in order.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.sections.iter().flat_map(|section| &section.findings)
    }

    /// The worst verdict of all.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.findings().map(|finding| finding.verdict).max().unwrap_or(Verdict::Good)
    }

    /// How many findings have this verdict.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.findings().filter(|finding| finding.verdict == verdict).count()
    }
}
