//! What a wish needs next, given what the tools have answered so far.

use satchel_ports::ToolSpec;
use serde_json::{Value, json};

use super::{
    files::{Found, KnownFile, Selector, among_all, among_new, read_list},
    prose,
    wish::{Destination, Wish, workspace_path},
};

/// What is known of the message beside its words.
pub(super) struct Situation<'r> {
    /// The tools that may be asked for.
    pub(super) tools: &'r [ToolSpec],
    /// The files that came with the message.
    pub(super) here: Vec<KnownFile>,
    /// The ids of the files that were spoken of last.
    pub(super) mentioned: Vec<String>,
}

/// A tool call to make.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// A tool call that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered<'r> {
    pub(super) tool: &'r str,
    pub(super) text: &'r str,
}

impl<'r> Answered<'r> {
    /// Why the call failed, if it did.
    pub(super) fn failure(&self) -> Option<&'r str> {
        self.text.strip_prefix("error: ")
    }
}

pub(super) enum Step {
    /// Calls, all at once.
    Ask(Vec<Ask>),
    /// The end: what to tell the person.
    Say(String),
}

/// The answers to one wish so far, round by round.
type Progress<'r> = [Vec<Answered<'r>>];

/// Finds what a wish needs next.
pub(super) fn step(wish: &Wish, progress: &Progress<'_>, situation: &Situation<'_>) -> Step {
    match wish {
        Wish::Help => Step::Say(prose::help()),
        Wish::Unknown => Step::Say(prose::unknown()),
        Wish::Arrived { understood } => Step::Say(prose::arrived(&situation.here, *understood)),
        Wish::TooMuch => Step::Say(prose::too_much()),
        Wish::WriteWhat => Step::Say(prose::write_what()),
        Wish::Tools => Step::Say(prose::tools(situation.tools)),
        Wish::Tool { name, arguments } => tool(name, arguments, progress, situation),
        Wish::Save { what, to, overwrite } => save(what, to.as_ref(), *overwrite, progress, situation),
        Wish::Send { what } => send(what, progress, situation),
        Wish::List { path } => list(path.as_deref(), progress, situation),
        Wish::Received => match progress.first().map(Vec::as_slice) {
            None => situation.ask(vec![ask("attachment.list", json!({}))]),
            Some(answers) => Step::Say(prose::received(answers)),
        },
        Wish::Read { what } => read(what, progress, situation),
        Wish::Write { path, content, overwrite } => write(path, content, *overwrite, progress, situation),
    }
}

fn ask(tool: &str, arguments: Value) -> Ask {
    Ask { tool: tool.to_owned(), arguments }
}

impl Situation<'_> {
    fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|spec| spec.name == tool)
    }

    /// Asks, if every tool is there.
    fn ask(&self, asks: Vec<Ask>) -> Step {
        match asks.iter().find(|ask| !self.has(&ask.tool)) {
            Some(missing) => Step::Say(prose::no_tool(&missing.tool)),
            None => Step::Ask(asks),
        }
    }

    /// Finds the files that are meant, with the list of older ones where that is needed, and tells how many rounds of
    /// answers that took.
    fn locate(&self, what: &[Selector], progress: &Progress<'_>) -> Result<(Found, usize), Step> {
        let new = among_new(what, &self.here);
        if new.missing.iter().all(|missing| matches!(missing, Selector::Path(_))) {
            return Ok((new, 0));
        }
        if !self.has("attachment.list") {
            // A name may be that of a file in the workspace; everything else can only be an older attachment.
            let all_names = new.missing.iter().all(|missing| matches!(missing, Selector::Path(_) | Selector::Name(_)));
            return if all_names { Ok((new, 0)) } else { Err(Step::Say(prose::no_tool("attachment.list"))) };
        }
        let Some(answer) = progress.first().and_then(|round| round.first()) else {
            return Err(Step::Ask(vec![ask("attachment.list", json!({}))]));
        };
        match read_list(answer.text) {
            Some(all) => Ok((among_all(what, &self.here, &all, &self.mentioned), 1)),
            None => Err(Step::Say(prose::failed("look through the files", answer.text))),
        }
    }
}

fn tool(name: &str, arguments: &Result<Value, String>, progress: &Progress<'_>, situation: &Situation<'_>) -> Step {
    match (arguments, progress.first().and_then(|round| round.first())) {
        (_, Some(answer)) => Step::Say(prose::tool_answered(answer)),
        (Ok(arguments), None) => situation.ask(vec![ask(name, arguments.clone())]),
        (Err(why), None) => Step::Say(prose::no_json(name, why)),
    }
}

fn save(
    what: &[Selector],
    to: Option<&Destination>,
    overwrite: bool,
    progress: &Progress<'_>,
    situation: &Situation<'_>,
) -> Step {
    let directory = match to {
        None => Some("/shared"),
        Some(Destination::Directory(directory)) => Some(directory.as_str()),
        Some(Destination::File(_)) => None,
    };
    let everything = what.iter().all(|selector| matches!(selector, Selector::Recent | Selector::All));
    if let Some(directory) = directory
        && everything
        && situation.here.len() > 1
        && situation.has("attachment.save_all")
    {
        return match progress.first().and_then(|round| round.first()) {
            None => Step::Ask(vec![ask("attachment.save_all", with_overwrite(json!({ "dir": directory }), overwrite))]),
            Some(answer) => Step::Say(prose::saved_all(answer)),
        };
    }
    let (found, used) = match situation.locate(what, progress) {
        Ok(located) => located,
        Err(step) => return step,
    };
    if found.files.is_empty() {
        return Step::Say(prose::not_found(&found.missing));
    }
    if let (Some(Destination::File(path)), true) = (to, found.files.len() > 1) {
        return Step::Say(prose::one_name_for_many(path, &found.files));
    }
    if let Some(answers) = progress.get(used) {
        return Step::Say(prose::saved(&found.files, answers, &found.missing));
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
        ask("attachment_save", with_overwrite(arguments, overwrite))
    });
    situation.ask(asks.collect())
}

fn with_overwrite(mut arguments: Value, overwrite: bool) -> Value {
    if overwrite {
        arguments["overwrite"] = json!(true);
    }
    arguments
}

fn send(what: &[Selector], progress: &Progress<'_>, situation: &Situation<'_>) -> Step {
    let (found, used) = match situation.locate(what, progress) {
        Ok(located) => located,
        Err(step) => return step,
    };
    let (paths, missing) = in_workspace(&found.missing);
    if let Some(answers) = progress.get(used) {
        return Step::Say(prose::sent(&found.files, &paths, answers, &missing));
    }
    let mut asks = Vec::new();
    // The selection comes first: files that are made later in the turn are added to it, earlier ones are not.
    if !found.files.is_empty() {
        let ids: Vec<&str> = found.files.iter().map(|file| file.id.as_str()).collect();
        asks.push(ask("response_attachments", json!({ "ids": ids })));
    }
    asks.extend(paths.iter().map(|path| ask("attachment.add", json!({ "paths": [path] }))));
    if asks.is_empty() { Step::Say(prose::not_found(&missing)) } else { situation.ask(asks) }
}

/// Takes names that are no known attachment for files of the workspace.
fn in_workspace(missing: &[Selector]) -> (Vec<String>, Vec<Selector>) {
    let (mut paths, mut rest) = (Vec::new(), Vec::new());
    for selector in missing {
        match selector {
            Selector::Path(path) => paths.push(path.clone()),
            Selector::Name(name) => paths.push(workspace_path(name)),
            other => rest.push(other.clone()),
        }
    }
    (paths, rest)
}

fn list(path: Option<&str>, progress: &Progress<'_>, situation: &Situation<'_>) -> Step {
    let directory = path.unwrap_or("/shared");
    if let Some(answers) = progress.first() {
        return Step::Say(prose::listed(directory, answers));
    }
    let mut asks = vec![ask("file_list", json!({ "path": directory }))];
    if path.is_none() {
        asks.push(ask("attachment.list", json!({})));
    }
    // One of the two lists is better than none.
    if asks.iter().any(|ask| situation.has(&ask.tool)) {
        asks.retain(|ask| situation.has(&ask.tool));
    }
    situation.ask(asks)
}

fn read(what: &[Selector], progress: &Progress<'_>, situation: &Situation<'_>) -> Step {
    let (found, used) = match situation.locate(what, progress) {
        Ok(located) => located,
        Err(step) => return step,
    };
    let (paths, missing) = in_workspace(&found.missing);
    if let Some(answers) = progress.get(used) {
        let names = found.files.iter().map(|file| file.filename.as_str()).chain(paths.iter().map(String::as_str));
        return Step::Say(prose::read(names, answers, &missing));
    }
    let attachments = found.files.iter().map(|file| ask("attachment.read", json!({ "id": file.id })));
    let files = paths.iter().map(|path| ask("file_read", json!({ "path": path })));
    let asks: Vec<Ask> = attachments.chain(files).collect();
    if asks.is_empty() { Step::Say(prose::not_found(&missing)) } else { situation.ask(asks) }
}

fn write(path: &str, content: &str, overwrite: bool, progress: &Progress<'_>, situation: &Situation<'_>) -> Step {
    let Some(written) = progress.first().and_then(|round| round.first()) else {
        let arguments = json!({ "path": path, "content": content });
        return situation.ask(vec![ask("file_write", with_overwrite(arguments, overwrite))]);
    };
    if written.failure().is_some() || !situation.has("attachment.add") {
        return Step::Say(prose::written(path, content.len(), written, None));
    }
    match progress.get(1).and_then(|round| round.first()) {
        None => Step::Ask(vec![ask("attachment.add", json!({ "paths": [path] }))]),
        Some(added) => Step::Say(prose::written(path, content.len(), written, Some(added))),
    }
}
