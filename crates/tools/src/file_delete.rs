//! `file_delete`: moves files of the workspace to its trash, from which `/undo` brings them back.

mod targets;

use async_trait::async_trait;
use satchel_domain::{ConversationId, ToolOutcome, WorkspacePath, filename::to_inline_code, size::format_bytes};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, WorkspaceError, workspace::TrashBatch};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::targets::{DeleteEntry, DeleteRequest, find_targets};
use crate::{
    ToolServices,
    arguments::{WorkspaceFilePath, parse_arguments, tool_spec},
    error,
};

/// How many files a question or an answer names.
const MAX_NAMED: usize = 20;

/// How many characters of a path a question shows.
const MAX_PATH_CHARS: usize = 100;

pub(crate) struct FileDelete(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file or empty directory, beneath /shared or /tmp; a.txt is /shared/a.txt. Or a pattern for several files:
    /// notes/*.tmp (`*` and `?` within a name, `**` for directories, [ab], {a,b}).
    #[schemars(with = "Option<String>")]
    path: Option<WorkspaceFilePath>,
    /// Several files or empty directories instead of path, each exactly as named.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    paths: Vec<WorkspaceFilePath>,
    /// Whether to delete a directory with everything in it.
    #[serde(default)]
    recursive: bool,
}

#[async_trait]
impl Tool for FileDelete {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "file_delete",
            SafetyTier::SideEffecting,
            "Deletes files of the workspace. The person can bring back what the last call deleted with /undo, for a day. \
             More than one file (a pattern, `paths`, `recursive`) needs the person's permission, which is asked for. \
             Attachments stay, whether or not they were saved to that path or attached from it.",
        )
    }

    fn tier(&self, arguments: &Value) -> SafetyTier {
        match parse_request(arguments.clone()) {
            Ok(request) if request.can_match_several() => SafetyTier::Privileged,
            // What can't be read deletes nothing.
            Ok(_) | Err(_) => SafetyTier::SideEffecting,
        }
    }

    async fn preview(&self, arguments: &Value, conversation: &ConversationId) -> Option<String> {
        let request = parse_request(arguments.clone()).ok()?;
        let targets = find_targets(&self.0, conversation, &request).await.ok()?;
        let files = targets.file_count;
        let count = match (targets.has_more, files) {
            (true, files) => format!("more than {files} files"),
            (false, 1) => "1 file".to_owned(),
            (false, files) => format!("{files} files"),
        };
        let name = |path: &WorkspacePath| to_inline_code(&path.to_string(), MAX_PATH_CHARS);
        let mut names: Vec<String> = targets.files.iter().take(MAX_NAMED).map(name).collect();
        names.extend((files > MAX_NAMED).then(|| format!("and {} more", files - MAX_NAMED)));
        let list = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        Some(format!("{count}, {}{list}. `/undo` brings them back for a day.", format_bytes(targets.bytes)))
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let request = parse_request(arguments)?;
        let targets = find_targets(&self.0, &context.conversation, &request).await?;
        let batch = TrashBatch { deleted_at: context.clock.now(), id: context.ids.next() };
        let (mut deleted, mut failures) = (Vec::new(), Vec::new());
        for DeleteEntry { path, bytes } in targets.entries {
            if context.cancel.is_cancelled() {
                failures.push((path, "the call was stopped".to_owned()));
                continue;
            }
            match self.0.workspace.trash(context, &path, batch, request.is_recursive(), bytes).await {
                Ok(_) => deleted.push(path),
                Err(error) => failures.push((path, describe_error(&error))),
            }
        }
        respond(&request, &deleted, &failures)
    }
}

fn parse_request(arguments: Value) -> Result<DeleteRequest, ToolError> {
    let Arguments { path, paths, recursive } = parse_arguments(arguments)?;
    DeleteRequest::new(path.map(|path| path.0), paths.into_iter().map(|path| path.0).collect(), recursive)
}

fn describe_error(error: &WorkspaceError) -> String {
    match error {
        WorkspaceError::NotFound(path) => format!("there is no `{path}`; file_list shows what there is"),
        WorkspaceError::NotEmpty(_) => {
            format!("{error}; set `recursive` to true to delete it with everything in it")
        }
        error => error.to_string(),
    }
}

/// Answers with what was deleted; a call that deleted nothing has failed.
fn respond(
    request: &DeleteRequest,
    deleted: &[WorkspacePath],
    failures: &[(WorkspacePath, String)],
) -> Result<ToolOutcome, ToolError> {
    if deleted.is_empty() {
        let reasons: Vec<&str> = failures.iter().take(MAX_NAMED).map(|(_, reason)| reason.as_str()).collect();
        return Err(error::tool_error(format!("nothing was deleted: {}", reasons.join("; "))));
    }
    let mut response = json!({ "deleted": true });
    match (request.can_match_several(), deleted) {
        (false, [path]) => response["path"] = json!(path),
        _ => {
            response["count"] = json!(deleted.len());
            response["paths"] = json!(deleted.iter().take(MAX_NAMED).collect::<Vec<_>>());
        }
    }
    response["undo"] = json!("the person can send /undo to bring it back, for a day");
    if failures.is_empty() {
        return Ok(ToolOutcome::from_data(response));
    }
    let describe = |(path, reason): &(WorkspacePath, String)| json!({ "path": path, "reason": reason });
    response["not_deleted"] = failures.iter().take(MAX_NAMED).map(describe).collect();
    let text = format!("Error: {} of {} could not be deleted", failures.len(), failures.len() + deleted.len());
    Ok(ToolOutcome { text: Some(text), failed: true, ..ToolOutcome::from_data(response) })
}

#[cfg(test)]
mod tests;
