//! Which ids messages get, and that equal ids in two chats are two messages.

use serde_json::json;

use crate::{Bot, png};

async fn send(bot: &Bot, chat: i64) -> i64 {
    let sent = bot.ask("sendMessage", json!({ "chat_id": chat, "text": "a" })).await;
    sent["message_id"].as_i64().expect("an id")
}

#[tokio::test]
async fn private_chats_and_groups_share_one_counter() {
    let bot = Bot::start().await;
    let friend = bot.fake.private_chat(bot.fake.person(1002, "Bea"));
    let group = bot.fake.group("Family", &[1001, 1002]);
    assert_eq!(send(&bot, bot.chat).await, 1);
    assert_eq!(send(&bot, friend).await, 2);
    assert_eq!(bot.fake.person_says(group, 1002, "hello"), 3);
    assert_eq!(send(&bot, group).await, 4);
    assert_eq!(send(&bot, bot.chat).await, 5);
    let texts = |chat| bot.fake.transcript().messages(chat).iter().map(|message| message.id).collect::<Vec<_>>();
    assert_eq!((texts(bot.chat), texts(friend), texts(group)), (vec![1, 5], vec![2], vec![3, 4]));
}

#[tokio::test]
async fn supergroups_count_for_themselves() {
    let bot = Bot::start().await;
    let (one, two) = (bot.fake.supergroup("One", &[1001]), bot.fake.supergroup("Two", &[1001]));
    for id in 1..=3 {
        assert_eq!(send(&bot, one).await, id);
    }
    assert_eq!((send(&bot, two).await, send(&bot, bot.chat).await), (1, 1));

    let edit = json!({ "chat_id": two, "message_id": 1, "text": "b" });
    bot.ask("editMessageText", edit).await;
    bot.ask("deleteMessage", json!({ "chat_id": one, "message_id": 1 })).await;
    let transcript = bot.fake.transcript();
    assert_eq!(transcript.texts(one), ["a", "a"], "the first was deleted, the others were left alone");
    assert_eq!((transcript.texts(two), transcript.texts(bot.chat)), (vec!["b"], vec!["a"]));
    let elsewhere = json!({ "chat_id": two, "message_id": 2, "text": "b" });
    assert_eq!(bot.refusal("editMessageText", elsewhere).await, "400 Bad Request: message to edit not found");
}

#[tokio::test]
async fn topics_take_ids_of_their_forum() {
    let bot = Bot::start().await;
    let forum = bot.fake.forum("Family", &[1001]);
    assert_eq!(bot.fake.person_says(forum, 1001, "hello"), 1);
    let (taxes, trip) = (bot.fake.topic(forum, "Taxes"), bot.fake.topic(forum, "Trip"));
    assert_eq!((taxes, trip), (2, 3));
    let answer = json!({ "chat_id": forum, "message_thread_id": taxes, "text": "a" });
    let sent = bot.ask("sendMessage", answer).await;
    assert_eq!(sent["message_id"], 4, "one counter for all topics");
    assert_eq!(sent["reply_to_message"]["forum_topic_created"]["name"], "Taxes");
    assert_eq!(send(&bot, bot.chat).await, 1, "a forum is no part of the mailbox");
}

#[tokio::test]
async fn a_migrated_group_begins_to_count_anew() {
    let bot = Bot::start().await;
    let group = bot.fake.group("Family", &[1001]);
    assert_eq!(send(&bot, group).await, 1);
    let supergroup = bot.fake.migrate(group);
    let updates = bot.ask("getUpdates", json!({})).await;
    let ids = (&updates[0]["message"]["message_id"], &updates[1]["message"]["message_id"]);
    assert_eq!(ids, (&json!(2), &json!(1)), "each chat's service message has an id of that chat's");
    assert_eq!(send(&bot, supergroup).await, 2);
    assert_eq!(send(&bot, bot.chat).await, 3);
}

#[tokio::test]
async fn an_album_has_a_run_of_ids() {
    let bot = Bot::start().await;
    let item = json!({ "type": "photo", "media": "attach://p" });
    let album = json!({ "media": [item, item, item] });
    send(&bot, bot.chat).await;
    let sent = bot.upload("sendMediaGroup", album, vec![("p", "p.png", png(1, 1, 0))]).await.expect("sent");
    let ids: Vec<_> = sent.as_array().expect("a list").iter().map(|message| message["message_id"].as_i64()).collect();
    assert_eq!(ids, [Some(2), Some(3), Some(4)]);
}
