//! What people do, as the bot is told of it.

use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FileKind, PersonMessage};
use serde_json::{Value, json};

use crate::Bot;

fn file(name: &str) -> FakeFile {
    FakeFile::generated(name, "application/octet-stream", 1, 1000)
}

async fn told(bot: &Bot) -> Vec<Value> {
    let updates = bot.ask("getUpdates", json!({})).await;
    updates.as_array().expect("a list").clone()
}

#[tokio::test]
async fn every_file_kind_has_its_own_field() {
    let bot = Bot::start().await;
    let kinds = [
        FileKind::Document,
        FileKind::Voice,
        FileKind::Audio,
        FileKind::Video,
        FileKind::VideoNote,
        FileKind::Animation,
        FileKind::Sticker,
    ];
    for kind in kinds {
        bot.fake.person_sends(bot.chat, 1001, PersonMessage::file(kind, file("a.bin")).caption("words"));
    }
    let photo = FakeFile::photo("a.png", 1280, 960, 1, 5000);
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::file(FileKind::Photo, photo));
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::location(47.5, 8.25));
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::contact("Bea", "+4100"));
    let updates = told(&bot).await;
    for (kind, update) in kinds.iter().zip(&updates) {
        let message = &update["message"];
        assert_eq!(message[kind.field()]["file_size"], 1000, "{message}");
        assert_eq!(message["caption"], "words");
        assert_eq!(message["from"]["first_name"], "Ada");
        let both = *kind == FileKind::Animation;
        assert_eq!(message["document"].is_object(), both || *kind == FileKind::Document, "{message}");
    }
    let sizes = updates[7]["message"]["photo"].as_array().expect("sizes");
    let widths: Vec<_> = sizes.iter().map(|size| size["width"].as_u64().unwrap_or_default()).collect();
    assert_eq!(widths, [90, 320, 1280], "the largest is the last");
    assert_eq!(updates[8]["message"]["location"], json!({ "latitude": 47.5, "longitude": 8.25 }));
    assert_eq!(updates[9]["message"]["contact"]["phone_number"], "+4100");
}

#[tokio::test]
async fn albums_edits_replies_forwards_and_topics_are_told() {
    let bot = Bot::start().await;
    let items = vec![
        PersonMessage::file(FileKind::Document, file("a")).caption("both"),
        PersonMessage::file(FileKind::Document, file("b")),
    ];
    let album = bot.fake.person_sends_album(bot.chat, 1001, items);
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::text("this one").replying_to(album[0]));
    let friend = bot.fake.person(1002, "Bea");
    let forwarded = PersonMessage::file(FileKind::Document, file("c")).forwarded_from(friend);
    bot.fake.person_sends(bot.chat, 1001, forwarded);
    let said = bot.fake.person_says(bot.chat, 1001, "helo");
    bot.fake.person_edits(bot.chat, 1001, said, "hello");
    bot.fake.person_edits(bot.chat, 1001, said, "hello!");
    let forum = bot.fake.forum("Family", &[1001, friend]);
    let topic = bot.fake.topic(forum, "Taxes");
    bot.fake.person_sends(
        forum,
        friend,
        PersonMessage::text("/files@satchel_fake_bot now, @satchel_fake_bot").in_topic(topic),
    );

    let updates = told(&bot).await;
    let message = |index: usize| &updates[index]["message"];
    assert_eq!(message(0)["media_group_id"], message(1)["media_group_id"]);
    assert_ne!(message(0)["media_group_id"], Value::Null);
    assert_eq!(message(2)["reply_to_message"]["document"]["file_name"], "a");
    assert_eq!(message(3)["forward_origin"]["sender_user"]["first_name"], "Bea");
    let (first, second) = (&updates[5]["edited_message"], &updates[6]["edited_message"]);
    assert_eq!((first["text"].as_str(), second["text"].as_str()), (Some("hello"), Some("hello!")));
    assert!(second["edit_date"].as_i64() > first["edit_date"].as_i64(), "no two edits share a date");
    let in_topic = message(7);
    assert_eq!((&in_topic["message_thread_id"], &in_topic["is_topic_message"]), (&json!(topic), &json!(true)));
    assert_eq!(in_topic["chat"]["is_forum"], true);
    assert_eq!(
        in_topic["entities"],
        json!([
            { "type": "bot_command", "offset": 0, "length": 23 },
            { "type": "mention", "offset": 29, "length": 17 },
        ])
    );
    assert_eq!(in_topic["reply_to_message"]["forum_topic_created"]["name"], "Taxes");
    let answer = json!({ "chat_id": forum, "message_thread_id": topic, "text": "a" });
    assert_eq!(bot.ask("sendMessage", answer).await["is_topic_message"], true);
}

/// Update, edited_message: "This update may at times be triggered by changes to message fields that are either unavailable or not
/// actively used by your bot."
#[tokio::test]
async fn reactions_and_tags_are_told_as_edits_in_which_nothing_changed() {
    let bot = Bot::start().await;
    let group = bot.fake.supergroup("Family", &[1001]);
    let photo = PersonMessage::file(FileKind::Photo, FakeFile::photo("a.png", 640, 480, 1, 5_000));
    let private = bot.fake.person_sends(bot.chat, 1001, photo.caption("look"));
    bot.fake.person_reacts(bot.chat, private);
    let command = bot.fake.person_says(group, 1001, "/files");
    bot.fake.tag_member(group, 1001, "Cook", command);
    let updates = told(&bot).await;
    let is_of_edit = |name: &str| ["edit_date", "sender_tag"].contains(&name);
    for (original, edit, tag) in [(0, 1, Value::Null), (2, 3, json!("Cook"))] {
        let (original, mut edit) = (&updates[original]["message"], updates[edit]["edited_message"].clone());
        assert!(edit["edit_date"].is_i64() && edit["sender_tag"] == tag, "{edit}");
        edit.as_object_mut().expect("a message").retain(|name, _| !is_of_edit(name));
        assert_eq!(&edit, original, "nothing else changed");
    }
}

#[tokio::test]
async fn unknown_updates_are_queued_unchanged() {
    let bot = Bot::start().await;
    let number = bot.fake.queue_update(json!({ "brand_new": { "a": 1 } }));
    bot.fake.queue_update(json!({ "message": { "chat": "no object" } }));
    let updates = told(&bot).await;
    assert_eq!(updates[0], json!({ "update_id": number, "brand_new": { "a": 1 } }));
    assert_eq!(updates[1]["message"]["chat"], "no object");
}

#[tokio::test]
async fn a_group_that_grows_is_told_in_both() {
    let bot = Bot::start().await;
    let group = bot.fake.group("Family", &[1001]);
    let supergroup = bot.fake.migrate(group);
    let updates = told(&bot).await;
    assert_eq!(updates[0]["message"]["migrate_to_chat_id"], supergroup);
    assert_eq!(updates[1]["message"]["migrate_from_chat_id"], group);
}

#[tokio::test]
async fn transcript_is_readable_and_matches_other_platforms() {
    let bot = Bot::start().await;
    let said = bot.fake.person_says(bot.chat, 1001, "May I?");
    let buttons = json!({ "inline_keyboard": [[
        { "text": "Yes", "callback_data": "/y" }, { "text": "No", "callback_data": "/n" },
    ]] });
    let reply = json!({ "message_id": said });
    let sent = json!({ "text": "Ask again", "reply_parameters": reply, "reply_markup": buttons });
    let sent = bot.here("sendMessage", sent).await.expect("sent")["message_id"].as_i64().expect("an id");
    let query = bot.fake.person_presses(1001, sent, "Yes");
    bot.ask("answerCallbackQuery", json!({ "callback_query_id": query, "text": "Noted" })).await;
    bot.here("editMessageText", json!({ "message_id": sent, "text": "You may" })).await.expect("edited");
    bot.upload("sendDocument", json!({ "caption": "here" }), vec![("document", "a.txt", b"a".to_vec())])
        .await
        .expect("sent");
    bot.fake.person_deletes(bot.chat, said);
    let expected = "== private chat: Ada ==\n\
        [1] Ada (deleted):\n    May I?\n\
        [2] satchel to [1] (edited once):\n    You may\n\
        [3] satchel:\n    + document a.txt (application/octet-stream, 1 B, sha256 ca978112ca1b…)\n    here\n\
        (Ada pressed [Yes] of [2] and read: Noted)\n";
    assert_eq!(bot.reads(), expected);

    let shared = bot.fake.transcript().shared();
    let conversation = "telegram:1001".parse().expect("a conversation");
    assert_eq!(shared.visible_texts(&conversation), ["You may"]);
    assert_eq!(shared.visible_files(&conversation)[0].caption, "here");
}
