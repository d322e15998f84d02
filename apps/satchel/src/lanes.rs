//! The workers: which lanes this process holds, and the loop that begins, wakes, renews and ends them.

mod lane;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use satchel_agent::Services;
use satchel_domain::{ChannelName, ConversationId, delivery::DeliveryRules};
use satchel_intake::prepare::InboundLimits;
use satchel_ports::{Blobs, Channel, Event, Lease, Speech};
use tokio::{
    sync::{Notify, mpsc},
    task::{self, JoinError, JoinSet},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;

/// How often leases are renewed; they last three times as long.
const RENEW: Duration = Duration::from_secs(10);

/// After how long without a renewal this process no longer trusts its leases.
const TRUST: Duration = Duration::from_secs(25);

/// How often the ledger is asked for lanes that nobody woke us for.
const LOOK: Duration = Duration::from_secs(2);

/// What the work on every lane needs.
#[derive(Clone)]
pub struct Hosting {
    /// What turns need.
    pub services: Services,
    /// Where bytes lie.
    pub blobs: Arc<dyn Blobs>,
    /// Who speaks.
    pub speech: Option<Arc<dyn Speech>>,
    /// The channels that this process hosts.
    pub channels: HashMap<ChannelName, Arc<dyn Channel>>,
    /// How parts are retried and given up.
    pub rules: DeliveryRules,
    /// What may come in.
    pub inbound: InboundLimits,
}

/// The lanes of this process.
pub struct Lanes {
    hosting: Hosting,
    claimed: mpsc::Receiver<Lease>,
}

/// A lane that is being worked on.
struct Held {
    lease: Lease,
    wake: Arc<Notify>,
    lost: CancellationToken,
    task: task::Id,
}

impl Lanes {
    /// Takes on the lanes that come through `claimed`, and those found in the ledger.
    #[must_use]
    pub fn new(hosting: Hosting, claimed: mpsc::Receiver<Lease>) -> Self {
        Self { hosting, claimed }
    }

    /// Works until `stop` is cancelled; then finishes the parts in flight, gives the lanes back and returns.
    pub async fn run(mut self, stop: CancellationToken) {
        let channels: Vec<ChannelName> = self.hosting.channels.keys().cloned().collect();
        let most = self.claimed.max_capacity();
        let mut held: HashMap<ConversationId, Held> = HashMap::new();
        let mut working: JoinSet<()> = JoinSet::new();
        let mut events = self.listen().await;
        let mut look = interval(LOOK);
        let mut renew = interval(RENEW);
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(lease) = self.claimed.recv() => self.begin(lease, &mut held, &mut working, &stop),
                Some(ended) = working.join_next_with_id() => forget(ended, &mut held),
                Some(event) = events.next() => {
                    if let Event::MessageReceived { conversation, .. } = event
                        && let Some(lane) = held.get(&conversation)
                    {
                        lane.wake.notify_one();
                    }
                }
                _ = look.tick() => {
                    while working.len() < most
                        && let Some(lease) = self.take(&channels).await
                    {
                        self.begin(lease, &mut held, &mut working, &stop);
                    }
                }
                _ = renew.tick() => self.renew(&held, &mut renewed).await,
            }
        }
        // Leases outlast the longest send, and whoever overstays is cut off.
        let wind_down = async { while working.join_next().await.is_some() {} };
        if tokio::time::timeout(TRUST, wind_down).await.is_err() {
            tracing::warn!(
                lanes = working.len(),
                "stopped while parts were in flight; they will be checked at the start"
            );
        }
    }

    async fn listen(&self) -> satchel_ports::event_bus::EventStream {
        match self.hosting.services.bus.subscribe().await {
            Ok(events) => events,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the bus can't be heard; work is looked for instead"
                );
                Box::pin(futures::stream::pending())
            }
        }
    }

    fn begin(
        &self,
        lease: Lease,
        held: &mut HashMap<ConversationId, Held>,
        working: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        let (wake, lost) = (Arc::new(Notify::new()), CancellationToken::new());
        let work =
            lane::work(self.hosting.clone(), lease.clone(), Arc::clone(&wake), lost.clone(), stop.clone());
        let task = working.spawn(work).id();
        held.insert(lease.conversation.clone(), Held { lease, wake, lost, task });
    }

    async fn take(&self, channels: &[ChannelName]) -> Option<Lease> {
        match self.hosting.services.ledger.take_lane(channels).await {
            Ok(lease) => lease,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the ledger can't be asked for work");
                None
            }
        }
    }

    async fn renew(&self, held: &HashMap<ConversationId, Held>, renewed: &mut Instant) {
        let leases: Vec<Lease> = held.values().map(|lane| lane.lease.clone()).collect();
        if leases.is_empty() {
            *renewed = Instant::now();
            return;
        }
        match self.hosting.services.ledger.renew(&leases).await {
            Ok(lost) => {
                *renewed = Instant::now();
                for lease in lost {
                    // A lane that ended meanwhile is no longer renewed and counts as lost too; its token matters to nobody.
                    if let Some(lane) = held.get(&lease.conversation) {
                        tracing::debug!(chat.id = %lease.conversation, "the lane has another owner");
                        lane.lost.cancel();
                    }
                }
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "leases could not be renewed");
                if renewed.elapsed() >= TRUST {
                    held.values().for_each(|lane| lane.lost.cancel());
                }
            }
        }
    }
}

/// Takes a lane off the books whose work has ended. The lease of one that panicked is no longer renewed, so that the
/// lane is taken again, as after the death of a process.
fn forget(ended: Result<(task::Id, ()), JoinError>, held: &mut HashMap<ConversationId, Held>) {
    let id = match ended {
        Ok((id, ())) => id,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the work on a lane broke down");
            error.id()
        }
    };
    held.retain(|_, lane| lane.task != id);
}

fn interval(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
