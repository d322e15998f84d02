//! The texts that a model writes before it calls tools: part of the reply, and once in the history.

use std::time::Duration;

use satchel_domain::{Ending, HistoryMessage, ToolOutcome, VoiceRequest, fold::InterimText};
use satchel_ports::{
    ModelEvent, SafetyTier,
    ledger::{ConversationSettings, HistoryChange, JournalEntry},
};
use serde_json::json;

use super::{
    recorded,
    stage::{Played, Stage, calls, file, says, tool, waiting},
};

/// A model that writes a list with its call, and "Saved." once it has the outcome.
fn saving() -> Stage {
    saving_then(says("Saved."))
}

fn saving_then(then: Vec<Result<ModelEvent, &'static str>>) -> Stage {
    let mut answer = says("Milk and bread.");
    answer.pop();
    answer.extend(calls(&[("save", json!({}))]));
    let mut stage = Stage::with_model(vec![answer, then]);
    stage.tools.push(tool("save", SafetyTier::SideEffecting, |_| async {
        Ok(ToolOutcome { attachments: vec![file(1, "list.txt").into()], ..ToolOutcome::from_text("saved") })
    }));
    stage
}

fn reply(played: &Played) -> &str {
    played.completed.response.text.as_deref().unwrap()
}

fn history_texts(played: &Played) -> Vec<&str> {
    let HistoryChange::Append(history) = &played.completed.history else { panic!("history is appended to") };
    let model_texts = history.iter().filter_map(|message| match message {
        HistoryMessage::Model { text, .. } => Some(text.as_str()),
        _ => None,
    });
    model_texts.collect()
}

#[tokio::test(start_paused = true)]
async fn text_before_a_call_is_part_of_the_reply() {
    let played = saving().play().await;
    assert_eq!(reply(&played), "Milk and bread.\n\nSaved.");
    assert_eq!(played.completed.response.attachments, [file(1, "list.txt")]);
    assert_eq!(history_texts(&played), ["Milk and bread.", "Saved."], "the model reads each of them once");
}

#[tokio::test(start_paused = true)]
async fn last_text_alone_replies_where_it_is_set() {
    let mut stage = saving();
    stage.settings.interim_text = InterimText::Last;
    let played = stage.play().await;
    assert_eq!(reply(&played), "Saved.");
    assert_eq!(history_texts(&played), ["Milk and bread.", "Saved."]);
}

#[tokio::test(start_paused = true)]
async fn text_before_a_crash_is_in_the_reply_once() {
    let mut stage = Stage::with_model(vec![says("Saved.")]);
    stage.turn.crashes = 1;
    stage.turn.journal = vec![
        JournalEntry::Model {
            steered: Vec::new(),
            text: "Milk and bread.".into(),
            calls: vec![recorded("save", 0)],
            awaiting_decision: Vec::new(),
            agent: None,
            task: None,
            changing_calls: Some(vec![0]),
        },
        JournalEntry::Outcome { ordinal: 0, outcome: ToolOutcome::from_text("saved") },
    ];
    let played = stage.play().await;
    assert_eq!(reply(&played), "Milk and bread.\n\nSaved.");
    assert_eq!(history_texts(&played), ["Milk and bread.", "Saved."]);
}

#[tokio::test(start_paused = true)]
async fn early_end_keeps_the_texts_before_it() {
    let mut stopped = saving();
    stopped.tools = vec![tool("save", SafetyTier::SideEffecting, |_| std::future::pending())];
    stopped.arrives_after(Duration::from_secs(3), waiting(9, "/stop"));
    let played = stopped.play().await;
    assert_eq!(played.completed.ending, Ending::Cancelled);
    assert_eq!(reply(&played), "Milk and bread.\n\nStopped, as you asked.");

    let played = saving_then(vec![Ok(ModelEvent::Text("Sav".into())), Err("it is down")]).play().await;
    let expected = "Milk and bread.\n\nSav\n\nThe model couldn't finish: it is down";
    assert!(reply(&played).starts_with(expected), "{}", reply(&played));
}

#[tokio::test(start_paused = true)]
async fn spoken_reply_is_the_last_text() {
    let mut stage = saving();
    stage.turn.settings = ConversationSettings { voice_replies: true, ..ConversationSettings::default() };
    let played = stage.play().await;
    assert_eq!(reply(&played), "Milk and bread.\n\nSaved.");
    assert_eq!(played.completed.response.voice, Some(VoiceRequest { text: Some("Saved.".into()) }));
}
