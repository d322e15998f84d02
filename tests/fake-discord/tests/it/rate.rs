//! Haste: counted always, told in headers and refused where the rules have a pace.

use std::time::Duration;

use reqwest::header::HeaderMap;
use satchel_fake_discord::{APPLICATION, ApiRefusal, DiscordRates, DiscordRules};
use serde_json::{Value, json};

use crate::{Bot, CHANNEL};

async fn seen(bot: &Bot, channel: u64) -> (u16, HeaderMap, Value) {
    let request = bot.request("POST", &format!("/channels/{channel}/messages")).json(&json!({ "content": "a" }));
    let answer = request.send().await.expect("an answer");
    (answer.status().as_u16(), answer.headers().clone(), answer.json().await.expect("JSON"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers[name].to_str().expect("text")
}

fn number(headers: &HeaderMap, name: &str) -> f64 {
    text(headers, name).parse().expect("a number")
}

#[tokio::test]
async fn channel_bucket_is_reported_when_empty_and_refills() {
    let routes = [("POST /channels/{}/messages".to_owned(), (2, Duration::from_secs(2)))];
    let pace = DiscordRates { routes: routes.into(), ..DiscordRates::default() };
    let bot = Bot::with(DiscordRules { pace: Some(pace), ..DiscordRules::default() }).await;
    bot.fake.clock().pause();
    let mut buckets = Vec::new();
    for left in [1.0, 0.0] {
        let (status, headers, _) = seen(&bot, CHANNEL).await;
        assert_eq!((status, number(&headers, "x-ratelimit-remaining")), (200, left));
        assert_eq!(number(&headers, "x-ratelimit-limit"), 2.0);
        assert_eq!(number(&headers, "x-ratelimit-reset-after"), 2.0);
        buckets.push(headers["x-ratelimit-bucket"].clone());
    }
    let (status, headers, body) = seen(&bot, CHANNEL).await;
    assert_eq!((status, &body["global"]), (429, &json!(false)));
    assert_eq!(body["message"], "You are being rate limited.");
    assert_eq!(body["retry_after"], 2.0);
    assert_eq!((text(&headers, "retry-after"), text(&headers, "x-ratelimit-scope")), ("2", "user"));
    assert_eq!(bot.fake.transcript().texts(CHANNEL).len(), 2, "what is refused isn't done");
    let (status, headers, _) = seen(&bot, bot.direct).await;
    assert_eq!((status, &headers["x-ratelimit-bucket"]), (200, &buckets[0]), "another channel has one of its own");
    bot.fake.clock().advance(Duration::from_millis(1_999));
    let (status, headers, body) = seen(&bot, CHANNEL).await;
    assert_eq!((status, &body["retry_after"], text(&headers, "retry-after")), (429, &json!(0.001), "1"));
    bot.fake.clock().advance(Duration::from_millis(1));
    assert_eq!(seen(&bot, CHANNEL).await.0, 200, "whoever waits as told is let through");
    let report = bot.fake.pace();
    assert_eq!((report.accepted, report.refused, report.routes["POST /channels/{}/messages"]), (4, 2, 4));
}

#[tokio::test]
async fn global_limit_is_fifty_per_second_without_interactions() {
    let pace = DiscordRates { others: (1000, Duration::from_secs(1)), routes: [].into(), ..DiscordRates::default() };
    let bot = Bot::with(DiscordRules { pace: Some(pace), ..DiscordRules::default() }).await;
    bot.fake.clock().pause();
    let mut refused = None;
    for _ in 0..60 {
        let answer = bot.request("GET", "/users/@me").send().await.expect("an answer");
        if answer.status() == 429 {
            refused = Some((answer.headers().clone(), answer.json::<Value>().await.expect("JSON")));
        }
    }
    let (headers, body) = refused.expect("the last ten are too many");
    assert_eq!((body["global"].as_bool(), text(&headers, "x-ratelimit-global")), (Some(true), "true"));
    assert_eq!(headers["x-ratelimit-scope"], "global");
    assert_eq!(bot.fake.pace().refused, 10);
    let unbound = bot.ask("POST", "/interactions/5/token/callback", json!({ "type": 5 })).await;
    assert_eq!(unbound, Err("404 10062 Unknown interaction".to_owned()));
    bot.fake.clock().advance(Duration::from_secs(1));
    bot.get("/users/@me").await.expect("the next second has its own fifty");
}

#[tokio::test]
async fn unpaced_fake_counts_and_scripts_still_rate_limit() {
    let bot = Bot::start().await;
    for _ in 0..60 {
        bot.send(json!({ "content": "a" })).await.expect("sent");
    }
    assert_eq!((bot.fake.pace().accepted, bot.fake.pace().refused), (60, 0));
    bot.fake.script_next("PUT*", ApiRefusal::too_many_requests(1.25, true));
    let answer = bot.request("PUT", &format!("/applications/{APPLICATION}/commands")).json(&json!([]));
    let answer = answer.send().await.expect("an answer");
    assert_eq!((answer.status().as_u16(), number(answer.headers(), "retry-after")), (429, 2.0));
    assert_eq!(answer.json::<Value>().await.expect("JSON")["retry_after"], 1.25);
}
