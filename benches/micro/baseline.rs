//! Instruction counts that are kept, for later ones to be compared with.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// How much more than before a case may cost: what the allocator's addresses and another processor make of the same code.
const TOLERANCE: f64 = 0.05;
/// The same in instructions: what one more or less is of a case that has ten.
const TOLERANCE_INSTRUCTIONS: f64 = 4.0;

/// The count of each case, by its name.
#[derive(Debug, Default)]
pub(crate) struct Baseline(BTreeMap<String, f64>);

/// How a count compares with the baseline's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    /// There is nothing to compare it with.
    New,
    Within,
    Less,
    More,
}

impl Baseline {
    /// Reads lines of a name and a count; those that begin with `#` are for people.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let parse = |line: &str| {
            let (name, count) = line.rsplit_once(' ')?;
            Some((name.trim().to_owned(), count.parse().ok()?))
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let counts = lines.map(|line| parse(line).ok_or_else(|| format!("{}: no count in {line:?}", path.display())));
        Ok(Self(counts.collect::<Result<_, _>>()?))
    }

    /// Writes `counts` in their order.
    pub(crate) fn write(path: &Path, counts: &[(&str, f64)]) -> Result<(), String> {
        let mut text =
            "# Instructions per operation. Written by benches/regress.sh --record; compared by benches/regress.sh.\n"
                .to_owned();
        for (name, count) in counts {
            writeln!(text, "{name:<56}{count:>12.1}").map_err(|error| error.to_string())?;
        }
        fs::write(path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }

    /// The count of a case.
    pub(crate) fn count(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    pub(crate) fn compare(&self, name: &str, count: f64) -> Change {
        let Some(before) = self.count(name) else { return Change::New };
        let room = (before * TOLERANCE).max(TOLERANCE_INSTRUCTIONS);
        match count - before {
            more if more > room => Change::More,
            less if less < -room => Change::Less,
            _ => Change::Within,
        }
    }
}
