//! The leases of lanes: which process works on which conversation.

use std::time::Duration;

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{LedgerError, QueuedTurn};

/// The right to work on a lane, one process at a time.
///
/// # Contract
/// Besides that of [all ports](super):
/// - A lane has one holder at a time; its fencing tokens grow with each claim and never repeat.
/// - A lane whose holder has exited can be claimed; one whose holder renews its lease can't.
/// - Claiming a lane that was not released adds one crash to its oldest incomplete turn. If that is an album that nothing was
///   made of yet, its quiet time begins once more: the rest may have come while nobody received it.
/// - `claim_lane` claims only lanes of the named channels that have a turn ready or a part unsettled, as the filter says.
/// - A claim hands over the turn that `next_turn` would return, read in the same transaction, unless the turn is an
///   album that is not ready yet, or the claim was for deliveries.
/// - In a process that works on one conversation, or only on turns that it has stored itself, all of this is about these: it
///   claims no lane for anything else, and is handed nothing else.
/// - Nobody changes a turn that was handed over while the lease lives: an edit of its message and a late item of its
///   album are turns of their own.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Leases: Send + Sync {
    /// Claims the lane that has waited longest for such work, among those of these channels.
    async fn claim_lane(
        &self,
        channels: &[ChannelName],
        filter: WorkFilter,
    ) -> Result<Option<ClaimedLane>, LedgerError>;

    /// Returns how long the turn has waited that has waited longest for a process to claim its lane; `None` if none waits.
    async fn longest_wait(&self) -> Result<Option<Duration>, LedgerError>;

    /// Renews leases and returns those that are lost.
    async fn renew(&self, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError>;

    /// Releases a lane. Returns `false` if it still has work and stays claimed.
    async fn release(&self, lease: &Lease, release: ReleaseMode) -> Result<bool, LedgerError>;
}

/// The process that holds a lease. A restarted process is another holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HolderId(pub Uuid);

/// The right to work a lane. Every write presents it; a newer lease of the lane revokes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The lane.
    pub conversation: ConversationId,
    /// The process that holds it.
    pub holder: HolderId,
    /// The fencing token, which grows with every claim of the lane.
    pub token: u64,
}

/// Which work a lane must have to be claimed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WorkFilter {
    /// A turn that is ready, or a part to be delivered.
    #[default]
    Any,
    /// A turn that is ready, or a part to be delivered on a channel that isn't among these, whose deliveries are left to
    /// others.
    AnyButDeliveriesOn(Vec<ChannelName>),
    /// A part to be delivered, where no turn has become ready within [`TURN_PRECEDENCE`]: its lane is an agent's, who
    /// delivers beside it.
    Deliveries,
    /// The same where the lane's next part has this age: it is given up, which needs no platform. A notice that was never
    /// tried is sent at any age, and is no such part.
    DeliveriesOlderThan(Duration),
}

/// For how long a turn that is ready keeps its lane from being claimed for deliveries. Where no agent takes it, deliveries
/// go on.
pub const TURN_PRECEDENCE: Duration = Duration::from_secs(60);

impl WorkFilter {
    /// Whether a turn is such work.
    #[must_use]
    pub fn has_turns(&self) -> bool {
        !matches!(self, Self::Deliveries | Self::DeliveriesOlderThan(_))
    }

    /// Whether a delivery on this channel is such work.
    #[must_use]
    pub fn has_deliveries_on(&self, channel: &ChannelName) -> bool {
        match self {
            Self::Any | Self::Deliveries | Self::DeliveriesOlderThan(_) => true,
            Self::AnyButDeliveriesOn(others) => !others.contains(channel),
        }
    }

    /// Which age a lane's next part must have for its delivery to be such work; `None` if any.
    #[must_use]
    pub fn min_age(&self) -> Option<Duration> {
        match self {
            Self::DeliveriesOlderThan(age) => Some(*age),
            Self::Any | Self::AnyButDeliveriesOn(_) | Self::Deliveries => None,
        }
    }
}

/// A lane that was claimed, with the work that waits in it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedLane {
    /// The right to work on the lane.
    pub lease: Lease,
    /// When it was claimed. Whoever takes it up much later doesn't know whether another process has the lane by now.
    pub claimed_at: Timestamp,
    /// The lane's oldest incomplete turn. `None` if no turn is queued, or the oldest one may not start yet.
    pub turn: Option<Box<QueuedTurn>>,
    /// Whether parts of the lane are unsettled, so that there are deliveries to resume.
    pub unsettled: bool,
}

/// Whether `receive` may claim the lane for the caller's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// Claims the lane if it has no holder.
    IfFree,
    /// As `IfFree`, for a message that is about the turn that runs: it never waits for the lane.
    IfFreeOrQueue,
    /// Leaves the lane to others: another process hosts the channel, or this one is at its limit.
    Never,
}

/// Whether a lane with work is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseMode {
    /// Only if no turn is queued and no part is unsettled.
    IfIdle,
    /// In any case: the process stops and another one continues.
    Always,
}
