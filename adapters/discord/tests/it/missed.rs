//! What was said while no session was there: history tells it, as it has become, before anything that is said since.

mod unavailable;

use std::{sync::Arc, time::Duration};

use satchel_contracts::log_capture::LogCapture;
use satchel_domain::{PartContent, PartId, TurnId};
use satchel_fake_discord::{ApiRefusal, DiscordFault, Permission, Tier};
use satchel_fake_kit::{FakeFile, Fault, FaultTiming};
use satchel_ports::{Channel, PostRequest};
use satchel_wait::wait_until;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{ANN, BOB, GENERAL, GatewayHarness, ListenerTask, OTHER, RecordingInbound, THREAD};

const HISTORY: &str = "GET /channels/{}/messages";

/// A bot that was there, and whose session is over.
async fn gone(harness: &GatewayHarness) -> Arc<RecordingInbound> {
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(harness.direct, ANN, "before");
    taker.takes(1).await;
    listening.stop().await;
    harness.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    harness.fake.gateway().expire_sessions();
    taker
}

#[tokio::test]
async fn missed_messages_are_backfilled_from_every_channel_kind() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let taker = gone(&harness).await;
    for channel in [GENERAL, THREAD, harness.direct] {
        for words in ["one", "two"] {
            harness.fake.person_says(channel, ANN, words);
        }
    }
    let listening = harness.connected(&taker).await;
    taker.takes(7).await;
    harness.fake.person_says(GENERAL, ANN, "three");
    taker.takes(8).await;
    assert_eq!(taker.texts_of(GENERAL), ["one", "two", "three"]);
    assert_eq!(taker.texts_of(THREAD), ["one", "two"]);
    assert_eq!(taker.texts_of(harness.direct), ["before", "one", "two"]);
    harness.sessions_begun_and_resumed(2, 0).await;
    assert_eq!(harness.fake.requests(HISTORY), 3, "a channel where nothing was said isn't asked");
    assert_eq!(log.lines_with("backfill stored the missed messages"), 1, "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn new_messages_wait_for_backfill_of_their_channel() {
    let harness = GatewayHarness::start().await;
    let taker = gone(&harness).await;
    harness.fake.person_says(GENERAL, ANN, "missed");
    // The guild's channel and the direct one are asked: each fails for a while, and is then too soon.
    harness.fake.script(HISTORY, FaultTiming::First(6), Fault::BadGateway { performed: false });
    for number in [7, 8] {
        harness.fake.script(HISTORY, FaultTiming::Nth(number), Fault::RateLimit { retry_after_ms: 200 });
    }
    let listening = harness.connected(&taker).await;
    wait_until("history is asked", || harness.fake.requests(HISTORY) > 0).await;
    harness.fake.person_says(GENERAL, ANN, "said since");
    harness.fake.person_says(OTHER, BOB, "elsewhere");
    taker.takes(4).await;
    assert_eq!(taker.texts_of(GENERAL), ["missed", "said since"]);
    assert_eq!(taker.texts()[..2], ["before", "elsewhere"], "another channel doesn't wait for it");
    listening.stop().await;
}

#[tokio::test]
async fn a_thousand_messages_are_read_to_the_last() {
    let harness = GatewayHarness::start().await;
    let taker = gone(&harness).await;
    let words: Vec<String> = (0..1_000).map(|number| format!("number {number}")).collect();
    for words in &words {
        harness.fake.person_says(GENERAL, ANN, words);
    }
    let listening = harness.connected(&taker).await;
    taker.takes(1_001).await;
    assert_eq!(taker.texts_of(GENERAL), words);
    // Ten full pages, and an empty one that says that there are no more; the direct channel's one.
    wait_until("the end is seen", || harness.fake.requests(HISTORY) == 12).await;
    listening.stop().await;
}

#[tokio::test]
async fn forbidden_channel_history_blocks_nothing() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let taker = gone(&harness).await;
    let before = taker.bookmark();
    harness.fake.person_says(OTHER, BOB, "closed to us");
    // The guild's channel, and the direct one.
    harness.fake.script(
        HISTORY,
        FaultTiming::First(2),
        DiscordFault::Refuse(ApiRefusal::new(403, 50001, "Missing Access")),
    );
    let listening = harness.connected(&taker).await;
    taker.keeps("the new session", |bookmark| bookmark["session_id"] != before["session_id"]).await;
    harness.fake.person_says(OTHER, BOB, "said since");
    taker.takes(2).await;
    assert_eq!((taker.texts_of(OTHER), harness.fake.requests(HISTORY)), (vec!["said since".to_owned()], 2));
    assert_eq!(log.lines_with("Read Message History"), 1, "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn channels_that_show_no_history_are_told_once() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let taker = gone(&harness).await;
    let before = taker.bookmark();
    for channel in [GENERAL, OTHER] {
        harness.fake.forbid(channel, Permission::ReadHistory);
        harness.fake.person_says(channel, BOB, "not shown");
    }
    let listening = harness.connected(&taker).await;
    taker.keeps("the new session", |bookmark| bookmark["session_id"] != before["session_id"]).await;
    assert_eq!((taker.texts(), harness.fake.requests(HISTORY)), (vec!["before".to_owned()], 3));
    assert_eq!(log.lines_with("Read Message History"), 1, "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn checkpoint_stays_until_every_missed_message_is_stored() {
    let harness = GatewayHarness::start().await;
    let taker = gone(&harness).await;
    let before = taker.bookmark();
    harness.fake.person_says(GENERAL, ANN, "one");
    harness.fake.person_says(GENERAL, ANN, "two");
    taker.fail(GENERAL, u32::MAX);
    let listening = harness.listen(&taker);
    harness.sessions_begun_and_resumed(2, 0).await;
    harness.fake.person_says(harness.direct, ANN, "said since");
    taker.takes(2).await;
    // One try for each of the two that were taken; the others are of the history that can't be stored.
    taker.tried(4).await;
    listening.stop().await;
    assert_eq!(taker.bookmark(), before);
    let survivor = taker.of_the_next_process();
    let listening = harness.listen(&survivor);
    wait_until("both are taken", || survivor.texts_of(GENERAL).len() == 2).await;
    assert_eq!(survivor.texts_of(GENERAL), ["one", "two"]);
    survivor.keeps("the new session", |bookmark| bookmark["session_id"] != before["session_id"]).await;
    listening.stop().await;
}

#[tokio::test]
async fn first_start_reads_no_earlier_messages() {
    let harness = GatewayHarness::start().await;
    harness.fake.person_says(GENERAL, ANN, "long ago");
    // A message's id holds the millisecond in which it was said.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(GENERAL, ANN, "now");
    taker.takes(1).await;
    assert_eq!((taker.texts(), harness.fake.requests(HISTORY)), (vec!["now".to_owned()], 0));
    listening.stop().await;
}

#[tokio::test]
async fn guild_joined_later_is_not_backfilled() {
    let harness = GatewayHarness::start().await;
    let taker = gone(&harness).await;
    let listening = harness.connected(&taker).await;
    wait_until("what was missed is read", || harness.fake.requests(HISTORY) == 1).await;
    // Nobody tells us of a guild that we aren't in.
    harness.fake.channel(8_000, 8_100, "general");
    harness.fake.forbid(8_100, Permission::View);
    harness.fake.person_says(8_100, ANN, "among themselves");
    harness.fake.allow(8_100, Permission::View);
    harness.fake.guild(8_000, "Another", Tier::None);
    harness.fake.person_says(8_100, ANN, "hello");
    taker.takes(2).await;
    assert_eq!((taker.texts_of(8_100), harness.fake.requests(HISTORY)), (vec!["hello".to_owned()], 1));
    listening.stop().await;
}

#[tokio::test]
async fn invalid_checkpoint_is_replaced_and_reported() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::with_bookmark(json!({ "page": 7 }));
    let listening = harness.listen(&taker);
    harness.fake.gateway().wait_connected(1).await.unwrap();
    harness.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    assert_eq!(log.lines_with("could not be decoded"), 1, "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn edited_message_is_stored_once_from_any_source() {
    let harness = GatewayHarness::start().await;
    let taker = gone(&harness).await;
    let plain = harness.fake.person_says(GENERAL, ANN, "never changed");
    let missed = harness.fake.person_says(GENERAL, ANN, "befor");
    harness.fake.person_edits(GENERAL, ANN, missed, "missed");
    harness.fake.script(HISTORY, FaultTiming::First(6), Fault::RateLimit { retry_after_ms: 100 });
    let listening = harness.listen(&taker);
    wait_until("history is asked", || harness.fake.requests(HISTORY) > 0).await;
    // Its events wait for history, which shows the message as it is then.
    let held = harness.fake.person_says(GENERAL, ANN, "hold");
    for words in ["holds", "held"] {
        harness.fake.person_edits(GENERAL, ANN, held, words);
    }
    taker.takes(4).await;
    // As a pin and a preview do it: an event with the time of the last edit.
    harness.fake.resolves_embeds(missed);
    harness.fake.resolves_embeds(held);
    harness.fake.person_says(GENERAL, ANN, "and on");
    taker.takes(5).await;
    assert_eq!(taker.texts_of(GENERAL), ["never changed", "missed", "held", "and on"]);
    for message in taker.taken() {
        let id = message.message.expect("it is of a message").0;
        let is_edited = [missed, held].map(|id| id.to_string()).contains(&id);
        assert_eq!(message.edit_of.as_deref(), is_edited.then_some(id.as_str()), "{id}");
        assert_eq!(message.key.starts_with(&format!("{id}:")), is_edited, "{}", message.key);
    }
    assert!(taker.taken().iter().any(|message| message.key == plain.to_string()));
    // What waited no longer holds the place in the stream.
    let last = harness.fake.person_says(GENERAL, ANN, "the last").to_string();
    taker.keeps("the last message", |bookmark| bookmark["seen_up_to"] == last).await;
    listening.stop().await;
}

#[tokio::test]
async fn edit_after_backfill_refers_to_backfilled_message() {
    let harness = GatewayHarness::start().await;
    let taker = gone(&harness).await;
    let missed = harness.fake.person_says(GENERAL, ANN, "on");
    harness.fake.person_edits(GENERAL, ANN, missed, "one");
    let listening = harness.listen(&taker);
    taker.takes(2).await;
    harness.fake.person_edits(GENERAL, ANN, missed, "number one");
    taker.takes(3).await;
    assert_eq!(taker.texts_of(GENERAL), ["one", "number one"]);
    assert!(taker.taken()[1..].iter().all(|message| message.edit_of == Some(missed.to_string())));
    listening.stop().await;
}

/// Stops, loses the session, and lets a person send a photo in a private chat meanwhile. It must be found then.
async fn a_photo_is_found(
    harness: &GatewayHarness,
    taker: &RecordingInbound,
    listening: ListenerTask,
    channel: u64,
    person: u64,
) {
    let is_kept = |list: &Value| list.as_array().is_some_and(|list| list.contains(&json!(channel.to_string())));
    taker.keeps("the chat", |kept| is_kept(&kept["direct"]) || is_kept(&kept["strangers"])).await;
    listening.stop().await;
    harness.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    harness.fake.gateway().expire_sessions();
    taker.let_in(person);
    let photo = FakeFile::generated("photo.bin", "application/octet-stream", 7, 1_000);
    harness.fake.person_sends(channel, person, "look", vec![photo]);
    let next = taker.of_the_next_process();
    let listening = harness.connected(&next).await;
    wait_until("what was sent is found", || next.texts().contains(&"look".to_owned())).await;
    let last = next.taken().pop().expect("something was found");
    let files: Vec<_> = last.files.iter().map(|file| file.filename.as_str()).collect();
    assert_eq!((last.text.as_str(), files), ("look", vec!["photo.bin"]));
    listening.stop().await;
}

#[tokio::test]
async fn chat_with_only_a_command_is_backfilled() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    wait_until("the command is offered", || !harness.fake.commands().is_empty()).await;
    harness.fake.person_commands(harness.direct, ANN, "files", &[]);
    taker.takes(1).await;
    a_photo_is_found(&harness, &taker, listening, harness.direct, ANN).await;
}

#[tokio::test]
async fn chat_with_only_a_button_press_is_backfilled() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let question = harness.bot_says(harness.direct, "May I?", &["/files"]).await;
    harness.fake.person_presses(ANN, question, "/files");
    taker.takes(1).await;
    a_photo_is_found(&harness, &taker, listening, harness.direct, ANN).await;
}

#[tokio::test]
async fn chat_with_only_an_undecodable_event_is_backfilled() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let ann = json!({ "id": ANN.to_string(), "username": "ann" });
    let odd = json!({ "id": "7", "channel_id": harness.direct.to_string(), "author": ann, "content": 7 });
    harness.fake.dispatch("MESSAGE_CREATE", odd);
    wait_until("it is kept", || taker.unreadable().len() == 1).await;
    a_photo_is_found(&harness, &taker, listening, harness.direct, ANN).await;
}

#[tokio::test]
async fn chat_of_newly_approved_person_is_backfilled() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    taker.refuse(BOB);
    let direct = harness.fake.direct(BOB);
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(direct, BOB, "hello");
    a_photo_is_found(&harness, &taker, listening, direct, BOB).await;
}

fn to_bob() -> PostRequest {
    PostRequest {
        part_id: PartId(Uuid::now_v7()),
        turn: TurnId(Uuid::from_u128(1)),
        conversation: format!("discord:@{BOB}").parse().expect("it is a person's"),
        content: PartContent::from_text("Good morning"),
        reply_to: None,
    }
}

#[tokio::test]
async fn a_chat_that_satchel_has_opened_is_read() {
    let harness = GatewayHarness::start().await;
    let taker = RecordingInbound::new();
    let channel = harness.channel();
    let listening = ListenerTask::begin(harness.listener_of(Arc::clone(&channel)), &taker);
    taker.keeps("the session", |kept| kept["session_id"].is_string()).await;
    channel.post(&to_bob()).await.expect("Bob takes messages");
    a_photo_is_found(&harness, &taker, listening, harness.fake.direct(BOB), BOB).await;
}

#[tokio::test]
async fn chat_opened_by_bot_is_saved_at_once() {
    let mut harness = GatewayHarness::start().await;
    harness.waits.checkpoint_interval = Duration::from_secs(600);
    let taker = RecordingInbound::new();
    let channel = harness.channel();
    let listening = ListenerTask::begin(harness.listener_of(Arc::clone(&channel)), &taker);
    taker.keeps("the session", |kept| kept["session_id"].is_string()).await;
    channel.post(&to_bob()).await.expect("Bob takes messages");
    let chat = json!([harness.fake.direct(BOB).to_string()]);
    taker.keeps("the chat", |kept| kept["direct"] == chat).await;
    listening.kill().await;
}
