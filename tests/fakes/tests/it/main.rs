//! The fakes: the chat platform with its channel, whose contract is run in both modes, the Bot API, and Discord.

mod bench;
mod discord;
mod faults;
mod inbound;
mod outages;
mod python;
mod refusals;
mod telegram;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use satchel_contracts::channel::{Arrived, ChannelFixture, Trouble};
use satchel_domain::{ConversationId, FileReference};
use satchel_fakes::{FakeFile, FakeMode, Fault, Operation};
use satchel_ports::{Blobs, Channel};

use crate::bench::Bench;

#[async_trait]
impl ChannelFixture for Bench {
    fn channel(&self) -> Arc<dyn Channel> {
        self.channel.clone()
    }

    fn conversation(&self) -> ConversationId {
        self.conversation.clone()
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.blobs.clone()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        let transcript = self.platform.transcript();
        let arrived = transcript.visible(&self.conversation).map(|message| Arrived {
            message: message.id.clone(),
            text: message.contents.text.clone(),
            files: message.contents.files.iter().map(|file| (file.filename.clone(), file.sha256)).collect(),
        });
        arrived.collect()
    }

    async fn trouble(&self, trouble: Trouble) -> bool {
        let fault = match trouble {
            Trouble::ConnectionRefused => Fault::RefuseConnection { for_ms: 300 },
            Trouble::RateLimited { retry_after_ms } => Fault::RateLimit { retry_after_ms },
            Trouble::ServerError => Fault::ServerError,
            Trouble::Reset => Fault::ResetMidTransfer,
            Trouble::AnswerLost => Fault::AcceptAndDrop,
            Trouble::NotAnAnswer => Fault::BadGateway { performed: false },
            Trouble::Hang => Fault::Hang { performed: false },
            Trouble::Forbidden => Fault::Forbidden,
        };
        self.platform.script_next(Operation::Send, fault);
        true
    }

    async fn person_sends(&self, filename: &str, content: Bytes) -> Option<FileReference> {
        Some(self.platform.person_uploads(FakeFile::of(filename, "application/octet-stream", content)))
    }
}

mod telegram_like {
    satchel_contracts::channel_contract!(crate::Bench::start(crate::FakeMode::TelegramLike).await);
}

mod discord_like {
    satchel_contracts::channel_contract!(crate::Bench::start(crate::FakeMode::DiscordLike).await);
}
