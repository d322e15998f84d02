//! The clock by which a guest that runs too long is stopped. It ticks only while guests run.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use wasmtime::Engine;

const TICK: Duration = Duration::from_millis(100);

/// Advances the epoch of an engine while calls are in progress.
pub(crate) struct EpochClock(Arc<ClockState>);

#[derive(Default)]
struct ClockState {
    calls: Mutex<Calls>,
    changed: Condvar,
}

#[derive(Default)]
struct Calls {
    /// How many are in progress.
    running: usize,
    /// Whether the clock is gone.
    closed: bool,
}

impl EpochClock {
    /// Starts the thread of the clock, which ends with it.
    pub(crate) fn start(engine: Engine) -> io::Result<Self> {
        let state = Arc::new(ClockState::default());
        let thread_state = Arc::clone(&state);
        thread::Builder::new().name("sandbox-clock".to_owned()).spawn(move || tick(&engine, &thread_state))?;
        Ok(Self(state))
    }

    /// Lets the clock tick until the guard is dropped.
    pub(crate) fn run(&self) -> RunningCall<'_> {
        let mut calls = self.0.lock();
        calls.running += 1;
        if calls.running == 1 {
            self.0.changed.notify_one();
        }
        RunningCall(&self.0)
    }
}

impl Drop for EpochClock {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_one();
    }
}

/// A call in progress.
pub(crate) struct RunningCall<'a>(&'a ClockState);

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

impl ClockState {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tick(engine: &Engine, state: &ClockState) {
    loop {
        let calls = state.changed.wait_while(state.lock(), |calls| calls.running == 0 && !calls.closed);
        if calls.unwrap_or_else(PoisonError::into_inner).closed {
            return;
        }
        thread::sleep(TICK);
        engine.increment_epoch();
    }
}

/// After how many ticks a duration has surely passed: the first one may come at once.
pub(crate) fn ticks(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u64::MAX).min(u64::MAX / 4) + 1
}
