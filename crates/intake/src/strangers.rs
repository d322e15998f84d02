//! Replies to strangers: a pairing code in a private chat, nothing elsewhere.

use satchel_domain::{
    ConversationId, InboundMessage, Sender, SystemTask,
    pairing::{approval_key, offer_key},
};
use satchel_ports::{
    LedgerError,
    ledger::{IssuedCode, Pairing, PairingRequest, PairingRules},
};

use crate::inbound_service::InboundPipeline;

/// How many of a stranger's messages are answered with their code.
const MAX_CODE_NOTICES: u32 = 6;

/// How much of the names that strangers give themselves is kept.
const MAX_NAME_CHARS: usize = 100;

/// Refuses a stranger. Only the sender and the conversation of the message are stored.
///
/// The replies are system tasks in the ledger, so that they are delivered once and in order. Their keys are made
/// of the code, so that a stranger who writes again and again is announced once, and answered a few times; after that
/// nothing is written.
pub(crate) async fn refuse_stranger(
    pipeline: &InboundPipeline,
    message: &InboundMessage,
    owner_chats: &[ConversationId],
) -> Result<(), LedgerError> {
    if message.group {
        return Ok(());
    }
    let rules = PairingRules::default();
    let request =
        PairingRequest { person: truncate_sender(&message.sender), conversation: message.conversation.clone() };
    let Some(issued) = pipeline.pairings.issue_pairing_code(&request, &rules).await? else { return Ok(()) };
    let IssuedCode { pairing: Pairing { code, person, .. }, offers } = issued;
    // Before the first offer: once there is one, all owners have been asked.
    let unasked = if offers == 0 { owner_chats } else { &[][..] };
    for chat in unasked {
        let channel = message.conversation.channel().clone();
        let system_task = SystemTask::RequestApproval { code, person: person.clone(), channel };
        pipeline.enqueue(system_message(chat, approval_key(code, chat), system_task)).await?;
    }
    if offers < MAX_CODE_NOTICES {
        let offer = SystemTask::OfferPairing { code };
        pipeline.enqueue(system_message(&message.conversation, offer_key(code, offers), offer)).await?;
    }
    Ok(())
}

fn system_message(conversation: &ConversationId, key: String, system_task: SystemTask) -> InboundMessage {
    InboundMessage {
        system_task: Some(system_task),
        ..InboundMessage::new(conversation.clone(), key, Sender::satchel())
    }
}

fn truncate_sender(sender: &Sender) -> Sender {
    let truncate = |name: &str| name.chars().take(MAX_NAME_CHARS).collect::<String>();
    Sender { id: sender.id.clone(), name: truncate(&sender.name), handle: sender.handle.as_deref().map(truncate) }
}

#[cfg(test)]
mod tests;
