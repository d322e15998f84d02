//! Looks up messages whose send is in doubt.

use satchel_domain::{ConversationId, MessageRef, capabilities::LookupRule, delivery::SendError};
use satchel_ports::{
    Channel, LedgerError, LookupOutcome, LookupRange, LookupRequest, Outbox, PostRequest, ledger::RecordedMessages,
};

/// A send that was left in doubt.
#[derive(Debug, Clone)]
pub(crate) struct DoubtfulSend {
    /// What was sent.
    pub part: PostRequest,
    /// How many attempts may have arrived.
    pub attempts: u32,
}

/// Looks in `range` for a send in doubt.
///
/// The inner result is the channel's: an error there means that it could not look, not that nothing was found.
///
/// # Errors
/// When the ledger can't say what it knows of the chat's messages.
pub(crate) async fn look_up(
    outbox: &dyn Outbox,
    channel: &dyn Channel,
    DoubtfulSend { part, attempts }: DoubtfulSend,
    range: LookupRange,
) -> Result<Result<LookupOutcome, SendError>, LedgerError> {
    let recorded = match channel.capabilities(&part.conversation).look_up {
        LookupRule::None => return Ok(Ok(LookupOutcome::uncertain("the channel doesn't support look-up"))),
        LookupRule::History => RecordedMessages::default(),
        LookupRule::MessageIds => outbox.list_recorded_messages(&part.conversation, part.part_id).await?,
    };
    if recorded.other_doubt {
        // An id tells that a message is ours, and not which of two.
        return Ok(Ok(LookupOutcome::uncertain("another message to the chat may have arrived as well")));
    }
    Ok(channel.find_sent(&LookupRequest { part, range, attempts, recorded }).await)
}

/// Deletes messages that a person sees twice. What can't be deleted stays, and is logged: the other copy is the reply.
pub(crate) async fn delete_duplicates(channel: &dyn Channel, conversation: &ConversationId, duplicates: &[MessageRef]) {
    for duplicate in duplicates {
        match channel.delete(conversation, duplicate).await {
            Ok(()) => tracing::info!(chat.id = %conversation, message.id = %duplicate, "late duplicate deleted"),
            Err(error) => {
                tracing::warn!(chat.id = %conversation, message.id = %duplicate, %error, "deleting a late duplicate failed; it stays in the chat");
            }
        }
    }
}
