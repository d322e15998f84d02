//! Sizes and durations as people write them in the configuration.

use std::time::Duration;

/// What a size may look like, for error messages.
pub(crate) const SIZE: &str = "a size such as 500KB, 50MB or 2GiB";
/// What a size that may be nothing may look like, for error messages.
pub(crate) const SIZE_OR_ZERO: &str = "a size such as 500MB or 1GiB, or 0 for none";
/// What a duration may look like, for error messages.
pub(crate) const DURATION: &str = "a duration such as 30s, 10m or 24h";

const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];
const DURATION_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a size: a whole number of bytes, or a whole number and a unit in either case.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let scale = match unit {
        "" => 1,
        unit => SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    number.checked_mul(scale)
}

/// Reads a duration: a whole number and its unit. A bare number says nothing and is refused.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let scale = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?.1;
    number.checked_mul(scale).map(Duration::from_millis)
}

/// Writes a size in the largest unit that divides it.
pub(crate) fn show_size(bytes: u64) -> String {
    match SIZE_UNITS.iter().find(|(_, scale)| bytes > 0 && bytes.is_multiple_of(*scale)) {
        Some((unit, scale)) => format!("{}{unit}", bytes / scale),
        None => format!("{bytes}B"),
    }
}

/// Writes a duration in the largest unit up to hours that divides it.
pub(crate) fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let fits = |(_, scale): &&(&str, u64)| millis > 0 && millis.is_multiple_of(u128::from(*scale));
    match DURATION_UNITS[1..].iter().find(fits) {
        Some((unit, scale)) => format!("{}{unit}", millis / u128::from(*scale)),
        None => format!("{millis}ms"),
    }
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_units_and_nothing_unclear() {
        for (text, bytes) in [
            ("10000000", 10_000_000),
            ("50MB", 50_000_000),
            ("50 mb", 50_000_000),
            ("2GiB", 2 << 30),
            ("1kb", 1_000),
            ("7B", 7),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MB", "-1", "1.5GB", "50M", "1e6", "18446744073709551616", "99999999999TiB", "5 MB x"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn durations_need_their_unit() {
        for (text, millis) in
            [("24h", 86_400_000), ("30s", 30_000), ("10 m", 600_000), ("250ms", 250), ("30d", 2_592_000_000)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "30", "h", "-1s", "1.5h", "30S", "1 hour", "99999999999999999999s", "999999999999999999d"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for bytes in [0, 1, 999, 1_000, 10_000_000, 50 << 20, 2 << 30, u64::MAX] {
            assert_eq!(parse_size(&show_size(bytes)), Some(bytes), "{}", show_size(bytes));
        }
        for millis in [0, 1, 1_500, 30_000, 86_400_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&show_duration(duration)), Some(duration), "{}", show_duration(duration));
        }
        assert_eq!((show_size(2 << 30), show_size(50_000_000)), ("2GiB".to_owned(), "50MB".to_owned()));
        assert_eq!(show_duration(Duration::from_secs(86_400)), "24h");
    }
}
