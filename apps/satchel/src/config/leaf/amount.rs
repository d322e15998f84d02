//! Sizes, spans of time and counts.

use std::{borrow::Cow, path::Path, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{Leaf, leaf};
use crate::config::tree::ConfigValue;

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

/// A number of bytes, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

/// A number of bytes, which may be 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeOrZero(pub u64);

/// A duration longer than zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigDuration(pub Duration);

/// A whole number within a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Count<const MIN: u32, const MAX: u32>(pub u32);

leaf!(Size);
leaf!(SizeOrZero);
leaf!(ConfigDuration);

impl Leaf for Size {
    const KIND: &'static str = "size";
    const EXPECTED: &'static str = "a size such as 500KB, 50MB or 2GiB";
    const TAKES_NUMBERS: bool = true;

    fn schema() -> Json {
        json!({
            "anyOf": [
                { "type": "integer", "minimum": 1 },
                { "type": "string", "pattern": r"^\s*0*[1-9][0-9]*\s*(([KkMmGgTt][Ii]?)?[Bb])?\s*$" }
            ],
            "examples": ["500KB", "50MB", "2GiB"]
        })
    }

    fn parse(text: &str, _: &Path) -> Option<Self> {
        parse_size(text).filter(|bytes| *bytes > 0).map(Self)
    }

    fn show(&self) -> Json {
        json!(format_size(self.0))
    }
}

impl Leaf for SizeOrZero {
    const KIND: &'static str = "size-or-zero";
    const EXPECTED: &'static str = "a size such as 500MB or 1GiB, or 0 for none";
    const TAKES_NUMBERS: bool = true;

    fn schema() -> Json {
        json!({
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": r"^\s*[0-9]+\s*(([KkMmGgTt][Ii]?)?[Bb])?\s*$" }
            ],
            "examples": ["500MB", "1GiB", 0]
        })
    }

    fn parse(text: &str, _: &Path) -> Option<Self> {
        parse_size(text).map(Self)
    }

    fn show(&self) -> Json {
        json!(format_size(self.0))
    }
}

impl FromStr for ConfigDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text, Path::new("")).ok_or_else(|| format!("expected {}", Self::EXPECTED))
    }
}

impl Leaf for ConfigDuration {
    const KIND: &'static str = "duration";
    const EXPECTED: &'static str = "a duration such as 30s, 10m or 24h";

    fn schema() -> Json {
        json!({
            "type": "string", "pattern": r"^\s*0*[1-9][0-9]*\s*(ms|s|m|h|d)\s*$", "examples": ["30s", "10m", "24h", "2d"]
        })
    }

    fn parse(text: &str, _: &Path) -> Option<Self> {
        parse_duration(text).filter(|duration| !duration.is_zero()).map(Self)
    }

    fn show(&self) -> Json {
        json!(format_duration(self.0))
    }
}

impl<const MIN: u32, const MAX: u32> JsonSchema for Count<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Count_{MIN}_{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

impl<const MIN: u32, const MAX: u32> Count<MIN, MAX> {
    /// The number as a length.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// The count of a length, clamped to the maximum.
    #[must_use]
    pub fn from_len(length: usize) -> Self {
        Self(u32::try_from(length).map_or(MAX, |number| number.min(MAX)))
    }
}

/// Reads a whole number within a range.
pub(super) fn read_count(value: &ConfigValue, [min, max]: [u64; 2]) -> Option<Json> {
    let number = match value {
        ConfigValue::Integer(number) => u64::try_from(*number).ok(),
        ConfigValue::Untyped(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number| (min..=max).contains(number)).map(Json::from)
}

/// Reads a size: a whole number of bytes, or a whole number and a unit in either case.
fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let scale = match unit {
        "" => 1,
        unit => SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    number.checked_mul(scale)
}

/// Reads a duration: a whole number and its unit. A number without a unit is refused.
fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let scale = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?.1;
    number.checked_mul(scale).map(Duration::from_millis)
}

/// Writes a size in the largest unit that divides it.
fn format_size(bytes: u64) -> String {
    match SIZE_UNITS.iter().find(|(_, scale)| bytes > 0 && bytes.is_multiple_of(*scale)) {
        Some((unit, scale)) => format!("{}{unit}", bytes / scale),
        None => format!("{bytes}B"),
    }
}

/// Writes a duration in the largest unit up to hours that divides it.
fn format_duration(duration: Duration) -> String {
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
    fn formatted_amounts_parse_back() {
        for bytes in [0, 1, 999, 1_000, 10_000_000, 50 << 20, 2 << 30, u64::MAX] {
            assert_eq!(parse_size(&format_size(bytes)), Some(bytes), "{}", format_size(bytes));
        }
        for millis in [0, 1, 1_500, 30_000, 86_400_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&format_duration(duration)), Some(duration), "{}", format_duration(duration));
        }
        assert_eq!((format_size(2 << 30), format_size(50_000_000)), ("2GiB".to_owned(), "50MB".to_owned()));
        assert_eq!(format_duration(Duration::from_secs(86_400)), "24h");
    }
}
