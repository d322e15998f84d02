//! What people get who may not talk: in private a code by which an owner can let them in, elsewhere nothing.

use satchel_domain::{ConversationId, InboundMessage, Sender, SystemTask};
use satchel_ports::{
    LedgerError,
    ledger::people::{Pairing, PairingRequest, PairingRules},
};

use crate::inbound_service::InboundPipeline;

/// How many times somebody is told of a code while it lives.
const MAX_CODE_NOTICES: u32 = 6;

/// How much of the names that strangers give themselves is kept.
const NAME: usize = 100;

/// The sender of what Satchel itself has to say.
const SATCHEL: &str = "satchel";

/// Turns somebody away. Of the message nothing is kept but who wrote it and where.
///
/// Answers are errands in the ledger, so that they are delivered once and in order as every reply is. Their keys are made
/// of the code, so that a stranger who writes again and again is neither answered nor announced again and again.
pub(crate) async fn refuse_stranger(
    desk: &InboundPipeline,
    message: &InboundMessage,
    owner_chats: &[ConversationId],
) -> Result<(), LedgerError> {
    if message.group {
        return Ok(());
    }
    let rules = PairingRules::default();
    let stranger =
        PairingRequest { person: truncate_sender(&message.sender), conversation: message.conversation.clone() };
    let Some(pairing) = desk.ledger.issue_pairing_code(&stranger, &rules).await? else { return Ok(()) };
    let Pairing { code, person, issued_at, .. } = pairing;
    let interval = rules.code_ttl / MAX_CODE_NOTICES;
    let nth = desk.ledger.now().saturating_duration_since(issued_at).as_millis() / interval.as_millis().max(1);
    let introduction =
        system_message(&message.conversation, format!("introduce:{code}:{nth}"), SystemTask::OfferPairing { code });
    desk.enqueue(introduction).await?;
    for chat in owner_chats {
        let channel = message.conversation.channel().clone();
        let ask = SystemTask::RequestApproval { code, person: person.clone(), channel };
        desk.enqueue(system_message(chat, format!("ask:{code}:{chat}"), ask)).await?;
    }
    Ok(())
}

fn system_message(conversation: &ConversationId, key: String, errand: SystemTask) -> InboundMessage {
    InboundMessage {
        system_task: Some(errand),
        ..InboundMessage::new(conversation.clone(), format!("{SATCHEL}:{key}"), Sender::new(SATCHEL, "Satchel"))
    }
}

fn truncate_sender(sender: &Sender) -> Sender {
    let cut = |name: &str| name.chars().take(NAME).collect::<String>();
    Sender { id: sender.id.clone(), name: cut(&sender.name), handle: sender.handle.as_deref().map(cut) }
}

#[cfg(test)]
mod tests;
