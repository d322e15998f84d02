//! The adapter between the product and the fake platform: the small one that imitates any platform, or the real one.

use std::{sync::Arc, time::Duration};

use satchel_discord::{DiscordChannel, DiscordListener, DiscordSettings};
use satchel_domain::{ChannelCapabilities, ChannelName};
use satchel_fakes::{FakeChannel, FakeDiscord, FakeMode, Timeouts, telegram::FakeTelegram};
use satchel_ports::{Blobs, Channel, Fetcher, Inbound};
use satchel_telegram::{HttpTimeouts, LookupSettings, TelegramChannel, TelegramListener, TelegramSettings};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Through which adapter the platform is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Front {
    /// A small one, to a platform that imitates this one.
    Imitated(FakeMode),
    /// Telegram's own, to a Bot API server.
    Telegram,
    /// Discord's own, to a server that speaks its REST API and its gateway.
    Discord,
}

/// How long an adapter waits for a platform that says nothing.
#[derive(Debug, Clone, Copy)]
pub struct Waits {
    pub connect: Duration,
    /// For an answer, and for progress.
    pub answer: Duration,
}

/// The waits of a look-up in a test: as the product's, hundreds of times shorter.
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
pub enum Open {
    Imitated(Arc<FakeChannel>),
    Telegram {
        channel: Arc<TelegramChannel>,
        /// What its way in is made of.
        settings: Box<TelegramSettings>,
    },
    Discord {
        channel: Arc<DiscordChannel>,
        /// What its way in is made of.
        settings: Box<DiscordSettings>,
    },
}

impl Open {
    /// Opens the adapter of a channel to a platform at this address.
    ///
    /// # Errors
    /// When HTTP can't be spoken.
    pub fn front(
        front: Front,
        channel: ChannelName,
        address: &str,
        capabilities: ChannelCapabilities,
        blobs: Arc<dyn Blobs>,
        fetcher: Arc<dyn Fetcher>,
        Waits { connect, answer }: Waits,
    ) -> anyhow::Result<Self> {
        match front {
            Front::Imitated(mode) => {
                let waits = Timeouts { connect, answer, ..Timeouts::short() };
                let channel = FakeChannel::new(channel, address.to_owned(), mode, capabilities, blobs, waits);
                Ok(Self::Imitated(Arc::new(channel)))
            }
            Front::Telegram => {
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
                let timeouts = HttpTimeouts { connect, answer, silence: answer };
                let channel = Arc::new(TelegramChannel::with_timeouts(&settings, blobs, timeouts)?);
                Ok(Self::Telegram { channel, settings: Box::new(settings) })
            }
            Front::Discord => {
                let settings = DiscordSettings {
                    token: FakeDiscord::TOKEN.into(),
                    api_url: Some(address.into()),
                    capabilities,
                    answers_in: vec!["*".to_owned()],
                    commands: Vec::new(),
                };
                let timeouts = HttpTimeouts { connect, answer, silence: answer };
                let channel = DiscordChannel::with_timeouts(&settings, blobs, fetcher, timeouts)?;
                Ok(Self::Discord { channel: Arc::new(channel), settings: Box::new(settings) })
            }
        }
    }

    #[must_use]
    pub fn channel(&self) -> Arc<dyn Channel> {
        match self {
            Self::Imitated(channel) => Arc::clone(channel) as _,
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
            Self::Imitated(channel) => channel.listen(inbound, stop).await,
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
