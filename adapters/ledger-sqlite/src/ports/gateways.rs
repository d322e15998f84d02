//! The port `Gateways`: which process holds the gateways of channels.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{GatewayDuty, GatewayId, GatewayLease, Gateways, LedgerError};

use crate::{SqliteLedger, error::Error};

#[async_trait]
impl Gateways for SqliteLedger {
    async fn claim_gateway(&self, gateway: &GatewayId) -> Result<Option<GatewayLease>, LedgerError> {
        let (gateways, gateway) = (Arc::clone(&self.gateways), gateway.clone());
        let claim = tokio::task::spawn_blocking(move || gateways.claim(&gateway)).await;
        let claimed = claim.map_err(|_interrupted| Error::Stopped).and_then(|claimed| Ok(claimed?));
        claimed.map_err(|error| error.at_port("claiming a gateway"))
    }

    async fn list_held_gateways(&self, duty: GatewayDuty) -> Result<Vec<ChannelName>, LedgerError> {
        let gateways = Arc::clone(&self.gateways);
        let look = tokio::task::spawn_blocking(move || gateways.list_held(duty)).await;
        let held = look.map_err(|_interrupted| Error::Stopped).and_then(|held| Ok(held?));
        held.map_err(|error| error.at_port("looking for gateways"))
    }

    async fn renew_gateway(&self, lease: &GatewayLease) -> Result<bool, LedgerError> {
        Ok(self.gateways.is_lease_valid(lease))
    }

    async fn release_gateway(&self, lease: &GatewayLease) -> Result<(), LedgerError> {
        self.gateways.release(lease);
        Ok(())
    }
}
