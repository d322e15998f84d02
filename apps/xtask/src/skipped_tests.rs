//! The tests that were not run, each of which left a record: it lacked a program, a package or a permission, or it was
//! not its turn.
//!
//! `satchel-requirements` writes the records, into the directory that [`SkippedTests::DIRECTORY_VARIABLE`] names.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// The tests that were not run.
#[derive(Debug)]
pub(crate) struct SkippedTests {
    /// Those that lacked something, in order, each with what it needs.
    lacking: Vec<(String, String)>,
    /// Those that are run in other samples, in order.
    other_turns: Vec<String>,
}

impl SkippedTests {
    /// The environment variable with the directory for the records.
    pub(crate) const DIRECTORY_VARIABLE: &str = "TESTS_NOT_RUN_DIR";

    /// The directory beneath it with the records of the tests whose turn it was not.
    const OTHER_TURNS: &str = "other-turns";

    /// Creates an empty directory for records beneath cargo's target directory. Its path is absolute, since tests run
    /// in the directories of their packages.
    pub(crate) fn new_directory(target: &Path) -> Result<PathBuf> {
        let directory = std::path::absolute(target.join("tests-not-run")).context("there is no current directory")?;
        if directory.is_dir() {
            fs::remove_dir_all(&directory).with_context(|| format!("failed to remove `{}`", directory.display()))?;
        }
        let other_turns = directory.join(Self::OTHER_TURNS);
        fs::create_dir_all(&other_turns).with_context(|| format!("failed to make `{}`", other_turns.display()))?;
        Ok(directory)
    }

    /// Reads the records of the tests that have ended.
    pub(crate) fn read_records(directory: &Path) -> Result<Self> {
        let mut lacking = Vec::new();
        for record in read_files(directory)? {
            let (test, missing) = record.split_once('\n').with_context(|| format!("{record:?} is no record"))?;
            lacking.push((test.to_owned(), missing.trim_end().to_owned()));
        }
        lacking.sort();
        let mut other_turns = read_files(&directory.join(Self::OTHER_TURNS))?;
        other_turns.sort();
        Ok(Self { lacking, other_turns })
    }

    /// Fails in CI, where every test must run.
    pub(crate) fn check(&self, is_ci: bool) -> Result<()> {
        if is_ci && !self.lacking.is_empty() {
            bail!("{} tests lacked what they need, and where CI is set none may", self.lacking.len());
        }
        Ok(())
    }
}

/// Reads the files of a directory, without those of its own directories.
fn read_files(directory: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory).with_context(|| format!("failed to list `{}`", directory.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let read =
        |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("failed to read `{}`", path.display()));
    paths.iter().filter(|path| path.is_file()).map(read).collect()
}

impl fmt::Display for SkippedTests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lacking.is_empty() {
            write!(f, "No test lacked what it needs.")?;
        } else {
            write!(f, "{} tests lacked what they need:", self.lacking.len())?;
            self.lacking.iter().try_for_each(|(test, missing)| write!(f, "\n  {test} needs {missing}"))?;
        }
        if !self.other_turns.is_empty() {
            write!(f, "\nNot their turn, by the seed of this run:")?;
            self.other_turns.iter().try_for_each(|test| write!(f, "\n  {test}"))?;
        }
        Ok(())
    }
}

/// Whether this is a run in CI: the environment variable `CI` is set, and not to nothing.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use satchel_requirements::{DIRECTORY_VARIABLE, OTHER_TURNS, record};

    use super::*;

    #[test]
    fn tests_not_run_are_named_and_fail_ci() {
        let target = tempfile::tempdir().unwrap();
        let directory = SkippedTests::new_directory(target.path()).unwrap();
        assert_eq!((SkippedTests::DIRECTORY_VARIABLE, SkippedTests::OTHER_TURNS), (DIRECTORY_VARIABLE, OTHER_TURNS));
        record(&directory, "satchel-system durability::bytes_are_synced", "strace").unwrap();
        record(&directory, "satchel-fake-telegram aiogram::it_polls", "aiogram from PyPI, but\npip failed").unwrap();

        let skipped_tests = SkippedTests::read_records(&directory).unwrap();
        assert_eq!(
            skipped_tests.to_string(),
            "2 tests lacked what they need:\n  \
             satchel-fake-telegram aiogram::it_polls needs aiogram from PyPI, but pip failed\n  \
             satchel-system durability::bytes_are_synced needs strace"
        );
        skipped_tests.check(false).unwrap();
        let error = skipped_tests.check(true).unwrap_err();
        assert_eq!(error.to_string(), "2 tests lacked what they need, and where CI is set none may");
    }

    #[test]
    fn tests_whose_turn_it_was_not_are_named_and_pass_ci() {
        let target = tempfile::tempdir().unwrap();
        let directory = SkippedTests::new_directory(target.path()).unwrap();
        fs::write(directory.join(OTHER_TURNS).join("a"), "satchel-system cluster::outages::bus_away").unwrap();
        let skipped_tests = SkippedTests::read_records(&directory).unwrap();
        assert_eq!(
            skipped_tests.to_string(),
            "No test lacked what it needs.\nNot their turn, by the seed of this run:\n  \
             satchel-system cluster::outages::bus_away"
        );
        skipped_tests.check(true).unwrap();
    }

    #[test]
    fn records_of_an_earlier_run_are_gone() {
        let target = tempfile::tempdir().unwrap();
        let directory = SkippedTests::new_directory(target.path()).unwrap();
        record(&directory, "an earlier test", "strace").unwrap();
        let skipped_tests = SkippedTests::read_records(&SkippedTests::new_directory(target.path()).unwrap()).unwrap();
        assert_eq!(skipped_tests.to_string(), "No test lacked what it needs.");
        skipped_tests.check(true).unwrap();
    }
}
