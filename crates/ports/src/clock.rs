//! Time and new ids, which come into the core from outside, so that its decisions depend on its input alone.

use std::fmt::Debug;
#[cfg(feature = "mocks")]
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
#[cfg(feature = "mocks")]
use std::time::Duration;

use satchel_domain::Timestamp;
use uuid::Uuid;

/// The time. All parts of a process use the same instance, because they compare each other's times.
///
/// # Contract
/// - `now` never goes back, and goes on while the wall clock is set back; it follows a wall clock that leaps ahead.
pub trait Clock: Debug + Send + Sync {
    /// Returns the time for leases, waits and everything that is stored.
    fn now(&self) -> Timestamp;

    /// Returns what the wall clock shows, which may go back. For times that people set, such as those of schedules, and
    /// those that files carry.
    fn wall(&self) -> Timestamp;
}

/// The source of new ids.
///
/// # Contract
/// - An id never repeats, in this process or another.
/// - Ids of one process sort in the order in which they were made.
pub trait Ids: Debug + Send + Sync {
    /// Returns a new id.
    fn next(&self) -> Uuid;
}

/// A clock that stands still until a test moves it.
#[cfg(feature = "mocks")]
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

#[cfg(feature = "mocks")]
impl ManualClock {
    /// Makes a clock that shows this time.
    #[must_use]
    pub fn at(time: Timestamp) -> Self {
        Self(AtomicI64::new(time.0))
    }

    /// Moves the clock to this time.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.0, Ordering::Relaxed);
    }

    /// Moves the clock ahead.
    pub fn advance(&self, duration: Duration) {
        self.set(self.now().saturating_add(duration));
    }
}

#[cfg(feature = "mocks")]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

/// A clock that goes with Tokio's, and so with its paused time. It starts at zero.
#[cfg(feature = "mocks")]
#[derive(Debug)]
pub struct TokioClock(tokio::time::Instant);

#[cfg(feature = "mocks")]
impl Default for TokioClock {
    fn default() -> Self {
        Self(tokio::time::Instant::now())
    }
}

#[cfg(feature = "mocks")]
impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp(0).saturating_add(self.0.elapsed())
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

/// Ids that count up, from 1 unless told otherwise.
#[cfg(feature = "mocks")]
#[derive(Debug, Default)]
pub struct SequentialIds(AtomicU64);

#[cfg(feature = "mocks")]
impl SequentialIds {
    /// Makes a source whose first id is this.
    #[must_use]
    pub fn starting_at(first: u64) -> Self {
        Self(AtomicU64::new(first - 1))
    }
}

#[cfg(feature = "mocks")]
impl Ids for SequentialIds {
    fn next(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1)
    }
}
