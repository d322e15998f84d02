//! The tool calls of turns, as people see them: read from the journal without what it holds for the model.

use std::{collections::HashMap, time::Duration};

use satchel_domain::ToolCall;
use satchel_ports::ledger::{CallRecord, FinishedCall};
use uuid::Uuid;

use crate::{
    parameters::Json,
    params,
    session::{Session, VerbResult},
};

/// A message of the model with its calls, the ordinals of those that a person must allow, its text, and when it was recorded.
type MessageRow = (Uuid, Json<Vec<ToolCall>>, Json<Vec<u32>>, String, Option<i64>);

/// An outcome: of which call, whether it failed, the beginning of its text, and when it was recorded.
type OutcomeRow = (Uuid, i64, bool, String, Option<i64>);

/// Reads the calls of turns, in the order in which the model made them.
pub(crate) async fn read<S: Session>(db: &S, turns: &Vec<Uuid>) -> VerbResult<HashMap<Uuid, Vec<CallRecord>>, S> {
    let messages: Vec<MessageRow> = db
        .all(
            "SELECT turn, json_extract(entry, '$.calls'), COALESCE(json_extract(entry, '$.asks'), '[]'), \
             COALESCE(json_extract(entry, '$.text'), ''), created_at \
         FROM journal WHERE turn IN (SELECT value FROM rarray($1)) AND ordinal IS NULL \
             AND COALESCE(json_extract(entry, '$.calls'), '[]') <> '[]' ORDER BY turn, position",
            params![turns],
        )
        .await?;
    if messages.is_empty() {
        return Ok(HashMap::new());
    }
    let outcomes: Vec<OutcomeRow> = db
        .all(
            "SELECT turn, ordinal, COALESCE(CAST(json_extract(entry, '$.outcome.failed') AS BOOLEAN), FALSE), \
             substr(COALESCE(json_extract(entry, '$.outcome.text'), ''), 1, 300), created_at FROM journal \
         WHERE turn IN (SELECT value FROM rarray($1)) AND ordinal IS NOT NULL",
            params![turns],
        )
        .await?;
    let mut outcome_of: HashMap<(Uuid, i64), OutcomeRow> =
        outcomes.into_iter().map(|outcome| ((outcome.0, outcome.1), outcome)).collect();
    let mut calls_of: HashMap<Uuid, Vec<CallRecord>> = HashMap::new();
    for (turn, Json(calls), Json(awaiting_decision), mut text, asked_at) in messages {
        // When the first of the calls so far has ended.
        let mut first_end: Option<i64> = None;
        let records = calls.into_iter().map(|ToolCall { id, name, arguments }| {
            let outcome = outcome_of.remove(&(turn, i64::from(id.ordinal))).map(|(_, _, failed, text, ended_at)| {
                // Calls that change something wait for earlier ones, and no entry says which. A call that has ended before all
                // of those has waited for none.
                let may_have_waited = awaiting_decision.contains(&id.ordinal)
                    || first_end.zip(ended_at).is_some_and(|(first_end, ended_at)| first_end <= ended_at);
                first_end = first_end.into_iter().chain(ended_at).min();
                let started_at = asked_at.filter(|_| !may_have_waited);
                let took = started_at.zip(ended_at).map(|(started_at, ended_at)| ended_at.saturating_sub(started_at));
                let took = took.and_then(|took| u64::try_from(took).ok()).map(Duration::from_millis);
                FinishedCall { failed, text, took }
            });
            CallRecord { tool: name, arguments, text: std::mem::take(&mut text), outcome }
        });
        calls_of.entry(turn).or_default().extend(records);
    }
    Ok(calls_of)
}
