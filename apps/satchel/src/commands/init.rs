//! `satchel init`: asks what is needed, tries it out, and writes a commented `satchel.yaml`.

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
    models::{ModelCandidate, no_files},
    platforms::{self, TokenError},
};

/// How often something wrong may be given before it is taken for a mistake of another kind.
const MAX_ATTEMPTS: usize = 5;

/// What `init` works with.
pub struct InitContext<'a> {
    /// What was said on the command line.
    pub options: &'a InitOptions,
    /// The file to write.
    pub path: PathBuf,
    /// What the rest of the configuration would be read from.
    pub sources: ConfigSources<'a>,
}

/// Asks and writes.
///
/// # Errors
/// When the file is there and may not be replaced, something that was given is wrong, or the file can't be written.
pub async fn run(setting: &InitContext<'_>, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let InitContext { options, path, sources } = setting;
    // Only what stands outside the file: where the platforms are.
    let outside = config::load_text(path, "{}", sources)?;
    let mut dialogue = (!options.yes).then(|| Dialogue::with_stdin(out));
    let replaces = may_replace(path, options, dialogue.as_mut())?;
    if let Some(dialogue) = &mut dialogue {
        dialogue.print_line(&format!(
            "Satchel will write {}. Press Enter to accept the value in [brackets]. Ctrl-C quits without writing.\n",
            path.display()
        ))?;
    }
    let data_dir = outside.config().storage.data_dir();
    let answers = InitAnswers {
        // With a `satchel.yaml` beside it another directory would be taken, and what was said would seem lost.
        data_dir: data_dir.join("satchel.db").exists().then(|| data_dir.to_owned()),
        model: model(options, sources, dialogue.as_mut()).await?,
        telegram: token(InitPlatform::Telegram, options, outside.config(), dialogue.as_mut()).await?,
        discord: token(InitPlatform::Discord, options, outside.config(), dialogue.as_mut()).await?,
    };
    let text = render(&answers);
    config::load_text(path, &text, sources)?.ready()?;
    write(path, &text, replaces)?;
    drop(dialogue);
    writeln!(out, "\nwrote {}; only you can read it", path.display())?;
    let loaded = config::load(&ConfigSources { file: Some(path), ..*sources })?;
    writeln!(out, "your data will be stored in {}", loaded.config().storage.data_dir().display())?;
    writeln!(out, "next: `satchel doctor` checks this machine, `satchel run` starts Satchel")?;
    Ok(())
}

/// Whether a file that is there is to be replaced; an error when it is there and must stay.
fn may_replace(path: &Path, options: &InitOptions, dialogue: Option<&mut Dialogue<'_>>) -> anyhow::Result<bool> {
    if path.symlink_metadata().is_err() || options.force {
        return Ok(options.force);
    }
    let shown = path.display();
    let Some(dialogue) = dialogue else {
        return Err(UsageError(format!("{shown} already exists; use --force to replace it")).into());
    };
    match dialogue.confirm(&format!("{shown} already exists. Replace it?"))? {
        true => Ok(true),
        false => bail!("{shown} was not changed"),
    }
}

async fn model(
    options: &InitOptions,
    sources: &ConfigSources<'_>,
    mut dialogue: Option<&mut Dialogue<'_>>,
) -> anyhow::Result<Option<InitModelAnswer>> {
    for _ in 0..MAX_ATTEMPTS {
        let Some(answer) = model_answer(options, sources, dialogue.as_deref_mut()).await? else { return Ok(None) };
        if options.no_check {
            return Ok(Some(answer));
        }
        match (check_model(&answer, sources).await, dialogue.as_deref_mut()) {
            (Ok(title), Some(dialogue)) => {
                dialogue.print_line(&format!("ok: {title} answers\n"))?;
                return Ok(Some(answer));
            }
            (Ok(_), None) => return Ok(Some(answer)),
            (Err(words), None) => bail!("the model can't be used: {words}; use --no-check to save it anyway"),
            (Err(words), Some(dialogue)) => {
                dialogue.print_line(&format!("That did not work: {words}"))?;
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

/// What the options say, or the owner does. `None` is the offline model.
async fn model_answer(
    options: &InitOptions,
    sources: &ConfigSources<'_>,
    dialogue: Option<&mut Dialogue<'_>>,
) -> anyhow::Result<Option<InitModelAnswer>> {
    if let Some(chosen) = options.model {
        let InitOptions { base_url, api_key, model_name: model, .. } = options;
        let (base_url, api_key, model) = (base_url.clone(), api_key.clone(), model.clone());
        return Ok(provider_of(chosen).map(|provider| InitModelAnswer { provider, base_url, api_key, model }));
    }
    let (likely, found) = likely(sources).await;
    let Some(dialogue) = dialogue else {
        let answer = |provider| InitModelAnswer { provider, base_url: None, api_key: None, model: found };
        return Ok(provider_of(likely).map(answer));
    };
    dialogue.print_line(
        "Which model should answer?\n  1  OpenAI\n  2  Anthropic\n  3  Google Gemini\n  4  Ollama, on this machine or another\n  \
         5  another server with an OpenAI-compatible API\n  6  none yet: the offline model, which needs no key",
    )?;
    let default = match likely {
        InitModel::Openai | InitModel::OpenaiResponses => "1",
        InitModel::Anthropic => "2",
        InitModel::Gemini => "3",
        InitModel::Ollama => "4",
        InitModel::Offline => "6",
    };
    let (provider, elsewhere) = match dialogue.prompt("Model", default)?.as_str() {
        "1" => (ProviderConfig::OpenAi, false),
        "2" => (ProviderConfig::Anthropic, false),
        "3" => (ProviderConfig::Gemini, false),
        "4" => (ProviderConfig::Ollama, false),
        "5" => (ProviderConfig::OpenAi, true),
        _ => return Ok(None),
    };
    let mut answer = InitModelAnswer { provider, base_url: None, api_key: None, model: None };
    if elsewhere {
        answer.base_url = Some(SecretString::from(dialogue.prompt("Server address", "http://127.0.0.1:8000/v1/")?));
    } else if provider == ProviderConfig::Ollama {
        let given = dialogue.prompt("Server address", "http://127.0.0.1:11434/")?;
        answer.base_url = (given != "http://127.0.0.1:11434/").then(|| SecretString::from(given));
    }
    answer.api_key = match provider.key_variable() {
        Some(variable) if !elsewhere && has_variable(sources, variable) => {
            dialogue.ask_secret(&format!("API key (not shown; Enter to use {variable} from the environment)"))?
        }
        Some(_) => dialogue.ask_secret("API key (not shown; Enter for none)")?,
        None => None,
    };
    let named = match (elsewhere, found.filter(|_| provider == ProviderConfig::Ollama)) {
        (_, Some(found)) => dialogue.prompt("Model name", &found)?,
        (true, None) => dialogue.prompt("Model name", "")?,
        (false, None) => dialogue.prompt("Model name (Enter for the default)", "")?,
    };
    answer.model = (!named.is_empty()).then_some(named);
    Ok(Some(answer))
}

/// What a start without any configuration would choose, and the name of a model that was found.
async fn likely(sources: &ConfigSources<'_>) -> (InitModel, Option<String>) {
    let keyed = [
        ("OPENAI_API_KEY", InitModel::Openai),
        ("ANTHROPIC_API_KEY", InitModel::Anthropic),
        ("GEMINI_API_KEY", InitModel::Gemini),
    ];
    if let Some((_, model)) = keyed.into_iter().find(|(variable, _)| has_variable(sources, variable)) {
        return (model, None);
    }
    match satchel_models::find_ollama().await {
        Some(found) => (InitModel::Ollama, found.model),
        None => (InitModel::Offline, None),
    }
}

fn provider_of(model: InitModel) -> Option<ProviderConfig> {
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
    let remote = RemoteModel::new(settings, no_files()).map_err(|error| error.to_string())?;
    remote.check().await.map_err(|error| error.for_owner())?;
    Ok(candidate.title())
}

/// A platform whose token is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InitPlatform {
    Telegram,
    Discord,
}

async fn token(
    platform: InitPlatform,
    options: &InitOptions,
    outside: &Config,
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
            (None, Some(dialogue)) => dialogue.ask_secret(question)?,
            (None, None) => None,
        };
        let Some(token) = token else { return Ok(None) };
        if options.no_check {
            return Ok(Some(token));
        }
        let checked = match platform {
            InitPlatform::Telegram => platforms::telegram_bot(&http, outside.telegram.api_url.as_deref(), &token).await,
            InitPlatform::Discord => platforms::discord_bot(&http, outside.discord.api_url.as_deref(), &token).await,
        };
        match (checked, dialogue.as_deref_mut()) {
            (Ok(bot), Some(dialogue)) => {
                dialogue.print_line(&format!("ok: {name} knows it as {bot}\n"))?;
                return Ok(Some(token));
            }
            (Ok(_), None) => return Ok(Some(token)),
            (Err(error), Some(dialogue)) if given.is_none() => {
                dialogue.print_line(&format!("That did not work: {error}"))?;
                // A wrong token helps nobody; one that could not be tried may be right.
                if matches!(error, TokenError::Unverified(_)) && dialogue.confirm("Save it anyway?")? {
                    return Ok(Some(token));
                }
            }
            (Err(error), _) => bail!("{name}: {error}; nothing was written"),
        }
    }
    bail!("gave up after {MAX_ATTEMPTS} attempts; nothing was written")
}

/// Writes the file so that only its owner can read it, at no moment anybody else, and never half of it.
fn write(path: &Path, text: &str, replaces: bool) -> anyhow::Result<()> {
    let failed = || format!("failed to write {}", path.display());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = |at: &Path| {
        let mut file = options.open(at)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    if !replaces {
        return match written(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(UsageError(format!("{} was created in the meantime; use --force to replace it", path.display()))
                    .into())
            }
            ended => ended.with_context(failed),
        };
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let replaced = written(&beside).and_then(|()| fs::rename(&beside, path));
    if replaced.is_err() {
        // It holds secrets; that it may not be there is no further mistake.
        let _gone = fs::remove_file(&beside);
    }
    replaced.with_context(failed)
}
