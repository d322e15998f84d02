//! Rights that the bot hasn't got.

use satchel_fake_discord::Permission;
use serde_json::{Value, json};

use crate::{ADA, Bot, CHANNEL, Upload};

#[tokio::test]
async fn what_the_bot_may_not_do_is_refused() {
    let bot = Bot::start().await;
    let said = bot.fake.person_says(CHANNEL, ADA, "hello").to_string();
    let own = bot.send(json!({ "content": "a" })).await.expect("sent");
    let file = || -> Upload<'_> { ("a.ogg", "audio/ogg", b"OggS".to_vec()) };
    let reply = json!({ "content": "a", "message_reference": { "message_id": said, "fail_if_not_exists": false } });
    let permissions = Err("403 50013 Missing Permissions".to_owned());
    let access = Err("403 50001 Missing Access".to_owned());
    let list = async || bot.get(&format!("/channels/{CHANNEL}/messages")).await;

    bot.fake.forbid(CHANNEL, Permission::Attach);
    assert_eq!(bot.send_files(json!({}), vec![file()]).await, permissions);
    bot.send(json!({ "content": "b" })).await.expect("words need no such right");
    bot.fake.allow(CHANNEL, Permission::Attach);

    bot.fake.forbid(CHANNEL, Permission::ReadHistory);
    assert_eq!(list().await, Ok(json!([])), "history is empty then");
    assert_eq!(bot.get(&super::message_path(&own)).await, access);
    let unread = "403 160002 Cannot reply without permission to read message history";
    assert_eq!(bot.send(reply.clone()).await, Err(unread.to_owned()));
    bot.fake.allow(CHANNEL, Permission::ReadHistory);
    assert_eq!(bot.send(reply).await.expect("sent")["type"], 19);

    bot.fake.forbid(CHANNEL, Permission::SendVoice);
    let voice = json!({ "flags": 8192, "attachments": [{ "id": 0, "duration_secs": 1.0, "waveform": "AAAA" }] });
    let refused = bot.send_files(voice, vec![file()]).await;
    assert_eq!(refused, Err("403 50173 You cannot send voice messages in this channel.".to_owned()));

    bot.fake.forbid(CHANNEL, Permission::Send);
    assert_eq!(bot.send(json!({ "content": "c" })).await, permissions);
    assert_eq!(bot.ask("POST", &format!("/channels/{CHANNEL}/typing"), Value::Null).await, permissions);
    bot.edit(&own, json!({ "content": "d" })).await.expect("what stands there may still be changed");

    bot.fake.forbid(CHANNEL, Permission::View);
    assert_eq!(bot.send(json!({ "content": "e" })).await, access);
    assert_eq!(list().await, access);
    assert_eq!(bot.edit(&own, json!({ "content": "e" })).await, access);

    bot.fake.person_blocks(ADA);
    let direct = bot.ask("POST", &format!("/channels/{}/messages", bot.direct), json!({ "content": "a" })).await;
    assert_eq!(direct, Err("403 50007 Cannot send messages to this user".to_owned()));
    bot.fake.delete_channel(CHANNEL);
    assert_eq!(list().await, Err("404 10003 Unknown Channel".to_owned()));
}

#[tokio::test]
async fn without_intent_only_content_for_bot_is_readable() {
    let bot = Bot::start().await;
    let file = || vec![satchel_fake_kit::FakeFile::from_bytes("a.txt", "text/plain", "a")];
    let plain = bot.fake.person_sends(CHANNEL, ADA, "secret", file());
    let mention = bot.fake.person_sends(CHANNEL, ADA, &format!("{} look", bot.fake.mention()), file());
    let own = super::id(&bot.send(json!({ "content": "mine" })).await.expect("sent")["id"]);
    let direct = bot.fake.person_says(bot.direct, ADA, "hello");
    let read = async |channel: u64, message: u64| {
        let found = bot.get(&format!("/channels/{channel}/messages/{message}")).await.expect("it stands there");
        let files = found["attachments"].as_array().map_or(0, Vec::len);
        (found["content"].as_str().expect("a text").to_owned(), files)
    };
    assert_eq!(read(CHANNEL, plain).await, ("secret".to_owned(), 1));
    bot.fake.grant_intents(0);
    assert_eq!(read(CHANNEL, plain).await, (String::new(), 0));
    assert_eq!(read(CHANNEL, mention).await, (format!("{} look", bot.fake.mention()), 1));
    assert_eq!(read(CHANNEL, own).await, ("mine".to_owned(), 0));
    assert_eq!(read(bot.direct, direct).await, ("hello".to_owned(), 0));
    let reply = bot.fake.person_replies(CHANNEL, 1002, plain, &bot.fake.mention());
    let found = bot.again(&json!({ "id": reply.to_string() })).await;
    assert_eq!(found["referenced_message"]["content"], "", "what is quoted is hidden like what stands alone");
    assert_eq!(bot.get("/applications/@me").await.expect("an application")["flags"], 0);
}
