//! Ollama's chat, as <https://github.com/ollama/ollama/blob/main/docs/api.md> describes it.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    FinishReason, ModelWire, ParsedRequest, ProviderErrorCase, ScriptedCall, StreamWriter, error_bodies,
    file_content::check_content,
    recorded::{RecordedCall, RecordedFile, RecordedPart, RecordedResult, RecordedTurn},
    rules,
};

/// Reads a request. Ollama ignores what it doesn't know, but types must be right, because they are decoded into Go.
pub(crate) fn read(body: &Value) -> Result<ParsedRequest, String> {
    let mut read = ParsedRequest {
        model: rules::text(body, "model", "")?.to_owned(),
        wants_usage: true,
        ..ParsedRequest::default()
    };
    if body.get("stream") == Some(&json!(false)) {
        return Err("this server only streams".to_owned());
    }
    for message in rules::list(body, "messages")? {
        let text = match message.get("content") {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => return Err("json: cannot unmarshal array into Go struct field Message.content".to_owned()),
        };
        let mut parts: Vec<RecordedPart> =
            (!text.is_empty()).then(|| RecordedPart::Text(text.clone())).into_iter().collect();
        for image in rules::list(message, "images")? {
            let bytes = image.as_str().and_then(|image| STANDARD.decode(image).ok());
            let bytes = bytes.ok_or("illegal base64 data at input byte 0")?;
            // llama.cpp's decoder takes these two everywhere.
            let mime = if bytes.starts_with(b"\xff\xd8") { "image/jpeg" } else { "image/png" };
            let refusal = |fault| error_bodies::invalid_file(ModelWire::Ollama, "messages", mime, fault);
            check_content(mime, &bytes).map_err(refusal)?;
            parts.push(RecordedPart::File(RecordedFile { mime: mime.to_owned(), name: None, bytes }));
        }
        match rules::text(message, "role", "messages")? {
            "system" => read.system.push_str(&text),
            "user" => read.turns.push(RecordedTurn::User(parts)),
            "assistant" => {
                let mut calls = Vec::new();
                for call in rules::list(message, "tool_calls")? {
                    let function = &call["function"];
                    if !function["arguments"].is_object() {
                        return Err("json: cannot unmarshal string into Go struct field \
                                    ToolCallFunction.arguments of type api.ToolCallFunctionArguments"
                            .to_owned());
                    }
                    let name = rules::text(function, "name", "tool_calls")?.to_owned();
                    let arguments = function["arguments"].clone();
                    calls.push(RecordedCall { id: None, name, arguments, signature: None });
                }
                read.turns.push(RecordedTurn::Model { text, calls });
            }
            "tool" => {
                let name = message.get("tool_name").and_then(Value::as_str).map(str::to_owned);
                read.turns.push(RecordedTurn::Results(vec![RecordedResult { id: None, name, parts }]));
            }
            other => return Err(format!("invalid role: {other}")),
        }
    }
    for tool in rules::list(body, "tools")? {
        let function = &tool["function"];
        rules::tool(
            ModelWire::Ollama,
            &mut read.tools,
            rules::text(function, "name", "tools")?,
            &function["parameters"],
        )?;
    }
    Ok(read)
}

pub(crate) struct OllamaWriter {
    model: String,
}

impl OllamaWriter {
    pub(crate) fn new(read: &ParsedRequest) -> Self {
        Self { model: read.model.clone() }
    }

    fn line(&self, message: &Value) -> String {
        let line = json!({ "model": self.model, "created_at": "2026-01-01T00:00:00Z", "message": message,
            "done": false });
        format!("{line}\n")
    }
}

impl StreamWriter for OllamaWriter {
    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn open(&mut self) -> String {
        String::new()
    }

    fn text(&mut self, text: &str) -> String {
        self.line(&json!({ "role": "assistant", "content": text }))
    }

    fn call(&mut self, call: &ScriptedCall) -> String {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
        let calls = json!([{ "function": { "name": call.name, "arguments": arguments } }]);
        self.line(&json!({ "role": "assistant", "content": "", "tool_calls": calls }))
    }

    fn ping(&mut self) -> String {
        self.line(&json!({ "role": "assistant", "content": "" }))
    }

    fn end(&mut self, finish: FinishReason, usage: (u64, u64)) -> String {
        let reason = match finish {
            FinishReason::Natural => "stop",
            FinishReason::Length => "length",
            FinishReason::Filtered => "content_filter",
        };
        let line = json!({ "model": self.model, "created_at": "2026-01-01T00:00:00Z",
            "message": { "role": "assistant", "content": "" }, "done_reason": reason, "done": true,
            "total_duration": 1, "prompt_eval_count": usage.0, "eval_count": usage.1 });
        format!("{line}\n")
    }

    fn write_error(&mut self, case: ProviderErrorCase) -> String {
        format!("{}\n", error_bodies::ollama(case, &self.model).1)
    }
}
