//! What channels tell of their past.

use serde_json::{Value, json};

use crate::{ADA, Bot, CHANNEL, id};

fn ids(messages: &Value) -> Vec<u64> {
    messages.as_array().expect("a list").iter().map(|message| id(&message["id"])).collect()
}

#[tokio::test]
async fn history_is_told_in_pages_newest_first() {
    let bot = Bot::start().await;
    let said: Vec<u64> = (0..120).map(|number| bot.fake.person_says(CHANNEL, ADA, &format!("{number}"))).collect();
    assert!(said.is_sorted(), "ids grow with time");
    let get =
        async |query: &str| bot.get(&format!("/channels/{CHANNEL}/messages{query}")).await.map(|found| ids(&found));
    let newest_first = |range: std::ops::Range<usize>| said[range].iter().rev().copied().collect::<Vec<_>>();
    assert_eq!(get("").await, Ok(newest_first(70..120)), "fifty unless asked otherwise");
    assert_eq!(get("?limit=100").await, Ok(newest_first(20..120)));
    assert_eq!(get(&format!("?before={}&limit=3", said[50])).await, Ok(newest_first(47..50)));
    assert_eq!(
        get(&format!("?after={}&limit=3", said[50])).await,
        Ok(newest_first(51..54)),
        "those that follow at once"
    );
    assert_eq!(get(&format!("?around={}&limit=3", said[50])).await, Ok(newest_first(49..52)));
    assert_eq!(get("?after=0&limit=2").await, Ok(newest_first(0..2)), "an id need not be a message's");
    let too_many = "400 50035 Invalid Form Body; limit: NUMBER_TYPE_MAX";
    assert_eq!(get("?limit=101").await, Err(too_many.to_owned()));
    assert_eq!(get("?limit=0").await, Err("400 50035 Invalid Form Body; limit: NUMBER_TYPE_MIN".to_owned()));
    let both = get(&format!("?before={0}&after={0}", said[5])).await;
    assert_eq!(both, Err("400 50035 Invalid Form Body; _misc: MUTUALLY_EXCLUSIVE".to_owned()));
    bot.fake.person_deletes(said[119]);
    assert_eq!(get("?limit=1").await, Ok(vec![said[118]]), "what is deleted is gone");
    assert_eq!(id(&bot.get(&format!("/channels/{CHANNEL}")).await.expect("a channel")["last_message_id"]), said[119]);
}

#[tokio::test]
async fn replies_and_forwards_show_what_they_refer_to() {
    let bot = Bot::start().await;
    let file = satchel_fake_kit::FakeFile::from_bytes("a.txt", "text/plain", "a");
    let first = bot.fake.person_sends(CHANNEL, ADA, "look", vec![file]);
    let bea = bot.fake.person(1002, "Bea");
    let reply = bot.fake.person_replies(CHANNEL, bea, first, "nice");
    let shown = bot.again(&json!({ "id": reply.to_string() })).await;
    assert_eq!((&shown["type"], id(&shown["referenced_message"]["id"])), (&json!(19), first));
    assert_eq!(shown["referenced_message"]["attachments"][0]["filename"], "a.txt");
    assert_eq!(id(&shown["mentions"][0]["id"]), ADA);
    let forward = bot.fake.person_forwards(bot.direct, ADA, first);
    let shown = bot.get(&format!("/channels/{}/messages/{forward}", bot.direct)).await.expect("it stands there");
    assert_eq!((&shown["content"], &shown["message_reference"]["type"]), (&json!(""), &json!(1)));
    let snapshot = &shown["message_snapshots"][0]["message"];
    assert_eq!((&snapshot["content"], &snapshot["attachments"][0]["filename"]), (&json!("look"), &json!("a.txt")));
    assert_eq!(snapshot.get("author"), None, "who wrote it is not told");
    bot.fake.person_deletes(first);
    let shown = bot.again(&json!({ "id": reply.to_string() })).await;
    assert_eq!(shown["referenced_message"], Value::Null, "what was answered is gone");
}

#[tokio::test]
async fn thread_from_a_message_has_its_id_and_begins_with_a_reference_to_it() {
    let bot = Bot::start().await;
    let file = satchel_fake_kit::FakeFile::from_bytes("a.txt", "text/plain", "a");
    let said = bot.fake.person_sends(CHANNEL, ADA, "look", vec![file]);
    bot.fake.clock().advance(std::time::Duration::from_secs(60));
    let thread = bot.fake.thread_from(ADA, said, "Taxes");
    assert_eq!(thread, said);
    let told = bot.get(&format!("/channels/{thread}")).await.expect("a thread");
    assert_eq!((&told["type"], id(&told["parent_id"])), (&json!(11), CHANNEL));
    let made_at = told["thread_metadata"]["create_timestamp"].as_str().expect("a time").to_owned();
    let starter = bot.again(&json!({ "id": said.to_string() })).await;
    assert!(made_at.as_str() > starter["timestamp"].as_str().expect("a time"), "{made_at}");
    let first =
        bot.get(&format!("/channels/{thread}/messages?after={thread}&limit=1")).await.expect("messages")[0].clone();
    assert_eq!((&first["type"], &first["content"], &first["attachments"]), (&json!(21), &json!(""), &json!([])));
    assert_eq!(
        (id(&first["message_reference"]["channel_id"]), id(&first["message_reference"]["message_id"])),
        (CHANNEL, said)
    );
    assert_eq!(first["referenced_message"]["attachments"][0]["filename"], "a.txt");
    bot.fake.person_deletes(said);
    let first = bot.get(&format!("/channels/{thread}/messages?limit=1")).await.expect("messages")[0].clone();
    assert_eq!(first["referenced_message"], Value::Null, "the thread is orphaned");
}

#[tokio::test]
async fn direct_channels_open_once_and_guilds_are_readable() {
    let bot = Bot::start().await;
    let bea = bot.fake.person(1002, "Bea");
    let open = async |person: &str| bot.ask("POST", "/users/@me/channels", json!({ "recipient_id": person })).await;
    let opened = open(&bea.to_string()).await.expect("opened");
    assert_eq!((&opened["type"], id(&opened["recipients"][0]["id"])), (&json!(1), bea));
    assert_eq!(open(&bea.to_string()).await.expect("opened")["id"], opened["id"]);
    assert_eq!(id(&opened["id"]), bot.fake.direct(bea));
    assert_eq!(open("9").await, Err("400 50033 Invalid Recipient(s)".to_owned()));
    let guild = bot.get(&format!("/guilds/{}", super::GUILD)).await.expect("a guild");
    assert_eq!((&guild["name"], &guild["premium_tier"]), (&json!("Home"), &json!(0)));
    assert_eq!(bot.get("/guilds/5").await, Err("404 10004 Unknown Guild".to_owned()));
    bot.ask("POST", &format!("/channels/{CHANNEL}/typing"), Value::Null).await.expect("typing");
    assert_eq!(bot.fake.transcript().channels[&CHANNEL].typed, 1);
}
