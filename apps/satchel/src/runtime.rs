//! The runtime in which the asynchronous tasks of a process are driven.

use std::{io, thread::available_parallelism};

use tokio::runtime::{Builder, Runtime};

/// A worker looks for tasks that other threads have woken before those of its own queue: the ledger's writer is such a
/// task, at each answer of the database, and everybody waits for it.
const GLOBAL_QUEUE_INTERVAL: u32 = 1;

/// A runtime for a process of Satchel (ADR 0015).
///
/// # Errors
/// When the system gives it no threads or no descriptors.
pub fn runtime() -> io::Result<Runtime> {
    let cores = available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .worker_threads(workers(cores))
        .global_queue_interval(GLOBAL_QUEUE_INTERVAL)
        .enable_all()
        .build()
}

/// Half of the cores. The database, hashes, the writing of files and scripts have threads and processes of their own;
/// and of two workers that answer one person, each wakes the other for nothing.
fn workers(cores: usize) -> usize {
    (cores / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_cores_stay_free() {
        assert_eq!([1, 2, 3, 4, 8, 64].map(workers), [1, 1, 1, 2, 4, 32]);
    }

    #[test]
    fn the_runtime_has_as_many_as_that() {
        let cores = available_parallelism().map_or(1, usize::from);
        assert_eq!(runtime().unwrap().metrics().num_workers(), workers(cores));
    }
}
