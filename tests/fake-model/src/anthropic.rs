//! Anthropic's messages, as <https://platform.claude.com/docs/en/api/messages> describes them.

use serde_json::{Value, json};

use crate::{
    FinishReason, ModelWire, ParsedRequest, ProviderErrorCase, ScriptedCall, StreamWriter, error_bodies,
    recorded::{RecordedCall, RecordedPart, RecordedResult, RecordedTurn},
    rules,
};

const WIRE: ModelWire = ModelWire::Anthropic;

/// 5 MiB an image, counted in base64: <https://platform.claude.com/docs/en/build-with-claude/vision>;
/// anthropics/claude-code issues report "image exceeds 5 MB maximum: … bytes > 5242880 bytes".
const MAX_IMAGE_BYTES: usize = 5 << 20;

fn unknown(place: &str, key: &str) -> String {
    format!("{place}{}{key}: Extra inputs are not permitted", if place.is_empty() { "" } else { "." })
}

/// Reads a request as strictly as the provider.
pub(crate) fn read(body: &Value) -> Result<ParsedRequest, String> {
    const FIELDS: &[&str] = &[
        "model",
        "messages",
        "system",
        "max_tokens",
        "stream",
        "tools",
        "tool_choice",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "metadata",
        "thinking",
        "output_config",
    ];
    rules::only(body, "", FIELDS, unknown)?;
    // Required: https://platform.claude.com/docs/en/api/messages, `max_tokens`.
    if body.get("max_tokens").and_then(Value::as_u64).is_none_or(|tokens| tokens == 0) {
        return Err("max_tokens: Field required".to_owned());
    }
    if body.get("stream") != Some(&json!(true)) {
        return Err("this server only streams".to_owned());
    }
    let mut read = ParsedRequest {
        model: rules::text(body, "model", "")?.to_owned(),
        wants_usage: true,
        ..ParsedRequest::default()
    };
    read.system = match body.get("system") {
        None => String::new(),
        Some(Value::String(system)) if !system.is_empty() => system.clone(),
        _ => return Err("system: text content blocks must be non-empty".to_owned()),
    };
    for (index, message) in rules::list(body, "messages")?.iter().enumerate() {
        let place = format!("messages.{index}");
        rules::only(message, &place, &["role", "content"], unknown)?;
        let blocks = match &message["content"] {
            Value::String(text) => vec![json!({ "type": "text", "text": text })],
            Value::Array(blocks) if !blocks.is_empty() => blocks.clone(),
            _ => return Err(format!("{place}: all messages must have non-empty content")),
        };
        match rules::text(message, "role", &place)? {
            "user" => user(&mut read, &place, &blocks)?,
            "assistant" => assistant(&mut read, &place, &blocks)?,
            _ => return Err(format!("{place}.role: Input should be 'user' or 'assistant'")),
        }
    }
    for (index, tool) in rules::list(body, "tools")?.iter().enumerate() {
        let place = format!("tools.{index}.custom");
        let known = ["type", "name", "description", "input_schema", "cache_control", "strict"];
        rules::only(tool, &place, &known, unknown)?;
        rules::tool(WIRE, &mut read.tools, rules::text(tool, "name", &place)?, &tool["input_schema"])?;
    }
    Ok(read)
}

fn user(read: &mut ParsedRequest, place: &str, blocks: &[Value]) -> Result<(), String> {
    let (mut results, mut parts) = (Vec::new(), Vec::new());
    for block in blocks {
        if block["type"] == "tool_result" {
            // https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls: results come first.
            if !parts.is_empty() {
                return Err(format!("{place}: tool_result blocks must come before other content"));
            }
            rules::only(block, place, &["type", "tool_use_id", "content", "is_error", "cache_control"], unknown)?;
            let id = rules::text(block, "tool_use_id", place)?.to_owned();
            let inner = match &block["content"] {
                Value::String(text) => vec![RecordedPart::Text(text.clone())],
                Value::Array(inner) => inner.iter().map(|inner| part(place, inner)).collect::<Result<_, _>>()?,
                _ => Vec::new(),
            };
            results.push(RecordedResult { id: Some(id), name: None, parts: inner });
        } else {
            parts.push(part(place, block)?);
        }
    }
    if !results.is_empty() {
        read.turns.push(RecordedTurn::Results(results));
    }
    if !parts.is_empty() {
        read.turns.push(RecordedTurn::User(parts));
    }
    Ok(())
}

fn part(place: &str, block: &Value) -> Result<RecordedPart, String> {
    match rules::text(block, "type", place)? {
        "text" => Ok(RecordedPart::Text(words_of(place, block)?)),
        kind @ ("image" | "document") => {
            rules::only(block, place, &["type", "source", "title", "context", "cache_control"], unknown)?;
            let source = &block["source"];
            if kind == "image" && source["type"] == "url" {
                rules::only(source, place, &["type", "url"], unknown)?;
                let address = rules::image_address(rules::text(source, "url", place)?)?;
                return address
                    .ok_or_else(|| format!("{place}.content.0.image.source.url: Only HTTP URLs are supported."));
            }
            rules::only(source, place, &["type", "media_type", "data"], unknown)?;
            let mime = rules::text(source, "media_type", place)?;
            let data = rules::text(source, "data", place)?;
            // https://platform.claude.com/docs/en/build-with-claude/vision and …/pdf-support.
            let taken: &[&str] = match kind {
                "image" => &["image/jpeg", "image/png", "image/gif", "image/webp"],
                _ => &["application/pdf"],
            };
            if !taken.contains(&mime) {
                return Err(format!("{place}.content.0.{kind}.source.base64.media_type: Input should be {taken:?}"));
            }
            if kind == "image" && data.len() > MAX_IMAGE_BYTES {
                let length = data.len();
                return Err(format!(
                    "{place}.content.0.image.source.base64: image exceeds 5 MB maximum: {length} bytes > 5242880 bytes"
                ));
            }
            Ok(RecordedPart::File(rules::file(WIRE, place, mime, data, None)?))
        }
        other => Err(format!("{place}.content.0: Input tag '{other}' does not match any of the expected tags")),
    }
}

/// anthropics/claude-code and others: "text content blocks must contain non-whitespace text".
fn words_of(place: &str, block: &Value) -> Result<String, String> {
    rules::only(block, place, &["type", "text", "cache_control"], unknown)?;
    match rules::text(block, "text", place)? {
        text if text.trim().is_empty() => Err(format!("{place}: text content blocks must contain non-whitespace text")),
        text => Ok(text.to_owned()),
    }
}

fn assistant(read: &mut ParsedRequest, place: &str, blocks: &[Value]) -> Result<(), String> {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for block in blocks {
        match rules::text(block, "type", place)? {
            "text" => text.push_str(&words_of(place, block)?),
            // https://platform.claude.com/docs/en/build-with-claude/extended-thinking: whole and first.
            "thinking" if !text.is_empty() || !calls.is_empty() => {
                return Err(format!("{place}: thinking must come first"));
            }
            "thinking" => {
                rules::text(block, "thinking", place)?;
                read.thoughts.push(rules::text(block, "signature", place)?.to_owned());
            }
            "tool_use" => {
                rules::only(block, place, &["type", "id", "name", "input", "cache_control"], unknown)?;
                let id = rules::text(block, "id", place)?.to_owned();
                if !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
                    return Err(format!("{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"));
                }
                let name = rules::text(block, "name", place)?.to_owned();
                rules::tool_name(WIRE, &name)?;
                if !block["input"].is_object() {
                    return Err(format!("{place}.tool_use.input: Input should be a valid dictionary"));
                }
                calls.push(RecordedCall { id: Some(id), name, arguments: block["input"].clone(), signature: None });
            }
            other => return Err(format!("{place}: Input tag '{other}' does not match any of the expected tags")),
        }
    }
    read.turns.push(RecordedTurn::Model { text, calls });
    Ok(())
}

pub(crate) struct AnthropicWriter {
    model: String,
    blocks: usize,
    in_text: bool,
    has_calls: bool,
}

impl AnthropicWriter {
    pub(crate) fn new(read: &ParsedRequest) -> Self {
        Self { model: read.model.clone(), blocks: 0, in_text: false, has_calls: false }
    }

    fn close(&mut self) -> String {
        match std::mem::take(&mut self.in_text) {
            true => event(&json!({ "type": "content_block_stop", "index": self.blocks - 1 })),
            false => String::new(),
        }
    }

    fn block(&mut self, block: &Value, deltas: &[Value]) -> String {
        let index = self.blocks;
        self.blocks += 1;
        let mut events = event(&json!({ "type": "content_block_start", "index": index, "content_block": block }));
        for delta in deltas {
            events += &event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        events
    }
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

impl StreamWriter for AnthropicWriter {
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn open(&mut self) -> String {
        let message = json!({ "id": "msg_fake", "type": "message", "role": "assistant", "model": self.model,
            "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": { "input_tokens": 0, "output_tokens": 1 } });
        event(&json!({ "type": "message_start", "message": message }))
    }

    fn text(&mut self, text: &str) -> String {
        if self.in_text {
            let delta = json!({ "type": "text_delta", "text": text });
            return event(&json!({ "type": "content_block_delta", "index": self.blocks - 1, "delta": delta }));
        }
        self.in_text = true;
        self.block(&json!({ "type": "text", "text": "" }), &[json!({ "type": "text_delta", "text": text })])
    }

    fn call(&mut self, call: &ScriptedCall) -> String {
        let mut events = self.close();
        self.has_calls = true;
        if let Some(signature) = &call.signature {
            let thought = json!({ "type": "thinking", "thinking": "", "signature": "" });
            let deltas = [
                json!({ "type": "thinking_delta", "thinking": "Let me think." }),
                json!({ "type": "signature_delta", "signature": signature }),
            ];
            events += &self.block(&thought, &deltas);
            events += &event(&json!({ "type": "content_block_stop", "index": self.blocks - 1 }));
        }
        let block = json!({ "type": "tool_use", "id": format!("toolu_fake_{}", self.blocks), "name": call.name,
            "input": {} });
        let half = call.arguments.floor_char_boundary(call.arguments.len() / 2);
        let delta = |text: &str| json!({ "type": "input_json_delta", "partial_json": text });
        let deltas = [delta(""), delta(&call.arguments[..half]), delta(&call.arguments[half..])];
        events += &self.block(&block, &deltas);
        events + &event(&json!({ "type": "content_block_stop", "index": self.blocks - 1 }))
    }

    fn ping(&mut self) -> String {
        event(&json!({ "type": "ping" }))
    }

    fn end(&mut self, finish: FinishReason, usage: (u64, u64)) -> String {
        let closed = self.close();
        let reason = match finish {
            FinishReason::Natural if self.has_calls => "tool_use",
            FinishReason::Natural => "end_turn",
            FinishReason::Length => "max_tokens",
            FinishReason::Filtered => "refusal",
        };
        let delta = json!({ "stop_reason": reason, "stop_sequence": null });
        let usage = json!({ "input_tokens": usage.0, "output_tokens": usage.1 });
        closed
            + &event(&json!({ "type": "message_delta", "delta": delta, "usage": usage }))
            + &event(&json!({ "type": "message_stop" }))
    }

    fn write_error(&mut self, case: ProviderErrorCase) -> String {
        let (_, body) = error_bodies::anthropic(case, &self.model);
        event(&body)
    }
}
