//! The port `Gateways`: which process receives the messages of a channel.

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{GatewayLease, Gateways, LedgerError};

use crate::{PostgresLedger, gateways};

#[async_trait]
impl Gateways for PostgresLedger {
    async fn claim_gateway(&self, channel: &ChannelName) -> Result<Option<GatewayLease>, LedgerError> {
        const OPERATION: &str = "claiming a gateway";
        if !self.read(OPERATION, |db| async move { gateways::is_free(&db, channel).await }).await? {
            return Ok(None);
        }
        self.write(OPERATION, |db| async move { gateways::claim(&db, channel).await }).await
    }

    async fn is_gateway_held(&self, channel: &ChannelName) -> Result<bool, LedgerError> {
        self.read("looking for a gateway", |db| async move { gateways::is_held(&db, channel).await }).await
    }

    async fn renew_gateway(&self, lease: &GatewayLease) -> Result<bool, LedgerError> {
        self.renew_lease("renewing a gateway", |db| async move { gateways::renew(&db, lease).await }).await
    }

    async fn release_gateway(&self, lease: &GatewayLease) -> Result<(), LedgerError> {
        self.write("releasing a gateway", |db| async move { gateways::release(&db, lease).await }).await
    }
}
