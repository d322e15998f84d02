//! Sessions outlive their connections: what is replayed, for how long, and what ends them.

use std::time::Duration;

use satchel_fake_discord::gateway::GatewayRules;
use serde_json::json;

use crate::gateway::{Client, Gateway, Heard, INTENTS, TOKEN};

#[tokio::test]
async fn resume_continues_after_last_received_event() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (mut client, session) = gateway.identified().await;
    gateway.message("seen");
    client.message("seen", 3).await;
    gateway.message("heard and not kept");
    gateway.hub.drop_connection();
    gateway.message("while nobody was there");
    assert_eq!((gateway.hub.sessions(), gateway.hub.connected()), (1, 0));

    let mut client = gateway.resuming(&session, 3).await;
    client.message("heard and not kept", 4).await;
    client.message("while nobody was there", 5).await;
    assert_eq!(client.event("RESUMED").await["s"], 6);
    gateway.message("later");
    client.message("later", 7).await;
    let report = gateway.hub.report();
    assert_eq!((report.identifies, report.resumes, report.replayed), (1, 1, 2));
    assert_eq!(report.resumes_misdirected, 0);
}

#[tokio::test]
async fn new_session_misses_events_while_disconnected() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    gateway.identified().await;
    gateway.hub.drop_connection();
    gateway.message("missed");
    let (mut client, _) = gateway.identified().await;
    gateway.message("heard");
    client.message("heard", 3).await;
    assert_eq!(gateway.hub.sessions(), 2, "the old session still waits");
}

#[tokio::test]
async fn resume_is_limited_by_time_and_event_buffer() {
    // No heartbeat is due in the meantime.
    let rules = GatewayRules { buffered_events: 3, ..GatewayRules::default().beating(Duration::from_secs(60 * 60)) };
    let resumable_for = rules.resumable_for;
    let mut gateway = Gateway::start(rules).await;
    let (_, session) = gateway.identified().await;
    gateway.hub.drop_connection();
    for content in ["3", "4", "5"] {
        gateway.message(content);
    }
    let mut client = gateway.resuming(&session, 2).await;
    for number in 3..=5 {
        client.message(&number.to_string(), number).await;
    }
    client.event("RESUMED").await;
    gateway.clock.advance(resumable_for);
    gateway.message("7");
    client.message("7", 7).await;
    gateway.hub.drop_connection();
    let mut client = gateway.resuming(&session, 3).await;
    assert_invalid(&mut client).await;
    assert_eq!(gateway.hub.sessions(), 0);

    let (_, session) = gateway.identified().await;
    gateway.hub.drop_connection();
    gateway.clock.advance(resumable_for - Duration::from_millis(1));
    gateway.resuming(&session, 2).await.event("RESUMED").await;
    gateway.hub.drop_connection();
    gateway.clock.advance(resumable_for);
    let mut client = gateway.resuming(&session, 2).await;
    assert_invalid(&mut client).await;
    client.identify(INTENTS).await;
    client.event("READY").await;
    assert_eq!(gateway.hub.report().resumes_refused, 2);
}

#[tokio::test]
async fn resume_requires_valid_token_session_and_sequence() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (_, session) = gateway.identified().await;
    gateway.hub.drop_connection();
    let mut client = gateway.client().await;
    client.say(6, json!({ "token": "another", "session_id": session, "seq": 2 })).await;
    assert_eq!(client.closed().await, 4004);
    assert_invalid(&mut gateway.resuming("0123", 2).await).await;
    assert_eq!(gateway.resuming(&session, 3).await.closed().await, 4007);
    assert_invalid(&mut gateway.resuming(&session, 2).await).await;
}

#[tokio::test]
async fn only_normal_client_close_ends_the_session() {
    for (code, stays) in [(1000, false), (1001, false), (4000, true), (3000, true)] {
        let mut gateway = Gateway::start(GatewayRules::default()).await;
        let (client, session) = gateway.identified().await;
        client.leave(code).await;
        gateway.hub.wait_until(|report| report.left == [Some(code)]).await.expect("it hears of it");
        let mut client = gateway.resuming(&session, 2).await;
        if stays {
            client.event("RESUMED").await;
        } else {
            assert_invalid(&mut client).await;
        }
    }
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (client, session) = gateway.identified().await;
    drop(client);
    gateway.hub.wait_until(|report| report.left == [None]).await.expect("it hears of it");
    gateway.resuming(&session, 2).await.event("RESUMED").await;
}

#[tokio::test]
async fn a_session_has_one_connection() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (mut first, session) = gateway.identified().await;
    let mut second = gateway.resuming(&session, 2).await;
    second.event("RESUMED").await;
    assert_eq!(first.hear().await, Heard::Dropped);
    gateway.message("for the second");
    second.message("for the second", 4).await;
}

#[tokio::test]
async fn resume_at_different_address_is_counted() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (_, session) = gateway.identified().await;
    gateway.hub.drop_connection();
    let mut client = gateway.client().await;
    client.say(6, json!({ "token": TOKEN, "session_id": session, "seq": 2 })).await;
    client.event("RESUMED").await;
    assert_eq!(gateway.hub.report().resumes_misdirected, 1);
}

async fn assert_invalid(client: &mut Client) {
    let payload = client.payload().await;
    assert_eq!((&payload["op"], &payload["d"]), (&json!(9), &json!(false)));
}
