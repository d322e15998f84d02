//! What the system gives this process: open files, the user, other processes beside it.

use rustix::process::{Resource, geteuid, getrlimit};

use super::Finding;

/// Fewer open files than this end a busy evening.
const FEW_FILES: u64 = 1024;

/// With fewer than this hardly anything works: the database, the page and a few uploads need them.
const TOO_FEW_FILES: u64 = 128;

/// How many files may be open at once.
pub(super) fn limits() -> Vec<Finding> {
    let limit = getrlimit(Resource::Nofile).current;
    let advice = "raise the limit: `ulimit -n 8192` in a shell, `LimitNOFILE=8192` in a systemd unit";
    let found = |limit: u64| format!("{limit} files may be open at once");
    vec![match limit {
        None => Finding::ok("limits", "any number of files may be open at once"),
        Some(limit) if limit < TOO_FEW_FILES => Finding::problem("limits", found(limit), advice),
        Some(limit) if limit < FEW_FILES => Finding::warning("limits", found(limit), advice),
        Some(limit) => Finding::ok("limits", found(limit)),
    }]
}

pub(super) fn user() -> Vec<Finding> {
    match geteuid().is_root() {
        true => vec![Finding::warning(
            "user",
            "Satchel runs as root",
            "run Satchel as its own user; it only needs access to its data directory",
        )],
        false => Vec::new(),
    }
}

/// Who else works with the data directory; `None` when that could not be found out.
pub(super) fn processes(living: Option<usize>) -> Finding {
    const CHECK: &str = "processes";
    match living {
        None => Finding::ok(CHECK, "failed to find out which processes have the database open"),
        Some(0) => Finding::ok(CHECK, "no other process has the data directory open"),
        Some(1) => Finding::ok(CHECK, "one other process has the data directory open"),
        Some(more) => Finding::ok(CHECK, format!("{more} other processes have the data directory open")),
    }
}
