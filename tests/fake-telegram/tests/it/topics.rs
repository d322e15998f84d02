//! What becomes of sends to a topic that was closed or deleted.

use satchel_fake_telegram::PersonMessage;
use serde_json::{Value, json};

use crate::{Bot, Upload};

struct ForumTopic {
    bot: Bot,
    id: i64,
    topic: i64,
    /// What a person has written in the topic.
    said: i64,
}

impl ForumTopic {
    async fn open() -> Self {
        let bot = Bot::start().await;
        let id = bot.fake.forum("Family", &[1001]);
        let topic = bot.fake.topic(id, "Taxes");
        let said = bot.fake.person_sends(id, 1001, PersonMessage::text("hello").in_topic(topic));
        Self { bot, id, topic, said }
    }

    /// A reply to the person's message that names the topic, or doesn't.
    fn reply(&self, names_topic: bool) -> Value {
        let reply = json!({ "message_id": self.said, "allow_sending_without_reply": true });
        let mut parameters = json!({ "chat_id": self.id, "text": "a", "reply_parameters": reply });
        if names_topic {
            parameters["message_thread_id"] = json!(self.topic);
        }
        parameters
    }
}

#[tokio::test]
async fn deleted_topic_takes_its_messages_along_and_is_not_found() {
    let forum = ForumTopic::open().await;
    let bot = &forum.bot;
    let own = bot.ask("sendMessage", forum.reply(true)).await;
    bot.fake.delete_topic(forum.id, forum.topic);
    assert_eq!(bot.refusal("sendMessage", forum.reply(true)).await, "400 Bad Request: message thread not found");
    let edit = json!({ "chat_id": forum.id, "message_id": own["message_id"], "text": "b" });
    assert_eq!(bot.refusal("editMessageText", edit).await, "400 Bad Request: message to edit not found");

    let outside = bot.ask("sendMessage", forum.reply(false)).await;
    assert_eq!((outside.get("message_thread_id"), outside.get("reply_to_message")), (None, None));
    let strict = json!({ "chat_id": forum.id, "text": "a", "reply_parameters": { "message_id": forum.said } });
    assert_eq!(bot.refusal("sendMessage", strict).await, "400 Bad Request: message to be replied not found");
}

#[tokio::test]
async fn closed_topic_refuses_sends_and_replies_until_it_is_reopened() {
    let forum = ForumTopic::open().await;
    let bot = &forum.bot;
    bot.fake.close_topic(forum.id, forum.topic);
    assert_eq!(bot.refusal("sendMessage", forum.reply(true)).await, "400 Bad Request: TOPIC_CLOSED");
    assert_eq!(bot.refusal("sendMessage", forum.reply(false)).await, "400 Bad Request: TOPIC_CLOSED");
    bot.ask("sendMessage", json!({ "chat_id": forum.id, "text": "a" })).await;

    bot.fake.reopen_topic(forum.id, forum.topic);
    let sent = bot.ask("sendMessage", forum.reply(false)).await;
    assert_eq!(sent["message_thread_id"], forum.topic, "a reply goes where the message stands that it answers");
    let updates = bot.ask("getUpdates", json!({})).await;
    let kinds = ["forum_topic_closed", "forum_topic_reopened"];
    let announced = updates
        .as_array()
        .expect("a list")
        .iter()
        .filter(|update| kinds.iter().any(|kind| update["message"].get(*kind).is_some()));
    assert_eq!(announced.map(|update| &update["message"]["message_thread_id"]).collect::<Vec<_>>(), [forum.topic; 2]);
}

#[tokio::test]
async fn album_to_a_closed_topic_is_refused_by_its_first_item() {
    let forum = ForumTopic::open().await;
    forum.bot.fake.close_topic(forum.id, forum.topic);
    let item = |name: &str| json!({ "type": "document", "media": format!("attach://{name}") });
    let parameters = json!({
        "chat_id": forum.id, "message_thread_id": forum.topic, "media": [item("a"), item("b")],
    });
    let files: Vec<Upload<'_>> = vec![("a", "a.txt", b"a".to_vec()), ("b", "b.txt", b"b".to_vec())];
    let refused = forum.bot.upload("sendMediaGroup", parameters, files).await;
    let expected = "400 Bad Request: failed to send message #1 with the error message \"TOPIC_CLOSED\"";
    assert_eq!(refused, Err(expected.to_owned()));
}

/// The kinds of service messages among the updates, with their topics.
fn announced(updates: &Value) -> Vec<(String, i64)> {
    let service = |update: &Value| {
        let fields = update["message"].as_object()?;
        let kind = fields.keys().find(|field| field.starts_with("forum_topic"))?;
        Some((kind.clone(), update["message"]["message_thread_id"].as_i64()?))
    };
    updates.as_array().expect("a list").iter().filter_map(service).collect()
}

#[tokio::test]
async fn person_opens_topics_in_a_private_chat_where_the_bot_has_them() {
    let bot = Bot::start().await;
    let in_topic = |topic: i64| json!({ "text": "a", "message_thread_id": topic });
    let me = bot.ask("getMe", json!({})).await;
    assert_eq!(me.get("has_topics_enabled"), None);
    assert_eq!(bot.here("sendMessage", in_topic(1)).await, Err("400 Bad Request: message thread not found".to_owned()));

    bot.fake.enable_private_topics();
    let me = bot.ask("getMe", json!({})).await;
    assert_eq!((&me["has_topics_enabled"], &me["allows_users_to_create_topics"]), (&json!(true), &json!(true)));
    let topic = bot.fake.private_topic(bot.chat, "Taxes");
    bot.fake.rename_private_topic(bot.chat, topic, "Taxes 2026");
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::text("hello").in_topic(topic));
    let updates = bot.ask("getUpdates", json!({})).await;
    let kinds = ["forum_topic_created", "forum_topic_edited"].map(|kind| (kind.to_owned(), topic));
    assert_eq!(announced(&updates), kinds);
    let said = &updates[2]["message"];
    assert_eq!((&said["chat"]["type"], &said["message_thread_id"]), (&json!("private"), &json!(topic)));
    assert_eq!(said["is_topic_message"], true);
    assert_eq!(said["reply_to_message"]["message_id"], topic, "it answers the message that opened its topic");

    let sent = bot.here("sendMessage", in_topic(topic)).await.expect("a message");
    assert_eq!((&sent["message_thread_id"], &sent["is_topic_message"]), (&json!(topic), &json!(true)));
    bot.fake.delete_topic(bot.chat, topic);
    assert_eq!(
        bot.here("sendMessage", in_topic(topic)).await,
        Err("400 Bad Request: message thread not found".to_owned())
    );
}
