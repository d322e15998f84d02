//! Which channels have delivery workers, to which an agent hands over the lanes of its completed turns.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use satchel_domain::ChannelName;
use satchel_ports::ledger::{GatewayDuty, Gateways, LedgerError};

/// Whether lanes are handed over, by channel. None is before the first refresh.
#[derive(Debug, Default)]
pub struct HandoverTable {
    flags: Mutex<HashMap<ChannelName, Arc<AtomicBool>>>,
}

impl HandoverTable {
    /// The flag of a channel, which changes with each refresh.
    pub(super) fn flag(&self, channel: &ChannelName) -> Arc<AtomicBool> {
        let mut flags = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(flags.entry(channel.clone()).or_default())
    }

    /// Returns which of these channels have delivery workers, and sets their flags until the next call.
    pub(super) async fn refresh(
        &self,
        gateways: &dyn Gateways,
        channels: &[ChannelName],
    ) -> Result<Vec<ChannelName>, LedgerError> {
        let mut served = gateways.list_held_gateways(GatewayDuty::Deliver).await?;
        served.retain(|channel| channels.contains(channel));
        for channel in channels {
            let are_there = served.contains(channel);
            if self.flag(channel).swap(are_there, Ordering::Relaxed) != are_there {
                match are_there {
                    true => tracing::info!(%channel, "delivery workers send what this process replies"),
                    false => {
                        tracing::info!(%channel, "there is no delivery worker; this process sends what it replies")
                    }
                }
            }
        }
        Ok(served)
    }
}
