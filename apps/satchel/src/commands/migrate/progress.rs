//! Shows on a terminal how far a move is.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use satchel_domain::size::format_bytes;
use tokio::task::JoinHandle;

const INTERVAL: Duration = Duration::from_millis(500);

/// How many items there are, and how many are done.
#[derive(Debug)]
struct Counters {
    noun: &'static str,
    total: u64,
    total_bytes: u64,
    done: AtomicU64,
    bytes: AtomicU64,
}

/// What is shown until it is finished or dropped.
pub(super) struct Progress {
    counters: Arc<Counters>,
    task: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins to show it, if standard error is a terminal. A `total` of 0 is one that is not known.
    pub(super) fn start(noun: &'static str, total: u64, total_bytes: u64) -> Self {
        let counters =
            Arc::new(Counters { noun, total, total_bytes, done: AtomicU64::new(0), bytes: AtomicU64::new(0) });
        let shown = Arc::clone(&counters);
        let show = async move {
            let mut interval = tokio::time::interval(INTERVAL);
            loop {
                interval.tick().await;
                let _ = write!(std::io::stderr(), "\r{}\u{1b}[K", shown.describe());
            }
        };
        let task = std::io::stderr().is_terminal().then(|| tokio::spawn(show));
        Self { counters, task }
    }

    /// Counts what is done.
    pub(super) fn add(&self, items: u64, bytes: u64) {
        self.counters.done.fetch_add(items, Ordering::Relaxed);
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes the line away.
    pub(super) async fn finish(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ended = task.await;
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Counters {
    fn describe(&self) -> String {
        let (done, bytes) = (self.done.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let of = |total: u64, text: String| if total > 0 { format!(" of {text}") } else { String::new() };
        let items = format!("{} {done}{}", self.noun, of(self.total, self.total.to_string()));
        match self.total_bytes {
            0 => items,
            total => format!("{items}, {}{}", format_bytes(bytes), of(total, format_bytes(total))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_tells_what_is_done_of_what() {
        let progress = Progress::start("files", 12, 4_000_000);
        progress.add(3, 1_000_000);
        assert_eq!(progress.counters.describe(), "files 3 of 12, 1 MB of 4 MB");
        let progress = Progress::start("rows", 0, 0);
        progress.add(200, 0);
        assert_eq!(progress.counters.describe(), "rows 200");
    }
}
