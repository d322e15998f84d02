//! Outages of some requests alone, for a time or until the test says so.

use std::time::Duration;

use satchel_fake_kit::{Fault, FaultTiming};
use serde_json::json;

use crate::Bot;

/// Longer than any test runs.
const LONG: FaultTiming = FaultTiming::ForMs(600_000);

#[tokio::test]
async fn sends_alone_are_out() {
    let bot = Bot::start().await;
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
    let bot = Bot::start().await;
    bot.fake.script("sendDocument", FaultTiming::Every, Fault::ResetAfterRead);
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
async fn answers_alone_are_lost_for_a_time() {
    let bot = Bot::start().await;
    bot.fake.script("send*", LONG, Fault::AcceptAndDrop);
    let text = |text: &str| json!({ "chat_id": bot.chat, "text": text });
    for lost in ["a", "b"] {
        bot.answer("sendMessage", text(lost)).await.expect_err("it is cut");
    }
    assert_eq!(bot.fake.transcript().texts(bot.chat), ["a", "b"], "both were performed");
}

#[tokio::test]
async fn outage_starts_with_its_first_request() {
    let bot = Bot::start().await;
    let clock = bot.fake.clock();
    clock.pause();
    bot.fake.script("send*", FaultTiming::ForMs(60_000), Fault::ResetAfterRead);
    let text = json!({ "chat_id": bot.chat, "text": "a" });
    for passed_ms in [3_600_000, 59_999] {
        clock.advance(Duration::from_millis(passed_ms));
        bot.answer("sendMessage", text.clone()).await.expect_err("it is cut");
    }
    clock.advance(Duration::from_millis(1));
    bot.ask("sendMessage", text).await;
}
