//! The port `Leases`: who works on which lane.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{ClaimedLane, Lease, Leases, LedgerError, ReleaseMode};

use super::read;
use crate::{SqliteLedger, lanes};

#[async_trait]
impl Leases for SqliteLedger {
    async fn claim_lane(&self, channels: &[ChannelName]) -> Result<Option<ClaimedLane>, LedgerError> {
        let candidates = read!(self, "claiming a lane", lanes::find, &self.process, channels)?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let (process, until) = (Arc::clone(&self.process), self.lease_end());
        let taken = self
            .writer
            .write("claiming a lane", move |s| {
                Box::pin(async move { lanes::take_first(s, &process, &candidates).await })
            })
            .await?;
        if let Some(taken) = &taken {
            self.held.claimed(&taken.lease, until);
        }
        Ok(taken)
    }

    async fn renew(&self, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (process, until) = (Arc::clone(&self.process), self.lease_end());
        let renewed = leases.to_vec();
        let lost = self
            .writer
            .write("renewing leases", move |s| Box::pin(async move { lanes::renew(s, &process, &renewed).await }))
            .await?;
        self.held.renewed(leases, &lost, until);
        Ok(lost)
    }

    async fn release(&self, lease: &Lease, release: ReleaseMode) -> Result<bool, LedgerError> {
        // Before: once it is given back, another process may change what is known of it.
        self.held.given_back(lease);
        let lease = lease.clone();
        self.writer
            .write("releasing a lane", move |s| Box::pin(async move { lanes::release(s, &lease, release).await }))
            .await
    }
}
