//! What a wish needs next, given what the tools have answered so far.

use satchel_ports::ToolSpec;
use serde_json::{Value, json};

use super::{
    files::{FileSelection, FileSelector, ListedFile, among_all, among_new, read_list},
    intent::{Destination, Intent, workspace_path},
    replies,
};

/// What is known of the message beside its words.
pub(super) struct IntentContext<'r> {
    /// The tools that may be asked for.
    pub(super) tools: &'r [ToolSpec],
    /// The files that came with the message.
    pub(super) here: Vec<ListedFile>,
    /// The ids of the files that were spoken of last.
    pub(super) mentioned: Vec<String>,
}

/// A tool call to make.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolRequest {
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// A tool call that was answered.
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
    /// Calls, all at once.
    RequestTools(Vec<ToolRequest>),
    /// The end: what to tell the person.
    Reply(String),
}

/// The answers to one wish so far, round by round.
type IntentAnswers<'r> = [Vec<ToolAnswer<'r>>];

/// Finds what a wish needs next.
pub(super) fn step(wish: &Intent, progress: &IntentAnswers<'_>, situation: &IntentContext<'_>) -> IntentStep {
    match wish {
        Intent::Help => IntentStep::Reply(replies::help()),
        Intent::Unknown => IntentStep::Reply(replies::unknown()),
        Intent::Arrived { understood } => IntentStep::Reply(replies::arrived(&situation.here, *understood)),
        Intent::TooMuch => IntentStep::Reply(replies::too_much()),
        Intent::WriteWhat => IntentStep::Reply(replies::missing_content_text()),
        Intent::Tools => IntentStep::Reply(replies::tools(situation.tools)),
        Intent::Tool { name, arguments } => tool(name, arguments, progress, situation),
        Intent::Save { what, to, overwrite } => save(what, to.as_ref(), *overwrite, progress, situation),
        Intent::Send { what } => send(what, progress, situation),
        Intent::List { path } => list(path.as_deref(), progress, situation),
        Intent::Received => match progress.first().map(Vec::as_slice) {
            None => situation.request_tools(vec![tool_request("attachment.list", json!({}))]),
            Some(answers) => IntentStep::Reply(replies::received(answers)),
        },
        Intent::Read { what } => read(what, progress, situation),
        Intent::Write { path, content, overwrite } => write(path, content, *overwrite, progress, situation),
    }
}

fn tool_request(tool: &str, arguments: Value) -> ToolRequest {
    ToolRequest { tool: tool.to_owned(), arguments }
}

impl IntentContext<'_> {
    fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|spec| spec.name == tool)
    }

    /// Asks, if every tool is there.
    fn request_tools(&self, asks: Vec<ToolRequest>) -> IntentStep {
        match asks.iter().find(|ask| !self.has(&ask.tool)) {
            Some(missing) => IntentStep::Reply(replies::missing_tool_text(&missing.tool)),
            None => IntentStep::RequestTools(asks),
        }
    }

    /// Finds the files that are meant, with the list of older ones where that is needed, and tells how many rounds of
    /// answers that took.
    fn locate(
        &self,
        what: &[FileSelector],
        progress: &IntentAnswers<'_>,
    ) -> Result<(FileSelection, usize), IntentStep> {
        let new = among_new(what, &self.here);
        if new.missing.iter().all(|missing| matches!(missing, FileSelector::Path(_))) {
            return Ok((new, 0));
        }
        if !self.has("attachment.list") {
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
            Some(all) => Ok((among_all(what, &self.here, &all, &self.mentioned), 1)),
            None => Err(IntentStep::Reply(replies::failure_text("look through the files", answer.text))),
        }
    }
}

fn tool(
    name: &str,
    arguments: &Result<Value, String>,
    progress: &IntentAnswers<'_>,
    situation: &IntentContext<'_>,
) -> IntentStep {
    match (arguments, progress.first().and_then(|round| round.first())) {
        (_, Some(answer)) => IntentStep::Reply(replies::tool_answered(answer)),
        (Ok(arguments), None) => situation.request_tools(vec![tool_request(name, arguments.clone())]),
        (Err(why), None) => IntentStep::Reply(replies::invalid_json_text(name, why)),
    }
}

fn save(
    what: &[FileSelector],
    to: Option<&Destination>,
    overwrite: bool,
    progress: &IntentAnswers<'_>,
    situation: &IntentContext<'_>,
) -> IntentStep {
    let directory = match to {
        None => Some("/shared"),
        Some(Destination::Directory(directory)) => Some(directory.as_str()),
        Some(Destination::File(_)) => None,
    };
    let everything = what.iter().all(|selector| matches!(selector, FileSelector::Recent | FileSelector::All));
    if let Some(directory) = directory
        && everything
        && situation.here.len() > 1
        && situation.has("attachment.save_all")
    {
        return match progress.first().and_then(|round| round.first()) {
            None => IntentStep::RequestTools(vec![tool_request(
                "attachment.save_all",
                with_overwrite(json!({ "dir": directory }), overwrite),
            )]),
            Some(answer) => IntentStep::Reply(replies::saved_all(answer)),
        };
    }
    let (found, used) = match situation.locate(what, progress) {
        Ok(located) => located,
        Err(step) => return step,
    };
    if found.files.is_empty() {
        return IntentStep::Reply(replies::not_found(&found.missing));
    }
    if let (Some(Destination::File(path)), true) = (to, found.files.len() > 1) {
        return IntentStep::Reply(replies::one_name_for_many(path, &found.files));
    }
    if let Some(answers) = progress.get(used) {
        return IntentStep::Reply(replies::saved(&found.files, answers, &found.missing));
    }
    let asks = found.files.iter().map(|file| {
        let path = match to {
            Some(Destination::File(path)) => path.clone(),
            _ => format!("{}/{}", directory.unwrap_or("/shared"), file.filename),
        };
        let arguments = match situation.here.iter().position(|new| new.id == file.id) {
            Some(index) => json!({ "index": index, "path": path }),
            None => json!({ "attachment_id": file.id, "path": path }),
        };
        tool_request("attachment_save", with_overwrite(arguments, overwrite))
    });
    situation.request_tools(asks.collect())
}

fn with_overwrite(mut arguments: Value, overwrite: bool) -> Value {
    if overwrite {
        arguments["overwrite"] = json!(true);
    }
    arguments
}

fn send(what: &[FileSelector], progress: &IntentAnswers<'_>, situation: &IntentContext<'_>) -> IntentStep {
    let (found, used) = match situation.locate(what, progress) {
        Ok(located) => located,
        Err(step) => return step,
    };
    let (paths, missing) = in_workspace(&found.missing);
    if let Some(answers) = progress.get(used) {
        return IntentStep::Reply(replies::sent_text(&found.files, &paths, answers, &missing));
    }
    let mut asks = Vec::new();
    // The selection comes first: files that are made later in the turn are added to it, earlier ones are not.
    if !found.files.is_empty() {
        let ids: Vec<&str> = found.files.iter().map(|file| file.id.as_str()).collect();
        asks.push(tool_request("response_attachments", json!({ "ids": ids })));
    }
    asks.extend(paths.iter().map(|path| tool_request("attachment.add", json!({ "paths": [path] }))));
    if asks.is_empty() { IntentStep::Reply(replies::not_found(&missing)) } else { situation.request_tools(asks) }
}

/// Takes names that are no known attachment for files of the workspace.
fn in_workspace(missing: &[FileSelector]) -> (Vec<String>, Vec<FileSelector>) {
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

fn list(path: Option<&str>, progress: &IntentAnswers<'_>, situation: &IntentContext<'_>) -> IntentStep {
    let directory = path.unwrap_or("/shared");
    if let Some(answers) = progress.first() {
        return IntentStep::Reply(replies::listed(directory, answers));
    }
    let mut asks = vec![tool_request("file_list", json!({ "path": directory }))];
    if path.is_none() {
        asks.push(tool_request("attachment.list", json!({})));
    }
    // One of the two lists is better than none.
    if asks.iter().any(|ask| situation.has(&ask.tool)) {
        asks.retain(|ask| situation.has(&ask.tool));
    }
    situation.request_tools(asks)
}

fn read(what: &[FileSelector], progress: &IntentAnswers<'_>, situation: &IntentContext<'_>) -> IntentStep {
    let (found, used) = match situation.locate(what, progress) {
        Ok(located) => located,
        Err(step) => return step,
    };
    let (paths, missing) = in_workspace(&found.missing);
    if let Some(answers) = progress.get(used) {
        let names = found.files.iter().map(|file| file.filename.as_str()).chain(paths.iter().map(String::as_str));
        return IntentStep::Reply(replies::read(names, answers, &missing));
    }
    let attachments = found.files.iter().map(|file| tool_request("attachment.read", json!({ "id": file.id })));
    let files = paths.iter().map(|path| tool_request("file_read", json!({ "path": path })));
    let asks: Vec<ToolRequest> = attachments.chain(files).collect();
    if asks.is_empty() { IntentStep::Reply(replies::not_found(&missing)) } else { situation.request_tools(asks) }
}

fn write(
    path: &str,
    content: &str,
    overwrite: bool,
    progress: &IntentAnswers<'_>,
    situation: &IntentContext<'_>,
) -> IntentStep {
    let Some(written) = progress.first().and_then(|round| round.first()) else {
        let arguments = json!({ "path": path, "content": content });
        return situation.request_tools(vec![tool_request("file_write", with_overwrite(arguments, overwrite))]);
    };
    if written.failure().is_some() || !situation.has("attachment.add") {
        return IntentStep::Reply(replies::written_text(path, content.len(), written, None));
    }
    match progress.get(1).and_then(|round| round.first()) {
        None => IntentStep::RequestTools(vec![tool_request("attachment.add", json!({ "paths": [path] }))]),
        Some(added) => IntentStep::Reply(replies::written_text(path, content.len(), written, Some(added))),
    }
}
