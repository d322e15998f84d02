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
    // No heartbeat is due in the meantime.
    let mut gateway = Gateway::start(GatewayRules::default().beating(Duration::from_secs(60 * 60))).await;
    let (mut client, session) = gateway.identified().await;
    // The first minute has an IDENTIFY, too.
    for count in [119, 120] {
        for _ in 0..count {
            client.say(1, json!(2)).await;
            assert_eq!(client.payload().await["op"], 11);
        }
        gateway.clock.advance(Duration::from_secs(if count == 119 { 60 } else { 59 }));
    }
    client.say(1, json!(2)).await;
    assert_eq!(client.closed().await, 4008);
    assert_eq!(gateway.hub.report().heartbeats, vec![Some(2); 239]);
    gateway.resuming(&session, 2).await.event("RESUMED").await;
}

#[tokio::test]
async fn client_without_heartbeats_is_disconnected_but_resumable() {
    let interval = Duration::from_secs(30);
    let mut gateway = Gateway::start(GatewayRules::default().beating(interval)).await;
    let (mut silent, session) = gateway.identified().await;
    let (mut lively, _) = gateway.identified().await;
    for _ in 0..4 {
        gateway.clock.advance(interval / 2);
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
    gateway.hub.delay_heartbeat_acks(Duration::from_secs(5));
    client.say(1, json!(2)).await;
    gateway.hub.wait_until(|report| report.heartbeats.len() == 2).await.expect("it is heard");
    gateway.clock.advance(Duration::from_millis(4_999));
    client.silence().await;
    gateway.clock.advance(Duration::from_millis(1));
    assert_eq!(client.payload().await["op"], 11);
    assert_eq!(gateway.hub.report().heartbeats, [Some(2), Some(2)]);
}
