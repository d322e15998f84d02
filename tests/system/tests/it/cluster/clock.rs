//! Clocks that are off, which libfaketime shows to the programs under test.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

use std::{fs, io, path::Path, process::Command, sync::OnceLock};

/// Where libfaketime's semaphores and shared memory lie, which are named after the process.
const SHARED_MEMORY: &str = "/dev/shm";

/// How often `faketime` is run to name its library. It fails where a process of its number was killed on this machine
/// before.
const MAX_RUNS: u32 = 10;

/// Sets by how much a program's time of day is off, as `faketime` takes it; its other clocks are right. `faketime` only
/// says how: it doesn't become the program that it runs, which would survive a kill.
pub(super) fn set(command: &mut Command, offset: &str) {
    static LIBRARY: OnceLock<String> = OnceLock::new();
    let library = LIBRARY.get_or_init(find_library);
    command.env("LD_PRELOAD", library).env("FAKETIME", offset).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

fn find_library() -> String {
    let mut complaint = String::new();
    for _ in 0..MAX_RUNS {
        let run = Command::new("faketime").args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"]).output();
        let output = run.expect("faketime can be run");
        let library = String::from_utf8(output.stdout).expect("a path");
        if !library.trim().is_empty() {
            return library.trim().to_owned();
        }
        complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    panic!("faketime names no library: {complaint}");
}

/// Removes what libfaketime leaves behind when its process is killed, and what a later process of the same number would
/// take for its own.
pub(super) fn remove(pid: u32) {
    for name in [format!("sem.faketime_sem_{pid}"), format!("faketime_shm_{pid}")] {
        match fs::remove_file(Path::new(SHARED_MEMORY).join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => eprintln!("a clock can't be removed: {error}"),
            _ => {}
        }
    }
}
