//! The loop of the lanes: it awaits what happens and performs what the `LaneTable` decides.

mod deliveries;
mod expiry_claims;
mod fetch_notice;
mod handover;
mod lane_table;
mod turn_slots;
mod worker;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{
    StreamExt,
    future::{BoxFuture, FutureExt, OptionFuture},
};
use satchel_agent::AgentServices;
use satchel_domain::{ChannelName, delivery::DeliveryRules};
use satchel_intake::{access::AccessPolicy, commands::ScheduleDirectory, prepare::InboundLimits};
use satchel_ports::{
    Blobs, BusEvent, Channel, Lease, Leases, Ledger, LedgerError, Speech, Workspace,
    ledger::{ClaimedLane, Quotas, WorkFilter},
};
use tokio::{
    sync::{Notify, mpsc},
    task::{self, JoinError, JoinSet},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    expiry_claims::{EXPIRY_MARGIN, ExpiryClaims},
    lane_table::{EventContext, LaneAction, LaneEvent, LaneTable, WorkerId},
};
pub use self::{handover::HandoverTable, turn_slots::TurnSlots};

/// How long a renewal of leases may take.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(4);

/// How many lanes this process works at once; further ones wait in the ledger.
pub(crate) const DEFAULT_MAX_LANES: usize = 256;

/// Which work of lanes a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LaneRole {
    /// Turns and deliveries.
    #[default]
    All,
    /// Turns. Their replies are left to delivery workers; on channels that have none, it delivers, too.
    Turns,
    /// Deliveries.
    Deliveries,
}

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
    /// Whether reminders can be made: a process delivers them.
    pub reminders: bool,
    /// The schedules of the configuration, which owners see.
    pub schedules: Option<Arc<dyn ScheduleDirectory>>,
    /// How many turns of one person run at once.
    pub turn_slots: Arc<TurnSlots>,
    /// Which work of lanes this process does.
    pub role: LaneRole,
    /// On which channels delivery workers take over the lane of a completed turn.
    pub handover: Arc<HandoverTable>,
    /// How many leases this process has lost to others, or could not renew.
    pub lost_leases: Arc<AtomicU64>,
}

/// The lanes of this process.
pub(crate) struct LaneRunner {
    context: WorkerContext,
    claimed: mpsc::Receiver<ClaimedLane>,
    intervals: RunnerIntervals,
}

/// When what is done.
#[derive(Debug, Clone, Copy)]
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

/// The tasks that work on lanes.
struct Workers {
    context: WorkerContext,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    handles: HashMap<WorkerId, WorkerHandle>,
    ids: HashMap<task::Id, WorkerId>,
}

/// How a worker is reached.
struct WorkerHandle {
    wake: Arc<Notify>,
    lost: CancellationToken,
}

impl LaneRunner {
    /// Works on the lanes that come through `claimed`, and on those found in the ledger.
    pub(crate) fn new(context: WorkerContext, claimed: mpsc::Receiver<ClaimedLane>) -> Self {
        Self { context, claimed, intervals: RunnerIntervals::default() }
    }

    pub(crate) fn lost_leases(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.context.lost_leases)
    }

    /// Works until `stop` is cancelled; then finishes the parts in flight, releases the lanes and returns.
    ///
    /// The `LaneTable` decides. Here its actions are performed, and what happens is awaited.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let leases = Arc::clone(&self.context.ledger.leases);
        let context = self.context.clone();
        let clock = Arc::clone(&self.context.services.clock);
        let turn_slots = Arc::clone(&self.context.turn_slots);
        let channels: Vec<ChannelName> = self.context.channels.keys().cloned().collect();
        let expiry_claims = ExpiryClaims::default();
        let mut events = self.subscribe().await.fuse();
        // The ledger is asked beside everything else: while it is slow to answer, a lease must still expire in time.
        let mut claiming: Option<BoxFuture<'_, Option<ClaimedLane>>> = None;
        let mut renewing: Option<BoxFuture<'_, Result<Vec<Lease>, LedgerError>>> = None;
        let mut workers = Workers::new(self.context.clone(), stop.clone());
        let started = Instant::now();
        let now =
            || EventContext { elapsed: started.elapsed(), clock: clock.now(), waiting_turns: turn_slots.waiting() };
        let mut table = LaneTable::new(context.role, self.intervals, self.claimed.max_capacity(), now());
        loop {
            let event = tokio::select! {
                biased;
                () = stop.cancelled(), if !table.is_stopping() => LaneEvent::Stop,
                () = wait_until(started, table.next_deadline()) => LaneEvent::Deadline,
                claimed = self.claimed.recv(), if table.can_receive_claims() => match claimed {
                    Some(claimed) => LaneEvent::Claimed(claimed),
                    None => LaneEvent::ClaimsEnded,
                },
                Some(ended) = workers.tasks.join_next_with_id() => match workers.on_exit(ended) {
                    Some(worker) => LaneEvent::WorkerExited(worker),
                    None => continue,
                },
                Some(event) = events.next() => match event {
                    BusEvent::MessageReceived { conversation, turn } => LaneEvent::MessageReceived { conversation, turn },
                    BusEvent::TurnCompleted { .. } => LaneEvent::TurnCompleted,
                    _ => continue,
                },
                Some(found) = OptionFuture::from(claiming.as_mut()) => {
                    claiming = None;
                    LaneEvent::Polled(found)
                }
                () = wait_until(started, table.next_timer(turn_slots.waiting())) => LaneEvent::Timer,
                Some(answer) = OptionFuture::from(renewing.as_mut()) => {
                    renewing = None;
                    match answer {
                        Ok(lost) => LaneEvent::Renewed { lost },
                        Err(error) => {
                            tracing::warn!(error = &error as &dyn std::error::Error, "renewing leases failed; retrying");
                            LaneEvent::RenewalFailed
                        }
                    }
                }
            };
            for action in table.on(event, now()) {
                match action {
                    LaneAction::Start(worker, claimed) => workers.start(worker, claimed),
                    LaneAction::Wake(worker) => workers.wake(worker),
                    LaneAction::CancelReplaced(worker) => workers.cancel(worker),
                    LaneAction::CancelLost(worker, conversation) => {
                        tracing::debug!(chat.id = %conversation, "the lane has another holder");
                        context.lost_leases.fetch_add(1, Ordering::Relaxed);
                        workers.cancel(worker);
                    }
                    LaneAction::CancelExpired(expired) => {
                        tracing::warn!(lanes = expired.len(), "leases expired before renewal; releasing their lanes");
                        context.lost_leases.fetch_add(expired.len() as u64, Ordering::Relaxed);
                        expired.into_iter().for_each(|worker| workers.cancel(worker));
                    }
                    LaneAction::Claim => claiming = Some(claim_next(&context, &channels, &expiry_claims).boxed()),
                    LaneAction::Renew(renewed) => {
                        let leases = Arc::clone(&leases);
                        renewing = Some(async move { renew_in_time(&*leases, &renewed).await }.boxed());
                    }
                    LaneAction::CloseClaims => self.claimed.close(),
                    LaneAction::Exit => return,
                    LaneAction::Abandon { workers } => {
                        tracing::warn!(
                            lanes = workers,
                            "stopped while parts were in flight; they are checked at the next start"
                        );
                        return;
                    }
                }
            }
        }
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
}

impl Workers {
    fn new(context: WorkerContext, stop: CancellationToken) -> Self {
        Self { context, stop, tasks: JoinSet::new(), handles: HashMap::new(), ids: HashMap::new() }
    }

    fn start(&mut self, id: WorkerId, claimed: ClaimedLane) {
        let (wake, lost) = (Arc::new(Notify::new()), CancellationToken::new());
        let lane = worker::LaneAssignment { claimed, wake: Arc::clone(&wake), lost: lost.clone() };
        let task = self.tasks.spawn(worker::run_worker(self.context.clone(), lane, self.stop.clone())).id();
        self.handles.insert(id, WorkerHandle { wake, lost });
        self.ids.insert(task, id);
    }

    fn wake(&self, id: WorkerId) {
        if let Some(worker) = self.handles.get(&id) {
            worker.wake.notify_one();
        }
    }

    fn cancel(&self, id: WorkerId) {
        if let Some(worker) = self.handles.get(&id) {
            worker.lost.cancel();
        }
    }

    /// Removes a worker that has ended. The lease of one that panicked is no longer renewed, so that the lane is claimed
    /// again, as after the death of a process.
    fn on_exit(&mut self, ended: Result<(task::Id, ()), JoinError>) -> Option<WorkerId> {
        let task = match ended {
            Ok((task, ())) => task,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the worker of a lane panicked; its lease will expire"
                );
                error.id()
            }
        };
        let id = self.ids.remove(&task)?;
        self.handles.remove(&id);
        Some(id)
    }
}

/// A renewal on a connection that hangs fails, while there is time for another.
async fn renew_in_time(leases: &dyn Leases, renewed: &[Lease]) -> Result<Vec<Lease>, LedgerError> {
    timeout(RENEWAL_TIMEOUT, leases.renew(renewed))
        .await
        .unwrap_or_else(|late| Err(LedgerError::Store { operation: "renewing leases", source: Box::new(late) }))
}

/// Claims a lane with work for this process. What is to be sent on a closed channel is left to processes for which it is
/// open, until it has waited for too long: somebody must give it up.
async fn claim_next(
    context: &WorkerContext,
    channels: &[ChannelName],
    expiry_claims: &ExpiryClaims,
) -> Option<ClaimedLane> {
    let (closed, open): (Vec<_>, Vec<_>) =
        channels.iter().cloned().partition(|name| context.channels[name].state().closure().is_some());
    let claimed = async {
        let leases = &context.ledger.leases;
        let (channels, filter, expiring) = match context.role {
            LaneRole::All if closed.is_empty() => (channels, WorkFilter::Any, closed),
            LaneRole::All => (channels, WorkFilter::AnyButDeliveriesOn(closed.clone()), closed),
            LaneRole::Deliveries => (&*open, WorkFilter::Deliveries, closed),
            LaneRole::Turns => {
                let served = context.handover.refresh(&*context.ledger.gateways, channels).await?;
                let expiring: Vec<_> = closed.into_iter().filter(|name| !served.contains(name)).collect();
                let others = served.into_iter().chain(expiring.iter().cloned()).collect();
                (channels, WorkFilter::AnyButDeliveriesOn(others), expiring)
            }
        };
        match leases.claim_lane(channels, filter).await? {
            None if !expiring.is_empty() && expiry_claims.may_claim() => {
                let age = context.rules.max_age.saturating_add(EXPIRY_MARGIN);
                let claimed = leases.claim_lane(&expiring, WorkFilter::DeliveriesOlderThan(age)).await;
                if let Ok(Some(lane)) = &claimed {
                    expiry_claims.record(&lane.lease.conversation);
                }
                claimed
            }
            claimed => Ok(claimed),
        }
    };
    match claimed.await {
        Ok(claimed) => claimed,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "claiming a lane failed");
            None
        }
    }
}

/// Waits until the loop has run for so long; for ever without a time.
async fn wait_until(started: Instant, elapsed: Option<Duration>) {
    match elapsed {
        Some(elapsed) => sleep_until(started + elapsed).await,
        None => std::future::pending().await,
    }
}

// They run schedules, too.
#[cfg(test)]
#[cfg(feature = "schedules")]
mod tests;
