//! What can't be stored is tried until it is, in its order, and holds up nobody else.

use std::time::{Duration, Instant};

use serde_json::json;

use super::bench::{ANN, BOB, Bench, GENERAL, GUILD, Log, OTHER, THREAD, Taker, until};
use satchel_fake_discord::DiscordFault;
use satchel_fake_kit::{Fault, FaultTiming};

#[tokio::test]
async fn failing_store_is_retried_without_delaying_other_channels() {
    let bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let taker = Taker::new();
    taker.fail(GENERAL, 5);
    let listening = bench.connected(&taker).await;
    for words in ["one", "two"] {
        bench.fake.person_says(GENERAL, ANN, words);
        bench.fake.person_says(OTHER, BOB, words);
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
    let bench = Bench::start().await;
    let taker = Taker::new();
    taker.stick(GENERAL);
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(GENERAL, ANN, "stuck");
    bench.fake.person_says(OTHER, BOB, "hello");
    taker.takes(1).await;
    assert_eq!(taker.texts(), ["hello"]);
    listening.stop().await;
}

#[tokio::test]
async fn full_queue_pauses_reading_and_keeps_connection_alive() {
    let bench = Bench::with(|rules| rules.gateway.heartbeat_interval = Duration::from_millis(250)).await;
    let taker = Taker::shut();
    let listening = bench.connected(&taker).await;
    let words: Vec<String> = (0..700).map(|number| format!("number {number}")).collect();
    for words in &words {
        bench.fake.person_says(GENERAL, ANN, words);
        tokio::task::yield_now().await;
    }
    let beats = bench.fake.gateway().report().heartbeats.len();
    until("it lives on", || bench.fake.gateway().report().heartbeats.len() > beats + 2).await;
    let last = bench.fake.gateway().report().heartbeats.last().copied().flatten().expect("something came");
    assert!((500..600).contains(&last), "it has read as much as it may hold: {last}");
    taker.open();
    taker.takes(700).await;
    assert_eq!((taker.texts(), taker.repeated()), (words, vec![]));
    assert_eq!(bench.fake.gateway().report().connections, 1);
    listening.stop().await;
}

#[tokio::test]
async fn checkpoint_interval_holds_under_load_and_failures() {
    let mut bench = Bench::start().await;
    bench.waits.checkpoint_interval = Duration::from_millis(60);
    bench.waits.guilds_timeout = Duration::from_secs(60);
    bench.fake.person_says(GENERAL, ANN, "missed");
    // What was missed is never stored, so that no session can be kept in mind.
    let taker = Taker::with_bookmark(json!({ "begun_at": "1", "seen_up_to": "1", "direct": [] }));
    taker.stick(GENERAL);
    taker.keep_none(true);
    let direct = [(bench.direct, ANN), (bench.fake.direct(BOB), BOB)];
    let listening = bench.listen(&taker);
    bench.fake.gateway().wait_connected(1).await.unwrap();
    for keeps_none in [true, false] {
        taker.keep_none(keeps_none);
        let (before, taken, began) = (taker.bookmarks(), taker.taken().len(), Instant::now());
        for number in 0..60 {
            let (channel, person) = direct[number % 2];
            bench.fake.person_says(channel, person, "and another thing");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        taker.takes(taken + 60).await;
        let kept = taker.bookmarks() - before;
        let most = began.elapsed().as_millis() / bench.waits.checkpoint_interval.as_millis() + 2;
        assert!(kept > 0 && u128::from(kept) <= most, "{kept} times and not {most}; it fails: {keeps_none}");
    }
    assert!(taker.bookmark()["session_id"].is_null());
    listening.stop().await;
}

#[tokio::test]
async fn strangers_channels_are_saved_separately() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    taker.refuse(BOB);
    let listening = bench.connected(&taker).await;
    let strangers = bench.fake.direct(BOB);
    for (channel, person) in [(bench.direct, ANN), (strangers, BOB)] {
        bench.fake.person_says(channel, person, "hello");
    }
    let last = bench.fake.person_says(GENERAL, ANN, "the last").to_string();
    taker.keeps("the last message", |bookmark| bookmark["seen_up_to"] == last).await;
    assert_eq!(taker.bookmark()["direct"], json!([bench.direct.to_string()]));
    assert_eq!(taker.bookmark()["strangers"], json!([strangers.to_string()]));
    listening.stop().await;
}

#[tokio::test]
async fn partly_cached_channel_is_completed_by_new_process() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    listening.stop().await;
    bench.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    let channel = json!({ "id": GENERAL.to_string(), "guild_id": GUILD.to_string(), "type": 0, "name": "renamed" });
    bench.fake.dispatch("CHANNEL_UPDATE", channel);
    let listening = bench.listen(&taker);
    bench.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    bench.sessions_begun_and_resumed(1, 1).await;
    assert_eq!(bench.fake.requests("GET /guilds/{}"), 1, "its roles are not known");
    listening.stop().await;
}

#[tokio::test]
async fn thread_messages_wait_until_category_is_resolved() {
    const CATEGORY: u64 = 9_050;
    let mut bench = Bench::start().await;
    bench.settings.answers_in = vec![CATEGORY.to_string()];
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    listening.stop().await;
    bench.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    // The thread tells of its channel at once, and that of its category after a while.
    let place = "GET /channels/{}";
    let channel =
        json!({ "id": GENERAL.to_string(), "guild_id": GUILD.to_string(), "parent_id": CATEGORY.to_string() });
    bench.fake.script(place, FaultTiming::Nth(2), Fault::RateLimit { retry_after_ms: 300 });
    bench.fake.script(place, FaultTiming::Nth(3), DiscordFault::Answer { status: 200, body: channel.to_string() });
    let listening = bench.listen(&taker);
    bench.fake.person_says(THREAD, ANN, "one");
    until("the channel is asked for", || bench.fake.requests(place) == 2).await;
    bench.fake.person_says(THREAD, ANN, "two");
    taker.takes(2).await;
    assert_eq!(taker.texts_of(THREAD), ["one", "two"]);
    listening.stop().await;
}

#[tokio::test]
async fn unresolvable_channel_is_not_silent_forever() {
    let bench = Bench::start().await;
    let (log, _guard) = Log::listen();
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    listening.stop().await;
    bench.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    for place in ["GET /guilds/{}", "GET /channels/{}"] {
        bench.fake.script(place, FaultTiming::Every, Fault::ServerError);
    }
    let listening = bench.listen(&taker);
    for words in ["one", "two"] {
        bench.fake.person_says(GENERAL, ANN, words);
    }
    taker.takes(2).await;
    assert_eq!(taker.texts_of(GENERAL), ["one", "two"]);
    assert!(bench.fake.requests("GET /guilds/{}") >= 5, "it was tried");
    assert_eq!(log.lines_with("continuing without it"), 2, "{}", log.text());
    listening.stop().await;
}
