//! Finds an Ollama server on this machine, for a start without any configuration.

use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;

use crate::{
    body::read_body_up_to,
    listing::chat_models,
    remote::http_client,
    request_policy::RequestPolicy,
    settings::{ModelProvider, ModelSettings},
};

/// How long the server may take. A server on this machine answers quickly.
const DISCOVERY_TIMEOUT: Duration = Duration::from_millis(800);

/// The longest list of models that is read, in bytes.
const MAX_LIST_BYTES: usize = 4 << 20;

/// Finds a local Ollama server that has a model, and returns settings with its newest one.
pub async fn find_ollama() -> Option<ModelSettings> {
    find_at(ModelProvider::Ollama.default_address()).await
}

async fn find_at(address: &str) -> Option<ModelSettings> {
    let model = tokio::time::timeout(DISCOVERY_TIMEOUT, newest_model(address)).await.ok()??;
    let base_url = (address != ModelProvider::Ollama.default_address()).then(|| SecretString::from(address));
    Some(ModelSettings {
        name: "ollama".to_owned(),
        provider: ModelProvider::Ollama,
        base_url,
        api_key: None,
        model: Some(model),
        accepts: None,
    })
}

/// The newest model that can chat; the server lists the newest first.
async fn newest_model(address: &str) -> Option<String> {
    let policy = RequestPolicy { connect_timeout: DISCOVERY_TIMEOUT, ..RequestPolicy::default() };
    let http = http_client(&policy, false, true).ok()?;
    let mut response = http.get(format!("{address}api/tags")).send().await.ok()?.error_for_status().ok()?;
    let list = read_body_up_to(&mut response, MAX_LIST_BYTES).await.ok()??;
    let list: Value = serde_json::from_slice(&list).ok()?;
    chat_models(&list).into_iter().next()
}

#[cfg(test)]
mod tests;
