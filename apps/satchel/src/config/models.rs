//! The models: `model` and `models`.

use std::ffi::OsString;

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
        let model = Model { name, provider: *provider, base_url: None, api_key: Some(key(variable)?), model: None };
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
    Model { provider, base_url, api_key, model: reader.text(&key("model")), name }
}
