//! The models that a server lists, so that a person can choose one of them.

use satchel_ports::ModelError;
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::{
    body::read_error_body,
    check::{CHECK_TIMEOUT, endpoint_url, read_body},
    error::{ErrorMapper, ProviderError, ProviderErrorKind},
    remote::http_client,
    request_policy::RequestPolicy,
    settings::{ModelProvider, ModelSettings, ModelSettingsError, ModelTarget, is_model_name},
};

/// Why there is no list of models.
#[derive(Debug, thiserror::Error)]
pub enum ModelListError {
    #[error(transparent)]
    Settings(#[from] ModelSettingsError),
    #[error("{}", .0.owner_message())]
    Server(ModelError),
}

/// Returns the names of the models that a server lists and that can chat, in its order. The settings need no model. Only
/// servers with OpenAI's API and Ollama list what they have; the list of others is empty.
///
/// # Errors
/// When the settings are invalid, or the server can't be reached or has no list.
pub async fn list_models(settings: ModelSettings) -> Result<Vec<String>, ModelListError> {
    // Nothing is asked of it.
    let model = settings.model.or_else(|| Some("any".to_owned()));
    let target = ModelTarget::new(ModelSettings { model, ..settings })?;
    let path: &[&str] = match target.provider {
        ModelProvider::OpenAi | ModelProvider::OpenAiResponses => &["models"],
        ModelProvider::Ollama => &["api", "tags"],
        ModelProvider::Anthropic | ModelProvider::Gemini => return Ok(Vec::new()),
    };
    let http = http_client(&RequestPolicy::default(), target.is_encrypted, target.is_local);
    let http = http.map_err(|reason| target.settings_error("base_url", reason))?;
    let request = http.get(endpoint_url(&target, path));
    let request = match &target.key {
        Some(key) => request.bearer_auth(key.expose_secret()),
        None => request,
    };
    let error_mapper = ErrorMapper::new(&target);
    let listing = tokio::time::timeout(CHECK_TIMEOUT, read_list(request, &error_mapper)).await;
    let list = listing.unwrap_or_else(|_| Err(error_mapper.provider_error(ProviderErrorKind::Timeout)));
    Ok(chat_models(&list.map_err(|failure| ModelListError::Server(failure.error))?))
}

async fn read_list(request: reqwest::RequestBuilder, error_mapper: &ErrorMapper) -> Result<Value, ProviderError> {
    let mut response = request.send().await.map_err(|error| error_mapper.map_connection_error(&error))?;
    let status = response.status();
    if !status.is_success() {
        let body = read_error_body(&mut response).await;
        return Err(error_mapper.map_status(status, &body, response.headers()));
    }
    let body = read_body(&mut response, error_mapper).await?;
    serde_json::from_str(&body).map_err(|_| error_mapper.provider_error(ProviderErrorKind::InvalidResponse))
}

/// The names in a list of OpenAI's API or of Ollama, without models that only embed, and without names that the
/// configuration doesn't allow.
pub(crate) fn chat_models(list: &Value) -> Vec<String> {
    const OTHER_MODELS: [&str; 4] = ["embed", "bge-", "minilm", "rerank"];
    let models = list.get("data").or_else(|| list.get("models")).and_then(Value::as_array);
    let names = models.into_iter().flatten().filter_map(|model| {
        let name = model.get("id").or_else(|| model.get("name"))?;
        name.as_str()
    });
    let can_chat = |name: &&str| is_model_name(name) && !OTHER_MODELS.iter().any(|part| name.contains(part));
    names.filter(can_chat).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use satchel_fake_model::{FakeModelServer, ModelWire};
    use secrecy::SecretString;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn server_lists_its_models() {
        let server = FakeModelServer::start().await.unwrap();
        server.remove_models();
        for model in ["llama-3.3-70b", "nomic-embed-text", "qwen3:8b"] {
            server.add_model(model);
        }
        for (provider, wire) in
            [(ModelProvider::OpenAi, ModelWire::OpenAiChat), (ModelProvider::Ollama, ModelWire::Ollama)]
        {
            let settings = ModelSettings {
                name: "main".to_owned(),
                provider,
                base_url: Some(SecretString::from(server.base_url(wire))),
                api_key: Some(SecretString::from(FakeModelServer::KEY)),
                model: None,
                accepts: None,
            };
            assert_eq!(list_models(settings.clone()).await.unwrap(), ["llama-3.3-70b", "qwen3:8b"], "{wire:?}");
            let nowhere = ModelSettings { base_url: Some(SecretString::from("http://127.0.0.1:9/")), ..settings };
            let error = list_models(nowhere).await.unwrap_err().to_string();
            assert!(error.contains("can't be reached"), "{wire:?}: {error}");
        }
    }

    #[test]
    fn names_that_no_configuration_takes_are_left_out() {
        let list = json!({ "data": [{ "id": "a/b:c" }, { "id": "\u{1b}[2J" }, { "id": "" }, { "name": 3 }, {}] });
        assert_eq!(chat_models(&list), ["a/b:c"]);
        assert_eq!(chat_models(&json!([1])), Vec::<String>::new());
    }
}
