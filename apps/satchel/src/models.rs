//! Which model answers and why: what the configuration names, else what the environment has a key for, else what runs
//! on this machine, else the one that is built in. The only place that knows which adapters stand behind them.

use std::{ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use reqwest::Url;
use satchel_domain::Sha256;
use satchel_local::OfflineModel;
use satchel_models::{FallbackModel, ModelSettings, RemoteModel};
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream, LanguageModel, StoredBlob};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    commands::UsageError,
    config::{
        leaf::{address::HttpUrl, secret::MASK},
        models::{BUILT_IN, ModelChoice, ModelConfig, ModelsConfig, ProviderConfig},
    },
};

/// A model that may answer.
#[derive(Debug, Clone)]
pub enum ModelCandidate {
    /// The one that is built in.
    Offline {
        /// Its name in the configuration.
        name: String,
    },
    /// One that a provider serves.
    Remote(ModelConfig),
}

/// The models that answer, and why it is they.
#[derive(Debug, Clone)]
pub struct ModelSelection {
    /// The first answers; the next where one fails before it says anything. Never empty.
    pub candidates: Vec<ModelCandidate>,
    /// Why, in words that follow "because".
    pub why: String,
}

/// Wraps a model that is known by this name; for what every model is to have, such as being measured.
pub type WrapModel<'a> = &'a dyn Fn(&str, Arc<dyn LanguageModel>) -> Arc<dyn LanguageModel>;

impl ModelCandidate {
    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Offline { name } => name,
            Self::Remote(model) => &model.name,
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn title(&self) -> String {
        let (Self::Remote(model), Some(provider)) = (self, self.provider()) else {
            return "offline model: no AI, no account, no key".to_owned();
        };
        let by = model.base_url.as_deref().map_or_else(|| provider.title().to_owned(), host_of);
        format!("{} by {by}", model.model.as_deref().unwrap_or(provider.default_model()))
    }

    /// Who serves it, as the adapter knows them; `None` for the one that is built in.
    fn provider(&self) -> Option<satchel_models::ModelProvider> {
        match self {
            Self::Offline { .. } => None,
            Self::Remote(model) => model.provider.adapter(),
        }
    }

    /// The settings with which the adapter asks it; `None` for the one that is built in.
    ///
    /// # Errors
    /// When it can't be asked without a key and has none.
    pub fn settings(&self) -> Result<Option<ModelSettings>, UsageError> {
        let (Self::Remote(model), Some(provider)) = (self, self.provider()) else { return Ok(None) };
        if let (None, None, Some(variable)) = (&model.api_key, &model.base_url, model.provider.key_variable()) {
            let name = &model.name;
            return Err(UsageError(format!(
                "the model {name:?} has no key: set `models.{name}.api_key`, or {variable} in the environment"
            )));
        }
        let accepts = model.accepts();
        let ModelConfig { name, base_url, api_key, model, .. } = model.clone();
        let (base_url, api_key) = (base_url.map(|url| url.0), api_key.map(|key| key.0));
        Ok(Some(ModelSettings { name, provider, base_url, api_key, model, accepts }))
    }
}

impl ModelSelection {
    /// What answers, for people: the first, and how many stand behind it.
    #[must_use]
    pub fn title(&self) -> String {
        let first = self.candidates.first().map(ModelCandidate::title).unwrap_or_default();
        match self.candidates.len() {
            0 | 1 => first,
            2 => format!("{first}, then {}", self.candidates[1].title()),
            more => format!("{first}, then {} others", more - 1),
        }
    }

    /// Whether the built-in model answers first. It never fails, so nothing behind it is asked.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        matches!(self.candidates.first(), Some(ModelCandidate::Offline { .. }))
    }
}

/// The host of an address, and its port where it is named. Users, paths and queries may be secrets.
fn host_of(url: &SecretString) -> String {
    let url = Url::parse(url.expose_secret()).ok();
    let host = url.as_ref().and_then(|url| Some((url.host_str()?, url.port())));
    match host {
        Some((host, Some(port))) => format!("{host}:{port}"),
        Some((host, None)) => host.to_owned(),
        None => MASK.to_owned(),
    }
}

/// Decides which models answer. Where nobody said, this machine is asked for an Ollama server, for a moment.
pub async fn select_models(models: &ModelsConfig) -> ModelSelection {
    let named = |name: &String| match models.get(name) {
        Some(model) if model.provider != ProviderConfig::Offline => ModelCandidate::Remote(model.clone()),
        _ => ModelCandidate::Offline { name: name.clone() },
    };
    match &models.choice {
        ModelChoice::Named(names) => ModelSelection {
            candidates: names.iter().map(named).collect(),
            why: "the configuration names it".to_owned(),
        },
        ModelChoice::FromEnvironment { variable, model } => ModelSelection {
            candidates: vec![ModelCandidate::Remote(model.clone())],
            why: format!("no model is configured and {variable} is set"),
        },
        ModelChoice::Default => match satchel_models::find_ollama().await {
            Some(found) => ModelSelection {
                candidates: vec![ModelCandidate::Remote(ModelConfig {
                    name: found.name,
                    provider: ProviderConfig::Ollama,
                    base_url: found.base_url.map(HttpUrl),
                    model: found.model,
                    ..ModelConfig::default()
                })],
                why: "no model is configured, no key is set, and an Ollama server runs here".to_owned(),
            },
            None => ModelSelection {
                candidates: vec![ModelCandidate::Offline { name: BUILT_IN.to_owned() }],
                why: "no model is configured, no key is set, and no Ollama server runs here".to_owned(),
            },
        },
    }
}

/// Opens the models that answer, as one. `piece_delay` is how long the offline model waits before each piece.
///
/// # Errors
/// When a key is missing or a setting can't be used.
pub fn open(
    decision: &ModelSelection,
    blobs: &Arc<dyn Blobs>,
    piece_delay: Duration,
    wrap: WrapModel<'_>,
) -> anyhow::Result<Arc<dyn LanguageModel>> {
    let mut opened = Vec::new();
    for candidate in &decision.candidates {
        let model: Arc<dyn LanguageModel> = match candidate.settings()? {
            None => Arc::new(OfflineModel { piece_delay }),
            Some(settings) => {
                let remote = RemoteModel::new(settings, Arc::clone(blobs));
                Arc::new(remote.map_err(|error| UsageError(error.to_string()))?)
            }
        };
        opened.push(wrap(candidate.name(), model));
    }
    tracing::info!(
        model = decision.title(),
        why = decision.why,
        "who answers: {}, because {}",
        decision.title(),
        decision.why
    );
    match opened.len() {
        1 => Ok(opened.remove(0)),
        _ => Ok(Arc::new(FallbackModel::new(opened))),
    }
}

/// A store without files, for a model that is only asked whether it is there.
#[must_use]
pub fn no_files() -> Arc<dyn Blobs> {
    Arc::new(EmptyBlobs)
}

struct EmptyBlobs;

#[async_trait]
impl Blobs for EmptyBlobs {
    async fn put(&self, _: ByteStream, _: &BlobHint, _: u64) -> Result<StoredBlob, BlobError> {
        Err(BlobError::Source(std::io::ErrorKind::Unsupported.into()))
    }

    async fn open(&self, sha256: &Sha256, _: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        Err(BlobError::Missing(*sha256))
    }

    async fn list_stale(&self, _: Duration) -> Result<Vec<Sha256>, BlobError> {
        Ok(Vec::new())
    }

    async fn mark(&self, _: &[Sha256], _: Duration) -> Result<(), BlobError> {
        Ok(())
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        Ok(0)
    }
}

#[must_use]
pub fn unwrapped(_: &str, model: Arc<dyn LanguageModel>) -> Arc<dyn LanguageModel> {
    model
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_title_has_host_without_secrets() {
        for (base_url, title) in [
            (None, "m by Ollama"),
            (Some("http://me:canary@box:11434/canary/?key=canary#canary"), "m by box:11434"),
            (Some("https://gateway.example.com/canary/v1/"), "m by gateway.example.com"),
            (Some("http://[::1]:8000/"), "m by [::1]:8000"),
            (Some("canary"), "m by ********"),
        ] {
            let model = ModelConfig {
                provider: ProviderConfig::Ollama,
                base_url: base_url.map(|url| HttpUrl(SecretString::from(url))),
                model: Some("m".to_owned()),
                ..ModelConfig::default()
            };
            assert_eq!(ModelCandidate::Remote(model).title(), title);
        }
    }
}
