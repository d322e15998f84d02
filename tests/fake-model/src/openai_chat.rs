//! OpenAI's chat completions, as <https://platform.openai.com/docs/api-reference/chat> describes them.

use serde_json::{Value, json};

use crate::{
    FinishReason, ModelWire, ParsedRequest, ProviderErrorCase, ScriptedCall, StreamWriter, error_bodies,
    recorded::{RecordedCall, RecordedPart, RecordedResult, RecordedTurn},
    rules,
};

const WIRE: ModelWire = ModelWire::OpenAiChat;

/// The longest id of a call: openai/openai-python and agno-agi/agno issue 5382, "maximum length 40".
const MAX_CALL_ID_CHARS: usize = 40;

/// The longest description of a tool: getsentry/sentry-mcp issue 106, "maximum length 1024".
const MAX_DESCRIPTION_CHARS: usize = 1024;

fn unknown(_: &str, key: &str) -> String {
    format!("Unrecognized request argument supplied: {key}")
}

/// Reads a request as strictly as the provider.
pub(crate) fn read(body: &Value) -> Result<ParsedRequest, String> {
    const FIELDS: &[&str] = &[
        "model",
        "messages",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "temperature",
        "top_p",
        "stop",
        "seed",
        "max_tokens",
        "max_completion_tokens",
        "reasoning_effort",
        "response_format",
        "parallel_tool_calls",
    ];
    rules::only(body, "", FIELDS, unknown)?;
    let mut read = ParsedRequest { model: rules::text(body, "model", "")?.to_owned(), ..ParsedRequest::default() };
    if body.get("stream") != Some(&json!(true)) {
        return Err("this server only streams".to_owned());
    }
    for message in rules::list(body, "messages")? {
        let role = rules::text(message, "role", "messages")?;
        match role {
            "system" | "developer" => {
                rules::only(message, "messages", &["role", "content", "name"], unknown)?;
                read.system.push_str(rules::text(message, "content", "messages")?);
            }
            "user" => {
                rules::only(message, "messages", &["role", "content", "name"], unknown)?;
                read.turns.push(RecordedTurn::User(user(&message["content"])?));
            }
            "assistant" => {
                let known = ["role", "content", "tool_calls", "name", "refusal", "reasoning_content"];
                rules::only(message, "messages", &known, unknown)?;
                thought(&mut read, message)?;
                read.turns.push(assistant(message)?);
            }
            "tool" => {
                rules::only(message, "messages", &["role", "content", "tool_call_id"], unknown)?;
                let id = rules::text(message, "tool_call_id", "messages")?.to_owned();
                // Only text: https://platform.openai.com/docs/api-reference/chat/create, tool message, content.
                let text = rules::text(message, "content", "messages")?.to_owned();
                let result = RecordedResult { id: Some(id), name: None, parts: vec![RecordedPart::Text(text)] };
                read.turns.push(RecordedTurn::Results(vec![result]));
            }
            other => return Err(format!("Invalid value: '{other}'. Supported values are: 'system', 'user' …")),
        }
    }
    for tool in rules::list(body, "tools")? {
        rules::only(tool, "tools", &["type", "function"], unknown)?;
        let function = &tool["function"];
        rules::only(function, "tools", &["name", "description", "parameters", "strict"], unknown)?;
        let description = function["description"].as_str().unwrap_or_default();
        if description.chars().count() > MAX_DESCRIPTION_CHARS {
            return Err("Invalid 'tools[0].function.description': string too long. Expected a string with maximum \
                        length 1024"
                .to_owned());
        }
        rules::tool(WIRE, &mut read.tools, rules::text(function, "name", "tools")?, &function["parameters"])?;
    }
    if body.get("tools").is_some_and(|tools| tools.as_array().is_some_and(Vec::is_empty)) {
        return Err("Invalid 'tools': empty array. Expected an array with minimum length 1".to_owned());
    }
    read.wants_usage = body.pointer("/stream_options/include_usage") == Some(&json!(true));
    Ok(read)
}

/// DeepSeek's servers want the thoughts back: <https://api-docs.deepseek.com/guides/thinking_mode#tool-calls>; the
/// words are those of hotovo/aider-desk issue 529. OpenAI's own know no such field.
fn thought(read: &mut ParsedRequest, message: &Value) -> Result<(), String> {
    match message.get("reasoning_content").map(Value::as_str) {
        None if read.model.contains("deepseek") => {
            Err("Missing `reasoning_content` field in the assistant message at message index 2.".to_owned())
        }
        None => Ok(()),
        Some(_) if !read.model.contains("deepseek") => Err(unknown("", "reasoning_content")),
        Some(thought) => {
            read.thoughts.extend(thought.filter(|thought| !thought.is_empty()).map(str::to_owned));
            Ok(())
        }
    }
}

fn user(content: &Value) -> Result<Vec<RecordedPart>, String> {
    if let Some(text) = content.as_str() {
        return Ok(vec![RecordedPart::Text(text.to_owned())]);
    }
    let parts = content.as_array().filter(|parts| !parts.is_empty()).ok_or("messages.content must not be empty")?;
    parts
        .iter()
        .map(|part| {
            match rules::text(part, "type", "content")? {
                "text" => Ok(RecordedPart::Text(rules::text(part, "text", "content")?.to_owned())),
                "image_url" => {
                    let url = rules::text(&part["image_url"], "url", "content")?;
                    if let Some(address) = rules::image_address(url)? {
                        return Ok(address);
                    }
                    let file = rules::data_url(WIRE, url, None)?;
                    // https://platform.openai.com/docs/guides/images-vision, "Image input requirements".
                    if !["image/png", "image/jpeg", "image/webp", "image/gif"].contains(&file.mime.as_str()) {
                        return Err("You uploaded an unsupported image. Please make sure your image has of one the \
                                following formats: ['png', 'jpeg', 'gif', 'webp']."
                            .to_owned());
                    }
                    if file.bytes.len() > 20 << 20 {
                        return Err("Image is too large: the maximum is 20 MB.".to_owned());
                    }
                    Ok(RecordedPart::File(file))
                }
                "file" => {
                    let name = rules::text(&part["file"], "filename", "content")?;
                    let data = rules::text(&part["file"], "file_data", "content")?;
                    let file = rules::data_url(WIRE, data, Some(name))?;
                    // https://platform.openai.com/docs/guides/pdf-files.
                    if file.mime != "application/pdf" {
                        return Err(format!(
                            "Invalid file data: expected a base64-encoded data URL of a PDF, got {}",
                            file.mime
                        ));
                    }
                    Ok(RecordedPart::File(file))
                }
                "input_audio" => {
                    let audio = &part["input_audio"];
                    // https://platform.openai.com/docs/guides/audio, "Add audio to your existing application".
                    match rules::text(audio, "format", "content")? {
                        format @ ("wav" | "mp3") => {
                            let data = rules::text(audio, "data", "content")?;
                            let mime = format!("audio/{format}");
                            Ok(RecordedPart::File(rules::file(WIRE, "", &mime, data, None)?))
                        }
                        other => Err(format!("Invalid value: '{other}'. Supported values are: 'wav' and 'mp3'.")),
                    }
                }
                // OpenAI itself takes no films; servers of one's own that do take them like this:
                // https://docs.vllm.ai/en/latest/features/multimodal_inputs.html, "Video Inputs".
                "video_url" => {
                    let url = rules::text(&part["video_url"], "url", "content")?;
                    Ok(RecordedPart::File(rules::data_url(WIRE, url, None)?))
                }
                other => Err(format!("Invalid value: '{other}'. Supported values are: 'text', 'image_url', 'file' …")),
            }
        })
        .collect()
}

fn assistant(message: &Value) -> Result<RecordedTurn, String> {
    let text = message.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut calls = Vec::new();
    for call in rules::list(message, "tool_calls")? {
        let id = rules::text(call, "id", "tool_calls")?;
        if id.len() > MAX_CALL_ID_CHARS {
            return Err(format!(
                "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, \
                 but got a string with length {} instead.",
                id.len()
            ));
        }
        let name = rules::text(&call["function"], "name", "tool_calls")?;
        rules::tool_name(WIRE, name)?;
        let arguments = rules::text(&call["function"], "arguments", "tool_calls")?;
        let arguments = serde_json::from_str(arguments).map_err(|_| "arguments must be JSON as a string")?;
        calls.push(RecordedCall { id: Some(id.to_owned()), name: name.to_owned(), arguments, signature: None });
    }
    if calls.is_empty() && text.is_empty() {
        return Err("Invalid value for 'content': expected a string, got null.".to_owned());
    }
    Ok(RecordedTurn::Model { text, calls })
}

pub(crate) struct OpenAiChatWriter {
    pub(crate) model: String,
    pub(crate) wants_usage: bool,
    calls: usize,
}

impl OpenAiChatWriter {
    pub(crate) fn new(read: &ParsedRequest) -> Self {
        Self { model: read.model.clone(), wants_usage: read.wants_usage, calls: 0 }
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> String {
        let choices = json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]);
        self.frame(&choices, &Value::Null)
    }

    fn frame(&self, choices: &Value, usage: &Value) -> String {
        let frame = json!({ "id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": self.model, "choices": choices, "usage": usage });
        format!("data: {frame}\n\n")
    }
}

impl StreamWriter for OpenAiChatWriter {
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn open(&mut self) -> String {
        self.chunk(&json!({ "role": "assistant", "content": "" }), None)
    }

    fn text(&mut self, text: &str) -> String {
        self.chunk(&json!({ "content": text }), None)
    }

    fn call(&mut self, call: &ScriptedCall) -> String {
        let index = self.calls;
        self.calls += 1;
        let begin = json!({ "tool_calls": [{ "index": index, "id": format!("call_fake_{index}"), "type": "function",
            "function": { "name": call.name, "arguments": "" } }] });
        let half = call.arguments.floor_char_boundary(call.arguments.len() / 2);
        let (first, second) = call.arguments.split_at(half);
        let more = |text: &str| {
            self.chunk(&json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] }), None)
        };
        let thought = call.signature.as_ref().map(|thought| json!({ "reasoning_content": thought }));
        let thought = thought.map(|thought| self.chunk(&thought, None)).unwrap_or_default();
        format!("{thought}{}{}{}", self.chunk(&begin, None), more(first), more(second))
    }

    fn ping(&mut self) -> String {
        ": keep-alive\n\n".to_owned()
    }

    fn end(&mut self, finish: FinishReason, usage: (u64, u64)) -> String {
        let reason = match finish {
            FinishReason::Natural if self.calls > 0 => "tool_calls",
            FinishReason::Natural => "stop",
            FinishReason::Length => "length",
            FinishReason::Filtered => "content_filter",
        };
        let mut end = self.chunk(&json!({}), Some(reason));
        if self.wants_usage {
            let usage = json!({ "prompt_tokens": usage.0, "completion_tokens": usage.1,
                "total_tokens": usage.0 + usage.1 });
            end.push_str(&self.frame(&json!([]), &usage));
        }
        end.push_str("data: [DONE]\n\n");
        end
    }

    fn write_error(&mut self, case: ProviderErrorCase) -> String {
        format!("data: {}\n\n", error_bodies::openai(case, &self.model).1)
    }
}
