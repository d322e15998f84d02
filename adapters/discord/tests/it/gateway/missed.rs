//! What was said while no session was there: history tells it, before anything that is said since.

mod again;
mod edits;
mod gone;
mod private;
mod withheld;

use satchel_fake_discord::{ApiRefusal, DiscordFault, Permission, Tier};
use satchel_fake_kit::{Fault, FaultTiming};
use serde_json::json;

use super::bench::{ANN, BOB, Bench, GENERAL, Log, OTHER, THREAD, Taker, until};

const HISTORY: &str = "GET /channels/{}/messages";

/// A bot that was there, and whose session is over.
async fn gone(bench: &Bench) -> std::sync::Arc<Taker> {
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(bench.direct, ANN, "before");
    taker.takes(1).await;
    listening.stop().await;
    bench.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    bench.fake.gateway().expire_sessions();
    taker
}

#[tokio::test]
async fn missed_messages_are_backfilled_from_every_channel_kind() {
    let bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let taker = gone(&bench).await;
    for channel in [GENERAL, THREAD, bench.direct] {
        for words in ["one", "two"] {
            bench.fake.person_says(channel, ANN, words);
        }
    }
    let listening = bench.connected(&taker).await;
    taker.takes(7).await;
    bench.fake.person_says(GENERAL, ANN, "three");
    taker.takes(8).await;
    assert_eq!(taker.texts_of(GENERAL), ["one", "two", "three"]);
    assert_eq!(taker.texts_of(THREAD), ["one", "two"]);
    assert_eq!(taker.texts_of(bench.direct), ["before", "one", "two"]);
    bench.sessions_begun_and_resumed(2, 0).await;
    assert_eq!(bench.fake.requests(HISTORY), 3, "a channel where nothing was said isn't asked");
    assert_eq!(log.lines_with("backfill stored the missed messages"), 1, "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn new_messages_wait_for_backfill_of_their_channel() {
    let bench = Bench::start().await;
    let taker = gone(&bench).await;
    bench.fake.person_says(GENERAL, ANN, "missed");
    // The guild's channel and the direct one are asked: each fails for a while, and is then too soon.
    bench.fake.script(HISTORY, FaultTiming::First(6), Fault::BadGateway { performed: false });
    for number in [7, 8] {
        bench.fake.script(HISTORY, FaultTiming::Nth(number), Fault::RateLimit { retry_after_ms: 200 });
    }
    let listening = bench.connected(&taker).await;
    until("history is asked", || bench.fake.requests(HISTORY) > 0).await;
    bench.fake.person_says(GENERAL, ANN, "said since");
    bench.fake.person_says(OTHER, BOB, "elsewhere");
    taker.takes(4).await;
    assert_eq!(taker.texts_of(GENERAL), ["missed", "said since"]);
    assert_eq!(taker.texts()[..2], ["before", "elsewhere"], "another channel doesn't wait for it");
    listening.stop().await;
}

#[tokio::test]
async fn a_thousand_messages_are_read_to_the_last() {
    let bench = Bench::start().await;
    let taker = gone(&bench).await;
    let words: Vec<String> = (0..1_000).map(|number| format!("number {number}")).collect();
    for words in &words {
        bench.fake.person_says(GENERAL, ANN, words);
    }
    let listening = bench.connected(&taker).await;
    taker.takes(1_001).await;
    assert_eq!(taker.texts_of(GENERAL), words);
    // Ten full pages, and an empty one that says that there are no more; the direct channel's one.
    until("the end is seen", || bench.fake.requests(HISTORY) == 12).await;
    listening.stop().await;
}

#[tokio::test]
async fn forbidden_channel_history_blocks_nothing() {
    let bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let taker = gone(&bench).await;
    let before = taker.bookmark();
    bench.fake.person_says(OTHER, BOB, "closed to us");
    // The guild's channel, and the direct one.
    bench.fake.script(
        HISTORY,
        FaultTiming::First(2),
        DiscordFault::Refuse(ApiRefusal::new(403, 50001, "Missing Access")),
    );
    let listening = bench.connected(&taker).await;
    taker.keeps("the new session", |bookmark| bookmark["session_id"] != before["session_id"]).await;
    bench.fake.person_says(OTHER, BOB, "said since");
    taker.takes(2).await;
    assert_eq!((taker.texts_of(OTHER), bench.fake.requests(HISTORY)), (vec!["said since".to_owned()], 2));
    assert_eq!(log.lines_with("Read Message History"), 1, "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn channels_that_show_no_history_are_told_once() {
    let bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let taker = gone(&bench).await;
    let before = taker.bookmark();
    for channel in [GENERAL, OTHER] {
        bench.fake.forbid(channel, Permission::ReadHistory);
        bench.fake.person_says(channel, BOB, "not shown");
    }
    let listening = bench.connected(&taker).await;
    taker.keeps("the new session", |bookmark| bookmark["session_id"] != before["session_id"]).await;
    assert_eq!((taker.texts(), bench.fake.requests(HISTORY)), (vec!["before".to_owned()], 3));
    assert_eq!(log.lines_with("Read Message History"), 1, "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn checkpoint_stays_until_every_missed_message_is_stored() {
    let bench = Bench::start().await;
    let taker = gone(&bench).await;
    let before = taker.bookmark();
    bench.fake.person_says(GENERAL, ANN, "one");
    bench.fake.person_says(GENERAL, ANN, "two");
    taker.fail(GENERAL, u32::MAX);
    let listening = bench.listen(&taker);
    bench.sessions_begun_and_resumed(2, 0).await;
    bench.fake.person_says(bench.direct, ANN, "said since");
    taker.takes(2).await;
    tokio::time::sleep(bench.waits.checkpoint_interval * 3).await;
    listening.stop().await;
    assert_eq!(taker.bookmark(), before);
    let survivor = taker.of_the_next_process();
    let listening = bench.listen(&survivor);
    until("both are taken", || survivor.texts_of(GENERAL).len() == 2).await;
    assert_eq!(survivor.texts_of(GENERAL), ["one", "two"]);
    survivor.keeps("the new session", |bookmark| bookmark["session_id"] != before["session_id"]).await;
    listening.stop().await;
}

#[tokio::test]
async fn first_start_reads_no_earlier_messages() {
    let bench = Bench::start().await;
    bench.fake.person_says(GENERAL, ANN, "long ago");
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(GENERAL, ANN, "now");
    taker.takes(1).await;
    assert_eq!((taker.texts(), bench.fake.requests(HISTORY)), (vec!["now".to_owned()], 0));
    listening.stop().await;
}

#[tokio::test]
async fn guild_joined_later_is_not_backfilled() {
    let bench = Bench::start().await;
    let taker = gone(&bench).await;
    let listening = bench.connected(&taker).await;
    until("what was missed is read", || bench.fake.requests(HISTORY) == 1).await;
    // Nobody tells us of a guild that we aren't in.
    bench.fake.channel(8_000, 8_100, "general");
    bench.fake.forbid(8_100, Permission::View);
    bench.fake.person_says(8_100, ANN, "among themselves");
    bench.fake.allow(8_100, Permission::View);
    bench.fake.guild(8_000, "Another", Tier::None);
    bench.fake.person_says(8_100, ANN, "hello");
    taker.takes(2).await;
    assert_eq!((taker.texts_of(8_100), bench.fake.requests(HISTORY)), (vec!["hello".to_owned()], 1));
    listening.stop().await;
}

#[tokio::test]
async fn invalid_checkpoint_is_replaced_and_reported() {
    let bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let taker = Taker::with_bookmark(json!({ "page": 7 }));
    let listening = bench.listen(&taker);
    bench.fake.gateway().wait_connected(1).await.unwrap();
    bench.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    assert_eq!(log.lines_with("could not be decoded"), 1, "{}", log.text());
    listening.stop().await;
}
