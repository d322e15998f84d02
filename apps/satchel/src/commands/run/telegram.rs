//! Opens Telegram with the configured settings.

use std::sync::Arc;

use satchel_ports::Blobs;
use satchel_telegram::{
    BotCommand, LookupSettings, TelegramChannel, TelegramError, TelegramListener, TelegramSettings, WebhookSettings,
};

use super::platforms::{HostedPlatform, bot_token};
use crate::{
    commands::UsageError,
    config::{LoadedConfig, delivery::RateLimitMode},
};

/// The context of all setup errors.
const SETUP_FAILED_TEXT: &str = "failed to start Telegram (`satchel doctor` shows what is wrong)";

/// Opens the platform; `None` without a token. The menu's commands are registered with it.
pub(super) fn open_channel(
    loaded: &LoadedConfig,
    blobs: &Arc<dyn Blobs>,
    menu: &[(&str, &str)],
) -> anyhow::Result<Option<HostedPlatform>> {
    let Some(settings) = settings(loaded, menu) else { return Ok(None) };
    let channel = Arc::new(TelegramChannel::new(&settings, Arc::clone(blobs)).map_err(setup_error)?);
    let listener = TelegramListener::new(settings, Arc::clone(&channel));
    Ok(Some(HostedPlatform {
        channel,
        listen: Box::new(move |inbound, stop| {
            let listener = listener.clone();
            Box::pin(async move { listener.run(inbound, stop).await.map_err(setup_error) })
        }),
    }))
}

/// A malformed token and an invalid address are usage errors; any other error is a failure.
fn setup_error(error: TelegramError) -> anyhow::Error {
    let error = match error {
        TelegramError::Token | TelegramError::Address => UsageError(error.to_string()).into(),
        error => anyhow::Error::new(error),
    };
    error.context(SETUP_FAILED_TEXT)
}

fn settings(loaded: &LoadedConfig, menu: &[(&str, &str)]) -> Option<TelegramSettings> {
    let config = loaded.config();
    let telegram = &config.telegram;
    let token = bot_token(loaded, "telegram.token", telegram.token.as_ref()?);
    let mut capabilities = telegram.limits();
    if config.delivery.pace == RateLimitMode::Off {
        capabilities.rate_limits = None;
    }
    let webhook = telegram.webhook.clone().map(|url| WebhookSettings {
        url: url.0,
        listen: telegram.webhook_listen(),
        trusted_proxies: config.web.trusted_proxies(),
    });
    let command =
        |&(name, description): &(&str, &str)| BotCommand { name: name.into(), description: description.into() };
    Some(TelegramSettings {
        token,
        api_url: telegram.api_url.clone().map(|url| url.0),
        capabilities,
        local_files: telegram.local_files.clone().map(|directory| directory.0),
        answers_in: telegram.groups.0.clone(),
        webhook,
        commands: menu.iter().map(command).collect(),
        look_up: LookupSettings::default(),
    })
}
