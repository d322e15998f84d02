//! A process that stops between the calls of a message, and what the next one makes of them.

use std::time::Duration;

use satchel_domain::{InboxId, ToolCall};
use satchel_ports::ledger::JournalEntry;
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    ordering::{INTERRUPTED, Steps, UNSTARTED, call, stage_with_steps, tool_results},
    recorded,
    stage::{Stage, StageRecord, code_of, says, waiting},
};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The process after the one that has left this journal.
fn next_process(journal: Vec<JournalEntry>) -> (Stage, Steps) {
    let (mut stage, steps) = stage_with_steps(&[]);
    stage.answers_next(says("Done."));
    stage.turn.journal = journal;
    (stage, steps)
}

/// A stage with a call that reads for so long, beside which a person is asked about another one and allows it.
fn stage_with_question(reads_for: u64, allowed_after: Duration) -> (Stage, Steps) {
    let requested = [call("look", "slow", reads_for), call("vault", "secret", 0)];
    let (mut stage, steps) = stage_with_steps(&requested);
    let asked_about = ToolCall { arguments: requested[1].1.clone(), ..recorded("vault", 1) };
    stage.arrives_after(allowed_after, waiting(90, &format!("/allow {}", code_of(&asked_about))));
    (stage, steps)
}

/// Mutation: the second call starts during the stop and is cut off, or counts as one that may have run.
#[tokio::test(start_paused = true)]
async fn stop_ends_with_the_running_call_and_the_next_process_makes_the_rest() {
    let (stage, steps) =
        stage_with_steps(&[call("write", "first", 15), call("write", "second", 15), call("look", "third", 0)]);
    let started_at = Instant::now();
    let stopped = stage.play_until_stop(seconds(5)).await;
    assert!(started_at.elapsed() < seconds(16), "it waits for the running call alone: {:?}", started_at.elapsed());
    assert_eq!(*steps.lock().unwrap(), ["first starts", "first ends"]);
    assert_eq!(stopped.log, ["journal message", "journal outcome 0"]);

    let (stage, steps) = next_process(stopped.journal);
    let played = stage.play().await;
    assert_eq!(*steps.lock().unwrap(), ["second starts", "second ends", "third starts", "third ends"]);
    assert_eq!(played.answers(0), ["first", "second", "third"]);
}

/// Mutation: an allowed call starts when the call before it ends, or its decision counts as its start.
#[tokio::test(start_paused = true)]
async fn call_that_is_allowed_during_the_stop_runs_in_the_next_process() {
    let (stage, steps) = stage_with_question(15, seconds(8));
    let stopped = stage.play_until_stop(seconds(5)).await;
    assert_eq!(*steps.lock().unwrap(), ["slow starts", "slow ends"]);
    let decided = "journal decision Allowed by `Owner`: `vault`".to_owned();
    assert!(stopped.log.contains(&decided), "{:?}", stopped.log);

    let (stage, steps) = next_process(stopped.journal);
    let played = stage.play().await;
    assert_eq!(*steps.lock().unwrap(), ["secret starts", "secret ends"]);
    assert!(played.questions.is_empty(), "the person has decided: {:?}", played.log);
    assert_eq!(played.answers(0), ["slow", "secret"]);
    assert_eq!(played.completed.steered, [InboxId(Uuid::from_u128(90))]);
}

/// Mutation: the second question is opened beside the first one, and its answer counts as the start of a call that the stop
/// prevents.
#[tokio::test(start_paused = true)]
async fn call_of_an_earlier_version_is_asked_about_when_it_can_run() {
    let [first, second] = [("first", 0), ("second", 1)]
        .map(|(name, ordinal)| ToolCall { arguments: json!({ "name": name }), ..recorded("vault", ordinal) });
    let allow = |call: &ToolCall| waiting(90 + u128::from(call.id.ordinal), &format!("/allow {}", code_of(call)));
    let mut journal = vec![JournalEntry::Model {
        steered: vec![],
        text: String::new(),
        calls: vec![first.clone(), second.clone()],
        awaiting_decision: vec![0, 1],
        agent: None,
        task: None,
        changing_calls: None,
    }];
    let (mut stage, steps) = next_process(journal.clone());
    stage.arrives_after(seconds(2), allow(&second));
    let stopped = stage.play_until_stop(seconds(5)).await;
    assert!(steps.lock().unwrap().is_empty(), "the first is not decided: {:?}", stopped.log);
    journal.extend(stopped.journal);

    let (mut stage, steps) = next_process(journal);
    stage.arrives_after(Duration::ZERO, allow(&second));
    stage.arrives_after(seconds(2), allow(&first));
    let played = stage.play().await;
    assert_eq!(*steps.lock().unwrap(), ["first starts", "first ends", "second starts", "second ends"]);
    assert_eq!(played.answers(0), ["first", "second"]);
}

/// Mutation: the first failure of the ledger in a question ends the calls beside it, for which the stop waits.
#[tokio::test(start_paused = true)]
async fn failing_ledger_in_a_question_leaves_the_running_call_its_time() {
    for verb in ["load_question_key", "open_question", "journal_decision"] {
        let (mut stage, steps) = stage_with_question(10, seconds(2));
        stage.refused_verb = Some(verb);
        let StageRecord { log, completed, .. } = stage.play_until_stop(seconds(3)).await;
        assert_eq!(*steps.lock().unwrap(), ["slow starts", "slow ends"], "{verb}");
        assert!(completed.is_none() && log.contains(&"journal outcome 0".to_owned()), "{verb}: {log:?}");
    }
}

/// A person may still stop a turn that waits for its last call.
#[tokio::test(start_paused = true)]
async fn turn_that_is_stopped_during_the_stop_says_what_never_started() {
    let (mut stage, steps) = stage_with_steps(&[call("write", "long", 15), call("write", "next", 0)]);
    stage.arrives_after(seconds(5), waiting(9, "/stop"));
    let stopped = stage.play_until_stop(seconds(3)).await;
    assert_eq!(*steps.lock().unwrap(), ["long starts"]);
    let completed = stopped.completed.expect("the person has ended the turn");
    assert_eq!(tool_results(&completed), [(INTERRUPTED.to_owned(), 0), (UNSTARTED.to_owned(), 0)]);
}

/// Mutation: a call is recorded as started behind its beginning, or not at all, so that a kill makes it run twice; or
/// before it may run, so that it is left out.
#[tokio::test(start_paused = true)]
async fn kill_behind_any_record_repeats_no_change_and_leaves_none_out() {
    let requested =
        [call("look", "see", 0), call("write", "one", 0), call("write", "two", 0), call("look", "again", 0)];
    let undisturbed = stage_with_steps(&requested).0.play_until_stop(seconds(60)).await;
    let journal = undisturbed.journal;
    assert_eq!(journal.len(), 7, "a message, two starts and four outcomes: {journal:?}");
    for kept in 1..=journal.len() {
        let left = journal[..kept].to_vec();
        let (stage, steps) = next_process(left.clone());
        let answers = stage.play().await.answers(0);
        for (ordinal, name) in [(1, "one"), (2, "two")] {
            let may_have_run = left.contains(&JournalEntry::CallStarted { ordinal });
            let runs = steps.lock().unwrap().contains(&format!("{name} starts"));
            assert_eq!(runs, !may_have_run, "{name} behind {kept} records: {answers:?}");
        }
        let unknown = answers.iter().filter(|answer| answer.contains("outcome unknown")).count();
        assert!(unknown <= 1, "{unknown} behind {kept} records: {answers:?}");
    }
}
