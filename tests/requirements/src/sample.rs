//! Which part of a large test a run tries: in the gate a fixed core and a share of the rest, which rotates from run to run;
//! over all runs of `cargo xtask nightly --shard K/N`, everything.

use std::{ffi::OsStr, fmt};

/// The environment variable that chooses: a seed, or `K/N` for the K-th of N shares of everything.
pub const SAMPLE_VARIABLE: &str = "SATCHEL_SAMPLE";

/// What a run tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// The fixed core, and of the rest what this seed chooses.
    Seed(u64),
    /// One of several shares of everything.
    Share {
        /// From 1.
        number: u64,
        of: u64,
    },
}

/// How often a case is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frequency {
    /// In every run: the fixed core.
    EveryRun,
    /// In one of so many runs whose seeds follow each other.
    OneIn(u64),
    /// In no run of the gate.
    Nightly,
}

impl Sample {
    /// Reads the environment; without the variable, the seed is 0.
    ///
    /// # Panics
    /// When the variable is neither a seed nor a share.
    #[must_use]
    pub fn from_environment() -> Self {
        let Some(text) = std::env::var_os(SAMPLE_VARIABLE) else { return Self::Seed(0) };
        let sample = Self::parse(&text);
        assert!(sample.is_some(), "{SAMPLE_VARIABLE}={} is neither a whole number nor K/N", text.display());
        sample.expect("it was checked just now")
    }

    fn parse(text: &OsStr) -> Option<Self> {
        let text = text.to_str()?;
        let Some((number, of)) = text.split_once('/') else { return text.parse().ok().map(Self::Seed) };
        let (number, of) = (number.parse().ok()?, of.parse().ok()?);
        (1..=of).contains(&number).then_some(Self::Share { number, of })
    }

    /// Whether the case at an index of a matrix is tried. The matrix must be the same in every run; otherwise the index is
    /// a [`case_number`].
    #[must_use]
    pub fn includes(self, frequency: Frequency, index: usize) -> bool {
        match (self, frequency) {
            (Self::Share { number, of }, _) => index as u64 % of == number - 1,
            (Self::Seed(_), Frequency::EveryRun) => true,
            (Self::Seed(seed), Frequency::OneIn(shares)) => turn_of(index as u64, shares) == seed % shares,
            (Self::Seed(_), Frequency::Nightly) => false,
        }
    }

    /// Whether the other shares may not know of a case that is found behind other cases only, and behind so many of this
    /// share: had each share as many, one of them would have none.
    #[must_use]
    pub fn may_be_unknown_elsewhere(self, found_behind: usize) -> bool {
        matches!(self, Self::Share { of, .. } if (found_behind as u64) < of)
    }

    /// Whether this test is run, of several that take turns. That it is not is recorded.
    #[must_use]
    #[track_caller]
    pub fn is_turn_of(self, frequency: Frequency, index: usize) -> bool {
        let is_turn = self.includes(frequency, index);
        if !is_turn {
            crate::record_other_turn();
        }
        is_turn
    }

    /// Whether the whole core is tried, so that what it promises can be checked.
    #[must_use]
    pub fn includes_core(self) -> bool {
        !matches!(self, Self::Share { of: 2.., .. })
    }

    /// A number for what is left to chance in a test, the same when the run is repeated.
    #[must_use]
    pub fn seed(self) -> u64 {
        match self {
            Self::Seed(seed) => seed,
            Self::Share { number, .. } => number,
        }
    }

    /// Whether more than a sample is tried.
    #[must_use]
    pub fn is_nightly(self) -> bool {
        matches!(self, Self::Share { .. })
    }
}

/// Returns the index of a case in a matrix whose cases each run counts for itself: it depends on the case's name alone, so
/// that one case more or less moves no other to another share.
#[must_use]
pub fn case_number(name: &str) -> usize {
    // FNV-1a of 32 bits, which stays the same in every process and version.
    let hash = name.bytes().fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash as usize
}

/// The seed modulo `shares` at which a case is tried. Of each block of so many neighbours one has its turn, not always the one
/// at the same place: neighbours are often the two sides of one call.
fn turn_of(index: u64, shares: u64) -> u64 {
    (index + index / shares) % shares
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => write!(f, "{SAMPLE_VARIABLE}={seed}"),
            Self::Share { number, of } => write!(f, "{SAMPLE_VARIABLE}={number}/{of}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(sample: Sample, frequency: Frequency) -> Vec<usize> {
        (0..12).filter(|index| sample.includes(frequency, *index)).collect()
    }

    #[test]
    fn seeds_that_follow_each_other_try_every_case_once() {
        let all: Vec<usize> = (0..4).flat_map(|seed| tried(Sample::Seed(seed), Frequency::OneIn(4))).collect();
        assert_eq!(all.len(), 12);
        assert_eq!(tried(Sample::Seed(6), Frequency::OneIn(4)), [2, 5, 8]);
        assert_eq!(tried(Sample::Seed(6), Frequency::EveryRun).len(), 12);
        assert_eq!(tried(Sample::Seed(6), Frequency::Nightly), [0; 0]);
    }

    #[test]
    fn shares_are_everything_together_whatever_the_frequency() {
        for frequency in [Frequency::EveryRun, Frequency::OneIn(8), Frequency::Nightly] {
            let mut all: Vec<usize> =
                (1..=5).flat_map(|number| tried(Sample::Share { number, of: 5 }, frequency)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..12).collect::<Vec<_>>());
        }
    }

    #[test]
    fn named_case_has_its_turn_whatever_other_cases_there_are() {
        let points = |calls: u32| (1..=calls).map(|nth| format!("before ledger.save_part {nth}"));
        assert_eq!(case_number("before ledger.save_part 1"), 0x73BC_9995);
        let tried = |sample: Sample, calls: u32| -> Vec<String> {
            points(calls).filter(|name| sample.includes(Frequency::OneIn(8), case_number(name))).collect()
        };
        for sample in [0, 3, 7].map(Sample::Seed).into_iter().chain([Sample::Share { number: 2, of: 6 }]) {
            let (few, many) = (tried(sample, 40), tried(sample, 41));
            assert!(many.starts_with(&few) && !few.is_empty(), "{few:?}, {many:?}");
        }
        let all: usize = (0..8).map(|seed| tried(Sample::Seed(seed), 40).len()).sum();
        assert_eq!(all, 40, "each has its turn once");
    }

    #[test]
    fn rare_case_is_tried_by_each_share_that_finds_it() {
        let share = Sample::Share { number: 1, of: 6 };
        assert!(share.may_be_unknown_elsewhere(5) && !share.may_be_unknown_elsewhere(6));
        assert!(!Sample::Seed(1).may_be_unknown_elsewhere(1));
        assert!(!Sample::Share { number: 1, of: 1 }.may_be_unknown_elsewhere(1));
    }

    #[test]
    fn variable_is_a_seed_or_a_share() {
        let parse = |text: &str| Sample::parse(OsStr::new(text));
        assert_eq!(parse("12"), Some(Sample::Seed(12)));
        assert_eq!(parse("2/8"), Some(Sample::Share { number: 2, of: 8 }));
        assert!(["", "all", "0/8", "9/8", "1/0", "-1"].into_iter().all(|text| parse(text).is_none()));
        assert_eq!(parse("2/8").unwrap().to_string(), "SATCHEL_SAMPLE=2/8");
        assert!(parse("1/1").unwrap().includes_core() && !parse("1/2").unwrap().includes_core());
    }
}
