//! The contract suite of the port, against the fake.

use async_trait::async_trait;
use satchel_contracts::channel::{ArrivedMessage, ChannelFault, ChannelFixture};
use satchel_domain::FileReference;
use satchel_fake_discord::{DiscordFile, DiscordMessage};
use satchel_fake_kit::Fault;
use serde_json::{Value, json};

use super::*;

/// A file's name as a person sees it: Discord shows the title where it has one.
pub(crate) fn shown_name(file: &DiscordFile) -> String {
    let Some(title) = &file.title else { return file.filename.clone() };
    let extension = file.filename.rsplit_once('.').map(|(_, extension)| format!(".{extension}"));
    format!("{title}{}", extension.unwrap_or_default())
}

impl Stage {
    /// The file of a message as the way in would note it, with a link of Discord's own.
    async fn reference(&self, filename: &str, message: u64) -> FileReference {
        let address = format!("{}/api/v10/channels/{}/messages/{message}", self.discord.api_url(), self.place);
        let request = reqwest::Client::new().get(address).header("user-agent", "DiscordBot (https://a.b, 1)");
        let answer = request.header("authorization", format!("Bot {}", self.discord.token())).send().await.unwrap();
        let told: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        let file = &told["attachments"][0];
        let attachment: u64 = file["id"].as_str().unwrap().parse().unwrap();
        let locator = json!({
            "url": file["url"], "channel": self.place, "message": message, "attachment": attachment,
        });
        FileReference::new(locator.to_string(), Filename::from_untrusted(filename))
    }
}

#[async_trait]
impl ChannelFixture for Stage {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel) as _
    }

    fn conversation(&self) -> ConversationId {
        conversation(&self.place.to_string())
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.blobs) as _
    }

    async fn arrived_messages(&self) -> Vec<ArrivedMessage> {
        let arrived = |message: &DiscordMessage| ArrivedMessage {
            message: MessageRef(message.id.to_string()),
            text: message.content.clone(),
            files: message.files.iter().map(|file| (shown_name(file), file.sha256)).collect(),
        };
        self.discord.transcript().visible(self.place).map(arrived).collect()
    }

    async fn inject_fault(&self, trouble: ChannelFault) -> bool {
        let fault = match trouble {
            ChannelFault::ConnectionRefused => {
                self.discord.refuse_connections(Duration::from_secs(2));
                return true;
            }
            ChannelFault::RateLimited { retry_after_ms } => Fault::RateLimit { retry_after_ms },
            ChannelFault::ServerError => Fault::ServerError,
            ChannelFault::Reset => Fault::ResetMidTransfer,
            ChannelFault::ResponseLost => Fault::AcceptAndDrop,
            ChannelFault::ForeignResponse => Fault::BadGateway { performed: true },
            ChannelFault::Hang => Fault::Hang { performed: false },
            ChannelFault::Forbidden => Fault::Forbidden,
        };
        // A client's first call takes a while; one that is dropped soon should have reached the platform by then.
        self.channel.probe().await.unwrap();
        self.discord.script_next("POST /channels/{}/messages", fault);
        true
    }

    async fn person_sends(&self, filename: &str, content: Bytes) -> Option<FileReference> {
        let file = FakeFile::from_bytes(filename, "application/octet-stream", content);
        let message = self.discord.person_sends(self.place, PERSON, "", vec![file]);
        Some(self.reference(filename, message).await)
    }
}

satchel_contracts::channel_contract!(Stage::new().await);
