//! Connects the core: what comes in, the lanes that work on it, and maintenance.

use std::sync::{Arc, atomic::AtomicU64};

use satchel_domain::ChannelName;
use satchel_intake::{InboundService, InternalInbound};
use satchel_ports::{Inbound, ToolSpec};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    maintenance::Maintenance,
    runner::{DEFAULT_MAX_LANES, LaneRunner, WorkerContext},
};

pub struct Satchel {
    /// Accepts the messages of the channels.
    pub inbound: Arc<dyn Inbound>,
    /// Accepts the turns that Satchel starts itself. Channels have no access to it.
    pub internal_inbound: InternalInbound,
    /// Runs turns and deliveries; nothing happens until it is started.
    pub runner: Runner,
    /// The tools of the default agent.
    pub tools: Arc<[ToolSpec]>,
}

/// Runs the turns and deliveries of the claimed lanes, and the maintenance of the stores.
pub struct Runner {
    lanes: LaneRunner,
    maintenance: Maintenance,
}

impl Runner {
    /// Returns the number of leases that were lost to other processes, or not renewed in time. It grows as that happens.
    #[must_use]
    pub fn lost_leases(&self) -> Arc<AtomicU64> {
        self.lanes.lost_leases()
    }

    /// Runs until `stop` is cancelled; then finishes the parts in flight, releases the lanes and returns.
    pub async fn run(self, stop: CancellationToken) {
        let (prepared, ready) = oneshot::channel();
        let lanes = async {
            // Where maintenance has failed it is dropped, and the lanes are worked all the same.
            let _ = ready.await;
            self.lanes.run(stop.clone()).await;
        };
        run_with_maintenance(lanes, self.maintenance.run(prepared, stop.clone())).await;
    }
}

/// Runs `work` to its end. Maintenance is a separate task: a panic there must not abort deliveries in flight.
async fn run_with_maintenance(work: impl Future<Output = ()>, maintenance: impl Future<Output = ()> + Send + 'static) {
    let maintenance = tokio::spawn(maintenance);
    let report = async {
        if let Err(error) = maintenance.await {
            tracing::error!(%error, "maintenance failed; unused files are not removed until the next start");
        }
    };
    tokio::join!(work, report);
}

/// Connects what accepts messages with the lanes that work on them.
#[must_use]
pub fn build(context: WorkerContext) -> Satchel {
    let WorkerContext { ledger, services, blobs, workspace, channels, access, .. } = &context;
    let (claim_sender, claim_receiver) = mpsc::channel(DEFAULT_MAX_LANES);
    let maintenance = Maintenance {
        storage: Arc::clone(&ledger.storage),
        conversations: Arc::clone(&ledger.conversations),
        clock: Arc::clone(&services.clock),
        blobs: Arc::clone(blobs),
        workspace: Arc::clone(workspace),
    };
    let (clock, bus) = (Arc::clone(&services.clock), Arc::clone(&services.bus));
    let hosted: Vec<ChannelName> = channels.keys().cloned().collect();
    let (access, workspace, links) = (Arc::clone(access), Arc::clone(workspace), services.links.clone());
    let inbound_service = InboundService::new(ledger, clock, bus, claim_sender, access, workspace, links)
        .with_hosted_channels(hosted)
        .with_channels(channels.clone())
        .with_agents(Arc::clone(services.agents.directory()));
    let internal_inbound = inbound_service.internal_inbound();
    let tools = services.agents.default_agent().tools.specs();
    let runner = Runner { lanes: LaneRunner::new(context, claim_receiver), maintenance };
    Satchel { inbound: Arc::new(inbound_service), internal_inbound, runner, tools }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_outlives_a_panic_of_maintenance() {
        let (release, released) = oneshot::channel::<()>();
        let done = std::cell::Cell::new(false);
        let work = async {
            // The sender falls with the panic.
            let _closed = released.await;
            tokio::task::yield_now().await;
            done.set(true);
        };
        run_with_maintenance(work, async move {
            let _release = release;
            panic!("the store is broken");
        })
        .await;
        assert!(done.get());
    }
}
