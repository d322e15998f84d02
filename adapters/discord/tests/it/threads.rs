//! What a message only refers to, against a strict fake of Discord: the message from which its thread was started, and the
//! original of a forward that doesn't show it.

use std::time::Duration;

use satchel_domain::InboundMessage;
use satchel_fake_discord::{Permission, PersonMessage};
use satchel_fake_kit::{FakeFile, Fault};

use crate::harness::{ANN, BOB, GENERAL, GatewayHarness, OTHER, RecordingInbound};

const MESSAGE: &str = "GET /channels/{}/messages/{}";
const HISTORY: &str = "GET /channels/{}/messages";
const UNREADABLE: &str = "[in a thread from a message that can't be read]";
const QUOTED: &str = "[in a thread from a message of Bob with plan.pdf:]\n> my plan";

/// A bot that answers what is said to it, and Bob's message, from which Ann has started a thread a while later. Returns the
/// message and the thread.
async fn start() -> (GatewayHarness, u64, u64) {
    let mut harness = GatewayHarness::start().await;
    harness.settings.answers_in = vec![OTHER.to_string()];
    let file = FakeFile::from_bytes("plan.pdf", "application/pdf", "%PDF-1.7 the plan");
    let plan = harness.fake.person_sends(GENERAL, BOB, "my plan", vec![file]);
    harness.fake.clock().advance(Duration::from_secs(60));
    let thread = harness.fake.thread_from(ANN, plan, "The plan");
    (harness, plan, thread)
}

fn ask(harness: &GatewayHarness, thread: u64, text: &str) {
    harness.fake.person_says(thread, ANN, &format!("{} {text}", harness.fake.mention()));
}

/// Waits until so many messages were taken, and returns the last one.
async fn take(taker: &RecordingInbound, messages: usize) -> InboundMessage {
    taker.takes(messages).await;
    taker.taken().swap_remove(messages - 1)
}

fn opening(message: &InboundMessage) -> Option<&str> {
    message.opening.as_deref().map(|opening| opening.text.as_str())
}

#[tokio::test]
async fn first_message_to_the_bot_brings_the_starter_of_its_thread() {
    let (harness, plan, thread) = start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(thread, BOB, "nobody asks the bot");
    ask(&harness, thread, "/files");
    assert_eq!(opening(&take(&taker, 1).await), None, "a command is none for the model");
    ask(&harness, thread, "why?");
    let first = take(&taker, 2).await;
    assert_eq!((opening(&first), first.text.as_str()), (Some(QUOTED), "why?"));
    let starter = first.opening.expect("it has one");
    assert_eq!((starter.author.map(|author| author.id), starter.files.len()), (Some(BOB.to_string()), 1));
    assert_eq!(starter.key, Some(plan.to_string()));
    ask(&harness, thread, "and when?");
    assert_eq!(opening(&take(&taker, 3).await), None);
    assert_eq!(harness.fake.requests(MESSAGE), 1, "it is read once");
    listening.stop().await;

    // Another process doesn't know; the ledger does.
    let listening = harness.connected(&taker).await;
    ask(&harness, thread, "and where?");
    assert_eq!(opening(&take(&taker, 4).await), Some(QUOTED));
    listening.stop().await;
}

/// Catches: a starter that a mistyped command or an edited command has used up, though the model reads it with neither.
#[tokio::test]
async fn starter_comes_again_behind_what_the_model_may_not_have_read_it_with() {
    let (harness, _, thread) = start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let mention = harness.fake.mention();
    let command = harness.fake.person_says(thread, ANN, &format!("{mention} /files"));
    assert_eq!(opening(&take(&taker, 1).await), None);
    harness.fake.person_edits(thread, ANN, command, &format!("{mention} why?"));
    assert_eq!(opening(&take(&taker, 2).await), Some(QUOTED));
    ask(&harness, thread, "/flies");
    assert_eq!(opening(&take(&taker, 3).await), Some(QUOTED));
    ask(&harness, thread, "and when?");
    assert_eq!(opening(&take(&taker, 4).await), Some(QUOTED));
    ask(&harness, thread, "and where?");
    assert_eq!(opening(&take(&taker, 5).await), None);
    assert_eq!(harness.fake.requests(MESSAGE), 1, "it is read once");
    listening.stop().await;
}

#[tokio::test]
async fn starter_that_can_not_be_read_is_mentioned() {
    let (harness, plan, thread) = start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    // The channel's history is hidden, the thread's first message still refers to the starter.
    harness.fake.forbid(GENERAL, Permission::ReadHistory);
    ask(&harness, thread, "why?");
    assert_eq!(opening(&take(&taker, 1).await), Some(QUOTED));
    listening.stop().await;

    harness.fake.forbid(thread, Permission::ReadHistory);
    let listening = harness.connected(&taker).await;
    ask(&harness, thread, "and when?");
    assert_eq!(opening(&take(&taker, 2).await), Some(UNREADABLE));
    listening.stop().await;

    for permitted in [GENERAL, thread] {
        harness.fake.allow(permitted, Permission::ReadHistory);
    }
    harness.fake.person_deletes(plan);
    let listening = harness.connected(&taker).await;
    ask(&harness, thread, "and where?");
    assert_eq!(opening(&take(&taker, 3).await), Some(UNREADABLE));
    listening.stop().await;
}

/// Catches: one failure, after which the conversation never has the message that it was started from.
#[tokio::test]
async fn first_message_of_a_thread_is_read_again_after_a_failure() {
    let (harness, _, thread) = start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    harness.fake.forbid(GENERAL, Permission::ReadHistory);
    harness.fake.script_next(HISTORY, Fault::ServerError);
    let read_before = harness.fake.requests(HISTORY);
    ask(&harness, thread, "why?");
    assert_eq!(opening(&take(&taker, 1).await), Some(QUOTED));
    assert_eq!((harness.fake.requests(MESSAGE), harness.fake.requests(HISTORY) - read_before), (1, 2));
    listening.stop().await;
}

#[tokio::test]
async fn thread_made_without_a_message_has_no_starter() {
    let harness = GatewayHarness::start().await;
    let thread = harness.fake.thread(GENERAL, 9_120, "among us");
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    ask(&harness, thread, "why?");
    assert_eq!(opening(&take(&taker, 1).await), None);
    ask(&harness, thread, "and when?");
    take(&taker, 2).await;
    assert_eq!((harness.fake.requests(MESSAGE), harness.fake.requests(HISTORY)), (1, 0), "it is asked for once");
    listening.stop().await;
}

#[tokio::test]
async fn starter_is_read_again_after_a_failure_and_kept_for_who_may_talk() {
    let (harness, _, thread) = start().await;
    let taker = RecordingInbound::new();
    taker.refuse(ANN);
    let listening = harness.connected(&taker).await;
    harness.fake.script_next(MESSAGE, Fault::ServerError);
    ask(&harness, thread, "let me in");
    taker.tried(1).await;
    harness.fake.person_says(thread, BOB, &format!("{} why?", harness.fake.mention()));
    assert_eq!(opening(&take(&taker, 1).await), Some(QUOTED));
    assert_eq!(harness.fake.requests(MESSAGE), 2, "once more after the failure, and not for each stranger");
    listening.stop().await;
}

#[tokio::test]
async fn original_is_read_of_a_forward_that_shows_nothing() {
    let (harness, plan, _) = start().await;
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let forward = || harness.fake.person_composes(harness.direct, ANN, PersonMessage::forwarding_unseen(plan));
    forward();
    let read = take(&taker, 1).await;
    assert_eq!(read.text, "[forwarded from somebody:]\n> my plan");
    assert_eq!(read.files.iter().map(|file| file.filename.as_str()).collect::<Vec<_>>(), ["plan.pdf"]);
    harness.fake.forbid(GENERAL, Permission::View);
    forward();
    let hidden = take(&taker, 2).await;
    harness.fake.allow(GENERAL, Permission::View);
    harness.fake.person_deletes(plan);
    forward();
    let gone = take(&taker, 3).await;
    for read in [hidden, gone] {
        assert_eq!(read.text, "[forwarded from somebody]");
        let [file] = read.files.as_slice() else { unreachable!("{read:?}") };
        assert!(
            file.unreadable.as_deref().is_some_and(|reason| reason.starts_with("Discord doesn't show me")),
            "{file:?}"
        );
    }
    assert_eq!(taker.unreadable(), []);
    listening.stop().await;
}
