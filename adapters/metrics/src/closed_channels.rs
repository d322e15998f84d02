//! Which channels are closed, as they say themselves; read at each scrape.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};
use satchel_ports::Channel;

/// Why a channel is closed: its platform refuses the bot's account.
const ACCOUNT_REFUSED: &str = "account_refused";

/// The channels of this process. They hold the metrics, so they aren't held by them.
#[derive(Default)]
pub(crate) struct WatchedChannels(OnceLock<Vec<(String, Weak<dyn Channel>)>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ClosureLabels {
    channel: String,
    reason: &'static str,
}

impl fmt::Debug for WatchedChannels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WatchedChannels").field(&self.0.get().map(Vec::len)).finish()
    }
}

impl WatchedChannels {
    /// Watches these channels, each under its label.
    pub(crate) fn set(&self, channels: impl Iterator<Item = (String, Arc<dyn Channel>)>) {
        // A process opens its channels once.
        let _first = self.0.set(channels.map(|(label, channel)| (label, Arc::downgrade(&channel))).collect());
    }

    /// Brings the gauges up to date; no series without channels.
    pub(crate) fn measure(&self, gauges: &Family<ClosureLabels, Gauge>) {
        for (label, channel) in self.0.get().into_iter().flatten() {
            let Some(channel) = channel.upgrade() else { continue };
            let labels = ClosureLabels { channel: label.clone(), reason: ACCOUNT_REFUSED };
            gauges.get_or_create(&labels).set(i64::from(channel.state().closure().is_some()));
        }
    }
}
