//! The lanes that this process works on, and the loop that starts, wakes, renews and ends them.

mod turn_slots;
mod worker;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{
    StreamExt,
    future::{BoxFuture, FutureExt, OptionFuture},
};
use satchel_agent::AgentServices;
use satchel_domain::{ChannelName, ConversationId, TurnId, delivery::DeliveryRules};
use satchel_intake::{access::AccessPolicy, inbound_service::ClaimedLane, prepare::InboundLimits};
use satchel_ports::{Blobs, BusEvent, Channel, Lease, Leases, Ledger, LedgerError, Speech, Workspace, ledger::Quotas};
use tokio::{
    sync::{Notify, mpsc},
    task::{self, JoinError, JoinSet},
    time::{Instant, Interval, MissedTickBehavior, sleep_until},
};
use tokio_util::sync::CancellationToken;

pub use self::turn_slots::TurnSlots;

/// How many lanes this process works at once; further ones wait in the ledger.
pub(crate) const DEFAULT_MAX_LANES: usize = 256;

/// What the work on every lane needs.
#[derive(Clone)]
pub struct WorkerContext {
    /// All ports of the store.
    pub ledger: Ledger,
    pub services: AgentServices,
    /// Where bytes lie.
    pub blobs: Arc<dyn Blobs>,
    /// The conversations' own files.
    pub workspace: Arc<dyn Workspace>,
    /// How much may be kept.
    pub quotas: Quotas,
    pub speech: Option<Arc<dyn Speech>>,
    /// The channels that this process hosts.
    pub channels: HashMap<ChannelName, Arc<dyn Channel>>,
    /// How parts are retried and given up.
    pub rules: DeliveryRules,
    /// What may come in.
    pub inbound: InboundLimits,
    /// Who may do what.
    pub access: Arc<AccessPolicy>,
    /// How many turns of one person run at once.
    pub turn_slots: Arc<TurnSlots>,
}

/// The lanes of this process.
pub struct LaneRunner {
    context: WorkerContext,
    claimed: mpsc::Receiver<ClaimedLane>,
    intervals: RunnerIntervals,
}

/// When what is done.
struct RunnerIntervals {
    /// How often leases are renewed.
    renew: Duration,
    /// How soon a renewal that failed is retried.
    renew_retry: Duration,
    /// After how long without a renewal this process no longer trusts its leases, which last a little longer.
    trust: Duration,
    /// How often the ledger is asked for lanes of which no message told.
    poll: Duration,
    /// How long the parts in flight may take when the process stops.
    drain: Duration,
}

impl Default for RunnerIntervals {
    fn default() -> Self {
        Self {
            renew: Duration::from_secs(10),
            renew_retry: Duration::from_secs(1),
            trust: Duration::from_secs(25),
            poll: Duration::from_secs(2),
            drain: Duration::from_secs(25),
        }
    }
}

/// Why the work on a lane starts.
#[derive(Debug, Clone, Copy)]
enum StartReason {
    /// It was claimed for a message, and parts of it may be unsettled.
    Message { turn: TurnId, unsettled: bool },
    /// It was found to have work.
    Polled,
}

/// A lane that is being worked on.
struct ActiveLane {
    lease: Lease,
    /// The turn of the message for which it was claimed, until the bus has told of that message.
    started_for: Option<TurnId>,
    wake: Arc<Notify>,
    lost: CancellationToken,
    task: task::Id,
}

impl LaneRunner {
    /// Works on the lanes that come through `claimed`, and on those found in the ledger.
    #[must_use]
    pub fn new(context: WorkerContext, claimed: mpsc::Receiver<ClaimedLane>) -> Self {
        Self { context, claimed, intervals: RunnerIntervals::default() }
    }

    /// Works until `stop` is cancelled; then finishes the parts in flight, releases the lanes and returns.
    pub async fn run(mut self, stop: CancellationToken) {
        let RunnerIntervals { renew, renew_retry, trust, poll, drain } = self.intervals;
        let leases = Arc::clone(&self.context.ledger.leases);
        let clock = Arc::clone(&self.context.services.clock);
        let channels: Vec<ChannelName> = self.context.channels.keys().cloned().collect();
        let max_lanes = self.claimed.max_capacity();
        let mut active: HashMap<ConversationId, ActiveLane> = HashMap::new();
        let mut working: JoinSet<()> = JoinSet::new();
        let mut events = self.subscribe().await.fuse();
        // The ledger is asked beside everything else: while it is slow to answer, a lease must still expire in time.
        let mut claiming: Option<BoxFuture<'_, Option<Lease>>> = None;
        let mut renewing: Option<BoxFuture<'_, Result<Vec<Lease>, LedgerError>>> = None;
        let mut poll = interval(poll);
        let mut renew = interval(renew);
        let mut renewal_sent = (Instant::now(), clock.now());
        let mut trusted_until = renewal_sent.0 + trust;
        // When the leases were renewed last, by the clock by which they end for everyone. Where that has leapt since,
        // as it does when a machine wakes up, our own lanes look free: they are renewed before work is looked for.
        let mut renewed_at = renewal_sent.1;
        let mut all_claimed = false;
        let mut drain_deadline: Option<Instant> = None;
        loop {
            if drain_deadline.is_some() && all_claimed && claiming.is_none() && working.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                () = stop.cancelled(), if drain_deadline.is_none() => {
                    drain_deadline = Some(Instant::now() + drain);
                    // What was claimed and has not started must be released too.
                    self.claimed.close();
                }
                () = sleep_until(drain_deadline.unwrap_or(trusted_until)), if drain_deadline.is_some() => {
                    tracing::warn!(
                        lanes = working.len(),
                        "stopped while parts were in flight; they are checked at the next start"
                    );
                    return;
                }
                () = sleep_until(trusted_until), if !active.is_empty() => {
                    tracing::warn!(lanes = active.len(), "leases expired before renewal; releasing their lanes");
                    active.values().for_each(|lane| lane.lost.cancel());
                    trusted_until = Instant::now() + trust;
                }
                claimed = self.claimed.recv(), if !all_claimed => match claimed {
                    Some(ClaimedLane { lease, turn, unsettled }) => {
                        self.spawn_worker(lease, StartReason::Message { turn, unsettled }, &mut active, &mut working, &stop);
                    }
                    None => all_claimed = true,
                },
                Some(ended) = working.join_next_with_id() => on_worker_exit(ended, &mut active),
                Some(event) = events.next() => {
                    // The message that a lane was claimed for is known to its worker.
                    if let BusEvent::MessageReceived { conversation, turn } = event
                        && let Some(lane) = active.get_mut(&conversation)
                        && lane.started_for.take_if(|started_for| *started_for == turn).is_none()
                    {
                        lane.wake.notify_one();
                    }
                }
                Some(found) = OptionFuture::from(claiming.as_mut()) => {
                    claiming = None;
                    if let Some(lease) = found {
                        self.spawn_worker(lease, StartReason::Polled, &mut active, &mut working, &stop);
                        if self.count_busy(&working) < max_lanes && drain_deadline.is_none() && clock.now().saturating_duration_since(renewed_at) < trust {
                            claiming = Some(claim_next(leases.as_ref(), &channels).boxed());
                        }
                    }
                }
                _ = poll.tick(), if claiming.is_none() && drain_deadline.is_none() && self.count_busy(&working) < max_lanes => {
                    if clock.now().saturating_duration_since(renewed_at) < trust {
                        claiming = Some(claim_next(leases.as_ref(), &channels).boxed());
                    } else if renewing.is_none() {
                        // One that is under way would only be followed by another.
                        renew.reset_immediately();
                    }
                }
                Some(answer) = OptionFuture::from(renewing.as_mut()) => {
                    renewing = None;
                    match answer {
                        Ok(lost) => {
                            trusted_until = renewal_sent.0 + trust;
                            renewed_at = renewal_sent.1;
                            cancel_lost(&active, &lost);
                        }
                        Err(error) => {
                            tracing::warn!(error = &error as &dyn std::error::Error, "renewing leases failed; retrying");
                            renew.reset_after(renew_retry);
                        }
                    }
                }
                _ = renew.tick(), if renewing.is_none() => {
                    renewal_sent = (Instant::now(), clock.now());
                    let renewed: Vec<Lease> = active.values().map(|lane| lane.lease.clone()).collect();
                    let leases = Arc::clone(&leases);
                    renewing = Some(async move { leases.renew(&renewed).await }.boxed());
                }
            }
        }
    }

    /// How many lanes are worked on. One whose turn waits behind others of its person leaves its room to somebody else's.
    fn count_busy(&self, working: &JoinSet<()>) -> usize {
        working.len().saturating_sub(self.context.turn_slots.waiting())
    }

    async fn subscribe(&self) -> satchel_ports::event_bus::EventStream {
        match self.context.services.bus.subscribe().await {
            Ok(events) => events,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "event bus unavailable; falling back to polling"
                );
                Box::pin(futures::stream::pending())
            }
        }
    }

    fn spawn_worker(
        &self,
        lease: Lease,
        reason: StartReason,
        active: &mut HashMap<ConversationId, ActiveLane>,
        working: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        let (wake, lost) = (Arc::new(Notify::new()), CancellationToken::new());
        let (started_for, unsettled) = match reason {
            StartReason::Message { turn, unsettled } => (Some(turn), unsettled),
            StartReason::Polled => (None, true),
        };
        let lane =
            worker::LaneAssignment { lease: lease.clone(), wake: Arc::clone(&wake), lost: lost.clone(), unsettled };
        let work = worker::run_worker(self.context.clone(), lane, stop.clone());
        let task = working.spawn(work).id();
        let lane = ActiveLane { lease, started_for, wake, lost, task };
        if let Some(former) = active.insert(lane.lease.conversation.clone(), lane) {
            former.lost.cancel();
        }
    }
}

async fn claim_next(leases: &dyn Leases, channels: &[ChannelName]) -> Option<Lease> {
    match leases.claim_lane(channels).await {
        Ok(lease) => lease,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "claiming a lane failed");
            None
        }
    }
}

/// Ends the work on lanes that have another holder now.
fn cancel_lost(active: &HashMap<ConversationId, ActiveLane>, lost: &[Lease]) {
    for lease in lost {
        // A lane that ended meanwhile is no longer renewed and counts as lost too; its token matters to nobody.
        if let Some(lane) = active.get(&lease.conversation).filter(|lane| lane.lease == *lease) {
            tracing::debug!(chat.id = %lease.conversation, "the lane has another holder");
            lane.lost.cancel();
        }
    }
}

/// Removes a lane whose work has ended. The lease of one that panicked is no longer renewed, so that the lane is claimed
/// again, as after the death of a process.
fn on_worker_exit(ended: Result<(task::Id, ()), JoinError>, active: &mut HashMap<ConversationId, ActiveLane>) {
    let id = match ended {
        Ok((id, ())) => id,
        Err(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the worker of a lane panicked; its lease will expire"
            );
            error.id()
        }
    };
    active.retain(|_, lane| lane.task != id);
}

fn interval(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

// They run schedules, too.
#[cfg(test)]
#[cfg(feature = "schedules")]
mod tests;
