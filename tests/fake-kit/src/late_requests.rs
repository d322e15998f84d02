//! Requests that a fake server performs after it has cut their connections.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::Fault;

type LateRequest = Box<dyn FnOnce() + Send>;

/// What [`Fault::AcceptOnRelease`] withholds. Requests refer weakly to their server, which has this.
#[derive(Default)]
pub struct LateRequests(Mutex<Vec<LateRequest>>);

impl LateRequests {
    /// Performs a request when its fault says so, unless the server ends before.
    pub fn postpone(&self, fault: Fault, stopped: &CancellationToken, perform: impl FnOnce() + Send + 'static) {
        let Fault::AcceptLate { after_ms } = fault else {
            self.lock().push(Box::new(perform));
            return;
        };
        let stopped = stopped.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(after_ms)) => perform(),
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
