//! Sizes in bytes as the configuration writes them: `"64KiB"`, `"1MiB"`, or a plain number of bytes.

/// The units and their bytes, largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// Reads a size. What is too large for a number is as large as a number can be: a bound refuses it.
pub(super) fn parse(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit)?;
    Some(super::saturating_number(digits)?.saturating_mul(*bytes))
}

/// Writes a size with the largest unit that keeps it a whole number.
#[must_use]
pub fn show(size: usize) -> String {
    let size = super::wide(size);
    match UNITS.iter().find(|(_, bytes)| size != 0 && size.is_multiple_of(*bytes)) {
        Some((name, bytes)) => format!("{}{name}", size / bytes),
        None => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_size_is_a_whole_number_with_or_without_a_binary_unit() {
        assert_eq!(parse("65536"), Some(65_536));
        assert_eq!(parse("64KiB"), Some(65_536));
        assert_eq!(parse("1MiB"), Some(1_048_576));
        assert_eq!(parse("2GiB"), Some(2_147_483_648));
    }

    #[test]
    fn anything_else_is_no_size() {
        for text in ["", "KiB", "64KB", "64kib", "64K", "64 KiB", "-1", "1.5MiB", "64KiBs", "٦"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_size_beyond_all_numbers_is_the_largest_there_is() {
        assert_eq!(parse("99999999999999999999"), Some(u64::MAX));
        assert_eq!(parse("18446744073709551615GiB"), Some(u64::MAX));
    }

    #[test]
    fn a_size_is_shown_in_the_largest_unit_that_fits() {
        assert_eq!(show(65_536), "64KiB");
        assert_eq!(show(1_048_576), "1MiB");
        assert_eq!(show(1_536), "1536");
        assert_eq!(show(0), "0");
    }

    proptest! {
        #[test]
        fn a_shown_size_reads_as_the_same(size in 0..usize::MAX) {
            prop_assert_eq!(parse(&show(size)), Some(size as u64));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*") {
            parse(&text);
        }
    }
}
