//! Rows beside each other: ratios round by round, and who is best.

use std::fmt;

use crate::cases::Better;
use crate::peer::Role;
use crate::samples::Samples;
use crate::stage::Row;

/// Ratios of two programs, one for each round.
#[derive(Debug)]
pub(crate) struct Ratio(pub(crate) Samples);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ratios) = self;
        if ratios.median() == 0.0 || !ratios.median().is_finite() {
            // One of the two takes no part in this.
            return f.write_str("-");
        }
        write!(f, "{:.2}", ratios.median())?;
        if ratios.min() < ratios.max() {
            write!(f, " ({:.2} to {:.2})", ratios.min(), ratios.max())?;
            if ratios.spans(1.0) {
                f.write_str(", no difference")?;
            }
        }
        Ok(())
    }
}

impl Row {
    /// A figure by its name.
    pub(crate) fn figure(&self, name: &str) -> Option<&Samples> {
        self.figures.iter().find(|(figure, _)| *figure == name).map(|(_, samples)| samples)
    }

    /// This one's figure over another's.
    pub(crate) fn ratio_to(&self, other: &Self, name: &str) -> Option<Ratio> {
        Some(Ratio(self.figure(name)?.relative_to(other.figure(name)?)))
    }
}

/// The best of the programs with that role by a figure that they have.
pub(crate) fn best<'a>(rows: &'a [Row], role: Role, figure: &str, better: Better) -> Option<&'a Row> {
    let median = |row: &Row| row.figure(figure).map(Samples::median);
    let taking_part = rows.iter().filter(|row| row.role == role && median(row).is_some_and(|median| median > 0.0));
    let by_median = |a: &&Row, b: &&Row| median(a).unwrap_or(0.0).total_cmp(&median(b).unwrap_or(0.0));
    match better {
        Better::Less => taking_part.min_by(by_median),
        Better::More => taking_part.max_by(by_median),
    }
}
