//! From the query to READY: what begins a session, and the code for everything that doesn't.

use std::time::Duration;

use satchel_fake_discord::gateway::{GUILD_MESSAGES, GUILDS, GatewayRules, MESSAGE_CONTENT};
use serde_json::json;

use crate::gateway::{Client, Gateway, Heard, INTENTS, TOKEN, identify, snapshot};

/// The time in which starts of sessions are counted.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test]
async fn session_starts_with_hello_ready_and_guilds() {
    let gateway = Gateway::start(GatewayRules::default()).await;
    let mut client = Client::connect(&format!("{}?v=10&encoding=json", gateway.url)).await.expect("a socket");
    let hello = client.payload().await;
    assert_eq!(hello, json!({ "t": null, "s": null, "op": 10, "d": { "heartbeat_interval": 41_250 } }));
    client.identify(INTENTS).await;
    let ready = client.event("READY").await;
    assert_eq!(ready["s"], 1);
    let data = &ready["d"];
    assert_eq!((&data["v"], &data["user"]["id"]), (&json!(10), &json!("11")));
    assert_eq!(data["guilds"], json!([{ "id": "21", "unavailable": true }]));
    assert_eq!(data["application"], json!({ "id": "12", "flags": 1 << 19 }));
    assert_ne!(data["resume_gateway_url"], json!(gateway.url));
    let guild = client.event("GUILD_CREATE").await;
    assert_eq!((&guild["s"], &guild["d"]["name"]), (&json!(2), &json!("Home")));
    gateway.message("hello");
    client.message("hello", 3).await;
    assert_eq!((gateway.hub.report().identifies, gateway.hub.sessions(), gateway.hub.connected()), (1, 1, 1));
}

#[tokio::test]
async fn the_query_names_version_and_encoding() {
    let gateway = Gateway::start(GatewayRules::default()).await;
    let cases = [
        ("", 4012),
        ("?encoding=json", 4012),
        ("?v=9&encoding=json", 4012),
        ("?v=10", 4002),
        ("?v=10&encoding=etf", 4002),
        ("?v=10&encoding=json&compress=brotli", 4002),
    ];
    for (query, code) in cases {
        let mut client = Client::connect(&format!("{}{query}", gateway.url)).await.expect("a socket");
        assert_eq!(client.closed().await, code, "{query}");
    }
}

#[tokio::test]
async fn compressed_gateway_is_one_flushed_zlib_stream() {
    let gateway = Gateway::start(GatewayRules::default()).await;
    let url = format!("{}/?v=10&encoding=json&compress=zlib-stream", gateway.url);
    let mut client = Client::connect(&url).await.expect("a socket");
    let hello = br#"{"t":null,"s":null,"op":10,"d":{"heartbeat_interval":41250}}"#;
    let length = u8::try_from(hello.len()).expect("it is short");
    let mut expected = vec![0x78, 0x01, 0, length, 0, !length, 0xff];
    expected.extend(hello);
    expected.extend([0, 0, 0, 0xff, 0xff]);
    assert_eq!(client.hear().await, Heard::Binary(expected));
    client.say(1, json!(null)).await;
    let Heard::Binary(ack) = client.hear().await else { panic!("the stream is binary") };
    assert_eq!(ack[0], 0, "the stream goes on without a second header");
    assert!(ack.ends_with(&[0, 0, 0xff, 0xff]), "{ack:?}");
}

#[tokio::test]
async fn invalid_identify_closes_with_its_code() {
    let gateway = Gateway::start(GatewayRules { granted_intents: 0, ..GatewayRules::default() }).await;
    let with = |name: &str, value| {
        let mut data = identify(GUILDS);
        data[name] = value;
        data
    };
    let cases = [
        (with("token", json!("another")), 4004),
        (with("token", json!(null)), 4002),
        (with("intents", json!(null)), 4002),
        (with("properties", json!(null)), 4002),
        (with("properties", json!({ "$os": "linux", "$browser": "x", "$device": "x" })), 4002),
        (with("intents", json!(1 << 17)), 4013),
        (with("intents", json!(1_u64 << 40)), 4013),
        (with("intents", json!(GUILDS | MESSAGE_CONTENT)), 4014),
        (with("intents", json!(1 << 1)), 4014),
        (with("shard", json!([1, 2])), 4010),
        (json!("identify"), 4002),
    ];
    for (data, code) in cases {
        let mut client = gateway.client().await;
        client.say(2, data.clone()).await;
        assert_eq!(client.closed().await, code, "{data}");
    }
    assert_eq!(gateway.hub.report().identifies, 0);
    gateway.hub.grant_intents(MESSAGE_CONTENT);
    let mut client = gateway.client().await;
    client.say(2, with("intents", json!(GUILDS | MESSAGE_CONTENT))).await;
    client.event("READY").await;
}

#[tokio::test]
async fn only_heartbeats_precede_identify_and_second_is_refused() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let mut client = gateway.client().await;
    client.say(1, json!(null)).await;
    assert_eq!(client.payload().await["op"], 11);
    client.say(3, json!({ "since": null, "activities": [], "status": "online", "afk": false })).await;
    assert_eq!(client.closed().await, 4003);

    let (mut client, _) = gateway.identified().await;
    client.say(3, json!({ "since": null, "activities": [], "status": "online", "afk": false })).await;
    client.identify(INTENTS).await;
    assert_eq!(client.closed().await, 4005);

    let (mut client, session) = gateway.identified().await;
    client.say(6, json!({ "token": TOKEN, "session_id": session, "seq": 2 })).await;
    assert_eq!(client.closed().await, 4005);
}

#[tokio::test]
async fn session_receives_only_what_its_intents_cover() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    gateway.hub.set_redaction(|name, data, intents| {
        let mut data = data.clone();
        if name == "MESSAGE_CREATE" && intents & MESSAGE_CONTENT == 0 {
            data["content"] = json!("");
        }
        data
    });
    let mut few = gateway.client().await;
    few.identify(GUILD_MESSAGES).await;
    few.event("READY").await;
    let (mut all, _) = gateway.identified().await;
    gateway.hub.dispatch("CHANNEL_UPDATE", json!({ "guild_id": "21" }));
    gateway.hub.dispatch("MESSAGE_CREATE", json!({ "content": "between us" }));
    gateway.message("for all");
    gateway.hub.dispatch("TYPING_START", json!({ "guild_id": "21" }));
    gateway.hub.dispatch("INTERACTION_CREATE", json!({}));
    few.message("", 2).await;
    few.event("INTERACTION_CREATE").await;
    all.event("CHANNEL_UPDATE").await;
    all.message("between us", 4).await;
    all.message("for all", 5).await;
    assert_eq!(all.event("INTERACTION_CREATE").await["s"], 6);
}

#[tokio::test]
async fn paced_identifies_are_five_seconds_apart() {
    let mut gateway = Gateway::start(GatewayRules::default().paced()).await;
    gateway.identified().await;
    let mut client = gateway.client().await;
    for too_early in [Duration::ZERO, Duration::from_millis(4_999)] {
        gateway.clock.advance(too_early);
        client.identify(INTENTS).await;
        let invalid = client.payload().await;
        assert_eq!((&invalid["op"], &invalid["d"]), (&json!(9), &json!(false)), "{too_early:?}");
    }
    gateway.clock.advance(Duration::from_millis(1));
    client.identify(INTENTS).await;
    client.event("READY").await;
    let report = gateway.hub.report();
    assert_eq!((report.identifies, report.identifies_refused), (2, 2));
}

#[tokio::test]
async fn who_begins_too_many_sessions_loses_the_token() {
    let rules = GatewayRules { session_starts: 2, ..GatewayRules::default() };
    let mut gateway = Gateway::start(rules).await;
    let left = |gateway: &Gateway| gateway.hub.bot_address()["session_start_limit"]["remaining"].clone();
    assert_eq!(left(&gateway), 2);
    let (mut first, _) = gateway.identified().await;
    let (mut second, _) = gateway.identified().await;
    assert_eq!(left(&gateway), 0);
    let mut third = gateway.client().await;
    third.identify(INTENTS).await;
    for client in [&mut first, &mut second, &mut third] {
        assert_eq!(client.closed().await, 4004);
    }
    assert_eq!(gateway.hub.sessions(), 0);
    gateway.clock.advance(DAY);
    assert_eq!(left(&gateway), 2);
    let mut again = gateway.client().await;
    again.identify(INTENTS).await;
    assert_eq!(again.closed().await, 4004, "the token is no longer the bot's");
}

#[tokio::test]
async fn starts_of_sessions_are_forgotten_after_a_day() {
    let rules = GatewayRules { session_starts: 1, ..GatewayRules::default() };
    let mut gateway = Gateway::start(rules).await;
    gateway.identified().await;
    let limit = |gateway: &Gateway| gateway.hub.bot_address()["session_start_limit"].clone();
    let full = json!({ "total": 1, "remaining": 0, "reset_after": 86_400_000, "max_concurrency": 1 });
    assert_eq!(limit(&gateway), full);
    gateway.clock.advance(DAY - Duration::from_millis(1));
    assert_eq!((&limit(&gateway)["remaining"], &limit(&gateway)["reset_after"]), (&json!(0), &json!(1)));
    gateway.clock.advance(Duration::from_millis(1));
    gateway.identified().await;
    assert_eq!(limit(&gateway), full);
    gateway.clock.advance(DAY);
    assert_eq!(limit(&gateway)["remaining"], 1);
}

#[tokio::test]
async fn events_during_snapshot_follow_it() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let hub = gateway.hub.clone();
    gateway.hub.set_snapshot(move || {
        hub.dispatch("MESSAGE_CREATE", json!({ "guild_id": "21", "content": "meanwhile" }));
        snapshot()
    });
    let (mut client, _) = gateway.identified().await;
    client.message("meanwhile", 3).await;
}
