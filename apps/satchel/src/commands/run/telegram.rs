//! Telegram as the configuration asks for it.

use satchel_intake::commands::MENU;
use satchel_routing::tables;
use satchel_telegram::{BotCommand, TelegramError, TelegramSettings, Webhook};

use crate::config::{Config, delivery::PaceChoice};

/// The settings of the bot; `None` where no token is configured.
pub(super) fn settings(config: &Config) -> Option<TelegramSettings> {
    let telegram = &config.telegram;
    let token = telegram.token.clone()?;
    let mut capabilities = match telegram.local_files {
        Some(_) => tables::telegram_local_server(),
        None => tables::telegram(),
    };
    if config.delivery.pace == PaceChoice::Off {
        capabilities.pace = None;
    }
    let webhook = telegram.webhook.clone().map(|url| Webhook { url, listen: telegram.webhook_listen });
    let command = |(name, description): (&str, &str)| BotCommand { name: name.into(), description: description.into() };
    Some(TelegramSettings {
        token,
        api_url: telegram.api_url.clone(),
        capabilities,
        local_files: telegram.local_files.clone(),
        answers_in: telegram.groups.clone(),
        webhook,
        commands: MENU.map(command).into(),
    })
}

/// What can't be followed is told as what it is: a wrong configuration, or a failure.
pub(super) fn told(error: TelegramError) -> anyhow::Error {
    anyhow::Error::new(error).context("Telegram can't be served (`satchel doctor` says what is wrong)")
}
