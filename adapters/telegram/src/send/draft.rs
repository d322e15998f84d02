//! Composes the call that shows a reply while it is written, as a draft. Pure.

use satchel_domain::{TurnId, capabilities::TextLimit, part::Markup};
use serde::Serialize;
use teloxide::{
    requests::Payload,
    types::{ChatId, ParseMode, ThreadId, True},
};

use super::compose::render_text;
use crate::address::ConversationAddress;

/// `sendMessageDraft`, which teloxide doesn't have.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SendMessageDraft {
    chat_id: ChatId,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_thread_id: Option<ThreadId>,
    draft_id: i32,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parse_mode: Option<ParseMode>,
}

impl Payload for SendMessageDraft {
    type Output = True;
    const NAME: &'static str = "SendMessageDraft";
}

/// Composes the call. It has the formatting of the message that will take its place.
pub(crate) fn compose_draft(
    turn: TurnId,
    text: &str,
    address: ConversationAddress,
    limit: &TextLimit,
) -> SendMessageDraft {
    let (text, parse_mode) = render_text(text, Markup::Rich, limit);
    SendMessageDraft {
        chat_id: address.chat,
        message_thread_id: address.topic,
        draft_id: draft_id(turn),
        text,
        parse_mode,
    }
}

/// The draft of a turn: "must be non-zero", and "changes to drafts with the same identifier are animated" (Bot API,
/// sendMessageDraft). The same for a turn that is run again after a crash.
fn draft_id(turn: TurnId) -> i32 {
    let [.., a, b, c, d] = turn.0.into_bytes();
    // The end of an id is random.
    (i32::from_be_bytes([a, b, c, d]) & i32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use teloxide::types::MessageId;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn draft_is_the_documented_call() {
        let limit = satchel_routing::tables::telegram().text;
        let compose = |topic: Option<i32>| {
            let address =
                ConversationAddress { chat: ChatId(4711), topic: topic.map(|topic| ThreadId(MessageId(topic))) };
            let composed = compose_draft(TurnId(Uuid::from_u128(7)), "a **b**", address, &limit);
            serde_json::to_value(composed).unwrap()
        };
        let expected = json!({ "chat_id": 4711, "draft_id": 7, "text": "a <b>b</b>", "parse_mode": "HTML" });
        assert_eq!(compose(None), expected);
        assert_eq!(compose(Some(42))["message_thread_id"], 42);
    }

    #[test]
    fn draft_of_a_turn_has_one_positive_id() {
        for id in [0, 1, u128::MAX, 1 << 31, 1 << 40] {
            let turn = TurnId(Uuid::from_u128(id));
            assert!(draft_id(turn) > 0, "{id}");
            assert_eq!(draft_id(turn), draft_id(turn));
        }
    }
}
