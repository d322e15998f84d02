//! What the gateway tells of what people and the bot do.

use futures::{SinkExt, StreamExt};
use reqwest_websocket::{Message, Upgrade, WebSocket};
use satchel_fake_discord::{
    Permission,
    gateway::{DIRECT_MESSAGES, GUILD_MESSAGES, GUILDS, MESSAGE_CONTENT},
};
use satchel_fake_kit::FakeFile;
use serde_json::{Value, json};

use crate::{ADA, Bot, CHANNEL, GUILD, button, id};

/// A client that reads events.
struct Listener(WebSocket);

impl Listener {
    async fn identify(bot: &Bot, intents: u64) -> Self {
        let url = bot.get("/gateway/bot").await.expect("an address")["url"].as_str().expect("an address").to_owned();
        let request = reqwest::Client::new().get(format!("{url}/?v=10&encoding=json"));
        let socket = request.upgrade().send().await.expect("an upgrade").into_websocket().await.expect("a socket");
        let mut listener = Self(socket);
        let properties = json!({ "os": "linux", "browser": "satchel", "device": "satchel" });
        let identify = json!({ "token": bot.fake.token(), "intents": intents, "properties": properties });
        listener.0.send(Message::Text(json!({ "op": 2, "d": identify }).to_string())).await.expect("sent");
        listener
    }

    /// The data of the next event, which has this name.
    async fn event(&mut self, name: &str) -> Value {
        loop {
            let message = self.0.next().await.expect("the socket is open").expect("a message");
            let Message::Text(text) = message else { continue };
            let payload: Value = serde_json::from_str(&text).expect("JSON");
            if payload["op"] == 0 {
                assert_eq!(payload["t"], name, "{payload}");
                return payload["d"].clone();
            }
        }
    }
}

#[tokio::test]
async fn sessions_receive_snapshot_and_all_later_events() {
    let bot = Bot::start().await;
    let thread = bot.fake.thread(CHANNEL, 70_002, "Taxes");
    let before = bot.fake.person_says(thread, ADA, "before");
    let mut events = Listener::identify(&bot, GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES | MESSAGE_CONTENT).await;
    assert_eq!(events.event("READY").await["user"]["username"], "satchel");
    let guild = events.event("GUILD_CREATE").await;
    assert_eq!((id(&guild["id"]), id(&guild["channels"][0]["id"])), (GUILD, CHANNEL));
    assert_eq!(id(&guild["threads"][0]["last_message_id"]), before);

    let file = FakeFile::from_bytes("a.txt", "text/plain", "a");
    let said = bot.fake.person_sends(CHANNEL, ADA, "look", vec![file]);
    let told = events.event("MESSAGE_CREATE").await;
    assert_eq!((id(&told["id"]), id(&told["guild_id"]), &told["content"]), (said, GUILD, &json!("look")));
    assert!(told["member"].is_object() && told["attachments"][0]["url"].is_string(), "{told}");
    bot.fake.person_edits(CHANNEL, ADA, said, "look again");
    let told = events.event("MESSAGE_UPDATE").await;
    assert!(told["edited_timestamp"].is_string() && told["content"] == "look again", "{told}");
    bot.fake.pins_message(said);
    let pinned = events.event("MESSAGE_UPDATE").await;
    assert_eq!((&pinned["pinned"], &pinned["edited_timestamp"]), (&json!(true), &told["edited_timestamp"]));
    bot.fake.person_saves_unchanged(said);
    let saved = events.event("MESSAGE_UPDATE").await;
    assert!(saved["edited_timestamp"].as_str() > told["edited_timestamp"].as_str(), "{saved}");
    assert_eq!((&saved["content"], &saved["attachments"][0]["id"]), (&told["content"], &told["attachments"][0]["id"]));
    bot.fake.resolves_embeds(said);
    assert_eq!(events.event("MESSAGE_UPDATE").await["embeds"][0]["type"], "link");
    bot.fake.person_deletes(said);
    assert_eq!(id(&events.event("MESSAGE_DELETE").await["id"]), said);

    let own = json!({ "content": "mine", "nonce": "n", "components": button("Yes", "/yes") });
    let sent = bot.send(own).await.expect("sent");
    let told = events.event("MESSAGE_CREATE").await;
    assert_eq!((&told["id"], &told["nonce"]), (&sent["id"], &json!("n")), "its own messages are told with their nonce");
    let pressed = bot.fake.person_presses(ADA, id(&sent["id"]), "/yes");
    let told = events.event("INTERACTION_CREATE").await;
    assert_eq!((id(&told["id"]), &told["type"], &told["data"]["custom_id"]), (pressed, &json!(3), &json!("/yes")));
    assert_eq!((id(&told["member"]["user"]["id"]), &told["message"]["id"]), (ADA, &sent["id"]));
    let answer = format!("/interactions/{pressed}/{}/callback", told["token"].as_str().expect("a token"));
    bot.ask("POST", &answer, json!({ "type": 6 })).await.expect("answered");

    bot.fake.person_says(bot.direct, ADA, "hello");
    let told = events.event("MESSAGE_CREATE").await;
    assert_eq!((told.get("guild_id"), told.get("member")), (None, None), "a DM is in no guild");
    bot.fake.forbid(CHANNEL, Permission::View);
    bot.fake.person_says(CHANNEL, ADA, "unseen");
    bot.fake.allow(CHANNEL, Permission::View);
    bot.fake.person_says(CHANNEL, ADA, "seen");
    assert_eq!(events.event("MESSAGE_CREATE").await["content"], "seen");
    bot.fake.boost(GUILD, satchel_fake_discord::Tier::Three);
    assert_eq!(events.event("GUILD_UPDATE").await["premium_tier"], 3);
    bot.fake.delete_channel(thread);
    assert_eq!(id(&events.event("THREAD_DELETE").await["id"]), thread);
    bot.fake.dispatch("SOMETHING_NEW", json!({ "a": 1 }));
    assert_eq!(events.event("SOMETHING_NEW").await["a"], 1);
    assert_eq!((bot.fake.identifies(), bot.fake.resumes(), bot.fake.sessions()), (1, 0, 1));
}

#[tokio::test]
async fn events_without_content_intent_are_redacted() {
    let bot = Bot::start().await;
    let mut events = Listener::identify(&bot, GUILD_MESSAGES | DIRECT_MESSAGES).await;
    events.event("READY").await;
    let mut read = async |channel: u64, text: &str| {
        bot.fake.person_sends(channel, ADA, text, vec![FakeFile::from_bytes("a.txt", "text/plain", "a")]);
        let told = events.event("MESSAGE_CREATE").await;
        (told["content"].as_str().expect("a text").to_owned(), told["attachments"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(read(CHANNEL, "secret").await, (String::new(), 0));
    let mention = format!("{} hello", bot.fake.mention());
    assert_eq!(read(CHANNEL, &mention).await, (mention, 1));
    assert_eq!(read(bot.direct, "hello").await, ("hello".to_owned(), 1));
}
