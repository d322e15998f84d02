//! Which model is called, where, and with which key; checked once, before anything is sent.

use std::net::IpAddr;

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use crate::media_kind::{MediaKind, unsupported_kind_reason};

/// Who serves a model, or whose API a compatible server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelProvider {
    /// OpenAI's chat completions API, and the many compatible servers.
    OpenAi,
    OpenAiResponses,
    Anthropic,
    Gemini,
    Ollama,
}

impl ModelProvider {
    /// The name as people know it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Gemini => "Gemini",
            Self::Ollama => "Ollama",
        }
    }

    /// Where the provider itself listens. Each ends in a slash, because paths are joined to it.
    pub(crate) fn default_address(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://127.0.0.1:11434/",
        }
    }

    /// Whether it fetches images whose addresses a request holds. Gemini takes those of its own storage alone, Ollama none.
    pub(crate) fn fetches_images(self) -> bool {
        matches!(self, Self::OpenAi | Self::OpenAiResponses | Self::Anthropic)
    }

    /// The model that is used when none is named: small, fast, and with vision.
    #[must_use]
    pub fn default_model(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "gpt-5.4-mini",
            Self::Anthropic => "claude-haiku-4-5",
            Self::Gemini => "gemini-3.5-flash",
            Self::Ollama => "gemma3",
        }
    }
}

/// A model as the operator describes it.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// Its name in the configuration.
    pub name: String,
    pub provider: ModelProvider,
    /// Address of another server that offers the provider's API.
    pub base_url: Option<SecretString>,
    /// The key that the server requires.
    pub api_key: Option<SecretString>,
    /// The server's name of the model; `None` for the provider's default.
    pub model: Option<String>,
    /// The kinds of files that it accepts, of those in [`ModelProvider::file_kinds`]; `None` for the built-in table.
    pub accepts: Option<Vec<MediaKind>>,
}

/// Why a model's settings are invalid. It never contains a key or an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("models.{name}.{key}: {reason}")]
pub struct ModelSettingsError {
    name: String,
    key: &'static str,
    reason: String,
}

/// Settings that have been checked.
#[derive(Clone)]
pub(crate) struct ModelTarget {
    pub(crate) name: String,
    pub(crate) provider: ModelProvider,
    pub(crate) model: String,
    /// Where the server is, ending in a slash.
    pub(crate) address: SecretString,
    pub(crate) key: Option<SecretString>,
    /// The kinds of files that the operator says it accepts.
    pub(crate) accepts: Option<Vec<MediaKind>>,
    /// Whether the server is not the provider's own.
    pub(crate) is_custom_server: bool,
    /// Whether the connection is encrypted.
    pub(crate) is_encrypted: bool,
    /// Whether the server is on this machine, which no proxy reaches.
    pub(crate) is_local: bool,
}

impl ModelTarget {
    pub(crate) fn new(settings: ModelSettings) -> Result<Self, ModelSettingsError> {
        let ModelSettings { name, provider, base_url, api_key, model, accepts } = settings;
        let settings_error =
            |key, reason: &str| ModelSettingsError { name: name.clone(), key, reason: reason.to_owned() };
        let is_elsewhere = base_url.is_some();
        let key = parse_key(api_key).map_err(|reason| settings_error("api_key", reason))?;
        if key.is_none() && !is_elsewhere && provider != ModelProvider::Ollama {
            return Err(settings_error("api_key", &format!("{} requires an API key", provider.title())));
        }
        let url = match &base_url {
            Some(url) => {
                parse_address(url, provider, key.is_some()).map_err(|reason| settings_error("base_url", reason))?
            }
            None => Url::parse(provider.default_address()).expect("our own addresses are valid"),
        };
        let model = match model {
            Some(model) => parse_model(model).map_err(|reason| settings_error("model", reason))?,
            None if is_elsewhere && provider != ModelProvider::Ollama => {
                return Err(settings_error("model", "must be set, because the server is not the provider's own"));
            }
            None => provider.default_model().to_owned(),
        };
        let is_unsupported = |kind: &&MediaKind| !provider.file_kinds().contains(kind);
        if let Some(kind) = accepts.iter().flatten().find(is_unsupported) {
            return Err(settings_error("accepts", &unsupported_kind_reason(provider, *kind)));
        }
        let is_encrypted = url.scheme() == "https";
        let is_local = is_local(&url);
        let address = SecretString::from(String::from(url));
        Ok(Self {
            name,
            provider,
            model,
            address,
            key,
            accepts,
            is_custom_server: is_elsewhere,
            is_encrypted,
            is_local,
        })
    }

    pub(crate) fn url(&self) -> Url {
        Url::parse(self.address.expose_secret()).expect("the address was checked")
    }

    /// The server's name for people: the provider, or "the server" where another one offers its API.
    pub(crate) fn display_name(&self) -> &'static str {
        match (self.is_custom_server, self.provider) {
            (true, ModelProvider::Ollama) | (false, _) => self.provider.title(),
            (true, _) => "the server",
        }
    }

    /// Whether the model requires its reasoning back as text. DeepSeek and Kimi refuse a conversation with tools
    /// without it (<https://api-docs.deepseek.com/guides/thinking_mode#tool-calls>); other servers refuse it.
    pub(crate) fn needs_reasoning_echo(&self) -> bool {
        let model = self.model.to_lowercase();
        let is_reasoning_model = ["deepseek", "kimi"].iter().any(|family| model.contains(family));
        self.provider == ModelProvider::OpenAi && self.is_custom_server && is_reasoning_model
    }

    /// An error about these settings that appears only when a client is built.
    pub(crate) fn settings_error(&self, key: &'static str, reason: &str) -> ModelSettingsError {
        ModelSettingsError { name: self.name.clone(), key, reason: reason.to_owned() }
    }
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Parses the key: without the line break that a secrets file ends in; `None` for an empty one.
fn parse_key(key: Option<SecretString>) -> Result<Option<SecretString>, &'static str> {
    let Some(key) = key else { return Ok(None) };
    let key = key.expose_secret().trim();
    if key.chars().any(|c| !c.is_ascii_graphic()) {
        return Err("contains spaces or characters that are not allowed in a key");
    }
    Ok((!key.is_empty()).then(|| SecretString::from(key)))
}

fn parse_address(address: &SecretString, provider: ModelProvider, has_key: bool) -> Result<Url, &'static str> {
    let mut url =
        Url::parse(address.expose_secret().trim()).map_err(|_| "must be a URL such as http://127.0.0.1:8000/v1/")?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must start with http:// or https:// and a host");
    }
    if url.fragment().is_some() {
        return Err("must not contain a # part");
    }
    let is_openai_api = matches!(provider, ModelProvider::OpenAi | ModelProvider::OpenAiResponses);
    if url.query().is_some() && !is_openai_api {
        return Err("must not contain a ? part");
    }
    let has_password = !url.username().is_empty() || url.password().is_some();
    if has_password && (has_key || provider != ModelProvider::Ollama) {
        return Err("must not contain a user name or password; set the key as api_key");
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// Parses a model's name, which becomes part of a path. The client would read `::` as a namespace.
fn parse_model(name: String) -> Result<String, &'static str> {
    match is_model_name(&name) {
        true => Ok(name),
        false => Err("must be the name of a model on the server, such as gpt-5.4-mini"),
    }
}

pub(crate) fn is_model_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    let is_valid = !name.is_empty() && name.len() <= 200 && name.chars().all(is_allowed);
    is_valid && !name.contains("::") && !name.split('/').any(|part| part.is_empty() || part.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: &str = "sk-canary-4711";

    fn settings(
        provider: ModelProvider,
        base_url: Option<&str>,
        key: Option<&str>,
        model: Option<&str>,
    ) -> ModelSettings {
        ModelSettings {
            name: "main".into(),
            provider,
            base_url: base_url.map(SecretString::from),
            api_key: key.map(SecretString::from),
            model: model.map(str::to_owned),
            accepts: None,
        }
    }

    fn address(provider: ModelProvider, base_url: Option<&str>) -> String {
        let target = ModelTarget::new(settings(provider, base_url, Some("k"), Some("m"))).unwrap();
        target.address.expose_secret().to_owned()
    }

    #[test]
    fn an_address_ends_in_a_slash() {
        assert_eq!(address(ModelProvider::OpenAi, None), "https://api.openai.com/v1/");
        assert_eq!(address(ModelProvider::OpenAi, Some("http://box:8000/v1")), "http://box:8000/v1/");
        assert_eq!(address(ModelProvider::OpenAi, Some(" http://box/v1?version=2 ")), "http://box/v1/?version=2");
        assert_eq!(address(ModelProvider::Gemini, Some("https://proxy.example")), "https://proxy.example/");
    }

    #[test]
    fn missing_settings_get_defaults_or_are_required() {
        let openai = ModelTarget::new(settings(ModelProvider::OpenAi, None, Some("k\n"), None)).unwrap();
        assert_eq!(openai.model, ModelProvider::OpenAi.default_model());
        assert_eq!(openai.key.unwrap().expose_secret(), "k", "a file of secrets ends in a line break");
        assert!(ModelTarget::new(settings(ModelProvider::Ollama, None, None, None)).is_ok(), "Ollama asks for no key");
        let keyless =
            ModelTarget::new(settings(ModelProvider::OpenAi, Some("http://box/v1"), None, Some("m"))).unwrap();
        assert!(keyless.key.is_none() && keyless.is_custom_server);
    }

    #[test]
    fn local_server_bypasses_proxy() {
        for (address, expected) in [
            ("http://127.0.0.1:8000/v1", true),
            ("http://[::1]:8000/v1", true),
            ("http://localhost/v1", true),
            ("http://192.168.1.5/v1", false),
            ("https://127.0.0.1.example/v1", false),
        ] {
            let target = ModelTarget::new(settings(ModelProvider::OpenAi, Some(address), None, Some("m"))).unwrap();
            assert_eq!(target.is_local, expected, "{address}");
        }
    }

    #[test]
    fn mistakes_are_told_without_their_secrets() {
        let secret_url = format!("http://user:{CANARY}@box/v1");
        let ftp = format!("ftp://box/{CANARY}");
        let query = format!("https://box/?key={CANARY}");
        let spaced = format!("{CANARY} x");
        for (given, key) in [
            (settings(ModelProvider::OpenAi, None, None, None), "api_key"),
            (settings(ModelProvider::Anthropic, None, Some(" \n"), None), "api_key"),
            (settings(ModelProvider::OpenAi, None, Some(&spaced), None), "api_key"),
            (settings(ModelProvider::OpenAi, Some(CANARY), None, Some("m")), "base_url"),
            (settings(ModelProvider::OpenAi, Some(&ftp), None, Some("m")), "base_url"),
            (settings(ModelProvider::OpenAi, Some(&secret_url), None, Some("m")), "base_url"),
            (settings(ModelProvider::Gemini, Some(&query), None, Some("m")), "base_url"),
            (settings(ModelProvider::OpenAi, Some("http://box/#x"), None, Some("m")), "base_url"),
            (settings(ModelProvider::OpenAi, Some("http://box/"), None, None), "model"),
            (settings(ModelProvider::OpenAi, None, Some("k"), Some("a b")), "model"),
            (settings(ModelProvider::Gemini, None, Some("k"), Some("../files")), "model"),
            (settings(ModelProvider::OpenAi, None, Some("k"), Some("groq::x")), "model"),
            (settings(ModelProvider::OpenAi, None, Some("k"), Some("")), "model"),
        ] {
            let shown = format!("{given:?}");
            assert!(!shown.contains(CANARY), "{shown}");
            let error = ModelTarget::new(given).err().expect(&shown).to_string();
            assert!(error.starts_with(&format!("models.main.{key}: ")), "{error}");
            assert!(!error.contains(CANARY), "{error}");
        }
    }
}
