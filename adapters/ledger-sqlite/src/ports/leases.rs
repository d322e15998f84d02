//! The port `Leases`: who works on which lane.

use std::time::Duration;

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{ClaimedLane, Lease, Leases, LedgerError, ReleaseMode, WorkFilter};

use crate::{SqliteLedger, lanes};

#[async_trait]
impl Leases for SqliteLedger {
    async fn claim_lane(
        &self,
        channels: &[ChannelName],
        filter: WorkFilter,
    ) -> Result<Option<ClaimedLane>, LedgerError> {
        const OPERATION: &str = "claiming a lane";
        let (channels, wanted) = (channels.to_vec(), filter.clone());
        let candidates = self.read(OPERATION, move |db| lanes::find_candidates(db, &channels, &wanted)).await?;
        if candidates.is_empty() {
            return Ok(None);
        }
        self.writer.run(OPERATION, move |db| lanes::claim_first(db, &candidates, &filter)).await
    }

    async fn longest_wait(&self) -> Result<Option<Duration>, LedgerError> {
        self.read("looking for turns that wait", lanes::longest_wait).await
    }

    async fn renew(&self, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let leases = leases.to_vec();
        self.writer.run("renewing leases", move |db| lanes::renew(db, &leases)).await
    }

    async fn release(&self, lease: &Lease, release: ReleaseMode) -> Result<bool, LedgerError> {
        let lease = lease.clone();
        self.writer.run("releasing a lane", move |db| lanes::release(db, &lease, release)).await
    }
}
