//! The port `Leases`: who works on which lane.

use std::time::Duration;

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{ClaimedLane, Lease, Leases, LedgerError, ReleaseMode, WorkFilter};

use crate::{PostgresLedger, lanes};

#[async_trait]
impl Leases for PostgresLedger {
    async fn claim_lane(
        &self,
        channels: &[ChannelName],
        filter: WorkFilter,
    ) -> Result<Option<ClaimedLane>, LedgerError> {
        // It writes nothing, and so costs no commit, where there is nothing to claim.
        let filter = &filter;
        self.write("claiming a lane", |db| async move { lanes::claim_first(&db, channels, filter).await }).await
    }

    async fn longest_wait(&self) -> Result<Option<Duration>, LedgerError> {
        self.read("looking for turns that wait", |db| async move { lanes::longest_wait(&db).await }).await
    }

    async fn renew(&self, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        self.renew_lease("renewing leases", |db| async move { lanes::renew(&db, leases).await }).await
    }

    async fn release(&self, lease: &Lease, release: ReleaseMode) -> Result<bool, LedgerError> {
        self.write("releasing a lane", |db| async move { lanes::release(&db, lease, release).await }).await
    }
}
