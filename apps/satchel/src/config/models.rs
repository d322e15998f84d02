//! The models: `model` and `models`.

use secrecy::SecretString;

use super::reader::Reader;

/// The name of the model that needs no configuration.
pub const BUILT_IN: &str = "offline";

/// A model that can be asked.
#[derive(Debug)]
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

/// The models that are declared, and the one that answers.
#[derive(Debug)]
pub struct Models {
    /// The name of the model that answers; it is [`BUILT_IN`] or one of `declared`.
    pub default: String,
    /// The declared models, in the order in which they were given.
    pub declared: Vec<Model>,
}

impl Models {
    /// The declared model that answers; `None` for the one that is built in.
    #[must_use]
    pub fn chosen(&self) -> Option<&Model> {
        self.declared.iter().find(|model| model.name == self.default)
    }
}

/// Reads the models. Without `model` the first declared one answers, and without any the built-in one.
pub(super) fn read(reader: &mut Reader<'_>) -> Models {
    let chosen = reader.text("model");
    let names = reader.names_in("models");
    let declared: Vec<Model> = names.into_iter().map(|name| read_one(reader, name)).collect();
    let first = declared.first().map_or(BUILT_IN, |model| &model.name).to_owned();
    let default = chosen.unwrap_or(first);
    reader.show_default("model", &default);
    match declared.iter().find(|model| model.name == default) {
        Some(model) if model.provider != Provider::Offline => {
            let name = PROVIDERS.iter().find(|(_, provider)| *provider == model.provider).map_or("", |(name, _)| name);
            reader.not_built(&format!("models.{default}.provider"), &format!("the provider {name}"));
        }
        None if default != BUILT_IN => {
            let names: Vec<&str> = declared.iter().map(|model| model.name.as_str()).chain([BUILT_IN]).collect();
            reader.wrong("model", format!("`model` names {default:?}, known are {}", names.join(", ")));
        }
        _ => {}
    }
    Models { default, declared }
}

fn read_one(reader: &mut Reader<'_>, name: String) -> Model {
    let key = |field: &str| format!("models.{name}.{field}");
    if !reader.is_given(&key("provider")) {
        let names: Vec<&str> = PROVIDERS.iter().map(|(name, _)| *name).collect();
        let section = format!("models.{name}");
        reader.wrong(&section, format!("`{section}` has no `provider`: one of {}", names.join(", ")));
    }
    Model {
        provider: reader.choice(&key("provider"), &PROVIDERS),
        base_url: reader.http_url(&key("base_url")),
        api_key: reader.secret(&key("api_key")),
        model: reader.text(&key("model")),
        name,
    }
}
