//! The port `Gateways`: which process holds the gateways of channels.

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{GatewayDuty, GatewayId, GatewayLease, Gateways, LedgerError};

use crate::{PostgresLedger, gateways};

#[async_trait]
impl Gateways for PostgresLedger {
    async fn claim_gateway(&self, gateway: &GatewayId) -> Result<Option<GatewayLease>, LedgerError> {
        const OPERATION: &str = "claiming a gateway";
        if !self.read(OPERATION, |db| async move { gateways::is_free(&db, gateway).await }).await? {
            return Ok(None);
        }
        self.write(OPERATION, |db| async move { gateways::claim(&db, gateway).await }).await
    }

    async fn list_held_gateways(&self, duty: GatewayDuty) -> Result<Vec<ChannelName>, LedgerError> {
        self.read("looking for gateways", |db| async move { gateways::list_held(&db, duty).await }).await
    }

    async fn renew_gateway(&self, lease: &GatewayLease) -> Result<bool, LedgerError> {
        self.renew_lease("renewing a gateway", |db| async move { gateways::renew(&db, lease).await }).await
    }

    async fn release_gateway(&self, lease: &GatewayLease) -> Result<(), LedgerError> {
        self.write("releasing a gateway", |db| async move { gateways::release(&db, lease).await }).await
    }
}
