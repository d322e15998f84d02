//! The adapter between the product and the fake platform: the small one that imitates any platform, or the real one.

use std::sync::Arc;

use satchel_fakes::{FakeChannel, FakeMode, Timeouts, telegram::FakeTelegram};
use satchel_ports::{Blobs, Channel, Inbound};
use satchel_telegram::{TelegramChannel, TelegramListener, TelegramSettings};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::CrashOptions;

/// Through which adapter the platform is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Front {
    /// A small one, to a platform that imitates this one.
    Imitated(FakeMode),
    /// Telegram's own, to a Bot API server.
    Telegram,
}

/// An adapter, open in both directions.
pub(crate) enum Open {
    Imitated(Arc<FakeChannel>),
    Telegram { channel: Arc<TelegramChannel>, settings: TelegramSettings },
}

impl Open {
    pub(crate) fn front(options: &CrashOptions, blobs: Arc<dyn Blobs>) -> anyhow::Result<Self> {
        match options.front {
            Front::Imitated(mode) => {
                let name = options.conversation.channel().clone();
                let waits = Timeouts { answer: std::time::Duration::from_secs(2), ..Timeouts::short() };
                let (platform, capabilities) = (options.platform.clone(), options.capabilities.clone());
                Ok(Self::Imitated(Arc::new(FakeChannel::new(name, platform, mode, capabilities, blobs, waits))))
            }
            Front::Telegram => {
                let settings = TelegramSettings {
                    token: FakeTelegram::TOKEN.into(),
                    api_url: Some(options.platform.as_str().into()),
                    capabilities: options.capabilities.clone(),
                    local_files: None,
                    answers_in: Vec::new(),
                    webhook: None,
                    commands: Vec::new(),
                };
                Ok(Self::Telegram { channel: Arc::new(TelegramChannel::new(&settings, blobs)?), settings })
            }
        }
    }

    pub(crate) fn channel(&self) -> Arc<dyn Channel> {
        match self {
            Self::Imitated(channel) => Arc::clone(channel) as _,
            Self::Telegram { channel, .. } => Arc::clone(channel) as _,
        }
    }

    pub(crate) async fn listen(self, inbound: Arc<dyn Inbound>, stop: CancellationToken) -> anyhow::Result<()> {
        match self {
            Self::Imitated(channel) => channel.listen(inbound, stop).await,
            Self::Telegram { channel, settings } => {
                TelegramListener::new(settings, channel).run(inbound, stop).await?;
            }
        }
        Ok(())
    }
}
