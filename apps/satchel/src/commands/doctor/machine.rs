//! Checks the system's limits, the user, and other processes.

use rustix::process::{Resource, geteuid, getrlimit};

use super::Finding;

/// Fewer open files than this may not be enough under load.
const LOW_FILE_LIMIT: u64 = 1024;

/// Fewer open files than this are not enough for the database, the page and a few uploads.
const MIN_FILE_LIMIT: u64 = 128;

/// Checks how many files may be open at once.
pub(super) fn check_limits() -> Vec<Finding> {
    let limit = getrlimit(Resource::Nofile).current;
    let advice = "raise the limit: `ulimit -n 8192` in a shell, `LimitNOFILE=8192` in a systemd unit";
    let found = |limit: u64| format!("{limit} files may be open at once");
    vec![match limit {
        None => Finding::ok("limits", "any number of files may be open at once"),
        Some(limit) if limit < MIN_FILE_LIMIT => Finding::problem("limits", found(limit), advice),
        Some(limit) if limit < LOW_FILE_LIMIT => Finding::warning("limits", found(limit), advice),
        Some(limit) => Finding::ok("limits", found(limit)),
    }]
}

pub(super) fn check_user() -> Vec<Finding> {
    match geteuid().is_root() {
        true => vec![Finding::warning(
            "user",
            "Satchel runs as root",
            "run Satchel as its own user; it only needs access to its data directory",
        )],
        false => Vec::new(),
    }
}

/// Reports the other processes that use the data directory; `None` if that is unknown.
pub(super) fn check_processes(running: Option<usize>) -> Finding {
    const CHECK: &str = "processes";
    match running {
        None => Finding::ok(CHECK, "failed to find out which processes have the database open"),
        Some(0) => Finding::ok(CHECK, "no other process has the data directory open"),
        Some(1) => Finding::ok(CHECK, "one other process has the data directory open"),
        Some(count) => Finding::ok(CHECK, format!("{count} other processes have the data directory open")),
    }
}
