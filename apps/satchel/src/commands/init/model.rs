//! Which model answers: the question, the tries, and what a server of one's own has to offer.

use anyhow::bail;
use satchel_models::{RemoteModel, list_models};
use secrecy::SecretString;

use super::{MAX_ATTEMPTS, dialogue::Dialogue, file::InitModelAnswer};
use crate::{
    cli::{InitModel, InitOptions},
    config::{
        ConfigSources,
        leaf::{address::HttpUrl, secret::Secret},
        models::{ModelConfig, ProviderConfig},
        suggestions::nearest_name,
    },
    models::{ModelCandidate, empty_blobs},
};

/// How many models of a server are shown.
const MAX_LISTED_MODELS: usize = 30;

/// What may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InitChoice {
    Provider(ProviderConfig),
    OwnServer,
    Offline,
}

/// The choices in the order of their numbers, from 1, each with the names that people type. The first is suggested.
const CHOICES: [(InitChoice, &str, &[&str]); 6] = [
    (InitChoice::Provider(ProviderConfig::OpenAi), "OpenAI", &["openai", "chatgpt", "gpt"]),
    (InitChoice::Provider(ProviderConfig::Anthropic), "Anthropic", &["anthropic", "claude"]),
    (InitChoice::Provider(ProviderConfig::Gemini), "Google Gemini", &["gemini", "google"]),
    (InitChoice::Provider(ProviderConfig::Ollama), "Ollama, on this machine or another", &["ollama"]),
    (InitChoice::OwnServer, "another server with an OpenAI-compatible API", &["server", "another", "other"]),
    (InitChoice::Offline, "none yet: the offline model, which needs no key", &["offline", "none"]),
];

/// Asks until a model answers, or is to be saved anyway. `None` is the offline model.
pub(super) async fn ask_model(
    options: &InitOptions,
    sources: &ConfigSources<'_>,
    mut dialogue: Option<&mut Dialogue<'_>>,
) -> anyhow::Result<Option<InitModelAnswer>> {
    for _ in 0..MAX_ATTEMPTS {
        let Some(answer) = read_model_answer(options, sources, dialogue.as_deref_mut()).await? else { return Ok(None) };
        if options.no_check {
            return Ok(Some(answer));
        }
        match (check_model(&answer, sources).await, dialogue.as_deref_mut()) {
            (Ok(title), Some(dialogue)) => {
                dialogue.print_line(&format!("ok: {title} answers\n"))?;
                return Ok(Some(answer));
            }
            (Ok(_), None) => return Ok(Some(answer)),
            (Err(reason), None) => bail!("the model can't be used: {reason}; use --no-check to save it anyway"),
            (Err(reason), Some(dialogue)) => {
                dialogue.print_line(&format!("That did not work: {reason}"))?;
                if options.model.is_some() {
                    bail!("nothing was written; use --no-check to save it anyway");
                }
                if dialogue.confirm("Save it anyway?")? {
                    return Ok(Some(answer));
                }
            }
        }
    }
    bail!("gave up after {MAX_ATTEMPTS} attempts; nothing was written")
}

/// Reads the model from the options or the dialogue. `None` is the offline model.
async fn read_model_answer(
    options: &InitOptions,
    sources: &ConfigSources<'_>,
    dialogue: Option<&mut Dialogue<'_>>,
) -> anyhow::Result<Option<InitModelAnswer>> {
    if let Some(chosen) = options.model {
        let InitOptions { base_url, api_key, model_name: model, .. } = options;
        let (base_url, api_key, model) = (base_url.clone(), api_key.clone(), model.clone());
        return Ok(provider_config(chosen).map(|provider| InitModelAnswer { provider, base_url, api_key, model }));
    }
    let (likely_model, found_model) = detect_model(sources).await;
    let Some(dialogue) = dialogue else {
        let answer = |provider| InitModelAnswer { provider, base_url: None, api_key: None, model: found_model };
        return Ok(provider_config(likely_model).map(answer));
    };
    let (provider, is_custom_server) = match ask_choice(likely_model, dialogue)? {
        InitChoice::Provider(provider) => (provider, false),
        InitChoice::OwnServer => (ProviderConfig::OpenAi, true),
        InitChoice::Offline => return Ok(None),
    };
    let mut answer = InitModelAnswer { provider, base_url: None, api_key: None, model: None };
    if is_custom_server {
        answer.base_url = Some(SecretString::from(dialogue.prompt("Server address", "http://127.0.0.1:8000/v1/")?));
    } else if provider == ProviderConfig::Ollama {
        let given = dialogue.prompt("Server address", "http://127.0.0.1:11434/")?;
        answer.base_url = (given != "http://127.0.0.1:11434/").then(|| SecretString::from(given));
    }
    answer.api_key = match provider.key_variable() {
        Some(variable) if !is_custom_server && has_variable(sources, variable) => {
            dialogue.prompt_secret(&format!("API key (not shown; Enter to use {variable} from the environment)"))?
        }
        Some(_) => dialogue.prompt_secret("API key (not shown; Enter for none)")?,
        None => None,
    };
    let is_own_server = is_custom_server || provider == ProviderConfig::Ollama;
    let listed = match is_own_server && !options.no_check {
        true => list_server_models(&answer, sources, dialogue).await?,
        false => Vec::new(),
    };
    let model_name = match (listed.is_empty(), found_model.filter(|_| provider == ProviderConfig::Ollama)) {
        (false, _) => ask_listed_model(&listed, dialogue)?,
        (true, Some(found)) => dialogue.prompt("Model name", &found)?,
        (true, None) if is_custom_server => dialogue.prompt("Model name", "")?,
        (true, None) => dialogue.prompt("Model name (Enter for the default)", "")?,
    };
    answer.model = (!model_name.is_empty()).then_some(model_name);
    Ok(Some(answer))
}

/// Asks what answers, until the answer is one of the choices.
fn ask_choice(likely_model: InitModel, dialogue: &mut Dialogue<'_>) -> anyhow::Result<InitChoice> {
    dialogue.print_line("Which model should answer?")?;
    for (number, (_, title, _)) in (1..).zip(CHOICES) {
        dialogue.print_line(&format!("  {number}  {title}"))?;
    }
    let likely_choice = match provider_config(likely_model) {
        Some(ProviderConfig::OpenAiResponses) => InitChoice::Provider(ProviderConfig::OpenAi),
        Some(provider) => InitChoice::Provider(provider),
        None => InitChoice::Offline,
    };
    let default = (1..).zip(CHOICES).find(|(_, (choice, ..))| *choice == likely_choice);
    let default = default.map_or_else(String::new, |(number, _): (usize, _)| number.to_string());
    for _ in 0..MAX_ATTEMPTS {
        match parse_choice(&dialogue.prompt("Model", &default)?) {
            Ok(choice) => return Ok(choice),
            Err(reason) => dialogue.print_line(&reason)?,
        }
    }
    bail!("gave up after {MAX_ATTEMPTS} attempts; nothing was written")
}

/// Reads a choice by its number or a name. The error says what to answer instead.
fn parse_choice(answer: &str) -> Result<InitChoice, String> {
    let answer = answer.to_lowercase();
    let number = answer.parse::<usize>().ok();
    let is_chosen = |position: usize, names: &[&str]| number == Some(position) || names.contains(&answer.as_str());
    let chosen = (1..).zip(CHOICES).find(|(position, (_, _, names))| is_chosen(*position, names));
    if let Some((_, (choice, ..))) = chosen {
        return Ok(choice);
    }
    let names: Vec<&str> = CHOICES.iter().flat_map(|(_, _, names)| names.iter().copied()).collect();
    let suggestion = match nearest_name(&answer, &names) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => {
            let first: Vec<&str> = CHOICES.iter().map(|(_, _, names)| names[0]).collect();
            format!("the names are {}.", first.join(", "))
        }
    };
    Err(format!(
        "{} is none of these: {suggestion} Answer with a number from 1 to {}, or a name.",
        quote(&answer),
        CHOICES.len()
    ))
}

/// An answer as it may be shown again.
fn quote(answer: &str) -> String {
    let safe: String = answer.chars().filter(|c| !satchel_domain::filename::is_unsafe_char(*c)).take(60).collect();
    format!("`{safe}`")
}

/// The models that a server lists; none if it lists none, which the dialogue then says.
async fn list_server_models(
    answer: &InitModelAnswer,
    sources: &ConfigSources<'_>,
    dialogue: &mut Dialogue<'_>,
) -> anyhow::Result<Vec<String>> {
    let listed = match candidate(answer, sources).settings() {
        Ok(Some(settings)) => list_models(settings).await.map_err(|error| error.to_string()),
        Ok(None) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(reason) = &listed {
        dialogue.print_line(&format!("The server lists no models: {reason}"))?;
    }
    Ok(listed.unwrap_or_default())
}

/// Asks for one of the models that a server lists, by its number or its name.
fn ask_listed_model(listed: &[String], dialogue: &mut Dialogue<'_>) -> anyhow::Result<String> {
    dialogue.print_line("The server has these models:")?;
    for (number, name) in (1..).zip(listed).take(MAX_LISTED_MODELS) {
        dialogue.print_line(&format!("  {number:>2}  {name}"))?;
    }
    if listed.len() > MAX_LISTED_MODELS {
        dialogue.print_line(&format!("  and {} more, which you can name", listed.len() - MAX_LISTED_MODELS))?;
    }
    for _ in 0..MAX_ATTEMPTS {
        let answer = dialogue.prompt("Model, by number or name", "1")?;
        let by_number = answer.parse::<usize>().ok().and_then(|number| listed.get(number.checked_sub(1)?));
        if let Some(name) = by_number.or_else(|| listed.iter().find(|name| **name == answer)) {
            return Ok(name.clone());
        }
        let names: Vec<&str> = listed.iter().map(String::as_str).collect();
        let suggestion =
            nearest_name(&answer, &names).map_or_else(String::new, |name| format!(": did you mean `{name}`?"));
        dialogue.print_line(&format!("The server lists no model {}{suggestion}", quote(&answer)))?;
        // It may have models that it loads when they are asked for.
        if dialogue.confirm("Use it anyway?")? {
            return Ok(answer);
        }
    }
    bail!("gave up after {MAX_ATTEMPTS} attempts; nothing was written")
}

/// The model that a start without configuration would select, and the name of a detected one.
async fn detect_model(sources: &ConfigSources<'_>) -> (InitModel, Option<String>) {
    let key_variables = [
        ("OPENAI_API_KEY", InitModel::Openai),
        ("ANTHROPIC_API_KEY", InitModel::Anthropic),
        ("GEMINI_API_KEY", InitModel::Gemini),
    ];
    if let Some((_, model)) = key_variables.into_iter().find(|(variable, _)| has_variable(sources, variable)) {
        return (model, None);
    }
    match satchel_models::find_ollama().await {
        Some(found) => (InitModel::Ollama, found.model),
        None => (InitModel::Offline, None),
    }
}

fn provider_config(model: InitModel) -> Option<ProviderConfig> {
    match model {
        InitModel::Openai => Some(ProviderConfig::OpenAi),
        InitModel::OpenaiResponses => Some(ProviderConfig::OpenAiResponses),
        InitModel::Anthropic => Some(ProviderConfig::Anthropic),
        InitModel::Gemini => Some(ProviderConfig::Gemini),
        InitModel::Ollama => Some(ProviderConfig::Ollama),
        InitModel::Offline => None,
    }
}

fn has_variable(sources: &ConfigSources<'_>, name: &str) -> bool {
    sources.environment.iter().any(|(key, value)| key == name && !value.is_empty())
}

async fn check_model(answer: &InitModelAnswer, sources: &ConfigSources<'_>) -> Result<String, String> {
    let candidate = candidate(answer, sources);
    let settings = candidate.settings().map_err(|error| error.to_string())?;
    let Some(settings) = settings else { return Ok(candidate.title()) };
    let remote = RemoteModel::new(settings, empty_blobs()).map_err(|error| error.to_string())?;
    remote.check().await.map_err(|error| error.owner_message())?;
    Ok(candidate.title())
}

/// The model of an answer, with the key that the environment has for it.
fn candidate(answer: &InitModelAnswer, sources: &ConfigSources<'_>) -> ModelCandidate {
    let InitModelAnswer { provider, base_url, api_key, model } = answer.clone();
    let from_environment = provider.key_variable().filter(|_| base_url.is_none()).and_then(|variable| {
        let found = sources.environment.iter().find(|(key, _)| key == variable);
        Some(SecretString::from(found?.1.to_str()?))
    });
    let api_key = api_key.or(from_environment);
    let (base_url, api_key) = (base_url.map(HttpUrl), api_key.map(Secret));
    ModelCandidate::Remote(ModelConfig {
        name: "main".to_owned(),
        provider,
        base_url,
        api_key,
        model,
        ..ModelConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_is_a_number_or_a_name() {
        for (answer, expected) in [
            ("1", InitChoice::Provider(ProviderConfig::OpenAi)),
            ("openai", InitChoice::Provider(ProviderConfig::OpenAi)),
            ("Claude", InitChoice::Provider(ProviderConfig::Anthropic)),
            ("4", InitChoice::Provider(ProviderConfig::Ollama)),
            ("server", InitChoice::OwnServer),
            ("none", InitChoice::Offline),
            ("6", InitChoice::Offline),
        ] {
            assert_eq!(parse_choice(answer), Ok(expected), "{answer}");
        }
    }

    #[test]
    fn unknown_word_is_no_choice_and_the_nearest_is_named() {
        for (answer, expected) in [
            ("opnai", "did you mean `openai`?"),
            ("Antropic", "did you mean `anthropic`?"),
            ("olama", "did you mean `ollama`?"),
            ("off", "did you mean `offline`?"),
            ("banana", "the names are openai, anthropic, gemini, ollama, server, offline"),
            ("7", "from 1 to 6"),
            ("0", "from 1 to 6"),
            ("", "from 1 to 6"),
        ] {
            let reason = parse_choice(answer).unwrap_err();
            assert!(reason.contains(expected), "{answer}: {reason}");
        }
    }
}
