//! What a test needs besides the code: programs, packages of others, rights. A test that lacks one is not run, and that
//! is recorded.
//!
//! `cargo xtask test` names a directory, in which each such test leaves a file, and prints them in the end. Where `CI`
//! is set, a test that lacks something fails instead.
//!
//! [`sample`] chooses what of the largest tests a run tries, and [`exclusion`] keeps tests apart that can't run at once.

pub mod exclusion;
pub mod sample;

use std::{fmt::Display, fs, io, panic::Location, path::Path, thread};

/// Names the directory of the records. It doesn't begin like Satchel's own variables, of which a misspelt one ends the
/// programs under test.
pub const DIRECTORY_VARIABLE: &str = "TESTS_NOT_RUN_DIR";

/// The directory beneath it with the records of the tests whose turn it was not.
pub const OTHER_TURNS: &str = "other-turns";

/// Returns what a test needs. Where it is missing, records that the test is not run, which it leaves to its caller:
/// `let Some(strace) = required(find_strace()) else { return };`. The error is what the test needs, as a noun.
///
/// # Panics
/// Where the environment variable `CI` is set and something is missing.
#[must_use]
#[track_caller]
pub fn required<T>(found: Result<T, impl Display>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(missing) => {
            let missing = missing.to_string();
            let test = current_test(Location::caller());
            println!("not run: {test} needs {missing}");
            if let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) {
                record(Path::new(&directory), &test, &missing).expect("the directory of the records can be written to");
            }
            let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
            assert!(!is_ci, "{test} needs {missing}, and where CI is set every test is run");
            None
        }
    }
}

/// Writes that a test is not run: its name on the first line, what it needs on the second.
///
/// # Errors
/// When the directory can't be written to.
pub fn record(directory: &Path, test: &str, missing: &str) -> io::Result<()> {
    let missing = missing.split_whitespace().collect::<Vec<_>>().join(" ");
    fs::write(directory.join(file_name(test)), format!("{test}\n{missing}\n"))
}

/// Records that this test is not run because it is not its turn.
#[track_caller]
fn record_other_turn() {
    let test = current_test(Location::caller());
    println!("not run: it is not the turn of {test}");
    if let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) {
        let directory = Path::new(&directory).join(OTHER_TURNS);
        let written = fs::create_dir_all(&directory).and_then(|()| fs::write(directory.join(file_name(&test)), test));
        written.expect("the directory of the records can be written to");
    }
}

fn file_name(test: &str) -> String {
    test.replace([' ', ':', '/'], "-")
}

/// The test that runs in this thread, with its package; where the thread isn't named after it, the place of the call.
fn current_test(location: &Location<'_>) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    match thread::current().name() {
        Some(name) if name != "main" => format!("{package} {name}"),
        _ => format!("{package} {location}"),
    }
}

/// Looks for programs on the path.
///
/// # Errors
/// With the names of those that aren't there.
pub fn find_programs(programs: &[&str]) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed = |program: &str| std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    let missing: Vec<&str> = programs.iter().copied().filter(|program| !is_installed(program)).collect();
    if missing.is_empty() { Ok(()) } else { Err(missing.join(" and ")) }
}

/// Whether the tests run as the superuser.
#[must_use]
pub fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}

/// Checks that the tests run as the superuser, who alone can give files away.
///
/// # Errors
/// With what it would need, where they don't.
pub fn find_superuser() -> Result<(), &'static str> {
    if is_superuser() { Ok(()) } else { Err("the superuser, who can give files to another user") }
}

/// Makes the permissions of files bind this thread, and those that it starts from now on, although it is the superuser's.
///
/// # Errors
/// With what it would need, where the superuser can't be bound.
#[cfg(target_os = "linux")]
pub fn obey_file_permissions() -> Result<(), String> {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    let bound = capabilities(None).and_then(|mut sets| {
        sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        set_capabilities(None, sets)
    });
    bound.map_err(|error| format!("a user whom permissions bind, and the superuser can't be made one: {error}"))
}

/// Makes the permissions of files bind this thread, which only another user than the superuser can have.
///
/// # Errors
/// With what it would need, where this is the superuser.
#[cfg(not(target_os = "linux"))]
pub fn obey_file_permissions() -> Result<(), String> {
    if is_superuser() { Err("another user than the superuser".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    const NO_PROGRAM: &str = "satchel-has-no-such-program";

    /// Marks the process that [`run_inner_test`] starts.
    const INNER: &str = "SATCHEL_REQUIREMENTS_INNER";

    /// Starts this test program with the one test that lacks a program.
    fn run_inner_test(records: Option<&Path>, ci: Option<&str>) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "tests::test_without_its_program_is_not_run", "--nocapture"]);
        command.env(INNER, "1").env_remove(DIRECTORY_VARIABLE).env_remove("CI");
        command.envs(records.map(|records| (DIRECTORY_VARIABLE, records)));
        command.envs(ci.map(|ci| ("CI", ci))).output().unwrap()
    }

    #[test]
    fn test_without_its_program_is_not_run() {
        const TEST: &str = "satchel-requirements tests::test_without_its_program_is_not_run";
        if std::env::var_os(INNER).is_some() {
            let found = required(find_programs(&["sh", NO_PROGRAM]));
            assert_eq!(found, None);
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let record = || {
            let mut files = fs::read_dir(directory.path()).unwrap();
            let file = files.next().expect("a record").unwrap().path();
            assert!(files.next().is_none(), "one test, one record");
            let text = fs::read_to_string(&file).unwrap();
            fs::remove_file(file).unwrap();
            text
        };

        let plain = run_inner_test(None, None);
        let printed = String::from_utf8(plain.stdout).unwrap();
        assert!(
            plain.status.success() && printed.contains(&format!("not run: {TEST} needs {NO_PROGRAM}")),
            "{printed}"
        );

        let recorded = run_inner_test(Some(directory.path()), Some(""));
        assert!(recorded.status.success(), "an empty CI is none: {recorded:?}");
        assert_eq!(record(), format!("{TEST}\n{NO_PROGRAM}\n"));

        let failed = run_inner_test(Some(directory.path()), Some("true"));
        let printed = String::from_utf8(failed.stdout).unwrap() + &String::from_utf8(failed.stderr).unwrap();
        assert!(!failed.status.success() && printed.contains("where CI is set every test is run"), "{printed}");
        assert_eq!(record(), format!("{TEST}\n{NO_PROGRAM}\n"));
    }

    #[test]
    fn programs_on_the_path_are_found() {
        assert_eq!(find_programs(&["sh", "ls"]), Ok(()));
        assert_eq!(find_programs(&["a-b-c", "sh", NO_PROGRAM]), Err(format!("a-b-c and {NO_PROGRAM}")));
    }

    #[test]
    fn permissions_bind_even_the_superuser() {
        use std::os::unix::fs::PermissionsExt;

        let Some(()) = required(obey_file_permissions()) else { return };
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("closed");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
        for refused in [fs::write(&file, "x"), fs::read(&file).map(drop)] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
