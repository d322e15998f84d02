//! Events between processes that did not arrive, as the bus counts them; read at each scrape.

use std::{
    fmt,
    sync::{OnceLock, atomic::Ordering},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

/// How many events did not arrive since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostEvents {
    /// Those of other processes that this one can't read: of a later version, of an unknown type, or malformed.
    pub skipped: u64,
    /// Those of this process that were not published because the server was away for too long.
    pub dropped: u64,
}

type CountLostEvents = Box<dyn Fn() -> LostEvents + Send + Sync>;

/// Where the numbers come from, where events leave the process at all.
#[derive(Default)]
pub(crate) struct LostEventSource(OnceLock<CountLostEvents>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct LostEventLabels {
    reason: &'static str,
}

impl fmt::Debug for LostEventSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LostEventSource").field(&self.0.get().is_some()).finish()
    }
}

impl LostEventSource {
    pub(crate) fn set(&self, count: CountLostEvents) {
        // Nobody opens two buses.
        let _first = self.0.set(count);
    }

    /// Brings the counters up to date; no series without a source.
    pub(crate) fn measure(&self, counters: &Family<LostEventLabels, Counter>) {
        let Some(count) = self.0.get() else { return };
        let LostEvents { skipped, dropped } = count();
        for (reason, events) in [("skipped", skipped), ("dropped", dropped)] {
            counters.get_or_create(&LostEventLabels { reason }).inner().store(events, Ordering::Relaxed);
        }
    }
}
