//! Outages of some requests alone, for a time or until the test says so, on every platform.

use satchel_fakes::{Fault, When};
use serde_json::json;

use crate::{discord, telegram};

/// Longer than any test runs.
const LONG: When = When::ForMs(600_000);

#[tokio::test]
async fn uploads_alone_are_out_on_telegram() {
    let bot = telegram::Bot::start().await;
    bot.fake.script("send*", LONG, Fault::ResetAfterRead);
    let text = json!({ "chat_id": bot.chat, "text": "a" });
    for _ in 0..3 {
        bot.answer("sendMessage", text.clone()).await.expect_err("it is cut");
        bot.ask("getMe", json!({})).await;
    }
    assert_eq!(bot.fake.requests("sendMessage"), 3, "each was read");
    assert_eq!(bot.fake.calls()[0].parameters["text"], "a");
    assert!(bot.fake.transcript().messages(bot.chat).is_empty(), "none was performed");
    bot.fake.clear_script();
    bot.ask("sendMessage", text).await;
}

#[tokio::test]
async fn an_outage_of_one_method_leaves_the_others() {
    let bot = telegram::Bot::start().await;
    bot.fake.script("sendDocument", When::Every, Fault::ResetAfterRead);
    let upload = || vec![("document", "a.txt", b"a".to_vec())];
    let form = reqwest::multipart::Form::new()
        .text("chat_id", bot.chat.to_string())
        .part("document", reqwest::multipart::Part::bytes(b"a".to_vec()).file_name("a.txt"));
    let sent = reqwest::Client::new().post(bot.url("sendDocument")).multipart(form).send().await;
    sent.expect_err("it is cut");
    bot.here("sendMessage", json!({ "text": "a" })).await.expect("texts go through");
    bot.fake.clear_script();
    bot.upload("sendDocument", json!({}), upload()).await.expect("sent");
    assert_eq!(bot.fake.transcript().visible(bot.chat).count(), 2);
}

#[tokio::test]
async fn messages_alone_are_out_on_discord() {
    let bot = discord::Bot::start().await;
    let route = format!("/channels/{}/messages", discord::CHANNEL);
    bot.fake.script("POST /channels/{}/messages", LONG, Fault::ResetAfterRead);
    for _ in 0..3 {
        let request = bot.request("POST", &route).json(&json!({ "content": "a" }));
        request.send().await.expect_err("it is cut");
        bot.get(&route).await.expect("history answers");
    }
    assert_eq!(bot.fake.requests("POST /channels/{}/messages"), 3, "each was read");
    assert!(bot.fake.transcript().texts(discord::CHANNEL).is_empty(), "none was performed");
    bot.fake.clear_script();
    bot.send(json!({ "content": "a" })).await.expect("sent");
}

#[tokio::test]
async fn answers_alone_are_lost_for_a_time() {
    let bot = telegram::Bot::start().await;
    bot.fake.script("send*", LONG, Fault::AcceptAndDrop);
    let text = |text: &str| json!({ "chat_id": bot.chat, "text": text });
    for lost in ["a", "b"] {
        bot.answer("sendMessage", text(lost)).await.expect_err("it is cut");
    }
    assert_eq!(bot.fake.transcript().texts(bot.chat), ["a", "b"], "both were performed");

    let bot = discord::Bot::start().await;
    let route = format!("/channels/{}/messages", discord::CHANNEL);
    bot.fake.script("POST *", LONG, Fault::AcceptAndDrop);
    bot.request("POST", &route).json(&json!({ "content": "a" })).send().await.expect_err("it is cut");
    assert_eq!(bot.fake.transcript().texts(discord::CHANNEL), ["a"]);
}

#[tokio::test]
async fn an_outage_begins_with_its_first_request() {
    let bot = telegram::Bot::start().await;
    bot.fake.script("send*", When::ForMs(0), Fault::ResetAfterRead);
    let text = json!({ "chat_id": bot.chat, "text": "a" });
    bot.answer("sendMessage", text.clone()).await.expect_err("it is cut");
    bot.ask("sendMessage", text).await;
}

#[tokio::test]
async fn late_requests_are_released_on_discord() {
    let bot = discord::Bot::start().await;
    bot.fake.script_next("POST *", Fault::AcceptOnRelease);
    let route = format!("/channels/{}/messages", discord::CHANNEL);
    bot.request("POST", &route).json(&json!({ "content": "late" })).send().await.expect_err("it is cut");
    bot.send(json!({ "content": "early" })).await.expect("sent");
    bot.fake.release_requests();
    assert_eq!(bot.fake.transcript().texts(discord::CHANNEL), ["early", "late"]);
}
