//! Tests that exclude each other, whichever program and process runs them.

use std::{fs::File, path::PathBuf};

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

fn open(name: &str) -> File {
    let file = File::options().write(true).create(true).truncate(false).open(lock_path(name));
    file.expect("a lock can be opened in the temporary directory")
}

/// Each user has locks of their own, because nobody else may write to them.
fn lock_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("satchel-tests-{}-{name}.lock", rustix::process::geteuid().as_raw()))
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

    #[test]
    fn held_name_keeps_others_away_until_it_is_dropped() {
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
