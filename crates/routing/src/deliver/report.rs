//! What an operator and other parts of the process learn of a delivery.

use satchel_domain::{Part, PartState, part::FailureReason};
use satchel_ports::BusEvent;

use super::DeliveryContext;

/// Logs what an operator wants to see: everything that is not simply sent.
pub(super) fn log_result(context: &DeliveryContext, part: &Part) {
    let Part { id, conversation, turn, attempts, .. } = part;
    let (kind, channel) = (part.operation.kind(), context.channel.name());
    match &part.state {
        PartState::Sent { .. } => {
            tracing::info!(chat.id = %conversation, turn.id = %turn, part.id = %id, part.kind = kind, attempts, "part sent");
        }
        PartState::Waiting { reason, .. } => {
            tracing::info!(part.id = %id, part.kind = kind, attempts, %channel, reason, "sending a part failed; it will be retried");
        }
        PartState::InDoubt { reason, .. } => {
            tracing::warn!(part.id = %id, part.kind = kind, attempts, %channel, reason, "part may have arrived");
        }
        PartState::Open { .. } => {
            tracing::info!(chat.id = %conversation, turn.id = %turn, part.id = %id, part.kind = kind, attempts, "question asked");
        }
        PartState::Failed { reason: FailureReason::NotNeeded } => {
            tracing::info!(part.id = %id, part.kind = kind, attempts, "question closed before it was sent");
        }
        PartState::Failed { reason } => {
            tracing::warn!(part.id = %id, part.kind = kind, attempts, %channel, reason = %reason, "part given up");
        }
        PartState::Pending | PartState::Sending | PartState::Replaced { .. } => {}
    }
}

pub(super) async fn publish_part_state(context: &DeliveryContext, part: &Part) {
    let reason = match &part.state {
        PartState::Failed { reason } => Some(reason.clone()),
        _ => None,
    };
    let messages = match &part.state {
        PartState::Sent { messages } => messages.clone(),
        PartState::Open { message } => vec![message.clone()],
        _ => Vec::new(),
    };
    let event = BusEvent::DeliveryPart {
        conversation: part.conversation.clone(),
        turn: part.turn,
        part: part.id,
        kind: part.operation.kind().to_owned(),
        state: part.state.as_str().to_owned(),
        messages,
        reason,
    };
    // Subscribers poll the ledger as well, so a failing bus only costs latency.
    if let Err(error) = context.bus.publish(event).await {
        tracing::debug!(error = %error, "publishing a delivery event failed");
    }
}
