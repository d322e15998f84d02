//! What Satchel sends, over the real wire against the strict fake.

#![expect(clippy::unwrap_used, reason = "what fails ends the test")]

mod contents;
mod contract;
mod drafts;
mod lookup;
mod pace;
mod platform;
mod responses;
mod rich;
mod topics;

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelCapabilities, ConversationId, Filename, MessageRef, PartContent,
    PartId, Timestamp, TurnId, Visibility,
    delivery::SendError,
    part::{FileForm, FileItem, PreparedVoice},
};
use satchel_fake_kit::{FakeFile, FaultyBlobs};
use satchel_fake_telegram::{FakeTelegram, TelegramRules};
use satchel_ports::{BlobHint, Blobs, ByteStream, Channel, PostRequest};
use satchel_routing::tables;
use satchel_telegram::{HttpTimeouts, LookupSettings, TelegramChannel, TelegramSettings};
use uuid::Uuid;

/// Waits for tests in which answers never come.
pub(crate) const SHORT: HttpTimeouts = HttpTimeouts {
    connect: Duration::from_millis(500),
    response: Duration::from_millis(600),
    idle: Duration::from_millis(400),
};

/// A bot, the platform that it works on, and one person's chat with it.
pub(crate) struct OutboundHarness {
    pub(crate) telegram: FakeTelegram,
    pub(crate) channel: Arc<TelegramChannel>,
    pub(crate) blobs: Arc<FaultyBlobs>,
    pub(crate) chat: i64,
}

/// Waits of a look-up for servers that answer at once.
pub(crate) const QUICK: LookupSettings = LookupSettings {
    delay: Duration::from_millis(20),
    delay_per_megabyte: Duration::from_millis(1),
    second_pass_delay: Duration::from_millis(200),
    interval: Duration::ZERO,
    max_flood_wait: Duration::from_secs(2),
};

/// Telegram's table without its pace, which tests that are not about it need not wait for.
pub(crate) fn unpaced() -> ChannelCapabilities {
    ChannelCapabilities { rate_limits: None, ..tables::telegram() }
}

pub(crate) fn settings(telegram: &FakeTelegram, capabilities: ChannelCapabilities) -> TelegramSettings {
    TelegramSettings {
        token: telegram.token().into(),
        api_url: Some(telegram.api_url().into()),
        capabilities,
        local_files: None,
        answers_in: Vec::new(),
        webhook: None,
        commands: Vec::new(),
        look_up: QUICK,
    }
}

impl OutboundHarness {
    /// A stage with all limits of the platform but its pace.
    pub(crate) async fn new() -> Self {
        Self::with(TelegramRules::default(), unpaced()).await
    }

    pub(crate) async fn with(rules: TelegramRules, capabilities: ChannelCapabilities) -> Self {
        let telegram = FakeTelegram::start(rules).await.unwrap();
        let blobs = Arc::new(FaultyBlobs::default());
        let settings = settings(&telegram, capabilities);
        let channel = TelegramChannel::with_timeouts(&settings, Arc::clone(&blobs) as _, SHORT).unwrap();
        let person = telegram.person(4711, "Anna");
        let chat = telegram.private_chat(person);
        Self { telegram, channel: Arc::new(channel), blobs, chat }
    }

    pub(crate) fn part_in(&self, chat: i64, content: PartContent) -> PostRequest {
        PostRequest {
            part_id: PartId(Uuid::now_v7()),
            turn: TurnId(Uuid::from_u128(1)),
            conversation: conversation(&chat.to_string()),
            content,
            reply_to: None,
        }
    }

    pub(crate) fn part(&self, content: PartContent) -> PostRequest {
        self.part_in(self.chat, content)
    }

    pub(crate) async fn send(&self, content: PartContent) -> Result<Vec<MessageRef>, SendError> {
        self.channel.post(&self.part(content)).await
    }

    /// Stores a file as an item of a part.
    pub(crate) async fn item(&self, file: &FakeFile, form: FileForm) -> FileItem {
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
            link_revocation: None,
        };
        FileItem { attachment, form, caption: String::new() }
    }

    pub(crate) async fn voice(&self, as_file: bool) -> PartContent {
        let hint = BlobHint { filename: None, mime: Some("audio/ogg".to_owned()), bytes: None };
        let stored = self.blobs.put(once(b"OggS\0\x02 OpusHead".as_slice()), &hint, 1 << 20).await.unwrap();
        let prepared =
            PreparedVoice { sha256: stored.sha256, bytes: stored.bytes, duration_ms: 1_200, waveform: vec![0, 255] };
        PartContent::Voice {
            text: "hello".to_owned(),
            in_text: true,
            prepared: Some(prepared),
            as_file,
            caption: String::new(),
        }
    }

    /// The words of the bot's messages in the person's chat.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.telegram.transcript().texts(self.chat).into_iter().map(str::to_owned).collect()
    }
}

pub(crate) fn conversation(key: &str) -> ConversationId {
    format!("telegram:{key}").parse().unwrap()
}

pub(crate) fn once(content: impl Into<Bytes>) -> ByteStream {
    let content = content.into();
    stream::once(async move { Ok(content) }).boxed()
}

pub(crate) fn text(words: &str) -> PartContent {
    PartContent::from_text(words)
}

pub(crate) fn photo(seed: u64) -> FakeFile {
    FakeFile::photo(format!("{seed}.png"), 640, 480, seed, 20_000)
}
