//! A conversation as every provider takes it: turns that alternate, calls that are answered, files chosen. Pure.
//!
//! Providers refuse a conversation with a gap (an unanswered call, an answer without a call, two turns of one side, an
//! empty text). Satchel's agent leaves none; what comes from elsewhere is mended here instead of being refused there.

use std::collections::{HashMap, HashSet};

use satchel_domain::{Attachment, attachment::escape_references, filename::is_unsafe_char, size};
use satchel_ports::{ModelMessage, language_model::ModelToolCall};
use serde_json::{Value, json};

use crate::{
    capabilities::{FileRules, RequestFileBudget},
    tool_names::ToolNames,
};

/// The longest that a file's name may be in what the model reads, in characters.
const MAX_NAME_CHARS: usize = 150;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ProviderTurn {
    /// What the person said and Satchel noted.
    Person(Vec<ContentPiece>),
    /// What the model said and asked for.
    Model { text: String, calls: Vec<WireToolCall> },
    /// The answers to all calls of the turn before, in their order.
    Answers(Vec<WireToolResult>),
}

/// A piece of the person's turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ContentPiece {
    /// Words; never blank.
    Text(String),
    /// A file that the model takes.
    File(Box<Attachment>),
}

/// A call, named as on the wire.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WireToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WireToolResult {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) text: String,
    /// Files that stand in the answer itself.
    pub(crate) files: Vec<Attachment>,
}

/// Where the files that a tool made are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultFiles {
    Inside,
    /// Into the person's turn that follows, because the provider takes only text in an answer.
    After,
}

pub(crate) fn build_turns(
    messages: &[ModelMessage],
    rules: &FileRules,
    names: &ToolNames,
    place: ResultFiles,
) -> Vec<ProviderTurn> {
    let mut arranged = ConversationBuilder { turns: Vec::new(), names, place, calls: 0, open: None };
    for (message, verdicts) in messages.iter().zip(verdicts(messages, rules)) {
        match message {
            ModelMessage::User { text, .. } => {
                arranged.close_calls();
                arranged.push_user_text(text);
                for (file, verdict) in verdicts {
                    arranged.push_file(file, verdict);
                }
            }
            ModelMessage::Note { text } => {
                arranged.close_calls();
                arranged.push_note(text);
            }
            ModelMessage::Assistant { text, calls } => {
                arranged.close_calls();
                arranged.push_model_turn(text, calls);
            }
            ModelMessage::Tool { call, text, .. } => arranged.push_tool_result(call, text, verdicts),
        }
    }
    arranged.close_calls();
    arranged.turns
}

type FileDecisions<'a> = Vec<(&'a Attachment, Result<(), String>)>;

/// Which files are sent. The newest messages choose first, because they are what the turn is about.
fn verdicts<'a>(messages: &'a [ModelMessage], rules: &FileRules) -> Vec<FileDecisions<'a>> {
    let mut taken = RequestFileBudget::default();
    let mut verdicts: Vec<FileDecisions<'a>> = messages
        .iter()
        .rev()
        .map(|message| {
            let files: &[Attachment] = match message {
                ModelMessage::User { attachments, .. } | ModelMessage::Tool { attachments, .. } => attachments,
                ModelMessage::Note { .. } | ModelMessage::Assistant { .. } => &[],
            };
            files.iter().map(|file| (file, rules.admit_file(&mut taken, file))).collect()
        })
        .collect();
    verdicts.reverse();
    verdicts
}

struct ConversationBuilder<'a> {
    turns: Vec<ProviderTurn>,
    names: &'a ToolNames,
    place: ResultFiles,
    /// How many calls there have been; their ids are made of it.
    calls: usize,
    /// The calls of the model's last turn, as long as answers may come.
    open: Option<OpenCalls>,
}

struct OpenCalls {
    /// Satchel's ids and what became of them.
    asked: Vec<(String, WireToolCall)>,
    answered: HashMap<String, WireToolResult>,
    /// What is shown after the answers.
    after: Vec<ContentPiece>,
}

impl ConversationBuilder<'_> {
    /// The person's turn, to which something is added.
    fn user_turn(&mut self) -> &mut Vec<ContentPiece> {
        if !matches!(self.turns.last(), Some(ProviderTurn::Person(_))) {
            self.turns.push(ProviderTurn::Person(Vec::new()));
        }
        match self.turns.last_mut() {
            Some(ProviderTurn::Person(pieces)) => pieces,
            _ => unreachable!("it was just pushed"),
        }
    }

    fn push_user_text(&mut self, text: &str) {
        let pieces = self.user_turn();
        if !text.trim().is_empty() {
            pieces.push(ContentPiece::Text(text.to_owned()));
        }
    }

    fn push_note(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.user_turn().push(ContentPiece::Text(format_note(text)));
        }
    }

    fn push_file(&mut self, file: &Attachment, verdict: Result<(), String>) {
        let pieces = file_pieces(file, verdict);
        self.user_turn().extend(pieces);
    }

    fn push_model_turn(&mut self, text: &str, calls: &[ModelToolCall]) {
        if text.trim().is_empty() && calls.is_empty() {
            return;
        }
        if self.turns.is_empty() {
            // Providers want the person to begin.
            self.push_note("The conversation continues here.");
        }
        let mut taken = HashSet::new();
        let asked: Vec<(String, WireToolCall)> = calls
            .iter()
            .filter(|call| taken.insert(call.id.as_str()))
            .map(|call| {
                self.calls += 1;
                // Nine letters and digits: the one form that every provider takes. Mistral takes no other, OpenAI at
                // most 40 characters, Anthropic nothing but letters, digits, `_` and `-`.
                let id = format!("call{:05}", self.calls);
                let arguments = object(&call.arguments);
                (call.id.clone(), WireToolCall { id, name: self.names.to_wire(&call.name), arguments })
            })
            .collect();
        match self.turns.last_mut() {
            Some(ProviderTurn::Model { text: before, calls }) if calls.is_empty() => {
                *before = [before.trim(), text.trim()].map(str::to_owned).join("\n\n").trim().to_owned();
                *calls = asked.iter().map(|(_, asked)| asked.clone()).collect();
            }
            _ => {
                let calls = asked.iter().map(|(_, asked)| asked.clone()).collect();
                self.turns.push(ProviderTurn::Model { text: text.trim().to_owned(), calls });
            }
        }
        if !asked.is_empty() {
            self.open = Some(OpenCalls { asked, answered: HashMap::new(), after: Vec::new() });
        }
    }

    fn push_tool_result(&mut self, call: &str, text: &str, files: FileDecisions<'_>) {
        let place = self.place;
        let Some(open) = &mut self.open else { return self.push_note(&format!("A tool answered: {text}")) };
        let asked = open.asked.iter().find(|(id, _)| id == call).map(|(_, asked)| asked.clone());
        let Some(asked) = asked.filter(|_| !open.answered.contains_key(call)) else {
            open.after.push(ContentPiece::Text(format_note(&format!("A tool answered: {text}"))));
            return;
        };
        let mut answer = WireToolResult { id: asked.id, name: asked.name, text: text.to_owned(), files: Vec::new() };
        let mut after = Vec::new();
        for (file, verdict) in files {
            match (verdict, place) {
                (Err(reason), _) => append_line(&mut answer.text, &omitted_file_note(file, &reason)),
                (Ok(()), ResultFiles::Inside) => answer.files.push(file.clone()),
                (Ok(()), ResultFiles::After) => after.extend(file_pieces(file, Ok(()))),
            }
        }
        if !after.is_empty() {
            append_line(&mut answer.text, "Its files are shown in the next message.");
            open.after.push(ContentPiece::Text(format_note(&format!("The files that `{}` returned.", answer.name))));
            open.after.append(&mut after);
        }
        if answer.text.trim().is_empty() {
            answer.text = "done, without text".to_owned();
        }
        open.answered.insert(call.to_owned(), answer);
    }

    /// Ends the answers to the model's last turn; a call without one is given one.
    fn close_calls(&mut self) {
        let Some(OpenCalls { asked, mut answered, after }) = self.open.take() else { return };
        let unanswered = |asked: WireToolCall| WireToolResult {
            id: asked.id,
            name: asked.name,
            text: "error: no answer was recorded; it may have taken effect".to_owned(),
            files: Vec::new(),
        };
        let answers =
            asked.into_iter().map(|(id, asked)| answered.remove(&id).unwrap_or_else(|| unanswered(asked))).collect();
        self.turns.push(ProviderTurn::Answers(answers));
        if !after.is_empty() {
            self.user_turn().extend(after);
        }
    }
}

/// A file with its name before it, so that the model can tell it from the others, or why it isn't shown.
fn file_pieces(file: &Attachment, verdict: Result<(), String>) -> Vec<ContentPiece> {
    match verdict {
        Ok(()) => vec![
            ContentPiece::Text(format_note(&format!("The file {}:", quoted_name(file)))),
            ContentPiece::File(Box::new(file.clone())),
        ],
        Err(reason) => vec![ContentPiece::Text(format_note(&omitted_file_note(file, &reason)))],
    }
}

/// Says that a file is not shown, and why.
pub(crate) fn omitted_file_note(file: &Attachment, reason: &str) -> String {
    let size = size::format_bytes(file.bytes);
    format!("You can't see the file {} ({}, {size}): {reason}.", quoted_name(file), cut(&file.mime))
}

/// Words of Satchel in the person's turn. The agent escapes the marker in what people write, so nobody can forge it.
pub(crate) fn format_note(text: &str) -> String {
    let text = text.replace("[[satchel.", "\\[[satchel.").replace("[[/satchel.", "\\[[/satchel.");
    format!("[[satchel.note]]{text}[[/satchel.note]]")
}

/// A file's name in a form that can give no orders.
fn quoted_name(file: &Attachment) -> String {
    escape_references(&format!("{:?}", cut(file.filename.as_str())))
}

fn cut(untrusted: &str) -> String {
    untrusted.chars().filter(|c| !is_unsafe_char(*c)).take(MAX_NAME_CHARS).collect()
}

pub(crate) fn append_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// The arguments as an object. Anthropic, Gemini and Ollama refuse a conversation in which they once were none.
pub(crate) fn object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        other => json!({ "not_an_object": other }),
    }
}

#[cfg(test)]
mod tests;
