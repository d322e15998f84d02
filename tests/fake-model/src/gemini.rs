//! Google's Gemini, as <https://ai.google.dev/api/generate-content> describes it.

use serde_json::{Value, json};

use crate::{
    FinishReason, ModelWire, ParsedRequest, ProviderErrorCase, ScriptedCall, StreamWriter, error_bodies,
    recorded::{RecordedCall, RecordedPart, RecordedResult, RecordedTurn},
    rules,
};

const WIRE: ModelWire = ModelWire::Gemini;

/// <https://ai.google.dev/gemini-api/docs/image-understanding>, …/document-processing, …/audio,
/// …/video-understanding.
const MIME_TYPES: [&str; 18] = [
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
    "application/pdf",
    "audio/wav",
    "audio/mp3",
    "audio/mpeg",
    "audio/aiff",
    "audio/aac",
    "audio/ogg",
    "audio/flac",
    "video/mp4",
    "video/mpeg",
    "video/quicktime",
    "video/webm",
    "text/plain",
];

fn unknown(place: &str, key: &str) -> String {
    format!("Invalid JSON payload received. Unknown name \"{key}\" at '{place}': Cannot find field.")
}

/// Reads a request as strictly as the provider. The model stands in the path.
pub(crate) fn read(body: &Value, model: &str) -> Result<ParsedRequest, String> {
    const FIELDS: &[&str] =
        &["contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings"];
    rules::only(body, "", FIELDS, unknown)?;
    let mut read = ParsedRequest { model: model.to_owned(), wants_usage: true, ..ParsedRequest::default() };
    if let Some(system) = body.get("systemInstruction") {
        rules::only(system, "systemInstruction", &["parts", "role"], unknown)?;
        read.system = rules::list(system, "parts")?.iter().filter_map(|part| part["text"].as_str()).collect();
    }
    for (index, content) in rules::list(body, "contents")?.iter().enumerate() {
        let place = format!("contents[{index}]");
        rules::only(content, &place, &["role", "parts"], unknown)?;
        let parts = rules::list(content, "parts")?;
        if parts.is_empty() {
            return Err(format!("* GenerateContentRequest.{place}.parts: contents.parts must not be empty."));
        }
        match content["role"].as_str() {
            Some("user") => user(&mut read, &place, parts)?,
            Some("model") => model_turn(&mut read, &place, parts)?,
            _ => return Err("Please use a valid role: user, model.".to_owned()),
        }
    }
    for tool in rules::list(body, "tools")? {
        rules::only(tool, "tools", &["functionDeclarations"], unknown)?;
        for function in rules::list(tool, "functionDeclarations")? {
            rules::only(function, "tools", &["name", "description", "parameters", "parametersJsonSchema"], unknown)?;
            let schema = function.get("parametersJsonSchema").or(function.get("parameters")).unwrap_or(&Value::Null);
            rules::tool(WIRE, &mut read.tools, rules::text(function, "name", "tools")?, schema)?;
        }
    }
    signed(&read)?;
    Ok(read)
}

fn user(read: &mut ParsedRequest, place: &str, parts: &[Value]) -> Result<(), String> {
    let (mut results, mut said) = (Vec::new(), Vec::new());
    for part in parts {
        if let Some(text) = part.get("text") {
            rules::only(part, place, &["text"], unknown)?;
            let text = text.as_str().filter(|text| !text.is_empty());
            said.push(RecordedPart::Text(text.ok_or(format!("{place}: text must not be empty"))?.to_owned()));
        } else if let Some(data) = part.get("inline_data").or(part.get("inlineData")) {
            let mime = data.get("mime_type").or(data.get("mimeType")).and_then(Value::as_str).unwrap_or_default();
            if !MIME_TYPES.contains(&mime) {
                return Err(format!("Unsupported MIME type: {mime}"));
            }
            let file = rules::file(WIRE, place, mime, rules::text(data, "data", place)?, None)?;
            said.push(RecordedPart::File(file));
        } else if let Some(answer) = part.get("functionResponse") {
            rules::only(answer, place, &["name", "response", "id"], unknown)?;
            // A Struct: https://ai.google.dev/api/caching#FunctionResponse.
            if !answer["response"].is_object() {
                return Err(format!("Invalid value at '{place}.function_response.response' (Struct)"));
            }
            let name = rules::text(answer, "name", place)?.to_owned();
            let content = answer["response"]["content"].as_str().unwrap_or_default().to_owned();
            let id = answer.get("id").and_then(Value::as_str).map(str::to_owned);
            results.push(RecordedResult { id, name: Some(name), parts: vec![RecordedPart::Text(content)] });
        } else {
            return Err(format!("{place}: a part without data"));
        }
    }
    if !results.is_empty() && !said.is_empty() {
        return Err("function response parts must stand in a turn of their own".to_owned());
    }
    if !results.is_empty() {
        read.turns.push(RecordedTurn::Results(results));
    } else {
        read.turns.push(RecordedTurn::User(said));
    }
    Ok(())
}

fn model_turn(read: &mut ParsedRequest, place: &str, parts: &[Value]) -> Result<(), String> {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for part in parts {
        let signature = part.get("thoughtSignature").and_then(Value::as_str).map(str::to_owned);
        if let Some(call) = part.get("functionCall") {
            rules::only(call, place, &["name", "args", "id"], unknown)?;
            let name = rules::text(call, "name", place)?.to_owned();
            rules::tool_name(WIRE, &name)?;
            // A Struct: https://ai.google.dev/api/caching#FunctionCall.
            if !call["args"].is_object() {
                return Err(format!("Invalid value at '{place}.parts[0].function_call.args' (Struct)"));
            }
            let id = call.get("id").and_then(Value::as_str).map(str::to_owned);
            calls.push(RecordedCall { id, name, arguments: call["args"].clone(), signature });
        } else {
            text.push_str(rules::text(part, "text", place)?);
        }
    }
    read.turns.push(RecordedTurn::Model { text, calls });
    Ok(())
}

/// Gemini 3 wants the first call of each step of the running turn to be signed:
/// <https://ai.google.dev/gemini-api/docs/thought-signatures>.
fn signed(read: &ParsedRequest) -> Result<(), String> {
    if !read.model.contains("gemini-3") {
        return Ok(());
    }
    let begin = read.turns.iter().rposition(|turn| matches!(turn, RecordedTurn::User(_))).unwrap_or(0);
    for turn in &read.turns[begin..] {
        if let RecordedTurn::Model { calls, .. } = turn
            && let Some(call) = calls.first().filter(|call| call.signature.is_none())
        {
            return Err(format!(
                "Function call is missing a thought_signature in functionCall parts. function call `{}`",
                call.name
            ));
        }
    }
    Ok(())
}

/// Writes frames.
pub(crate) struct GeminiWriter {
    model: String,
}

impl GeminiWriter {
    pub(crate) fn new(read: &ParsedRequest) -> Self {
        Self { model: read.model.clone() }
    }

    fn frame(&self, parts: &Value, finish: Option<&str>, usage: Option<(u64, u64)>) -> String {
        let mut candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        let mut frame = json!({ "candidates": [candidate], "modelVersion": self.model, "responseId": "fake" });
        if let Some((input, output)) = usage {
            frame["usageMetadata"] = json!({ "promptTokenCount": input, "candidatesTokenCount": output,
                "totalTokenCount": input + output });
        }
        format!("data: {frame}\r\n\r\n")
    }
}

impl StreamWriter for GeminiWriter {
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn open(&mut self) -> String {
        String::new()
    }

    fn text(&mut self, text: &str) -> String {
        self.frame(&json!([{ "text": text }]), None, None)
    }

    fn call(&mut self, call: &ScriptedCall) -> String {
        let args: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
        let mut part = json!({ "functionCall": { "name": call.name, "args": args } });
        if let Some(signature) = &call.signature {
            part["thoughtSignature"] = json!(signature);
        }
        self.frame(&json!([part]), None, None)
    }

    fn ping(&mut self) -> String {
        ": keep-alive\r\n\r\n".to_owned()
    }

    fn end(&mut self, finish: FinishReason, usage: (u64, u64)) -> String {
        let reason = match finish {
            FinishReason::Natural => "STOP",
            FinishReason::Length => "MAX_TOKENS",
            FinishReason::Filtered => "PROHIBITED_CONTENT",
        };
        self.frame(&json!([{ "text": "" }]), Some(reason), Some(usage))
    }

    /// A prompt that is refused is answered with 200 and no candidate:
    /// <https://ai.google.dev/api/generate-content#PromptFeedback>.
    fn write_error(&mut self, case: ProviderErrorCase) -> String {
        match case {
            ProviderErrorCase::Filtered => {
                let frame = json!({ "promptFeedback": { "blockReason": "PROHIBITED_CONTENT" },
                    "usageMetadata": { "promptTokenCount": 4, "totalTokenCount": 4 }, "modelVersion": self.model });
                format!("data: {frame}\r\n\r\n")
            }
            other => format!("data: {}\r\n\r\n", error_bodies::gemini(other, &self.model).1),
        }
    }
}
