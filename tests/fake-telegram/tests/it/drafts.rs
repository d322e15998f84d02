//! Drafts: what is taken and refused, how long they are seen, and that they are no messages.

use std::time::Duration;

use satchel_fake_telegram::TelegramRules;
use serde_json::{Value, json};

use crate::Bot;

fn draft(chat: i64, id: i64, text: &str) -> Value {
    json!({ "chat_id": chat, "draft_id": id, "text": text, "parse_mode": "HTML" })
}

/// The words of the drafts that the person sees.
fn seen(bot: &Bot) -> Vec<String> {
    bot.fake.transcript().visible_drafts(bot.chat).map(|draft| draft.words.text.clone()).collect()
}

#[tokio::test]
async fn draft_is_seen_for_thirty_seconds_and_is_no_message() {
    let bot = Bot::start().await;
    assert_eq!(bot.ask("sendMessageDraft", draft(bot.chat, 7, "<b>Hel</b>")).await, true);
    bot.ask("sendMessageDraft", draft(bot.chat, 7, "<b>Hello</b>")).await;
    assert_eq!(seen(&bot), ["Hello"], "the later one takes its place");
    assert!(bot.fake.transcript().messages(bot.chat).is_empty());
    assert!(bot.reads().contains("(satchel still writes: Hello)"), "{}", bot.reads());
    bot.fake.clock().advance(Duration::from_secs(20));
    bot.ask("sendMessageDraft", draft(bot.chat, 7, "Hello again")).await;
    bot.fake.clock().advance(Duration::from_secs(20));
    assert_eq!(seen(&bot), ["Hello again"]);
    bot.fake.clock().advance(Duration::from_secs(10));
    assert_eq!(seen(&bot), [""; 0]);
    assert_eq!(bot.fake.transcript().drafts(bot.chat).len(), 3);
}

#[tokio::test]
async fn message_of_the_bot_ends_the_drafts_of_its_topic() {
    let bot = Bot::start().await;
    bot.fake.enable_private_topics();
    let topic = bot.fake.private_topic(bot.chat, "Taxes");
    bot.ask("sendMessageDraft", draft(bot.chat, 7, "Outside")).await;
    let mut inside = draft(bot.chat, 7, "Inside");
    inside["message_thread_id"] = json!(topic);
    bot.ask("sendMessageDraft", inside).await;
    bot.fake.person_says(bot.chat, 1001, "quick");
    assert_eq!(seen(&bot), ["Outside", "Inside"], "the person's own message ends none");
    bot.here("sendMessage", json!({ "text": "a", "message_thread_id": topic })).await.expect("a message");
    assert_eq!(seen(&bot), ["Outside"]);
    bot.here("sendMessage", json!({ "text": "a" })).await.expect("a message");
    assert_eq!(seen(&bot), [""; 0]);
}

#[tokio::test]
async fn draft_is_refused_as_a_message_is_and_where_there_are_none() {
    let bot = Bot::start().await;
    let group = bot.fake.group("Family", &[1001]);
    for (parameters, expected) in [
        (draft(bot.chat, 0, "a"), "400 Bad Request: draft identifier is invalid"),
        (json!({ "chat_id": bot.chat, "text": "a" }), "400 Bad Request: draft identifier is invalid"),
        (draft(group, 7, "a"), "400 Bad Request: TEXTDRAFT_PEER_INVALID"),
        (draft(99, 7, "a"), "400 Bad Request: chat not found"),
        (draft(bot.chat, 7, &"a".repeat(4_097)), "400 Bad Request: message is too long"),
        (
            json!({ "chat_id": bot.chat, "draft_id": 7, "text": "a", "message_thread_id": 5 }),
            "400 Bad Request: message thread not found",
        ),
    ] {
        assert_eq!(bot.refusal("sendMessageDraft", parameters).await, expected);
    }
    let unread = bot.refusal("sendMessageDraft", draft(bot.chat, 7, "a <x>b")).await;
    assert!(unread.starts_with("400 Bad Request: can't parse entities"), "{unread}");
    bot.ask("sendMessageDraft", draft(bot.chat, 7, &"a".repeat(4_096))).await;
    bot.ask("sendMessageDraft", json!({ "chat_id": bot.chat, "draft_id": 8 })).await;
    assert_eq!(seen(&bot).last().map(String::as_str), Some(""), "without a text it is a placeholder");
}

#[tokio::test]
async fn older_server_knows_no_drafts() {
    let bot = Bot::with(TelegramRules::default().without_drafts()).await;
    assert_eq!(bot.refusal("sendMessageDraft", draft(bot.chat, 7, "a")).await, "404 Not Found: method not found");
}
