//! What a script's end becomes: words for the model, data, and the files that go with them.

use std::fmt::Write;

use satchel_domain::{
    Attachment, ToolOutcome, WakeRequest,
    script::{NO_VALUE_TEXT, RESULT_PREFIX},
};
use satchel_ports::{ScriptError, ToolContext, ledger::AttachmentKey, script_host::ScriptEvaluation};
use serde_json::{Value, json};

use super::{
    results::ScriptResults,
    value_ids::{self, NamedId},
};
use crate::{ToolServices, error, lookup};

/// The longest that the words of a failure may be, in bytes.
const MAX_ERROR_BYTES: usize = 4_000;

/// The outcome of a script. One that failed has words alone, and what people must be told; what it made stays known to the
/// conversation. One that was stopped with its turn also has what it had gathered, which the turn delivers.
pub(super) async fn script_outcome(
    evaluation: ScriptEvaluation,
    results: ScriptResults,
    max_files: usize,
    services: &ToolServices,
    context: &ToolContext,
) -> ToolOutcome {
    let ScriptEvaluation { value, printed, wakes } = evaluation;
    let value = match value {
        Ok(value) => value,
        Err(error) => {
            let mut message = error.to_string();
            message.truncate(message.floor_char_boundary(MAX_ERROR_BYTES));
            let text = Some(append_sections(format!("Error: {message}"), &[], &printed));
            let joined = results.join(Vec::new(), &context.conversation);
            let is_stopped = error == ScriptError::Cancelled;
            let delivered = match is_stopped {
                true => joined,
                false => ToolOutcome { notices: joined.notices, ..ToolOutcome::default() },
            };
            return ToolOutcome { text, failed: true, ..delivered };
        }
    };
    let mut text = format_value(&value);
    let named_files = files_in_value(&value, max_files, &mut text, services, context).await;
    ToolOutcome {
        text: Some(append_sections(text, &wakes, &printed)),
        data: Some(value).filter(|value| value.is_object() || value.is_array()),
        wakes,
        ..results.join(named_files, &context.conversation)
    }
}

/// The value as the model reads it.
fn format_value(value: &Value) -> String {
    match value {
        Value::Null => NO_VALUE_TEXT.to_owned(),
        Value::Bool(true) => format!("{RESULT_PREFIX}True"),
        Value::Bool(false) => format!("{RESULT_PREFIX}False"),
        Value::String(text) => format!("{RESULT_PREFIX}{text}"),
        Value::Number(number) => format!("{RESULT_PREFIX}{number}"),
        Value::Array(_) | Value::Object(_) => {
            format!("{}\n{value:#}", RESULT_PREFIX.trim_end())
        }
    }
}

/// The files that the value names, so many at most. An id that must be a file of this conversation and is none is told
/// in the text, and so is whatever else keeps a file from the answer.
async fn files_in_value(
    value: &Value,
    max_files: usize,
    text: &mut String,
    services: &ToolServices,
    context: &ToolContext,
) -> Vec<Attachment> {
    let mut named_ids = value_ids::find_ids(value);
    if named_ids.len() > max_files {
        let _ = write!(text, "\nError: {} files are named, and only the first {max_files} are taken", named_ids.len());
        named_ids.truncate(max_files);
    }
    let mut files = Vec::new();
    for NamedId { id, key } in named_ids {
        let found = services.archive.attachment(&context.conversation, AttachmentKey::Id(id)).await;
        match (found, key) {
            (Ok(Some(file)), _) if file.conversation == context.conversation && !file.is_forgotten() => {
                files.push(file)
            }
            (Ok(_), None) => {}
            (Ok(_), Some(key)) => {
                let _ = write!(text, "\nError: `{key}`: {}", lookup::unknown_id_error(&id.to_string()));
            }
            (Err(error), _) => {
                let _ = write!(
                    text,
                    "\nError: {}",
                    error::tool_error_with_cause(&format!("`{id}` could not be looked up"), &error)
                );
            }
        }
    }
    files
}

fn append_sections(mut text: String, wakes: &[WakeRequest], printed: &str) -> String {
    if !wakes.is_empty() {
        text.push_str("\n--- Wake LLM Contexts ---");
    }
    for WakeRequest { context, include_event } in wakes {
        let _ = write!(text, "\n{}", json!({ "context": context, "include_event": include_event }));
    }
    let printed = printed.trim_end();
    if !printed.is_empty() {
        let _ = write!(text, "\n--- Printed ---\n{printed}");
    }
    text
}
