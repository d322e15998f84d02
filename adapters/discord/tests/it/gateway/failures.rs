//! What Discord, the line and the store can do to a connection, one thing at a time.

use std::time::{Duration, Instant};

use satchel_contracts::log_capture::LogCapture;
use satchel_fake_discord::{
    DiscordFault,
    gateway::{GatewayReport, GatewayRules, MESSAGE_CONTENT},
};
use satchel_fake_kit::{Fault, FaultTiming};
use satchel_wait::wait_until;
use serde_json::json;

use crate::harness::{ANN, BOB, GENERAL, GUILD, GatewayHarness, OTHER, RecordingInbound, THREAD};

#[tokio::test]
async fn session_resumes_after_each_resumable_close_code() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let mut said = Vec::new();
    for (resumes, code) in [(1, 4000), (2, 4001), (3, 4002), (4, 4003), (5, 4005), (6, 4008)] {
        harness.fake.close_with(code);
        said.push(format!("after {code}"));
        harness.fake.person_says(GENERAL, ANN, &said[said.len() - 1]);
        taker.takes(said.len()).await;
        harness.sessions_begun_and_resumed(1, resumes).await;
    }
    assert_eq!((taker.texts(), taker.repeated()), (said, vec![]));
    listening.stop().await;
}

#[tokio::test]
async fn session_ended_by_close_is_replaced_losing_nothing() {
    for code in [4007, 4009] {
        let harness = GatewayHarness::start().await;
        let taker = RecordingInbound::new();
        let listening = harness.connected(&taker).await;
        harness.fake.person_says(GENERAL, ANN, "before");
        taker.takes(1).await;
        harness.fake.close_with(code);
        harness.fake.person_says(GENERAL, ANN, "meanwhile");
        taker.takes(2).await;
        harness.sessions_begun_and_resumed(2, 0).await;
        assert_eq!(taker.texts(), ["before", "meanwhile"], "{code}");
        listening.stop().await;
    }
}

#[tokio::test]
async fn a_dropped_connection_loses_and_repeats_nothing() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let words: Vec<String> = (0..20).map(|number| format!("number {number}")).collect();
    for (words, drops) in words.chunks(5).zip(1..) {
        for words in words {
            harness.fake.person_says(GENERAL, ANN, words);
        }
        harness.fake.drop_connection();
        harness.sessions_begun_and_resumed(1, drops).await;
    }
    taker.takes(20).await;
    assert_eq!((taker.texts(), taker.repeated()), (words, vec![]));
    assert_eq!(harness.fake.gateway().report().resumes_misdirected, 0);
    listening.stop().await;
}

#[tokio::test]
async fn reconnect_request_resumes_the_session() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.ask_to_reconnect();
    harness.sessions_begun_and_resumed(1, 1).await;
    harness.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    assert!(harness.fake.gateway().report().left.contains(&Some(4000)), "we left so that the session could go on");
    listening.stop().await;
}

#[tokio::test]
async fn invalid_session_resumes_if_allowed_else_reidentifies() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.invalidate_session(true);
    harness.sessions_begun_and_resumed(1, 1).await;
    harness.fake.person_says(GENERAL, ANN, "one");
    taker.takes(1).await;
    harness.fake.invalidate_session(false);
    harness.fake.person_says(GENERAL, ANN, "two");
    harness.sessions_begun_and_resumed(2, 1).await;
    taker.takes(2).await;
    assert_eq!(taker.texts(), ["one", "two"]);
    listening.stop().await;
}

#[tokio::test]
async fn connection_without_acks_is_closed_and_session_resumes() {
    let harness = GatewayHarness::with(|rules| rules.gateway.heartbeat_interval = Duration::from_millis(400)).await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    wait_until("heartbeats are heard", || harness.fake.gateway().report().heartbeats.len() > 2).await;
    assert_eq!(harness.fake.gateway().report().connections, 1);
    harness.fake.gateway().freeze_connections();
    harness.fake.person_says(GENERAL, ANN, "into the void");
    taker.takes(1).await;
    harness.sessions_begun_and_resumed(1, 1).await;
    harness.fake.withhold_heartbeat_acks(true);
    let left_twice = |report: &GatewayReport| report.left.iter().filter(|code| **code == Some(4000)).count() == 2;
    harness.fake.gateway().wait_until(left_twice).await.expect("it is left");
    harness.fake.withhold_heartbeat_acks(false);
    harness.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(2).await;
    assert_eq!((taker.texts(), taker.repeated()), (vec!["into the void".into(), "hello".into()], vec![]));
    assert_eq!(harness.fake.identifies(), 1);
    listening.stop().await;
}

#[tokio::test]
async fn heartbeats_tell_the_last_event_that_came() {
    // None comes of itself.
    let harness = GatewayHarness::with(|rules| rules.gateway.heartbeat_interval = Duration::from_secs(86_400)).await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    harness.fake.gateway().ask_for_heartbeat();
    harness.fake.gateway().wait_until(|report| !report.heartbeats.is_empty()).await.expect("it answers");
    // READY, the guild, and the message.
    assert_eq!(harness.fake.gateway().report().heartbeats, [Some(3)]);
    listening.stop().await;
}

#[tokio::test]
async fn invalid_frame_is_counted_and_ignored() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    for garbage in ["{\"op\":", "[]", r#"{"op":0,"d":{"content":"canary"}}"#] {
        harness.fake.send_garbage(garbage);
    }
    harness.fake.gateway().send_binary(&[0, 159, 146, 150]);
    wait_until("all of it is kept in mind", || taker.unreadable().len() == 4).await;
    harness.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    let kept = taker.unreadable();
    let reasons: Vec<&str> = kept.iter().map(|update| update.reason.as_str()).collect();
    assert_eq!(reasons, ["it is no JSON", "it has no opcode", "an event without a number", "it is no text"]);
    assert!(kept.iter().all(|update| update.sender.is_none() && update.raw.is_null()), "{kept:?}");
    assert_eq!(kept[1].key, "frame-4f53cda18c2baa0c0354bb5f9a3ecbe5", "the key is the frame's digest");
    assert_eq!(harness.fake.gateway().report().connections, 1);
    listening.stop().await;
}

#[tokio::test]
async fn undecodable_event_is_stored_with_sender_if_private() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let author = json!({ "id": ANN.to_string(), "username": "ann" });
    let direct = json!({ "id": "5", "channel_id": harness.direct.to_string(), "author": author, "content": 5 });
    let group = json!({ "id": "6", "channel_id": GENERAL.to_string(), "guild_id": GUILD.to_string(), "author": author, "content": 5 });
    harness.fake.dispatch("MESSAGE_CREATE", direct.clone());
    harness.fake.dispatch("MESSAGE_CREATE", group);
    harness.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    wait_until("both are kept", || taker.unreadable().len() == 2).await;
    let mut kept = taker.unreadable();
    kept.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!((kept[0].key.as_str(), kept[0].raw.clone()), ("MESSAGE_CREATE:5", direct));
    let senders: Vec<_> = kept.iter().map(|update| update.sender.as_ref().map(|sender| sender.id.as_str())).collect();
    assert_eq!(senders, [Some("42"), None]);
    listening.stop().await;
}

#[tokio::test]
async fn missing_intent_warns_once_and_keeps_direct_messages() {
    let harness = GatewayHarness::with(|rules| rules.gateway.granted_intents = 0).await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(harness.direct, ANN, "directly");
    taker.takes(1).await;
    harness.fake.person_says(GENERAL, ANN, "hidden");
    harness.fake.invalidate_session(false);
    harness.sessions_begun_and_resumed(2, 0).await;
    harness.fake.person_says(harness.direct, ANN, "again");
    taker.takes(2).await;
    assert_eq!(taker.texts(), ["directly", "again"]);
    assert_eq!((log.lines_with("Message Content Intent"), log.lines_with("WARN")), (1, 1), "{}", log.text());
    assert_eq!(log.lines_with("developer portal"), 1);
    listening.stop().await;

    harness.fake.grant_intents(MESSAGE_CONTENT);
    let listening = harness.connected(&taker).await;
    harness.sessions_begun_and_resumed(3, 0).await;
    harness.fake.person_says(GENERAL, ANN, "seen");
    wait_until("it is seen", || taker.texts().contains(&"seen".to_owned())).await;
    listening.stop().await;
}

#[tokio::test]
async fn fatal_close_code_stops_gateway_with_explanation() {
    for (code, words) in
        [(4010, "update Satchel"), (4011, "guilds"), (4012, "update Satchel"), (4013, "update Satchel")]
    {
        let harness = GatewayHarness::start().await;
        let listening = harness.connected(&RecordingInbound::new()).await;
        harness.fake.close_with(code);
        let failed = listening.ended().await.unwrap_err().to_string();
        assert!(failed.contains(words), "{code}: {failed}");
    }
}

#[tokio::test]
async fn unreachable_discord_is_retried_and_reported_once() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.gateway().refuse_upgrades(5);
    harness.fake.drop_connection();
    harness.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    harness.sessions_begun_and_resumed(1, 1).await;
    wait_until("that is told", || log.lines_with("Discord answers again") == 1).await;
    assert_eq!(taker.repeated(), [""; 0]);
    assert_eq!((log.lines_with("cannot reach Discord"), log.lines_with("WARN")), (1, 1), "{}", log.text());
    assert!(
        harness.fake.gateway().report().resumes_misdirected == 1,
        "another address was asked for after three tries"
    );
    listening.stop().await;
}

#[tokio::test]
async fn stopping_is_heard_while_discord_is_not() {
    for route in ["GET /users/@me", "GET /gateway/bot"] {
        let harness = GatewayHarness::start().await;
        harness.fake.script(route, FaultTiming::Every, Fault::Hang { performed: false });
        let listening = harness.listen(&RecordingInbound::new());
        wait_until("it is asked", || harness.fake.requests(route) == 1).await;
        listening.stop().await;
    }
}

#[tokio::test]
async fn identity_and_gateway_url_are_requested_until_available() {
    let harness = GatewayHarness::start().await;
    for route in ["GET /users/@me", "GET /applications/@me", "GET /gateway/bot"] {
        harness.fake.script(route, FaultTiming::First(2), Fault::BadGateway { performed: false });
    }
    harness.fake.script("GET /gateway/bot", FaultTiming::Nth(3), Fault::RateLimit { retry_after_ms: 20 });
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let asked = |route| harness.fake.requests(route);
    assert_eq!((asked("GET /users/@me"), asked("GET /applications/@me"), asked("GET /gateway/bot")), (3, 3, 4));
    listening.stop().await;
}

#[tokio::test]
async fn sessions_start_no_faster_than_discord_allows() {
    let pause = Duration::from_millis(150);
    let mut harness = GatewayHarness::with(|rules| rules.gateway.identify_every = Some(pause)).await;
    // Beginnings leave as far apart as they should, and arrive as far apart as a busy machine lets them.
    harness.waits.identify_interval = pause + Duration::from_millis(350);
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    for begun in 2..4 {
        harness.fake.invalidate_session(false);
        harness.sessions_begun_and_resumed(begun, 0).await;
    }
    assert_eq!(harness.fake.gateway().report().identifies_refused, 0);
    listening.stop().await;
}

#[tokio::test]
async fn exhausted_session_limit_is_awaited_and_reported() {
    let of_a_short_day =
        GatewayRules { session_starts: 1, session_starts_within: Duration::from_secs(2), ..GatewayRules::default() };
    let harness = GatewayHarness::with(|rules| rules.gateway = of_a_short_day).await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(GENERAL, ANN, "before");
    taker.takes(1).await;
    harness.fake.invalidate_session(false);
    harness.fake.person_says(GENERAL, ANN, "meanwhile");
    taker.takes(2).await;
    harness.sessions_begun_and_resumed(2, 0).await;
    assert_eq!(log.lines_with("session start limit reached"), 1, "{}", log.text());
    assert_eq!(harness.fake.gateway().report().identifies_refused, 0);
    listening.stop().await;
}

#[tokio::test]
async fn failing_store_is_retried_without_delaying_other_channels() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    taker.fail(GENERAL, 5);
    let listening = harness.connected(&taker).await;
    for words in ["one", "two"] {
        harness.fake.person_says(GENERAL, ANN, words);
        harness.fake.person_says(OTHER, BOB, words);
    }
    taker.takes(4).await;
    assert_eq!(taker.texts(), ["one", "two", "one", "two"], "in order, none twice, none lost");
    assert_eq!(taker.texts_of(OTHER), taker.texts()[..2], "another channel doesn't wait for it");
    assert_eq!(
        (log.lines_with("storing messages failed"), log.lines_with("storing messages works again")),
        (1, 1),
        "{}",
        log.text()
    );
    assert!(log.text().contains("the disk is full"), "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn hung_store_delays_neither_other_channels_nor_shutdown() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    taker.stick(GENERAL);
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(GENERAL, ANN, "stuck");
    harness.fake.person_says(OTHER, BOB, "hello");
    taker.takes(1).await;
    assert_eq!(taker.texts(), ["hello"]);
    listening.stop().await;
}

#[tokio::test]
async fn full_queue_pauses_reading_and_keeps_connection_alive() {
    let harness = GatewayHarness::with(|rules| rules.gateway.heartbeat_interval = Duration::from_millis(250)).await;
    let taker = RecordingInbound::shut();
    let listening = harness.connected(&taker).await;
    let words: Vec<String> = (0..700).map(|number| format!("number {number}")).collect();
    for words in &words {
        harness.fake.person_says(GENERAL, ANN, words);
        tokio::task::yield_now().await;
    }
    let beats = harness.fake.gateway().report().heartbeats.len();
    wait_until("it lives on", || harness.fake.gateway().report().heartbeats.len() > beats + 2).await;
    let last = harness.fake.gateway().report().heartbeats.last().copied().flatten().expect("something came");
    assert!((500..600).contains(&last), "it has read as much as it may hold: {last}");
    taker.open();
    taker.takes(700).await;
    assert_eq!((taker.texts(), taker.repeated()), (words, vec![]));
    assert_eq!(harness.fake.gateway().report().connections, 1);
    listening.stop().await;
}

#[tokio::test]
async fn checkpoint_interval_holds_under_load_and_failures() {
    let mut harness = GatewayHarness::start().await;
    harness.waits.checkpoint_interval = Duration::from_millis(60);
    harness.waits.guilds_timeout = Duration::from_secs(60);
    harness.fake.person_says(GENERAL, ANN, "missed");
    // What was missed is never stored, so that no session can be kept in mind.
    let taker = RecordingInbound::with_bookmark(json!({ "begun_at": "1", "seen_up_to": "1", "direct": [] }));
    taker.stick(GENERAL);
    taker.keep_none(true);
    let direct = [(harness.direct, ANN), (harness.fake.direct(BOB), BOB)];
    let listening = harness.listen(&taker);
    harness.fake.gateway().wait_connected(1).await.unwrap();
    for keeps_none in [true, false] {
        taker.keep_none(keeps_none);
        let (before, taken, began) = (taker.bookmarks(), taker.taken().len(), Instant::now());
        for number in 0..60 {
            let (channel, person) = direct[number % 2];
            harness.fake.person_says(channel, person, "and another thing");
            // Spread over some of the checkpoint's intervals.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        taker.takes(taken + 60).await;
        let kept = taker.bookmarks() - before;
        let most = began.elapsed().as_millis() / harness.waits.checkpoint_interval.as_millis() + 2;
        assert!(kept > 0 && u128::from(kept) <= most, "{kept} times and not {most}; it fails: {keeps_none}");
    }
    assert!(taker.bookmark()["session_id"].is_null());
    listening.stop().await;
}

#[tokio::test]
async fn strangers_channels_are_saved_separately() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    taker.refuse(BOB);
    let listening = harness.connected(&taker).await;
    let strangers = harness.fake.direct(BOB);
    for (channel, person) in [(harness.direct, ANN), (strangers, BOB)] {
        harness.fake.person_says(channel, person, "hello");
    }
    let last = harness.fake.person_says(GENERAL, ANN, "the last").to_string();
    taker.keeps("the last message", |bookmark| bookmark["seen_up_to"] == last).await;
    assert_eq!(taker.bookmark()["direct"], json!([harness.direct.to_string()]));
    assert_eq!(taker.bookmark()["strangers"], json!([strangers.to_string()]));
    listening.stop().await;
}

#[tokio::test]
async fn partly_cached_channel_is_completed_by_new_process() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    listening.stop().await;
    harness.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    let channel = json!({ "id": GENERAL.to_string(), "guild_id": GUILD.to_string(), "type": 0, "name": "renamed" });
    harness.fake.dispatch("CHANNEL_UPDATE", channel);
    let listening = harness.listen(&taker);
    harness.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    harness.sessions_begun_and_resumed(1, 1).await;
    assert_eq!(harness.fake.requests("GET /guilds/{}"), 1, "its roles are not known");
    listening.stop().await;
}

#[tokio::test]
async fn thread_messages_wait_until_category_is_resolved() {
    const CATEGORY: u64 = 9_050;
    let mut harness = GatewayHarness::start().await;
    harness.settings.answers_in = vec![CATEGORY.to_string()];
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    listening.stop().await;
    harness.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    // The thread tells of its channel at once, and that of its category after a while.
    let place = "GET /channels/{}";
    let channel =
        json!({ "id": GENERAL.to_string(), "guild_id": GUILD.to_string(), "parent_id": CATEGORY.to_string() });
    harness.fake.script(place, FaultTiming::Nth(2), Fault::RateLimit { retry_after_ms: 300 });
    harness.fake.script(place, FaultTiming::Nth(3), DiscordFault::Answer { status: 200, body: channel.to_string() });
    let listening = harness.listen(&taker);
    harness.fake.person_says(THREAD, ANN, "one");
    wait_until("the channel is asked for", || harness.fake.requests(place) == 2).await;
    harness.fake.person_says(THREAD, ANN, "two");
    taker.takes(2).await;
    assert_eq!(taker.texts_of(THREAD), ["one", "two"]);
    listening.stop().await;
}

#[tokio::test]
async fn unresolvable_channel_is_not_silent_forever() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    listening.stop().await;
    harness.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    for place in ["GET /guilds/{}", "GET /channels/{}"] {
        harness.fake.script(place, FaultTiming::Every, Fault::ServerError);
    }
    let listening = harness.listen(&taker);
    for words in ["one", "two"] {
        harness.fake.person_says(GENERAL, ANN, words);
    }
    taker.takes(2).await;
    assert_eq!(taker.texts_of(GENERAL), ["one", "two"]);
    assert!(harness.fake.requests("GET /guilds/{}") >= 5, "it was tried");
    assert_eq!(log.lines_with("continuing without it"), 2, "{}", log.text());
    listening.stop().await;
}

/// The attack: a thread of a locked channel, while Discord doesn't say which channel it is of: another agent would answer.
#[tokio::test]
async fn thread_messages_wait_for_the_channel_that_decides_who_answers() {
    let place = "GET /channels/{}";
    let mut harness = GatewayHarness::start().await;
    harness.settings.needs_parents = true;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    listening.stop().await;
    harness.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    harness.fake.script(place, FaultTiming::Every, Fault::ServerError);
    let listening = harness.listen(&taker);
    harness.fake.person_says(THREAD, ANN, "one");
    wait_until("the look-up is given up twice", || log.lines_with("messages there wait for it") >= 2).await;
    assert!(taker.taken().is_empty());
    harness.fake.clear_script();
    taker.takes(1).await;
    assert_eq!(taker.taken()[0].parents[0].to_string(), format!("discord:{GENERAL}"));
    listening.stop().await;
}
