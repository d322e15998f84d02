//! The port `Gateways`: which process receives the messages of a channel.

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{GatewayLease, Gateways, LedgerError};

use crate::{SqliteLedger, gateways};

#[async_trait]
impl Gateways for SqliteLedger {
    async fn claim_gateway(&self, channel: &ChannelName) -> Result<Option<GatewayLease>, LedgerError> {
        const OPERATION: &str = "claiming a gateway";
        let claimed = channel.clone();
        if !self.read(OPERATION, move |db| gateways::is_free(db, &claimed)).await? {
            return Ok(None);
        }
        let channel = channel.clone();
        self.writer.run(OPERATION, move |db| gateways::claim(db, &channel)).await
    }

    async fn is_gateway_held(&self, channel: &ChannelName) -> Result<bool, LedgerError> {
        let channel = channel.clone();
        self.read("looking for a gateway", move |db| gateways::is_held(db, &channel)).await
    }

    async fn renew_gateway(&self, lease: &GatewayLease) -> Result<bool, LedgerError> {
        let lease = lease.clone();
        self.read("renewing a gateway", move |db| gateways::is_lease_valid(db, &lease)).await
    }

    async fn release_gateway(&self, lease: &GatewayLease) -> Result<(), LedgerError> {
        let lease = lease.clone();
        self.writer.run("releasing a gateway", move |db| gateways::release(db, &lease)).await
    }
}
