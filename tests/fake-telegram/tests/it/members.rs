//! Who the bot is in a chat, and what it sees of it.

use serde_json::{Value, json};

use crate::Bot;

const OURS: &str = "400 Bad Request: there is no live location in the message to edit";
const OTHERS: &str = "400 Bad Request: message can't be edited";
const NONE: &str = "400 Bad Request: message to edit not found";

async fn look_up(bot: &Bot, chat: i64, message: i64) -> String {
    bot.refusal("stopMessageLiveLocation", json!({ "chat_id": chat, "message_id": message })).await
}

async fn status(bot: &Bot, chat: i64, user: i64) -> Value {
    bot.ask("getChatMember", json!({ "chat_id": chat, "user_id": user })).await["status"].clone()
}

#[tokio::test]
async fn privacy_mode_hides_what_people_say_among_themselves() {
    let bot = Bot::start().await;
    bot.fake.person(1002, "Bea");
    let group = bot.fake.group("Family", &[1001, 1002]);
    assert_eq!(bot.ask("getMe", json!({})).await["can_read_all_group_messages"], true);
    let before = bot.fake.person_says(group, 1002, "hello");
    assert_eq!(look_up(&bot, group, before).await, OTHERS);
    bot.fake.set_privacy_mode(true);
    assert_eq!(bot.ask("getMe", json!({})).await["can_read_all_group_messages"], false);

    let own = bot.ask("sendMessage", json!({ "chat_id": group, "text": "a" })).await;
    let own = own["message_id"].as_i64().expect("an id");
    let among = bot.fake.person_says(group, 1002, "hello again");
    let private = bot.fake.person_says(bot.chat, 1001, "only between us");
    let command = bot.fake.person_says(group, 1002, "/files");
    let named = bot.fake.person_says(group, 1002, "/files@satchel_fake_bot now");
    let other = bot.fake.person_says(group, 1002, "/files@other_bot now");
    let reply = satchel_fake_telegram::PersonMessage::text("thanks").replying_to(own);
    let reply = bot.fake.person_sends(group, 1002, reply);
    let service = bot.fake.person_sets_auto_delete(group, 1002, 86_400);
    for (chat, message, expected) in [
        (group, before, NONE),
        (group, own, OURS),
        (group, among, NONE),
        (bot.chat, private, OTHERS),
        (group, command, OTHERS),
        (group, named, OTHERS),
        (group, other, NONE),
        (group, reply, OTHERS),
        (group, service, OTHERS),
    ] {
        assert_eq!(look_up(&bot, chat, message).await, expected, "{message}");
    }
    bot.fake.person_edits(group, 1002, among, "hello once more");
    let updates = bot.ask("getUpdates", json!({})).await;
    let told: Vec<_> =
        updates.as_array().expect("a list").iter().map(|update| &update["message"]["message_id"]).collect();
    assert_eq!(told, [before, private, command, named, reply, service].map(|id| json!(id)).each_ref());
}

#[tokio::test]
async fn an_administrator_sees_everything_in_its_group() {
    let bot = Bot::start().await;
    bot.fake.set_privacy_mode(true);
    let (one, two) = (bot.fake.group("One", &[1001]), bot.fake.supergroup("Two", &[1001]));
    let (in_one, in_two) = (bot.fake.person_says(one, 1001, "a"), bot.fake.person_says(two, 1001, "b"));
    assert_eq!(status(&bot, one, bot.fake.bot().0).await, "member");
    bot.fake.promote_bot(one, 1001);
    assert_eq!(status(&bot, one, bot.fake.bot().0).await, "administrator");
    assert_eq!((look_up(&bot, one, in_one).await.as_str(), look_up(&bot, two, in_two).await.as_str()), (OTHERS, NONE));
    bot.fake.demote_bot(one, 1001);
    assert_eq!(look_up(&bot, one, in_one).await, NONE);
    let updates = bot.ask("getUpdates", json!({})).await;
    let statuses = |update: &Value| {
        let change = &update["my_chat_member"];
        (change["old_chat_member"]["status"].clone(), change["new_chat_member"]["status"].clone())
    };
    assert_eq!(statuses(&updates[0]), (json!("member"), json!("administrator")));
    assert_eq!(statuses(&updates[1]), (json!("administrator"), json!("member")));
}

#[tokio::test]
async fn members_and_administrators_are_told() {
    let bot = Bot::start().await;
    let (us, friend) = (bot.fake.bot().0, bot.fake.person(1002, "Bea"));
    bot.fake.person(1003, "Eve");
    let group = bot.fake.group("Family", &[friend, 1001]);
    assert_eq!(status(&bot, group, friend).await, "creator");
    assert_eq!(status(&bot, group, 1001).await, "member");
    assert_eq!(status(&bot, group, 1003).await, "left");
    assert_eq!(status(&bot, bot.chat, us).await, "member");
    assert_eq!(status(&bot, bot.chat, 1001).await, "member");
    let unknown = bot.refusal("getChatMember", json!({ "chat_id": group, "user_id": 77 })).await;
    assert_eq!(unknown, "400 Bad Request: user not found");
    let administrators = async |chat: i64| {
        let list = bot.ask("getChatAdministrators", json!({ "chat_id": chat })).await;
        list.as_array().expect("a list").iter().map(|member| member["user"]["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(administrators(group).await, [json!(friend)]);
    bot.fake.promote_bot(group, friend);
    assert_eq!(administrators(group).await, [json!(friend), json!(us)]);
    let none = bot.refusal("getChatAdministrators", json!({ "chat_id": bot.chat })).await;
    assert_eq!(none, "400 Bad Request: there are no administrators in the private chat");
    bot.fake.kick(group, friend);
    let kicked = bot.refusal("getChatMember", json!({ "chat_id": group, "user_id": us })).await;
    assert_eq!(kicked, "403 Forbidden: bot was kicked from the group chat");
}

#[tokio::test]
async fn post_editors_can_edit_all_posts() {
    let bot = Bot::start().await;
    let channel = bot.fake.channel("News", 1001);
    let post = bot.fake.person_says(channel, 1001, "Satchel is here");
    let own = bot.ask("sendMessage", json!({ "chat_id": channel, "text": "a" })).await;
    assert_eq!((post, &own["message_id"]), (1, &json!(2)), "a channel counts for itself");
    assert_eq!((&own["sender_chat"]["id"], own.get("from")), (&json!(channel), None));
    let updates = bot.ask("getUpdates", json!({})).await;
    assert_eq!(updates[0]["channel_post"]["text"], "Satchel is here");

    let us = json!({ "chat_id": channel, "user_id": bot.fake.bot().0 });
    let member = bot.ask("getChatMember", us.clone()).await;
    assert_eq!((&member["status"], &member["can_edit_messages"]), (&json!("administrator"), &json!(false)));
    assert_eq!((look_up(&bot, channel, 1).await.as_str(), look_up(&bot, channel, 2).await.as_str()), (OTHERS, OURS));
    bot.fake.allow_editing_posts(channel, 1001);
    assert_eq!(bot.ask("getChatMember", us).await["can_edit_messages"], true);
    assert_eq!(look_up(&bot, channel, 1).await, OURS, "whose it is can't be told any more");
    assert_eq!(look_up(&bot, channel, 3).await, NONE);
    let service = bot.fake.person_sets_auto_delete(channel, 1001, 86_400);
    assert_eq!(look_up(&bot, channel, service).await, OTHERS, "a service message is nobody's to edit");
    let markup = json!({ "chat_id": channel, "message_id": service });
    assert_eq!(bot.refusal("editMessageReplyMarkup", markup).await, OTHERS);
    bot.fake.kick(channel, 1001);
    assert_eq!(look_up(&bot, channel, 2).await, "403 Forbidden: bot was kicked from the channel chat");
}
