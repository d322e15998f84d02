//! Counts the gateways that a process takes over, and shows which it holds.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{DELIVERY_GATEWAY, GatewayLease, Gateways, LedgerError};

use super::{ChannelLabels, Metrics};

/// A port of gateways that counts.
pub struct MeasuredGateways {
    inner: Arc<dyn Gateways>,
    metrics: Arc<Metrics>,
    /// Those for which this process waits.
    waited_for: Mutex<HashSet<ChannelName>>,
}

impl MeasuredGateways {
    /// Counts what `inner` gives to this process.
    #[must_use]
    pub fn new(inner: Arc<dyn Gateways>, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics, waited_for: Mutex::default() }
    }

    fn labels(&self, channel: &ChannelName) -> ChannelLabels {
        match channel.as_str() {
            DELIVERY_GATEWAY => ChannelLabels { channel: DELIVERY_GATEWAY.to_owned() },
            name => ChannelLabels { channel: self.metrics.channel_label(name) },
        }
    }

    fn set_held(&self, channel: &ChannelName, is_held: bool) {
        self.metrics.gateways_held.get_or_create(&self.labels(channel)).set(is_held.into());
    }
}

#[async_trait]
#[warn(clippy::missing_trait_methods)]
impl Gateways for MeasuredGateways {
    async fn claim_gateway(&self, channel: &ChannelName) -> Result<Option<GatewayLease>, LedgerError> {
        let claimed = self.inner.claim_gateway(channel).await?;
        self.set_held(channel, claimed.is_some());
        let mut waited_for = self.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
        if claimed.is_none() {
            waited_for.insert(channel.clone());
        } else if waited_for.remove(channel) {
            self.metrics.gateway_takeovers.get_or_create(&self.labels(channel)).inc();
        }
        Ok(claimed)
    }

    async fn is_gateway_held(&self, channel: &ChannelName) -> Result<bool, LedgerError> {
        self.inner.is_gateway_held(channel).await
    }

    async fn renew_gateway(&self, lease: &GatewayLease) -> Result<bool, LedgerError> {
        let is_held = self.inner.renew_gateway(lease).await?;
        self.set_held(&lease.channel, is_held);
        Ok(is_held)
    }

    async fn release_gateway(&self, lease: &GatewayLease) -> Result<(), LedgerError> {
        self.set_held(&lease.channel, false);
        self.inner.release_gateway(lease).await
    }
}
