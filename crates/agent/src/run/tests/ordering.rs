//! The order in which the calls of one message run, also after a stop, a question and a crash.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use satchel_domain::{HistoryMessage, InboxId, ToolOutcome};
use satchel_ports::{
    SafetyTier,
    ledger::{CompletedTurn, HistoryChange, JournalEntry},
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    recorded,
    stage::{Played, Stage, calls, code_of, file, says, tool, waiting},
};
use crate::run::MAX_CRASHES;

/// What the history says of a call that was cut off, and of one that never started.
pub(super) const INTERRUPTED: &str = "error: interrupted when the turn ended; it may have taken effect";
pub(super) const UNSTARTED: &str = "error: the turn ended before this call could start; it has changed nothing";

/// What the tools of a stage did, in order.
pub(super) type Steps = Arc<Mutex<Vec<String>>>;

/// A stage with the tools `look`, which only reads, and `write` and `vault`, which don't. Each takes as many seconds as its
/// call says.
pub(super) fn stage_with_steps(requested: &[(&str, Value)]) -> (Stage, Steps) {
    let mut stage = Stage::with_model(vec![calls(requested), says("Done.")]);
    let steps = Steps::default();
    let tiers =
        [("look", SafetyTier::ReadOnly), ("write", SafetyTier::SideEffecting), ("vault", SafetyTier::Privileged)];
    for (name, tier) in tiers {
        let steps = Arc::clone(&steps);
        stage.tools.push(tool(name, tier, move |arguments| {
            let steps = Arc::clone(&steps);
            async move {
                let name = arguments["name"].as_str().unwrap_or(name).to_owned();
                steps.lock().unwrap().push(format!("{name} starts"));
                // Under paused time: the longest call ends last.
                tokio::time::sleep(Duration::from_secs(arguments["takes"].as_u64().unwrap_or(0))).await;
                steps.lock().unwrap().push(format!("{name} ends"));
                Ok(ToolOutcome::from_text(name))
            }
        }));
    }
    (stage, steps)
}

pub(super) fn call(tool: &'static str, name: &str, takes: u64) -> (&'static str, Value) {
    (tool, json!({ "name": name, "takes": takes }))
}

/// What the history says of the calls of a turn, and how many files it gives each.
pub(super) fn tool_results(completed: &CompletedTurn) -> Vec<(String, usize)> {
    let HistoryChange::Append(history) = &completed.history else { panic!("history is appended to") };
    let results = history.iter().filter_map(|message| match message {
        HistoryMessage::Tool { text, attachments, .. } => Some((text.clone(), attachments.len())),
        _ => None,
    });
    results.collect()
}

async fn play(requested: &[(&str, Value)]) -> (Played, Vec<String>) {
    let (stage, steps) = stage_with_steps(requested);
    let played = stage.play().await;
    let steps = steps.lock().unwrap().clone();
    (played, steps)
}

#[tokio::test(start_paused = true)]
async fn changing_calls_run_in_the_models_order() {
    let (played, steps) = play(&[call("write", "slow", 5), call("write", "quick", 1), call("write", "last", 0)]).await;
    assert_eq!(steps, ["slow starts", "slow ends", "quick starts", "quick ends", "last starts", "last ends"]);
    let recorded =
        ["journal outcome 0", "journal start 1", "journal outcome 1", "journal start 2", "journal outcome 2"];
    assert_eq!(played.log[1..6], recorded, "each outcome is recorded before the next call starts");
    assert_eq!(played.answers(1), ["slow", "quick", "last"]);
}

#[tokio::test(start_paused = true)]
async fn reading_calls_wait_for_changes_but_not_for_each_other() {
    let requested = [
        call("look", "before", 2),
        call("look", "beside", 1),
        call("write", "change", 3),
        call("look", "after", 2),
        call("look", "beside it", 1),
    ];
    let started_at = tokio::time::Instant::now();
    let (_, steps) = play(&requested).await;
    assert_eq!(
        steps,
        [
            "before starts",
            "beside starts",
            "beside ends",
            "before ends",
            "change starts",
            "change ends",
            "after starts",
            "beside it starts",
            "beside it ends",
            "after ends",
        ]
    );
    assert!(started_at.elapsed() < Duration::from_secs(8), "2 + 3 + 2 seconds: {:?}", started_at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn failed_call_holds_no_other_back() {
    let (played, steps) = play(&[("missing", json!({})), ("write", json!("no object")), call("look", "next", 0)]).await;
    assert_eq!(steps, ["next starts", "next ends"]);
    let answers = played.answers(1);
    assert!(answers[0].contains("there is no tool `missing`") && answers[1].contains("must be a JSON object"));
    assert_eq!(answers[2], "next");
}

/// Mutation: a call that waits for its turn starts when the one before it is cut off, or is recorded as if it had run.
#[tokio::test(start_paused = true)]
async fn stop_leaves_waiting_calls_unstarted() {
    let (mut stage, steps) = stage_with_steps(&[call("write", "long", 60), call("write", "next", 0)]);
    stage.made = vec![file(1, "made.txt")];
    stage.arrives_after(Duration::from_secs(3), waiting(9, "/stop"));
    let played = stage.play().await;
    assert_eq!(*steps.lock().unwrap(), ["long starts"]);
    assert_eq!(tool_results(&played.completed), [(INTERRUPTED.to_owned(), 1), (UNSTARTED.to_owned(), 0)]);
}

/// Mutation: a question that nobody has answered when the turn is stopped counts as a call that ran.
#[tokio::test(start_paused = true)]
async fn stop_during_a_question_leaves_its_call_unstarted() {
    let (mut stage, steps) = stage_with_steps(&[call("vault", "secret", 0)]);
    stage.arrives_after(Duration::from_secs(3), waiting(9, "/stop"));
    let played = stage.play().await;
    assert_eq!((steps.lock().unwrap().len(), played.questions.len()), (0, 1));
    assert_eq!(tool_results(&played.completed), [(UNSTARTED.to_owned(), 0)]);
}

#[tokio::test(start_paused = true)]
async fn questions_are_open_together_and_their_calls_run_in_order() {
    let requested = [call("vault", "first", 1), call("vault", "second", 0), call("look", "after", 0)];
    let (mut stage, steps) = stage_with_steps(&requested);
    // The second is allowed a minute before the first.
    for (after, ordinal) in [(5, 1), (65, 0)] {
        let (name, arguments) = &requested[ordinal];
        let asked_about = satchel_domain::ToolCall {
            arguments: arguments.clone(),
            ..recorded(name, u32::try_from(ordinal).unwrap())
        };
        let allowed = waiting(90 + u128::from(after), &format!("/allow {}", code_of(&asked_about)));
        stage.arrives_after(Duration::from_secs(after), allowed);
    }
    let played = stage.play().await;
    let questions = played.log.iter().take_while(|line| !line.starts_with("journal decision"));
    assert_eq!(questions.filter(|line| line.starts_with("ask")).count(), 2, "{:?}", played.log);
    assert_eq!(
        *steps.lock().unwrap(),
        ["first starts", "first ends", "second starts", "second ends", "after starts", "after ends"]
    );
}

/// A question must still be true when it is answered: the changes of the call before it come first.
#[tokio::test(start_paused = true)]
async fn question_waits_for_an_earlier_change() {
    let (stage, _) = stage_with_steps(&[call("write", "change", 5), call("vault", "secret", 0)]);
    let played = stage.play().await;
    let at = |prefix: &str| played.log.iter().position(|line| line.starts_with(prefix));
    let order = [at("journal outcome 0"), at("ask May I use `vault`?")];
    assert!(order[0].is_some() && order.is_sorted(), "{:?}", played.log);
}

fn interrupted(calls: &[(&str, u32)], awaiting_decision: Vec<u32>) -> (Stage, Steps) {
    let (mut stage, steps) = stage_with_steps(&[]);
    stage.answers_next(says("Done."));
    let changing_calls = calls.iter().filter(|(name, _)| *name != "look").map(|(_, ordinal)| *ordinal).collect();
    stage.turn.journal = vec![JournalEntry::Model {
        steered: vec![],
        text: String::new(),
        calls: calls.iter().map(|(name, ordinal)| recorded(name, *ordinal)).collect(),
        awaiting_decision,
        agent: None,
        task: None,
        changing_calls: Some(changing_calls),
    }];
    (stage, steps)
}

/// Mutation: a call that had to wait for the interrupted one is reported as if it might have run, and never runs.
#[tokio::test(start_paused = true)]
async fn calls_behind_an_interrupted_one_run_after_a_crash() {
    let (mut stage, steps) = interrupted(&[("look", 0), ("write", 1), ("write", 2), ("look", 3)], vec![]);
    stage.turn.journal.push(JournalEntry::Outcome { ordinal: 0, outcome: ToolOutcome::from_text("seen") });
    stage.turn.journal.push(JournalEntry::CallStarted { ordinal: 1 });
    let played = stage.play().await;
    assert_eq!(*steps.lock().unwrap(), ["write starts", "write ends", "look starts", "look ends"]);
    let answers = played.answers(0);
    assert!(answers[1].starts_with("error: outcome unknown: Satchel was interrupted while `write` ran"), "{answers:?}");
    assert_eq!([&answers[2], &answers[3]], ["write", "look"]);
}

/// Mutation: the order of this version is read into the record of an earlier one, which started all calls at once.
#[tokio::test(start_paused = true)]
async fn calls_of_an_earlier_version_may_all_have_started() {
    let (mut stage, steps) = interrupted(&[("write", 0), ("write", 1), ("look", 2)], vec![]);
    let mut stored = serde_json::to_value(&stage.turn.journal[0]).unwrap();
    assert_eq!(stored.as_object_mut().unwrap().remove("changing_calls"), Some(json!([0, 1])));
    stage.turn.journal[0] = serde_json::from_value(stored).unwrap();
    let played = stage.play().await;
    assert_eq!(*steps.lock().unwrap(), ["look starts", "look ends"]);
    let answers = played.answers(0);
    assert!(answers[..2].iter().all(|answer| answer.starts_with("error: outcome unknown")), "{answers:?}");
}

/// Mutation: the tools of now decide what the record of another version proves, and a call that it started beside the first is
/// made again.
#[tokio::test(start_paused = true)]
async fn reader_that_changes_something_since_an_update_is_not_made_again() {
    let read_by_earlier_tools = |calls: &[(&str, u32)]| {
        let (mut stage, steps) = interrupted(calls, vec![]);
        let JournalEntry::Model { changing_calls, .. } = &mut stage.turn.journal[0] else { panic!("a message") };
        *changing_calls = Some(vec![]);
        (stage, steps)
    };
    let (stage, steps) = read_by_earlier_tools(&[("look", 0), ("write", 1), ("write", 2)]);
    let answers = stage.play().await.answers(0);
    assert_eq!(*steps.lock().unwrap(), ["look starts", "look ends"]);
    assert!(answers[1..].iter().all(|answer| answer.starts_with("error: outcome unknown")), "{answers:?}");

    let (mut stage, _) = read_by_earlier_tools(&[("write", 0), ("look", 1)]);
    stage.turn.crashes = MAX_CRASHES;
    let completed = stage.play().await.completed;
    assert_eq!(tool_results(&completed), [(INTERRUPTED.to_owned(), 0), (INTERRUPTED.to_owned(), 0)]);
}

/// Mutation: a turn that ends without resuming its calls says of those that never started that they may have taken effect,
/// and gives them files that they can't have made.
#[tokio::test(start_paused = true)]
async fn ended_turn_suspects_only_calls_that_may_have_started() {
    let (interrupted_call, unstarted) = ((INTERRUPTED.to_owned(), 0), (UNSTARTED.to_owned(), 0));
    let with_file = (INTERRUPTED.to_owned(), 1);
    let ends: [fn(&mut Stage); 3] = [
        |stage| stage.arrives_after(Duration::ZERO, waiting(9, "/stop")),
        |stage| stage.turn.crashes = MAX_CRASHES,
        |stage| {
            let JournalEntry::Model { agent, .. } = &mut stage.turn.journal[0] else { panic!("a message") };
            *agent = Some("removed".to_owned());
        },
    ];
    for (requested, awaiting_decision, expected) in [
        (vec![("vault", 0)], vec![0], vec![unstarted.clone()]),
        (
            vec![("write", 0), ("write", 1), ("look", 2)],
            vec![],
            vec![with_file.clone(), unstarted.clone(), unstarted.clone()],
        ),
        (vec![("look", 0), ("look", 1), ("write", 2)], vec![], vec![with_file, interrupted_call, unstarted]),
    ] {
        for end in ends {
            let (mut stage, steps) = interrupted(&requested, awaiting_decision.clone());
            stage.made = vec![file(1, "made.txt")];
            end(&mut stage);
            let completed = stage.play().await.completed;
            assert_eq!(tool_results(&completed), expected, "{:?}", completed.ending);
            let files: usize = expected.iter().map(|(_, files)| files).sum();
            assert_eq!((completed.response.attachments.len(), steps.lock().unwrap().len()), (files, 0));
        }
    }
}

/// Mutation: a call behind readers that have no outcome counts as one that may have run.
#[tokio::test(start_paused = true)]
async fn change_behind_an_interrupted_reader_runs_after_a_crash() {
    let (stage, steps) = interrupted(&[("look", 0), ("write", 1)], vec![]);
    assert_eq!(stage.play().await.answers(0), ["look", "write"]);
    assert_eq!(*steps.lock().unwrap(), ["look starts", "look ends", "write starts", "write ends"]);
}

/// The settings changed while the process was down, and the call had not started.
#[tokio::test(start_paused = true)]
async fn unstarted_call_needs_the_confirmation_of_now() {
    let (mut stage, steps) = interrupted(&[("look", 0), ("write", 1)], vec![]);
    stage.settings.confirm_tiers = vec![SafetyTier::SideEffecting];
    let played = stage.play().await;
    assert_eq!((played.questions.len(), steps.lock().unwrap().len()), (1, 2), "{:?}", played.log);
    assert!(played.answers(0)[1].contains("nobody allowed this call"), "{:?}", played.answers(0));
}

/// A person's decision survives the crash, whether or not the call before it had ended.
#[tokio::test(start_paused = true)]
async fn decision_about_an_unstarted_call_holds_after_a_crash() {
    for (allowed, expected) in [(true, "vault"), (false, "error: the person refused this call")] {
        let (mut stage, _) = interrupted(&[("write", 0), ("vault", 1)], vec![1]);
        let message = InboxId(Uuid::from_u128(7));
        stage.turn.journal.push(JournalEntry::Decided { ordinal: 1, allowed, message });
        let played = stage.play().await;
        assert!(played.answers(0)[1].starts_with(expected), "{:?}", played.answers(0));
        assert_eq!((played.questions.len(), played.completed.steered), (0, vec![message]));
    }
}
