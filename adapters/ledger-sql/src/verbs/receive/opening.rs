//! The message from which a conversation was started: it is put before the first message of the conversation that brings it.

use std::borrow::Cow;

use satchel_domain::{ConversationOpening, InboundMessage};

use super::earlier_version::EarlierVersion;
use crate::{
    lanes::LaneId,
    params,
    session::{Session, VerbResult},
};

/// Returns a message as it is stored: with the opening if it is the first one that brings it, otherwise without. An edit has
/// what the version before it has, however the opening has changed since.
pub(super) async fn open<'m, S: Session>(
    db: &S,
    message: &'m InboundMessage,
    lane: LaneId,
    earlier: Option<&EarlierVersion>,
) -> VerbResult<Cow<'m, InboundMessage>, S> {
    let opening = match (earlier, message.opening.as_deref()) {
        (Some(earlier), _) => earlier.opening(),
        (None, Some(opening)) => match has_opening(db, message, lane, opening).await? {
            true => None,
            false => Some(opening.clone()),
        },
        (None, None) => None,
    };
    if opening.is_none() && message.opening.is_none() {
        return Ok(Cow::Borrowed(message));
    }
    let message = InboundMessage { opening: None, ..message.clone() };
    Ok(Cow::Owned(match opening {
        Some(opening) => message.opened_by(opening),
        None => message,
    }))
}

/// Whether a conversation has had its opening: as a message of its own, or before another one. Of messages that were
/// forgotten with their conversation nothing is known, and what was forgotten isn't brought back.
async fn has_opening<S: Session>(
    db: &S,
    message: &InboundMessage,
    lane: LaneId,
    opening: &ConversationOpening,
) -> VerbResult<bool, S> {
    db.value(
        "SELECT EXISTS (SELECT 1 FROM turns JOIN inbox ON inbox.turn = turns.id WHERE turns.lane = $1 \
             AND (inbox.message = '{}' OR json_extract(inbox.message, '$.opening') IS NOT NULL)) \
         OR EXISTS (SELECT 1 FROM inbox_keys JOIN inbox ON inbox.sequence = inbox_keys.message \
             WHERE inbox_keys.channel = $2 AND inbox_keys.key = $3 AND inbox.lane = $1)",
        params![lane, message.conversation.channel().as_str(), opening.key.as_deref().unwrap_or_default()],
    )
    .await
}
