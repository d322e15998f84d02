//! Telegram as the configuration asks for it.

use std::sync::Arc;

use satchel_ports::Blobs;
use satchel_telegram::{
    BotCommand, LookupSettings, TelegramChannel, TelegramError, TelegramListener, TelegramSettings, WebhookSettings,
};

use super::HostedPlatform;
use crate::{
    commands::UsageError,
    config::{Config, delivery::RateLimitMode},
};

/// What all that goes wrong here comes to.
const NOT_SERVED: &str = "failed to start Telegram (`satchel doctor` shows what is wrong)";

/// The platform; `None` where no token is configured. The menu's commands are offered while a person types.
pub(super) fn open(
    config: &Config,
    blobs: &Arc<dyn Blobs>,
    menu: &[(&str, &str)],
) -> anyhow::Result<Option<HostedPlatform>> {
    let Some(settings) = settings(config, menu) else { return Ok(None) };
    let channel = Arc::new(TelegramChannel::new(&settings, Arc::clone(blobs)).map_err(setup_error)?);
    let listener = TelegramListener::new(settings, Arc::clone(&channel));
    Ok(Some(HostedPlatform {
        channel,
        listen: Box::new(|inbound, stop| {
            Box::pin(async move { listener.run(inbound, stop).await.map_err(setup_error) })
        }),
    }))
}

/// A token that is none, or nobody's, is a wrong configuration, as is an address; whatever else goes wrong is a failure.
fn setup_error(error: TelegramError) -> anyhow::Error {
    let error = match error {
        TelegramError::Token | TelegramError::UnknownToken | TelegramError::Address => {
            UsageError(error.to_string()).into()
        }
        error => anyhow::Error::new(error),
    };
    error.context(NOT_SERVED)
}

fn settings(config: &Config, menu: &[(&str, &str)]) -> Option<TelegramSettings> {
    let telegram = &config.telegram;
    let token = telegram.token.clone()?.0;
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
