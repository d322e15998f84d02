//! What a person sends in quick succession is one message, wherever its turn is when the rest of it arrives.

use std::time::Duration;

use satchel_domain::{ConversationId, InboundMessage, Sender, capabilities::StreamRule};
use satchel_ports::{Archive, ledger::TurnQuery};
use satchel_wait::{wait_until, wait_until_async};
use tokio::time::{Instant, sleep};

use super::{
    ledger::Trouble,
    stage::{Process, Stage, message, place, with_file},
};

/// A process in which the model has been called for the first message, and says no more for now.
async fn start_turn(stage: &Stage, first: &InboundMessage) -> Process {
    let process = stage.start().await;
    stage.model.paused.send_replace(true);
    process.hears(first).await;
    wait_until("the model is called", || *stage.model.asked.borrow() == 1).await;
    process
}

/// Waits until all messages of a conversation are of one turn.
async fn wait_for_one_turn(process: &Process, place: &ConversationId, messages: usize) {
    let query = TurnQuery { conversation: place.clone(), before: None, limit: 10 };
    wait_until_async("one turn has all messages", async || {
        let turns = process.ledger.turns(&query).await.unwrap();
        turns.len() == 1 && turns[0].messages.len() == messages
    })
    .await;
}

/// Waits until the turn that runs has looked at what is queued behind it.
async fn wait_for_a_look(process: &Process) {
    let has_looked = || process.ledger.hook.calls().contains(&"ledger.list_queued_behind");
    wait_until("the turn looks at what has arrived", has_looked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forward_behind_a_comment_is_answered_with_it() {
    let (stage, here) = (Stage::joining(StreamRule::None), place("main"));
    let process = start_turn(&stage, &message(&here, "1", "what is this?")).await;
    process.hears(&message(&here, "2", "[forwarded] news")).await;
    wait_until("the model is called with both", || *stage.model.asked.borrow() == 2).await;
    stage.model.paused.send_replace(false);
    wait_until("the answer", || !stage.chat.log(&here).is_empty()).await;
    process.settles().await;
    assert_eq!(stage.chat.log(&here), ["re: what is this?\n[forwarded] news"]);
    assert_eq!(*stage.model.asked.borrow(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_quick_lines_are_one_turn() {
    let (stage, here) = (Stage::joining(StreamRule::None), place("main"));
    let process = start_turn(&stage, &message(&here, "1", "one")).await;
    process.hears(&message(&here, "2", "two")).await;
    process.hears(&message(&here, "3", "three")).await;
    wait_for_one_turn(&process, &here, 3).await;
    stage.model.paused.send_replace(false);
    wait_until("the answer", || !stage.chat.log(&here).is_empty()).await;
    process.settles().await;
    assert_eq!(stage.chat.log(&here), ["re: one\ntwo\nthree"]);
}

/// The turn waits for the file as any turn with files does.
#[tokio::test(flavor = "multi_thread")]
async fn file_behind_a_question_is_fetched_before_the_model_is_called_again() {
    let (stage, here) = (Stage::joining(StreamRule::None), place("main"));
    let process = start_turn(&stage, &message(&here, "1", "what is this?")).await;
    process.hears(&with_file(message(&here, "2", ""))).await;
    wait_until("the file is requested", || stage.chat.fetches() == 1).await;
    wait_for_one_turn(&process, &here, 2).await;
    assert_eq!(*stage.model.asked.borrow(), 1);
    process.hears(&message(&here, "3", "/stop")).await;
    wait_until("the end", || stage.chat.log(&here).len() == 1).await;
    let answer = stage.chat.log(&here).remove(0);
    assert!(answer.starts_with("Stopped, as you asked.") && answer.contains("I couldn't accept `a.txt`"), "{answer}");
    process.settles().await;
    assert_eq!((stage.chat.log(&here).len(), *stage.model.asked.borrow()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn later_messages_and_those_of_others_keep_their_turns() {
    for is_late in [true, false] {
        let (stage, here) = (Stage::joining(StreamRule::None), place("main"));
        let in_group = |key: &str, text: &str, person: &str| InboundMessage {
            group: true,
            sender: Sender::new(person, "Ada"),
            ..message(&here, key, text)
        };
        let process = start_turn(&stage, &in_group("1", "one", "7")).await;
        if is_late {
            stage.clock.leap(Duration::from_millis(700));
            process.ledger.hook.leap(Duration::from_millis(700));
        }
        process.hears(&in_group("2", "two", if is_late { "7" } else { "8" })).await;
        wait_for_a_look(&process).await;
        stage.model.paused.send_replace(false);
        wait_until("both answers", || stage.chat.log(&here).len() == 2).await;
        assert_eq!(stage.chat.log(&here), ["re: one", "re: two"], "late: {is_late}");
        assert_eq!(*stage.model.asked.borrow(), 2, "late: {is_late}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn command_behind_a_message_waits_for_its_turn() {
    let (stage, here) = (Stage::joining(StreamRule::None), place("main"));
    let process = start_turn(&stage, &message(&here, "1", "one")).await;
    process.hears(&message(&here, "2", "/files")).await;
    wait_for_a_look(&process).await;
    stage.model.paused.send_replace(false);
    wait_until("both answers", || stage.chat.log(&here).len() == 2).await;
    let log = stage.chat.log(&here);
    assert!(log[0] == "re: one" && log[1].contains("No files here yet"), "{log:?}");
    assert_eq!(*stage.model.asked.borrow(), 1);
}

/// Catches: a message that came while its turn waited for a slot, and that is noticed when the answer without it is complete.
#[tokio::test(flavor = "multi_thread")]
async fn message_behind_a_turn_that_waits_is_read_with_it() {
    let (there, here) = (place("other"), place("main"));
    let stage = Stage { turns_per_person: 1, ..Stage::joining(StreamRule::None) };
    let process = stage.start().await;
    process.hears(&message(&there, "1", "hang")).await;
    wait_until("the turn that has the slot", || *stage.hanging.borrow() == 1).await;
    process.hears(&message(&here, "1", "one")).await;
    wait_until("the turn waits for it", || process.slots.waiting() == 1).await;
    process.hears(&message(&here, "2", "two")).await;
    wait_for_a_look(&process).await;
    stage.released.send_replace(true);
    wait_until("the answer", || !stage.chat.log(&here).is_empty()).await;
    process.settles().await;
    assert_eq!(stage.chat.log(&here), ["re: one\ntwo"]);
    assert_eq!(*stage.model.asked.borrow(), 3, "two calls of the other turn, and one of this");
}

/// Catches: a reply of which a person has read the beginning, and that is written anew.
#[tokio::test(flavor = "multi_thread")]
async fn shown_reply_is_not_written_anew() {
    let (stage, here) = (Stage::joining(StreamRule::Edits { interval_ms: 20 }), place("main"));
    let process = start_turn(&stage, &message(&here, "1", "one")).await;
    wait_until("the draft", || stage.chat.log(&here).len() == 1).await;
    process.hears(&message(&here, "2", "two")).await;
    wait_for_a_look(&process).await;
    stage.model.paused.send_replace(false);
    wait_until("the second answer", || stage.chat.log(&here).iter().any(|line| line.ends_with("re: two"))).await;
    process.settles().await;
    let log = stage.chat.log(&here);
    assert!(log.contains(&"edit: re: one".to_owned()) && !log.iter().any(|line| line.contains("one\ntwo")), "{log:?}");
    assert_eq!(*stage.model.asked.borrow(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_join_is_made_up_for() {
    let (stage, here) = (Stage::joining(StreamRule::None), place("main"));
    let process = start_turn(&stage, &message(&here, "1", "one")).await;
    process.ledger.hook.trouble("ledger.join_turns", Trouble::FailsOnce);
    process.hears(&message(&here, "2", "two")).await;
    wait_for_one_turn(&process, &here, 2).await;
    stage.model.paused.send_replace(false);
    wait_until("the answer", || !stage.chat.log(&here).is_empty()).await;
    process.settles().await;
    assert_eq!((stage.chat.log(&here), process.ledger.hook.met()), (vec!["re: one\ntwo".to_owned()], 1));
}

/// Catches: a text that was cut at the platform's limit and is answered without its rest, and one that waits without end.
#[tokio::test(flavor = "multi_thread")]
async fn cut_text_waits_for_its_rest() {
    let (stage, here, there) = (Stage::joining(StreamRule::None), place("main"), place("other"));
    let process = stage.start().await;
    let long = |place, text: &str| InboundMessage { may_continue: true, ..message(place, "1", text) };
    let started = Instant::now();
    process.hears(&long(&here, "a long")).await;
    process.hears(&long(&there, "alone")).await;
    // So long the platform takes for the rest.
    sleep(Duration::from_millis(150)).await;
    process.hears(&message(&here, "2", "text")).await;
    wait_until("the answer without a rest", || !stage.chat.log(&there).is_empty()).await;
    let alone = started.elapsed();
    wait_until("the answer to both", || !stage.chat.log(&here).is_empty()).await;
    let both = started.elapsed();
    assert!(alone >= Duration::from_millis(1_499) && both >= Duration::from_millis(1_649), "{alone:?} {both:?}");
    process.settles().await;
    assert_eq!(
        (stage.chat.log(&here), stage.chat.log(&there)),
        (vec!["re: a long\ntext".to_owned()], vec!["re: alone".to_owned()])
    );
    assert_eq!(*stage.model.asked.borrow(), 2, "no call was dropped");
}
