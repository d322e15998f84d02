//! The rules that several providers share: names, ids, files, and the order of turns. Each cites its source.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::{
    ModelWire, error_bodies,
    file_content::check_content,
    recorded::{RecordedFile, RecordedPart, RecordedTurn},
};

/// Refuses a field that the provider doesn't know.
pub(crate) fn only(object: &Value, place: &str, known: &[&str], words: fn(&str, &str) -> String) -> Result<(), String> {
    let Some(fields) = object.as_object() else { return Err(format!("{place} must be an object")) };
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => Err(words(place, unknown)),
        None => Ok(()),
    }
}

pub(crate) fn text<'a>(object: &'a Value, key: &str, place: &str) -> Result<&'a str, String> {
    object.get(key).and_then(Value::as_str).ok_or_else(|| format!("{place}.{key} must be a string"))
}

pub(crate) fn list<'a>(object: &'a Value, key: &str) -> Result<&'a [Value], String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("{key} must be a list")),
    }
}

/// The name of a tool. OpenAI: `^[a-zA-Z0-9_-]+$` and at most 64 characters
/// (<https://platform.openai.com/docs/api-reference/chat/create>, `tools.function.name`); Anthropic:
/// `^[a-zA-Z0-9_-]{1,128}$` (<https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use>);
/// Gemini: begins with a letter or `_`, at most 64 (<https://ai.google.dev/api/caching#FunctionDeclaration>).
pub(crate) fn tool_name(wire: ModelWire, name: &str) -> Result<(), String> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let longest = if wire == ModelWire::Anthropic { 128 } else { 64 };
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let fits = !name.is_empty() && name.len() <= longest && plain && (begins || wire != ModelWire::Gemini);
    match fits || wire == ModelWire::Ollama {
        true => Ok(()),
        false => {
            Err(format!("Invalid function name {name:?}: must match the pattern '^[a-zA-Z0-9_-]{{1,{longest}}}$'"))
        }
    }
}

/// Offered tools have different names, and a schema of type object.
pub(crate) fn tool(wire: ModelWire, seen: &mut Vec<String>, name: &str, schema: &Value) -> Result<(), String> {
    tool_name(wire, name)?;
    if seen.iter().any(|other| other == name) {
        return Err(format!("tools: Tool names must be unique: {name}"));
    }
    if schema.get("type").is_none_or(|kind| kind != "object") {
        return Err(format!("Invalid schema for function '{name}': schema must be of 'type: \"object\"'"));
    }
    seen.push(name.to_owned());
    Ok(())
}

/// A file out of base64, at a place of the request. Its bytes must be what its type says, and whole.
pub(crate) fn file(
    wire: ModelWire,
    place: &str,
    mime: &str,
    data: &str,
    name: Option<&str>,
) -> Result<RecordedFile, String> {
    let bytes = STANDARD.decode(data).map_err(|_| "the data is no valid base64".to_owned())?;
    match check_content(mime, &bytes) {
        Ok(()) => Ok(RecordedFile { mime: mime.to_owned(), name: name.map(str::to_owned), bytes }),
        Err(fault) => Err(error_bodies::invalid_file(wire, place, mime, fault)),
    }
}

/// The address of an image that the provider fetches; `None` for a `data:` address. Providers fetch from the internet
/// alone, by HTTP (<https://platform.openai.com/docs/guides/images-vision>,
/// <https://platform.claude.com/docs/en/build-with-claude/vision>, "URL-based image").
pub(crate) fn image_address(url: &str) -> Result<Option<RecordedPart>, String> {
    if url.starts_with("data:") {
        return Ok(None);
    }
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    match host.is_empty() || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        true => Err(format!("Failed to download image from {url}. Invalid URL.")),
        false => Ok(Some(RecordedPart::ImageUrl(url.to_owned()))),
    }
}

/// A file out of a `data:` address.
pub(crate) fn data_url(wire: ModelWire, url: &str, name: Option<&str>) -> Result<RecordedFile, String> {
    let rest = url.strip_prefix("data:").ok_or("only data: addresses are served here")?;
    let (mime, data) = rest.split_once(";base64,").ok_or("a data: address without base64")?;
    file(wire, "", mime, data, name)
}

/// Calls and answers belong together. The words are the providers' own, from their users' reports:
/// openai/openai-python issue 1577 and others (OpenAI), anthropics/claude-code issues 8210 and 18947 (Anthropic),
/// google-gemini/gemini-cli issue 16906 (Gemini). Ollama checks nothing of the kind.
pub(crate) fn order(wire: ModelWire, turns: &[RecordedTurn]) -> Result<(), String> {
    if wire == ModelWire::Ollama {
        return Ok(());
    }
    let joined = joined(turns);
    for (index, turn) in joined.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &joined[before]);
        match turn {
            RecordedTurn::Results(results) => {
                let Some(RecordedTurn::Model { calls, .. }) = before else { return Err(orphan(wire, index)) };
                // Gemini counts; the others compare ids.
                if wire == ModelWire::Gemini && calls.len() != results.len() {
                    return Err(uneven());
                }
                for (place, result) in results.iter().enumerate() {
                    let answers_one = match wire {
                        ModelWire::Gemini => calls[place].name == result.name.clone().unwrap_or_default(),
                        _ => calls.iter().any(|call| call.id == result.id),
                    };
                    if !answers_one {
                        return Err(orphan(wire, index));
                    }
                }
                if let Some(open) = calls
                    .iter()
                    .find(|call| wire != ModelWire::Gemini && !results.iter().any(|result| result.id == call.id))
                {
                    return Err(unanswered(wire, index, open.id.as_deref().unwrap_or_default()));
                }
            }
            RecordedTurn::Model { calls, .. } => {
                if index == 0 && wire != ModelWire::OpenAiChat && wire != ModelWire::OpenAiResponses {
                    return Err("first message must use the \"user\" role".to_owned());
                }
                let mut ids: Vec<_> = calls.iter().filter_map(|call| call.id.as_deref()).collect();
                ids.sort_unstable();
                if ids.windows(2).any(|two| two[0] == two[1]) {
                    return Err("`tool_use` ids must be unique".to_owned());
                }
                let answered = matches!(joined.get(index + 1), Some(RecordedTurn::Results(_)));
                if let Some(open) = calls.first().filter(|_| !answered) {
                    return Err(match wire {
                        ModelWire::Gemini => uneven(),
                        _ => unanswered(wire, index, open.id.as_deref().unwrap_or_default()),
                    });
                }
            }
            RecordedTurn::User(_) => {}
        }
    }
    match joined.last() {
        None => Err("messages: at least one message is required".to_owned()),
        Some(_) => Ok(()),
    }
}

/// Turns of one side that follow each other count as one
/// (<https://platform.claude.com/docs/en/api/messages>, `messages`).
fn joined(turns: &[RecordedTurn]) -> Vec<RecordedTurn> {
    let mut joined: Vec<RecordedTurn> = Vec::new();
    for turn in turns {
        match (joined.last_mut(), turn) {
            (Some(RecordedTurn::User(before)), RecordedTurn::User(parts)) => before.extend(parts.clone()),
            (Some(RecordedTurn::Results(before)), RecordedTurn::Results(results)) => before.extend(results.clone()),
            (Some(RecordedTurn::Model { text: before, calls: first }), RecordedTurn::Model { text, calls }) => {
                before.push_str(text);
                first.extend(calls.clone());
            }
            _ => joined.push(turn.clone()),
        }
    }
    joined
}

fn orphan(wire: ModelWire, index: usize) -> String {
    match wire {
        ModelWire::OpenAiResponses => "No tool call found for function call output.".to_owned(),
        ModelWire::Anthropic => format!(
            "messages.{index}.content.0: unexpected `tool_use_id` found in `tool_result` blocks. Each `tool_result` \
             block must have a corresponding `tool_use` block in the previous message."
        ),
        ModelWire::Gemini => {
            "Please ensure that function response turn comes immediately after a function call turn.".to_owned()
        }
        _ => "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
              'tool_calls'."
            .to_owned(),
    }
}

fn unanswered(wire: ModelWire, index: usize, id: &str) -> String {
    match wire {
        ModelWire::OpenAiResponses => format!("No tool output found for function call {id}."),
        ModelWire::Anthropic => format!(
            "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}. Each \
             `tool_use` block must have a corresponding `tool_result` block in the next message."
        ),
        _ => format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
             'tool_call_id'. The following tool_call_ids did not have response messages: {id}"
        ),
    }
}

fn uneven() -> String {
    "Please ensure that the number of function response parts is equal to the number of function call parts of the \
     function call turn."
        .to_owned()
}
