//! Tests that exclude each other, whichever program and process runs them.

use std::{env, fs::File, path::PathBuf, process::Command, thread};

/// Keeps other tests away until it is dropped. The kernel releases it when the process dies.
#[derive(Debug)]
#[must_use = "others are let in when it is dropped"]
pub struct TestLock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

/// Waits until no other test holds this name, and holds it alone. A test that takes several names takes them in the order
/// of the alphabet, so that two never wait for each other.
///
/// # Panics
/// When the temporary directory can't be written to.
pub fn alone(name: &str) -> TestLock {
    let file = open(name);
    file.lock().expect("a file in the temporary directory can be locked");
    TestLock(file)
}

/// Waits until no other test holds this name [`alone`], and shares it with the others.
///
/// # Panics
/// When the temporary directory can't be written to.
pub fn shared(name: &str) -> TestLock {
    let file = open(name);
    file.lock_shared().expect("a file in the temporary directory can be locked");
    TestLock(file)
}

/// Names the test that a process was started for.
const OWN_PROCESS_VARIABLE: &str = "TEST_OF_OWN_PROCESS";

/// Whether this test has its process to itself, so that nothing else counts in what it measures of it. Where it hasn't, it is
/// run in a process of its own, which must succeed, and its caller is done: `if !has_own_process() { return }`.
///
/// # Panics
/// When the test fails in its own process.
#[must_use]
pub fn has_own_process() -> bool {
    let thread = thread::current();
    let test = thread.name().expect("a test runs in a thread of its name");
    let is_own = env::var(OWN_PROCESS_VARIABLE).is_ok_and(|own| own == test);
    if is_own || env::var("NEXTEST_EXECUTION_MODE").is_ok_and(|mode| mode == "process-per-test") {
        return true;
    }
    let mut process = Command::new(env::current_exe().expect("a test knows its program"));
    process.args(["--exact", test, "--nocapture"]).env(OWN_PROCESS_VARIABLE, test);
    let output = process.output().expect("a test's program can be started");
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{printed}");
    assert!(output.status.success() && printed.contains("1 passed"), "{test} failed in its own process");
    false
}

fn open(name: &str) -> File {
    let file = File::options().write(true).create(true).truncate(false).open(lock_path(name));
    file.expect("a lock can be opened in the temporary directory")
}

/// Each user has locks of their own, because nobody else may write to them.
fn lock_path(name: &str) -> PathBuf {
    env::temp_dir().join(format!("satchel-tests-{}-{name}.lock", rustix::process::geteuid().as_raw()))
}

#[cfg(test)]
mod tests {
    use std::fs::TryLockError;

    use super::*;

    fn is_free(name: &str) -> bool {
        match open(name).try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(error)) => panic!("{error}"),
        }
    }

    /// Marks the process that stands for `cargo test`, which runs all tests that a filter selects in one process.
    const SHARED_PROCESS: &str = "SATCHEL_REQUIREMENTS_SHARED_PROCESS";

    #[test]
    fn measured_process_runs_one_test() {
        if env::var_os(SHARED_PROCESS).is_some() {
            if has_own_process() {
                println!("measured with {:?}", env::args().skip(1).collect::<Vec<_>>());
            }
        } else {
            let mut process = Command::new(env::current_exe().unwrap());
            process.args(["exclusion::tests::measured", "--nocapture"]).env(SHARED_PROCESS, "1");
            let output =
                process.env_remove("NEXTEST_EXECUTION_MODE").env_remove(OWN_PROCESS_VARIABLE).output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            let expected = r#"measured with ["--exact", "exclusion::tests::measured_process_runs_one_test""#;
            assert!(output.status.success() && printed.contains(expected), "{printed}");
        }
    }

    #[test]
    fn held_name_keeps_others_away_until_it_is_dropped() {
        // A process that another test is just starting has all files open, and so holds the lock for a moment.
        if !has_own_process() {
            return;
        }
        let name = format!("exclusion-{}", std::process::id());
        let held = alone(&name);
        assert!(!is_free(&name) && is_free(&format!("{name}-other")));
        assert!(open(&name).try_lock_shared().is_err(), "nobody shares what is held alone");
        drop(held);
        let (one, two) = (shared(&name), shared(&name));
        drop(one);
        assert!(!is_free(&name), "nobody is alone while others share it");
        drop(two);
        assert!(is_free(&name));
        for name in [name.clone(), format!("{name}-other")] {
            std::fs::remove_file(lock_path(&name)).unwrap();
        }
    }
}
