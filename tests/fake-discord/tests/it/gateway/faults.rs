//! What a test does to the clients of the gateway.

use std::time::Duration;

use satchel_fake_discord::gateway::GatewayRules;
use serde_json::json;

use crate::gateway::{Client, Gateway, Heard, INTENTS};

#[tokio::test]
async fn connections_are_dropped_after_so_many_events() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (mut client, session) = gateway.identified().await;
    gateway.hub.drop_after(2);
    for content in ["3", "4", "5"] {
        gateway.message(content);
    }
    client.message("3", 3).await;
    client.message("4", 4).await;
    assert_eq!(client.hear().await, Heard::Dropped);
    let mut client = gateway.resuming(&session, 4).await;
    client.message("5", 5).await;
}

#[tokio::test]
async fn a_frozen_connection_says_and_hears_nothing() {
    let interval = Duration::from_secs(30);
    let mut gateway = Gateway::start(GatewayRules::default().beating(interval)).await;
    let (mut client, session) = gateway.identified().await;
    gateway.hub.freeze_connections();
    gateway.message("unheard");
    client.say(1, json!(2)).await;
    client.silence().await;
    gateway.clock.advance(3 * interval);
    client.silence().await;
    let mut other = gateway.resuming(&session, 2).await;
    other.message("unheard", 3).await;
    assert_eq!(gateway.hub.report().heartbeats, []);
}

#[tokio::test]
async fn reconnect_request_continues_events_until_connection_ends() {
    let rules = GatewayRules::default();
    let mut gateway = Gateway::start(rules).await;
    let (mut client, session) = gateway.identified().await;
    gateway.hub.ask_to_reconnect();
    assert_eq!(client.payload().await["op"], 7);
    gateway.message("meanwhile");
    client.message("meanwhile", 3).await;
    gateway.clock.advance(rules.reconnect_within - Duration::from_millis(1));
    gateway.message("until the end");
    client.message("until the end", 4).await;
    gateway.clock.advance(Duration::from_millis(1));
    assert_eq!(client.hear().await, Heard::Dropped);
    gateway.hub.wait_connected(0).await.expect("it is gone");
    gateway.message("afterwards");
    gateway.resuming(&session, 4).await.message("afterwards", 5).await;
}

#[tokio::test]
async fn invalidated_session_is_resumable_only_if_declared() {
    for resumable in [true, false] {
        let mut gateway = Gateway::start(GatewayRules::default()).await;
        let (mut client, session) = gateway.identified().await;
        gateway.hub.invalidate_session(resumable);
        let invalid = client.payload().await;
        assert_eq!((&invalid["op"], &invalid["d"]), (&json!(9), &json!(resumable)));
        let answer = gateway.resuming(&session, 2).await.payload().await;
        assert_eq!(answer["op"], if resumable { 0 } else { 9 });
    }
}

#[tokio::test]
async fn scripted_close_code_ends_session_only_if_fatal() {
    for (code, stays) in [(1001, true), (4000, true), (4008, true), (4009, false), (4007, false)] {
        let mut gateway = Gateway::start(GatewayRules::default()).await;
        let (mut client, session) = gateway.identified().await;
        gateway.hub.close_with(code);
        assert_eq!(client.closed().await, code);
        assert_eq!(gateway.hub.sessions(), usize::from(stays), "{code}");
        let answer = gateway.resuming(&session, 2).await.payload().await;
        assert_eq!(answer["op"], if stays { 0 } else { 9 });
        assert_eq!(gateway.hub.report().closed, [code]);
    }
}

#[tokio::test]
async fn what_means_nothing_goes_out_as_it_is() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (mut client, _) = gateway.identified().await;
    gateway.hub.send_garbage("}{");
    gateway.hub.send_binary(&[0xff, 0]);
    gateway.message("next");
    assert_eq!(client.hear().await, Heard::Text("}{".to_owned()));
    assert_eq!(client.hear().await, Heard::Binary(vec![0xff, 0]));
    client.message("next", 3).await;
}

#[tokio::test]
async fn sockets_and_sessions_are_refused_for_a_while() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    gateway.hub.refuse_upgrades(2);
    for _ in 0..2 {
        let refused = Client::connect(&format!("{}/?v=10&encoding=json", gateway.url)).await;
        assert_eq!(refused.err(), Some(502));
    }
    gateway.hub.refuse_identifies(2);
    let mut client = gateway.client().await;
    for _ in 0..2 {
        client.identify(INTENTS).await;
        assert_eq!(client.payload().await["op"], 9);
    }
    let (_, session) = gateway.identified().await;
    assert_eq!(gateway.hub.session_ids(), [session]);
}

#[tokio::test]
async fn disconnected_sessions_can_be_expired() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (_, session) = gateway.identified().await;
    gateway.hub.drop_connection();
    let (mut other, _) = gateway.identified().await;
    gateway.hub.expire_sessions();
    assert_eq!(gateway.resuming(&session, 2).await.payload().await["op"], 9);
    gateway.message("still here");
    other.message("still here", 3).await;
}

#[tokio::test]
async fn chosen_connections_stay_silent_and_next_one_works() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    gateway.hub.say_nothing(2);
    for _ in 0..2 {
        let mut silent = Client::connect(&format!("{}/?v=10&encoding=json", gateway.url)).await.expect("a socket");
        silent.say(1, json!(null)).await;
        silent.silence().await;
        silent.leave(4000).await;
    }
    gateway.hub.wait_until(|report| report.left == [Some(4000); 2]).await.expect("it hears that they leave");
    gateway.identified().await;
    assert_eq!(gateway.hub.report().heartbeats, []);
}

#[tokio::test]
async fn ignored_or_closed_resumes_leave_the_session() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    let (_, session) = gateway.identified().await;
    gateway.hub.drop_connection();
    gateway.message("missed");
    gateway.hub.ignore_resumes(1);
    let mut ignored = gateway.resuming(&session, 2).await;
    ignored.silence().await;
    ignored.say(1, json!(2)).await;
    assert_eq!(ignored.payload().await["op"], 11, "heartbeats are heard");
    gateway.hub.close_resumes_with(Some(4003));
    for _ in 0..2 {
        assert_eq!(gateway.resuming(&session, 2).await.closed().await, 4003);
    }
    gateway.hub.close_resumes_with(None);
    gateway.resuming(&session, 2).await.message("missed", 3).await;
    let report = gateway.hub.report();
    assert_eq!((report.resumes, report.resumes_refused, report.replayed), (1, 3, 1));
}

#[tokio::test]
async fn unread_client_still_receives_events() {
    let mut gateway = Gateway::start(GatewayRules::default()).await;
    gateway.hub.read_nothing(true);
    let mut unread = gateway.client().await;
    unread.say(1, json!(null)).await;
    unread.silence().await;
    gateway.hub.ask_for_heartbeat();
    assert_eq!(unread.payload().await["op"], 1);
    assert_eq!(gateway.hub.report().heartbeats, []);
    gateway.hub.read_nothing(false);
    gateway.identified().await;
}
