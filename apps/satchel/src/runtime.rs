//! The Tokio runtime of a process, and the time zone of its machine.

use std::{io, thread::available_parallelism};

use jiff::tz::TimeZone;
use tokio::runtime::{Builder, Runtime};

/// Workers check the global queue before their own on every tick: whoever waits for the ledger is woken from the
/// writer's thread, and goes on before work that nobody waits for.
const GLOBAL_QUEUE_INTERVAL: u32 = 1;

/// The stack of each of the runtime's threads, the smallest in the process. What reads the bytes of others gets by with it:
/// the tests render formulas with a quarter of it. It is set here so that `RUST_MIN_STACK` doesn't change it.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// Builds the runtime of a process (ADR 0015).
///
/// # Errors
/// When the system has no threads or no file descriptors left.
pub fn build_runtime() -> io::Result<Runtime> {
    let cores = available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .worker_threads(worker_threads(cores))
        .global_queue_interval(GLOBAL_QUEUE_INTERVAL)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
}

/// Half of the cores. The database, hashing, file writes and scripts have their own threads and processes, and two
/// workers on one conversation would only wake each other.
fn worker_threads(cores: usize) -> usize {
    (cores / 2).max(1)
}

/// The time zone of this machine (`TZ`, or the system's setting), or UTC if it is unknown.
#[must_use]
pub fn machine_zone() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_cores_stay_free() {
        assert_eq!([1, 2, 3, 4, 8, 64].map(worker_threads), [1, 1, 1, 2, 4, 32]);
    }

    #[test]
    fn runtime_uses_half_the_cores() {
        let cores = available_parallelism().map_or(1, usize::from);
        assert_eq!(build_runtime().unwrap().metrics().num_workers(), worker_threads(cores));
    }
}
