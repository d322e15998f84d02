//! Reminders that a turn's calls make and cancel, and turns that reminders start: what people and the model read of them.

use std::time::Duration;

use satchel_domain::{
    HistoryMessage, OutcomeNotice, ReminderAuthor, ReminderContent, ReminderId, ReminderOrigin, Sender, SystemTask,
    Timestamp, ToolOutcome,
};
use satchel_ports::{
    SafetyTier,
    ledger::{HistoryChange, JournalEntry, Reminder},
};
use serde_json::json;

use super::{
    recorded,
    stage::{Stage, calls, says, text_of, tool, waiting},
};

const MADE: &str = "I set reminder 3 for Friday at 09:00: `tea`. `/schedules cancel 3` cancels it.";
const CANCELLED: &str = "I cancelled reminder 2, due Friday at 08:00: `coffee`.";

fn notices() -> Vec<OutcomeNotice> {
    let made = OutcomeNotice { made: Some(ReminderId(3)), cancelled: None, text: MADE.to_owned() };
    vec![made, OutcomeNotice { made: None, cancelled: Some(ReminderId(2)), text: CANCELLED.to_owned() }]
}

/// A turn whose model has a tool make one reminder and cancel another.
fn turn_with_reminders() -> Stage {
    let mut stage = Stage::with_model(vec![calls(&[("plant", json!({}))])]);
    stage.tools.push(tool("plant", SafetyTier::SideEffecting, |_| async {
        Ok(ToolOutcome { notices: notices(), ..ToolOutcome::from_text("done") })
    }));
    stage
}

fn stored_reminder(id: u64) -> Reminder {
    Reminder {
        id: ReminderId(id),
        conversation: "console:main".parse().unwrap(),
        person: Sender::new("owner", "Owner"),
        group: false,
        content: ReminderContent::Message { text: "tea".to_owned(), files: Vec::new() },
        next_at: Timestamp(1_795_453_500_000),
        cron: None,
        timezone: None,
        author: ReminderAuthor::Model,
        made_at: Some(Timestamp(0)),
    }
}

/// The attack: a document has the model make reminders, and say nothing of it.
#[tokio::test(start_paused = true)]
async fn reply_names_made_and_cancelled_reminders() {
    let mut stage = turn_with_reminders().then(says("A fine letter."));
    // Each is named once, though the ledger has them, too.
    stage.made_reminders = vec![stored_reminder(3)];
    stage.cancelled_reminders = vec![stored_reminder(2)];
    let played = stage.play().await;
    let text = played.completed.response.text.unwrap();
    assert_eq!(text, format!("A fine letter.\n\n{MADE}\n\n{CANCELLED}"));

    // And where the turn is stopped before the model says anything.
    let mut stage = turn_with_reminders().then(calls(&[("hangs", json!({}))]));
    stage.tools.push(tool("hangs", SafetyTier::ReadOnly, |_| std::future::pending()));
    stage.arrives_after(Duration::from_secs(3), waiting(9, "/stop"));
    let text = stage.play().await.completed.response.text.unwrap();
    assert_eq!(text, format!("Stopped, as you asked.\n\n{MADE}\n\n{CANCELLED}"));
}

/// A turn whose process died while it ran the call that makes and cancels reminders.
fn interrupted_turn() -> Stage {
    let mut stage = turn_with_reminders();
    stage.answers_next(says("A fine letter."));
    stage.turn.journal = vec![JournalEntry::Model {
        steered: vec![],
        text: String::new(),
        calls: vec![recorded("plant", 0)],
        awaiting_decision: vec![],
        agent: None,
        task: None,
        changing_calls: Some(vec![0]),
    }];
    stage
}

/// A process dies between the reminder and the outcome of its call.
#[tokio::test(start_paused = true)]
async fn reminder_of_interrupted_call_is_named() {
    let mut stage = interrupted_turn();
    stage.made_reminders = vec![stored_reminder(7)];
    let text = stage.play().await.completed.response.text.unwrap();
    let named =
        "I set reminder 7 for Tuesday 2026-11-24 at 02:05 (Asia/Tokyo): `tea`. `/schedules cancel 7` cancels it.";
    assert_eq!(text, format!("A fine letter.\n\n{named}"));
}

/// The attack: a call that cancels a reminder is cut off before its outcome is recorded, and the reply says nothing of it.
#[tokio::test(start_paused = true)]
async fn cancellation_of_interrupted_call_is_named() {
    let mut stage = interrupted_turn();
    let in_own_zone = Reminder { timezone: Some("UTC".to_owned()), ..stored_reminder(8) };
    stage.cancelled_reminders = vec![stored_reminder(7), in_own_zone];
    let text = stage.play().await.completed.response.text.unwrap();
    let first = "I cancelled reminder 7, due Tuesday 2026-11-24 at 02:05 (Asia/Tokyo): `tea`.";
    let second = "I cancelled reminder 8, due Monday 2026-11-23 at 17:05 (UTC): `tea`.";
    assert_eq!(text, format!("A fine letter.\n\n{first}\n\n{second}"));
}

/// The attack: a prompt that a document has had planted is read as the person's words.
#[tokio::test(start_paused = true)]
async fn reminder_prompt_is_marked_as_a_models() {
    let origin = ReminderOrigin { author: ReminderAuthor::Model, made: Some("Friday".to_owned()), repeats: true };
    for origin in [Some(origin), None] {
        let mut stage = Stage::with_model(vec![says("Good night!")]);
        let (reminder, due) = (ReminderId(3), "Monday".to_owned());
        let made = origin.as_ref().map_or("", |_| " on Friday");
        stage.turn.messages[0].message.system_task = Some(SystemTask::RunReminder { reminder, due, origin });
        let played = stage.play().await;
        let note = format!("it is a reminder that a model wrote{made} for its sender, who may never have read it");
        let request = &played.requests[0].messages;
        assert!(request.iter().map(text_of).any(|text| text.contains(&note)), "{request:?}");
        let HistoryChange::Append(history) = &played.completed.history else { panic!("history is appended to") };
        let is_note = |message: &HistoryMessage| match message {
            HistoryMessage::Note { text } => text.contains(&note),
            _ => false,
        };
        assert!(history.iter().any(is_note), "later turns read it, too: {history:?}");
        let text = played.completed.response.text.unwrap();
        let expected = format!("Good night!\n\nThis is from reminder 3. I set it{made}, in a reply to you.");
        assert!(text.starts_with(&expected), "{text}");
        assert_eq!(text.contains("`/schedules cancel 3` ends it."), !made.is_empty());
    }
}
