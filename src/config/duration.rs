//! Durations as the configuration writes them: a whole number and a unit, `"500ms"`, `"5s"`, `"2m"`, `"1h"`.

use std::time::Duration;

/// The units and their length in milliseconds, longest first.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration. What is too long for a number is as long as a number can be: a bound refuses it.
pub fn parse(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(unit_at);
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    Some(Duration::from_millis(super::saturating_number(digits)?.saturating_mul(*millis)))
}

/// Writes a duration with the longest unit that keeps it a whole number. Less than a millisecond is left out.
#[must_use]
pub fn show(duration: Duration) -> String {
    let total = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    match UNITS.iter().find(|(_, millis)| total != 0 && total.is_multiple_of(*millis)) {
        Some((name, millis)) => format!("{}{name}", total / millis),
        None => "0s".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_duration_is_a_whole_number_and_a_unit() {
        assert_eq!(parse("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse("5s"), Some(Duration::from_secs(5)));
        assert_eq!(parse("2m"), Some(Duration::from_secs(120)));
        assert_eq!(parse("1h"), Some(Duration::from_secs(3_600)));
        assert_eq!(parse("0s"), Some(Duration::ZERO));
    }

    #[test]
    fn anything_else_is_no_duration() {
        for text in ["", "s", "5", "5 s", " 5s", "5s ", "-5s", "+5s", "1.5s", "5S", "5sec", "5d", "1m30s", "٥s"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_duration_beyond_all_numbers_is_the_longest_there_is() {
        assert_eq!(parse("99999999999999999999999h"), Some(Duration::from_millis(u64::MAX)));
        assert_eq!(parse("18446744073709551615h"), Some(Duration::from_millis(u64::MAX)));
    }

    #[test]
    fn a_duration_is_shown_in_the_longest_unit_that_fits() {
        assert_eq!(show(Duration::from_millis(100)), "100ms");
        assert_eq!(show(Duration::from_millis(1_500)), "1500ms");
        assert_eq!(show(Duration::from_secs(90)), "90s");
        assert_eq!(show(Duration::from_secs(600)), "10m");
        assert_eq!(show(Duration::from_secs(7_200)), "2h");
        assert_eq!(show(Duration::ZERO), "0s");
    }

    proptest! {
        #[test]
        fn a_shown_duration_reads_as_the_same(millis in 0..u64::MAX) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&show(duration)), Some(duration));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*") {
            parse(&text);
        }
    }
}
