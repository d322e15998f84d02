//! One cheap call that checks whether the server is reachable, the key is valid and the model exists.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use satchel_ports::ModelError;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::{
    body::{read_body_up_to, read_error_body},
    error::{ErrorMapper, ProviderError, ProviderErrorKind},
    settings::{ModelProvider, ModelTarget},
};

/// The longest that a check takes.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest response that is read, in bytes. OpenRouter lists its models in about half a megabyte.
const MAX_RESPONSE_BYTES: usize = 8 << 20;

/// The API version that Anthropic requires in a header.
const ANTHROPIC_VERSION: &str = "2023-06-01";

pub(crate) async fn check_model(
    http: &Client,
    target: &ModelTarget,
    error_mapper: &ErrorMapper,
    timeout: Duration,
) -> Result<(), ModelError> {
    let result = tokio::time::timeout(timeout.min(CHECK_TIMEOUT), probe_server(http, target, error_mapper)).await;
    result
        .unwrap_or_else(|_| Err(error_mapper.provider_error(ProviderErrorKind::Timeout)))
        .map_err(|failure| failure.error)
}

async fn probe_server(http: &Client, target: &ModelTarget, error_mapper: &ErrorMapper) -> Result<(), ProviderError> {
    let mut response =
        check_request(http, target).send().await.map_err(|error| error_mapper.map_connection_error(&error))?;
    let status = response.status();
    let body = match status.is_success() {
        true => read_body(&mut response, error_mapper).await?,
        false => read_error_body(&mut response).await,
    };
    let is_openai_api = matches!(target.provider, ModelProvider::OpenAi | ModelProvider::OpenAiResponses);
    if is_openai_api && status == StatusCode::FORBIDDEN && body.contains("Missing scopes") {
        // A restricted key that may call models but not list them is valid.
        return Ok(());
    }
    if target.is_custom_server && is_openai_api && status == StatusCode::NOT_FOUND {
        // Not every OpenAI-compatible server lists its models; it is reachable, and more can't be checked.
        return Ok(());
    }
    if !status.is_success() {
        return Err(error_mapper.map_status(status, &body, response.headers()));
    }
    let json: Value =
        serde_json::from_str(&body).map_err(|_| error_mapper.provider_error(ProviderErrorKind::NotFound))?;
    if !json.is_object() {
        return Err(error_mapper.provider_error(ProviderErrorKind::NotFound));
    }
    // The other requests named the one model.
    let models = json.get("data").and_then(Value::as_array).filter(|_| is_openai_api);
    let is_requested = |model: &Value| model.get("id").is_some_and(|id| *id == *target.model);
    match models {
        Some(models) if !models.is_empty() && !models.iter().any(is_requested) => {
            Err(error_mapper.provider_error(ProviderErrorKind::UnknownModel))
        }
        _ => Ok(()),
    }
}

fn check_request(http: &Client, target: &ModelTarget) -> RequestBuilder {
    let key = target.key.as_ref().map(|key| key.expose_secret()).unwrap_or_default();
    let request = match target.provider {
        ModelProvider::OpenAi | ModelProvider::OpenAiResponses => http.get(endpoint_url(target, &["models"])),
        ModelProvider::Anthropic => http
            .get(endpoint_url(target, &["models", &target.model]))
            .header("x-api-key", key)
            .header("anthropic-version", ANTHROPIC_VERSION),
        ModelProvider::Gemini => {
            http.get(endpoint_url(target, &["models", &target.model])).header("x-goog-api-key", key)
        }
        ModelProvider::Ollama => {
            http.post(endpoint_url(target, &["api", "show"])).json(&json!({ "model": target.model }))
        }
    };
    let needs_bearer =
        !matches!(target.provider, ModelProvider::Anthropic | ModelProvider::Gemini) && target.key.is_some();
    if needs_bearer { request.bearer_auth(key) } else { request }
}

/// A URL below the server's address.
pub(crate) fn endpoint_url(target: &ModelTarget, path: &[&str]) -> Url {
    let mut url = target.url();
    let segments = path.iter().flat_map(|part| part.split('/'));
    url.path_segments_mut().expect("an http address has a path").pop_if_empty().extend(segments);
    url
}

/// Reads a response's body up to a limit.
pub(crate) async fn read_body(response: &mut Response, error_mapper: &ErrorMapper) -> Result<String, ProviderError> {
    match read_body_up_to(response, MAX_RESPONSE_BYTES).await {
        Ok(Some(body)) => Ok(String::from_utf8_lossy(&body).into_owned()),
        Ok(None) => Err(error_mapper.provider_error(ProviderErrorKind::InvalidResponse)),
        Err(error) => Err(error_mapper.map_connection_error(&error)),
    }
}
