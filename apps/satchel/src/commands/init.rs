//! `satchel init`: asks for keys and tokens, tests them, and writes a commented `satchel.yaml`.

mod dialogue;
mod file;
mod model;
mod owner;

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use secrecy::SecretString;

use self::{
    dialogue::Dialogue,
    file::{InitAnswers, render},
    model::ask_model,
    owner::learn_owner,
};
use super::UsageError;
use crate::{
    cli::InitOptions,
    config::{self, Config, ConfigSources},
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
    let model = ask_model(options, sources, dialogue.as_mut()).await?;
    let telegram = ask_token(InitPlatform::Telegram, options, base_config.config(), dialogue.as_mut()).await?;
    let discord = ask_token(InitPlatform::Discord, options, base_config.config(), dialogue.as_mut()).await?;
    let telegram_owner = match (&telegram, dialogue.as_mut()) {
        (Some(InitToken { token, bot: Some(bot) }), Some(dialogue)) => {
            learn_owner(base_config.config(), token, bot, dialogue).await?
        }
        _ => None,
    };
    let answers = InitAnswers {
        // A new `satchel.yaml` changes the default directory, so that existing conversations would seem lost.
        data_dir: data_dir.join("satchel.db").exists().then(|| data_dir.to_owned()),
        model,
        telegram: telegram.map(|telegram| telegram.token),
        telegram_owner,
        discord: discord.map(|discord| discord.token),
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

/// A platform with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InitPlatform {
    Telegram,
    Discord,
}

/// A token of a platform.
struct InitToken {
    token: SecretString,
    /// The bot that it belongs to; `None` if it was not checked.
    bot: Option<String>,
}

async fn ask_token(
    platform: InitPlatform,
    options: &InitOptions,
    base_config: &Config,
    mut dialogue: Option<&mut Dialogue<'_>>,
) -> anyhow::Result<Option<InitToken>> {
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
            return Ok(Some(InitToken { token, bot: None }));
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
                return Ok(Some(InitToken { token, bot: Some(bot) }));
            }
            (Ok(bot), None) => return Ok(Some(InitToken { token, bot: Some(bot) })),
            (Err(error), Some(dialogue)) if given.is_none() => {
                dialogue.print_line(&format!("That did not work: {error}"))?;
                // A rejected token is useless; one that could not be verified may be valid.
                if matches!(error, TokenError::Unverified(_)) && dialogue.confirm("Save it anyway?")? {
                    return Ok(Some(InitToken { token, bot: None }));
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
