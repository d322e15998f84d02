//! The subjects of events and requests. Their first two tokens are `satchel.v1`.

use satchel_domain::ConversationId;
use satchel_ports::BusEvent;

use crate::CHANNEL;

/// The events that JetStream keeps.
pub(crate) const EVENTS: &str = "satchel.v1.evt.>";

/// The text of running turns, which nobody keeps.
pub(crate) const LIVE: &str = "satchel.v1.live.>";

/// Requests of other programs; the last token is the sender's id, so that a server can bind it to a user.
pub(crate) const REQUESTS: &str = "satchel.v1.cmd.turn.request.*";

/// What became of requests, by their senders and their ids.
pub(crate) const RECEIPTS: &str = "satchel.v1.receipt.>";

/// The token of a receipt whose request has no valid id, or no valid sender.
const NO_ID: &str = "_";

/// Returns the subject of an event: `satchel.v1.evt.<channel>.<conversation>.<type>`, without the type's own `evt.`.
pub(crate) fn event_subject(event: &BusEvent) -> String {
    let stream = if is_live(event) { "live" } else { "evt" };
    let conversation = event.conversation();
    let type_name = event.type_name().trim_start_matches("evt.");
    format!("satchel.v1.{stream}.{}.{}.{type_name}", conversation.channel(), conversation_tokens(conversation))
}

/// Returns the subject of a request's receipt: `satchel.v1.receipt.<sender>.<id>`, so that a server can let each
/// program read its own alone.
pub(crate) fn receipt_subject(sender_id: &str, id: Option<&str>) -> String {
    let sender = if is_token(sender_id) { sender_id } else { NO_ID };
    format!("satchel.v1.receipt.{sender}.{}", id.unwrap_or(NO_ID))
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
///
/// That of programs is one token for each name between slashes, so that a server's permission can cover a program's
/// conversations and nobody else's: `satchel.v1.*.nats.orders.>`.
fn conversation_tokens(conversation: &ConversationId) -> String {
    let names = conversation.key().split('/').map(|name| name.replace('.', "="));
    if conversation.channel().as_str() == CHANNEL {
        // No token of a subject is empty.
        let tokens = names.map(|name| if name.is_empty() { "+".to_owned() } else { name });
        return tokens.collect::<Vec<_>>().join(".");
    }
    names.collect::<Vec<_>>().join("+")
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
    fn conversations_of_programs_are_tokens_by_name() {
        for (conversation, tokens) in [
            ("nats:orders", "orders"),
            ("nats:orders/june/1.2", "orders.june.1=2"),
            ("nats:orders//june/", "orders.+.june.+"),
            ("nats:/", "+.+"),
        ] {
            let subject = event_subject(&received(conversation));
            assert_eq!(subject, format!("satchel.v1.evt.nats.{tokens}.message.received"));
        }
    }

    #[test]
    fn receipt_is_below_its_sender() {
        for (sender, id, subject) in [
            ("orders", Some("one"), "satchel.v1.receipt.orders.one"),
            ("orders", None, "satchel.v1.receipt.orders._"),
            // A sender who would be a wildcard, or several tokens.
            (">", Some("one"), "satchel.v1.receipt._.one"),
            ("a b", None, "satchel.v1.receipt._._"),
        ] {
            assert_eq!(receipt_subject(sender, id), subject);
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
