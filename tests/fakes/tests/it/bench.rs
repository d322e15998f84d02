//! A platform with a channel on it, and parts to send.

use std::sync::Arc;

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ConversationId, Filename, MessageRef, PartContent, PartId, Timestamp,
    TurnId, Visibility,
    delivery::SendError,
    part::{FileForm, FileItem, PreparedVoice},
};
use satchel_fakes::{FakeChannel, FakeFile, FakeMode, FakePlatform, MemoryBlobs, PlatformRules, Timeouts};
use satchel_ports::{
    BlobHint, Blobs, Channel, LookupOutcome, LookupRange, LookupRequest, SendRequest, ledger::RecordedMessages,
};
use uuid::Uuid;

/// A platform, a channel on it, and a conversation.
pub(crate) struct Bench {
    pub(crate) platform: FakePlatform,
    pub(crate) channel: Arc<FakeChannel>,
    pub(crate) blobs: Arc<MemoryBlobs>,
    pub(crate) conversation: ConversationId,
}

impl Bench {
    /// What a look-up finds for certain.
    pub(crate) async fn find(&self, part: &SendRequest) -> Result<Option<Vec<MessageRef>>, SendError> {
        let (range, recorded) = (LookupRange::After(None), RecordedMessages::default());
        let outcome =
            self.channel.find_sent(&LookupRequest { part: part.clone(), range, attempts: 1, recorded }).await?;
        Ok(match outcome {
            LookupOutcome::Found { messages, .. } => Some(messages),
            LookupOutcome::Absent | LookupOutcome::Uncertain { .. } => None,
        })
    }

    pub(crate) async fn start(mode: FakeMode) -> Self {
        Self::with_rules(mode.rules()).await
    }

    pub(crate) async fn with_rules(rules: PlatformRules) -> Self {
        let conversation: ConversationId = "fake:5".parse().expect("a conversation");
        let blobs = Arc::new(MemoryBlobs::default());
        let (mode, capabilities) = (rules.mode, rules.capabilities());
        let platform = FakePlatform::start(rules).await.expect("loopback has a free port");
        let name = conversation.channel().clone();
        let channel = FakeChannel::new(name, platform.base_url(), mode, capabilities, blobs.clone(), Timeouts::short());
        Self { platform, channel: Arc::new(channel), blobs, conversation }
    }

    pub(crate) fn part(&self, number: u128, content: PartContent) -> SendRequest {
        SendRequest {
            part: PartId(Uuid::from_u128(number)),
            turn: TurnId(Uuid::from_u128(1)),
            conversation: self.conversation.clone(),
            content,
            reply_to: None,
        }
    }

    pub(crate) async fn item(&self, file: &FakeFile, form: FileForm) -> FileItem {
        let hint = BlobHint { filename: None, mime: Some(file.mime.clone()), bytes: None };
        let stored = self.blobs.put(file.stream(), &hint, u64::MAX).await.expect("memory takes it");
        let attachment = Attachment {
            id: AttachmentId(Uuid::from_u128(9)),
            number: 1,
            conversation: self.conversation.clone(),
            source: AttachmentSource::Tool,
            filename: Filename::from_untrusted(&file.filename),
            mime: stored.mime,
            bytes: stored.bytes,
            sha256: stored.sha256,
            media: stored.media,
            description: String::new(),
            created_at: Timestamp(0),
            visibility: Visibility::Deliver,
        };
        FileItem { attachment, form, caption: String::new() }
    }

    pub(crate) async fn items(&self, files: &[(FakeFile, FileForm)]) -> Vec<FileItem> {
        let mut items = Vec::new();
        for (file, form) in files {
            items.push(self.item(file, *form).await);
        }
        items
    }

    pub(crate) async fn voice(&self, content: &'static str, waveform: usize) -> PartContent {
        let file = FakeFile::of("v.ogg", "audio/ogg", content);
        let stored = self.blobs.put(file.stream(), &BlobHint::default(), u64::MAX).await.expect("memory takes it");
        let prepared =
            PreparedVoice { sha256: stored.sha256, bytes: stored.bytes, duration_ms: 900, waveform: vec![7; waveform] };
        PartContent::Voice {
            words: "words".to_owned(),
            in_text: true,
            prepared: Some(prepared),
            as_file: false,
            caption: String::new(),
        }
    }
}

pub(crate) fn small(name: &str) -> FakeFile {
    FakeFile::of(name, "text/plain", format!("the bytes of {name}"))
}

pub(crate) fn photo(name: &str) -> FakeFile {
    FakeFile::photo(name, 640, 480, 3, 5_000)
}
