//! Counts the gateways that a process takes over, and shows which it holds.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{GatewayDuty, GatewayId, GatewayLease, Gateways, LedgerError};

use super::{GatewayLabels, Metrics};

/// A port of gateways that counts.
pub struct MeasuredGateways {
    inner: Arc<dyn Gateways>,
    metrics: Arc<Metrics>,
    /// Those for which this process waits.
    waited_for: Mutex<HashSet<GatewayId>>,
}

impl MeasuredGateways {
    /// Counts what `inner` gives to this process.
    #[must_use]
    pub fn new(inner: Arc<dyn Gateways>, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics, waited_for: Mutex::default() }
    }

    fn labels(&self, GatewayId { channel, duty }: &GatewayId) -> GatewayLabels {
        GatewayLabels { channel: self.metrics.channel_label(channel.as_str()), duty: duty.as_str() }
    }

    fn set_held(&self, gateway: &GatewayId, is_held: bool) {
        self.metrics.gateways_held.get_or_create(&self.labels(gateway)).set(is_held.into());
    }
}

#[async_trait]
#[warn(clippy::missing_trait_methods)]
impl Gateways for MeasuredGateways {
    async fn claim_gateway(&self, gateway: &GatewayId) -> Result<Option<GatewayLease>, LedgerError> {
        let claimed = self.inner.claim_gateway(gateway).await?;
        self.set_held(gateway, claimed.is_some());
        let mut waited_for = self.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
        if claimed.is_none() {
            waited_for.insert(gateway.clone());
        } else if waited_for.remove(gateway) {
            self.metrics.gateway_takeovers.get_or_create(&self.labels(gateway)).inc();
        }
        Ok(claimed)
    }

    async fn list_held_gateways(&self, duty: GatewayDuty) -> Result<Vec<ChannelName>, LedgerError> {
        self.inner.list_held_gateways(duty).await
    }

    async fn renew_gateway(&self, lease: &GatewayLease) -> Result<bool, LedgerError> {
        let is_held = self.inner.renew_gateway(lease).await?;
        self.set_held(&lease.gateway, is_held);
        Ok(is_held)
    }

    async fn release_gateway(&self, lease: &GatewayLease) -> Result<(), LedgerError> {
        self.set_held(&lease.gateway, false);
        self.inner.release_gateway(lease).await
    }
}
