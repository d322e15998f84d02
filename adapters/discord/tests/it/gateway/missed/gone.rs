//! Places that are gone, or out of order, while what was missed is read.

use std::time::Duration;

use satchel_fake_discord::{DiscordFault, Permission, gateway::GatewaySnapshot};
use satchel_fake_kit::{Fault, FaultTiming};
use serde_json::{Value, json};

use super::{HISTORY, gone};
use crate::gateway::bench::{ANN, Bench, GENERAL, GUILD, Log, THREAD, Taker, until};

/// A page of history with something that Ann has said, which tells of no guild.
fn page(channel: u64, words: &str) -> String {
    let ann = json!({ "id": ANN.to_string(), "username": "ann" });
    let said = json!({
        "id": u64::MAX.to_string(), "channel_id": channel.to_string(), "type": 0, "content": words, "author": ann,
    });
    json!([said]).to_string()
}

/// Lets new sessions begin with a guild that is out of order.
pub(super) fn only_unavailable(bench: &Bench) {
    bench.fake.gateway().set_snapshot(|| GatewaySnapshot {
        user: json!({ "id": "1" }),
        application: 1,
        guilds: vec![json!({ "id": GUILD.to_string(), "unavailable": true })],
    });
}

/// Lets the guild go out of order for the session.
fn goes_out_of_order(bench: &Bench) {
    bench.fake.dispatch("GUILD_DELETE", json!({ "id": GUILD.to_string(), "unavailable": true }));
}

/// Lets the guild tell of itself again, with this message as the last one.
fn comes_back(bench: &Bench, last: u64) {
    let channel = json!({ "id": GENERAL.to_string(), "type": 0, "last_message_id": last.to_string() });
    bench.fake.dispatch("GUILD_CREATE", json!({ "id": GUILD.to_string(), "roles": [], "channels": [channel] }));
}

/// Something is said in the guild of which no session is told.
fn said_unheard(bench: &Bench, words: &str) -> u64 {
    bench.fake.forbid(GENERAL, Permission::View);
    let message = bench.fake.person_says(GENERAL, ANN, words);
    bench.fake.allow(GENERAL, Permission::View);
    message
}

#[tokio::test]
async fn message_of_thread_deleted_meanwhile_is_not_private() {
    let mut bench = Bench::start().await;
    bench.settings.answers_in = Vec::new();
    let taker = gone(&bench).await;
    let before = taker.bookmark();
    bench.fake.person_says(THREAD, ANN, "among ourselves");
    // The thread's page, and the direct channel's.
    bench.fake.script(HISTORY, FaultTiming::First(2), Fault::RateLimit { retry_after_ms: 300 });
    let late = DiscordFault::Answer { status: 200, body: page(THREAD, "among ourselves") };
    bench.fake.script(HISTORY, FaultTiming::From(3), late);
    let listening = bench.listen(&taker);
    until("history is asked", || bench.fake.requests(HISTORY) == 2).await;
    bench.fake.delete_channel(THREAD);
    taker.keeps("the new session", |bookmark| bookmark["session_id"] != before["session_id"]).await;
    assert_eq!((bench.fake.requests(HISTORY), taker.texts_of(THREAD)), (4, vec![]));
    // An event that tells of no guild, of a place that is gone.
    let mut said: Value = serde_json::from_str(&page(THREAD, "still among ourselves")).unwrap();
    bench.fake.dispatch("MESSAGE_CREATE", said[0].take());
    bench.fake.person_says(bench.direct, ANN, "to you");
    until("what is said directly is taken", || taker.texts_of(bench.direct).contains(&"to you".to_owned())).await;
    assert_eq!(taker.texts_of(THREAD), Vec::<String>::new());
    assert_eq!(taker.bookmark()["direct"], json!([bench.direct.to_string()]));
    listening.stop().await;
}

#[tokio::test]
async fn unavailable_guild_delays_nothing_and_is_backfilled_later() {
    let mut bench = Bench::start().await;
    bench.waits.guilds_timeout = Duration::from_secs(2);
    let taker = gone(&bench).await;
    let before = taker.bookmark();
    let missed = bench.fake.person_says(GENERAL, ANN, "missed");
    only_unavailable(&bench);
    let listening = bench.listen(&taker);
    bench.sessions_begun_and_resumed(2, 0).await;
    let last = bench.fake.person_says(bench.direct, ANN, "said since").to_string();
    taker.takes(2).await;
    assert_eq!(taker.bookmark()["session_id"], before["session_id"], "it is waited for");
    taker.keeps("what was said since", |bookmark| bookmark["seen_up_to"] == last).await;
    let kept = taker.bookmark();
    assert_ne!(kept["session_id"], before["session_id"]);
    assert_eq!(kept["behind"], json!({ GUILD.to_string(): before["seen_up_to"] }));
    listening.stop().await;
    // Another process goes on with the session, and hears that it is back.
    bench.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    let survivor = taker.of_the_next_process();
    let listening = bench.listen(&survivor);
    bench.sessions_begun_and_resumed(2, 1).await;
    comes_back(&bench, missed);
    survivor.takes(1).await;
    assert_eq!(survivor.texts_of(GENERAL), ["missed"]);
    survivor.keeps("that it is read", |bookmark| bookmark["behind"].is_null()).await;
    listening.stop().await;
}

#[tokio::test]
async fn messages_during_guild_outage_are_read_afterwards() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(GENERAL, ANN, "before");
    taker.takes(1).await;
    goes_out_of_order(&bench);
    taker.keeps("that it is out of order", |kept| kept["behind"][GUILD.to_string()].is_string()).await;
    let last = said_unheard(&bench, "meanwhile");
    listening.stop().await;
    bench.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    let listening = bench.listen(&taker);
    bench.sessions_begun_and_resumed(1, 1).await;
    comes_back(&bench, last);
    taker.takes(2).await;
    assert_eq!(taker.texts_of(GENERAL), ["before", "meanwhile"]);
    taker.keeps("that it is read", |kept| kept["behind"].is_null()).await;
    listening.stop().await;
}

#[tokio::test]
async fn guild_lost_during_backfill_stays_unread() {
    for is_a_new_session in [true, false] {
        let bench = Bench::start().await;
        let taker = Taker::new();
        let listening = bench.connected(&taker).await;
        goes_out_of_order(&bench);
        taker.keeps("that it is out of order", |kept| kept["behind"].is_object()).await;
        let one = said_unheard(&bench, "one");
        bench.fake.script(HISTORY, FaultTiming::Nth(1), Fault::RateLimit { retry_after_ms: 300 });
        comes_back(&bench, one);
        until("history is asked", || bench.fake.requests(HISTORY) == 1).await;
        only_unavailable(&bench);
        if is_a_new_session {
            bench.fake.invalidate_session(false);
            bench.sessions_begun_and_resumed(2, 0).await;
        } else {
            goes_out_of_order(&bench);
        }
        taker.takes(1).await;
        let last = bench.fake.person_says(bench.direct, ANN, "to you").to_string();
        taker.keeps("all that can be read", |kept| kept["seen_up_to"] == last).await;
        assert!(taker.bookmark()["behind"].is_object(), "by a new session: {is_a_new_session}");
        let two = said_unheard(&bench, "two");
        comes_back(&bench, two);
        taker.takes(3).await;
        assert_eq!(taker.texts_of(GENERAL), ["one", "two"]);
        taker.keeps("that it is read", |kept| kept["behind"].is_null()).await;
        listening.stop().await;
    }
}

#[tokio::test]
async fn a_guild_that_never_comes_back_is_forgotten() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.dispatch("GUILD_DELETE", json!({ "id": "77", "unavailable": true }));
    taker.keeps("that it is out of order", |bookmark| bookmark["behind"]["77"].is_string()).await;
    bench.fake.dispatch("GUILD_DELETE", json!({ "id": "77" }));
    taker.keeps("that it is gone", |bookmark| bookmark["behind"].is_null()).await;
    listening.stop().await;
}

#[tokio::test]
async fn guild_left_while_offline_is_removed_from_checkpoint() {
    let bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let mut kept = gone(&bench).await.bookmark();
    kept["behind"] = json!({ "77": "5" });
    kept["boosted"] = json!({ "77": { "tier": 2, "channels": ["78"] } });
    kept["unread"] = json!({ "78": { "guild": "77", "after": "5" } });
    let taker = Taker::with_bookmark(kept.clone());
    let listening = bench.connected(&taker).await;
    taker.keeps("the new session", |now| now["session_id"] != kept["session_id"]).await;
    let now = taker.bookmark();
    assert_eq!(
        ["behind", "boosted", "unread"].map(|field| now[field].clone()),
        [Value::Null, Value::Null, Value::Null]
    );
    assert_eq!(log.lines_with("backfill complete"), 1, "{}", log.text());
    assert!(bench.fake.calls().iter().all(|call| !call.path.contains("/78")), "nothing is asked of it");
    listening.stop().await;
}

#[tokio::test]
async fn rejoined_guild_is_read_only_from_joining() {
    let bench = Bench::start().await;
    let mut kept = gone(&bench).await.bookmark();
    kept["unread"] = json!({ GENERAL.to_string(): { "guild": GUILD.to_string(), "after": "5" } });
    let taker = Taker::with_bookmark(kept);
    let listening = bench.connected(&taker).await;
    taker.keeps("that nothing is unread", |kept| kept["unread"].is_null()).await;
    let path = format!("/channels/{GENERAL}/messages");
    let calls = bench.fake.calls();
    let call = calls.iter().find(|call| call.path == path).expect("its history is asked");
    let after = call.query.iter().find(|(name, _)| name == "after").map(|(_, after)| after.parse::<u64>().unwrap());
    // By the time at which the guild says that the bot has joined it: 2024-01-02T03:04:05Z.
    assert_eq!(after, Some((1_704_164_645_000 - 1_420_070_400_000) << 22));
    listening.stop().await;
}
