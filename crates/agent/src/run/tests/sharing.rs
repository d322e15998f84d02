//! Turns into which other people's messages are put: in whose name their calls run, and with which rights.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use satchel_domain::{Ending, InboxId, ReminderId, Sender, SystemTask, ToolOutcome};
use satchel_ports::{
    ChangeOutcome, FileAction, FileChange, SafetyTier,
    ledger::{JournalEntry, QueuedMessage, SteeringMessage},
};
use serde_json::json;
use uuid::Uuid;

use super::{
    recorded,
    stage::{Played, Stage, calls, code_of, says, tool, tool_that_calls, waiting},
};
use crate::SteeringMode;

/// For whom each call ran, and whether the model had read texts of others too.
type SeenRequesters = Arc<Mutex<Vec<String>>>;

fn message_by(person: &str, id: u128, text: &str) -> QueuedMessage {
    let mut message = waiting(id, text);
    message.message.sender = Sender::new(person, person);
    message
}

/// A stage whose model writes a file in each of so many answers.
fn file_writing_turn(times: usize) -> (Stage, SeenRequesters) {
    let answers = (0..times).map(|_| calls(&[("write", json!({}))])).chain([says("Done.")]);
    let mut stage = Stage::with_model(answers.collect());
    let seen = SeenRequesters::default();
    let requesters = Arc::clone(&seen);
    stage.tools.push(tool_that_calls("write", SafetyTier::SideEffecting, move |_, context| {
        assert!(!context.group, "several people make no group of a conversation");
        requesters.lock().unwrap().push(format!("{} {}", context.requester.id, context.is_shared));
        let change = FileChange::started(context.requester.clone(), "write", FileAction::Write, None);
        context.changes.start(change).finish(None, ChangeOutcome::Done);
        async { Ok(ToolOutcome::from_text("written")) }
    }));
    (stage, seen)
}

/// The people whom the audit log names, a line for each call with an outcome.
fn audited(played: &Played) -> Vec<Vec<&str>> {
    let calls = played.changes.iter();
    calls.map(|(_, changes)| changes.iter().map(|change| change.person.id.as_str()).collect()).collect()
}

/// The attack: somebody speaks a second after the owner, and what they want is done in the owner's name.
#[tokio::test(start_paused = true)]
async fn calls_run_for_last_sender() {
    let (mut stage, seen) = file_writing_turn(2);
    // It is read once the first call has run.
    stage.turn.has_followers = false;
    stage.arrives_after(Duration::ZERO, message_by("ben", 3, "and that"));
    let played = stage.play().await;
    assert_eq!(*seen.lock().unwrap(), ["owner false", "ben true"]);
    assert_eq!(audited(&played), [["owner"], ["ben"]]);

    let (mut stage, seen) = file_writing_turn(1);
    stage.arrives_after(Duration::ZERO, message_by("owner", 3, "and that"));
    stage.play().await;
    assert_eq!(*seen.lock().unwrap(), ["owner false"], "one person stays alone");
}

/// The text of a schedule is nobody's: a person who writes into its turn requests for themselves.
#[tokio::test(start_paused = true)]
async fn schedules_calls_run_for_who_speaks_to_it() {
    let (mut stage, seen) = file_writing_turn(1);
    let task = SystemTask::RunSchedule { name: "report".to_owned(), due: "today".to_owned() };
    stage.turn.messages = vec![message_by("satchel", 2, "please")];
    stage.turn.messages[0].message.system_task = Some(task);
    stage.arrives_after(Duration::ZERO, message_by("ben", 3, "and that"));
    stage.play().await;
    assert_eq!(*seen.lock().unwrap(), ["ben false"]);
}

/// Mutation: a person who writes into the turn of a reminder and wants another one gets none, or the reminder itself gets one.
#[tokio::test(start_paused = true)]
async fn only_untouched_turns_of_reminders_are_scheduled() {
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let mut stage =
        Stage::with_model(vec![calls(&[("look", json!({}))]), calls(&[("look", json!({}))]), says("Done.")]);
    let calls_seen = Arc::clone(&seen);
    stage.tools.push(tool_that_calls("look", SafetyTier::ReadOnly, move |_, context| {
        calls_seen.lock().unwrap().push(context.scheduled);
        async { Ok(ToolOutcome::from_text("seen")) }
    }));
    let (reminder, due) = (ReminderId(3), "today".to_owned());
    stage.turn.messages[0].message.system_task = Some(SystemTask::RunReminder { reminder, due, origin: None });
    // It is read once the first call has run.
    stage.turn.has_followers = false;
    stage.arrives_after(Duration::ZERO, message_by("owner", 3, "and remind me again"));
    stage.play().await;
    assert_eq!(*seen.lock().unwrap(), [true, false]);
}

/// Mutation: workers and models are shared as if the first sender had requested all, or a program that is called as Satchel is
/// counts as nobody.
#[tokio::test(start_paused = true)]
async fn work_is_shared_for_the_last_sender() {
    let shares: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let mut stage =
        Stage::with_model(vec![calls(&[("look", json!({}))]), calls(&[("look", json!({}))]), says("Done.")]);
    let seen = Arc::clone(&shares);
    stage.tools.push(tool_that_calls("look", SafetyTier::ReadOnly, move |_, context| {
        seen.lock().unwrap().push(context.work_share.person);
        async { Ok(ToolOutcome::from_text("seen")) }
    }));
    let task = SystemTask::RunSchedule { name: "report".to_owned(), due: "today".to_owned() };
    stage.turn.messages = vec![message_by("satchel", 2, "please")];
    stage.turn.messages[0].message.system_task = Some(task);
    // It is read once the first call has run.
    stage.turn.has_followers = false;
    stage.arrives_after(Duration::ZERO, message_by("satchel", 3, "and that"));
    let played = stage.play().await;
    let person = Some("satchel".to_owned());
    assert_eq!(*shares.lock().unwrap(), [None, person.clone()]);
    let of_models: Vec<_> = played.requests.iter().map(|request| request.work_share.clone()?.person).collect();
    assert_eq!(of_models, [None, person.clone(), person]);
}

/// Mutation: the process that resumes a turn finds the person in its first message alone.
#[tokio::test(start_paused = true)]
async fn resumed_calls_run_for_last_sender() {
    let (mut stage, seen) = file_writing_turn(0);
    let steered = SteeringMessage {
        id: InboxId(Uuid::from_u128(3)),
        sender: Sender::new("ben", "Ben"),
        text: "and that".to_owned(),
        origin: None,
    };
    let mut journal = vec![JournalEntry::Model {
        steered: vec![steered],
        text: String::new(),
        calls: vec![recorded("gone", 0)],
        awaiting_decision: vec![],
        agent: None,
        task: None,
        changing_calls: Some(vec![0]),
    }];
    stage.turn.journal = journal.clone();
    assert_eq!(audited(&stage.play().await), [["ben"]]);
    assert_eq!(*seen.lock().unwrap(), [""; 0]);

    // It was waiting for a decision, so it runs now.
    if let JournalEntry::Model { calls, awaiting_decision, .. } = &mut journal[0] {
        (*calls, *awaiting_decision) = (vec![recorded("write", 0)], vec![0]);
    }
    let (mut stage, seen) = file_writing_turn(0);
    stage.turn.journal = journal;
    let allow = format!("/allow {}", code_of(&recorded("write", 0)));
    stage.arrives_after(Duration::from_secs(5), message_by("ben", 5, &allow));
    stage.play().await;
    assert_eq!(*seen.lock().unwrap(), ["ben true"]);
}

/// Mutation: the first sender decides for everybody, and so may allow what somebody else wants.
#[tokio::test(start_paused = true)]
async fn question_goes_to_last_sender() {
    let (mut stage, seen) = file_writing_turn(1);
    stage.settings.confirm_tiers = vec![SafetyTier::SideEffecting];
    stage.arrives_after(Duration::ZERO, message_by("ben", 3, "and that"));
    let allow = format!("/allow {}", code_of(&recorded("write", 0)));
    stage.arrives_after(Duration::from_secs(5), message_by("owner", 5, &allow));
    stage.arrives_after(Duration::from_secs(20), message_by("ben", 6, &allow));
    let played = stage.play().await;
    assert_eq!(*seen.lock().unwrap(), ["ben true"]);
    assert!(played.log.contains(&"journal decision Allowed by `ben`: `write`".to_owned()), "{:?}", played.log);
    let consumed = [3, 6].map(|id| InboxId(Uuid::from_u128(id)));
    assert_eq!(played.completed.steered, consumed, "the word of another is not taken");
}

#[tokio::test(start_paused = true)]
async fn privileged_call_of_several_people_is_refused() {
    for (person, is_refused) in [("ben", true), ("owner", false)] {
        let mut stage = Stage::with_model(vec![calls(&[("vault", json!({}))]), says("Done.")]);
        stage.tools.push(tool("vault", SafetyTier::Privileged, |_| async { Ok(ToolOutcome::from_text("the secret")) }));
        stage.arrives_after(Duration::ZERO, message_by(person, 3, "open it"));
        let played = stage.play().await;
        let answers = played.answers(1);
        let refused = answers[0].contains("can't be used in a chat that other people can read");
        assert_eq!((refused, played.questions.len()), (is_refused, usize::from(!is_refused)), "{answers:?}");
    }
}

/// Mutation: somebody else reads what is meant for owners, because an owner wrote first.
#[tokio::test(start_paused = true)]
async fn only_owners_among_themselves_read_why_a_model_failed() {
    for (person, wanted) in [("boss", "set `models.main.api_key`"), ("ben", "ask the person who runs this bot")] {
        let mut stage = Stage::with_model(vec![vec![Err("no key")]]);
        stage.turn.messages = vec![message_by("boss", 2, "please")];
        stage.arrives_after(Duration::ZERO, message_by(person, 3, "and that"));
        let ending = stage.play().await.completed.ending;
        assert!(matches!(&ending, Ending::ModelFailed { reason } if reason.contains(wanted)), "{person}: {ending:?}");
    }
}

/// What a job answers is its own message: the screen on which others type shows them the answers to theirs.
#[tokio::test(start_paused = true)]
async fn nothing_is_injected_where_a_process_answers_its_own_message() {
    for has_followers in [true, false] {
        let (mut stage, seen) = file_writing_turn(2);
        stage.settings.steering = SteeringMode::Never;
        stage.turn.has_followers = has_followers;
        stage.arrives_after(Duration::ZERO, message_by("ben", 3, "and that"));
        let played = stage.play().await;
        assert_eq!(*seen.lock().unwrap(), ["owner false", "owner false"]);
        assert_eq!(played.completed.steered, []);
    }

    let (mut stage, seen) = file_writing_turn(2);
    stage.settings.steering = SteeringMode::Never;
    stage.arrives_after(Duration::ZERO, message_by("ben", 3, "/stop"));
    let played = stage.play().await;
    assert_eq!((played.completed.ending, seen.lock().unwrap().len()), (Ending::Cancelled, 0), "others may stop it");
}
