//! The models: `model` and `models`.

use std::fmt;

use satchel_models::{MediaKind, unsupported_kind_reason};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    leaf::{
        address::HttpUrl,
        list::{Names, enum_choices},
        secret::{MASK, Secret},
    },
    origin::SettingOrigin,
    resolver::Resolver,
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

/// The environment variables for keys, in the order in which they are tried.
const KEY_VARIABLES: [(&str, ProviderConfig); 3] = [
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
    /// The adapter's provider; `None` for the built-in model.
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

    /// The environment variable for the key of the provider's own server.
    #[must_use]
    pub fn key_variable(self) -> Option<&'static str> {
        let key_provider = if self == Self::OpenAiResponses { Self::OpenAi } else { self };
        KEY_VARIABLES.iter().find(|(_, provider)| *provider == key_provider).map(|(variable, _)| *variable)
    }
}

impl Default for ModelConfig {
    fn default() -> Self {
        let provider = ProviderConfig::Offline;
        Self { name: BUILT_IN.to_owned(), provider, base_url: None, api_key: None, model: None, accepts: None }
    }
}

#[derive(Debug, Default)]
pub enum ModelChoice {
    /// These, by name: the first one, and its fallbacks in order. Each is [`BUILT_IN`] or declared.
    Named(Vec<String>),
    /// An undeclared one, because this variable holds a key for it.
    FromEnvironment { variable: &'static str, model: ModelConfig },
    /// None is named: an Ollama server on this machine, or else the built-in model.
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
    /// The declared model of a name; `None` for the built-in model.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ModelConfig> {
        self.declared.iter().find(|model| model.name == name)
    }

    /// Chooses the model: without `model` the first declared one, without any the first with a key in the environment.
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
                resolver.show_derived("model", json!(model.name), SettingOrigin::Environment((*variable).to_owned()));
            }
            ModelChoice::Default => resolver.show_default("model", json!("a local Ollama, or else offline")),
        }
    }
}

impl ModelConfig {
    /// The configured kinds of files; `None` for the model's known ones.
    #[must_use]
    pub fn accepts(&self) -> Option<Vec<MediaKind>> {
        let names = self.accepts.as_ref()?;
        let parse_kind = |name: &String| MediaKind::ALL.into_iter().find(|kind| kind.as_str() == name);
        Some(names.iter().filter_map(parse_kind).collect())
    }

    /// Checks the provider and the kinds of files, and takes a key from the environment.
    fn resolve(&mut self, resolver: &mut Resolver<'_>) {
        let section = format!("models.{}", self.name);
        if !resolver.is_given(&format!("{section}.provider")) {
            let provider = schema::schema().pointer("/properties/models/additionalProperties/properties/provider");
            let choices = provider.and_then(enum_choices).unwrap_or_default().join(", ");
            resolver.report(&section, format!("`{section}` has no `provider`: one of {choices}"));
        }
        // A key for the provider's own server is not sent to another one.
        if let (None, None, Some(variable)) = (&self.api_key, &self.base_url, self.provider.key_variable())
            && let Some(key) = resolver.variable(variable)
        {
            self.api_key = Some(Secret(SecretString::from(key.trim())));
            let origin = SettingOrigin::Environment(variable.to_owned());
            resolver.show_derived(&format!("{section}.api_key"), json!(MASK), origin);
        }
        if let Some(provider) = self.provider.adapter() {
            let is_unsupported = |kind: &&MediaKind| !provider.file_kinds().contains(kind);
            for kind in self.accepts().iter().flatten().filter(is_unsupported) {
                let key = format!("{section}.accepts");
                resolver.report(&key, format!("`{key}` {}", unsupported_kind_reason(provider, *kind)));
            }
        }
    }
}

/// The model for which the environment holds a key.
fn from_environment(resolver: &Resolver<'_>) -> ModelChoice {
    let choice = KEY_VARIABLES.iter().find_map(|(variable, provider)| {
        let key = SecretString::from(resolver.variable(variable)?.trim());
        let (name, provider) = (provider.to_string(), *provider);
        let model = ModelConfig { name, provider, api_key: Some(Secret(key)), ..ModelConfig::default() };
        Some(ModelChoice::FromEnvironment { variable, model })
    });
    choice.unwrap_or_default()
}
