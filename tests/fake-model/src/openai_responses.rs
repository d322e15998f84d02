//! OpenAI's responses, as <https://platform.openai.com/docs/api-reference/responses> describes them.

use serde_json::{Value, json};

use crate::{
    FinishReason, ModelWire, ParsedRequest, ProviderErrorCase, ScriptedCall, StreamWriter, error_bodies,
    recorded::{RecordedCall, RecordedPart, RecordedResult, RecordedTurn},
    rules,
};

const WIRE: ModelWire = ModelWire::OpenAiResponses;

fn unknown(_: &str, key: &str) -> String {
    format!("Unknown parameter: '{key}'.")
}

/// Reads a request as strictly as the provider.
pub(crate) fn read(body: &Value) -> Result<ParsedRequest, String> {
    const FIELDS: &[&str] = &[
        "model",
        "input",
        "instructions",
        "stream",
        "store",
        "tools",
        "tool_choice",
        "temperature",
        "top_p",
        "max_output_tokens",
        "reasoning",
        "include",
        "text",
        "previous_response_id",
        "parallel_tool_calls",
    ];
    rules::only(body, "", FIELDS, unknown)?;
    let mut read = ParsedRequest {
        model: rules::text(body, "model", "")?.to_owned(),
        wants_usage: true,
        ..ParsedRequest::default()
    };
    read.system = body.get("instructions").and_then(Value::as_str).unwrap_or_default().to_owned();
    if body.get("stream") != Some(&json!(true)) {
        return Err("this server only streams".to_owned());
    }
    for item in rules::list(body, "input")? {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
        match kind {
            "message" => read.turns.push(message(item)?),
            "function_call" => {
                let known = ["type", "call_id", "name", "arguments", "id", "status"];
                rules::only(item, "input", &known, unknown)?;
                let name = rules::text(item, "name", "input")?.to_owned();
                rules::tool_name(WIRE, &name)?;
                let id = call_id(item)?;
                let arguments = rules::text(item, "arguments", "input")?;
                let arguments = serde_json::from_str(arguments).map_err(|_| "arguments must be JSON as a string")?;
                let call = RecordedCall { id: Some(id), name, arguments, signature: None };
                read.turns.push(RecordedTurn::Model { text: String::new(), calls: vec![call] });
            }
            "function_call_output" => {
                rules::only(item, "input", &["type", "call_id", "output", "id", "status"], unknown)?;
                let text = rules::text(item, "output", "input")?.to_owned();
                let result =
                    RecordedResult { id: Some(call_id(item)?), name: None, parts: vec![RecordedPart::Text(text)] };
                read.turns.push(RecordedTurn::Results(vec![result]));
            }
            other => return Err(format!("Invalid value: '{other}'. Supported values are: 'message' …")),
        }
    }
    for tool in rules::list(body, "tools")? {
        rules::only(tool, "tools", &["type", "name", "description", "parameters", "strict"], unknown)?;
        if tool["type"] != "function" {
            return Err(format!("a tool of the provider's own was asked for: {}", tool["type"]));
        }
        let name = rules::text(tool, "name", "tools")?;
        rules::tool(WIRE, &mut read.tools, name, &tool["parameters"])?;
        // https://platform.openai.com/docs/guides/function-calling, "Strict mode": unset means strict, and a strict
        // schema requires every property and forbids others.
        if tool.get("strict") != Some(&json!(false)) {
            return Err(format!(
                "Invalid schema for function '{name}': In context=(), 'required' is required to be supplied and to be \
                 an array including every key in properties."
            ));
        }
    }
    Ok(read)
}

/// At most 64 characters: <https://platform.openai.com/docs/api-reference/responses/create>, `call_id`.
fn call_id(item: &Value) -> Result<String, String> {
    let id = rules::text(item, "call_id", "input")?;
    match id.len() {
        1..=64 => Ok(id.to_owned()),
        _ => Err("Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64".to_owned()),
    }
}

fn message(item: &Value) -> Result<RecordedTurn, String> {
    rules::only(item, "input", &["type", "role", "content", "id", "status"], unknown)?;
    let role = rules::text(item, "role", "input")?;
    let content = &item["content"];
    let parts = match content.as_str() {
        Some(text) => vec![RecordedPart::Text(text.to_owned())],
        None => {
            let parts =
                content.as_array().filter(|parts| !parts.is_empty()).ok_or("input.content must not be empty")?;
            parts.iter().map(|part| self::part(role, part)).collect::<Result<_, _>>()?
        }
    };
    match role {
        "user" => Ok(RecordedTurn::User(parts)),
        "assistant" => {
            let result = RecordedResult { id: None, name: None, parts };
            Ok(RecordedTurn::Model { text: result.text(), calls: Vec::new() })
        }
        other => Err(format!("a {other} message in the middle of the conversation")),
    }
}

fn part(role: &str, part: &Value) -> Result<RecordedPart, String> {
    match (role, rules::text(part, "type", "content")?) {
        ("user", "input_text") | ("assistant", "output_text") => {
            Ok(RecordedPart::Text(rules::text(part, "text", "content")?.to_owned()))
        }
        ("user", "input_image") => {
            let url = rules::text(part, "image_url", "content")?;
            if let Some(address) = rules::image_address(url)? {
                return Ok(address);
            }
            let file = rules::data_url(WIRE, url, None)?;
            // https://platform.openai.com/docs/guides/images-vision, "Image input requirements".
            match ["image/png", "image/jpeg", "image/webp", "image/gif"].contains(&file.mime.as_str()) {
                true => Ok(RecordedPart::File(file)),
                false => Err("The image data you provided does not represent a valid image.".to_owned()),
            }
        }
        ("user", "input_file") => {
            let name = rules::text(part, "filename", "content")?;
            let file = rules::data_url(WIRE, rules::text(part, "file_data", "content")?, Some(name))?;
            match file.mime == "application/pdf" {
                true => Ok(RecordedPart::File(file)),
                false => Err(format!("Invalid input: expected a PDF, got {}", file.mime)),
            }
        }
        (role, other) => Err(format!("Invalid value: '{other}' for a message of the {role}.")),
    }
}

pub(crate) struct OpenAiResponsesWriter {
    model: String,
    output: Vec<Value>,
    text: Option<String>,
}

impl OpenAiResponsesWriter {
    pub(crate) fn new(read: &ParsedRequest) -> Self {
        Self { model: read.model.clone(), output: Vec::new(), text: None }
    }

    fn response(&self, status: &str, usage: &Value, error: &Value) -> Value {
        json!({ "id": "resp_fake", "object": "response", "created_at": 1_700_000_000, "status": status,
            "model": self.model, "output": self.output, "usage": usage, "error": error,
            "incomplete_details": null, "parallel_tool_calls": true })
    }

    /// Ends the message that is being written.
    fn close(&mut self) -> String {
        let Some(text) = self.text.take() else { return String::new() };
        let index = self.output.len();
        let item = json!({ "type": "message", "id": format!("msg_{index}"), "role": "assistant",
            "status": "completed", "content": [{ "type": "output_text", "text": text, "annotations": [] }] });
        self.output.push(item.clone());
        event(&json!({ "type": "response.output_text.done", "output_index": index, "content_index": 0, "text": text }))
            + &event(&json!({ "type": "response.output_item.done", "output_index": index, "item": item }))
    }
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

impl StreamWriter for OpenAiResponsesWriter {
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn open(&mut self) -> String {
        let response = self.response("in_progress", &Value::Null, &Value::Null);
        event(&json!({ "type": "response.created", "response": response }))
            + &event(&json!({ "type": "response.in_progress", "response": response }))
    }

    fn text(&mut self, text: &str) -> String {
        let index = self.output.len();
        let mut events = String::new();
        if self.text.is_none() {
            let item = json!({ "type": "message", "id": format!("msg_{index}"), "role": "assistant",
                "status": "in_progress", "content": [] });
            events += &event(&json!({ "type": "response.output_item.added", "output_index": index, "item": item }));
            events += &event(&json!({ "type": "response.content_part.added", "output_index": index,
                "content_index": 0, "item_id": format!("msg_{index}"),
                "part": { "type": "output_text", "text": "", "annotations": [] } }));
        }
        self.text.get_or_insert_default().push_str(text);
        events
            + &event(&json!({ "type": "response.output_text.delta", "output_index": index, "content_index": 0,
                "item_id": format!("msg_{index}"), "delta": text }))
    }

    fn call(&mut self, call: &ScriptedCall) -> String {
        let mut events = self.close();
        let index = self.output.len();
        let item = |arguments: &str, status: &str| {
            json!({ "type": "function_call", "id": format!("fc_{index}"), "call_id": format!("call_fake_{index}"),
                "name": call.name, "arguments": arguments, "status": status })
        };
        let begun = item("", "in_progress");
        events += &event(&json!({ "type": "response.output_item.added", "output_index": index, "item": begun }));
        let half = call.arguments.floor_char_boundary(call.arguments.len() / 2);
        for part in [&call.arguments[..half], &call.arguments[half..]] {
            events += &event(&json!({ "type": "response.function_call_arguments.delta", "output_index": index,
                "item_id": format!("fc_{index}"), "delta": part }));
        }
        let done = item(&call.arguments, "completed");
        self.output.push(done.clone());
        events + &event(&json!({ "type": "response.output_item.done", "output_index": index, "item": done }))
    }

    fn ping(&mut self) -> String {
        ": keep-alive\n\n".to_owned()
    }

    fn end(&mut self, finish: FinishReason, usage: (u64, u64)) -> String {
        let closed = self.close();
        let usage = json!({ "input_tokens": usage.0, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": usage.1, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": usage.0 + usage.1 });
        let (kind, mut response) = match finish {
            FinishReason::Natural => ("response.completed", self.response("completed", &usage, &Value::Null)),
            _ => ("response.incomplete", self.response("incomplete", &usage, &Value::Null)),
        };
        let reason = match finish {
            FinishReason::Natural => Value::Null,
            FinishReason::Length => json!({ "reason": "max_output_tokens" }),
            FinishReason::Filtered => json!({ "reason": "content_filter" }),
        };
        response["incomplete_details"] = reason;
        closed + &event(&json!({ "type": kind, "response": response }))
    }

    /// A failure in mid-stream: <https://platform.openai.com/docs/api-reference/responses-streaming>, `response.failed`.
    fn write_error(&mut self, case: ProviderErrorCase) -> String {
        let (_, body) = error_bodies::openai(case, &self.model);
        let code = match body.pointer("/error/code") {
            Some(Value::String(code)) => code.clone(),
            _ => body["error"]["type"].as_str().unwrap_or_default().to_owned(),
        };
        let error = json!({ "code": code, "message": body["error"]["message"] });
        let response = self.response("failed", &Value::Null, &error);
        event(&json!({ "type": "response.failed", "response": response }))
    }
}
