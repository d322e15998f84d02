//! Messages in topics of a private chat, and what tells of such topics.

use super::*;

/// Catches: a topic that counts as a group, in which the person would have to name the bot, and a model that reads of topics.
#[test]
fn a_topic_of_a_private_chat_is_a_private_conversation() {
    let opening = json!({ "message_id": 5, "date": 1, "chat": private(), "from": ann(), "message_thread_id": 5,
        "is_topic_message": true, "forum_topic_created": { "name": "Taxes", "icon_color": 7_322_096 } });
    let in_topic = |more: Value| {
        let mut content = message(private(), json!({ "message_thread_id": 5, "is_topic_message": true }));
        content.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        content
    };
    let said = read(&update("message", in_topic(json!({ "text": "hello", "reply_to_message": opening }))));
    assert_eq!((said.conversation.to_string(), said.text.as_str()), ("telegram:42/5".to_owned(), "hello"));
    assert!(!said.group);
    let edited = read(&update("edited_message", in_topic(json!({ "text": "hallo", "edit_date": 9 }))));
    assert_eq!(edited.conversation, said.conversation);
    let service_messages = [
        json!({ "forum_topic_created": { "name": "Taxes", "icon_color": 7_322_096, "is_name_implicit": true } }),
        json!({ "forum_topic_edited": { "name": "Taxes 2026" } }),
        json!({ "forum_topic_closed": {} }),
        json!({ "forum_topic_reopened": {} }),
    ];
    for told in service_messages {
        let event = reader().read(&update("message", in_topic(told.clone())));
        assert!(matches!(event, InboundEvent::Ignored(_)), "{told}: {event:?}");
    }
}
