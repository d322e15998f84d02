//! Messages that belong to a turn and arrive while it runs.

use std::time::Duration;

use satchel_domain::{InboxId, ToolOutcome};
use satchel_ports::SafetyTier;
use serde_json::json;
use uuid::Uuid;

use super::stage::{Stage, calls, says, tool, waiting};

/// A turn on a platform where what a person sends in quick succession is one message.
fn joining_stage() -> Stage {
    let mut stage = Stage::with_model(vec![]);
    stage.joins_messages = true;
    stage
}

/// Catches: a question that is answered without what it is about, because that came a moment later.
#[tokio::test(start_paused = true)]
async fn message_that_belongs_to_the_turn_drops_the_call_in_flight() {
    let mut stage = joining_stage();
    stage.silent = true;
    stage.arrives_after(Duration::from_millis(100), waiting(9, "more of it"));
    let record = stage.play_one_run().await;
    assert_eq!((record.log, record.requests.len()), (vec!["join [9]".to_owned()], 1));
    assert_eq!(record.completed, None, "the next run answers");
}

#[tokio::test(start_paused = true)]
async fn message_that_has_come_joins_before_the_model_is_called() {
    let mut stage = joining_stage();
    stage.arrives_after(Duration::ZERO, waiting(9, "more of it"));
    stage.arrives_after(Duration::ZERO, waiting(10, "something else"));
    let record = stage.play_one_run().await;
    assert_eq!((record.log, record.requests.len()), (vec!["join [9]".to_owned()], 0));
}

/// Catches: the rest of a cut text that is answered by itself, because its beginning was stopped while it waited for the rest.
#[tokio::test(start_paused = true)]
async fn stop_is_about_all_messages_that_belong_together() {
    let mut stage = joining_stage();
    stage.arrives_after(Duration::ZERO, waiting(9, "more of it"));
    stage.arrives_after(Duration::ZERO, waiting(10, "/stop"));
    let record = stage.play_one_run().await;
    assert_eq!((record.log, record.requests.len()), (vec!["join [9]".to_owned()], 0));
    assert_eq!(record.completed, None, "the next run stops with both");
}

/// Catches: a call that runs twice, because its turn was started again behind its record.
#[tokio::test(start_paused = true)]
async fn message_behind_a_recorded_call_is_steered() {
    let mut stage = joining_stage().then(calls(&[("look", json!({}))])).then(says("Both done."));
    stage.tools.push(tool("look", SafetyTier::ReadOnly, |_| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(ToolOutcome::from_text("seen"))
    }));
    stage.arrives_after(Duration::from_millis(500), waiting(9, "more of it"));
    let played = stage.play().await;
    assert_eq!(played.log, ["journal message", "journal outcome 0", "complete done"]);
    assert_eq!(played.completed.steered, [InboxId(Uuid::from_u128(9))]);
}

/// Catches: a turn that starts again for ever, because the ledger has something of it that the turn doesn't know.
#[tokio::test(start_paused = true)]
async fn turn_that_cannot_be_joined_goes_on() {
    let mut stage = joining_stage().then(says("Done."));
    stage.can_be_joined = false;
    stage.arrives_after(Duration::ZERO, waiting(9, "more of it"));
    let played = stage.play().await;
    assert_eq!(played.log, ["join [9]", "complete done"]);
    assert_eq!(played.completed.steered, [InboxId(Uuid::from_u128(9))], "it is read as a message of its own");
}
