//! A turn that starts again with messages that belong to it, as long as nothing of its reply is recorded or shown.

use satchel_domain::TurnId;
use satchel_ports::{
    LedgerError,
    ledger::{QueuedTurn, ToolDecision},
};
use tokio::sync::watch;

use crate::{AgentServices, LaneHandle, draft::DeltaSink};

/// What the messages that arrive while a turn runs mean for it.
#[derive(Debug, Default)]
pub struct ArrivalSignals {
    /// People's decisions about calls that wait for one.
    pub(crate) decisions: watch::Sender<Vec<ToolDecision>>,
    /// The turns queued behind it that belong to it.
    pub(crate) joins: watch::Sender<Vec<TurnId>>,
}

/// Whether what a person sends in quick succession is one message in this lane.
pub(crate) fn joins_messages(lane: &LaneHandle) -> bool {
    lane.channel.capabilities(&lane.lease.conversation).joins_messages
}

/// Waits until turns belong to the one that runs, and takes its reply back. `None` once something of that is recorded or shown.
pub(crate) async fn wait_for_followers(
    lane: &LaneHandle,
    mut joins: watch::Receiver<Vec<TurnId>>,
    deltas: &DeltaSink,
) -> Option<Vec<TurnId>> {
    let followers = joins.wait_for(|joins| !joins.is_empty()).await.ok()?.clone();
    withdraw_reply(lane, deltas).await.then_some(followers)
}

/// Takes the reply of a turn back, and makes the turns that belong to it a part of it. Returns `false` if there are none, or if it
/// is too late.
///
/// # Errors
/// As [`join_turns`].
pub(crate) async fn try_join(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    followers: &[TurnId],
    deltas: &DeltaSink,
) -> Result<bool, LedgerError> {
    if followers.is_empty() || !withdraw_reply(lane, deltas).await {
        return Ok(false);
    }
    join_turns(services, lane, turn, followers).await
}

async fn withdraw_reply(lane: &LaneHandle, deltas: &DeltaSink) -> bool {
    deltas.withdraw(lane.channel.capabilities(&lane.lease.conversation).stream).await
}

/// Makes turns a part of this one. Returns `false` if the ledger has something of its reply.
///
/// Once this has started, this run of the turn must not complete it: the messages may have joined, and would be consumed unread.
/// The next run reads them.
///
/// # Errors
/// When the ledger fails or the lease is lost.
pub(crate) async fn join_turns(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    followers: &[TurnId],
) -> Result<bool, LedgerError> {
    let has_joined = services.turns.join_turns(&lane.lease, turn.id, followers).await?;
    if has_joined {
        tracing::debug!(turn.id = %turn.id, turns = followers.len(), "more of the message has arrived; the turn starts again");
    }
    Ok(has_joined)
}
