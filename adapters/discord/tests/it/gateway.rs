//! The gateway: whatever becomes of the connection, of the session or of the process, each message is taken in, in its
//! order. Sessions that outlive their process, and connections that open and lead to nothing.

mod accounts;
mod failures;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use satchel_contracts::log_capture::LogCapture;
use satchel_discord::{DiscordChannel, DiscordListener, GatewayTimeouts};
use satchel_domain::PartContent;
use satchel_fake_discord::{Tier, gateway::GatewayRules};
use satchel_fake_kit::FakeFile;
use satchel_ports::Channel;
use satchel_wait::wait_until;
use serde_json::json;

use crate::{
    harness::{ANN, BOB, GENERAL, GatewayHarness, ListenerTask, OTHER, RecordingInbound, THREAD},
    outbound::{OutboundHarness, conversation, settings, unpaced},
};

#[tokio::test]
async fn the_next_process_goes_on_with_the_session() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(GENERAL, ANN, "before");
    taker.takes(1).await;
    listening.stop().await;
    harness.fake.gateway().wait_until(|report| !report.left.is_empty()).await.expect("it has heard that we left");
    assert_eq!(harness.fake.gateway().report().left, [Some(4000)], "a code with which the session stays");
    harness.fake.person_says(GENERAL, ANN, "meanwhile");
    harness.fake.person_says(harness.direct, ANN, "directly");
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(GENERAL, ANN, "after");
    taker.takes(4).await;
    assert_eq!(taker.texts_of(GENERAL), ["before", "meanwhile", "after"]);
    assert_eq!((taker.texts_of(harness.direct), taker.repeated()), (vec!["directly".to_owned()], vec![]));
    harness.sessions_begun_and_resumed(1, 1).await;
    assert_eq!(harness.fake.requests("GET /channels/{}/messages"), 0, "the gateway tells everything");
    listening.stop().await;
}

#[tokio::test]
async fn message_stored_after_checkpoint_is_redelivered_and_deduplicated() {
    let mut harness = GatewayHarness::start().await;
    harness.waits.checkpoint_interval = Duration::from_secs(60);
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let message = harness.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    listening.kill().await;
    let listening = harness.connected(&taker).await;
    wait_until("it comes again", || !taker.repeated().is_empty()).await;
    assert_eq!((taker.texts(), taker.repeated()), (vec!["hello".to_owned()], vec![message.to_string()]));
    harness.sessions_begun_and_resumed(1, 1).await;
    listening.stop().await;
}

#[tokio::test]
async fn message_being_stored_at_crash_is_redelivered() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::shut();
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(GENERAL, ANN, "hello");
    taker.tried(1).await;
    // A checkpoint would be saved by now.
    tokio::time::sleep(harness.waits.checkpoint_interval * 3).await;
    listening.kill().await;
    let survivor = taker.of_the_next_process();
    let listening = harness.listen(&survivor);
    survivor.takes(1).await;
    assert_eq!(survivor.texts(), ["hello"]);
    listening.stop().await;
}

#[tokio::test]
async fn checkpoint_stays_before_message_that_failed_to_store() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    taker.fail(GENERAL, u32::MAX);
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(OTHER, BOB, "before");
    harness.fake.person_says(GENERAL, ANN, "can't be stored");
    harness.fake.person_says(OTHER, BOB, "after");
    taker.takes(2).await;
    taker.keeps("the place before what can't be stored", |bookmark| bookmark["seq"] == 3).await;
    listening.stop().await;
    assert_eq!(taker.bookmark()["seq"], 3);
    let survivor = taker.of_the_next_process();
    let listening = harness.listen(&survivor);
    survivor.takes(2).await;
    assert_eq!(
        (survivor.texts_of(GENERAL), survivor.texts_of(OTHER)),
        (vec!["can't be stored".into()], vec!["after".into()])
    );
    listening.stop().await;
}

#[tokio::test]
async fn the_bookmark_is_kept_when_we_stop() {
    let mut harness = GatewayHarness::start().await;
    harness.waits.checkpoint_interval = Duration::from_secs(60);
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let message = harness.fake.person_says(harness.direct, ANN, "hello");
    taker.takes(1).await;
    assert_ne!(taker.bookmark()["seq"], 3);
    listening.stop().await;
    let bookmark = taker.bookmark();
    assert_eq!((bookmark["seq"].clone(), bookmark["seen_up_to"].clone()), (json!(3), json!(message.to_string())));
    assert_eq!(bookmark["direct"], json!([harness.direct.to_string()]));
}

#[tokio::test]
async fn checkpoints_are_saved_periodically_not_per_event() {
    let mut harness = GatewayHarness::start().await;
    harness.waits.checkpoint_interval = Duration::from_millis(200);
    let (taker, began) = (RecordingInbound::new(), Instant::now());
    let listening = harness.connected(&taker).await;
    for number in 0..50 {
        harness.fake.person_says(GENERAL, ANN, &number.to_string());
        // Spread over the checkpoint's interval.
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    taker.takes(50).await;
    taker.keeps("the last of them", |bookmark| bookmark["seq"] == 52).await;
    let most = began.elapsed().as_millis() / harness.waits.checkpoint_interval.as_millis() + 2;
    assert!(u128::from(taker.bookmarks()) <= most, "{} times and not {most}", taker.bookmarks());
    let kept = taker.bookmarks();
    // A checkpoint would be saved by now.
    tokio::time::sleep(harness.waits.checkpoint_interval * 2).await;
    assert_eq!(taker.bookmarks(), kept, "nothing has changed");
    listening.stop().await;
}

#[tokio::test]
async fn resumed_process_resolves_unannounced_thread() {
    let mut harness = GatewayHarness::start().await;
    harness.settings.answers_in = vec![GENERAL.to_string()];
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    taker.keeps("the guild was told", |bookmark| bookmark["seq"] == 2).await;
    listening.stop().await;
    harness.fake.person_says(THREAD, ANN, "in a thread of a channel where everything is for us");
    harness.fake.person_says(THREAD, ANN, "and more");
    harness.fake.person_says(OTHER, ANN, "not for us");
    let listening = harness.listen(&taker);
    taker.takes(2).await;
    harness.sessions_begun_and_resumed(1, 1).await;
    harness.fake.person_says(THREAD, ANN, "and more yet");
    taker.takes(3).await;
    assert_eq!(taker.taken().len(), taker.texts_of(THREAD).len());
    assert_eq!(harness.fake.requests("GET /channels/{}"), 3, "the thread, its channel and the other one");
    taker.keeps("all of it", |bookmark| bookmark["seq"] == 7).await;
    listening.stop().await;
}

#[tokio::test]
async fn foreign_server_gets_neither_resume_nor_token() {
    let (elsewhere, harness) = (GatewayHarness::start().await, GatewayHarness::start().await);
    let taker = RecordingInbound::new();
    elsewhere.connected(&taker).await.stop().await;
    let kept = taker.bookmark();
    assert_eq!(kept["server"], elsewhere.fake.api_url());
    let connections = elsewhere.fake.gateway().report().connections;
    harness.fake.person_says(GENERAL, ANN, "meanwhile");
    for (sessions, server) in (1..).zip([kept["server"].clone(), json!(null), json!("https://discord.com")]) {
        let mut kept = kept.clone();
        kept["server"] = server;
        let finder = RecordingInbound::with_bookmark(kept);
        let listening = harness.listen(&finder);
        finder.takes(1).await;
        assert_eq!(finder.texts(), ["meanwhile"], "history tells what was missed");
        harness.sessions_begun_and_resumed(sessions, 0).await;
        listening.stop().await;
    }
    let report = elsewhere.fake.gateway().report();
    assert_eq!((report.connections, report.resumes, report.resumes_refused), (connections, 0, 0));
}

#[tokio::test]
async fn untrusted_resume_url_falls_back_to_general_gateway() {
    let (elsewhere, harness) = (GatewayHarness::start().await, GatewayHarness::start().await);
    let taker = RecordingInbound::new();
    harness.connected(&taker).await.stop().await;
    let mut kept = taker.bookmark();
    kept["resume_url"] = json!(format!("{}/gateway-socket-again", elsewhere.fake.api_url()));
    let listening = harness.listen(&RecordingInbound::with_bookmark(kept));
    harness.sessions_begun_and_resumed(1, 1).await;
    assert_eq!(harness.fake.gateway().report().resumes_misdirected, 1);
    assert_eq!(elsewhere.fake.gateway().report().connections, 0);
    listening.stop().await;
}

#[tokio::test]
async fn token_rejected_on_resume_is_retried_with_identify() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    harness.connected(&taker).await.stop().await;
    harness.fake.gateway().close_resumes_with(Some(4004));
    harness.fake.person_says(GENERAL, ANN, "meanwhile");
    let listening = harness.listen(&taker);
    taker.takes(1).await;
    harness.sessions_begun_and_resumed(2, 0).await;
    assert_eq!((harness.fake.gateway().report().resumes_refused, harness.fake.requests("GET /gateway/bot")), (1, 2));
    listening.stop().await;
}

const MIB: u64 = 1 << 20;
const WORK: u64 = 72;

fn listen(harness: &OutboundHarness, channel: &Arc<DiscordChannel>, taker: &Arc<RecordingInbound>) -> ListenerTask {
    let waits = GatewayTimeouts { checkpoint_interval: Duration::from_millis(10), ..GatewayTimeouts::default() };
    let settings = settings(&harness.discord, unpaced());
    ListenerTask::begin(DiscordListener::with_timeouts(settings, Arc::clone(channel), waits), taker)
}

#[tokio::test]
async fn resuming_process_remembers_boosted_guild_limits() {
    let harness = OutboundHarness::new().await;
    harness.discord.guild(WORK, "Work", Tier::Two);
    let general = harness.discord.channel(WORK, 200, "general");
    let places = [general, harness.discord.thread(general, 201, "a thread")];
    let taker = RecordingInbound::new();
    let listening = listen(&harness, &harness.channel, &taker);
    let is_kept = |kept: &serde_json::Value| kept["boosted"][WORK.to_string()]["channels"].is_array();
    taker.keeps("the boost", |kept| is_kept(kept) && kept["session_id"].is_string()).await;
    listening.stop().await;
    harness.discord.gateway().wait_connected(0).await.unwrap();

    let channel = Arc::new(harness.restarted());
    let listening = listen(&harness, &channel, &taker);
    harness.discord.gateway().wait_until(|report| report.resumes == 1).await.unwrap();
    assert_eq!(harness.discord.identifies(), 1, "nothing is told of the guild");
    let film = harness.item(&FakeFile::generated("film.bin", "application/octet-stream", 7, 30 * MIB)).await;
    for place in places {
        let limit = channel.capabilities(&conversation(&place.to_string())).file_bytes;
        assert_eq!(limit, 50 * MIB);
        channel.post(&harness.part_in(place, PartContent::File(film.clone()))).await.unwrap();
        let sent =
            harness.discord.transcript().visible(place).flat_map(|message| message.files.clone()).collect::<Vec<_>>();
        assert_eq!(sent.iter().map(|file| file.bytes).collect::<Vec<_>>(), [30 * MIB]);
    }
    assert_eq!(channel.capabilities(&conversation(&harness.place.to_string())).file_bytes, 10 * MIB);
    listening.stop().await;
    assert!(is_kept(&taker.bookmark()), "and to the one after it");
}

/// How long these tests wait for a word.
const SHORTLY: Duration = Duration::from_millis(150);

/// A bot with a session that goes on, and that isn't waited for long.
async fn impatient() -> GatewayHarness {
    let mut harness = GatewayHarness::start().await;
    harness.timeouts.response = SHORTLY;
    harness
}

#[tokio::test]
async fn silent_resume_url_falls_back_to_general_gateway() {
    let harness = impatient().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.gateway().say_nothing(3);
    harness.fake.drop_connection();
    harness.fake.person_says(GENERAL, ANN, "meanwhile");
    taker.takes(1).await;
    harness.sessions_begun_and_resumed(1, 1).await;
    assert_eq!(harness.fake.gateway().report().resumes_misdirected, 1);
    assert_eq!(harness.fake.requests("GET /gateway/bot"), 2);
    listening.stop().await;
}

#[tokio::test]
async fn session_silent_everywhere_is_replaced_and_history_backfilled() {
    let harness = impatient().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.gateway().say_nothing(6);
    harness.fake.drop_connection();
    harness.fake.person_says(GENERAL, ANN, "meanwhile");
    taker.takes(1).await;
    harness.sessions_begun_and_resumed(2, 0).await;
    assert_eq!((taker.texts(), taker.repeated()), (vec!["meanwhile".to_owned()], vec![]));
    assert_eq!(harness.fake.gateway().report().connections, 8);
    listening.stop().await;
}

#[tokio::test]
async fn unanswered_resume_is_retried_after_timeout() {
    let harness = impatient().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.gateway().ignore_resumes(1);
    harness.fake.drop_connection();
    harness.fake.person_says(GENERAL, ANN, "meanwhile");
    taker.takes(1).await;
    harness.sessions_begun_and_resumed(1, 1).await;
    listening.stop().await;
}

#[tokio::test]
async fn session_is_replaced_after_every_resume_closes() {
    for code in [4002, 4003, 4005, 4099] {
        let harness = GatewayHarness::start().await;
        let taker = RecordingInbound::new();
        let listening = harness.connected(&taker).await;
        harness.fake.gateway().close_resumes_with(Some(code));
        harness.fake.drop_connection();
        harness.fake.person_says(GENERAL, ANN, "meanwhile");
        taker.takes(1).await;
        harness.sessions_begun_and_resumed(2, 0).await;
        let report = harness.fake.gateway().report();
        assert_eq!((report.resumes_refused, report.resumes_misdirected), (6, 3), "{code}");
        harness.fake.person_says(GENERAL, ANN, "after");
        taker.takes(2).await;
        assert_eq!(taker.texts(), ["meanwhile", "after"], "{code}");
        listening.stop().await;
    }
}

#[tokio::test]
async fn failed_connection_attempts_keep_the_session() {
    let harness = impatient().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.gateway().refuse_upgrades(12);
    harness.fake.gateway().say_nothing(1);
    harness.fake.drop_connection();
    harness.fake.person_says(GENERAL, ANN, "meanwhile");
    taker.takes(1).await;
    harness.sessions_begun_and_resumed(1, 1).await;
    listening.stop().await;
}

#[tokio::test]
async fn zero_session_limit_polls_slowly_and_warns_once() {
    let never = GatewayRules { session_starts: 0, session_starts_within: Duration::ZERO, ..GatewayRules::default() };
    let mut harness = GatewayHarness::with(|rules| rules.gateway = never).await;
    harness.waits.min_retry_delay = Duration::from_millis(20);
    harness.waits.max_retry_delay = Duration::from_secs(1);
    let (log, _guard) = LogCapture::listen();
    let listening = harness.listen(&RecordingInbound::new());
    let began = Instant::now();
    wait_until("it is asked five times", || harness.fake.requests("GET /gateway/bot") >= 5).await;
    // The delays double, and jitter takes half of them at most.
    assert!(began.elapsed() >= harness.waits.min_retry_delay * (1 + 2 + 4 + 8) / 2, "{:?}", began.elapsed());
    assert_eq!(log.lines_with("session start limit reached"), 1, "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn stopping_is_heard_while_nothing_can_be_written() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    harness.connected(&taker).await.stop().await;
    let mut kept = taker.bookmark();
    // More than a line takes that nobody reads from.
    kept["session_id"] = "x".repeat(16 << 20).into();
    harness.fake.gateway().read_nothing(true);
    let connections = harness.fake.gateway().report().connections;
    let listening = harness.listen(&RecordingInbound::with_bookmark(kept));
    harness.fake.gateway().wait_until(|report| report.connections > connections).await.expect("it connects");
    // Until the line is full, which only its writer knows.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let asked = Instant::now();
    listening.stop().await;
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
}
