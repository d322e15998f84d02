//! Opens Discord with the configured settings.

use std::sync::Arc;

use satchel_discord::{DiscordChannel, DiscordError, DiscordListener, DiscordSettings, SlashCommand};
use satchel_domain::task::TASK_COMMAND;
use satchel_intake::commands::AGENT_COMMAND;
use satchel_ports::{Blobs, Fetcher};

use super::platforms::{HostedPlatform, bot_token};
use crate::{
    commands::UsageError,
    config::{LoadedConfig, delivery::RateLimitMode},
};

/// The context of all setup errors.
const SETUP_FAILED_TEXT: &str = "failed to start Discord (`satchel doctor` shows what is wrong)";

/// The names that commands are completed with.
pub(super) struct CommandNames {
    pub(super) agents: Vec<String>,
    pub(super) tasks: Vec<String>,
}

/// Opens the platform; `None` without a token. The menu's commands are registered with it, and the names of agents and
/// tasks as choices.
pub(super) fn open_channel(
    loaded: &LoadedConfig,
    blobs: &Arc<dyn Blobs>,
    fetcher: &Arc<dyn Fetcher>,
    menu: &[(&str, &str)],
    names: &CommandNames,
) -> anyhow::Result<Option<HostedPlatform>> {
    let Some(settings) = settings(loaded, menu, names) else { return Ok(None) };
    let channel = DiscordChannel::new(&settings, Arc::clone(blobs), Arc::clone(fetcher)).map_err(setup_error)?;
    let channel = Arc::new(channel);
    let listener = DiscordListener::new(settings, Arc::clone(&channel));
    Ok(Some(HostedPlatform {
        channel,
        listen: Box::new(move |inbound, stop| {
            let listener = listener.clone();
            Box::pin(async move { listener.run(inbound, stop).await.map_err(setup_error) })
        }),
    }))
}

/// A malformed token and an invalid address are usage errors; any other error is a failure.
fn setup_error(error: DiscordError) -> anyhow::Error {
    let error = match error {
        DiscordError::Token | DiscordError::Address => UsageError(error.to_string()).into(),
        error => anyhow::Error::new(error),
    };
    error.context(SETUP_FAILED_TEXT)
}

fn settings(loaded: &LoadedConfig, menu: &[(&str, &str)], names: &CommandNames) -> Option<DiscordSettings> {
    let config = loaded.config();
    let discord = &config.discord;
    let token = bot_token(loaded, "discord.token", discord.token.as_ref()?);
    let mut capabilities = config.discord.limits();
    if config.delivery.pace == RateLimitMode::Off {
        capabilities.rate_limits = None;
    }
    let command = |&(name, description): &(&str, &str)| SlashCommand {
        name: name.into(),
        description: description.into(),
        choices: match name {
            AGENT_COMMAND => names.agents.clone(),
            TASK_COMMAND => names.tasks.clone(),
            _ => Vec::new(),
        },
        takes_input: name == TASK_COMMAND,
    };
    Some(DiscordSettings {
        token,
        api_url: discord.api_url.clone().map(|url| url.0),
        capabilities,
        answers_in: discord.channels.0.clone(),
        needs_parents: !config.discord.locked_chats().is_empty(),
        commands: menu.iter().map(command).collect(),
    })
}
