//! The models: `model` and `models`.

use std::fmt;

use satchel_models::{MediaKind, unsupported_kind};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    leaf::{
        address::HttpUrl,
        list::{Names, words},
        secret::{MASK, Secret},
    },
    origin::SettingOrigin,
    resolve::Resolver,
    schema,
};

/// The name of the model that needs no configuration.
pub const BUILT_IN: &str = "offline";

/// A model.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["provider"]))]
pub struct ModelConfig {
    /// Its name in the configuration.
    #[schemars(skip)]
    pub name: String,
    /// Who serves it. `openai` is also any server that offers OpenAI's chat completions; give it a `base_url`.
    pub provider: ProviderConfig,
    /// Another server than the provider's own, such as `http://localhost:8000/v1/`.
    pub base_url: Option<HttpUrl>,
    /// The provider's key. Without it and without `base_url`, OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY is
    /// taken from the environment.
    pub api_key: Option<Secret>,
    /// The provider's name of the model; needed with `base_url`, else a default of the provider.
    pub model: Option<String>,
    /// The kinds of files that the model takes. Ollama takes images, `anthropic` and `openai_responses` PDF documents
    /// too, `openai` and `gemini` all four.
    #[schemars(with = "Option<Vec<String>>", extend(
        "items" = json!({ "type": "string", "enum": MediaKind::ALL.map(MediaKind::as_str) }),
        "x-default" = "what is known of the model"
    ))]
    pub accepts: Option<Vec<String>>,
}

/// Who serves a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderConfig {
    Offline,
    #[serde(rename = "openai")]
    OpenAi,
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    Anthropic,
    Gemini,
    Ollama,
}

/// The variables in which providers' own programs look for a key, in the order in which a first start looks.
const VARIABLES: [(&str, ProviderConfig); 3] = [
    ("OPENAI_API_KEY", ProviderConfig::OpenAi),
    ("ANTHROPIC_API_KEY", ProviderConfig::Anthropic),
    ("GEMINI_API_KEY", ProviderConfig::Gemini),
];

impl fmt::Display for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl ProviderConfig {
    /// Who serves it, as the adapter knows them; `None` for the one that is built in.
    #[must_use]
    pub fn adapter(self) -> Option<satchel_models::ModelProvider> {
        match self {
            Self::Offline => None,
            Self::OpenAi => Some(satchel_models::ModelProvider::OpenAi),
            Self::OpenAiResponses => Some(satchel_models::ModelProvider::OpenAiResponses),
            Self::Anthropic => Some(satchel_models::ModelProvider::Anthropic),
            Self::Gemini => Some(satchel_models::ModelProvider::Gemini),
            Self::Ollama => Some(satchel_models::ModelProvider::Ollama),
        }
    }

    /// The environment variable in which a key for its own server is looked for.
    #[must_use]
    pub fn key_variable(self) -> Option<&'static str> {
        let keyed = if self == Self::OpenAiResponses { Self::OpenAi } else { self };
        VARIABLES.iter().find(|(_, provider)| *provider == keyed).map(|(variable, _)| *variable)
    }
}

impl Default for ModelConfig {
    fn default() -> Self {
        let provider = ProviderConfig::Offline;
        Self { name: BUILT_IN.to_owned(), provider, base_url: None, api_key: None, model: None, accepts: None }
    }
}

/// Which model answers.
#[derive(Debug, Default)]
pub enum ModelChoice {
    /// These, by their names: the first, and the next where one fails. Each is [`BUILT_IN`] or a declared one.
    Named(Vec<String>),
    /// One that was not declared, because this variable holds a key for it.
    FromEnvironment { variable: &'static str, model: ModelConfig },
    /// None is named: an Ollama server on this machine, or else the one that is built in.
    #[default]
    Default,
}

/// The models that are declared, and the choice among them.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelsConfig {
    /// The name of the model that answers: one of `models`, or `offline`. In a list of names the next one answers where
    /// one fails before it says anything.
    model: Option<Names>,
    /// The models to choose from, each under a name you choose.
    #[serde(rename = "models")]
    #[schemars(
        with = "std::collections::BTreeMap<String, ModelConfig>",
        extend("propertyNames" = json!({ "pattern": r"^[^.]+$" }))
    )]
    pub declared: Vec<ModelConfig>,
    #[serde(skip)]
    pub choice: ModelChoice,
}

impl ModelsConfig {
    /// The declared model of a name; `None` for the one that is built in.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ModelConfig> {
        self.declared.iter().find(|model| model.name == name)
    }

    /// Chooses: without `model` the first declared one answers; without any the environment is searched for keys.
    pub(super) fn resolve(&mut self, resolver: &mut Resolver<'_>) {
        for model in &mut self.declared {
            model.resolve(resolver);
        }
        self.choice = match (&self.model, self.declared.first()) {
            (Some(names), _) => ModelChoice::Named(names.0.clone()),
            (None, Some(first)) => ModelChoice::Named(vec![first.name.clone()]),
            (None, None) => from_environment(resolver),
        };
        match &self.choice {
            ModelChoice::Named(names) => {
                let is_unknown = |name: &&String| *name != BUILT_IN && self.get(name).is_none();
                for name in names.iter().filter(is_unknown) {
                    let declared = self.declared.iter().map(|model| model.name.as_str());
                    let known: Vec<&str> = declared.chain([BUILT_IN]).collect();
                    resolver.report("model", format!("`model` names {name:?}, known are {}", known.join(", ")));
                }
                resolver.show_default("model", json!(names.first().map_or(BUILT_IN, String::as_str)));
            }
            ModelChoice::FromEnvironment { variable, model } => {
                resolver.show_instead("model", json!(model.name), SettingOrigin::Environment((*variable).to_owned()));
            }
            ModelChoice::Default => resolver.show_default("model", json!("a local Ollama, or else offline")),
        }
    }
}

impl ModelConfig {
    /// The kinds of files that it takes; `None` for what is known of the model.
    #[must_use]
    pub fn accepts(&self) -> Option<Vec<MediaKind>> {
        let words = self.accepts.as_ref()?;
        let kind = |word: &String| MediaKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        Some(words.iter().filter_map(kind).collect())
    }

    /// A provider must be named, the environment may hold its key, and its requests must have a place for the files.
    fn resolve(&mut self, resolver: &mut Resolver<'_>) {
        let section = format!("models.{}", self.name);
        if !resolver.is_given(&format!("{section}.provider")) {
            let provider = schema::schema().pointer("/properties/models/additionalProperties/properties/provider");
            let words = provider.and_then(words).unwrap_or_default().join(", ");
            resolver.report(&section, format!("`{section}` has no `provider`: one of {words}"));
        }
        // A key for the provider's own server is not shown to another one.
        if let (None, None, Some(variable)) = (&self.api_key, &self.base_url, self.provider.key_variable())
            && let Some(key) = resolver.variable(variable)
        {
            self.api_key = Some(Secret(SecretString::from(key.trim())));
            let origin = SettingOrigin::Environment(variable.to_owned());
            resolver.show_instead(&format!("{section}.api_key"), json!(MASK), origin);
        }
        if let Some(provider) = self.provider.adapter() {
            let has_no_place = |kind: &&MediaKind| !provider.file_kinds().contains(kind);
            for kind in self.accepts().iter().flatten().filter(has_no_place) {
                let key = format!("{section}.accepts");
                resolver.report(&key, format!("`{key}` {}", unsupported_kind(provider, *kind)));
            }
        }
    }
}

/// The model for which the environment holds a key.
fn from_environment(resolver: &Resolver<'_>) -> ModelChoice {
    let found = VARIABLES.iter().find_map(|(variable, provider)| {
        let key = SecretString::from(resolver.variable(variable)?.trim());
        let (name, provider) = (provider.to_string(), *provider);
        let model = ModelConfig { name, provider, api_key: Some(Secret(key)), ..ModelConfig::default() };
        Some(ModelChoice::FromEnvironment { variable, model })
    });
    found.unwrap_or_default()
}
