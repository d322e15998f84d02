//! Calls the model once and gathers its answer.

use std::time::Duration;

use futures::StreamExt;
use satchel_domain::{CallId, ToolCall};
use satchel_ports::{LanguageModel, ModelError, ModelEvent, ModelRequest};
use serde_json::Value;

use crate::draft::DeltaSink;

/// The longest answer of a model, in bytes; a longer one is taken to be endless.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// The most tool calls in one answer; the turn's budget is far below it.
const MAX_TOOL_CALLS: usize = 10_000;

/// How deep arguments may be nested. JSON is parsed to a depth of 128 only, envelope included: deeper arguments could
/// be recorded but never read again, which would make the whole conversation unreadable.
const MAX_ARGUMENT_DEPTH: usize = 64;

/// What the model answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelResponse {
    pub text: String,
    /// The calls that it requested, numbered on from the turn's calls so far.
    pub calls: Vec<ToolCall>,
}

/// Calls the model, which may send nothing for `idle_timeout`. `partial_text` always holds its text so far, so that dropping the future doesn't lose it.
///
/// # Errors
/// When the call failed, was cut off, or sent nothing for too long.
pub async fn call_model(
    model: &dyn LanguageModel,
    idle_timeout: Duration,
    request: &ModelRequest,
    first_call: CallId,
    partial_text: &mut String,
    deltas: &DeltaSink,
) -> Result<ModelResponse, ModelError> {
    let idle_error = || ModelError {
        reason: format!("it sent nothing for {} seconds", idle_timeout.as_secs()),
        retryable: true,
        remedy: None,
    };
    let mut events = tokio::time::timeout(idle_timeout, model.stream(request)).await.map_err(|_| idle_error())??;
    let mut calls = Vec::new();
    loop {
        match tokio::time::timeout(idle_timeout, events.next()).await.map_err(|_| idle_error())? {
            Some(Ok(ModelEvent::Text(_))) if partial_text.len() >= MAX_RESPONSE_BYTES => {
                return Err(ModelError { reason: "its answer did not end".to_owned(), retryable: false, remedy: None });
            }
            Some(Ok(ModelEvent::Call(_))) if calls.len() >= MAX_TOOL_CALLS => {
                return Err(ModelError {
                    reason: format!("it requested more than {MAX_TOOL_CALLS} tool calls at once"),
                    retryable: false,
                    remedy: None,
                });
            }
            Some(Ok(ModelEvent::Text(delta))) => {
                partial_text.push_str(&delta);
                deltas.push_delta(&delta, partial_text).await;
            }
            Some(Ok(ModelEvent::Call(call))) => {
                let ordinal = first_call.ordinal + u32::try_from(calls.len()).unwrap_or(u32::MAX);
                let id = CallId { ordinal, ..first_call };
                let arguments = match exceeds_depth(&call.arguments, MAX_ARGUMENT_DEPTH) {
                    // Not an object, so that the call fails and the turn continues.
                    true => Value::from(format!("left out: nested more than {MAX_ARGUMENT_DEPTH} deep")),
                    false => call.arguments,
                };
                calls.push(ToolCall { id, name: call.name, arguments });
            }
            Some(Ok(ModelEvent::Usage(usage))) => {
                tracing::debug!(
                    turn.id = %first_call.turn, model = model.name(), input_tokens = usage.input_tokens,
                    output_tokens = usage.output_tokens, "the model answered"
                );
            }
            Some(Ok(ModelEvent::Done)) => return Ok(ModelResponse { text: std::mem::take(partial_text), calls }),
            Some(Err(error)) => return Err(error),
            None => {
                return Err(ModelError {
                    reason: "its answer was cut off in the middle".to_owned(),
                    retryable: true,
                    remedy: None,
                });
            }
        }
    }
}

/// Whether a value is nested deeper than `depth`; stops looking there.
fn exceeds_depth(value: &Value, depth: usize) -> bool {
    let below = |inner: &Value| depth == 0 || exceeds_depth(inner, depth - 1);
    match value {
        Value::Array(items) => items.iter().any(below),
        Value::Object(fields) => fields.values().any(below),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
