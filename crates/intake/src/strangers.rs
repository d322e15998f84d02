//! Replies to strangers: a pairing code in a private chat, nothing elsewhere.

use satchel_domain::{ConversationId, InboundMessage, SATCHEL_SENDER_ID, Sender, SystemTask, pairing::approval_key};
use satchel_ports::{
    LedgerError,
    ledger::{Pairing, PairingRequest, PairingRules},
};

use crate::inbound_service::InboundPipeline;

/// How many of a stranger's messages are answered with their code.
const MAX_CODE_NOTICES: u32 = 6;

/// How much of the names that strangers give themselves is kept.
const MAX_NAME_CHARS: usize = 100;

/// Refuses a stranger. Only the sender and the conversation of the message are stored.
///
/// The replies are system tasks in the ledger, so that they are delivered once and in order. Their keys are made
/// of the code, so that a stranger who writes again and again is announced once, and answered a few times.
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
    let Some(pairing) = pipeline.pairings.issue_pairing_code(&request, &rules).await? else { return Ok(()) };
    let Pairing { code, person, .. } = pairing;
    for nth in 0..MAX_CODE_NOTICES {
        let key = format!("{SATCHEL_SENDER_ID}:introduce:{code}:{nth}");
        let offer = SystemTask::OfferPairing { code };
        if pipeline.enqueue_if_new(system_message(&message.conversation, key, offer)).await? {
            break;
        }
    }
    for chat in owner_chats {
        let channel = message.conversation.channel().clone();
        let system_task = SystemTask::RequestApproval { code, person: person.clone(), channel };
        pipeline.enqueue(system_message(chat, approval_key(code, chat), system_task)).await?;
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
