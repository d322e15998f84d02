//! What Discord and the line can do to a connection, one thing at a time.

use std::time::Duration;

use satchel_fake_discord::gateway::{GatewayReport, GatewayRules, MESSAGE_CONTENT};
use satchel_fake_kit::{Fault, FaultTiming};
use serde_json::json;

use super::bench::{ANN, Bench, GENERAL, GUILD, Log, Taker, until};

#[tokio::test]
async fn session_resumes_after_each_resumable_close_code() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    let mut said = Vec::new();
    for (resumes, code) in [(1, 4000), (2, 4001), (3, 4002), (4, 4003), (5, 4005), (6, 4008)] {
        bench.fake.close_with(code);
        said.push(format!("after {code}"));
        bench.fake.person_says(GENERAL, ANN, &said[said.len() - 1]);
        taker.takes(said.len()).await;
        bench.sessions_begun_and_resumed(1, resumes).await;
    }
    assert_eq!((taker.texts(), taker.repeated()), (said, vec![]));
    listening.stop().await;
}

#[tokio::test]
async fn session_ended_by_close_is_replaced_losing_nothing() {
    for code in [4007, 4009] {
        let bench = Bench::start().await;
        let taker = Taker::new();
        let listening = bench.connected(&taker).await;
        bench.fake.person_says(GENERAL, ANN, "before");
        taker.takes(1).await;
        bench.fake.close_with(code);
        bench.fake.person_says(GENERAL, ANN, "meanwhile");
        taker.takes(2).await;
        bench.sessions_begun_and_resumed(2, 0).await;
        assert_eq!(taker.texts(), ["before", "meanwhile"], "{code}");
        listening.stop().await;
    }
}

#[tokio::test]
async fn a_dropped_connection_loses_and_repeats_nothing() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    let words: Vec<String> = (0..20).map(|number| format!("number {number}")).collect();
    for (words, drops) in words.chunks(5).zip(1..) {
        for words in words {
            bench.fake.person_says(GENERAL, ANN, words);
        }
        bench.fake.drop_connection();
        bench.sessions_begun_and_resumed(1, drops).await;
    }
    taker.takes(20).await;
    assert_eq!((taker.texts(), taker.repeated()), (words, vec![]));
    assert_eq!(bench.fake.gateway().report().resumes_misdirected, 0);
    listening.stop().await;
}

#[tokio::test]
async fn reconnect_request_resumes_the_session() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.ask_to_reconnect();
    bench.sessions_begun_and_resumed(1, 1).await;
    bench.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    assert!(bench.fake.gateway().report().left.contains(&Some(4000)), "we left so that the session could go on");
    listening.stop().await;
}

#[tokio::test]
async fn invalid_session_resumes_if_allowed_else_reidentifies() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.invalidate_session(true);
    bench.sessions_begun_and_resumed(1, 1).await;
    bench.fake.person_says(GENERAL, ANN, "one");
    taker.takes(1).await;
    bench.fake.invalidate_session(false);
    bench.fake.person_says(GENERAL, ANN, "two");
    bench.sessions_begun_and_resumed(2, 1).await;
    taker.takes(2).await;
    assert_eq!(taker.texts(), ["one", "two"]);
    listening.stop().await;
}

#[tokio::test]
async fn connection_without_acks_is_closed_and_session_resumes() {
    let bench = Bench::with(|rules| rules.gateway.heartbeat_interval = Duration::from_millis(400)).await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    until("heartbeats are heard", || bench.fake.gateway().report().heartbeats.len() > 2).await;
    assert_eq!(bench.fake.gateway().report().connections, 1);
    bench.fake.gateway().freeze_connections();
    bench.fake.person_says(GENERAL, ANN, "into the void");
    taker.takes(1).await;
    bench.sessions_begun_and_resumed(1, 1).await;
    bench.fake.withhold_heartbeat_acks(true);
    let left_twice = |report: &GatewayReport| report.left.iter().filter(|code| **code == Some(4000)).count() == 2;
    bench.fake.gateway().wait_until(left_twice).await.expect("it is left");
    bench.fake.withhold_heartbeat_acks(false);
    bench.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(2).await;
    assert_eq!((taker.texts(), taker.repeated()), (vec!["into the void".into(), "hello".into()], vec![]));
    assert_eq!(bench.fake.identifies(), 1);
    listening.stop().await;
}

#[tokio::test]
async fn heartbeats_tell_the_last_event_that_came() {
    // None comes of itself.
    let bench = Bench::with(|rules| rules.gateway.heartbeat_interval = Duration::from_secs(86_400)).await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    bench.fake.gateway().ask_for_heartbeat();
    bench.fake.gateway().wait_until(|report| !report.heartbeats.is_empty()).await.expect("it answers");
    // READY, the guild, and the message.
    assert_eq!(bench.fake.gateway().report().heartbeats, [Some(3)]);
    listening.stop().await;
}

#[tokio::test]
async fn invalid_frame_is_counted_and_ignored() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    for garbage in ["{\"op\":", "[]", r#"{"op":0,"d":{"content":"canary"}}"#] {
        bench.fake.send_garbage(garbage);
    }
    bench.fake.gateway().send_binary(&[0, 159, 146, 150]);
    until("all of it is kept in mind", || taker.unreadable().len() == 4).await;
    bench.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    let kept = taker.unreadable();
    let reasons: Vec<&str> = kept.iter().map(|update| update.reason.as_str()).collect();
    assert_eq!(reasons, ["it is no JSON", "it has no opcode", "an event without a number", "it is no text"]);
    assert!(kept.iter().all(|update| update.sender.is_none() && update.raw.is_null()), "{kept:?}");
    assert_eq!(kept[1].key, "frame-4f53cda18c2baa0c0354bb5f9a3ecbe5", "the key is the frame's digest");
    assert_eq!(bench.fake.gateway().report().connections, 1);
    listening.stop().await;
}

#[tokio::test]
async fn undecodable_event_is_stored_with_sender_if_private() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    let author = json!({ "id": ANN.to_string(), "username": "ann" });
    let direct = json!({ "id": "5", "channel_id": bench.direct.to_string(), "author": author, "content": 5 });
    let group = json!({ "id": "6", "channel_id": GENERAL.to_string(), "guild_id": GUILD.to_string(), "author": author, "content": 5 });
    bench.fake.dispatch("MESSAGE_CREATE", direct.clone());
    bench.fake.dispatch("MESSAGE_CREATE", group);
    bench.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    until("both are kept", || taker.unreadable().len() == 2).await;
    let mut kept = taker.unreadable();
    kept.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!((kept[0].key.as_str(), kept[0].raw.clone()), ("MESSAGE_CREATE:5", direct));
    let senders: Vec<_> = kept.iter().map(|update| update.sender.as_ref().map(|sender| sender.id.as_str())).collect();
    assert_eq!(senders, [Some("42"), None]);
    listening.stop().await;
}

#[tokio::test]
async fn missing_intent_warns_once_and_keeps_direct_messages() {
    let bench = Bench::with(|rules| rules.gateway.granted_intents = 0).await;
    let (log, _guard) = Log::listen();
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(bench.direct, ANN, "directly");
    taker.takes(1).await;
    bench.fake.person_says(GENERAL, ANN, "hidden");
    bench.fake.invalidate_session(false);
    bench.sessions_begun_and_resumed(2, 0).await;
    bench.fake.person_says(bench.direct, ANN, "again");
    taker.takes(2).await;
    assert_eq!(taker.texts(), ["directly", "again"]);
    assert_eq!((log.lines_with("Message Content Intent"), log.lines_with("WARN")), (1, 1), "{}", log.text());
    assert_eq!(log.lines_with("developer portal"), 1);
    listening.stop().await;

    bench.fake.grant_intents(MESSAGE_CONTENT);
    let listening = bench.connected(&taker).await;
    bench.sessions_begun_and_resumed(3, 0).await;
    bench.fake.person_says(GENERAL, ANN, "seen");
    until("it is seen", || taker.texts().contains(&"seen".to_owned())).await;
    listening.stop().await;
}

#[tokio::test]
async fn unknown_token_stops_gateway_with_explanation() {
    let mut bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.close_with(4004);
    let revoked = listening.ended().await.unwrap_err().to_string();
    bench.settings.token = "NzY1.Nobodys.TokenCanary".into();
    let unknown = bench.listen(&taker).ended().await.unwrap_err().to_string();
    for failed in [revoked, unknown] {
        assert!(failed.contains("developer portal") && failed.contains("Reset Token"), "{failed}");
        assert!(!format!("{failed}{}", log.text()).contains("TokenCanary"), "{failed}\n{}", log.text());
    }
}

#[tokio::test]
async fn fatal_close_code_stops_gateway_with_explanation() {
    for (code, words) in
        [(4010, "update Satchel"), (4011, "guilds"), (4012, "update Satchel"), (4013, "update Satchel")]
    {
        let bench = Bench::start().await;
        let listening = bench.connected(&Taker::new()).await;
        bench.fake.close_with(code);
        let failed = listening.ended().await.unwrap_err().to_string();
        assert!(failed.contains(words), "{code}: {failed}");
    }
}

#[tokio::test]
async fn unreachable_discord_is_retried_and_reported_once() {
    let bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.gateway().refuse_upgrades(5);
    bench.fake.drop_connection();
    bench.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    bench.sessions_begun_and_resumed(1, 1).await;
    until("that is told", || log.lines_with("Discord answers again") == 1).await;
    assert_eq!(taker.repeated(), [""; 0]);
    assert_eq!((log.lines_with("cannot reach Discord"), log.lines_with("WARN")), (1, 1), "{}", log.text());
    assert!(bench.fake.gateway().report().resumes_misdirected == 1, "another address was asked for after three tries");
    listening.stop().await;
}

#[tokio::test]
async fn stopping_is_heard_while_discord_is_not() {
    for route in ["GET /users/@me", "GET /gateway/bot"] {
        let bench = Bench::start().await;
        bench.fake.script(route, FaultTiming::Every, Fault::Hang { performed: false });
        let listening = bench.listen(&Taker::new());
        until("it is asked", || bench.fake.requests(route) == 1).await;
        listening.stop().await;
    }
}

#[tokio::test]
async fn identity_and_gateway_url_are_requested_until_available() {
    let bench = Bench::start().await;
    for route in ["GET /users/@me", "GET /applications/@me", "GET /gateway/bot"] {
        bench.fake.script(route, FaultTiming::First(2), Fault::BadGateway { performed: false });
    }
    bench.fake.script("GET /gateway/bot", FaultTiming::Nth(3), Fault::RateLimit { retry_after_ms: 20 });
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    let asked = |route| bench.fake.requests(route);
    assert_eq!((asked("GET /users/@me"), asked("GET /applications/@me"), asked("GET /gateway/bot")), (3, 3, 4));
    listening.stop().await;
}

#[tokio::test]
async fn sessions_start_no_faster_than_discord_allows() {
    let pause = Duration::from_millis(150);
    let mut bench = Bench::with(|rules| rules.gateway.identify_every = Some(pause)).await;
    // Beginnings leave as far apart as they should, and arrive as far apart as a busy machine lets them.
    bench.waits.identify_interval = pause + Duration::from_millis(350);
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    for begun in 2..4 {
        bench.fake.invalidate_session(false);
        bench.sessions_begun_and_resumed(begun, 0).await;
    }
    assert_eq!(bench.fake.gateway().report().identifies_refused, 0);
    listening.stop().await;
}

#[tokio::test]
async fn exhausted_session_limit_is_awaited_and_reported() {
    let of_a_short_day =
        GatewayRules { session_starts: 1, session_starts_within: Duration::from_secs(2), ..GatewayRules::default() };
    let bench = Bench::with(|rules| rules.gateway = of_a_short_day).await;
    let (log, _guard) = Log::listen();
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(GENERAL, ANN, "before");
    taker.takes(1).await;
    bench.fake.invalidate_session(false);
    bench.fake.person_says(GENERAL, ANN, "meanwhile");
    taker.takes(2).await;
    bench.sessions_begun_and_resumed(2, 0).await;
    assert_eq!(log.lines_with("session start limit reached"), 1, "{}", log.text());
    assert_eq!(bench.fake.gateway().report().identifies_refused, 0);
    listening.stop().await;
}
