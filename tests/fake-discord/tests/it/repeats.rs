//! Nonces: a repeat that says so is no second message, while the nonce is remembered.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Bot, CHANNEL, Upload};

const NONCE: &str = "AZrJ2gAAcAAAAAAAAAAAAQ";

#[tokio::test]
async fn an_enforced_nonce_gives_the_same_message_back() {
    let bot = Bot::start().await;
    let message = |text: &str| json!({ "content": text, "nonce": NONCE, "enforce_nonce": true });
    let first = bot.send(message("one")).await.expect("sent");
    assert_eq!(first["nonce"], NONCE);
    let again = bot.send(message("two")).await.expect("an answer");
    assert_eq!((&again["id"], &again["content"], &again["nonce"]), (&first["id"], &json!("one"), &json!(NONCE)));
    let file: Upload<'_> = ("a.txt", "text/plain", b"a".to_vec());
    let with_file = bot.send_files(message("three"), vec![file]).await.expect("an answer");
    assert_eq!(with_file["id"], first["id"], "with files too");
    assert_eq!(bot.fake.transcript().texts(CHANNEL), ["one"]);

    let unforced = bot.send(json!({ "content": "four", "nonce": NONCE })).await.expect("sent");
    assert_ne!(unforced["id"], first["id"], "a nonce alone is a mark and nothing more");
    bot.fake.expire_nonces();
    bot.send(message("five")).await.expect("sent");
    assert_eq!(bot.fake.transcript().texts(CHANNEL), ["one", "four", "five"]);
}

#[tokio::test]
async fn a_nonce_is_remembered_for_its_window_only() {
    let bot = Bot::start().await;
    let message = json!({ "content": "a", "nonce": NONCE, "enforce_nonce": true });
    let clock = bot.fake.clock();
    clock.pause();
    let first = bot.send(message.clone()).await.expect("sent");
    clock.advance(bot.fake.rules().nonce_window - Duration::from_millis(1));
    assert_eq!(bot.send(message.clone()).await.expect("an answer")["id"], first["id"]);
    clock.advance(Duration::from_millis(1));
    bot.send(message).await.expect("sent");
    assert_eq!(bot.fake.transcript().texts(CHANNEL), ["a", "a"]);
}

#[tokio::test]
async fn history_never_tells_a_nonce() {
    let bot = Bot::start().await;
    let sent = bot.send(json!({ "content": "a", "nonce": NONCE, "enforce_nonce": true })).await.expect("sent");
    assert_eq!(bot.again(&sent).await.get("nonce"), None);
    let listed = bot.get(&format!("/channels/{CHANNEL}/messages")).await.expect("a list");
    assert_eq!(listed[0].get("nonce"), None);
    let edited = bot.edit(&sent, json!({ "content": "b" })).await.expect("edited");
    assert_eq!(edited.get("nonce"), None);
    let number = bot.send(json!({ "content": "c", "nonce": 5 })).await.expect("sent");
    assert_eq!(number["nonce"], Value::from("5"));
    assert_eq!(
        bot.fake.transcript().shared().conversations.into_values().next().expect("one")[0].nonce.as_deref(),
        Some(NONCE)
    );
}
