//! What lies between a turn's fold and its plan: nothing that adds to, drops or reorders what is delivered (ADR 0002).

use satchel_domain::{OutgoingResponse, ToolOutcome};
use satchel_ports::SafetyTier;
use satchel_routing::{plan::plan, tables};
use serde_json::json;

use super::stage::{Stage, calls, file, says, tool};

/// Mutation: files that wait somewhere, such as those that the ledger has of the turn, are added behind the fold.
#[tokio::test(start_paused = true)]
async fn response_has_nothing_but_outcomes_and_plan_nothing_but_response() {
    let mut stage = Stage::with_model(vec![calls(&[("sketch", json!({})), ("report", json!({}))]), says("Here.")]);
    for (name, id) in [("sketch", 2), ("report", 1)] {
        stage.tools.push(tool(name, SafetyTier::ReadOnly, move |_| async move {
            Ok(ToolOutcome { attachments: vec![file(id, name).into()], ..ToolOutcome::default() })
        }));
    }
    // Recorded during the turn and in no outcome, and of an earlier turn.
    stage.made = vec![file(8, "registered"), file(1, "report"), file(2, "sketch")];
    stage.known_files = vec![file(9, "earlier")];
    let completed = stage.play().await.completed;
    let attachments = vec![file(2, "sketch"), file(1, "report")];
    let response = OutgoingResponse { attachments, ..OutgoingResponse::from_text("Here.") };
    assert_eq!(completed.response, response);
    assert_eq!(completed.plan, plan(&response, &tables::console()));
}
