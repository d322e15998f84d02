//! The workers: which lanes this process holds, and the loop that begins, wakes, renews and ends them.

mod lane;
mod turn_slots;

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

/// What the work on every lane needs.
#[derive(Clone)]
pub struct Hosting {
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
pub struct Lanes {
    hosting: Hosting,
    claimed: mpsc::Receiver<ClaimedLane>,
    timing: Timing,
}

/// When what is done.
struct Timing {
    /// How often leases are renewed.
    renew: Duration,
    /// How soon a renewal that failed is tried again.
    renew_again: Duration,
    /// After how long without a renewal this process no longer trusts its leases, which last a little longer.
    trust: Duration,
    /// How often the ledger is asked for lanes that nobody woke us for.
    look: Duration,
    /// How long the parts in flight may take when the process stops.
    wind_down: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            renew: Duration::from_secs(10),
            renew_again: Duration::from_secs(1),
            trust: Duration::from_secs(25),
            look: Duration::from_secs(2),
            wind_down: Duration::from_secs(25),
        }
    }
}

/// Why the work on a lane begins.
#[derive(Debug, Clone, Copy)]
enum Begun {
    /// It was claimed for a message, and parts of it may be unsettled.
    For { turn: TurnId, unsettled: bool },
    /// It was found to have work.
    Found,
}

/// A lane that is being worked on.
struct Held {
    lease: Lease,
    /// The turn of the message for which it was claimed, until the bus has told of that message.
    begun_for: Option<TurnId>,
    wake: Arc<Notify>,
    lost: CancellationToken,
    task: task::Id,
}

impl Lanes {
    /// Takes on the lanes that come through `claimed`, and those found in the ledger.
    #[must_use]
    pub fn new(hosting: Hosting, claimed: mpsc::Receiver<ClaimedLane>) -> Self {
        Self { hosting, claimed, timing: Timing::default() }
    }

    /// Works until `stop` is cancelled; then finishes the parts in flight, gives the lanes back and returns.
    pub async fn run(mut self, stop: CancellationToken) {
        let Timing { renew, renew_again, trust, look, wind_down } = self.timing;
        let leases = Arc::clone(&self.hosting.ledger.leases);
        let clock = Arc::clone(&self.hosting.services.clock);
        let channels: Vec<ChannelName> = self.hosting.channels.keys().cloned().collect();
        let most = self.claimed.max_capacity();
        let mut held: HashMap<ConversationId, Held> = HashMap::new();
        let mut working: JoinSet<()> = JoinSet::new();
        let mut events = self.listen().await.fuse();
        // The ledger is asked beside everything else: while it is slow to answer, a lease must still run out in time.
        let mut taking: Option<BoxFuture<'_, Option<Lease>>> = None;
        let mut renewing: Option<BoxFuture<'_, Result<Vec<Lease>, LedgerError>>> = None;
        let mut look = interval(look);
        let mut renew = interval(renew);
        let mut asked = (Instant::now(), clock.now());
        let mut trusted_until = asked.0 + trust;
        // When the leases were renewed last, by the clock by which they end for everyone. Where that has leapt since,
        // as it does when a machine wakes up, our own lanes look free: they are renewed before work is looked for.
        let mut renewed_at = asked.1;
        let mut all_claimed = false;
        let mut cut_off: Option<Instant> = None;
        loop {
            if cut_off.is_some() && all_claimed && taking.is_none() && working.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                () = stop.cancelled(), if cut_off.is_none() => {
                    cut_off = Some(Instant::now() + wind_down);
                    // What was claimed and has not begun must be given back too.
                    self.claimed.close();
                }
                () = sleep_until(cut_off.unwrap_or(trusted_until)), if cut_off.is_some() => {
                    tracing::warn!(
                        lanes = working.len(),
                        "stopped while parts were in flight; they are checked at the next start"
                    );
                    return;
                }
                () = sleep_until(trusted_until), if !held.is_empty() => {
                    tracing::warn!(lanes = held.len(), "leases expired before renewal; releasing their lanes");
                    held.values().for_each(|lane| lane.lost.cancel());
                    trusted_until = Instant::now() + trust;
                }
                claimed = self.claimed.recv(), if !all_claimed => match claimed {
                    Some(ClaimedLane { lease, turn, unsettled }) => {
                        self.begin(lease, Begun::For { turn, unsettled }, &mut held, &mut working, &stop);
                    }
                    None => all_claimed = true,
                },
                Some(ended) = working.join_next_with_id() => forget(ended, &mut held),
                Some(event) = events.next() => {
                    // Of the message that it was claimed for, a lane need not hear twice.
                    if let BusEvent::MessageReceived { conversation, turn } = event
                        && let Some(lane) = held.get_mut(&conversation)
                        && lane.begun_for.take_if(|begun_for| *begun_for == turn).is_none()
                    {
                        lane.wake.notify_one();
                    }
                }
                Some(found) = OptionFuture::from(taking.as_mut()) => {
                    taking = None;
                    if let Some(lease) = found {
                        self.begin(lease, Begun::Found, &mut held, &mut working, &stop);
                        if self.busy(&working) < most && cut_off.is_none() && clock.now().saturating_duration_since(renewed_at) < trust {
                            taking = Some(take(leases.as_ref(), &channels).boxed());
                        }
                    }
                }
                _ = look.tick(), if taking.is_none() && cut_off.is_none() && self.busy(&working) < most => {
                    if clock.now().saturating_duration_since(renewed_at) < trust {
                        taking = Some(take(leases.as_ref(), &channels).boxed());
                    } else if renewing.is_none() {
                        // One that is under way would only be followed by another.
                        renew.reset_immediately();
                    }
                }
                Some(answer) = OptionFuture::from(renewing.as_mut()) => {
                    renewing = None;
                    match answer {
                        Ok(lost) => {
                            trusted_until = asked.0 + trust;
                            renewed_at = asked.1;
                            give_up(&held, &lost);
                        }
                        Err(error) => {
                            tracing::warn!(error = &error as &dyn std::error::Error, "renewing leases failed; retrying");
                            renew.reset_after(renew_again);
                        }
                    }
                }
                _ = renew.tick(), if renewing.is_none() => {
                    asked = (Instant::now(), clock.now());
                    let renewed: Vec<Lease> = held.values().map(|lane| lane.lease.clone()).collect();
                    let leases = Arc::clone(&leases);
                    renewing = Some(async move { leases.renew(&renewed).await }.boxed());
                }
            }
        }
    }

    /// How many lanes are worked on. One whose turn waits behind others of its person leaves its room to somebody else's.
    fn busy(&self, working: &JoinSet<()>) -> usize {
        working.len().saturating_sub(self.hosting.turn_slots.waiting())
    }

    async fn listen(&self) -> satchel_ports::event_bus::EventStream {
        match self.hosting.services.bus.subscribe().await {
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

    fn begin(
        &self,
        lease: Lease,
        begun: Begun,
        held: &mut HashMap<ConversationId, Held>,
        working: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        let (wake, lost) = (Arc::new(Notify::new()), CancellationToken::new());
        let (begun_for, unsettled) = match begun {
            Begun::For { turn, unsettled } => (Some(turn), unsettled),
            Begun::Found => (None, true),
        };
        let lane = lane::Begun { lease: lease.clone(), wake: Arc::clone(&wake), lost: lost.clone(), unsettled };
        let work = lane::work(self.hosting.clone(), lane, stop.clone());
        let task = working.spawn(work).id();
        let lane = Held { lease, begun_for, wake, lost, task };
        if let Some(former) = held.insert(lane.lease.conversation.clone(), lane) {
            former.lost.cancel();
        }
    }
}

async fn take(leases: &dyn Leases, channels: &[ChannelName]) -> Option<Lease> {
    match leases.claim_lane(channels).await {
        Ok(lease) => lease,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "claiming a lane failed");
            None
        }
    }
}

/// Ends the work on lanes that have another owner now.
fn give_up(held: &HashMap<ConversationId, Held>, lost: &[Lease]) {
    for lease in lost {
        // A lane that ended meanwhile is no longer renewed and counts as lost too; its token matters to nobody.
        if let Some(lane) = held.get(&lease.conversation).filter(|lane| lane.lease == *lease) {
            tracing::debug!(chat.id = %lease.conversation, "the lane has another holder");
            lane.lost.cancel();
        }
    }
}

/// Takes a lane off the books whose work has ended. The lease of one that panicked is no longer renewed, so that the
/// lane is taken again, as after the death of a process.
fn forget(ended: Result<(task::Id, ()), JoinError>, held: &mut HashMap<ConversationId, Held>) {
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
    held.retain(|_, lane| lane.task != id);
}

fn interval(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

// They run schedules, too.
#[cfg(test)]
#[cfg(feature = "application")]
mod tests;
