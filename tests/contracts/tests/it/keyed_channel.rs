//! A channel in memory with an idempotency key and the four methods that every channel has.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use satchel_contracts::channel::{ArrivedMessage, ChannelFault, ChannelFixture};
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, Filename, MessageRef, PartContent, PartId, TurnId,
    capabilities::{Idempotency, VoiceRule},
    delivery::{Refusal, SendError},
};
use satchel_files::MemoryBlobs;
use satchel_ports::{BlobHint, Blobs, Channel, FetchedFile, FileFetchError, PostRequest};
use satchel_routing::tables;
use uuid::Uuid;

struct KeyedChannel {
    blobs: Arc<MemoryBlobs>,
    sent: Mutex<Vec<(PartId, PartContent)>>,
}

impl KeyedChannel {
    async fn check_readable(&self, content: &PartContent) -> Result<(), SendError> {
        let voice = match content {
            PartContent::Voice { prepared: Some(voice), .. } => Some(voice.sha256),
            _ => None,
        };
        for sha256 in content.files().iter().map(|item| item.attachment.sha256).chain(voice) {
            let unreadable = |reason: String| SendError::Unreadable { reason };
            let bytes = self.blobs.open(&sha256, None).await.map_err(|error| unreadable(error.to_string()))?;
            bytes.try_for_each(async |_| Ok(())).await.map_err(|error| unreadable(error.to_string()))?;
        }
        Ok(())
    }
}

#[async_trait]
impl Channel for KeyedChannel {
    fn name(&self) -> ChannelName {
        ChannelName::new("keyed").unwrap()
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        let idempotency = Idempotency::Key { window_ms: None };
        ChannelCapabilities { idempotency, voice: VoiceRule::Message, can_edit: false, ..tables::console() }
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        self.check_readable(&request.content).await?;
        let mut sent = self.sent.lock().unwrap();
        if sent.iter().all(|(known, _)| *known != request.part_id) {
            sent.push((request.part_id, request.content.clone()));
        }
        Ok(vec![MessageRef(request.part_id.to_string())])
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        let gone = || FileFetchError::Permanent { reason: "no file has this name".to_owned() };
        reference.stored_blob().map(FetchedFile::Stored).ok_or_else(gone)
    }
}

pub(crate) struct KeyedHarness(Arc<KeyedChannel>);

#[async_trait]
impl ChannelFixture for KeyedHarness {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.0) as _
    }

    fn conversation(&self) -> ConversationId {
        "keyed:a".parse().unwrap()
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.0.blobs) as _
    }

    async fn arrived_messages(&self) -> Vec<ArrivedMessage> {
        let arrived = |(part, content): &(PartId, PartContent)| {
            let (text, voice) = match content {
                PartContent::Text { text, .. } => (text.clone(), None),
                PartContent::Voice { text: words, prepared, .. } => (words.clone(), prepared.as_ref()),
                _ => (String::new(), None),
            };
            let files =
                content.files().iter().map(|item| (item.attachment.filename.to_string(), item.attachment.sha256));
            let voice = voice.map(|voice| ("voice.ogg".to_owned(), voice.sha256));
            ArrivedMessage { message: MessageRef(part.to_string()), text, files: files.chain(voice).collect() }
        };
        self.0.sent.lock().unwrap().iter().map(arrived).collect()
    }

    async fn inject_fault(&self, _: ChannelFault) -> bool {
        false
    }

    async fn person_sends(&self, filename: &str, content: Bytes) -> Option<FileReference> {
        let content = stream::iter([Ok(content)]).boxed();
        let blob = self.0.blobs.put(content, &BlobHint::default(), 1 << 30).await.unwrap();
        Some(FileReference::stored(&blob, Filename::from_untrusted(filename)))
    }
}

pub(crate) fn harness() -> KeyedHarness {
    KeyedHarness(Arc::new(KeyedChannel { blobs: Arc::default(), sent: Mutex::default() }))
}

satchel_contracts::channel_contract!(
    harness(),
    without: [ConnectionRefused, RateLimited, ServerError, Reset, ResponseLost, ForeignResponse, Hang, Forbidden]
);

#[tokio::test]
async fn unsupported_operations_are_refused_by_default() {
    let KeyedHarness(channel) = harness();
    let (conversation, message) = ("keyed:a".parse().unwrap(), MessageRef("1".into()));
    let part = PostRequest {
        part_id: PartId(Uuid::nil()),
        turn: TurnId(Uuid::nil()),
        conversation: ConversationId::clone(&conversation),
        content: PartContent::from_text("changed"),
        reply_to: None,
    };
    let is_refusal = |error: SendError| matches!(error, SendError::Refused { refusal: Refusal::TargetGone, .. });
    assert!(channel.edit(&message, &part).await.is_err_and(is_refusal));
    assert!(channel.delete(&conversation, &message).await.is_err_and(is_refusal));
    assert!(channel.sent.lock().unwrap().is_empty(), "nothing was sent instead");
}
