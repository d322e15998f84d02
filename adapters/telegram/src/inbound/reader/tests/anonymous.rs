//! Who writes in the name of a chat, and what nobody may say so.

use super::*;

#[test]
fn anonymous_administrator_cannot_decide() {
    let open = || json!({ "id": -500, "type": "supergroup", "title": "Open" });
    let hidden = || json!({ "id": ANONYMOUS_ADMINISTRATOR, "is_bot": true, "first_name": "Group" });
    let channel = || json!({ "id": -9, "type": "channel", "title": "News" });
    for (text, length) in [("/allow ABCD2345", 6), ("/refuse ABCD2345", 7), ("/Allow ABCD2345", 6)] {
        let said = |more: Value| {
            let mut fields = json!({ "text": text, "entities": entity("bot_command", 0, length) });
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            reader().read(&update("message", message(open(), fields)))
        };
        for more in [
            json!({ "from": hidden(), "sender_chat": open() }),
            json!({ "from": hidden() }),
            json!({ "from": { "id": 136_817_688, "is_bot": true, "first_name": "Channel" }, "sender_chat": channel() }),
        ] {
            assert!(matches!(said(more.clone()), InboundEvent::Ignored(_)), "{text} {more}");
        }
        assert!(matches!(said(json!({ "from": bob() })), InboundEvent::Message { .. }), "{text}");
    }
    let question = json!({ "message_id": 20, "date": 5, "chat": open(), "from": satchel(), "text": "May I?" });
    let press = |from: Value, data: &str| {
        let query = json!({ "id": "777", "from": from, "message": question, "chat_instance": "1", "data": data });
        let InboundEvent::ButtonPressed { message, .. } = reader().read(&update("callback_query", query)) else {
            panic!("a press")
        };
        message.map(|message| message.text)
    };
    assert_eq!(press(hidden(), "/allow ABCD2345"), None);
    assert_eq!(press(hidden(), "/refuse ABCD2345"), None);
    assert_eq!(press(hidden(), "/files").as_deref(), Some("/files"));
    assert_eq!(press(bob(), "/allow ABCD2345").as_deref(), Some("/allow ABCD2345"));
}

/// The attack: another administrator writes into the turn of the first, in whose name the model then acts.
#[test]
fn anonymous_messages_are_marked() {
    let open = || json!({ "id": -500, "type": "supergroup", "title": "Open" });
    let hidden = || json!({ "id": ANONYMOUS_ADMINISTRATOR, "is_bot": true, "first_name": "Group" });
    for (more, expected) in [
        (json!({ "text": "x", "from": hidden(), "sender_chat": open() }), true),
        (json!({ "text": "x", "from": bob() }), false),
    ] {
        let read = reader().read(&update("message", message(open(), more)));
        let InboundEvent::Message { message, .. } = read else { panic!("a message") };
        assert_eq!(message.anonymous, expected, "{message:?}");
    }
}
