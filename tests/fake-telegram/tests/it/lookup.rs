//! Whose a message is, as `stopMessageLiveLocation` tells it without changing anything.

use satchel_fake_kit::{FakeFile, Fault, FaultTiming};
use satchel_fake_telegram::{FileKind, PersonMessage, TelegramRules};
use serde_json::{Value, json};

use crate::{Bot, mp4, png};

const OURS: &str = "400 Bad Request: there is no live location in the message to edit";
const OTHERS: &str = "400 Bad Request: message can't be edited";
const NONE: &str = "400 Bad Request: message to edit not found";

async fn look_up(bot: &Bot, chat: i64, message: i64) -> String {
    bot.refusal("stopMessageLiveLocation", json!({ "chat_id": chat, "message_id": message })).await
}

async fn look_up_all(bot: &Bot, chat: i64, ids: std::ops::RangeInclusive<i64>) -> Vec<String> {
    let mut answers = Vec::new();
    for id in ids {
        answers.push(look_up(bot, chat, id).await);
    }
    answers
}

fn id(sent: &Value) -> i64 {
    sent["message_id"].as_i64().expect("an id")
}

#[tokio::test]
async fn own_messages_of_every_kind_are_ours() {
    let bot = Bot::start().await;
    let text = bot.here("sendMessage", json!({ "text": "a" })).await.expect("sent");
    let buttons = json!({ "inline_keyboard": [[{ "text": "Yes", "callback_data": "/y" }]] });
    bot.here("sendMessage", json!({ "text": "May I?", "reply_markup": buttons })).await.expect("sent");
    for (method, part, bytes) in [
        ("sendPhoto", "photo", png(10, 10, 0)),
        ("sendDocument", "document", b"a".to_vec()),
        ("sendVoice", "voice", b"OggS".to_vec()),
        ("sendAudio", "audio", b"ID3".to_vec()),
        ("sendVideo", "video", mp4()),
        ("sendAnimation", "animation", mp4()),
    ] {
        bot.upload(method, json!({}), vec![(part, "a", bytes)]).await.expect(method);
    }
    let item = json!({ "type": "photo", "media": "attach://p" });
    let album = json!({ "media": [item, item] });
    bot.upload("sendMediaGroup", album, vec![("p", "p.png", png(1, 1, 0))]).await.expect("sent");
    let before = bot.reads();
    assert_eq!(look_up_all(&bot, bot.chat, 1..=10).await, vec![OURS; 10]);
    bot.here("editMessageText", json!({ "message_id": id(&text), "text": "b" })).await.expect("edited");
    assert_eq!(look_up(&bot, bot.chat, id(&text)).await, OURS, "a streamed reply is looked up like any other");
    bot.here("editMessageText", json!({ "message_id": id(&text), "text": "a" })).await.expect("edited");
    assert_eq!(bot.reads(), before.replacen("satchel:", "satchel (edited 2 times):", 1), "nothing else has changed");
}

#[tokio::test]
async fn a_video_note_has_nothing_to_edit() {
    let bot = Bot::start().await;
    let note = bot.upload("sendVideoNote", json!({}), vec![("video_note", "a", mp4())]).await.expect("sent");
    assert_eq!(look_up(&bot, bot.chat, id(&note)).await, OTHERS, "no caption, no text: only its buttons can change");
    let buttons = json!({ "inline_keyboard": [[{ "text": "Yes", "callback_data": "/y" }]] });
    let markup = json!({ "message_id": id(&note), "reply_markup": buttons });
    bot.here("editMessageReplyMarkup", markup).await.expect("edited");
}

#[tokio::test]
async fn other_peoples_and_service_messages_are_others() {
    let bot = Bot::start().await;
    let said = bot.fake.person_says(bot.chat, 1001, "hello");
    let file = FakeFile::generated("a", "text/plain", 1, 10);
    let sent = bot.fake.person_sends(bot.chat, 1001, PersonMessage::file(FileKind::Document, file));
    let forum = bot.fake.forum("Family", &[1001]);
    let topic = bot.fake.topic(forum, "Taxes");
    let group = bot.fake.group("Small", &[1001]);
    let migrated = bot.fake.migrate(group);
    let service = bot.fake.person_sets_auto_delete(bot.chat, 1001, 86_400);
    for (chat, message) in [(bot.chat, said), (bot.chat, sent), (bot.chat, service), (forum, topic), (migrated, 1)] {
        assert_eq!(look_up(&bot, chat, message).await, OTHERS, "{message} in {chat}");
    }
}

#[tokio::test]
async fn missing_deleted_and_foreign_ids_are_not_found() {
    let bot = Bot::start().await;
    let friend = bot.fake.private_chat(bot.fake.person(1002, "Bea"));
    let deleted = bot.here("sendMessage", json!({ "text": "a" })).await.expect("sent");
    let withdrawn = bot.here("sendMessage", json!({ "text": "b" })).await.expect("sent");
    let elsewhere = bot.ask("sendMessage", json!({ "chat_id": friend, "text": "c" })).await;
    let asked = bot.fake.person_says(friend, 1002, "hello");
    let own = bot.here("sendMessage", json!({ "text": "d" })).await.expect("sent");
    bot.fake.person_deletes(bot.chat, id(&deleted));
    bot.here("deleteMessage", json!({ "message_id": id(&withdrawn) })).await.expect("deleted");
    assert_eq!((id(&elsewhere), asked, id(&own)), (3, 4, 5));
    assert_eq!(look_up_all(&bot, bot.chat, 1..=7).await, [NONE, NONE, NONE, NONE, OURS, NONE, NONE]);
    assert_eq!(look_up_all(&bot, friend, 3..=5).await, [OURS, OTHERS, NONE]);
}

#[tokio::test]
async fn what_is_wrong_with_a_chat_comes_first() {
    let bot = Bot::start().await;
    let sent = bot.here("sendMessage", json!({ "text": "a" })).await.expect("sent");
    assert_eq!(look_up(&bot, 5, id(&sent)).await, "400 Bad Request: chat not found");
    bot.fake.person_blocks(1001);
    assert_eq!(look_up(&bot, bot.chat, id(&sent)).await, "403 Forbidden: bot was blocked by the user");
    let group = bot.fake.group("Family", &[1001]);
    let supergroup = bot.fake.migrate(group);
    let moved = bot.answer("stopMessageLiveLocation", json!({ "chat_id": group, "message_id": 1 })).await;
    assert_eq!(moved.expect("an answer")["parameters"]["migrate_to_chat_id"], supergroup);
    bot.fake.kick(supergroup, 1001);
    let kicked = look_up(&bot, supergroup, 1).await;
    assert_eq!(kicked, "403 Forbidden: bot was kicked from the supergroup chat");
    let markup = json!({ "chat_id": 1001, "message_id": 1, "reply_markup": "{" });
    bot.fake.person_unblocks(1001);
    let refused = bot.refusal("stopMessageLiveLocation", markup).await;
    assert_eq!(refused, "400 Bad Request: can't parse reply markup JSON object");
}

#[tokio::test]
async fn looking_up_is_paced_over_all_chats_only() {
    let bot = Bot::with(TelegramRules::default().paced()).await;
    bot.fake.clock().pause();
    bot.here("sendMessage", json!({ "text": "a" })).await.expect("sent");
    assert_eq!(look_up_all(&bot, bot.chat, 1..=5).await, [OURS, NONE, NONE, NONE, NONE], "more than a chat's burst");
    bot.here("sendMessage", json!({ "text": "b" })).await.expect("the chat's burst is still there");
    assert_eq!((bot.fake.pace().accepted, bot.fake.pace().refused), (2, 0), "no edit is counted");
    let mut answers = Vec::new();
    while answers.len() < 40 {
        answers.push(look_up(&bot, bot.chat, 1).await);
    }
    let (through, refused) = answers.split_at(23);
    assert_eq!(through, [OURS; 23], "with the seven before they are thirty");
    assert_eq!(refused, ["429 Too Many Requests: retry after 1"; 17]);
    bot.fake.clock().advance(std::time::Duration::from_secs(1));
    assert_eq!(look_up(&bot, bot.chat, 1).await, OURS);
}

#[tokio::test]
async fn looking_up_meets_its_own_faults() {
    let bot = Bot::start().await;
    bot.here("sendMessage", json!({ "text": "a" })).await.expect("sent");
    bot.fake.script("stopMessageLiveLocation", FaultTiming::First(2), Fault::RateLimit { retry_after_ms: 3000 });
    let answers = look_up_all(&bot, bot.chat, 1..=3).await;
    let limited = "429 Too Many Requests: retry after 3";
    assert_eq!(answers, [limited, limited, NONE]);
    assert_eq!(look_up(&bot, bot.chat, 1).await, OURS);
    bot.fake.script_next("stopMessageLiveLocation", Fault::ServerError);
    assert_eq!(look_up(&bot, bot.chat, 1).await, "500 Internal Server Error");
    bot.fake.script_next("stopMessageLiveLocation", Fault::ResetMidTransfer);
    let parameters = json!({ "chat_id": bot.chat, "message_id": 1 });
    bot.answer("stopMessageLiveLocation", parameters).await.expect_err("it was cut");
}
