//! The adapter between the product and a fake platform: the real one of Telegram or Discord, with short waits.

use std::{sync::Arc, time::Duration};

use satchel_discord::{DiscordChannel, DiscordListener, DiscordSettings};
use satchel_domain::ChannelCapabilities;
use satchel_fake_discord::FakeDiscord;
use satchel_fake_telegram::FakeTelegram;
use satchel_ports::{Blobs, Channel, Fetcher, Inbound};
use satchel_telegram::{HttpTimeouts, LookupSettings, TelegramChannel, TelegramListener, TelegramSettings};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Through which adapter the platform is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelAdapter {
    /// To a Bot API server.
    Telegram,
    /// To a server that speaks Discord's REST API and its gateway.
    Discord,
}

/// How long an adapter waits for a platform that does not respond.
#[derive(Debug, Clone, Copy)]
pub struct AdapterTimeouts {
    pub connect: Duration,
    /// For a response, and for progress.
    pub response: Duration,
}

/// The product's look-up delays, shortened a few hundred times.
fn quick_look_up() -> LookupSettings {
    LookupSettings {
        delay: Duration::from_millis(60),
        delay_per_megabyte: Duration::from_millis(10),
        second_pass_delay: Duration::from_millis(120),
        interval: Duration::from_millis(1),
        ..LookupSettings::default()
    }
}

/// An adapter, open in both directions.
pub enum OpenChannel {
    Telegram {
        channel: Arc<TelegramChannel>,
        /// What its listener is made of.
        settings: Box<TelegramSettings>,
    },
    Discord {
        channel: Arc<DiscordChannel>,
        /// What its listener is made of.
        settings: Box<DiscordSettings>,
    },
}

impl OpenChannel {
    /// Opens the adapter to a platform at this address.
    ///
    /// # Errors
    /// When HTTP can't be spoken.
    pub fn new(
        adapter: ChannelAdapter,
        address: &str,
        capabilities: ChannelCapabilities,
        blobs: Arc<dyn Blobs>,
        fetcher: Arc<dyn Fetcher>,
        AdapterTimeouts { connect, response }: AdapterTimeouts,
    ) -> anyhow::Result<Self> {
        match adapter {
            ChannelAdapter::Telegram => {
                let settings = TelegramSettings {
                    token: FakeTelegram::TOKEN.into(),
                    api_url: Some(address.into()),
                    capabilities,
                    local_files: None,
                    answers_in: Vec::new(),
                    webhook: None,
                    commands: Vec::new(),
                    look_up: quick_look_up(),
                };
                let timeouts = HttpTimeouts { connect, response, idle: response };
                let channel = Arc::new(TelegramChannel::with_timeouts(&settings, blobs, timeouts)?);
                Ok(Self::Telegram { channel, settings: Box::new(settings) })
            }
            ChannelAdapter::Discord => {
                let settings = DiscordSettings {
                    token: FakeDiscord::TOKEN.into(),
                    api_url: Some(address.into()),
                    capabilities,
                    answers_in: vec!["*".to_owned()],
                    needs_parents: false,
                    commands: Vec::new(),
                };
                let timeouts = HttpTimeouts { connect, response, idle: response };
                let channel = DiscordChannel::with_timeouts(&settings, blobs, fetcher, timeouts)?;
                Ok(Self::Discord { channel: Arc::new(channel), settings: Box::new(settings) })
            }
        }
    }

    #[must_use]
    pub fn channel(&self) -> Arc<dyn Channel> {
        match self {
            Self::Telegram { channel, .. } => Arc::clone(channel) as _,
            Self::Discord { channel, .. } => Arc::clone(channel) as _,
        }
    }

    /// Takes in what people write until `stop`.
    ///
    /// # Errors
    /// When the platform does not know its bot.
    pub async fn listen(self, inbound: Arc<dyn Inbound>, stop: CancellationToken) -> anyhow::Result<()> {
        match self {
            Self::Telegram { channel, settings } => {
                TelegramListener::new(*settings, channel).run(inbound, stop).await?;
            }
            Self::Discord { channel, settings } => {
                DiscordListener::new(*settings, channel).run(inbound, stop).await?;
            }
        }
        Ok(())
    }
}
