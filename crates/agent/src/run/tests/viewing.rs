//! Files that a tool shows to the model: before its eyes in the turn, in words alone afterwards, delivered never.

use std::sync::{Arc, Mutex};

use satchel_domain::{HistoryMessage, OutcomeFile, ToolOutcome};
use satchel_ports::{
    ModelFile, ModelMessage, SafetyTier, ToolContext,
    ledger::{HistoryChange, InboundFileState, JournalEntry},
};
use serde_json::json;

use super::stage::{Played, Stage, calls, file, recorded_file, says, tool, tool_that_calls};

fn outcome() -> ToolOutcome {
    ToolOutcome {
        viewed_files: vec![OutcomeFile::from(file(5, "beach.jpg")).into()],
        ..ToolOutcome::from_text("beach.jpg")
    }
}

/// The files that stand in the answers of tools, as the model is asked.
fn tool_files(played: &Played, request: usize) -> Vec<ModelFile> {
    let messages = played.requests[request].messages.iter();
    let files = messages.filter_map(|message| match message {
        ModelMessage::Tool { attachments, .. } => Some(attachments.clone()),
        _ => None,
    });
    files.flatten().collect()
}

#[tokio::test(start_paused = true)]
async fn viewed_file_is_not_delivered() {
    let mut stage = Stage::with_model(vec![calls(&[("view", json!({}))]), says("A beach.")]);
    stage.tools.push(tool("view", SafetyTier::ReadOnly, |_| async { Ok(outcome()) }));
    let played = stage.play().await;
    assert_eq!(tool_files(&played, 1), [ModelFile::from(file(5, "beach.jpg"))]);
    assert!(played.completed.response.attachments.is_empty());
    let HistoryChange::Append(history) = &played.completed.history else { panic!("history is appended to") };
    let answer = history.iter().find(|message| matches!(message, HistoryMessage::Tool { .. })).unwrap();
    let HistoryMessage::Tool { text, attachments, .. } = answer else { panic!("the tool answered") };
    assert_eq!((text.as_str(), attachments.len()), ("beach.jpg", 0), "history has its words, never bytes");

    let mut resumed = Stage::with_model(vec![says("A beach.")]);
    let answered = JournalEntry::Outcome { ordinal: 0, outcome: outcome().try_map_files(recorded_file).unwrap() };
    let journal = played.journal.iter().chain([&answered]);
    resumed.turn.journal =
        journal.map(|entry| serde_json::from_value(serde_json::to_value(entry).unwrap()).unwrap()).collect();
    let resumed = resumed.play().await;
    assert_eq!(resumed.requests[0].messages, played.requests[1].messages, "a replay reads the same");
}

/// Mutation: each call gets copies of what came with the turn, or of an earlier turn's files.
#[tokio::test(start_paused = true)]
async fn calls_share_the_files_of_their_turn() {
    let mut stage = Stage::with_model(vec![calls(&[("look", json!({})), ("look", json!({}))]), says("Done.")]);
    let files = [file(1, "a.txt"), file(2, "b.txt")].map(InboundFileState::Stored);
    stage.turn.messages[0].files = files.into();
    let seen: Arc<Mutex<Vec<ToolContext>>> = Arc::default();
    let contexts = Arc::clone(&seen);
    stage.tools.push(tool_that_calls("look", SafetyTier::ReadOnly, move |_, context| {
        contexts.lock().unwrap().push(context);
        async { Ok(ToolOutcome::from_text("seen")) }
    }));
    stage.play().await;
    let seen = seen.lock().unwrap();
    let [one, two] = seen.as_slice() else { panic!("{seen:?}") };
    assert!(Arc::ptr_eq(&one.inbound, &two.inbound));
    let names: Vec<&str> = one.inbound.iter().map(|file| file.filename.as_str()).collect();
    assert_eq!(names, ["a.txt", "b.txt"]);
    let debug = format!("{one:?}");
    assert!(debug.contains("inbound: 2") && !debug.contains("a.txt"), "{debug}");
}
