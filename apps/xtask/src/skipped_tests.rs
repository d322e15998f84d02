//! The tests that were not run: each lacked a program, a package or a permission, and left a record.
//!
//! `satchel-requirements` writes the records, into the directory that [`SkippedTests::DIRECTORY_VARIABLE`] names.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// The tests that were not run, in order, each with what it needs.
#[derive(Debug)]
pub(crate) struct SkippedTests(Vec<(String, String)>);

impl SkippedTests {
    /// The environment variable with the directory for the records.
    pub(crate) const DIRECTORY_VARIABLE: &str = "TESTS_NOT_RUN_DIR";

    /// Creates an empty directory for records beneath cargo's target directory. Its path is absolute, since tests run
    /// in the directories of their packages.
    pub(crate) fn new_directory(target: &Path) -> Result<PathBuf> {
        let directory = std::path::absolute(target.join("tests-not-run")).context("there is no current directory")?;
        if directory.is_dir() {
            fs::remove_dir_all(&directory).with_context(|| format!("failed to remove `{}`", directory.display()))?;
        }
        fs::create_dir_all(&directory).with_context(|| format!("failed to make `{}`", directory.display()))?;
        Ok(directory)
    }

    /// Reads the records of the tests that have ended.
    pub(crate) fn read_records(directory: &Path) -> Result<Self> {
        let read_record = |path: &Path| {
            let record = fs::read_to_string(path).with_context(|| format!("failed to read `{}`", path.display()))?;
            let (test, missing) = record.split_once('\n').with_context(|| format!("{record:?} is no record"))?;
            Ok((test.to_owned(), missing.trim_end().to_owned()))
        };
        let files = fs::read_dir(directory).with_context(|| format!("failed to list `{}`", directory.display()))?;
        let mut tests = files.map(|file| read_record(&file?.path())).collect::<Result<Vec<_>>>()?;
        tests.sort();
        Ok(Self(tests))
    }

    /// Fails in CI, where every test must run.
    pub(crate) fn check(&self, is_ci: bool) -> Result<()> {
        if is_ci && !self.0.is_empty() {
            bail!("{} tests were not run, and where CI is set all must be", self.0.len());
        }
        Ok(())
    }
}

impl fmt::Display for SkippedTests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "No test lacked what it needs.");
        }
        write!(f, "{} tests were not run:", self.0.len())?;
        self.0.iter().try_for_each(|(test, missing)| write!(f, "\n  {test} needs {missing}"))
    }
}

/// Whether this is a run in CI: the environment variable `CI` is set, and not to nothing.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use satchel_requirements::{DIRECTORY_VARIABLE, record};

    use super::*;

    #[test]
    fn tests_not_run_are_named_and_fail_ci() {
        let target = tempfile::tempdir().unwrap();
        let directory = SkippedTests::new_directory(target.path()).unwrap();
        assert_eq!(SkippedTests::DIRECTORY_VARIABLE, DIRECTORY_VARIABLE);
        record(&directory, "satchel-system durability::bytes_are_synced", "strace").unwrap();
        record(&directory, "satchel-fake-telegram aiogram::it_polls", "aiogram from PyPI, but\npip failed").unwrap();

        let skipped_tests = SkippedTests::read_records(&directory).unwrap();
        assert_eq!(
            skipped_tests.to_string(),
            "2 tests were not run:\n  \
             satchel-fake-telegram aiogram::it_polls needs aiogram from PyPI, but pip failed\n  \
             satchel-system durability::bytes_are_synced needs strace"
        );
        skipped_tests.check(false).unwrap();
        let error = skipped_tests.check(true).unwrap_err();
        assert_eq!(error.to_string(), "2 tests were not run, and where CI is set all must be");
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
