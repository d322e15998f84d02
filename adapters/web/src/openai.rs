//! The part of OpenAI's API that existing clients need: chat completions and the list of models. A completion is a turn like
//! any other (ADR 0031).

mod completion;
mod error;
mod reply;
mod request;
mod retries;
mod stream;
mod streamed_text;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use serde_json::{Value, json};

use self::error::OpenAiError;
use crate::{guard, state::AppState};

/// The model's name that stands for whichever is configured.
const DEFAULT_MODEL: &str = "satchel";

/// The command whose choices are the names of the models.
const MODEL_COMMAND: &str = "model";

/// Builds the router of all paths under `/v1`.
pub(crate) fn router(state: &Arc<AppState>) -> Router<Arc<AppState>> {
    Router::new()
        .route("/v1/chat/completions", post(completion::complete))
        .route("/v1/models", get(list_models))
        .route("/v1/models/{model}", get(show_model))
        .route("/v1/{*rest}", any(async || OpenAiError::unknown_url()))
        .method_not_allowed_fallback(async || OpenAiError::unknown_url())
        .layer(middleware::from_fn_with_state(Arc::clone(state), require_token))
}

async fn require_token(State(state): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let answered = guard::run_authorized(&state, request, next).await;
    answered.unwrap_or_else(|problem| OpenAiError::from(problem).into_response())
}

async fn list_models(State(state): State<Arc<AppState>>) -> Json<Value> {
    let models: Vec<Value> = model_names(&state).map(model_object).collect();
    Json(json!({ "object": "list", "data": models }))
}

async fn show_model(State(state): State<Arc<AppState>>, Path(name): Path<String>) -> Result<Json<Value>, OpenAiError> {
    let found = model_names(&state).find(|model| *model == name);
    found.map(|model| Json(model_object(model))).ok_or_else(|| OpenAiError::unknown_model(&name))
}

/// The names that a request may give as its model.
fn model_names(state: &AppState) -> impl Iterator<Item = &str> {
    let commands = state.settings.commands.iter().filter(|command| command.name == MODEL_COMMAND);
    let choices = commands.flat_map(|command| &command.choices).map(|choice| choice.name.as_str());
    std::iter::once(DEFAULT_MODEL).chain(choices.filter(|name| *name != DEFAULT_MODEL))
}

fn model_object(name: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 0, "owned_by": "satchel" })
}
