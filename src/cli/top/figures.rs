//! Numbers as short text that keeps its width.

/// Bytes in the largest unit of 1024 that leaves a number of one or more, in eight characters or fewer: `950 B`,
/// `1.2 KiB`, `341 MiB`.
pub(super) fn bytes(bytes: f64) -> String {
    let mut size = bytes.max(0.0);
    for unit in ["B", "KiB", "MiB", "GiB"] {
        // Where it would be rounded up to four digits, the next unit says it better.
        if size < 999.5 {
            return if unit == "B" { format!("{size:.0} B") } else { format!("{} {unit}", rate(size)) };
        }
        size /= 1024.0;
    }
    format!("{} TiB", rate(size))
}

/// A number with a decimal below a hundred.
pub(super) fn rate(rate: f64) -> String {
    if rate < 99.95 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// A short time in eight characters or fewer: `83 us`, `1.2 ms`, `3.4 s`.
pub(super) fn short_time(seconds: f64) -> String {
    match seconds * 1e6 {
        micros if micros < 999.5 => format!("{micros:.0} us"),
        micros if micros < 999_500.0 => format!("{} ms", rate(micros / 1e3)),
        micros => format!("{} s", rate(micros / 1e6)),
    }
}

/// A length of time in four characters or fewer up to 27 years: whole seconds, minutes, hours or days.
pub(super) fn age(seconds: f64) -> String {
    let units = [("s", 1.0, 100.0), ("m", 60.0, 6_000.0), ("h", 3_600.0, 172_800.0)];
    match units.iter().find(|(_, _, below)| seconds < *below) {
        Some((unit, length, _)) => format!("{:.0}{unit}", (seconds / length).floor().max(0.0)),
        None => format!("{:.0}d", (seconds / 86_400.0).floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_unit_that_leaves_few_digits() {
        for (number, text) in [
            (0.0, "0 B"),
            (-1.0, "0 B"),
            (950.4, "950 B"),
            (1_000.0, "1.0 KiB"),
            (1_228.8, "1.2 KiB"),
            (35_756_441.6, "34.1 MiB"),
            (357_564_416.0, "341 MiB"),
            (1e15, "909 TiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn rates_and_ages_are_short() {
        for (number, text) in [(0.0, "0.0"), (8.14, "8.1"), (99.96, "100"), (12_345.6, "12346")] {
            assert_eq!(rate(number), text);
        }
        for (seconds, text) in [
            (0.0, "0 us"),
            (0.000_083, "83 us"),
            (0.000_999_6, "1.0 ms"),
            (0.012_34, "12.3 ms"),
            (0.25, "250 ms"),
            (3.44, "3.4 s"),
        ] {
            assert_eq!(short_time(seconds), text);
        }
        for (seconds, text) in
            [(0.9, "0s"), (99.9, "99s"), (100.0, "1m"), (5_999.0, "99m"), (7_300.0, "2h"), (864_000.0, "10d")]
        {
            assert_eq!(age(seconds), text);
        }
    }
}
