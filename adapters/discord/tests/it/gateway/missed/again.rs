//! Histories that are asked for again: what is said meanwhile, and what else was missed, waits for none of them.

use std::time::Duration;

use satchel_fake_kit::{Fault, FaultTiming};
use serde_json::{Map, Value};

use super::{HISTORY, gone, withheld::without_history};
use crate::gateway::bench::{ANN, Bench, GENERAL, GUILD, Taker, until};

const BAD_GATEWAY: Fault = Fault::BadGateway { performed: false };
const NO_ANSWER: Fault = Fault::Hang { performed: true };

/// From now on each history is met by this. Waits until one is asked that is.
async fn meets(bench: &Bench, when: FaultTiming, fault: Fault) {
    let asked = bench.fake.requests(HISTORY);
    bench.fake.clear_script();
    bench.fake.script(HISTORY, when, fault);
    until("it is asked for again", || bench.fake.requests(HISTORY) > asked).await;
}

/// How often a channel's history was asked for.
fn asked(bench: &Bench, channel: u64) -> usize {
    let path = format!("/channels/{channel}/messages");
    bench.fake.calls().iter().filter(|call| call.path == path && call.route == HISTORY).count()
}

/// What is said in the channels that withhold their history is taken.
async fn go_on(bench: &Bench, taker: &Taker, words: &str) {
    for channel in [GENERAL, bench.direct] {
        bench.fake.person_says(channel, ANN, words);
    }
    until("what is said is taken", || taker.texts().iter().filter(|text| *text == words).count() == 2).await;
}

#[tokio::test]
async fn released_channel_is_not_held_behind_other_backfills() {
    let mut bench = Bench::start().await;
    bench.waits.unavailable_timeout = Duration::from_secs(3);
    let channels: Vec<u64> =
        (9_300..9_320).map(|channel| bench.fake.channel(GUILD, channel, &format!("room {channel}"))).collect();
    let taker = gone(&bench).await;
    for channel in &channels {
        bench.fake.person_says(*channel, ANN, "missed");
    }
    bench.fake.script(HISTORY, FaultTiming::Every, BAD_GATEWAY);
    let listening = bench.listen(&taker);
    let unread = |kept: &Value| kept["unread"].as_object().map_or(0, Map::len);
    taker.keeps("that the first withhold theirs", |kept| unread(kept) == 8).await;
    let kept = taker.bookmark();
    let first = *channels.iter().find(|channel| kept["unread"][channel.to_string()].is_object()).expect("one goes on");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(asked(&bench, first) > 0);
    bench.fake.person_says(first, ANN, "said since");
    until("it is taken", || taker.texts_of(first) == ["said since"]).await;
    assert_eq!(unread(&taker.bookmark()), 8, "the next are still asked for the first time");
    listening.stop().await;
}

#[tokio::test]
async fn new_messages_do_not_wait_for_hung_retry() {
    let mut bench = Bench::start().await;
    bench.timeouts.response = Duration::from_secs(60);
    let (taker, listening) = without_history(&bench, "missed", BAD_GATEWAY).await;
    meets(&bench, FaultTiming::Every, NO_ANSWER).await;
    go_on(&bench, &taker, "and on").await;
    listening.stop().await;
}

#[tokio::test]
async fn failed_history_retry_makes_way_for_other_channels() {
    for fault in [NO_ANSWER, Fault::RateLimit { retry_after_ms: 60_000 }] {
        let mut bench = Bench::start().await;
        bench.timeouts.response = Duration::from_millis(150);
        let (taker, listening) = without_history(&bench, "missed", BAD_GATEWAY).await;
        let places = [GENERAL, bench.direct];
        let before = places.map(|channel| asked(&bench, channel));
        meets(&bench, FaultTiming::Every, fault).await;
        until("both are asked", || places.iter().zip(before).all(|(place, before)| asked(&bench, *place) > before))
            .await;
        go_on(&bench, &taker, "and on").await;
        listening.stop().await;
    }
}

#[tokio::test]
async fn new_session_is_saved_despite_hung_history_retry() {
    let mut bench = Bench::start().await;
    bench.timeouts.response = Duration::from_secs(60);
    let (taker, listening) = without_history(&bench, "missed", BAD_GATEWAY).await;
    let before = taker.bookmark();
    meets(&bench, FaultTiming::Nth(bench.fake.requests(HISTORY) + 1), NO_ANSWER).await;
    bench.fake.invalidate_session(false);
    bench.sessions_begun_and_resumed(3, 0).await;
    taker.keeps("the newest session", |kept| kept["session_id"] != before["session_id"]).await;
    let left = taker.bookmark()["unread"].as_object().map(Map::len);
    assert_eq!(left, Some(1), "the one that is never answered");
    go_on(&bench, &taker, "and on").await;
    listening.stop().await;
}
