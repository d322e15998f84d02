//! Requests that a fake server performs after it has cut their connections.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{Fault, TestClock};

type LateRequest = Box<dyn FnOnce() + Send>;

/// What [`Fault::AcceptOnRelease`] withholds. Requests refer weakly to their server, which has this.
pub struct LateRequests {
    clock: TestClock,
    withheld: Mutex<Vec<LateRequest>>,
}

impl LateRequests {
    /// None yet; those that are late for a time are so by this clock.
    pub fn new(clock: TestClock) -> Self {
        Self { clock, withheld: Mutex::default() }
    }

    /// Performs a request when its fault says so, unless the server ends before.
    pub fn postpone(&self, fault: Fault, stopped: &CancellationToken, perform: impl FnOnce() + Send + 'static) {
        let Fault::AcceptLate { after_ms } = fault else {
            self.lock().push(Box::new(perform));
            return;
        };
        let (clock, stopped) = (self.clock.clone(), stopped.clone());
        // Taken now: whoever sees the connection cut can advance the clock to it.
        let deadline = clock.now() + Duration::from_millis(after_ms);
        tokio::spawn(async move {
            tokio::select! {
                () = clock.sleep_until(deadline) => perform(),
                () = stopped.cancelled() => {}
            }
        });
    }

    /// Performs all that are withheld, in the order in which they came.
    pub fn release(&self) {
        let requests = std::mem::take(&mut *self.lock());
        requests.into_iter().for_each(|perform| perform());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LateRequest>> {
        self.withheld.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
