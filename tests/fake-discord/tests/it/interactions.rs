//! Buttons and slash commands.

use std::time::Duration;

use satchel_fake_discord::{APPLICATION, SentInteraction};
use serde_json::{Value, json};

use crate::{ADA, Bot, CHANNEL, button, id};

fn done(bot: &Bot, interaction: u64) -> SentInteraction {
    let transcript = bot.fake.transcript();
    let mut all = transcript.channels.values().flat_map(|channel| channel.interactions.clone());
    all.find(|done| done.id == interaction).expect("it happened")
}

/// The path at which the newest interaction is answered.
fn callback(interaction: u64) -> String {
    format!("/interactions/{interaction}/aW50ZXJhY3Rpb246{interaction}:fake/callback")
}

async fn offer(bot: &Bot, commands: Value) -> Result<Value, String> {
    bot.ask("PUT", &format!("/applications/{APPLICATION}/commands"), commands).await
}

#[tokio::test]
async fn commands_are_registered_completely_within_their_limits() {
    let bot = Bot::start().await;
    let command = |name: &str| json!({ "name": name, "description": "Lists files" });
    let name = "400 50035 Invalid Form Body; 0.name: APPLICATION_COMMAND_INVALID_NAME";
    for (commands, expected) in [
        (json!([command("Files")]), name),
        (json!([command("")]), name),
        (json!([command(&"f".repeat(33))]), name),
        (json!([command("my files")]), name),
        (json!([{ "name": "files" }]), "400 50035 Invalid Form Body; 0.description: BASE_TYPE_BAD_LENGTH"),
        (
            json!([{ "name": "files", "description": "d".repeat(101) }]),
            "400 50035 Invalid Form Body; 0.description: BASE_TYPE_BAD_LENGTH",
        ),
        (
            json!([command("files"), command("files")]),
            "400 50035 Invalid Form Body; 1.name: APPLICATION_COMMANDS_DUPLICATE_NAME",
        ),
        (
            json!([{ "name": "a", "description": "b", "options": [{ "name": "c", "description": "d", "type": 12 }] }]),
            "400 50035 Invalid Form Body; 0.options.0.type: BASE_TYPE_CHOICES",
        ),
    ] {
        assert_eq!(offer(&bot, commands.clone()).await, Err(expected.to_owned()), "{commands}");
    }
    let many: Vec<_> = (0..101).map(|number| command(&format!("c{number}"))).collect();
    assert_eq!(offer(&bot, json!(many)).await, Err("400 50035 Invalid Form Body; : BASE_TYPE_MAX_LENGTH".to_owned()));
    offer(&bot, json!([command("old")])).await.expect("taken");
    let set = offer(&bot, json!([command("files"), command("help")])).await.expect("taken");
    assert_eq!(bot.get(&format!("/applications/{APPLICATION}/commands")).await, Ok(set), "the old ones are gone");
    let foreign = bot.ask("PUT", "/applications/5/commands", json!([])).await;
    assert!(foreign.expect_err("another's").starts_with("403 20012"));
}

#[tokio::test]
async fn a_press_is_answered_once_and_in_time() {
    let bot = Bot::start().await;
    let clock = bot.fake.clock();
    clock.pause();
    let sent = bot.send(json!({ "content": "Sure?", "components": button("Yes", "/yes") })).await.expect("sent");
    let press = || bot.fake.person_presses(ADA, id(&sent["id"]), "/yes");
    let first = press();
    let unknown = Err("404 10062 Unknown interaction".to_owned());
    let answer = json!({ "type": 6 });
    assert_eq!(bot.ask("POST", &format!("/interactions/{first}/wrong/callback"), answer.clone()).await, unknown);
    let odd = bot.ask("POST", &callback(first), json!({ "type": 9 })).await;
    assert_eq!(odd, Err("400 50035 Invalid Form Body; type: BASE_TYPE_CHOICES".to_owned()));
    assert_eq!(bot.ask("POST", &callback(first), answer.clone()).await, Ok(Value::Null));
    let twice = bot.ask("POST", &callback(first), answer.clone()).await;
    assert_eq!(twice, Err("400 40060 Interaction has already been acknowledged.".to_owned()));
    assert_eq!(done(&bot, first).answer.expect("answered").kind, 6);
    let (last, late) = (press(), press());
    clock.advance(bot.fake.rules().interaction_ttl);
    assert_eq!(bot.ask("POST", &callback(last), answer.clone()).await, Ok(Value::Null));
    clock.advance(Duration::from_millis(1));
    assert_eq!(bot.ask("POST", &callback(late), answer.clone()).await, unknown);
    let expired = press();
    bot.fake.expire_interactions();
    assert_eq!(bot.ask("POST", &callback(expired), answer).await, unknown);
    let update = json!({ "type": 7, "data": { "content": "Done", "components": [] } });
    bot.ask("POST", &callback(press()), update).await.expect("an edit");
    assert_eq!(bot.again(&sent).await["content"], "Done");
}

#[tokio::test]
async fn command_reply_is_visible_to_one_person() {
    let bot = Bot::start().await;
    offer(&bot, json!([{ "name": "resend", "description": "Sends again" }])).await.expect("taken");
    let used = bot.fake.person_commands(CHANNEL, ADA, "resend", &[("words", json!("17"))]);
    let update = bot.ask("POST", &callback(used), json!({ "type": 6 })).await;
    assert!(update.is_err(), "there is no message to update");
    let empty = bot.ask("POST", &callback(used), json!({ "type": 4, "data": {} })).await;
    assert_eq!(empty, Err("400 50006 Cannot send an empty message".to_owned()));
    let answer = json!({ "type": 4, "data": { "content": "/resend 17", "flags": 64 } });
    let path = format!("{}?with_response=true", callback(used));
    let told = bot.ask("POST", &path, answer).await.expect("answered");
    assert_eq!(told["resource"]["message"]["content"], "/resend 17");
    assert_eq!(told["interaction"]["response_message_ephemeral"], true);
    assert_eq!(bot.get(&format!("/channels/{CHANNEL}/messages")).await, Ok(json!([])), "history doesn't have it");
    assert!(bot.fake.transcript().shared().conversations.is_empty());
    let answer = done(&bot, used).answer.expect("answered");
    assert_eq!((answer.text.as_str(), answer.ephemeral), ("/resend 17", true));
}
