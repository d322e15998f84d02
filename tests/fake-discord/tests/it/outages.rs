//! Outages of some requests alone, for a time or until the test says so.

use satchel_fake_kit::{Fault, FaultTiming};
use serde_json::json;

use crate::{Bot, CHANNEL};

/// Longer than any test runs.
const LONG: FaultTiming = FaultTiming::ForMs(600_000);

#[tokio::test]
async fn messages_alone_are_out() {
    let bot = Bot::start().await;
    let route = format!("/channels/{}/messages", CHANNEL);
    bot.fake.script("POST /channels/{}/messages", LONG, Fault::ResetAfterRead);
    for _ in 0..3 {
        let request = bot.request("POST", &route).json(&json!({ "content": "a" }));
        request.send().await.expect_err("it is cut");
        bot.get(&route).await.expect("history answers");
    }
    assert_eq!(bot.fake.requests("POST /channels/{}/messages"), 3, "each was read");
    assert!(bot.fake.transcript().texts(CHANNEL).is_empty(), "none was performed");
    bot.fake.clear_script();
    bot.send(json!({ "content": "a" })).await.expect("sent");
}

#[tokio::test]
async fn answers_alone_are_lost_for_a_time() {
    let bot = Bot::start().await;
    let route = format!("/channels/{}/messages", CHANNEL);
    bot.fake.script("POST *", LONG, Fault::AcceptAndDrop);
    bot.request("POST", &route).json(&json!({ "content": "a" })).send().await.expect_err("it is cut");
    assert_eq!(bot.fake.transcript().texts(CHANNEL), ["a"]);
}

#[tokio::test]
async fn late_requests_are_released() {
    let bot = Bot::start().await;
    bot.fake.script_next("POST *", Fault::AcceptOnRelease);
    let route = format!("/channels/{}/messages", CHANNEL);
    bot.request("POST", &route).json(&json!({ "content": "late" })).send().await.expect_err("it is cut");
    bot.send(json!({ "content": "early" })).await.expect("sent");
    bot.fake.release_requests();
    assert_eq!(bot.fake.transcript().texts(CHANNEL), ["early", "late"]);
}
