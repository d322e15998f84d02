//! `satchel init`: asks for keys and tokens, tests them, and writes a commented `satchel.yaml`.

mod dialogue;
mod file;

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use satchel_models::RemoteModel;
use secrecy::SecretString;

use self::{
    dialogue::Dialogue,
    file::{InitAnswers, InitModelAnswer, render},
};
use super::UsageError;
use crate::{
    cli::{InitModel, InitOptions},
    config::{
        self, Config, ConfigSources,
        leaf::{address::HttpUrl, secret::Secret},
        models::ModelConfig,
        models::ProviderConfig,
    },
    models::{ModelCandidate, empty_blobs},
    platforms::{self, TokenError},
};

/// How many invalid answers are accepted.
const MAX_ATTEMPTS: usize = 5;

/// What `init` works with.
pub struct InitContext<'a> {
    /// The options of the command line.
    pub options: &'a InitOptions,
    /// The file to write.
    pub path: PathBuf,
    /// The sources of the rest of the configuration.
    pub sources: ConfigSources<'a>,
}

/// Asks the questions and writes the file.
///
/// # Errors
/// When the file exists and may not be replaced, an answer is invalid, or the file can't be written.
pub async fn run(context: &InitContext<'_>, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let InitContext { options, path, sources } = context;
    // The configuration without the file: the environment may name other API servers.
    let base_config = config::load_text(path, "{}", sources)?;
    let mut dialogue = (!options.yes).then(|| Dialogue::with_stdin(out));
    let replace = may_replace(path, options, dialogue.as_mut())?;
    if let Some(dialogue) = &mut dialogue {
        dialogue.print_line(&format!(
            "Satchel will write {}. Press Enter to accept the value in [brackets]. Ctrl-C quits without writing.\n",
            path.display()
        ))?;
    }
    let data_dir = base_config.config().storage.data_dir();
    let answers = InitAnswers {
        // A new `satchel.yaml` changes the default directory, so that existing conversations would seem lost.
        data_dir: data_dir.join("satchel.db").exists().then(|| data_dir.to_owned()),
        model: ask_model(options, sources, dialogue.as_mut()).await?,
        telegram: ask_token(InitPlatform::Telegram, options, base_config.config(), dialogue.as_mut()).await?,
        discord: ask_token(InitPlatform::Discord, options, base_config.config(), dialogue.as_mut()).await?,
    };
    let text = render(&answers);
    config::load_text(path, &text, sources)?.into_config()?;
    write_file(path, &text, replace)?;
    drop(dialogue);
    writeln!(out, "\nwrote {}; only you can read it", path.display())?;
    let loaded = config::load(&ConfigSources { file: Some(path), ..*sources })?;
    writeln!(out, "your data will be stored in {}", loaded.config().storage.data_dir().display())?;
    writeln!(out, "next: `satchel doctor` checks this machine, `satchel run` starts Satchel")?;
    Ok(())
}

/// Whether an existing file may be replaced; an error if it may not.
fn may_replace(path: &Path, options: &InitOptions, dialogue: Option<&mut Dialogue<'_>>) -> anyhow::Result<bool> {
    if path.symlink_metadata().is_err() || options.force {
        return Ok(options.force);
    }
    let display = path.display();
    let Some(dialogue) = dialogue else {
        return Err(UsageError(format!("{display} already exists; use --force to replace it")).into());
    };
    match dialogue.confirm(&format!("{display} already exists. Replace it?"))? {
        true => Ok(true),
        false => bail!("{display} was not changed"),
    }
}

async fn ask_model(
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
    dialogue.print_line(
        "Which model should answer?\n  1  OpenAI\n  2  Anthropic\n  3  Google Gemini\n  4  Ollama, on this machine or another\n  \
         5  another server with an OpenAI-compatible API\n  6  none yet: the offline model, which needs no key",
    )?;
    let default = match likely_model {
        InitModel::Openai | InitModel::OpenaiResponses => "1",
        InitModel::Anthropic => "2",
        InitModel::Gemini => "3",
        InitModel::Ollama => "4",
        InitModel::Offline => "6",
    };
    let (provider, is_custom_server) = match dialogue.prompt("Model", default)?.as_str() {
        "1" => (ProviderConfig::OpenAi, false),
        "2" => (ProviderConfig::Anthropic, false),
        "3" => (ProviderConfig::Gemini, false),
        "4" => (ProviderConfig::Ollama, false),
        "5" => (ProviderConfig::OpenAi, true),
        _ => return Ok(None),
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
    let model_name = match (is_custom_server, found_model.filter(|_| provider == ProviderConfig::Ollama)) {
        (_, Some(found)) => dialogue.prompt("Model name", &found)?,
        (true, None) => dialogue.prompt("Model name", "")?,
        (false, None) => dialogue.prompt("Model name (Enter for the default)", "")?,
    };
    answer.model = (!model_name.is_empty()).then_some(model_name);
    Ok(Some(answer))
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
    let InitModelAnswer { provider, base_url, api_key, model } = answer.clone();
    let from_environment = provider.key_variable().filter(|_| base_url.is_none()).and_then(|variable| {
        let found = sources.environment.iter().find(|(key, _)| key == variable);
        Some(SecretString::from(found?.1.to_str()?))
    });
    let api_key = api_key.or(from_environment);
    let (base_url, api_key) = (base_url.map(HttpUrl), api_key.map(Secret));
    let candidate = ModelCandidate::Remote(ModelConfig {
        name: "main".to_owned(),
        provider,
        base_url,
        api_key,
        model,
        ..ModelConfig::default()
    });
    let settings = candidate.settings().map_err(|error| error.to_string())?;
    let Some(settings) = settings else { return Ok(candidate.title()) };
    let remote = RemoteModel::new(settings, empty_blobs()).map_err(|error| error.to_string())?;
    remote.check().await.map_err(|error| error.owner_message())?;
    Ok(candidate.title())
}

/// A platform with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InitPlatform {
    Telegram,
    Discord,
}

async fn ask_token(
    platform: InitPlatform,
    options: &InitOptions,
    base_config: &Config,
    mut dialogue: Option<&mut Dialogue<'_>>,
) -> anyhow::Result<Option<SecretString>> {
    let (name, given, question) = match platform {
        InitPlatform::Telegram => {
            ("Telegram", &options.telegram_token, "Telegram bot token from @BotFather (not shown; Enter for none)")
        }
        InitPlatform::Discord => (
            "Discord",
            &options.discord_token,
            "Discord bot token from the developer portal (not shown; Enter for none)",
        ),
    };
    let http = platforms::client()?;
    for _ in 0..MAX_ATTEMPTS {
        let token = match (given, dialogue.as_deref_mut()) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(dialogue)) => dialogue.prompt_secret(question)?,
            (None, None) => None,
        };
        let Some(token) = token else { return Ok(None) };
        if options.no_check {
            return Ok(Some(token));
        }
        let result = match platform {
            InitPlatform::Telegram => {
                platforms::identify_telegram_bot(&http, base_config.telegram.api_url.as_deref(), &token).await
            }
            InitPlatform::Discord => {
                platforms::identify_discord_bot(&http, base_config.discord.api_url.as_deref(), &token).await
            }
        };
        match (result, dialogue.as_deref_mut()) {
            (Ok(bot), Some(dialogue)) => {
                dialogue.print_line(&format!("ok: {name} knows it as {bot}\n"))?;
                return Ok(Some(token));
            }
            (Ok(_), None) => return Ok(Some(token)),
            (Err(error), Some(dialogue)) if given.is_none() => {
                dialogue.print_line(&format!("That did not work: {error}"))?;
                // A rejected token is useless; one that could not be verified may be valid.
                if matches!(error, TokenError::Unverified(_)) && dialogue.confirm("Save it anyway?")? {
                    return Ok(Some(token));
                }
            }
            (Err(error), _) => bail!("{name}: {error}; nothing was written"),
        }
    }
    bail!("gave up after {MAX_ATTEMPTS} attempts; nothing was written")
}

/// Writes the file atomically; only its owner can read it at any time.
fn write_file(path: &Path, text: &str, replace: bool) -> anyhow::Result<()> {
    let error_context = || format!("failed to write {}", path.display());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let write_to = |target: &Path| {
        let mut file = options.open(target)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    if !replace {
        return match write_to(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(UsageError(format!("{} was created in the meantime; use --force to replace it", path.display()))
                    .into())
            }
            result => result.with_context(error_context),
        };
    }
    let mut temp_path = path.as_os_str().to_owned();
    temp_path.push(format!(".{}.new", std::process::id()));
    let temp_path = PathBuf::from(temp_path);
    let result = write_to(&temp_path).and_then(|()| fs::rename(&temp_path, path));
    if result.is_err() {
        // It holds secrets; it may not exist.
        let _gone = fs::remove_file(&temp_path);
    }
    result.with_context(error_context)
}
