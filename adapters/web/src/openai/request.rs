//! What a client sends: read, checked, and split into what was said before and what is asked now.

use base64::{Engine, engine::general_purpose::STANDARD};
use satchel_domain::{Filename, HistoryMessage};
use serde::Deserialize;
use serde_json::Value;

use super::error::OpenAiError;

/// The largest text of a message; the page's own is no longer.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// A request for a completion, as OpenAI defines it. What isn't listed has no effect.
#[derive(Debug, Deserialize)]
pub(super) struct CompletionRequest {
    #[serde(default)]
    pub(super) model: Option<String>,
    messages: Vec<RequestMessage>,
    #[serde(default)]
    pub(super) stream: bool,
    #[serde(default)]
    n: Option<u32>,
    #[serde(default)]
    tools: Value,
    #[serde(default)]
    functions: Value,
    #[serde(default)]
    response_format: Value,
    #[serde(default)]
    audio: Value,
    #[serde(default)]
    logprobs: Value,
}

#[derive(Debug, Deserialize)]
struct RequestMessage {
    role: String,
    #[serde(default)]
    content: Option<RequestContent>,
    #[serde(default)]
    tool_calls: Value,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RequestContent {
    Text(String),
    Parts(Vec<RequestPart>),
}

#[derive(Debug, Deserialize)]
struct RequestPart {
    r#type: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    image_url: Option<ImageUrl>,
    #[serde(default)]
    file: Option<FilePart>,
    #[serde(default)]
    input_audio: Option<AudioPart>,
}

#[derive(Debug, Deserialize)]
struct ImageUrl {
    url: String,
}

#[derive(Debug, Deserialize)]
struct FilePart {
    #[serde(default)]
    file_data: Option<String>,
    #[serde(default)]
    filename: Option<String>,
}

#[derive(Debug, Deserialize)]
struct AudioPart {
    data: String,
    format: String,
}

/// A file of a request, decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestFile {
    pub(super) filename: Filename,
    pub(super) bytes: Vec<u8>,
}

/// A conversation as a client tells it.
#[derive(Debug, PartialEq)]
pub(super) struct ClientMessages {
    /// What its system messages say.
    pub(super) instructions: Option<String>,
    /// The messages before the last one.
    pub(super) history: Vec<HistoryMessage>,
    /// The text of the last message.
    pub(super) text: String,
    /// The files of the last message.
    pub(super) files: Vec<RequestFile>,
    /// The files of earlier messages, which the client sends each time.
    pub(super) earlier_files: Vec<RequestFile>,
}

impl ClientMessages {
    /// Returns all texts, to change them.
    pub(super) fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let history = self.history.iter_mut().map(HistoryMessage::text_mut);
        self.instructions.iter_mut().chain(history).chain(std::iter::once(&mut self.text))
    }
}

impl CompletionRequest {
    /// Checks what Satchel can't honour, and returns the messages.
    pub(super) fn into_messages(self) -> Result<ClientMessages, OpenAiError> {
        self.check()?;
        let last =
            self.messages.len().checked_sub(1).ok_or_else(|| OpenAiError::invalid("messages", "It is empty."))?;
        let mut instructions = Vec::new();
        let (mut history, mut earlier_files, mut file_count) = (Vec::new(), Vec::new(), 0);
        for (index, message) in self.messages.into_iter().enumerate() {
            let param = format!("messages[{index}]");
            if is_given(&message.tool_calls) || matches!(message.role.as_str(), "tool" | "function") {
                let reason = "Satchel runs its own tools; tool calls of a client can't be part of a conversation.";
                return Err(OpenAiError::unsupported(&param, reason));
            }
            let (text, files) = read_content(message.content, &param, &mut file_count)?;
            if text.len() > MAX_TEXT_BYTES {
                let reason = format!("The text has {} bytes; at most {MAX_TEXT_BYTES} are accepted.", text.len());
                return Err(OpenAiError::invalid(&param, reason));
            }
            match message.role.as_str() {
                "system" | "developer" => instructions.push(text),
                "user" if index == last => {
                    if text.trim().is_empty() && files.is_empty() {
                        return Err(OpenAiError::invalid(&param, "The last message is empty."));
                    }
                    let instructions = Some(instructions.join("\n\n")).filter(|text| !text.trim().is_empty());
                    return Ok(ClientMessages { instructions, history, text, files, earlier_files });
                }
                "user" => {
                    earlier_files.extend(files);
                    history.push(HistoryMessage::Person {
                        text,
                        attachments: Vec::new(),
                        refused: Vec::new(),
                        origin: None,
                    });
                }
                "assistant" => history.push(HistoryMessage::Model { text, calls: Vec::new() }),
                role => return Err(OpenAiError::invalid(&param, format!("There is no role `{role}`."))),
            }
        }
        Err(OpenAiError::invalid("messages", "The last message must be one of the role `user`."))
    }

    fn check(&self) -> Result<(), OpenAiError> {
        for (name, value) in [("tools", &self.tools), ("functions", &self.functions)] {
            if is_given(value) {
                let reason = format!("`{name}` is not supported: Satchel runs its own tools and none of a client.");
                return Err(OpenAiError::unsupported(name, reason));
            }
        }
        let format = self.response_format.get("type").and_then(Value::as_str);
        if format.is_some_and(|format| format != "text") {
            return Err(OpenAiError::unsupported("response_format", "Only the response format `text` is supported."));
        }
        if is_given(&self.audio) {
            return Err(OpenAiError::unsupported("audio", "Audio output is not supported."));
        }
        if self.logprobs == Value::Bool(true) {
            return Err(OpenAiError::unsupported("logprobs", "Log probabilities are not supported."));
        }
        match self.n {
            None | Some(1) => Ok(()),
            Some(_) => Err(OpenAiError::unsupported("n", "Only one choice is supported.")),
        }
    }
}

/// Whether a parameter has a value that asks for something.
fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// Returns the text and the files of a message.
fn read_content(
    content: Option<RequestContent>,
    param: &str,
    file_count: &mut usize,
) -> Result<(String, Vec<RequestFile>), OpenAiError> {
    let parts = match content {
        None => return Ok((String::new(), Vec::new())),
        Some(RequestContent::Text(text)) => return Ok((text, Vec::new())),
        Some(RequestContent::Parts(parts)) => parts,
    };
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for (index, part) in parts.into_iter().enumerate() {
        let param = format!("{param}.content[{index}]");
        match part {
            RequestPart { text: Some(text), .. } => texts.push(text),
            RequestPart { image_url: Some(image), .. } => {
                *file_count += 1;
                files.push(read_data_url(&image.url, None, *file_count, &param)?);
            }
            RequestPart { file: Some(FilePart { file_data: Some(data), filename }), .. } => {
                *file_count += 1;
                files.push(read_data_url(&data, filename, *file_count, &param)?);
            }
            RequestPart { file: Some(_), .. } => {
                let reason = "Files by `file_id` are not supported: there is no file API. Send `file_data`.";
                return Err(OpenAiError::unsupported(&param, reason));
            }
            RequestPart { input_audio: Some(AudioPart { data, format }), .. } => {
                *file_count += 1;
                let name = Filename::from_untrusted(&format!("audio-{file_count}.{format}"));
                files.push(RequestFile { filename: name, bytes: decode(&data, &param)? });
            }
            RequestPart { r#type, .. } => {
                let reason = format!("A content part of the type `{type}` is not supported.");
                return Err(OpenAiError::unsupported(&param, reason));
            }
        }
    }
    Ok((texts.join("\n"), files))
}

/// Decodes `data:TYPE;base64,…`, or plain base64 where the name tells the type.
fn read_data_url(url: &str, filename: Option<String>, number: usize, param: &str) -> Result<RequestFile, OpenAiError> {
    let (mime, data) = match url.strip_prefix("data:") {
        Some(rest) => match rest.split_once(";base64,") {
            Some((mime, data)) => (mime.split(';').next().unwrap_or_default(), data),
            None => return Err(OpenAiError::invalid(param, "A data URL must have the form `data:TYPE;base64,DATA`.")),
        },
        None if filename.is_some() => ("", url),
        None => {
            let reason = "Only data URLs are supported: Satchel fetches no addresses for clients of this API.";
            return Err(OpenAiError::unsupported(param, reason));
        }
    };
    let filename = filename.unwrap_or_else(|| match mime.split_once('/') {
        Some(("image", kind)) => format!("image-{number}.{}", if kind == "jpeg" { "jpg" } else { kind }),
        Some((_, kind)) => format!("file-{number}.{kind}"),
        None => format!("file-{number}"),
    });
    Ok(RequestFile { filename: Filename::from_untrusted(&filename), bytes: decode(data, param)? })
}

fn decode(data: &str, param: &str) -> Result<Vec<u8>, OpenAiError> {
    STANDARD.decode(data.trim()).map_err(|_| OpenAiError::invalid(param, "The data is not valid base64."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<ClientMessages, String> {
        let request: CompletionRequest = serde_json::from_value(body).map_err(|error| error.to_string())?;
        request.into_messages().map_err(|error| error.to_json()["error"].to_string())
    }

    #[test]
    fn messages_become_instructions_history_and_question() {
        let messages = read(json!({ "model": "satchel", "temperature": 0.2, "tools": [], "messages": [
            { "role": "system", "content": "You are a pirate." },
            { "role": "user", "content": [
                { "type": "text", "text": "look" },
                { "type": "image_url", "image_url": { "url": "data:image/jpeg;base64,aGk=", "detail": "low" } },
            ] },
            { "role": "assistant", "content": "Arr." },
            { "role": "user", "content": [
                { "type": "text", "text": "and this?" },
                { "type": "file", "file": { "filename": "../a.pdf", "file_data": "data:application/pdf;base64,aGk=" } },
                { "type": "input_audio", "input_audio": { "data": "aGk=", "format": "wav" } },
            ] },
        ] }))
        .unwrap();
        assert_eq!(messages.instructions.as_deref(), Some("You are a pirate."));
        assert_eq!((messages.history.len(), messages.text.as_str()), (2, "and this?"));
        let names = |files: &[RequestFile]| files.iter().map(|file| file.filename.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&messages.earlier_files), ["image-1.jpg"]);
        let last = names(&messages.files);
        assert!(last[0].ends_with("a.pdf") && !last[0].contains('/'), "{last:?}");
        assert_eq!((last[1].as_str(), messages.files[0].bytes.as_slice()), ("audio-3.wav", b"hi".as_slice()));
    }

    #[test]
    fn too_long_text_is_refused_in_any_message() {
        let user = |bytes: usize| json!({ "role": "user", "content": "x".repeat(bytes) });
        let parts = json!([{ "type": "text", "text": "x".repeat(MAX_TEXT_BYTES) }, { "type": "text", "text": "x" }]);
        for (messages, param) in [
            (json!([user(MAX_TEXT_BYTES + 1)]), "messages[0]"),
            (
                json!([user(1), { "role": "assistant", "content": "x".repeat(MAX_TEXT_BYTES + 1) }, user(1)]),
                "messages[1]",
            ),
            (json!([{ "role": "system", "content": parts }, user(1)]), "messages[0]"),
        ] {
            let error = read(json!({ "messages": messages })).unwrap_err();
            assert!(error.contains(&format!("\"{param}\"")) && error.contains("1048576"), "{error}");
        }
        assert!(read(json!({ "messages": [user(MAX_TEXT_BYTES), user(MAX_TEXT_BYTES)] })).is_ok());
    }

    #[test]
    fn what_can_not_be_honoured_is_refused_by_name() {
        let user = json!({ "role": "user", "content": "hi" });
        let part = |part: Value| json!({ "messages": [{ "role": "user", "content": [part] }] });
        let with = |name: &str, value: Value| json!({ "messages": [user.clone()], name: value });
        for (body, param) in [
            (with("tools", json!([{ "type": "function" }])), "tools"),
            (with("functions", json!([{}])), "functions"),
            (with("n", json!(2)), "n"),
            (with("response_format", json!({ "type": "json_object" })), "response_format"),
            (with("audio", json!({})), "audio"),
            (with("logprobs", json!(true)), "logprobs"),
            (json!({ "messages": [] }), "messages"),
            (json!({ "messages": [user.clone(), { "role": "assistant", "content": "x" }] }), "messages"),
            (json!({ "messages": [{ "role": "tool", "content": "x" }, user.clone()] }), "messages[0]"),
            (json!({ "messages": [{ "role": "assistant", "tool_calls": [{}] }, user.clone()] }), "messages[0]"),
            (json!({ "messages": [{ "role": "user", "content": " " }] }), "messages[0]"),
            (
                part(json!({ "type": "image_url", "image_url": { "url": "http://10.0.0.1/a" } })),
                "messages[0].content[0]",
            ),
            (
                part(json!({ "type": "image_url", "image_url": { "url": "data:text/plain,x" } })),
                "messages[0].content[0]",
            ),
            (part(json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,%" } })), "content[0]"),
            (part(json!({ "type": "file", "file": { "file_id": "file-1" } })), "messages[0].content[0]"),
            (part(json!({ "type": "video" })), "messages[0].content[0]"),
        ] {
            let error = read(body.clone()).unwrap_err();
            assert!(error.contains(&format!("{param}\"")), "{body}: {error}");
        }
    }
}
