//! Selects the models: those of the configuration, else one with a key in the environment, else an Ollama server on
//! this machine, else the built-in one. The only place that knows the model adapters.

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use reqwest::Url;
use satchel_domain::Sha256;
use satchel_local::OfflineModel;
use satchel_models::{FallbackModel, ModelSettings, RemoteModel};
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream, ImageScaler, LanguageModel, StoredBlob};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    agents::AgentDeclaration,
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

/// The selected models, and the reason for the selection.
#[derive(Debug, Clone)]
pub struct ModelSelection {
    /// The first one answers; the next one is the fallback if it fails before its first delta. Never empty.
    pub candidates: Vec<ModelCandidate>,
    /// The reason, as text that follows "because".
    pub reason: String,
}

/// Where models read files, and what scales images for them.
#[derive(Clone, Copy)]
pub struct ModelFiles<'a> {
    pub blobs: &'a Arc<dyn Blobs>,
    pub images: &'a Arc<dyn ImageScaler>,
}

/// Wraps the model of this name, for example to measure it.
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

    /// A description for people.
    #[must_use]
    pub fn title(&self) -> String {
        let (Self::Remote(model), Some(provider)) = (self, self.provider()) else {
            return "offline model: no AI, no account, no key".to_owned();
        };
        let server = model.base_url.as_deref().map_or_else(|| provider.title().to_owned(), display_host);
        format!("{} by {server}", model.model.as_deref().unwrap_or(provider.default_model()))
    }

    /// The adapter's provider; `None` for the built-in model.
    fn provider(&self) -> Option<satchel_models::ModelProvider> {
        match self {
            Self::Offline { .. } => None,
            Self::Remote(model) => model.provider.adapter(),
        }
    }

    /// The adapter's settings; `None` for the built-in model.
    ///
    /// # Errors
    /// When the provider needs a key and there is none.
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
    /// A description for people: the first model, and how many fallbacks it has.
    #[must_use]
    pub fn title(&self) -> String {
        let first = self.candidates.first().map(ModelCandidate::title).unwrap_or_default();
        match self.candidates.len() {
            0 | 1 => first,
            2 => format!("{first}, then {}", self.candidates[1].title()),
            more => format!("{first}, then {} others", more - 1),
        }
    }

    /// Whether the built-in model is first. It never fails, so no fallback is called.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        matches!(self.candidates.first(), Some(ModelCandidate::Offline { .. }))
    }
}

/// The host of a URL, with its port if there is one. Users, paths and queries may be secrets.
fn display_host(url: &SecretString) -> String {
    let url = Url::parse(url.expose_secret()).ok();
    let host = url.as_ref().and_then(|url| Some((url.host_str()?, url.port())));
    match host {
        Some((host, Some(port))) => format!("{host}:{port}"),
        Some((host, None)) => host.to_owned(),
        None => MASK.to_owned(),
    }
}

/// Selects the models. Without a configured model or a key, looks for an Ollama server on this machine.
pub async fn select_models(models: &ModelsConfig) -> ModelSelection {
    match &models.choice {
        ModelChoice::Named(names) => ModelSelection {
            candidates: names.iter().map(|name| named_candidate(models, name)).collect(),
            reason: "the configuration names it".to_owned(),
        },
        ModelChoice::FromEnvironment { variable, model } => ModelSelection {
            candidates: vec![ModelCandidate::Remote(model.clone())],
            reason: format!("no model is configured and {variable} is set"),
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
                reason: "no model is configured, no key is set, and an Ollama server runs here".to_owned(),
            },
            None => ModelSelection {
                candidates: vec![ModelCandidate::Offline { name: BUILT_IN.to_owned() }],
                reason: "no model is configured, no key is set, and no Ollama server runs here".to_owned(),
            },
        },
    }
}

/// The declared model of a name, or else the built-in one.
pub(crate) fn named_candidate(models: &ModelsConfig, name: &str) -> ModelCandidate {
    match models.get(name) {
        Some(model) if model.provider != ProviderConfig::Offline => ModelCandidate::Remote(model.clone()),
        _ => ModelCandidate::Offline { name: name.to_owned() },
    }
}

/// Opens the models that agents name and those that can be chosen for a conversation, by their names. One that nobody
/// names yet and that can't be opened, because its key is missing, is left out and logged.
///
/// # Errors
/// When an agent's name is that of no model, its key is missing or one of its settings can't be used.
pub fn open_by_name(
    agents: &[AgentDeclaration],
    models: &ModelsConfig,
    files: ModelFiles<'_>,
    piece_delay: Duration,
    wrap: WrapModel<'_>,
) -> anyhow::Result<BTreeMap<String, Arc<dyn LanguageModel>>> {
    let mut opened = BTreeMap::new();
    for (agent, name) in agents.iter().filter_map(|agent| Some((&agent.name, agent.model.as_ref()?))) {
        if name != BUILT_IN && models.get(name).is_none() {
            let declared = models.declared.iter().map(|model| model.name.as_str());
            let known = declared.chain([BUILT_IN]).collect::<Vec<_>>().join(", ");
            return Err(UsageError(format!("the agent `{agent}` names the model {name:?}, known are {known}")).into());
        }
        if !opened.contains_key(name) {
            opened.insert(name.clone(), open_candidate(&named_candidate(models, name), files, piece_delay, wrap)?);
        }
    }
    for ModelConfig { name, .. } in &models.declared {
        if opened.contains_key(name) {
            continue;
        }
        match open_candidate(&named_candidate(models, name), files, piece_delay, wrap) {
            Ok(model) => _ = opened.insert(name.clone(), model),
            Err(error) => tracing::info!(model = name, "`/model` doesn't offer a model: {error:#}"),
        }
    }
    Ok(opened)
}

fn open_candidate(
    candidate: &ModelCandidate,
    files: ModelFiles<'_>,
    piece_delay: Duration,
    wrap: WrapModel<'_>,
) -> anyhow::Result<Arc<dyn LanguageModel>> {
    let model: Arc<dyn LanguageModel> = match candidate.settings()? {
        None => Arc::new(OfflineModel { name: candidate.name().to_owned(), delta_delay: piece_delay }),
        Some(settings) => {
            let remote = RemoteModel::new(settings, Arc::clone(files.blobs));
            let remote = remote.map_err(|error| UsageError(error.to_string()))?;
            Arc::new(remote.with_image_scaler(Arc::clone(files.images)))
        }
    };
    Ok(wrap(candidate.name(), model))
}

/// Opens the selected models as one. `piece_delay` is how long the offline model waits before each delta.
///
/// # Errors
/// When a key is missing or a setting can't be used.
pub fn open(
    selection: &ModelSelection,
    files: ModelFiles<'_>,
    piece_delay: Duration,
    wrap: WrapModel<'_>,
) -> anyhow::Result<Arc<dyn LanguageModel>> {
    let mut models = Vec::new();
    for candidate in &selection.candidates {
        models.push(open_candidate(candidate, files, piece_delay, wrap)?);
    }
    tracing::info!(
        model = selection.title(),
        why = selection.reason,
        "who answers: {}, because {}",
        selection.title(),
        selection.reason
    );
    match models.len() {
        1 => Ok(models.remove(0)),
        _ => Ok(Arc::new(FallbackModel::new(models))),
    }
}

/// A store without files, for a model or a decoder that is only tested.
#[must_use]
pub fn empty_blobs() -> Arc<dyn Blobs> {
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
    use satchel_domain::AllowedPeople;
    use satchel_ports::MockImageScaler;

    use super::*;

    /// The models that can be named where `agent` has this model, by the names that they have themselves.
    fn open_for(agent: Option<&str>) -> Result<Vec<(String, String)>, String> {
        let model = |name: &str, provider, base_url: Option<&str>| ModelConfig {
            name: name.to_owned(),
            provider,
            base_url: base_url.map(|url| HttpUrl(SecretString::from(url))),
            model: Some("m".to_owned()),
            ..ModelConfig::default()
        };
        let declared = vec![
            model("demo", ProviderConfig::Offline, None),
            model("home", ProviderConfig::Ollama, Some("http://127.0.0.1:9/")),
            model("keyless", ProviderConfig::OpenAi, None),
        ];
        let mut models = ModelsConfig::default();
        models.declared = declared;
        let agent = agent.map(|model| AgentDeclaration {
            name: "kids".to_owned(),
            description: String::new(),
            instructions: String::new(),
            model: Some(model.to_owned()),
            tools: None,
            context: Vec::new(),
            allow: AllowedPeople::Owners,
        });
        let (blobs, images) = (empty_blobs(), Arc::new(MockImageScaler::new()) as Arc<dyn ImageScaler>);
        let files = ModelFiles { blobs: &blobs, images: &images };
        let opened = open_by_name(agent.as_slice(), &models, files, Duration::ZERO, &unwrapped);
        let opened = opened.map_err(|error| error.to_string())?;
        Ok(opened.into_iter().map(|(name, model)| (name, model.name())).collect())
    }

    #[test]
    fn declared_models_can_be_named_if_they_can_be_opened() {
        let pair = |name: &str| (name.to_owned(), name.to_owned());
        assert_eq!(open_for(None), Ok(vec![pair("demo"), pair("home")]), "nobody needs the one without a key");
        assert_eq!(open_for(Some("offline")), Ok(vec![pair("demo"), pair("home"), pair("offline")]));
        let error = open_for(Some("keyless")).unwrap_err();
        assert!(error.starts_with("the model \"keyless\" has no key: set `models.keyless.api_key`"), "{error}");
        let error = open_for(Some("tiny")).unwrap_err();
        assert_eq!(error, "the agent `kids` names the model \"tiny\", known are demo, home, keyless, offline");
    }

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
