//! The contract suite of the port. A person sees what the ledger says was sent, which a note of the answers stands for.

use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_contracts::channel::{ArrivedMessage, ChannelFault, ChannelFixture};
use satchel_domain::capabilities::{
    CaptionRule, GroupingRule, Idempotency, LookupRule, ReplyRule, StreamRule, TextLimit, TextUnit, VoiceRule,
};
use satchel_files::DirectoryBlobs;
use satchel_ports::BlobHint;
use tempfile::TempDir;

use super::*;

/// The channel, with a note of what was answered: each message and what it was to say.
struct RecordingBus {
    channel: WebChannel,
    arrived: Mutex<Vec<(MessageRef, PartContent)>>,
}

impl RecordingBus {
    fn record(&self, request: &PostRequest, answer: &Result<Vec<MessageRef>, SendError>) {
        let mut arrived = self.arrived.lock().unwrap();
        for message in answer.iter().flatten() {
            match arrived.iter_mut().find(|(known, _)| known == message) {
                Some((_, content)) => content.clone_from(&request.content),
                None => arrived.push((message.clone(), request.content.clone())),
            }
        }
    }
}

#[async_trait]
impl Channel for RecordingBus {
    fn name(&self) -> ChannelName {
        self.channel.name()
    }

    fn capabilities(&self, conversation: &ConversationId) -> ChannelCapabilities {
        self.channel.capabilities(conversation)
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let answer = self.channel.post(request).await;
        self.record(request, &answer);
        answer
    }

    async fn edit(&self, message: &MessageRef, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let answer = self.channel.edit(message, request).await;
        self.record(request, &answer);
        answer
    }

    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError> {
        self.channel.delete(conversation, message).await
    }

    async fn probe(&self) -> Result<(), SendError> {
        self.channel.probe().await
    }

    async fn show_activity(&self, conversation: &ConversationId, activity: Activity) {
        self.channel.show_activity(conversation, activity).await;
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        self.channel.fetch(reference).await
    }
}

struct Fixture {
    noted: Arc<RecordingBus>,
    blobs: Arc<dyn Blobs>,
    _dir: TempDir,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let blobs: Arc<dyn Blobs> = Arc::new(DirectoryBlobs::open(&dir.path().join("blobs")).unwrap());
    let capabilities = ChannelCapabilities {
        text: TextLimit { unit: TextUnit::Chars, max: None, entities: None },
        blocks: None,
        caption: CaptionRule::Hidden,
        photo: None,
        native_media: false,
        file_bytes: 2 << 30,
        request_bytes: None,
        grouping: GroupingRule::Messages { max: usize::MAX, with_text: true },
        voice: VoiceRule::Message,
        idempotency: Idempotency::Key { window_ms: None },
        look_up: LookupRule::None,
        can_edit: true,
        replies: ReplyRule::PersonMessage,
        joins_messages: false,
        stream: StreamRule::Deltas,
        rate_limits: None,
    };
    let key_file = dir.path().join("web.key");
    let key = SigningKey::load_or_create(&key_file).unwrap();
    let links = SignedLinks::new(key.clone());
    let channel = WebChannel { name: PAGE_CHANNEL, capabilities, blobs: Arc::clone(&blobs), key, links };
    Fixture { noted: Arc::new(RecordingBus { channel, arrived: Mutex::default() }), blobs, _dir: dir }
}

#[async_trait]
impl ChannelFixture for Fixture {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.noted) as Arc<dyn Channel>
    }

    fn conversation(&self) -> ConversationId {
        "web:a".parse().unwrap()
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.blobs)
    }

    async fn arrived_messages(&self) -> Vec<ArrivedMessage> {
        let arrived = |(message, content): &(MessageRef, PartContent)| {
            let (text, voice) = match content {
                PartContent::Text { text, .. } | PartContent::Notice { text } | PartContent::Question { text, .. } => {
                    (text.clone(), None)
                }
                PartContent::Voice { text: words, prepared, .. } => (words.clone(), prepared.as_ref()),
                PartContent::File(_) | PartContent::Album { .. } => (String::new(), None),
            };
            let files = content.files().iter().map(|item| &item.attachment);
            let files = files.map(|file| (file.filename.to_string(), file.sha256));
            let voice = voice.map(|voice| ("voice.ogg".to_owned(), voice.sha256));
            ArrivedMessage { message: message.clone(), text, files: files.chain(voice).collect() }
        };
        self.noted.arrived.lock().unwrap().iter().map(arrived).collect()
    }

    async fn inject_fault(&self, _: ChannelFault) -> bool {
        false
    }

    async fn person_sends(&self, filename: &str, content: Bytes) -> Option<FileReference> {
        let filename = Filename::from_untrusted(filename);
        let content = stream::once(async move { Ok(content) }).boxed();
        let blob = self.blobs.put(content, &BlobHint::default(), 1 << 30).await.unwrap();
        let (bytes, stored) = (Some(blob.bytes), Some(blob.sha256));
        let upload =
            UploadHandle { blob, conversation: self.conversation(), filename: filename.clone(), at: Timestamp(0) };
        let locator = self.noted.channel.key.sign(Purpose::Upload, &upload);
        Some(FileReference { bytes, stored, ..FileReference::new(locator, filename) })
    }
}

mod promises {
    satchel_contracts::channel_contract!(
        super::fixture(),
        without: [
            ConnectionRefused,
            RateLimited,
            ServerError,
            Reset,
            ResponseLost,
            ForeignResponse,
            Hang,
            Forbidden,
        ]
    );
}

#[tokio::test]
async fn lost_upload_is_refused_with_remedy() {
    let fixture = fixture();
    let reference = fixture.person_sends("a.txt", Bytes::from_static(b"x")).await.unwrap();
    let mut upload: UploadHandle = fixture.noted.channel.key.verify(Purpose::Upload, &reference.locator).unwrap();
    upload.blob.sha256 = Sha256([7; 32]);
    let locator = fixture.noted.channel.key.sign(Purpose::Upload, &upload);
    let answer = fixture.channel().fetch(&FileReference { locator, ..reference }).await;
    assert!(
        matches!(&answer, Err(FileFetchError::Permanent { reason }) if reason.contains("upload it again")),
        "{answer:?}"
    );
}
