//! Asks the model once and gathers its answer.

use futures::StreamExt;
use satchel_domain::{CallId, ToolCall, TurnId};
use satchel_ports::{ModelError, ModelEvent, ModelRequest};
use serde_json::Value;

use crate::{AgentServices, streaming::Growth};

/// The longest message of a model, in bytes; one that goes on beyond it would go on for ever.
const LONGEST_TEXT: usize = 4 << 20;

/// The most tools that one message may ask for; the turn's budget is far below it.
const MOST_CALLS: usize = 10_000;

/// How deep arguments may be nested. JSON is read back to a depth of 128 only, envelope included: what is deeper could
/// be recorded and never be read again, and the conversation with it.
const DEEPEST_ARGUMENTS: usize = 64;

/// What the model answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelResponse {
    pub text: String,
    /// What it asked for, numbered on from the turn's calls so far.
    pub calls: Vec<ToolCall>,
}

/// Asks the model. `written` holds its text so far at any moment, so that it isn't lost when this is dropped.
///
/// # Errors
/// When it could not be asked, broke off, or was silent for too long.
pub async fn call_model(
    services: &AgentServices,
    request: &ModelRequest,
    turn: TurnId,
    first_ordinal: u32,
    written: &mut String,
    growth: &Growth,
) -> Result<ModelResponse, ModelError> {
    let silence = services.settings.model_silence;
    let silent = || ModelError {
        reason: format!("it sent nothing for {} seconds", silence.as_secs()),
        retryable: true,
        remedy: None,
    };
    let mut events = tokio::time::timeout(silence, services.model.stream(request)).await.map_err(|_| silent())??;
    let mut calls = Vec::new();
    loop {
        match tokio::time::timeout(silence, events.next()).await.map_err(|_| silent())? {
            Some(Ok(ModelEvent::Text(_))) if written.len() >= LONGEST_TEXT => {
                return Err(ModelError { reason: "its answer did not end".to_owned(), retryable: false, remedy: None });
            }
            Some(Ok(ModelEvent::Call(_))) if calls.len() >= MOST_CALLS => {
                return Err(ModelError {
                    reason: format!("it requested more than {MOST_CALLS} tool calls at once"),
                    retryable: false,
                    remedy: None,
                });
            }
            Some(Ok(ModelEvent::Text(piece))) => {
                written.push_str(&piece);
                growth.wrote(&piece, written).await;
            }
            Some(Ok(ModelEvent::Call(call))) => {
                let ordinal = first_ordinal + u32::try_from(calls.len()).unwrap_or(u32::MAX);
                let id = CallId { turn, ordinal };
                let arguments = match exceeds_depth(&call.arguments, DEEPEST_ARGUMENTS) {
                    // No object, so that the call is answered with an error and the turn goes on.
                    true => Value::from(format!("left out: nested more than {DEEPEST_ARGUMENTS} deep")),
                    false => call.arguments,
                };
                calls.push(ToolCall { id, name: call.name, arguments });
            }
            Some(Ok(ModelEvent::Usage(usage))) => {
                tracing::debug!(
                    turn.id = %turn, model = services.model.name(), input_tokens = usage.input_tokens,
                    output_tokens = usage.output_tokens, "the model answered"
                );
            }
            Some(Ok(ModelEvent::Done)) => return Ok(ModelResponse { text: std::mem::take(written), calls }),
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

/// Whether a value is nested deeper than this; it looks no further than that.
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
