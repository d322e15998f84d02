//! Polling: the offset moves only past what is stored, whatever fails.

use std::{sync::Arc, time::Duration};

use satchel_contracts::log_capture::LogCapture;
use satchel_domain::{PartContent, PartId, TurnId};
use satchel_fake_kit::{Fault, FaultTiming};
use satchel_fake_telegram::{ApiRefusal, TelegramFault};
use satchel_ports::{Channel, PostRequest};
use satchel_wait::wait_until;
use serde_json::json;
use uuid::Uuid;

use super::harness::{ANN, BOB, InboundHarness, RecordingInbound};

#[tokio::test]
async fn telegram_keeps_everything_until_it_is_stored() {
    let bench = InboundHarness::start().await;
    for words in ["one", "two", "three"] {
        bench.fake.person_says(ANN, ANN, words);
    }
    let taker = RecordingInbound::watching(&bench.fake);
    bench.listen_to_all(&taker).await;
    assert_eq!(taker.texts(), ["one", "two", "three"]);
    assert_eq!(taker.kept_meanwhile(), [3, 3, 3], "nothing is confirmed before all that came with it is stored");
}

#[tokio::test]
async fn message_being_stored_at_crash_is_redelivered() {
    let bench = InboundHarness::start().await;
    bench.fake.person_says(ANN, ANN, "hello");
    let taker = RecordingInbound::shut();
    let listening = bench.listen(&taker);
    taker.tried(1).await;
    listening.kill().await;
    assert_eq!(bench.fake.unconfirmed_updates(), 1);
    let survivor = RecordingInbound::new();
    bench.listen_to_all(&survivor).await;
    assert_eq!(survivor.texts(), ["hello"]);
}

#[tokio::test]
async fn failing_store_is_retried_and_confirms_nothing() {
    let bench = InboundHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    taker.refuse("telegram:42");
    for words in ["one", "two"] {
        bench.fake.person_says(ANN, ANN, words);
        bench.fake.person_says(BOB, BOB, words);
    }
    let listening = bench.listen(&taker);
    taker.tried(6).await;
    assert_eq!(taker.texts(), ["one", "two"], "another conversation doesn't wait for it");
    assert!(taker.taken().iter().all(|message| message.conversation.to_string() == "telegram:43"));
    assert_eq!(bench.fake.unconfirmed_updates(), 4);
    taker.refuse_nothing();
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!(taker.texts(), ["one", "two", "one", "two"], "in order, none twice, none lost");
    assert_eq!(
        (log.lines_with("storing updates failed"), log.lines_with("storing updates works again")),
        (1, 1),
        "{}",
        log.text()
    );
    assert!(log.text().contains("the disk is full"), "{}", log.text());
}

#[tokio::test]
async fn only_stored_updates_are_confirmed_on_stop() {
    let bench = InboundHarness::start().await;
    let taker = RecordingInbound::new();
    taker.refuse("telegram:43");
    bench.fake.person_says(ANN, ANN, "before");
    bench.fake.person_says(BOB, BOB, "storing updates failed");
    bench.fake.person_says(ANN, ANN, "after");
    let listening = bench.listen(&taker);
    wait_until("all of Ann's is stored", || taker.texts().len() == 2).await;
    listening.stop().await.unwrap();
    assert_eq!(bench.fake.unconfirmed_updates(), 2, "the first is confirmed, and those from the failed one on are not");
}

#[tokio::test]
async fn stop_ends_long_poll_and_confirms_stored_updates() {
    let bench = InboundHarness::start().await;
    let idle = bench.listen(&RecordingInbound::new());
    wait_until("it polls", || bench.fake.requests("getUpdates") == 1).await;
    idle.stop().await.unwrap();

    bench.fake.person_says(ANN, ANN, "hello");
    let taker = RecordingInbound::shut();
    let listening = bench.listen(&taker);
    taker.tried(1).await;
    let stopping = tokio::spawn(listening.stop());
    taker.open();
    stopping.await.unwrap().unwrap();
    assert_eq!((taker.texts().len(), bench.fake.unconfirmed_updates()), (1, 0));
}

#[tokio::test]
async fn group_move_keeps_order_with_its_messages() {
    let mut bench = InboundHarness::start().await;
    bench.settings.answers_in = vec!["*".into()];
    let group = bench.fake.group("Family", &[ANN]);
    bench.fake.person_says(group, ANN, "before");
    let supergroup = bench.fake.migrate(group);
    bench.fake.person_says(supergroup, ANN, "after");
    let taker = RecordingInbound::shut();
    let listening = bench.listen(&taker);
    for (nth, stored, moved) in [(1, vec![], 0), (2, vec!["before"], 0), (3, vec!["before"], 1), (4, vec!["before"], 2)]
    {
        taker.tried(nth).await;
        assert_eq!((taker.tries(), taker.texts(), taker.moved().len()), (nth, texts(&stored), moved));
        taker.let_one();
    }
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!(taker.texts(), ["before", "after"]);
    let moved = (format!("telegram:{group}"), format!("telegram:{supergroup}"));
    assert_eq!(taker.moved(), [moved.clone(), moved], "both chats tell of it");
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn polls_request_handled_update_types_with_long_timeout() {
    let bench = InboundHarness::start().await;
    bench.fake.person_says(ANN, ANN, "hello");
    bench.listen_to_all(&RecordingInbound::new()).await;
    let polls: Vec<_> = bench.fake.calls().into_iter().filter(|call| call.method == "getupdates").collect();
    let first = &polls[0].parameters;
    assert_eq!(
        first["allowed_updates"],
        json!(["message", "edited_message", "channel_post", "edited_channel_post", "callback_query"])
    );
    assert_eq!((first["timeout"].as_i64(), first.get("offset")), (Some(30), None));
    let strangers = polls.iter().flat_map(|poll| poll.parameters.keys().filter(|name| !poll.taken.contains(*name)));
    assert_eq!(strangers.count(), 0, "it sends nothing that the method doesn't know");
}

#[tokio::test]
async fn outages_are_waited_out_and_told_once() {
    let bench = InboundHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    for (nth, fault) in [
        (1, Fault::BadGateway { performed: false }),
        (2, Fault::Outage { for_ms: 300 }),
        (3, Fault::ResetMidTransfer),
        (4, Fault::ServerError),
        (5, Fault::RateLimit { retry_after_ms: 1_000 }),
    ] {
        bench.fake.script("getUpdates", FaultTiming::Nth(nth), fault);
    }
    bench.fake.person_says(ANN, ANN, "hello");
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert_eq!(taker.texts(), ["hello"]);
    assert_eq!(log.lines_with("cannot reach Telegram"), 1, "{}", log.text());
    assert_eq!(log.lines_with("Telegram is overloaded"), 1, "{}", log.text());
    assert_eq!(log.lines_with("Telegram answers again"), 1, "{}", log.text());
}

#[tokio::test]
async fn the_wait_that_telegram_asks_for_is_kept() {
    let bench = InboundHarness::start().await;
    bench.fake.script("getUpdates", FaultTiming::Nth(1), Fault::RateLimit { retry_after_ms: 2_000 });
    bench.fake.person_says(ANN, ANN, "hello");
    let begun = std::time::Instant::now();
    bench.listen_to_all(&RecordingInbound::new()).await;
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn competing_poller_is_reported_once() {
    let bench = InboundHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let words = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";
    bench.fake.script("getUpdates", FaultTiming::First(3), TelegramFault::Refuse(ApiRefusal::new(409, words)));
    bench.fake.person_says(ANN, ANN, "hello");
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert_eq!(taker.texts(), ["hello"]);
    assert_eq!(log.lines_with("another process polls with this bot's token"), 1, "{}", log.text());
}

#[tokio::test]
async fn old_webhook_is_deleted_keeping_pending_updates() {
    let bench = InboundHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    bench.fake.person_says(ANN, ANN, "hello");
    let set = bench.call("setWebhook", json!({ "url": "https://bot.invalid/path-that-is-secret" })).await;
    assert_eq!(set["ok"], true, "{set}");
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert_eq!(taker.texts(), ["hello"]);
    assert_eq!(log.lines_with("deleted the webhook at bot.invalid"), 1, "{}", log.text());
    assert!(!log.text().contains("path-that-is-secret"), "{}", log.text());
}

#[tokio::test]
async fn foreign_webhook_is_reported_and_waited_out() {
    let bench = InboundHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    let listening = bench.listen(&taker);
    bench.fake.person_says(ANN, ANN, "one");
    bench.all_confirmed().await;
    bench.call("setWebhook", json!({ "url": "https://rival.invalid/path-that-is-secret" })).await;
    wait_until("it is told", || log.lines_with("set a webhook for this bot, at rival.invalid") == 1).await;
    let info = bench.call("getWebhookInfo", json!({})).await;
    assert_eq!(info["result"]["url"], "https://rival.invalid/path-that-is-secret", "it is left alone");
    bench.fake.person_says(ANN, ANN, "two");
    bench.call("deleteWebhook", json!({})).await;
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!(taker.texts(), ["one", "two"]);
    assert!(!log.text().contains("path-that-is-secret"), "{}", log.text());
}

#[tokio::test]
async fn oversized_poll_response_is_fetched_update_by_update() {
    let bench = InboundHarness::start().await;
    let half = "x".repeat(9 << 20);
    let numbers = [0, 1].map(|_| bench.fake.queue_update(json!({ "hologram": half })).to_string());
    for words in ["one", "two"] {
        bench.fake.person_says(ANN, ANN, words);
    }
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert_eq!(taker.unreadable().into_iter().map(|update| update.key).collect::<Vec<_>>(), numbers);
    assert_eq!(taker.texts(), ["one", "two"]);
    let polls: Vec<_> = bench.fake.calls().into_iter().filter(|call| call.method == "getupdates").collect();
    let limits: Vec<i64> = polls.iter().filter_map(|poll| poll.parameters["limit"].as_i64()).take(3).collect();
    assert_eq!(limits, [100, 1, 100], "once it was taken as many as ever are asked for");
}

#[tokio::test]
async fn undecodable_update_is_stored_raw() {
    let bench = InboundHarness::start().await;
    bench.fake.person_says(ANN, ANN, "one");
    let hologram = bench.fake.queue_update(json!({ "hologram": { "of": "Ann", "at": 52.5 } }));
    let broken = bench.fake.queue_update(json!({ "message": { "message_id": "no number" } }));
    bench.fake.person_says(ANN, ANN, "two");
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert_eq!(taker.texts(), ["one", "two"]);
    let kept = taker.unreadable();
    assert_eq!(
        kept.iter().map(|update| update.key.clone()).collect::<Vec<_>>(),
        [hologram.to_string(), broken.to_string()]
    );
    assert_eq!(kept[0].raw, json!({ "update_id": hologram, "hologram": { "of": "Ann", "at": 52.5 } }));
    assert_eq!(kept[0].channel.as_str(), "telegram");
    assert!(kept.iter().all(|update| !update.reason.contains("Ann") && !update.reason.contains("no number")));
}

#[tokio::test]
async fn move_announced_only_by_new_group_is_reported() {
    let bench = InboundHarness::start().await;
    let group = bench.fake.group("Family", &[ANN]);
    let supergroup = bench.fake.migrate(group);
    // The old group's own word is the first update, and gone, as after a day.
    let last = bench.call("getUpdates", json!({ "offset": -1 })).await;
    assert_eq!(last["result"][0]["message"]["migrate_from_chat_id"], group);
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert_eq!(taker.moved(), [(format!("telegram:{group}"), format!("telegram:{supergroup}"))]);
}

/// A bot whose group has moved, of which it hears nothing: what both groups told is gone, as after a day.
async fn moved_unheard() -> (InboundHarness, i64, i64) {
    let bench = InboundHarness::start().await;
    let group = bench.fake.group("Family", &[ANN]);
    let supergroup = bench.fake.migrate(group);
    bench.call("deleteWebhook", json!({ "drop_pending_updates": true })).await;
    (bench, group, supergroup)
}

fn part(group: i64, words: &str) -> PostRequest {
    PostRequest {
        part_id: PartId(Uuid::now_v7()),
        turn: TurnId(Uuid::from_u128(1)),
        conversation: format!("telegram:{group}").parse().expect("it is a name"),
        content: PartContent::from_text(words),
        reply_to: None,
    }
}

#[tokio::test]
async fn move_learned_from_refused_send_is_reported_once() {
    let (bench, group, supergroup) = moved_unheard().await;
    let (channel, taker) = (Arc::new(bench.channel()), RecordingInbound::new());
    let listening = bench.listen_beside(Arc::clone(&channel), &taker);
    channel.post(&part(group, "one")).await.unwrap();
    assert!(taker.moved().is_empty(), "what was sent is not settled yet");
    wait_until("it is told", || !taker.moved().is_empty()).await;
    channel.post(&part(group, "two")).await.unwrap();
    bench.fake.person_says(ANN, ANN, "hello");
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!(taker.moved(), [(format!("telegram:{group}"), format!("telegram:{supergroup}"))]);
    assert_eq!(bench.fake.transcript().texts(supergroup), ["one", "two"]);
}

#[tokio::test]
async fn move_is_not_reported_while_part_is_sending() {
    let (bench, group, _) = moved_unheard().await;
    let (channel, taker) = (Arc::new(bench.channel()), RecordingInbound::new());
    let listening = bench.listen_beside(Arc::clone(&channel), &taker);
    bench.fake.script("sendMessage", FaultTiming::Nth(2), Fault::Hang { performed: false });
    let part = part(group, "one");
    // Long enough for a chat that is quiet, and not for the part's answer.
    assert!(tokio::time::timeout(Duration::from_secs(4), channel.post(&part)).await.is_err());
    assert!(taker.moved().is_empty());
    listening.stop().await.unwrap();
}
