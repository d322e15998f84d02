//! The time zones that people have chosen, for the headings of their messages: those by which the tools read their times.

use satchel_domain::{MessageOrigin, Sender, SystemTask};
use satchel_ports::{
    LedgerError,
    ledger::{PersonKey, QueuedMessage, QueuedTurn, SteeringMessage},
};
use satchel_routing::retry::retry_until_stored;

use crate::{AgentServices, LaneHandle};

/// Reads the origin of the message that started a turn; of an album its first message counts.
///
/// # Errors
/// When the ledger can't be read.
pub(crate) async fn load_turn_origin(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
) -> Result<Option<MessageOrigin>, LedgerError> {
    let Some(queued) = turn.messages.first() else { return Ok(None) };
    let origin = queued.origin();
    if !is_by_person(queued) {
        return Ok(Some(origin));
    }
    let timezone = load_timezone(services, lane, &queued.message.sender).await?;
    Ok(Some(MessageOrigin { timezone, ..origin }))
}

/// Adds the time zone of its sender to the origin of a message that is injected into a turn.
///
/// # Errors
/// When the ledger can't be read.
pub(crate) async fn add_timezone(
    services: &AgentServices,
    lane: &LaneHandle,
    mut steered: SteeringMessage,
) -> Result<SteeringMessage, LedgerError> {
    if let Some(origin) = &mut steered.origin {
        origin.timezone = load_timezone(services, lane, &steered.sender).await?;
    }
    Ok(steered)
}

/// Whether a message has a person behind it, and not Satchel itself.
fn is_by_person(queued: &QueuedMessage) -> bool {
    queued.message.system_task.as_ref().is_none_or(SystemTask::runs_for_sender)
}

/// Reads the name of the zone that a person has chosen.
async fn load_timezone(
    services: &AgentServices,
    lane: &LaneHandle,
    sender: &Sender,
) -> Result<Option<String>, LedgerError> {
    let person = PersonKey::new(lane.lease.conversation.channel(), sender);
    retry_until_stored(&lane.stop, || services.reminders.load_timezone(&person)).await
}
