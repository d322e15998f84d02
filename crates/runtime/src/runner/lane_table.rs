//! Which lanes this process works on, and what follows from each event: pure, without clocks, tasks and I/O.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use satchel_domain::{ConversationId, Timestamp, TurnId};
use satchel_ports::{Lease, ledger::ClaimedLane};

use super::{LaneRole, RunnerIntervals};

/// How many messages of lanes without a worker are remembered.
const MAX_EARLY_MESSAGES: usize = 64;

/// The work on one claim of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WorkerId(u64);

/// What is so when an event happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventContext {
    /// How long the loop has run, whatever the clock shows.
    pub(super) elapsed: Duration,
    /// The clock by which leases expire for every process. It leaps where a machine wakes up.
    pub(super) clock: Timestamp,
    /// How many workers wait for a turn slot of their person. They leave their room to other lanes.
    pub(super) waiting_turns: usize,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LaneEvent {
    /// The process stops.
    Stop,
    /// The time of [`LaneTable::next_deadline`] has come.
    Deadline,
    /// The time of [`LaneTable::next_timer`] has come.
    Timer,
    /// A lane was claimed for a message.
    Claimed(ClaimedLane),
    /// No lane will be claimed for a message any more.
    ClaimsEnded,
    /// The ledger answered [`LaneAction::Claim`].
    Polled(Option<ClaimedLane>),
    /// The ledger renewed the leases but for these.
    Renewed {
        lost: Vec<Lease>,
    },
    RenewalFailed,
    WorkerExited(WorkerId),
    /// A message of a lane was stored for this turn.
    MessageReceived {
        conversation: ConversationId,
        turn: TurnId,
    },
    /// A turn of any lane was completed.
    TurnCompleted,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LaneAction {
    /// Start the work on a lane, with the turn that its claim has handed over.
    Start(WorkerId, ClaimedLane),
    /// Let the worker look for turns.
    Wake(WorkerId),
    /// Cancel a worker: its lane was claimed once more.
    CancelReplaced(WorkerId),
    /// Cancel a worker: its lane has another holder.
    CancelLost(WorkerId, ConversationId),
    /// Cancel the workers of all lanes: their leases may have expired.
    CancelExpired(Vec<WorkerId>),
    /// Ask the ledger for a lane with work.
    Claim,
    /// Ask the ledger to renew these leases.
    Renew(Vec<Lease>),
    /// Accept no more lanes that are claimed for messages; those that were claimed still come.
    CloseClaims,
    /// Return: all work has ended.
    Exit,
    /// Return although work has not ended, of so many workers at most.
    Abandon { workers: usize },
}

/// A lane that is worked on.
#[derive(Debug)]
struct ActiveLane {
    worker: WorkerId,
    lease: Lease,
    /// The turn that its claim has handed over, until the bus tells of a message of it: mostly the one that claimed the
    /// lane.
    started_for: Option<TurnId>,
}

/// The lanes of this process.
#[derive(Debug)]
pub(super) struct LaneTable {
    role: LaneRole,
    intervals: RunnerIntervals,
    max_lanes: usize,
    active: BTreeMap<ConversationId, ActiveLane>,
    /// The last messages of lanes without a worker, whose claim may be on its way.
    early_messages: VecDeque<(ConversationId, TurnId)>,
    /// How many workers have not ended; those of lanes that were claimed once more are not `active`.
    running_workers: usize,
    next_worker: u64,
    /// Whether the ledger is being asked for a lane.
    claiming: bool,
    /// When the renewal that is under way was sent, by both times.
    renewal_sent: Option<(Duration, Timestamp)>,
    poll_at: Duration,
    renew_at: Duration,
    /// Until when this process trusts its leases.
    trusted_until: Duration,
    /// When the leases were renewed last, by the clock by which they expire for everyone. Where that has leapt since, as
    /// it does when a machine wakes up, our own lanes look free: they are renewed before work is looked for.
    renewed_at: Timestamp,
    claims_ended: bool,
    drain_deadline: Option<Duration>,
}

impl LaneTable {
    /// A process without lanes. It renews and looks for work at once.
    pub(super) fn new(role: LaneRole, intervals: RunnerIntervals, max_lanes: usize, now: EventContext) -> Self {
        Self {
            role,
            trusted_until: now.elapsed + intervals.trust,
            intervals,
            max_lanes,
            active: BTreeMap::new(),
            early_messages: VecDeque::new(),
            running_workers: 0,
            next_worker: 0,
            claiming: false,
            renewal_sent: None,
            poll_at: now.elapsed,
            renew_at: now.elapsed,
            renewed_at: now.clock,
            claims_ended: false,
            drain_deadline: None,
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.drain_deadline.is_some()
    }

    pub(super) fn can_receive_claims(&self) -> bool {
        !self.claims_ended
    }

    /// When the leases expire, or the parts in flight have had their time. Nothing may delay it.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let expiry = (!self.active.is_empty()).then_some(self.trusted_until);
        expiry.into_iter().chain(self.drain_deadline).min()
    }

    /// When it looks for work or renews the leases.
    pub(super) fn next_timer(&self, waiting_turns: usize) -> Option<Duration> {
        let poll = self.has_room(waiting_turns).then_some(self.poll_at);
        let renewal = self.renewal_sent.is_none().then_some(self.renew_at);
        poll.into_iter().chain(renewal).min()
    }

    /// Records what happened and returns what to do, in order.
    pub(super) fn on(&mut self, event: LaneEvent, now: EventContext) -> Vec<LaneAction> {
        let mut actions = match event {
            LaneEvent::Stop => self.on_stop(now),
            LaneEvent::Deadline => self.on_deadline(now),
            LaneEvent::Timer => self.on_timer(now),
            LaneEvent::Claimed(claimed) => self.start(claimed, now),
            LaneEvent::ClaimsEnded => {
                self.claims_ended = true;
                Vec::new()
            }
            LaneEvent::Polled(found) => self.on_polled(found, now),
            LaneEvent::Renewed { lost } => self.on_renewed(&lost),
            LaneEvent::RenewalFailed => {
                self.renewal_sent = None;
                self.renew_at = now.elapsed + self.intervals.renew_retry;
                Vec::new()
            }
            LaneEvent::WorkerExited(worker) => {
                self.running_workers = self.running_workers.saturating_sub(1);
                self.active.retain(|_, lane| lane.worker != worker);
                if self.role == LaneRole::Turns {
                    // A lane that was handed over may have its next turn.
                    self.poll_at = now.elapsed;
                }
                Vec::new()
            }
            LaneEvent::MessageReceived { conversation, turn } => self.on_message(conversation, turn, now),
            LaneEvent::TurnCompleted => {
                if self.role == LaneRole::Deliveries {
                    self.poll_at = now.elapsed;
                }
                Vec::new()
            }
        };
        if self.is_stopping() && self.claims_ended && !self.claiming && self.running_workers == 0 {
            actions.push(LaneAction::Exit);
        }
        actions
    }

    fn on_stop(&mut self, now: EventContext) -> Vec<LaneAction> {
        self.drain_deadline = Some(now.elapsed + self.intervals.drain);
        // What was claimed and has not started must be released too.
        vec![LaneAction::CloseClaims]
    }

    fn on_deadline(&mut self, now: EventContext) -> Vec<LaneAction> {
        if self.drain_deadline.is_some_and(|deadline| deadline <= now.elapsed) {
            return vec![LaneAction::Abandon { workers: self.running_workers }];
        }
        if self.active.is_empty() || now.elapsed < self.trusted_until {
            return Vec::new();
        }
        self.trusted_until = now.elapsed + self.intervals.trust;
        vec![LaneAction::CancelExpired(self.active.values().map(|lane| lane.worker).collect())]
    }

    fn on_timer(&mut self, now: EventContext) -> Vec<LaneAction> {
        let mut actions = Vec::new();
        if self.has_room(now.waiting_turns) && self.poll_at <= now.elapsed {
            self.poll_at = now.elapsed + self.intervals.poll;
            if self.has_fresh_renewal(now) {
                actions.push(self.claim());
            } else if self.renewal_sent.is_none() {
                // One that is under way would only be followed by another.
                self.renew_at = now.elapsed;
            }
        }
        if self.renewal_sent.is_none() && self.renew_at <= now.elapsed {
            self.renew_at = now.elapsed + self.intervals.renew;
            self.renewal_sent = Some((now.elapsed, now.clock));
            actions.push(LaneAction::Renew(self.active.values().map(|lane| lane.lease.clone()).collect()));
        }
        actions
    }

    fn on_polled(&mut self, found: Option<ClaimedLane>, now: EventContext) -> Vec<LaneAction> {
        self.claiming = false;
        let Some(claimed) = found else { return Vec::new() };
        let mut actions = self.start(claimed, now);
        if self.has_room(now.waiting_turns) && self.has_fresh_renewal(now) {
            actions.push(self.claim());
        }
        actions
    }

    fn on_renewed(&mut self, lost: &[Lease]) -> Vec<LaneAction> {
        if let Some((elapsed, clock)) = self.renewal_sent.take() {
            self.trusted_until = elapsed + self.intervals.trust;
            self.renewed_at = clock;
        }
        // A lane that ended meanwhile is no longer renewed and counts as lost too; its token matters to nobody.
        let is_active = |lease: &&Lease| self.active.get(&lease.conversation).is_some_and(|lane| lane.lease == **lease);
        let lost = lost.iter().filter(is_active);
        lost.map(|lease| LaneAction::CancelLost(self.active[&lease.conversation].worker, lease.conversation.clone()))
            .collect()
    }

    fn on_message(&mut self, conversation: ConversationId, turn: TurnId, now: EventContext) -> Vec<LaneAction> {
        let Some(lane) = self.active.get_mut(&conversation) else {
            if self.role == LaneRole::Turns {
                // A gateway has stored it, which claims nothing.
                self.poll_at = now.elapsed;
            }
            self.early_messages.truncate(MAX_EARLY_MESSAGES - 1);
            self.early_messages.push_front((conversation, turn));
            return Vec::new();
        };
        // The turn that was handed over is known to its worker, with all messages that it will ever have.
        if lane.started_for.take_if(|started_for| *started_for == turn).is_some() {
            return Vec::new();
        }
        vec![LaneAction::Wake(lane.worker)]
    }

    fn start(&mut self, mut claimed: ClaimedLane, now: EventContext) -> Vec<LaneAction> {
        if now.clock.saturating_duration_since(claimed.claimed_at) >= self.intervals.trust {
            // Another process may have the lane by now. The ledger knows: it is asked for the turn.
            claimed.turn = None;
        }
        let worker = WorkerId(self.next_worker);
        self.next_worker += 1;
        self.running_workers += 1;
        let mut started_for = claimed.turn.as_ref().map(|turn| turn.id);
        let mut is_followed = false;
        self.early_messages.retain(|(conversation, turn)| {
            let is_early = *conversation == claimed.lease.conversation;
            is_followed |= is_early && started_for.take_if(|started_for| started_for == turn).is_none();
            !is_early
        });
        let wake = is_followed.then_some(LaneAction::Wake(worker));
        let lane = ActiveLane { worker, lease: claimed.lease.clone(), started_for };
        let former = self.active.insert(claimed.lease.conversation.clone(), lane);
        let cancel = former.map(|former| LaneAction::CancelReplaced(former.worker));
        std::iter::once(LaneAction::Start(worker, claimed)).chain(cancel).chain(wake).collect()
    }

    fn claim(&mut self) -> LaneAction {
        self.claiming = true;
        LaneAction::Claim
    }

    /// Whether it may look for one lane more. A worker that waits for a turn slot leaves its room to another lane.
    fn has_room(&self, waiting_turns: usize) -> bool {
        let busy = self.running_workers.saturating_sub(waiting_turns);
        !self.claiming && !self.is_stopping() && busy < self.max_lanes
    }

    /// Whether the leases were renewed lately by the clock by which they expire.
    fn has_fresh_renewal(&self, now: EventContext) -> bool {
        now.clock.saturating_duration_since(self.renewed_at) < self.intervals.trust
    }
}

#[cfg(test)]
mod tests;
