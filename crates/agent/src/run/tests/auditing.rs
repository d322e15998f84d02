//! What the audit log gets of a turn: the changes of its calls, with their outcomes or at the end.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{ToolOutcome, WorkspacePath};
use satchel_ports::{
    ChangeOutcome, FileAction, FileChange, SafetyTier, Tool, ToolContext, ToolError, ToolSpec, ledger::JournalEntry,
};
use serde_json::{Value, json};

use super::{
    recorded,
    stage::{Stage, calls, says, tool_that_calls, waiting},
};

fn path() -> WorkspacePath {
    "/shared/a".parse().unwrap()
}

/// Writes a file, and never returns if it is told so.
struct WritingTool;

#[async_trait]
impl Tool for WritingTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write".to_owned(),
            description: String::new(),
            parameters: json!({}),
            tier: SafetyTier::SideEffecting,
            time_limit: Some(Duration::from_secs(60)),
        }
    }

    fn changed_paths(&self, _: &Value) -> Vec<Option<WorkspacePath>> {
        vec![Some(path()), None]
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let person = context.requester.clone();
        let change = FileChange::started(person, context.tool.clone(), FileAction::Write, Some(path()));
        let change = context.changes.start(change);
        if arguments["forever"] == true {
            std::future::pending::<()>().await;
        }
        change.finish(Some(7), ChangeOutcome::Done);
        Ok(ToolOutcome::from_text("written"))
    }
}

fn with_writing_tool(model: Vec<Vec<Result<satchel_ports::ModelEvent, &'static str>>>) -> Stage {
    let mut stage = Stage::with_model(model);
    stage.tools.push(Arc::new(WritingTool));
    stage
}

/// Each change as person, tool, action, path, bytes, outcome.
fn lines(changes: &[FileChange]) -> Vec<String> {
    let line = |change: &FileChange| {
        let path = change.path.as_ref().map_or("?".to_owned(), ToString::to_string);
        let (action, outcome) = (change.action.as_str(), change.outcome.as_str());
        format!("{} {} {action} {path} {:?} {outcome}", change.person.id, change.tool, change.bytes)
    };
    changes.iter().map(line).collect()
}

/// Mutation: the calls that a script makes have a log of their own, which is lost.
#[tokio::test(start_paused = true)]
async fn changes_are_recorded_with_the_outermost_outcome() {
    let mut stage =
        with_writing_tool(vec![calls(&[("write", json!({})), ("execute_script", json!({}))]), says("Done.")]);
    stage.tools.push(tool_that_calls("execute_script", SafetyTier::SideEffecting, |_, context| async move {
        let tools = context.tools.unwrap();
        for _ in 0..2 {
            tools.call("write", json!({}), Duration::from_secs(60)).await?;
        }
        Err(ToolError("and then it fails".to_owned()))
    }));
    let played = stage.play().await;
    let line = "owner write write /shared/a Some(7) done".to_owned();
    let changes: Vec<_> = played.changes.iter().map(|(ordinal, changes)| (*ordinal, lines(changes))).collect();
    assert_eq!(changes, [(0, vec![line.clone()]), (1, vec![line.clone(), line])]);
    assert_eq!(played.completed.changes, [], "once only");
}

/// Mutation: what a call did until it was cut off is forgotten with it.
#[tokio::test(start_paused = true)]
async fn changes_of_cut_off_calls_end_the_turn() {
    let mut stage = with_writing_tool(vec![calls(&[("write", json!({"forever": true}))])]);
    stage.arrives_after(Duration::from_secs(3), waiting(9, "/stop"));
    let played = stage.play().await;
    assert_eq!(played.changes, []);
    assert_eq!(lines(&played.completed.changes), ["owner write write /shared/a None unknown"]);
}

/// A call that took too long has an outcome, and what it may have changed goes with that.
#[tokio::test(start_paused = true)]
async fn change_of_timed_out_call_is_unknown() {
    let played = with_writing_tool(vec![calls(&[("write", json!({"forever": true}))]), says("Done.")]).play().await;
    assert_eq!(lines(&played.changes[0].1), ["owner write write /shared/a None unknown"]);
}

/// A turn whose process died after the model had requested these calls.
fn interrupted_turn(names: &[&str]) -> Stage {
    let mut stage = with_writing_tool(vec![says("Done.")]);
    stage.tools.push(tool_that_calls("other", SafetyTier::SideEffecting, |_, _| async {
        Ok(ToolOutcome::from_text("changed"))
    }));
    stage.turn.journal = vec![JournalEntry::Model {
        steered: vec![],
        text: String::new(),
        calls: (0..).zip(names).map(|(ordinal, name)| recorded(name, ordinal)).collect(),
        awaiting_decision: vec![],
        agent: None,
        task: None,
        changing_calls: Some((0..).zip(names).map(|(ordinal, _)| ordinal).collect()),
    }];
    stage
}

const POSSIBLE_CHANGES: [&str; 2] = ["owner write change /shared/a None unknown", "owner write change ? None unknown"];

/// Mutation: nothing is recorded of the call that ran when its process died.
#[tokio::test(start_paused = true)]
async fn interrupted_calls_possible_changes_are_recorded() {
    let played = interrupted_turn(&["write", "other"]).play().await;
    let changes: Vec<_> = played.changes.iter().map(|(ordinal, changes)| (*ordinal, lines(changes))).collect();
    assert_eq!(changes, [(0, POSSIBLE_CHANGES.map(str::to_owned).to_vec()), (1, vec![])]);
    assert_eq!(played.completed.changes, [], "once only");
    assert_eq!(played.answers(0)[1], "changed", "it had to wait for the first, so it runs now");
}

/// Mutation: a call that had to wait for an interrupted one is recorded as if it had run.
#[tokio::test(start_paused = true)]
async fn calls_that_never_started_change_nothing() {
    let mut crashed = interrupted_turn(&["other", "write"]);
    crashed.turn.crashes = 3;
    assert_eq!(crashed.play().await.completed.changes, []);
}

/// Mutation: a tool that was turned off since then, or is no longer permitted, leaves no line.
#[tokio::test(start_paused = true)]
async fn tools_that_are_gone_are_recorded_too() {
    let played = interrupted_turn(&["gone"]).play().await;
    assert_eq!(lines(&played.changes[0].1), ["owner gone change ? None unknown"]);
    let mut in_group = interrupted_turn(&["secret"]);
    in_group.tools.push(tool_that_calls("secret", SafetyTier::Privileged, |_, _| async { unreachable!() }));
    in_group.tools.push(Arc::new(WritingTool));
    in_group.turn.messages[0].message.group = true;
    let played = in_group.play().await;
    assert_eq!(lines(&played.changes[0].1), [""; 0], "it has no paths");
    let fresh = with_writing_tool(vec![calls(&[("gone", json!({}))]), says("Done.")]).play().await;
    assert_eq!(fresh.changes[0].1, [], "what was just requested changed nothing");
}

/// Mutation: a turn that ends without resuming its calls says nothing of what they may have changed.
#[tokio::test(start_paused = true)]
async fn calls_that_are_not_resumed_are_recorded() {
    let mut stopped = interrupted_turn(&["write", "other"]);
    stopped.arrives_after(Duration::ZERO, waiting(9, "/stop"));
    let mut crashed = interrupted_turn(&["write", "other"]);
    crashed.turn.crashes = 3;
    for stage in [stopped, crashed] {
        let played = stage.play().await;
        assert_eq!(
            (lines(&played.completed.changes), played.changes.len()),
            (POSSIBLE_CHANGES.map(str::to_owned).to_vec(), 0)
        );
    }
    let mut waiting_for_word = interrupted_turn(&["write"]);
    waiting_for_word.turn.crashes = 3;
    if let JournalEntry::Model { awaiting_decision, .. } = &mut waiting_for_word.turn.journal[0] {
        awaiting_decision.push(0);
    }
    assert_eq!(waiting_for_word.play().await.completed.changes, [], "a call that nobody allowed never started");
}
