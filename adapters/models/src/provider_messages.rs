//! A conversation in the form that every provider accepts: alternating turns, a result per call, chosen files. Pure.
//!
//! Providers refuse a conversation with a gap (a call without a result, a result without a call, two turns of one side,
//! an empty text). Satchel's agent leaves none; gaps from other callers are repaired here.

use std::collections::{HashMap, HashSet};

use satchel_domain::{attachment::escape_references, filename::is_unsafe_char, size};
use satchel_ports::{
    ModelFile, ModelMessage,
    language_model::{ContentPart, ModelToolCall},
};
use serde_json::{Value, json};

use crate::{
    capabilities::{FileRules, RequestFileBudget},
    refused_files::{LeftOutGroups, SentFile, SentGroup},
    tool_names::ToolNames,
};

/// The longest file name in the model's input, in characters.
const MAX_NAME_CHARS: usize = 150;

/// The longest address in the model's input, in characters.
const MAX_URL_CHARS: usize = 2_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ProviderTurn {
    /// The person's messages and Satchel's notes.
    Person(Vec<ContentPiece>),
    /// The model's text and tool calls.
    Model { text: String, calls: Vec<WireToolCall> },
    /// The results of all calls of the turn before, in their order.
    ToolResults(Vec<WireToolResult>),
}

/// A piece of the person's turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ContentPiece {
    /// Text; never blank.
    Text(String),
    /// A file that the model accepts.
    File(Box<ModelFile>),
    /// The address of an image that the provider fetches.
    ImageUrl(String),
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
    /// Files that are part of the result itself.
    pub(crate) files: Vec<ModelFile>,
}

/// Where the files of a tool result are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultFiles {
    InResult,
    /// Into the person's turn that follows, because the provider accepts only text in a result.
    InNextMessage,
}

pub(crate) fn build_turns(
    messages: &[ModelMessage],
    rules: &FileRules,
    left_out: &LeftOutGroups,
    names: &ToolNames,
    result_files: ResultFiles,
) -> Vec<ProviderTurn> {
    let mut builder = ConversationBuilder { turns: Vec::new(), names, result_files, call_count: 0, open_calls: None };
    for (message, decisions) in messages.iter().zip(decide_files(messages, rules, left_out)) {
        match message {
            ModelMessage::User { text, attachments } => {
                builder.close_calls();
                builder.push_user_text(text);
                for (file, decision) in attachments.iter().zip(decisions) {
                    builder.push_file(file, decision);
                }
            }
            ModelMessage::Context { parts } => {
                builder.close_calls();
                for (part, decision) in parts.iter().zip(decisions) {
                    builder.push_part(part, decision);
                }
            }
            ModelMessage::Note { text } => {
                builder.close_calls();
                builder.push_note(text);
            }
            ModelMessage::Assistant { text, calls } => {
                builder.close_calls();
                builder.push_model_turn(text, calls);
            }
            ModelMessage::Tool { call, text, attachments } => {
                builder.push_tool_result(call, text, attachments.iter().zip(decisions).collect());
            }
        }
    }
    builder.close_calls();
    builder.turns
}

type FileDecisions<'a> = Vec<(&'a ModelFile, Result<(), String>)>;

/// Decides for each file and part of each message whether it is sent. The newest messages go first, because the turn is
/// about them. What is left out takes room as if it were sent: no request then sends something for which the first one had no
/// room, and of which a search for what the provider refuses knows nothing.
fn decide_files(
    messages: &[ModelMessage],
    rules: &FileRules,
    left_out: &LeftOutGroups,
) -> Vec<Vec<Result<(), String>>> {
    let mut budget = RequestFileBudget::default();
    let decide = |message: &ModelMessage| {
        let files = SentFile::list(message);
        let message_files: SentGroup = files.iter().flatten().cloned().collect();
        let check_refusals = |file: &Option<SentFile>| match file.as_ref() {
            Some(file) => match left_out.find(file, &message_files) {
                Some(reason) => Err(rules.refused_reason(file.kind, reason)),
                None => Ok(()),
            },
            None => Ok(()),
        };
        let refusals = files.iter().map(check_refusals);
        match message {
            ModelMessage::User { attachments, .. } | ModelMessage::Tool { attachments, .. } => {
                let admit = |(file, refusal): (&ModelFile, Result<(), String>)| {
                    rules.admit_file(&mut budget, file).and(refusal)
                };
                attachments.iter().zip(refusals).map(admit).collect()
            }
            ModelMessage::Context { parts } => {
                let admit = |(part, refusal): (&ContentPart, Result<(), String>)| {
                    let admitted = match part {
                        ContentPart::Text(_) => Ok(()),
                        ContentPart::ImageUrl(_) => rules.admit_image_url(&mut budget),
                        ContentPart::File(file) => rules.admit_file(&mut budget, file),
                    };
                    admitted.and(refusal)
                };
                parts.iter().zip(refusals).map(admit).collect()
            }
            ModelMessage::Note { .. } | ModelMessage::Assistant { .. } => Vec::new(),
        }
    };
    let mut decisions: Vec<_> = messages.iter().rev().map(decide).collect();
    decisions.reverse();
    decisions
}

struct ConversationBuilder<'a> {
    turns: Vec<ProviderTurn>,
    names: &'a ToolNames,
    result_files: ResultFiles,
    /// How many calls there have been; their ids are derived from it.
    call_count: usize,
    /// The calls of the model's last turn, as long as results may come.
    open_calls: Option<OpenCalls>,
}

struct OpenCalls {
    /// Satchel's ids and the calls as sent.
    requested: Vec<(String, WireToolCall)>,
    results: HashMap<String, WireToolResult>,
    /// The content that follows the results.
    following: Vec<ContentPiece>,
}

impl ConversationBuilder<'_> {
    /// The person's turn at the end; started if there is none.
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

    fn push_file(&mut self, file: &ModelFile, decision: Result<(), String>) {
        let pieces = file_pieces(file, decision);
        self.user_turn().extend(pieces);
    }

    fn push_part(&mut self, part: &ContentPart, decision: Result<(), String>) {
        match (part, decision) {
            (ContentPart::Text(text), _) => self.push_user_text(text),
            (ContentPart::File(file), decision) => self.push_file(file, decision),
            (ContentPart::ImageUrl(url), Ok(())) => self.user_turn().push(ContentPiece::ImageUrl(url.clone())),
            (ContentPart::ImageUrl(url), Err(reason)) => self.push_note(&omitted_image_note(url, &reason)),
        }
    }

    fn push_model_turn(&mut self, text: &str, calls: &[ModelToolCall]) {
        if text.trim().is_empty() && calls.is_empty() {
            return;
        }
        if self.turns.is_empty() {
            // Providers require the person to start.
            self.push_note("The conversation continues here.");
        }
        let mut seen = HashSet::new();
        let requested: Vec<(String, WireToolCall)> = calls
            .iter()
            .filter(|call| seen.insert(call.id.as_str()))
            .map(|call| {
                self.call_count += 1;
                // Nine letters and digits: the one form that every provider accepts. Mistral accepts no other, OpenAI
                // at most 40 characters, Anthropic only letters, digits, `_` and `-`.
                let id = format!("call{:05}", self.call_count);
                let arguments = to_object(&call.arguments);
                (call.id.clone(), WireToolCall { id, name: self.names.to_wire(&call.name), arguments })
            })
            .collect();
        match self.turns.last_mut() {
            Some(ProviderTurn::Model { text: previous, calls }) if calls.is_empty() => {
                *previous = [previous.trim(), text.trim()].map(str::to_owned).join("\n\n").trim().to_owned();
                *calls = requested.iter().map(|(_, call)| call.clone()).collect();
            }
            _ => {
                let calls = requested.iter().map(|(_, call)| call.clone()).collect();
                self.turns.push(ProviderTurn::Model { text: text.trim().to_owned(), calls });
            }
        }
        if !requested.is_empty() {
            self.open_calls = Some(OpenCalls { requested, results: HashMap::new(), following: Vec::new() });
        }
    }

    fn push_tool_result(&mut self, call: &str, text: &str, files: FileDecisions<'_>) {
        let result_files = self.result_files;
        let Some(open) = &mut self.open_calls else { return self.push_note(&format!("A tool answered: {text}")) };
        let request = open.requested.iter().find(|(id, _)| id == call).map(|(_, request)| request.clone());
        let Some(request) = request.filter(|_| !open.results.contains_key(call)) else {
            open.following.push(ContentPiece::Text(format_note(&format!("A tool answered: {text}"))));
            return;
        };
        let mut result =
            WireToolResult { id: request.id, name: request.name, text: text.to_owned(), files: Vec::new() };
        let mut following = Vec::new();
        for (file, decision) in files {
            match (decision, result_files) {
                (Err(reason), _) => append_line(&mut result.text, &omitted_file_note(file, &reason)),
                (Ok(()), ResultFiles::InResult) => result.files.push(file.clone()),
                (Ok(()), ResultFiles::InNextMessage) => following.extend(file_pieces(file, Ok(()))),
            }
        }
        if !following.is_empty() {
            append_line(&mut result.text, "Its files are shown in the next message.");
            open.following
                .push(ContentPiece::Text(format_note(&format!("The files that `{}` returned.", result.name))));
            open.following.append(&mut following);
        }
        if result.text.trim().is_empty() {
            result.text = "done, without text".to_owned();
        }
        open.results.insert(call.to_owned(), result);
    }

    /// Completes the results of the model's last turn; a call without a result gets an error.
    fn close_calls(&mut self) {
        let Some(OpenCalls { requested, mut results, following }) = self.open_calls.take() else { return };
        let missing_result = |request: WireToolCall| WireToolResult {
            id: request.id,
            name: request.name,
            text: "error: no answer was recorded; it may have taken effect".to_owned(),
            files: Vec::new(),
        };
        let results = requested
            .into_iter()
            .map(|(id, request)| results.remove(&id).unwrap_or_else(|| missing_result(request)))
            .collect();
        self.turns.push(ProviderTurn::ToolResults(results));
        if !following.is_empty() {
            self.user_turn().extend(following);
        }
    }
}

/// A file after its name, so that the model can tell files apart, or the reason why it isn't sent.
fn file_pieces(file: &ModelFile, decision: Result<(), String>) -> Vec<ContentPiece> {
    match decision {
        Ok(()) => vec![
            ContentPiece::Text(format_note(&format!("The file {}:", quote_name(file)))),
            ContentPiece::File(Box::new(file.clone())),
        ],
        Err(reason) => vec![ContentPiece::Text(format_note(&omitted_file_note(file, &reason)))],
    }
}

/// The note that a file is not sent, and why.
pub(crate) fn omitted_file_note(file: &ModelFile, reason: &str) -> String {
    let size = size::format_bytes(file.bytes);
    format!("You can't see the file {} ({}, {size}): {reason}.", quote_name(file), sanitize(&file.mime))
}

/// The note that an image is not fetched, and why.
fn omitted_image_note(url: &str, reason: &str) -> String {
    let url: String = url.chars().filter(|c| !is_unsafe_char(*c)).take(MAX_URL_CHARS).collect();
    format!("You can't see the image at {}: {reason}.", escape_references(&url))
}

/// Satchel's note in the person's turn. The agent escapes the marker in people's messages, so it can't be forged.
pub(crate) fn format_note(text: &str) -> String {
    let text = text.replace("[[satchel.", "\\[[satchel.").replace("[[/satchel.", "\\[[/satchel.");
    format!("[[satchel.note]]{text}[[/satchel.note]]")
}

/// A file's name, sanitized against prompt injection.
fn quote_name(file: &ModelFile) -> String {
    escape_references(&format!("{:?}", sanitize(file.filename.as_str())))
}

fn sanitize(untrusted: &str) -> String {
    untrusted.chars().filter(|c| !is_unsafe_char(*c)).take(MAX_NAME_CHARS).collect()
}

pub(crate) fn append_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// The arguments as an object: Anthropic, Gemini and Ollama refuse a conversation with any other value.
pub(crate) fn to_object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        other => json!({ "not_an_object": other }),
    }
}

#[cfg(test)]
mod tests;
