//! The contract suite of the port, against the fake.

use async_trait::async_trait;
use bytes::Bytes;
use satchel_contracts::channel::{ArrivedMessage, ChannelFault, ChannelFixture};
use satchel_domain::{ConversationId, FileReference, Filename, MessageRef};
use satchel_fake_kit::Fault;
use satchel_fake_telegram::{FileKind, PersonMessage, TelegramMessage};
use satchel_ports::Channel;

use super::*;

#[async_trait]
impl ChannelFixture for OutboundHarness {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel) as _
    }

    fn conversation(&self) -> ConversationId {
        conversation(&self.chat.to_string())
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.blobs) as _
    }

    async fn arrived_messages(&self) -> Vec<ArrivedMessage> {
        let arrived = |message: &TelegramMessage| ArrivedMessage {
            message: MessageRef(message.id.to_string()),
            text: message.words.text.clone(),
            files: message.file().map(|file| (file.filename.clone(), file.sha256)).into_iter().collect(),
        };
        self.telegram.transcript().visible(self.chat).map(arrived).collect()
    }

    async fn inject_fault(&self, trouble: ChannelFault) -> bool {
        let fault = match trouble {
            ChannelFault::ConnectionRefused => {
                self.telegram.refuse_connections(Duration::from_secs(2));
                return true;
            }
            ChannelFault::RateLimited { retry_after_ms } => Fault::RateLimit { retry_after_ms },
            // Telegram says so of what it performs, too: see `responses`.
            ChannelFault::ServerError => return false,
            ChannelFault::Reset => Fault::ResetMidTransfer,
            ChannelFault::ResponseLost => Fault::AcceptAndDrop,
            ChannelFault::ForeignResponse => Fault::BadGateway { performed: true },
            ChannelFault::Hang => Fault::Hang { performed: false },
            ChannelFault::Forbidden => Fault::Forbidden,
        };
        // A client's first call takes a while; one that is dropped soon should have reached the platform by then.
        self.channel.probe().await.unwrap();
        self.telegram.script_next("send*", fault);
        true
    }

    async fn person_sends(&self, filename: &str, content: Bytes) -> Option<FileReference> {
        let file = FakeFile::from_bytes(filename, "application/octet-stream", content);
        let message = self.telegram.person_sends(self.chat, self.chat, PersonMessage::file(FileKind::Document, file));
        let transcript = self.telegram.transcript();
        let sent = transcript.messages(self.chat).iter().find(|sent| sent.id == message).unwrap();
        let locator = serde_json::json!({ "file_id": sent.file().unwrap().file_id }).to_string();
        Some(FileReference::new(locator, Filename::from_untrusted(filename)))
    }
}

/// With drafts, on which one promise depends.
async fn with_drafts() -> OutboundHarness {
    let capabilities = ChannelCapabilities { stream: tables::TELEGRAM_DRAFTS, ..unpaced() };
    OutboundHarness::with(TelegramRules::default(), capabilities).await
}

satchel_contracts::channel_contract!(with_drafts().await, without: [ServerError]);
