//! The last sent message of a reply, to which its later messages reply.

use satchel_domain::{MessageRef, Part, PartContent, PartState, TurnId, capabilities::ReplyRule};
use satchel_ports::LedgerError;

use super::DeliveryContext;

/// The last message of a reply, as far as this run of the lane has sent it.
#[derive(Default)]
pub(super) struct ReplyAnchor(Option<(TurnId, MessageRef)>);

impl ReplyAnchor {
    /// Records a part that was sent.
    pub(super) fn record_sent(&mut self, part: &Part) {
        if let Some(last) = last_message(part) {
            self.0 = Some((part.turn, last.clone()));
        }
    }

    /// Returns the message that a part replies to.
    ///
    /// # Errors
    /// When the ledger can't be read for earlier messages.
    pub(super) async fn reply_target(
        &self,
        context: &DeliveryContext,
        part: &Part,
        rule: ReplyRule,
    ) -> Result<Option<MessageRef>, LedgerError> {
        if rule == ReplyRule::PersonMessage || part.position == 0 || part.question.is_some() {
            return Ok(part.reply_to.clone());
        }
        let last = match &self.0 {
            Some((turn, last)) if *turn == part.turn => Some(last.clone()),
            _ => context.archive.turn(part.turn).await?.and_then(|turn| {
                let earlier = turn.parts.iter().take_while(|other| other.id != part.id);
                earlier.filter_map(last_message).last().cloned()
            }),
        };
        Ok(match (last, part.content()) {
            (None, _) => part.reply_to.clone(),
            (last, Some(PartContent::File(_) | PartContent::Album { .. } | PartContent::Voice { .. })) => last,
            (Some(_), _) => None,
        })
    }
}

fn last_message(part: &Part) -> Option<&MessageRef> {
    match &part.state {
        PartState::Sent { messages } if part.question.is_none() => messages.last(),
        _ => None,
    }
}
