//! What the fake model server tells of its models.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{ModelWire, ProviderErrorCase, Shared, error_bodies, serving::wrong_key};

/// <https://platform.openai.com/docs/api-reference/models/list>.
pub(crate) async fn openai(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if let Some((status, body)) = wrong_key(&shared, ModelWire::OpenAiChat, &headers) {
        return said(status, body);
    }
    let models: Vec<Value> = models(&shared).iter().map(|id| json!({ "id": id, "object": "model" })).collect();
    Json(json!({ "object": "list", "data": models })).into_response()
}

/// <https://platform.claude.com/docs/en/api/models/retrieve>.
pub(crate) async fn anthropic(
    State(shared): State<Arc<Shared>>,
    Path(model): Path<String>,
    headers: HeaderMap,
) -> Response {
    one(&shared, ModelWire::Anthropic, &headers, &model, json!({ "type": "model", "id": model }))
}

/// <https://ai.google.dev/api/models#method:-models.get>.
pub(crate) async fn gemini(
    State(shared): State<Arc<Shared>>,
    Path(model): Path<String>,
    headers: HeaderMap,
) -> Response {
    one(&shared, ModelWire::Gemini, &headers, &model, json!({ "name": format!("models/{model}") }))
}

/// <https://github.com/ollama/ollama/blob/main/docs/api.md#list-local-models>.
pub(crate) async fn ollama(State(shared): State<Arc<Shared>>) -> Response {
    let models: Vec<Value> = models(&shared).iter().map(|name| json!({ "name": name, "model": name })).collect();
    Json(json!({ "models": models })).into_response()
}

/// <https://github.com/ollama/ollama/blob/main/docs/api.md#show-model-information>.
pub(crate) async fn ollama_one(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let model = body["model"].as_str().unwrap_or_default();
    one(&shared, ModelWire::Ollama, &headers, model, json!({ "capabilities": ["completion", "tools"] }))
}

fn one(shared: &Shared, wire: ModelWire, headers: &HeaderMap, model: &str, found: Value) -> Response {
    if let Some((status, body)) = wrong_key(shared, wire, headers) {
        return said(status, body);
    }
    match models(shared).iter().any(|known| known == model) {
        true => Json(found).into_response(),
        false => {
            let (status, body) = error_bodies::refusal(wire, ProviderErrorCase::Model, model);
            said(status, body)
        }
    }
}

fn models(shared: &Shared) -> Vec<String> {
    shared.state().models.iter().cloned().collect()
}

fn said(status: u16, body: Value) -> Response {
    (StatusCode::from_u16(status).expect("a status of ours is one"), Json(body)).into_response()
}
