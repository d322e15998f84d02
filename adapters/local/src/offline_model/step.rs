//! The next step of an intent, given the tool results so far.

use satchel_ports::ToolSpec;
use serde_json::{Value, json};

use super::{
    files::{FileSelection, FileSelector, ListedFile, read_list, select_all, select_new},
    intent::{Destination, Intent, workspace_path},
    replies,
};

/// What is known about the message besides its text.
pub(super) struct IntentContext<'r> {
    pub(super) tools: &'r [ToolSpec],
    /// The files that came with the message.
    pub(super) new_files: Vec<ListedFile>,
    /// The ids of the files that were mentioned last.
    pub(super) mentioned_ids: Vec<String>,
}

/// A tool call to make.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolRequest {
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// A completed tool call.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolAnswer<'r> {
    pub(super) tool: &'r str,
    pub(super) text: &'r str,
}

impl<'r> ToolAnswer<'r> {
    /// Why the call failed, if it did.
    pub(super) fn failure(&self) -> Option<&'r str> {
        self.text.strip_prefix("error: ")
    }
}

pub(super) enum IntentStep {
    /// Concurrent tool calls.
    RequestTools(Vec<ToolRequest>),
    /// The final text for the person.
    Reply(String),
}

/// The tool results of one intent so far, round by round.
type IntentAnswers<'r> = [Vec<ToolAnswer<'r>>];

/// Returns the next step of an intent.
pub(super) fn next_step(intent: &Intent, progress: &IntentAnswers<'_>, context: &IntentContext<'_>) -> IntentStep {
    match intent {
        Intent::Help => IntentStep::Reply(replies::help_text()),
        Intent::Unknown => IntentStep::Reply(replies::unknown_text()),
        Intent::Arrived { understood } => IntentStep::Reply(replies::arrived_text(&context.new_files, *understood)),
        Intent::TooMany => IntentStep::Reply(replies::too_many_text()),
        Intent::WriteWithoutContent => IntentStep::Reply(replies::missing_content_text()),
        Intent::Tools => IntentStep::Reply(replies::tools_text(context.tools)),
        Intent::Tool { name, arguments } => step_tool(name, arguments, progress, context),
        Intent::Save { what, to, overwrite } => step_save(what, to.as_ref(), *overwrite, progress, context),
        Intent::Send { what } => step_send(what, progress, context),
        Intent::List { path } => step_list(path.as_deref(), progress, context),
        Intent::Received => match progress.first().map(Vec::as_slice) {
            None => context.request_tools(vec![tool_request("attachment.list", json!({}))]),
            Some(answers) => IntentStep::Reply(replies::received_text(answers)),
        },
        Intent::Read { what } => step_read(what, progress, context),
        Intent::Write { path, content, overwrite } => step_write(path, content, *overwrite, progress, context),
        Intent::EditWithoutText => IntentStep::Reply(replies::missing_edit_text()),
        Intent::Edit { path, old, new } => match progress.first().and_then(|round| round.first()) {
            None => {
                let arguments = json!({ "path": path, "old": old, "new": new });
                context.request_tools(vec![tool_request("file_edit", arguments)])
            }
            Some(answer) => IntentStep::Reply(replies::edited_text(path, answer)),
        },
        Intent::Delete { path, is_folder } => match progress.first().and_then(|round| round.first()) {
            None => {
                let mut arguments = json!({ "path": path });
                if *is_folder {
                    arguments["recursive"] = json!(true);
                }
                context.request_tools(vec![tool_request("file_delete", arguments)])
            }
            Some(answer) => IntentStep::Reply(replies::deleted_text(path, answer)),
        },
        Intent::DeleteByNumber { number } => IntentStep::Reply(replies::forget_hint_text(number)),
        Intent::Search { query, path } => step_search(query, path.as_deref(), progress, context),
    }
}

fn tool_request(tool: &str, arguments: Value) -> ToolRequest {
    ToolRequest { tool: tool.to_owned(), arguments }
}

impl IntentContext<'_> {
    fn has_tool(&self, tool: &str) -> bool {
        self.tools.iter().any(|spec| spec.name == tool)
    }

    /// Requests the calls if every tool is available.
    fn request_tools(&self, requests: Vec<ToolRequest>) -> IntentStep {
        match requests.iter().find(|request| !self.has_tool(&request.tool)) {
            Some(missing) => IntentStep::Reply(replies::missing_tool_text(&missing.tool)),
            None => IntentStep::RequestTools(requests),
        }
    }

    /// Finds the selected files, with the list of older ones where needed, and returns how many rounds of results that
    /// took.
    fn locate_files(
        &self,
        what: &[FileSelector],
        progress: &IntentAnswers<'_>,
    ) -> Result<(FileSelection, usize), IntentStep> {
        let new = select_new(what, &self.new_files);
        if new.missing.iter().all(|missing| matches!(missing, FileSelector::Path(_))) {
            return Ok((new, 0));
        }
        if !self.has_tool("attachment.list") {
            // A name may be that of a file in the workspace; everything else can only be an older attachment.
            let all_names =
                new.missing.iter().all(|missing| matches!(missing, FileSelector::Path(_) | FileSelector::Name(_)));
            return if all_names {
                Ok((new, 0))
            } else {
                Err(IntentStep::Reply(replies::missing_tool_text("attachment.list")))
            };
        }
        let Some(answer) = progress.first().and_then(|round| round.first()) else {
            return Err(IntentStep::RequestTools(vec![tool_request("attachment.list", json!({}))]));
        };
        match read_list(answer.text) {
            Some(all) => Ok((select_all(what, &self.new_files, &all, &self.mentioned_ids), 1)),
            None => Err(IntentStep::Reply(replies::failure_text("look through the files", answer.text))),
        }
    }
}

fn step_tool(
    name: &str,
    arguments: &Result<Value, String>,
    progress: &IntentAnswers<'_>,
    context: &IntentContext<'_>,
) -> IntentStep {
    match (arguments, progress.first().and_then(|round| round.first())) {
        (_, Some(answer)) => IntentStep::Reply(replies::tool_result_text(answer)),
        (Ok(arguments), None) => context.request_tools(vec![tool_request(name, arguments.clone())]),
        (Err(why), None) => IntentStep::Reply(replies::invalid_json_text(name, why)),
    }
}

fn step_save(
    what: &[FileSelector],
    to: Option<&Destination>,
    overwrite: bool,
    progress: &IntentAnswers<'_>,
    context: &IntentContext<'_>,
) -> IntentStep {
    let directory = match to {
        None => Some("/shared"),
        Some(Destination::Directory(directory)) => Some(directory.as_str()),
        Some(Destination::File(_)) => None,
    };
    let is_everything = what.iter().all(|selector| matches!(selector, FileSelector::Recent | FileSelector::All));
    if let Some(directory) = directory
        && is_everything
        && context.new_files.len() > 1
        && context.has_tool("attachment.save_all")
    {
        return match progress.first().and_then(|round| round.first()) {
            None => IntentStep::RequestTools(vec![tool_request(
                "attachment.save_all",
                set_overwrite(json!({ "dir": directory }), overwrite),
            )]),
            Some(answer) => IntentStep::Reply(replies::saved_all_text(answer)),
        };
    }
    let (selection, rounds_used) = match context.locate_files(what, progress) {
        Ok(located) => located,
        Err(step) => return step,
    };
    if selection.files.is_empty() {
        return IntentStep::Reply(replies::not_found_text(&selection.missing));
    }
    if let (Some(Destination::File(path)), true) = (to, selection.files.len() > 1) {
        return IntentStep::Reply(replies::one_name_for_many_text(path, &selection.files));
    }
    if let Some(answers) = progress.get(rounds_used) {
        return IntentStep::Reply(replies::saved_text(&selection.files, answers, &selection.missing));
    }
    let requests = selection.files.iter().map(|file| {
        let path = match to {
            Some(Destination::File(path)) => path.clone(),
            _ => format!("{}/{}", directory.unwrap_or("/shared"), file.filename),
        };
        let arguments = match context.new_files.iter().position(|new| new.id == file.id) {
            Some(index) => json!({ "index": index, "path": path }),
            None => json!({ "attachment_id": file.id, "path": path }),
        };
        tool_request("attachment_save", set_overwrite(arguments, overwrite))
    });
    context.request_tools(requests.collect())
}

fn set_overwrite(mut arguments: Value, overwrite: bool) -> Value {
    if overwrite {
        arguments["overwrite"] = json!(true);
    }
    arguments
}

fn step_send(what: &[FileSelector], progress: &IntentAnswers<'_>, context: &IntentContext<'_>) -> IntentStep {
    let (selection, rounds_used) = match context.locate_files(what, progress) {
        Ok(located) => located,
        Err(step) => return step,
    };
    let (paths, missing) = split_workspace_paths(&selection.missing);
    if let Some(answers) = progress.get(rounds_used) {
        return IntentStep::Reply(replies::sent_text(&selection.files, &paths, answers, &missing));
    }
    let mut requests = Vec::new();
    // The selection comes first: files that are created later in the turn are added to it, earlier ones are not.
    if !selection.files.is_empty() {
        let ids: Vec<&str> = selection.files.iter().map(|file| file.id.as_str()).collect();
        requests.push(tool_request("response_attachments", json!({ "ids": ids })));
    }
    requests.extend(paths.iter().map(|path| tool_request("attachment.add", json!({ "paths": [path] }))));
    if requests.is_empty() {
        IntentStep::Reply(replies::not_found_text(&missing))
    } else {
        context.request_tools(requests)
    }
}

/// Treats names of no known attachment as files of the workspace.
fn split_workspace_paths(missing: &[FileSelector]) -> (Vec<String>, Vec<FileSelector>) {
    let (mut paths, mut rest) = (Vec::new(), Vec::new());
    for selector in missing {
        match selector {
            FileSelector::Path(path) => paths.push(path.clone()),
            FileSelector::Name(name) => paths.push(workspace_path(name)),
            other => rest.push(other.clone()),
        }
    }
    (paths, rest)
}

fn step_list(path: Option<&str>, progress: &IntentAnswers<'_>, context: &IntentContext<'_>) -> IntentStep {
    let directory = path.unwrap_or("/shared");
    if let Some(answers) = progress.first() {
        return IntentStep::Reply(replies::listed_text(directory, answers));
    }
    let mut requests = vec![tool_request("file_list", json!({ "path": directory }))];
    if path.is_none() {
        requests.push(tool_request("attachment.list", json!({})));
    }
    // One of the two lists is better than none.
    if requests.iter().any(|request| context.has_tool(&request.tool)) {
        requests.retain(|request| context.has_tool(&request.tool));
    }
    context.request_tools(requests)
}

fn step_read(what: &[FileSelector], progress: &IntentAnswers<'_>, context: &IntentContext<'_>) -> IntentStep {
    let (selection, rounds_used) = match context.locate_files(what, progress) {
        Ok(located) => located,
        Err(step) => return step,
    };
    let (paths, missing) = split_workspace_paths(&selection.missing);
    if let Some(answers) = progress.get(rounds_used) {
        let names = selection.files.iter().map(|file| file.filename.as_str()).chain(paths.iter().map(String::as_str));
        return IntentStep::Reply(replies::read_text(names, answers, &missing));
    }
    let attachments = selection.files.iter().map(|file| tool_request("attachment.read", json!({ "id": file.id })));
    let files = paths.iter().map(|path| tool_request("file_read", json!({ "path": path })));
    let requests: Vec<ToolRequest> = attachments.chain(files).collect();
    if requests.is_empty() {
        IntentStep::Reply(replies::not_found_text(&missing))
    } else {
        context.request_tools(requests)
    }
}

fn step_write(
    path: &str,
    content: &str,
    overwrite: bool,
    progress: &IntentAnswers<'_>,
    context: &IntentContext<'_>,
) -> IntentStep {
    let Some(written) = progress.first().and_then(|round| round.first()) else {
        let arguments = json!({ "path": path, "content": content });
        return context.request_tools(vec![tool_request("file_write", set_overwrite(arguments, overwrite))]);
    };
    if written.failure().is_some() || !context.has_tool("attachment.add") {
        return IntentStep::Reply(replies::written_text(path, content.len(), written, None));
    }
    match progress.get(1).and_then(|round| round.first()) {
        None => IntentStep::RequestTools(vec![tool_request("attachment.add", json!({ "paths": [path] }))]),
        Some(added) => IntentStep::Reply(replies::written_text(path, content.len(), written, Some(added))),
    }
}

fn step_search(
    query: &str,
    path: Option<&str>,
    progress: &IntentAnswers<'_>,
    context: &IntentContext<'_>,
) -> IntentStep {
    let path = path.unwrap_or("/shared");
    match progress.first().and_then(|round| round.first()) {
        None => {
            let arguments = json!({ "query": query, "path": path, "ignore_case": true });
            context.request_tools(vec![tool_request("file_search", arguments)])
        }
        Some(answer) => IntentStep::Reply(replies::search_text(query, path, answer)),
    }
}
