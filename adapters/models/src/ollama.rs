//! Finds an Ollama server on this machine, for a start without any configuration.

use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;

use crate::{
    check::read_up_to,
    remote::http_client,
    request_policy::RequestPolicy,
    settings::{ModelProvider, ModelSettings},
};

/// How long the server is waited for. It is on this machine or it isn't there.
const LONGEST: Duration = Duration::from_millis(800);

/// The longest list of models that is read, in bytes.
const LONGEST_LIST: usize = 4 << 20;

/// A local Ollama server that has a model, with the one that was fetched last.
pub async fn find_ollama() -> Option<ModelSettings> {
    find_at(ModelProvider::Ollama.own_address()).await
}

async fn find_at(address: &str) -> Option<ModelSettings> {
    let model = tokio::time::timeout(LONGEST, newest_model(address)).await.ok()??;
    let base_url = (address != ModelProvider::Ollama.own_address()).then(|| SecretString::from(address));
    Some(ModelSettings {
        name: "ollama".to_owned(),
        provider: ModelProvider::Ollama,
        base_url,
        api_key: None,
        model: Some(model),
        accepts: None,
    })
}

/// The first model of the list, which the server keeps newest first, that can talk.
async fn newest_model(address: &str) -> Option<String> {
    let patience = RequestPolicy { connect: LONGEST, ..RequestPolicy::default() };
    let http = http_client(&patience, false, true).ok()?;
    let mut response = http.get(format!("{address}api/tags")).send().await.ok()?.error_for_status().ok()?;
    let list = read_up_to(&mut response, LONGEST_LIST).await.ok()??;
    let list: Value = serde_json::from_slice(&list).ok()?;
    let names = list.get("models")?.as_array()?.iter().filter_map(|model| model.get("name")?.as_str());
    let talks = |name: &&str| !["embed", "bge-", "minilm", "rerank"].iter().any(|word| name.contains(word));
    names.filter(talks).map(str::to_owned).next()
}

#[cfg(test)]
mod tests;
