//! The port `Gateways`: which process receives the messages of a channel.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{GatewayLease, Gateways, LedgerError};

use crate::{SqliteLedger, error::Error};

#[async_trait]
impl Gateways for SqliteLedger {
    async fn claim_gateway(&self, channel: &ChannelName) -> Result<Option<GatewayLease>, LedgerError> {
        let (gateways, channel) = (Arc::clone(&self.gateways), channel.clone());
        let claim = tokio::task::spawn_blocking(move || gateways.claim(&channel)).await;
        let claimed = claim.map_err(|_interrupted| Error::Stopped).and_then(|claimed| Ok(claimed?));
        claimed.map_err(|error| error.at_port("claiming a gateway"))
    }

    async fn is_gateway_held(&self, channel: &ChannelName) -> Result<bool, LedgerError> {
        let (gateways, channel) = (Arc::clone(&self.gateways), channel.clone());
        let look = tokio::task::spawn_blocking(move || gateways.is_held(&channel)).await;
        let held = look.map_err(|_interrupted| Error::Stopped).and_then(|held| Ok(held?));
        held.map_err(|error| error.at_port("looking for a gateway"))
    }

    async fn renew_gateway(&self, lease: &GatewayLease) -> Result<bool, LedgerError> {
        Ok(self.gateways.is_lease_valid(lease))
    }

    async fn release_gateway(&self, lease: &GatewayLease) -> Result<(), LedgerError> {
        self.gateways.release(lease);
        Ok(())
    }
}
