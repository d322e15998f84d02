//! The subjects of events and requests. Their first two tokens are `satchel.v1`.

use satchel_domain::ConversationId;
use satchel_ports::BusEvent;

/// The events that JetStream keeps.
pub(crate) const EVENTS: &str = "satchel.v1.evt.>";

/// The text of running turns, which nobody keeps.
pub(crate) const LIVE: &str = "satchel.v1.live.>";

/// Requests of other programs; the last token is the sender's id, so that a server can bind it to a user.
pub(crate) const REQUESTS: &str = "satchel.v1.cmd.turn.request.*";

/// What became of requests, by their ids.
pub(crate) const RECEIPTS: &str = "satchel.v1.receipt.>";

/// Returns the subject of an event: `satchel.v1.evt.<channel>.<conversation>.<type>`, without the type's own `evt.`.
pub(crate) fn event_subject(event: &BusEvent) -> String {
    let stream = if is_live(event) { "live" } else { "evt" };
    let conversation = event.conversation();
    let type_name = event.type_name().trim_start_matches("evt.");
    format!("satchel.v1.{stream}.{}.{}.{type_name}", conversation.channel(), conversation_token(conversation))
}

/// Returns the subject of a request's receipt. An id that is no id has none of its own.
pub(crate) fn receipt_subject(id: Option<&str>) -> String {
    format!("satchel.v1.receipt.{}", id.unwrap_or("_"))
}

/// Returns whether an event is a hint about a running turn, which is out of date at once.
pub(crate) fn is_live(event: &BusEvent) -> bool {
    matches!(event, BusEvent::TextDelta { .. })
}

/// Returns whether text can be a token of a subject that stands for nothing but itself.
pub(crate) fn is_token(text: &str) -> bool {
    let is_allowed_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_allowed_byte)
}

/// Writes a conversation's key as one token. Keys hold letters, digits and `-_./@` alone, so that `=` and `+` are free.
fn conversation_token(conversation: &ConversationId) -> String {
    let escape = |c: char| match c {
        '.' => '=',
        '/' => '+',
        c => c,
    };
    conversation.key().chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use satchel_domain::TurnId;
    use uuid::Uuid;

    use super::*;

    fn received(conversation: &str) -> BusEvent {
        BusEvent::MessageReceived { conversation: conversation.parse().unwrap(), turn: TurnId(Uuid::nil()) }
    }

    #[test]
    fn a_conversation_is_one_token_of_its_own() {
        for (conversation, token) in
            [("telegram:-100123/42", "-100123+42"), ("web:a.b", "a=b"), ("discord:@7", "@7"), ("web:..", "==")]
        {
            let subject = event_subject(&received(conversation));
            let channel = conversation.split(':').next().unwrap();
            assert_eq!(subject, format!("satchel.v1.evt.{channel}.{token}.message.received"));
        }
    }

    #[test]
    fn a_wildcard_is_no_token() {
        for wrong in ["", "*", ">", "a.b", "a b", "a\r\nPUB", "é", &"x".repeat(65)] {
            assert!(!is_token(wrong), "{wrong}");
        }
        assert!(is_token("order-7_A") && is_token(&"x".repeat(64)));
    }
}
