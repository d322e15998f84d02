//! One cheap call that tells whether a server is there, the key is good and the model is known.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use satchel_ports::ModelError;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::{
    error::{ErrorMapper, ProviderError, ProviderErrorKind},
    settings::{ModelProvider, ModelTarget},
};

/// The longest that a check takes.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest answer that is read, in bytes. OpenRouter lists its models in about half a megabyte.
const LONGEST_ANSWER: usize = 8 << 20;

/// The version of its interface that Anthropic wants to be named.
const ANTHROPIC_VERSION: &str = "2023-06-01";

pub(crate) async fn check(
    http: &Client,
    target: &ModelTarget,
    teller: &ErrorMapper,
    patience: Duration,
) -> Result<(), ModelError> {
    let asked = tokio::time::timeout(patience.min(CHECK_TIMEOUT), probe_server(http, target, teller)).await;
    asked.unwrap_or_else(|_| Err(teller.failure(ProviderErrorKind::Timeout))).map_err(|failure| failure.error)
}

async fn probe_server(http: &Client, target: &ModelTarget, teller: &ErrorMapper) -> Result<(), ProviderError> {
    let response = question(http, target).send().await.map_err(|error| teller.map_connection_error(&error))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = read(response, teller).await?;
    let speaks_openai = matches!(target.provider, ModelProvider::OpenAi | ModelProvider::OpenAiResponses);
    if speaks_openai && status == StatusCode::FORBIDDEN && body.contains("Missing scopes") {
        // A restricted key that may ask a model and may not list them is a good key.
        return Ok(());
    }
    if target.is_elsewhere && speaks_openai && status == StatusCode::NOT_FOUND {
        // Not every server that speaks OpenAI's language lists its models; it is there, and that is what we know.
        return Ok(());
    }
    if !status.is_success() {
        return Err(teller.map_status(status, &body, &headers));
    }
    let answer: Value = serde_json::from_str(&body).map_err(|_| teller.failure(ProviderErrorKind::NotFound))?;
    if !answer.is_object() {
        return Err(teller.failure(ProviderErrorKind::NotFound));
    }
    // The others were asked for the one model.
    let listed = answer.get("data").and_then(Value::as_array).filter(|_| speaks_openai);
    let is_meant = |listed: &Value| listed.get("id").is_some_and(|id| *id == *target.model);
    match listed {
        Some(models) if !models.is_empty() && !models.iter().any(is_meant) => {
            Err(teller.failure(ProviderErrorKind::UnknownModel))
        }
        _ => Ok(()),
    }
}

fn question(http: &Client, target: &ModelTarget) -> RequestBuilder {
    let key = target.key.as_ref().map(|key| key.expose_secret()).unwrap_or_default();
    let asked = match target.provider {
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
    let bearer = !matches!(target.provider, ModelProvider::Anthropic | ModelProvider::Gemini) && target.key.is_some();
    if bearer { asked.bearer_auth(key) } else { asked }
}

/// An address below the server's.
fn endpoint_url(target: &ModelTarget, path: &[&str]) -> Url {
    let mut url = Url::parse(target.address.expose_secret()).expect("the address was checked");
    let segments = path.iter().flat_map(|part| part.split('/'));
    url.path_segments_mut().expect("an http address has a path").pop_if_empty().extend(segments);
    url
}

/// Reads an answer up to a limit.
async fn read(mut response: Response, teller: &ErrorMapper) -> Result<String, ProviderError> {
    match read_up_to(&mut response, LONGEST_ANSWER).await {
        Ok(Some(body)) => Ok(String::from_utf8_lossy(&body).into_owned()),
        Ok(None) => Err(teller.failure(ProviderErrorKind::InvalidResponse)),
        Err(error) => Err(teller.map_connection_error(&error)),
    }
}

/// A response's body; `None` when it is longer than `limit` bytes.
pub(crate) async fn read_up_to(response: &mut Response, limit: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        if body.len() + piece.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&piece);
    }
    Ok(Some(body))
}
