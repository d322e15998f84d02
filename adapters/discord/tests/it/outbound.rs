//! What Satchel sends, over the real wire against the strict fake.

#![expect(clippy::unwrap_used, reason = "what fails ends the test")]

mod answers;
mod contents;
mod contract;
mod corrections;
mod doubt;
mod limits;
mod pace;
mod secrets;
mod streams;

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_discord::{DiscordChannel, DiscordSettings, HttpTimeouts};
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelCapabilities, ConversationId, Filename, MessageRef, PartContent,
    PartId, Timestamp, TurnId, Visibility,
    delivery::SendError,
    part::{FileForm, FileItem, Markup, PreparedVoice},
};
use satchel_fake_discord::{DiscordRules, FakeDiscord, Tier};
use satchel_fake_kit::{FakeFile, FaultyBlobs};
use satchel_http::{FetchSettings, HttpFetcher};
use satchel_ports::{BlobHint, Blobs, ByteStream, Channel, SendRequest};
use satchel_routing::tables;
use uuid::Uuid;

/// Waits for tests in which answers never come.
pub(crate) const SHORT: HttpTimeouts = HttpTimeouts {
    connect: Duration::from_millis(500),
    response: Duration::from_millis(600),
    idle: Duration::from_millis(400),
};

const GUILD: u64 = 71;
const PERSON: u64 = 4_711;

/// A bot, the platform that it works on, and a channel of a guild.
pub(crate) struct Stage {
    pub(crate) discord: FakeDiscord,
    pub(crate) channel: Arc<DiscordChannel>,
    pub(crate) blobs: Arc<FaultyBlobs>,
    pub(crate) place: u64,
}

/// Discord's table without its pace, which tests that are not about it need not wait for.
pub(crate) fn unpaced() -> ChannelCapabilities {
    ChannelCapabilities { rate_limits: None, ..tables::discord() }
}

pub(crate) fn settings(discord: &FakeDiscord, capabilities: ChannelCapabilities) -> DiscordSettings {
    DiscordSettings {
        token: discord.token().into(),
        api_url: Some(discord.api_url().into()),
        capabilities,
        answers_in: Vec::new(),
        commands: Vec::new(),
    }
}

/// A fetcher that may ask this machine, where the fake is.
pub(crate) fn fetcher() -> Arc<HttpFetcher> {
    let allowed = vec!["127.0.0.1".parse().unwrap()];
    Arc::new(HttpFetcher::new(FetchSettings { allowed, ..FetchSettings::default() }))
}

pub(crate) fn channel_with(
    discord: &FakeDiscord,
    blobs: Arc<dyn Blobs>,
    capabilities: ChannelCapabilities,
) -> DiscordChannel {
    DiscordChannel::with_timeouts(&settings(discord, capabilities), blobs, fetcher(), SHORT).unwrap()
}

impl Stage {
    /// A stage with all limits of the platform but its pace.
    pub(crate) async fn new() -> Self {
        Self::with(DiscordRules::unpaced(), unpaced()).await
    }

    pub(crate) async fn with(rules: DiscordRules, capabilities: ChannelCapabilities) -> Self {
        let discord = FakeDiscord::start(rules).await.unwrap();
        let blobs = Arc::new(FaultyBlobs::default());
        let channel = channel_with(&discord, Arc::clone(&blobs) as _, capabilities);
        discord.person(PERSON, "Ann");
        discord.guild(GUILD, "Home", Tier::None);
        let place = discord.channel(GUILD, 100, "general");
        Self { discord, channel: Arc::new(channel), blobs, place }
    }

    /// The same bot after a restart, which remembers nothing.
    pub(crate) fn restarted(&self) -> DiscordChannel {
        channel_with(&self.discord, Arc::clone(&self.blobs) as _, unpaced())
    }

    pub(crate) fn part_in(&self, place: u64, content: PartContent) -> SendRequest {
        SendRequest {
            part_id: PartId(Uuid::now_v7()),
            turn: TurnId(Uuid::from_u128(1)),
            conversation: conversation(&place.to_string()),
            content,
            reply_to: None,
        }
    }

    pub(crate) fn part(&self, content: PartContent) -> SendRequest {
        self.part_in(self.place, content)
    }

    pub(crate) async fn send(&self, content: PartContent) -> Result<Vec<MessageRef>, SendError> {
        self.channel.send(&self.part(content)).await
    }

    /// Stores a file as an item of a part.
    pub(crate) async fn item(&self, file: &FakeFile) -> FileItem {
        let filename = Filename::from_untrusted(&file.filename);
        let hint = BlobHint { filename: Some(filename.clone()), mime: Some(file.mime.clone()), bytes: None };
        let stored = self.blobs.put(file.stream(), &hint, 1 << 30).await.unwrap();
        let attachment = Attachment {
            id: AttachmentId(Uuid::from_u128(1)),
            number: NonZeroU64::MIN,
            conversation: conversation("1"),
            source: AttachmentSource::Tool,
            filename,
            mime: stored.mime,
            bytes: stored.bytes,
            sha256: stored.sha256,
            media: stored.media,
            description: String::new(),
            created_at: Timestamp(0),
            visibility: Visibility::Deliver,
        };
        FileItem { attachment, form: FileForm::Document, caption: String::new() }
    }

    /// Stores small files under these names.
    pub(crate) async fn items(&self, names: &[&str]) -> Vec<FileItem> {
        let mut items = Vec::new();
        for (number, name) in names.iter().enumerate() {
            items.push(self.item(&small(name, number as u64)).await);
        }
        items
    }

    pub(crate) async fn voice(&self, as_file: bool) -> PartContent {
        let hint = BlobHint { filename: None, mime: Some("audio/ogg".to_owned()), bytes: None };
        let stored = self.blobs.put(once(b"OggS\0\x02 OpusHead".as_slice()), &hint, 1 << 20).await.unwrap();
        let prepared =
            PreparedVoice { sha256: stored.sha256, bytes: stored.bytes, duration_ms: 1_250, waveform: vec![0, 255] };
        PartContent::Voice {
            text: "hello".to_owned(),
            in_text: true,
            prepared: Some(prepared),
            as_file,
            caption: String::new(),
        }
    }

    /// The words of the bot's messages in the guild's channel.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.discord.transcript().texts(self.place).into_iter().map(str::to_owned).collect()
    }

    /// How many messages of the bot stand in the guild's channel.
    pub(crate) fn visible(&self) -> usize {
        self.discord.transcript().visible(self.place).count()
    }
}

pub(crate) fn conversation(key: &str) -> ConversationId {
    format!("discord:{key}").parse().unwrap()
}

pub(crate) fn once(content: impl Into<Bytes>) -> ByteStream {
    let content = content.into();
    stream::once(async move { Ok(content) }).boxed()
}

pub(crate) fn text(words: &str) -> PartContent {
    PartContent::from_text(words)
}

pub(crate) fn bundle(words: &str, files: Vec<FileItem>) -> PartContent {
    PartContent::Text { text: words.to_owned(), markup: Markup::Rich, files }
}

pub(crate) fn small(name: &str, seed: u64) -> FakeFile {
    FakeFile::generated(name, "application/octet-stream", seed, 2_000)
}
