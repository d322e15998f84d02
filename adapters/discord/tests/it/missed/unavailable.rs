//! Places that are gone or out of order, and histories that Discord doesn't show for a while: nothing waits for them for
//! ever, and what stands there comes in when it is shown.

use std::{sync::Arc, time::Duration};

use satchel_contracts::log_capture::LogCapture;
use satchel_fake_discord::{ApiRefusal, DiscordFault, Permission, gateway::GatewaySnapshot};
use satchel_fake_kit::{Fault, FaultTiming};
use satchel_wait::wait_until;
use serde_json::{Map, Value, json};

use super::{HISTORY, gone};
use crate::harness::{ANN, GENERAL, GUILD, GatewayHarness, ListenerTask, RecordingInbound, THREAD};

/// A page of history with something that Ann has said, which tells of no guild.
fn page(channel: u64, words: &str) -> String {
    let ann = json!({ "id": ANN.to_string(), "username": "ann" });
    let said = json!({
        "id": u64::MAX.to_string(), "channel_id": channel.to_string(), "type": 0, "content": words, "author": ann,
    });
    json!([said]).to_string()
}

/// Lets new sessions begin with a guild that is out of order.
pub(super) fn only_unavailable(harness: &GatewayHarness) {
    harness.fake.gateway().set_snapshot(|| GatewaySnapshot {
        user: json!({ "id": "1" }),
        application: 1,
        guilds: vec![json!({ "id": GUILD.to_string(), "unavailable": true })],
    });
}

/// Lets the guild go out of order for the session.
fn goes_out_of_order(harness: &GatewayHarness) {
    harness.fake.dispatch("GUILD_DELETE", json!({ "id": GUILD.to_string(), "unavailable": true }));
}

/// Lets the guild tell of itself again, with this message as the last one.
fn comes_back(harness: &GatewayHarness, last: u64) {
    let channel = json!({ "id": GENERAL.to_string(), "type": 0, "last_message_id": last.to_string() });
    harness.fake.dispatch("GUILD_CREATE", json!({ "id": GUILD.to_string(), "roles": [], "channels": [channel] }));
}

/// Something is said in the guild of which no session is told.
fn said_unheard(harness: &GatewayHarness, words: &str) -> u64 {
    harness.fake.forbid(GENERAL, Permission::View);
    let message = harness.fake.person_says(GENERAL, ANN, words);
    harness.fake.allow(GENERAL, Permission::View);
    message
}

#[tokio::test]
async fn message_of_thread_deleted_meanwhile_is_not_private() {
    let mut harness = GatewayHarness::start().await;
    harness.settings.answers_in = Vec::new();
    let taker = gone(&harness).await;
    let before = taker.bookmark();
    harness.fake.person_says(THREAD, ANN, "among ourselves");
    // The thread's page, and the direct channel's.
    harness.fake.script(HISTORY, FaultTiming::First(2), Fault::RateLimit { retry_after_ms: 300 });
    let late = DiscordFault::Answer { status: 200, body: page(THREAD, "among ourselves") };
    harness.fake.script(HISTORY, FaultTiming::From(3), late);
    let listening = harness.listen(&taker);
    wait_until("history is asked", || harness.fake.requests(HISTORY) == 2).await;
    harness.fake.delete_channel(THREAD);
    taker.keeps("the new session", |bookmark| bookmark["session_id"] != before["session_id"]).await;
    assert_eq!((harness.fake.requests(HISTORY), taker.texts_of(THREAD)), (4, vec![]));
    // An event that tells of no guild, of a place that is gone.
    let mut said: Value = serde_json::from_str(&page(THREAD, "still among ourselves")).unwrap();
    harness.fake.dispatch("MESSAGE_CREATE", said[0].take());
    harness.fake.person_says(harness.direct, ANN, "to you");
    wait_until("what is said directly is taken", || taker.texts_of(harness.direct).contains(&"to you".to_owned()))
        .await;
    assert_eq!(taker.texts_of(THREAD), Vec::<String>::new());
    assert_eq!(taker.bookmark()["direct"], json!([harness.direct.to_string()]));
    listening.stop().await;
}

#[tokio::test]
async fn unavailable_guild_delays_nothing_and_is_backfilled_later() {
    let mut harness = GatewayHarness::start().await;
    harness.waits.guilds_timeout = Duration::from_secs(2);
    let taker = gone(&harness).await;
    let before = taker.bookmark();
    let missed = harness.fake.person_says(GENERAL, ANN, "missed");
    only_unavailable(&harness);
    let listening = harness.listen(&taker);
    harness.sessions_begun_and_resumed(2, 0).await;
    let last = harness.fake.person_says(harness.direct, ANN, "said since").to_string();
    taker.takes(2).await;
    assert_eq!(taker.bookmark()["session_id"], before["session_id"], "it is waited for");
    taker.keeps("what was said since", |bookmark| bookmark["seen_up_to"] == last).await;
    let kept = taker.bookmark();
    assert_ne!(kept["session_id"], before["session_id"]);
    assert_eq!(kept["behind"], json!({ GUILD.to_string(): before["seen_up_to"] }));
    listening.stop().await;
    // Another process goes on with the session, and hears that it is back.
    harness.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    let survivor = taker.of_the_next_process();
    let listening = harness.listen(&survivor);
    harness.sessions_begun_and_resumed(2, 1).await;
    comes_back(&harness, missed);
    survivor.takes(1).await;
    assert_eq!(survivor.texts_of(GENERAL), ["missed"]);
    survivor.keeps("that it is read", |bookmark| bookmark["behind"].is_null()).await;
    listening.stop().await;
}

#[tokio::test]
async fn messages_during_guild_outage_are_read_afterwards() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(GENERAL, ANN, "before");
    taker.takes(1).await;
    goes_out_of_order(&harness);
    taker.keeps("that it is out of order", |kept| kept["behind"][GUILD.to_string()].is_string()).await;
    let last = said_unheard(&harness, "meanwhile");
    listening.stop().await;
    harness.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    let listening = harness.listen(&taker);
    harness.sessions_begun_and_resumed(1, 1).await;
    comes_back(&harness, last);
    taker.takes(2).await;
    assert_eq!(taker.texts_of(GENERAL), ["before", "meanwhile"]);
    taker.keeps("that it is read", |kept| kept["behind"].is_null()).await;
    listening.stop().await;
}

#[tokio::test]
async fn guild_lost_during_backfill_stays_unread() {
    for is_a_new_session in [true, false] {
        let harness = GatewayHarness::start().await;
        let taker = RecordingInbound::new();
        let listening = harness.connected(&taker).await;
        goes_out_of_order(&harness);
        taker.keeps("that it is out of order", |kept| kept["behind"].is_object()).await;
        let one = said_unheard(&harness, "one");
        harness.fake.script(HISTORY, FaultTiming::Nth(1), Fault::RateLimit { retry_after_ms: 300 });
        comes_back(&harness, one);
        wait_until("history is asked", || harness.fake.requests(HISTORY) == 1).await;
        only_unavailable(&harness);
        if is_a_new_session {
            harness.fake.invalidate_session(false);
            harness.sessions_begun_and_resumed(2, 0).await;
        } else {
            goes_out_of_order(&harness);
        }
        taker.takes(1).await;
        let last = harness.fake.person_says(harness.direct, ANN, "to you").to_string();
        taker.keeps("all that can be read", |kept| kept["seen_up_to"] == last).await;
        assert!(taker.bookmark()["behind"].is_object(), "by a new session: {is_a_new_session}");
        let two = said_unheard(&harness, "two");
        comes_back(&harness, two);
        taker.takes(3).await;
        assert_eq!(taker.texts_of(GENERAL), ["one", "two"]);
        taker.keeps("that it is read", |kept| kept["behind"].is_null()).await;
        listening.stop().await;
    }
}

#[tokio::test]
async fn a_guild_that_never_comes_back_is_forgotten() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.dispatch("GUILD_DELETE", json!({ "id": "77", "unavailable": true }));
    taker.keeps("that it is out of order", |bookmark| bookmark["behind"]["77"].is_string()).await;
    harness.fake.dispatch("GUILD_DELETE", json!({ "id": "77" }));
    taker.keeps("that it is gone", |bookmark| bookmark["behind"].is_null()).await;
    listening.stop().await;
}

#[tokio::test]
async fn guild_left_while_offline_is_removed_from_checkpoint() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let mut kept = gone(&harness).await.bookmark();
    kept["behind"] = json!({ "77": "5" });
    kept["boosted"] = json!({ "77": { "tier": 2, "channels": ["78"] } });
    kept["unread"] = json!({ "78": { "guild": "77", "after": "5" } });
    let taker = RecordingInbound::with_bookmark(kept.clone());
    let listening = harness.connected(&taker).await;
    taker.keeps("the new session", |now| now["session_id"] != kept["session_id"]).await;
    let now = taker.bookmark();
    assert_eq!(
        ["behind", "boosted", "unread"].map(|field| now[field].clone()),
        [Value::Null, Value::Null, Value::Null]
    );
    assert_eq!(log.lines_with("backfill complete"), 1, "{}", log.text());
    assert!(harness.fake.calls().iter().all(|call| !call.path.contains("/78")), "nothing is asked of it");
    listening.stop().await;
}

#[tokio::test]
async fn rejoined_guild_is_read_only_from_joining() {
    let harness = GatewayHarness::start().await;
    let mut kept = gone(&harness).await.bookmark();
    kept["unread"] = json!({ GENERAL.to_string(): { "guild": GUILD.to_string(), "after": "5" } });
    let taker = RecordingInbound::with_bookmark(kept);
    let listening = harness.connected(&taker).await;
    taker.keeps("that nothing is unread", |kept| kept["unread"].is_null()).await;
    let path = format!("/channels/{GENERAL}/messages");
    let calls = harness.fake.calls();
    let call = calls.iter().find(|call| call.path == path).expect("its history is asked");
    let after = call.query.iter().find(|(name, _)| name == "after").map(|(_, after)| after.parse::<u64>().unwrap());
    // By the time at which the guild says that the bot has joined it: 2024-01-02T03:04:05Z.
    assert_eq!(after, Some((1_704_164_645_000 - 1_420_070_400_000) << 22));
    listening.stop().await;
}

/// A bot that missed something in a guild, and whose new session goes on without it, since no history is shown.
pub(super) async fn without_history(
    harness: &GatewayHarness,
    words: &str,
    fault: impl Into<DiscordFault>,
) -> (Arc<RecordingInbound>, ListenerTask) {
    let taker = gone(harness).await;
    let before = taker.bookmark();
    harness.fake.person_says(GENERAL, ANN, words);
    harness.fake.script(HISTORY, FaultTiming::Every, fault);
    let listening = harness.listen(&taker);
    harness.sessions_begun_and_resumed(2, 0).await;
    harness.fake.person_says(GENERAL, ANN, &format!("{} said since", harness.fake.mention()));
    taker.takes(2).await;
    let is_left = |kept: &Value| kept["unread"][GENERAL.to_string()]["guild"] == json!(GUILD.to_string());
    let is_so = |kept: &Value| kept["session_id"] != before["session_id"] && is_left(kept);
    taker.keeps("the new session, and what is unread", is_so).await;
    (taker, listening)
}

fn said(taker: &RecordingInbound) -> Vec<String> {
    taker.texts_of(GENERAL).iter().map(|text| text.rsplit("> ").next().unwrap_or_default().trim().to_owned()).collect()
}

#[tokio::test]
async fn unavailable_history_holds_channel_briefly_and_is_retried() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let (taker, listening) = without_history(&harness, "missed", Fault::BadGateway { performed: false }).await;
    assert_eq!(said(&taker), ["said since"]);
    let asked = harness.fake.requests(HISTORY);
    wait_until("it is asked for again", || harness.fake.requests(HISTORY) > asked + 6).await;
    assert_eq!(taker.taken().len(), 2);
    for channel in [GENERAL, harness.direct] {
        assert_eq!(
            log.lines_with(&format!("backfill of a channel failed; it will be retried channel={channel} ")),
            1,
            "{}",
            log.text()
        );
    }
    harness.fake.clear_script();
    taker.takes(3).await;
    taker.keeps("that nothing is unread", |kept| kept["unread"].is_null()).await;
    let asked = harness.fake.requests(HISTORY);
    harness.fake.person_says(GENERAL, ANN, "and on");
    taker.takes(4).await;
    // Time enough to ask again, which is not to happen.
    tokio::time::sleep(harness.waits.unavailable_timeout * 2).await;
    assert_eq!(said(&taker), ["said since", "missed", "and on"], "none of them twice");
    assert_eq!(harness.fake.requests(HISTORY), asked, "it is asked for no more");
    assert_eq!((log.lines_with("it will be retried"), log.lines_with("backfill complete")), (2, 1), "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn history_unavailable_to_one_process_reaches_next() {
    let mut harness = GatewayHarness::start().await;
    // Whether it is for the bot only the guild tells, which the next process has to ask.
    harness.settings.answers_in = Vec::new();
    let words = format!("{} missed", harness.fake.role_mention(GUILD));
    let (taker, listening) = without_history(&harness, &words, Fault::BadGateway { performed: false }).await;
    listening.stop().await;
    harness.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    harness.fake.clear_script();
    // The history is shown again, the guild not yet.
    harness.fake.script("GET /guilds/{}", FaultTiming::First(8), Fault::ServerError);
    let listening = harness.listen(&taker);
    harness.sessions_begun_and_resumed(2, 1).await;
    wait_until("it is asked for", || harness.fake.requests("GET /guilds/{}") > 2).await;
    harness.fake.clear_script();
    taker.takes(3).await;
    assert_eq!(said(&taker), ["said since", "missed"]);
    assert!(taker.taken().iter().all(|taken| taken.group == (taken.conversation.key() == GENERAL.to_string())));
    taker.keeps("that nothing is unread", |kept| kept["unread"].is_null()).await;
    listening.stop().await;
}

#[tokio::test]
async fn history_is_not_retried_after_permanent_refusal() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let (taker, listening) = without_history(&harness, "missed", ApiRefusal::new(400, 0, "Bad Request")).await;
    assert_eq!(log.lines_with("Read Message History"), 0, "{}", log.text());
    harness.fake.clear_script();
    harness.fake.script(
        HISTORY,
        FaultTiming::Every,
        DiscordFault::Refuse(ApiRefusal::new(403, 50_001, "Missing Access")),
    );
    taker.keeps("that nothing is unread", |kept| kept["unread"].is_null()).await;
    assert_eq!((said(&taker), log.lines_with("Read Message History")), (vec!["said since".to_owned()], 1));
    listening.stop().await;
}

#[tokio::test]
async fn unread_guild_history_is_deferred_until_guild_available() {
    let harness = GatewayHarness::start().await;
    let taker = gone(&harness).await;
    let mut kept = taker.bookmark();
    let seen = kept["seen_up_to"].clone();
    harness.fake.person_says(GENERAL, ANN, "missed");
    // Later something else was seen, and none of this is news by it.
    kept["unread"] = json!({ GENERAL.to_string(): { "guild": GUILD.to_string(), "after": seen } });
    kept["seen_up_to"] = json!(u64::MAX.to_string());
    only_unavailable(&harness);
    // Of a guild that is out of order Discord says what is not so.
    harness.fake.script(
        HISTORY,
        FaultTiming::Every,
        DiscordFault::Refuse(ApiRefusal::new(404, 10_003, "Unknown Channel")),
    );
    let survivor = RecordingInbound::with_bookmark(kept.clone());
    let listening = harness.listen(&survivor);
    let goes_on = |now: &Value| now["session_id"] != kept["session_id"] && now["behind"].is_object();
    survivor.keeps("the session without the guild", goes_on).await;
    assert_eq!(survivor.bookmark()["unread"], kept["unread"]);
    assert_eq!(harness.fake.requests(HISTORY), 1, "the direct channel's");
    harness.fake.clear_script();
    let channel = json!({ "id": GENERAL.to_string(), "type": 0, "last_message_id": null });
    harness.fake.dispatch("GUILD_CREATE", json!({ "id": GUILD.to_string(), "roles": [], "channels": [channel] }));
    survivor.takes(1).await;
    assert_eq!(survivor.texts_of(GENERAL), ["missed"]);
    survivor.keeps("that nothing is unread", |kept| kept["unread"].is_null()).await;
    listening.stop().await;
}

const BAD_GATEWAY: Fault = Fault::BadGateway { performed: false };
const NO_ANSWER: Fault = Fault::Hang { performed: true };

/// From now on each history is met by this. Waits until one is asked that is.
async fn meets(harness: &GatewayHarness, when: FaultTiming, fault: Fault) {
    let asked = harness.fake.requests(HISTORY);
    harness.fake.clear_script();
    harness.fake.script(HISTORY, when, fault);
    wait_until("it is asked for again", || harness.fake.requests(HISTORY) > asked).await;
}

/// How often a channel's history was asked for.
fn asked(harness: &GatewayHarness, channel: u64) -> usize {
    let path = format!("/channels/{channel}/messages");
    harness.fake.calls().iter().filter(|call| call.path == path && call.route == HISTORY).count()
}

/// What is said in the channels that withhold their history is taken.
async fn go_on(harness: &GatewayHarness, taker: &RecordingInbound, words: &str) {
    for channel in [GENERAL, harness.direct] {
        harness.fake.person_says(channel, ANN, words);
    }
    wait_until("what is said is taken", || taker.texts().iter().filter(|text| *text == words).count() == 2).await;
}

#[tokio::test]
async fn released_channel_is_not_held_behind_other_backfills() {
    let mut harness = GatewayHarness::start().await;
    harness.waits.unavailable_timeout = Duration::from_secs(3);
    let channels: Vec<u64> =
        (9_300..9_320).map(|channel| harness.fake.channel(GUILD, channel, &format!("room {channel}"))).collect();
    let taker = gone(&harness).await;
    for channel in &channels {
        harness.fake.person_says(*channel, ANN, "missed");
    }
    harness.fake.script(HISTORY, FaultTiming::Every, BAD_GATEWAY);
    let listening = harness.listen(&taker);
    let unread = |kept: &Value| kept["unread"].as_object().map_or(0, Map::len);
    taker.keeps("that the first withhold theirs", |kept| unread(kept) == 8).await;
    let kept = taker.bookmark();
    let first = *channels.iter().find(|channel| kept["unread"][channel.to_string()].is_object()).expect("one goes on");
    // Until the channels that were let go are released, which nothing announces.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(asked(&harness, first) > 0);
    harness.fake.person_says(first, ANN, "said since");
    wait_until("it is taken", || taker.texts_of(first) == ["said since"]).await;
    assert_eq!(unread(&taker.bookmark()), 8, "the next are still asked for the first time");
    listening.stop().await;
}

#[tokio::test]
async fn new_messages_do_not_wait_for_hung_retry() {
    let mut harness = GatewayHarness::start().await;
    harness.timeouts.response = Duration::from_secs(60);
    let (taker, listening) = without_history(&harness, "missed", BAD_GATEWAY).await;
    meets(&harness, FaultTiming::Every, NO_ANSWER).await;
    go_on(&harness, &taker, "and on").await;
    listening.stop().await;
}

#[tokio::test]
async fn failed_history_retry_makes_way_for_other_channels() {
    for fault in [NO_ANSWER, Fault::RateLimit { retry_after_ms: 60_000 }] {
        let mut harness = GatewayHarness::start().await;
        harness.timeouts.response = Duration::from_millis(150);
        let (taker, listening) = without_history(&harness, "missed", BAD_GATEWAY).await;
        let places = [GENERAL, harness.direct];
        let before = places.map(|channel| asked(&harness, channel));
        meets(&harness, FaultTiming::Every, fault).await;
        wait_until("both are asked", || {
            places.iter().zip(before).all(|(place, before)| asked(&harness, *place) > before)
        })
        .await;
        go_on(&harness, &taker, "and on").await;
        listening.stop().await;
    }
}

#[tokio::test]
async fn new_session_is_saved_despite_hung_history_retry() {
    let mut harness = GatewayHarness::start().await;
    harness.timeouts.response = Duration::from_secs(60);
    let (taker, listening) = without_history(&harness, "missed", BAD_GATEWAY).await;
    let before = taker.bookmark();
    meets(&harness, FaultTiming::Nth(harness.fake.requests(HISTORY) + 1), NO_ANSWER).await;
    harness.fake.invalidate_session(false);
    harness.sessions_begun_and_resumed(3, 0).await;
    taker.keeps("the newest session", |kept| kept["session_id"] != before["session_id"]).await;
    let left = taker.bookmark()["unread"].as_object().map(Map::len);
    assert_eq!(left, Some(1), "the one that is never answered");
    go_on(&harness, &taker, "and on").await;
    listening.stop().await;
}
