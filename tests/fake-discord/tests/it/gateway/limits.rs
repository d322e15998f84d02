//! What a client may send: readable, known, small, not too often; and heartbeats, in time.

use std::time::Duration;

use satchel_fake_discord::gateway::GatewayRules;
use serde_json::json;

use crate::gateway::{Gateway, INTENTS, identify};

#[tokio::test]
async fn what_cannot_be_read_is_refused() {
    let gateway = Gateway::start(GatewayRules::default()).await;
    for (text, code) in [
        ("{", 4002),
        ("[]", 4002),
        (r#"{"op":"1","d":null}"#, 4002),
        (r#"{"op":1,"d":"7"}"#, 4002),
        (r#"{"op":6,"d":{"token":"a.fake.token"}}"#, 4002),
        (r#"{"op":5,"d":null}"#, 4001),
        (r#"{"op":99,"d":null}"#, 4001),
    ] {
        let mut client = gateway.client().await;
        client.say_text(text).await;
        assert_eq!(client.closed().await, code, "{text}");
    }
}

#[tokio::test]
async fn a_payload_has_at_most_4096_bytes() {
    let gateway = Gateway::start(GatewayRules::default()).await;
    for (bytes, refused) in [(4096, false), (4097, true)] {
        let mut client = gateway.client().await;
        let mut data = identify(INTENTS);
        data["padding"] = json!("");
        let length = json!({ "op": 2, "d": data }).to_string().len();
        data["padding"] = json!("x".repeat(bytes - length));
        client.say(2, data).await;
        if refused {
            assert_eq!(client.closed().await, 4002);
        } else {
            client.event("READY").await;
        }
    }
}

#[tokio::test]
async fn client_may_send_120_frames_per_minute() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (mut client, session) = gateway.identified().await;
    for _ in 1..120 {
        client.say(1, json!(2)).await;
        assert_eq!(client.payload().await["op"], 11);
    }
    client.say(1, json!(2)).await;
    assert_eq!(client.closed().await, 4008);
    assert_eq!(gateway.hub.report().heartbeats, vec![Some(2); 119]);
    gateway.resuming(&session, 2).await.event("RESUMED").await;
}

#[tokio::test]
async fn client_without_heartbeats_is_disconnected_but_resumable() {
    let interval = Duration::from_secs(1);
    let mut gateway = Gateway::start(GatewayRules::default().beating(interval)).await;
    let (mut silent, session) = gateway.identified().await;
    let (mut lively, _) = gateway.identified().await;
    for _ in 0..4 {
        tokio::time::sleep(interval / 2).await;
        lively.say(1, json!(2)).await;
        assert_eq!(lively.payload().await["op"], 11);
    }
    assert_eq!(silent.closed().await, 4000);
    gateway.resuming(&session, 2).await.event("RESUMED").await;
}

#[tokio::test]
async fn heartbeats_can_be_requested_acked_late_or_ignored() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (mut client, _) = gateway.identified().await;
    gateway.hub.ask_for_heartbeat();
    assert_eq!(client.payload().await["op"], 1);
    gateway.hub.withhold_heartbeat_acks(true);
    client.say(1, json!(2)).await;
    client.silence().await;
    gateway.hub.withhold_heartbeat_acks(false);
    gateway.hub.delay_heartbeat_acks(Duration::from_millis(800));
    client.say(1, json!(2)).await;
    client.silence().await;
    assert_eq!(client.payload().await["op"], 11);
    assert_eq!(gateway.hub.report().heartbeats, [Some(2), Some(2)]);
}
