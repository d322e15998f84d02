//! The webhook: set as the manual allows, posted to with its secret, again until it is taken.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Bot;

/// What a bot was posted and how it answered: path's secret, the update, whether it took it.
type Posted = (String, Value, bool);

#[derive(Clone)]
struct Taker {
    /// How many posts are turned away first.
    turned_away: Arc<Mutex<u32>>,
    posted: mpsc::UnboundedSender<Posted>,
}

async fn take(State(taker): State<Taker>, headers: HeaderMap, body: String) -> StatusCode {
    let secret = headers.get("x-telegram-bot-api-secret-token").map_or("", |value| value.to_str().expect("words"));
    let update = serde_json::from_str(&body).expect("JSON");
    let mut left = taker.turned_away.lock().expect("nobody panics");
    let takes = *left == 0;
    *left = left.saturating_sub(1);
    taker.posted.send((secret.to_owned(), update, takes)).expect("the test waits");
    if takes { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }
}

async fn listen(turned_away: u32) -> (SocketAddr, mpsc::UnboundedReceiver<Posted>) {
    let (posted, posts) = mpsc::unbounded_channel();
    let taker = Taker { turned_away: Arc::new(Mutex::new(turned_away)), posted };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().route("/hook", post(take)).with_state(taker);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, posts)
}

#[tokio::test]
async fn webhook_posts_updates_in_order_until_accepted() {
    let bot = Bot::start().await;
    bot.fake.clock().pause();
    let (address, mut posts) = listen(2).await;
    bot.fake.webhook_behind_proxy(address);
    bot.fake.person_says(bot.chat, 1001, "before");
    let hook = json!({ "url": "https://bot.example.org/hook", "secret_token": "s3cret_-" });
    bot.ask("setWebhook", hook).await;
    bot.fake.person_says(bot.chat, 1001, "after");
    // What is turned away comes again after a pause, which doubles.
    for (expected, pause_ms) in [("before", 20), ("before", 40), ("before", 0), ("after", 0)] {
        let (secret, update, taken) =
            tokio::time::timeout(Duration::from_secs(10), posts.recv()).await.expect("in time").expect("a post");
        assert_eq!(secret, "s3cret_-");
        assert_eq!((update["message"]["text"].as_str(), taken), (Some(expected), pause_ms == 0));
        bot.fake.clock().advance(Duration::from_millis(pause_ms));
    }
    let info = bot.ask("getWebhookInfo", json!({})).await;
    assert_eq!(info["url"], "https://bot.example.org/hook");
    assert_eq!(info["last_error_message"], "Wrong response from the webhook: 500 Internal Server Error");
}

#[tokio::test]
async fn polling_and_a_webhook_exclude_each_other() {
    let bot = Bot::start().await;
    bot.ask("setWebhook", json!({ "url": "https://bot.example.org:8443/hook" })).await;
    let expected = "409 Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete \
                    the webhook first";
    assert_eq!(bot.refusal("getUpdates", json!({})).await, expected);
    bot.fake.person_says(bot.chat, 1001, "a");
    bot.ask("deleteWebhook", json!({ "drop_pending_updates": true })).await;
    assert_eq!(bot.ask("getUpdates", json!({})).await, json!([]));
    assert_eq!(bot.ask("getWebhookInfo", json!({})).await["url"], "");
}

#[tokio::test]
async fn addresses_and_secrets_are_checked() {
    let bot = Bot::start().await;
    for (url, secret, expected) in [
        ("nowhere", "", "bad webhook: invalid URL specified"),
        ("http://bot.example.org/", "", "bad webhook: An HTTPS URL must be provided for webhook"),
        ("https://bot.example.org:9443/", "", "bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443"),
        ("https://bot.example.org/", "a b", "secret token contains unallowed characters"),
        ("https://bot.example.org/", &"a".repeat(257), "secret token is too long"),
    ] {
        let refused = bot.refusal("setWebhook", json!({ "url": url, "secret_token": secret })).await;
        assert_eq!(refused, format!("400 Bad Request: {expected}"), "{url} {secret}");
    }
}
