//! The models: `model` and `models`.

use std::ffi::OsString;

use satchel_models::{MediaKind, unsupported_kind};
use secrecy::SecretString;
use serde_json::json;

use super::{locate, masking::MASK, origin::Origin, reader::Reader};

/// The name of the model that needs no configuration.
pub const BUILT_IN: &str = "offline";

/// A model that can be asked.
#[derive(Debug, Clone)]
pub struct Model {
    /// Its name in the configuration.
    pub name: String,
    /// Who serves it.
    pub provider: Provider,
    /// Another server than the provider's own.
    pub base_url: Option<SecretString>,
    /// The key that the provider asks for.
    pub api_key: Option<SecretString>,
    /// The provider's name of the model.
    pub model: Option<String>,
    /// The kinds of files that it takes; `None` for what is known of the model.
    pub accepts: Option<Vec<MediaKind>>,
}

/// Who serves a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Nobody: it is built in.
    Offline,
    /// OpenAI's chat completions, and whoever speaks them.
    OpenAi,
    /// OpenAI's responses.
    OpenAiResponses,
    /// Anthropic.
    Anthropic,
    /// Google.
    Gemini,
    /// An Ollama server.
    Ollama,
}

const PROVIDERS: [(&str, Provider); 6] = [
    ("offline", Provider::Offline),
    ("openai", Provider::OpenAi),
    ("openai_responses", Provider::OpenAiResponses),
    ("anthropic", Provider::Anthropic),
    ("gemini", Provider::Gemini),
    ("ollama", Provider::Ollama),
];

/// The variables in which providers' own programs look for a key, in the order in which a first start looks.
const VARIABLES: [(&str, Provider); 3] = [
    ("OPENAI_API_KEY", Provider::OpenAi),
    ("ANTHROPIC_API_KEY", Provider::Anthropic),
    ("GEMINI_API_KEY", Provider::Gemini),
];

impl Provider {
    /// The word for it in the configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        PROVIDERS.iter().find(|(_, provider)| *provider == self).map_or("", |(word, _)| word)
    }

    /// Who serves it, as the adapter knows them; `None` for the one that is built in.
    #[must_use]
    pub fn adapter(self) -> Option<satchel_models::Provider> {
        match self {
            Self::Offline => None,
            Self::OpenAi => Some(satchel_models::Provider::OpenAi),
            Self::OpenAiResponses => Some(satchel_models::Provider::OpenAiResponses),
            Self::Anthropic => Some(satchel_models::Provider::Anthropic),
            Self::Gemini => Some(satchel_models::Provider::Gemini),
            Self::Ollama => Some(satchel_models::Provider::Ollama),
        }
    }

    /// The environment variable in which a key for its own server is looked for.
    #[must_use]
    pub fn key_variable(self) -> Option<&'static str> {
        let keyed = if self == Self::OpenAiResponses { Self::OpenAi } else { self };
        VARIABLES.iter().find(|(_, provider)| *provider == keyed).map(|(variable, _)| *variable)
    }
}

/// Which model answers.
#[derive(Debug)]
pub enum Choice {
    /// These, by their names: the first, and the next where one fails. Each is [`BUILT_IN`] or a declared one.
    Named(Vec<String>),
    /// One that was not declared, because this variable holds a key for it.
    Found {
        /// The variable.
        variable: &'static str,
        /// The model.
        model: Model,
    },
    /// Nobody said: an Ollama server on this machine, or else the one that is built in.
    Unsaid,
}

/// The models that are declared, and the choice among them.
#[derive(Debug)]
pub struct Models {
    /// Which model answers.
    pub choice: Choice,
    /// The declared models, in the order in which they were given.
    pub declared: Vec<Model>,
}

impl Models {
    /// The declared model of a name; `None` for the one that is built in.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Model> {
        self.declared.iter().find(|model| model.name == name)
    }
}

/// Reads the models. Without `model` the first declared one answers; without any the environment is searched for keys.
pub(super) fn read(reader: &mut Reader<'_>, environment: &[(OsString, OsString)]) -> Models {
    let chosen = reader.names("model");
    let names = reader.names_in("models");
    let declared: Vec<Model> = names.into_iter().map(|name| read_one(reader, name, environment)).collect();
    let models = match (chosen, declared.first()) {
        (Some(names), _) => Models { choice: Choice::Named(names), declared },
        (None, Some(first)) => Models { choice: Choice::Named(vec![first.name.clone()]), declared },
        (None, None) => Models { choice: found(environment).unwrap_or(Choice::Unsaid), declared },
    };
    match &models.choice {
        Choice::Named(names) => {
            check(reader, names, &models);
            reader.show_default("model", names.first().map_or(BUILT_IN, String::as_str));
        }
        Choice::Found { variable, model } => {
            let origin = Origin::Environment((*variable).to_owned());
            reader.show_instead("model", json!(model.name), origin);
        }
        Choice::Unsaid => reader.show_default("model", "a local Ollama, or else offline"),
    }
    models
}

/// The model for which the environment holds a key.
fn found(environment: &[(OsString, OsString)]) -> Option<Choice> {
    let key = |variable| Some(SecretString::from(locate::variable(environment, variable)?.to_str()?.trim()));
    VARIABLES.iter().find_map(|(variable, provider)| {
        let name = provider.word().to_owned();
        let model = Model {
            name,
            provider: *provider,
            base_url: None,
            api_key: Some(key(variable)?),
            model: None,
            accepts: None,
        };
        Some(Choice::Found { variable, model })
    })
}

/// What is chosen must be declared.
fn check(reader: &mut Reader<'_>, names: &[String], models: &Models) {
    let unknown = |name: &&String| *name != BUILT_IN && models.named(name).is_none();
    for name in names.iter().filter(unknown) {
        let declared = models.declared.iter().map(|model| model.name.as_str());
        let known: Vec<&str> = declared.chain([BUILT_IN]).collect();
        reader.wrong("model", format!("`model` names {name:?}, known are {}", known.join(", ")));
    }
}

fn read_one(reader: &mut Reader<'_>, name: String, environment: &[(OsString, OsString)]) -> Model {
    let key = |field: &str| format!("models.{name}.{field}");
    if !reader.is_given(&key("provider")) {
        let names: Vec<&str> = PROVIDERS.iter().map(|(name, _)| *name).collect();
        let section = format!("models.{name}");
        reader.wrong(&section, format!("`{section}` has no `provider`: one of {}", names.join(", ")));
    }
    let provider = reader.choice(&key("provider"), &PROVIDERS);
    let base_url = reader.http_url(&key("base_url"));
    let mut api_key = reader.secret(&key("api_key"));
    // A key for the provider's own server is not shown to another one.
    if let (None, None, Some(variable)) = (&api_key, &base_url, provider.key_variable())
        && let Some(value) = locate::variable(environment, variable).and_then(|value| value.to_str())
    {
        api_key = Some(SecretString::from(value.trim()));
        reader.show_instead(&key("api_key"), json!(MASK), Origin::Environment(variable.to_owned()));
    }
    let accepts = accepts(reader, &key("accepts"), provider);
    Model { provider, base_url, api_key, model: reader.text(&key("model")), accepts, name }
}

/// Reads the kinds of files that a model takes; each must be one that its provider's requests have a place for.
fn accepts(reader: &mut Reader<'_>, key: &str, provider: Provider) -> Option<Vec<MediaKind>> {
    let accepts = reader.optional_choices(key, &MediaKind::ALL.map(|kind| (kind.as_str(), kind)));
    reader.show_default(key, "what is known of the model");
    if let Some(provider) = provider.adapter() {
        let has_no_place = |kind: &&MediaKind| !provider.file_kinds().contains(kind);
        for kind in accepts.iter().flatten().filter(has_no_place) {
            reader.wrong(key, format!("`{key}` {}", unsupported_kind(provider, *kind)));
        }
    }
    accepts
}
