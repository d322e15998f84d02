//! The fake model server is as strict as the providers: each rule is broken once, and a good request is taken.

use reqwest::{Client, Response};
use serde_json::{Value, json};

use super::*;

fn client() -> Client {
    satchel_fake_kit::install_tls_provider();
    Client::builder().no_proxy().build().unwrap()
}

/// Asks with these headers and this body.
async fn post(server: &FakeModelServer, wire: ModelWire, key: &str, body: &Value) -> Response {
    let path = match wire {
        ModelWire::OpenAiChat => "chat/completions".to_owned(),
        ModelWire::OpenAiResponses => "responses".to_owned(),
        ModelWire::Anthropic => "messages".to_owned(),
        ModelWire::Gemini => format!("models/{}:streamGenerateContent", wire.model()),
        ModelWire::Ollama => "api/chat".to_owned(),
    };
    let request = client().post(server.base_url(wire) + &path).json(body);
    let request = match wire {
        ModelWire::Anthropic => request.header("x-api-key", key).header("anthropic-version", "2023-06-01"),
        ModelWire::Gemini => request.header("x-goog-api-key", key),
        _ => request.bearer_auth(key),
    };
    request.send().await.unwrap()
}

/// A request that the provider takes, with one round of tools.
fn good(wire: ModelWire) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    match wire {
        ModelWire::OpenAiChat => json!({"model": wire.model(), "stream": true, "messages": [
            {"role": "system", "content": "s"}, {"role": "user", "content": "u"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"type": "function", "id": "c1", "function": {"name": "t", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "r"}],
            "tools": [{"type": "function", "function": {"name": "t", "parameters": schema}}]}),
        ModelWire::OpenAiResponses => json!({"model": wire.model(), "stream": true, "instructions": "s", "input": [
            {"role": "user", "content": "u"},
            {"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "r"}],
            "tools": [{"type": "function", "name": "t", "parameters": schema, "strict": false}]}),
        ModelWire::Anthropic => json!({"model": wire.model(), "stream": true, "max_tokens": 9, "system": "s",
            "messages": [{"role": "user", "content": "u"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "t", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "r"}]}],
            "tools": [{"name": "t", "input_schema": schema}]}),
        ModelWire::Gemini => json!({"systemInstruction": {"parts": [{"text": "s"}]}, "contents": [
            {"role": "user", "parts": [{"text": "u"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "t", "response": {"content": "r"}}}]}],
            "tools": [{"functionDeclarations": [{"name": "t", "parametersJsonSchema": schema}]}]}),
        ModelWire::Ollama => json!({"model": wire.model(), "messages": [
            {"role": "system", "content": "s"}, {"role": "user", "content": "u"},
            {"role": "assistant", "tool_calls": [{"function": {"name": "t", "arguments": {}}}]},
            {"role": "tool", "content": "r"}],
            "tools": [{"type": "function", "function": {"name": "t", "parameters": schema}}]}),
    }
}

#[tokio::test]
async fn a_good_request_is_taken() {
    for wire in ModelWire::ALL {
        let server = FakeModelServer::start().await.unwrap();
        let response = post(&server, wire, FakeModelServer::KEY, &good(wire)).await;
        assert_eq!(response.status(), 200, "{wire:?} {}", response.text().await.unwrap());
        assert!(response.text().await.unwrap().contains("Hello from the fake model."), "{wire:?}");
        let asked = server.last();
        assert_eq!(
            (asked.status.clone(), asked.tools.as_slice()),
            (RequestStatus::Answered, &["t".to_owned()][..]),
            "{wire:?}"
        );
        assert_eq!((asked.system.as_str(), asked.user_text().as_str()), ("s", "u"), "{wire:?}");
        assert_eq!(asked.results()[0].text(), "r", "{wire:?}");
    }
}

#[tokio::test]
async fn keys_and_models_are_checked() {
    for wire in ModelWire::ALL {
        let server = FakeModelServer::start().await.unwrap();
        let response = post(&server, wire, "wrong", &good(wire)).await;
        let status = if wire == ModelWire::Gemini { 400 } else { 401 };
        assert_eq!(response.status(), status, "{wire:?}");
        server.remove_models();
        let response = post(&server, wire, FakeModelServer::KEY, &good(wire)).await;
        assert_eq!(response.status(), 404, "{wire:?}");
    }
}

/// A PNG that ends in its pixels.
const CUT_PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAM=";

/// Each line breaks one rule: where in the good request, what is put there, and a word of the refusal.
#[tokio::test]
async fn each_rule_is_enforced() {
    use ModelWire::{Anthropic, Gemini, Ollama, OpenAiChat, OpenAiResponses};
    let long = "x".repeat(65);
    let webp = "data:image/webp;base64,AAAA";
    let image = |mime: &str, data: &str| json!([{"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}]);
    let huge = format!("iVBORw0K{}", "AAAA".repeat(5 << 18));
    let source = json!({"type": "base64", "media_type": "application/pdf", "data": "AAAA"});
    let document = json!([{"type": "document", "source": source}]);
    let inline = |mime: &str, data: &str| json!([{"inline_data": {"mime_type": mime, "data": data}}]);
    let input_image = json!([{"type": "input_image", "image_url": format!("data:image/png;base64,{CUT_PNG}")}]);
    let cases: Vec<(ModelWire, &str, Value, &str)> = vec![
        (OpenAiChat, "/surprise", json!(1), "Unrecognized request argument"),
        (OpenAiChat, "/messages/2/tool_calls/0/id", json!("y".repeat(41)), "maximum length 40"),
        (OpenAiChat, "/messages/2/tool_calls/0/function/name", json!("a.b"), "Invalid function name"),
        (OpenAiChat, "/tools/0/function/name", json!("a.b"), "Invalid function name"),
        (OpenAiChat, "/tools/0/function/name", json!(long), "Invalid function name"),
        (OpenAiChat, "/tools/0/function/parameters", json!({"type": "string"}), "type: \\\"object\\\""),
        (OpenAiChat, "/tools/0/function/description", json!("d".repeat(1025)), "maximum length 1024"),
        (OpenAiChat, "/tools", json!([]), "empty array"),
        (OpenAiChat, "/messages/3/tool_call_id", json!("other"), "must be a response to"),
        (OpenAiChat, "/messages/3", json!({"role": "user", "content": "x"}), "did not have response messages: c1"),
        (OpenAiChat, "/messages/2/tool_calls", json!([]), "expected a string, got null"),
        (
            OpenAiChat,
            "/messages/1/content",
            json!([{"type": "image_url", "image_url": {"url": webp}}]),
            "You uploaded an unsupported image",
        ),
        (OpenAiChat, "/messages/1/content", json!([{"type": "file", "file": {"file_data": "x"}}]), "filename"),
        (OpenAiChat, "/messages/3/content", json!([{"type": "text"}]), "must be a string"),
        (OpenAiResponses, "/input/1/call_id", json!(long), "maximum length 64"),
        (OpenAiResponses, "/input/2/call_id", json!("other"), "No tool call found"),
        (OpenAiResponses, "/input/2", json!({"role": "user", "content": "x"}), "No tool output found"),
        (OpenAiResponses, "/tools/0/strict", Value::Null, "Invalid schema for function"),
        (OpenAiResponses, "/tools/0/type", json!("web_search"), "a tool of the provider's own"),
        (OpenAiResponses, "/input/0/content", json!([]), "must not be empty"),
        (OpenAiResponses, "/input/0/content", input_image, "does not represent a valid image"),
        (OpenAiResponses, "/surprise", json!(1), "Unknown parameter"),
        (Anthropic, "/max_tokens", Value::Null, "max_tokens: Field required"),
        (Anthropic, "/surprise", json!(1), "Extra inputs are not permitted"),
        (Anthropic, "/system", json!(""), "non-empty"),
        (Anthropic, "/messages/0/content", json!(" "), "non-whitespace"),
        (Anthropic, "/messages/0/role", json!("assistant"), "first message must use"),
        (Anthropic, "/messages/0/content", image("image/heic", "AAAA"), "media_type"),
        (Anthropic, "/messages/0/content", image("image/png", "AAAA"), "match the provided media type image/png"),
        (Anthropic, "/messages/0/content", image("image/png", CUT_PNG), "Could not process image"),
        (Anthropic, "/messages/0/content", document, "pdf.source.base64.data: The PDF specified was not valid."),
        (Anthropic, "/messages/0/content", image("image/png", &huge), "image exceeds 5 MB"),
        (Anthropic, "/messages/1/content/0/input", json!("text"), "valid dictionary"),
        (Anthropic, "/messages/1/content/0/id", json!("a/b"), "should match pattern"),
        (Anthropic, "/messages/2/content/0/tool_use_id", json!("other"), "unexpected `tool_use_id`"),
        (Anthropic, "/messages/2/content", json!("no result"), "without `tool_result` blocks"),
        (Gemini, "/surprise", json!(1), "Unknown name"),
        (Gemini, "/contents/0/parts", json!([]), "must not be empty"),
        (Gemini, "/contents/0/role", json!("system"), "valid role"),
        (Gemini, "/contents/1/parts/0/functionCall/args", json!("text"), "Struct"),
        (Gemini, "/contents/2/parts/0/functionResponse/name", json!("other"), "immediately after"),
        (Gemini, "/contents/2/parts", json!([{"text": "x"}]), "number of function response parts"),
        (Gemini, "/tools/0/functionDeclarations/0/name", json!("7zip"), "Invalid function name"),
        (Gemini, "/contents/0/parts", inline("image/gif", "AAAA"), "MIME"),
        (Gemini, "/contents/0/parts", inline("image/png", "AAAA"), "Provided image is not valid."),
        (Gemini, "/contents/0/parts", inline("image/png", CUT_PNG), "Unable to process input image."),
        (Gemini, "/contents/0/parts", inline("application/pdf", "AAAA"), "The document has no pages."),
        (Ollama, "/messages/2/tool_calls/0/function/arguments", json!("text"), "cannot unmarshal"),
        (Ollama, "/messages/1/content", json!([{"type": "text"}]), "cannot unmarshal"),
        (Ollama, "/messages/1/images", json!(["AAAA"]), "unknown format"),
        (Ollama, "/messages/1/images", json!([CUT_PNG]), "Failed to load image or audio file"),
    ];
    for (wire, place, value, wanted) in cases {
        let server = FakeModelServer::start().await.unwrap();
        let mut body = good(wire);
        let (parent, key) = place.rsplit_once('/').unwrap();
        let parent = body.pointer_mut(parent).unwrap();
        match key.parse::<usize>() {
            Ok(index) => parent[index] = value,
            Err(_) if value.is_null() => drop(parent.as_object_mut().unwrap().remove(key)),
            Err(_) => parent[key] = value,
        }
        let response = post(&server, wire, FakeModelServer::KEY, &body).await;
        let status = response.status();
        let said = response.text().await.unwrap();
        assert_eq!(status, 400, "{wire:?} {place}: {said}");
        assert!(said.contains(wanted), "{wire:?} {place}: {said}");
        assert!(matches!(server.last().status, RequestStatus::Refused(_)), "{wire:?} {place}");
    }
}

/// Gemini 3 wants its signature back.
#[tokio::test]
async fn an_unsigned_call_is_refused_by_gemini_3() {
    let server = FakeModelServer::start().await.unwrap();
    server.add_model("gemini-3-x");
    let address = server.base_url(ModelWire::Gemini) + "models/gemini-3-x:streamGenerateContent";
    let mut body = good(ModelWire::Gemini);
    for (signature, status) in [(None, 400), (Some("c2ln"), 200)] {
        if let Some(signature) = signature {
            body["contents"][1]["parts"][0]["thoughtSignature"] = json!(signature);
        }
        let request = client().post(&address).header("x-goog-api-key", FakeModelServer::KEY).json(&body);
        assert_eq!(request.send().await.unwrap().status(), status);
    }
}

#[tokio::test]
async fn response_is_used_once_by_first_match() {
    let server = FakeModelServer::start().await.unwrap();
    server.reply(ModelReply::text("for nobody").when("nobody says this"));
    server.reply(ModelReply::text("once"));
    server.reply(ModelReply::text("always").every_time());
    let mut said = Vec::new();
    for _ in 0..3 {
        let wire = ModelWire::OpenAiChat;
        said.push(post(&server, wire, FakeModelServer::KEY, &good(wire)).await.text().await.unwrap());
    }
    for (said, wanted) in said.iter().zip(["once", "always", "always"]) {
        assert!(said.contains(wanted), "{said}");
    }
}
