//! What of a reply stands in the chat already, so that what comes after can answer it.

use satchel_domain::{MessageRef, Part, PartContent, PartState, TurnId, capabilities::ReplyRule};
use satchel_ports::LedgerError;

use super::DeliveryContext;

/// The last message of a reply, as far as this run of the lane has sent it.
#[derive(Default)]
pub(super) struct ReplyAnchor(Option<(TurnId, MessageRef)>);

impl ReplyAnchor {
    /// Remembers a part that arrived.
    pub(super) fn record_sent(&mut self, part: &Part) {
        if let Some(last) = last_message(part) {
            self.0 = Some((part.turn, last.clone()));
        }
    }

    /// The message that a part answers.
    ///
    /// # Errors
    /// When the ledger can't be asked for what was sent before this run.
    pub(super) async fn reply_target(
        &self,
        delivery: &DeliveryContext,
        part: &Part,
        rule: ReplyRule,
    ) -> Result<Option<MessageRef>, LedgerError> {
        if rule == ReplyRule::Question || part.position == 0 {
            return Ok(part.reply_to.clone());
        }
        let last = match &self.0 {
            Some((turn, last)) if *turn == part.turn => Some(last.clone()),
            _ => delivery.ledger.turn(part.turn).await?.and_then(|turn| {
                let before = turn.parts.iter().take_while(|known| known.id != part.id);
                before.filter_map(last_message).last().cloned()
            }),
        };
        Ok(match (last, &part.content) {
            (None, _) => part.reply_to.clone(),
            (last, PartContent::File(_) | PartContent::Album { .. } | PartContent::Voice { .. }) => last,
            (Some(_), _) => None,
        })
    }
}

fn last_message(part: &Part) -> Option<&MessageRef> {
    match &part.state {
        PartState::Sent { messages } => messages.last(),
        _ => None,
    }
}
