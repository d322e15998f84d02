//! Calls of a tool whose tier depends on their arguments.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{ConversationId, ToolOutcome};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, ledger::JournalEntry};
use serde_json::{Value, json};

use super::stage::{Counter, Stage, calls, says};

/// Deletes one thing without permission, and all things with it.
struct DeletingTool(Counter);

#[async_trait]
impl Tool for DeletingTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "delete".to_owned(),
            description: String::new(),
            parameters: json!({}),
            tier: SafetyTier::SideEffecting,
            time_limit: None,
        }
    }

    fn tier(&self, arguments: &Value) -> SafetyTier {
        if arguments["all"] == true { SafetyTier::Privileged } else { SafetyTier::SideEffecting }
    }

    async fn preview(&self, _: &Value, _: &ConversationId) -> Option<String> {
        Some("3 files".to_owned())
    }

    async fn call(&self, _: Value, _: &ToolContext) -> Result<ToolOutcome, ToolError> {
        self.0.add();
        Ok(ToolOutcome::from_text("deleted"))
    }
}

fn stage_with_both_calls() -> (Stage, Counter) {
    let requested = calls(&[("delete", json!({})), ("delete", json!({"all": true}))]);
    let mut stage = Stage::with_model(vec![requested, says("Done.")]);
    let deleted = stage.counter();
    stage.tools.push(Arc::new(DeletingTool(deleted.clone())));
    (stage, deleted)
}

/// Mutation: the tier of the tool decides, so that nobody is asked.
#[tokio::test(start_paused = true)]
async fn only_the_privileged_call_waits_for_a_person() {
    let (stage, deleted) = stage_with_both_calls();
    let played = stage.play().await;
    assert!(
        matches!(&played.journal[0], JournalEntry::Model { awaiting_decision, .. } if *awaiting_decision == [1]),
        "{:?}",
        played.journal
    );
    let questions: Vec<_> = played.log.iter().filter(|line| line.starts_with("ask May I use `delete`?")).collect();
    assert_eq!((questions.len(), deleted.count()), (1, 1), "{:?}", played.log);
    let answers = played.answers(1);
    assert!(answers[0] == "deleted" && answers[1].contains("nobody allowed this call"), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn privileged_call_is_refused_in_groups() {
    let (mut stage, deleted) = stage_with_both_calls();
    stage.turn.messages[0].message.group = true;
    let played = stage.play().await;
    let answers = played.answers(1);
    assert_eq!((deleted.count(), answers[0].as_str()), (1, "deleted"));
    assert!(
        answers[1].contains("`delete` can't be used in this way in a chat that other people can read"),
        "{answers:?}"
    );
    assert!(!played.log.iter().any(|line| line.starts_with("ask")), "{:?}", played.log);
}
