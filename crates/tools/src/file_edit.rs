//! `file_edit`: replaces text in a file of the workspace.

mod diff;
mod file_locks;
mod replacement;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::{ToolOutcome, WorkspacePath, size::format_bytes};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, WriteMode, workspace::WorkspaceFile};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::{
    diff::{DiffLimits, unified_diff},
    file_locks::FileLocks,
    replacement::{EditResult, MatchChoice, replace},
};
use crate::{
    ToolServices,
    arguments::{WorkspaceFilePath, parse_arguments, tool_spec},
    error,
};

pub(crate) struct FileEdit {
    services: ToolServices,
    locks: FileLocks,
}

impl FileEdit {
    pub(crate) fn new(services: ToolServices) -> Self {
        Self { services, locks: FileLocks::default() }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, beneath /shared or /tmp; a.txt is /shared/a.txt.
    #[schemars(with = "String")]
    path: WorkspaceFilePath,
    /// The text to replace, exactly as it is in the file, with its spaces and line breaks.
    old: String,
    /// The text to put in its place; empty to delete the old one.
    new: String,
    /// Which match to replace if there are several, counted from 1.
    #[schemars(range(min = 1))]
    occurrence: Option<u64>,
    /// Whether to replace every match.
    #[serde(default)]
    all: bool,
}

#[async_trait]
impl Tool for FileEdit {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "file_edit",
            SafetyTier::SideEffecting,
            "Replaces text in a text file (UTF-8) of the workspace; everything else stays as it is. `old` must be in the \
             file exactly once, unless occurrence or all is given. Answers with a diff of what changed. To write a whole \
             file use file_write.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments = parse_arguments(arguments)?;
        let choice = match_choice(&arguments)?;
        let Arguments { path: WorkspaceFilePath(path), old, new, .. } = arguments;
        let ToolServices { workspace, limits, .. } = &self.services;
        let _lock = self.locks.lock(&path).await;
        let file = workspace.read(&context.conversation, &path).await;
        let file = file.map_err(|error| error::tool_error_with_cause("nothing was edited", &error))?;
        let text = read_text(&path, file, limits.edit_bytes).await?;
        let edited = replace(&path, &text, (&old, &new), choice, limits.save_bytes)?;
        let EditResult { text: edited_text, replaced } = edited;
        let diff = unified_diff(&text, &edited_text, DiffLimits::new(context.reader));
        let bytes = edited_text.len() as u64;
        let content = Box::pin(stream::iter([Ok(Bytes::from(edited_text))]));
        let written = workspace.write(context, &path, content, WriteMode::Replace, bytes).await;
        let bytes_written =
            written.map_err(|error| error::write_error("the write failed and nothing was edited", &error))?;
        Ok(ToolOutcome::from_data(json!({
            "edited": true, "path": path, "replaced": replaced, "bytes_written": bytes_written, "diff": diff,
        })))
    }
}

fn match_choice(Arguments { old, new, occurrence, all, .. }: &Arguments) -> Result<MatchChoice, ToolError> {
    if old.is_empty() {
        return Err(error::tool_error(
            "argument `old`: it is empty; give the text to replace, or write the whole file with file_write",
        ));
    }
    if old == new {
        return Err(error::tool_error("argument `new`: it is the same as `old`, so there is nothing to replace"));
    }
    match (occurrence, all) {
        (Some(_), true) => {
            Err(error::tool_error("`occurrence` and `all` exclude each other: one match, or all of them"))
        }
        (Some(number), false) => Ok(MatchChoice::Occurrence(*number)),
        (None, true) => Ok(MatchChoice::All),
        (None, false) => Ok(MatchChoice::Unique),
    }
}

/// Reads the whole file, which must be text and have at most `max_bytes` bytes.
async fn read_text(path: &WorkspacePath, mut file: WorkspaceFile, max_bytes: u64) -> Result<String, ToolError> {
    let too_large = |bytes: u64| {
        error::tool_error(format!(
            "nothing was edited: `{path}` has {bytes} bytes ({}), and at most {max_bytes} bytes ({}) can be edited",
            format_bytes(bytes),
            format_bytes(max_bytes)
        ))
    };
    if file.bytes > max_bytes {
        return Err(too_large(file.bytes));
    }
    let mut content = Vec::new();
    while let Some(chunk) = file.content.next().await {
        let chunk = chunk.map_err(|error| {
            error::tool_error_with_cause(&format!("nothing was edited: `{path}` could not be read"), &error)
        })?;
        content.extend_from_slice(&chunk);
        // It may have grown since it was opened.
        if content.len() as u64 > max_bytes {
            return Err(too_large(content.len() as u64));
        }
    }
    let invalid_at = match std::str::from_utf8(&content) {
        Ok(text) => text.find('\0'),
        Err(error) => Some(error.valid_up_to()),
    };
    let bytes = content.len();
    let not_text =
        |at: usize| error::tool_error(format!("nothing was edited: `{path}` is not text (byte {at} of {bytes})"));
    match invalid_at {
        Some(at) => Err(not_text(at)),
        None => String::from_utf8(content).map_err(|error| not_text(error.utf8_error().valid_up_to())),
    }
}

#[cfg(test)]
mod tests;
