//! The contract suite of the port, with a recording screen and a temporary directory.

use std::{collections::HashMap, ops::Range, time::Duration};

use bytes::Bytes;
use futures::stream;
use satchel_contracts::channel::{ArrivedMessage, ChannelFault, ChannelFixture};
use satchel_domain::MediaInfo;
use satchel_ports::{Activity, BlobError, BlobHint, ByteStream, StoredBlob};
use sha2::Digest;
use std::sync::Mutex;
use tempfile::TempDir;

use super::{tests::capabilities, *};
use crate::screen::{ScreenStyle, tests::RecordingOutput};

#[derive(Default)]
struct ContractBlobs(Mutex<HashMap<Sha256, Bytes>>);

#[async_trait]
impl Blobs for ContractBlobs {
    async fn put(&self, content: ByteStream, _: &BlobHint, _: u64) -> Result<StoredBlob, BlobError> {
        let chunks: Vec<Bytes> = content.map(Result::unwrap).collect().await;
        let whole = Bytes::from(chunks.concat());
        let (sha256, bytes) = (address_of(&whole), whole.len() as u64);
        self.0.lock().unwrap().insert(sha256, whole);
        Ok(StoredBlob { sha256, bytes, mime: "application/octet-stream".to_owned(), media: MediaInfo::default() })
    }

    async fn open(&self, sha256: &Sha256, _: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        let whole = self.0.lock().unwrap().get(sha256).cloned().ok_or(BlobError::Missing(*sha256))?;
        let chunks: Vec<_> = whole.chunks(10_000).map(Bytes::copy_from_slice).map(Ok).collect();
        Ok(stream::iter(chunks).boxed())
    }

    async fn list_stale(&self, _: Duration) -> Result<Vec<Sha256>, BlobError> {
        Ok(Vec::new())
    }

    async fn mark(&self, _: &[Sha256], _: Duration) -> Result<(), BlobError> {
        Ok(())
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        Ok(0)
    }
}

fn address_of(bytes: &[u8]) -> Sha256 {
    Sha256(sha2::Sha256::digest(bytes).into())
}

/// Records what each call printed, because printed lines have no ids.
struct RecordingScreen {
    channel: ConsoleChannel,
    printed: RecordingOutput,
    arrived: Mutex<Vec<(Vec<MessageRef>, String)>>,
}

impl RecordingScreen {
    fn record(&self, before: usize, answer: &Result<Vec<MessageRef>, SendError>) {
        let text = self.printed.text()[before..].to_owned();
        if !text.is_empty() {
            self.arrived.lock().unwrap().push((answer.clone().unwrap_or_default(), text));
        }
    }
}

#[async_trait]
impl Channel for RecordingScreen {
    fn name(&self) -> ChannelName {
        self.channel.name()
    }

    fn capabilities(&self, conversation: &ConversationId) -> ChannelCapabilities {
        self.channel.capabilities(conversation)
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let before = self.printed.text().len();
        let answer = self.channel.post(request).await;
        self.record(before, &answer);
        answer
    }

    async fn edit(&self, message: &MessageRef, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let before = self.printed.text().len();
        let answer = self.channel.edit(message, request).await;
        self.record(before, &answer);
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
    channel: Arc<RecordingScreen>,
    blobs: Arc<ContractBlobs>,
    dir: TempDir,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let (printed, blobs) = (RecordingOutput::default(), Arc::new(ContractBlobs::default()));
    let screen = Arc::new(Screen::new(printed.clone(), ScreenStyle::default()));
    let settings = ConsoleSettings { files_dir: dir.path().join("files"), capabilities: capabilities() };
    let channel = ConsoleChannel::new(settings, Arc::clone(&blobs) as Arc<dyn Blobs>, screen);
    Fixture { channel: Arc::new(RecordingScreen { channel, printed, arrived: Mutex::default() }), blobs, dir }
}

#[async_trait]
impl ChannelFixture for Fixture {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel) as Arc<dyn Channel>
    }

    fn conversation(&self) -> ConversationId {
        "console:main".parse().unwrap()
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.blobs) as Arc<dyn Blobs>
    }

    async fn arrived_messages(&self) -> Vec<ArrivedMessage> {
        let file = |message: &MessageRef| {
            let name = Path::new(&message.0).file_name()?.to_str()?.to_owned();
            Some((name, address_of(&std::fs::read(&message.0).ok()?)))
        };
        let arrived = |(messages, text): &(Vec<MessageRef>, String)| ArrivedMessage {
            message: messages.first().cloned().unwrap_or_else(|| MessageRef(String::new())),
            text: text.clone(),
            files: messages.iter().filter_map(file).collect(),
        };
        self.channel.arrived.lock().unwrap().iter().map(arrived).collect()
    }

    async fn inject_fault(&self, _: ChannelFault) -> bool {
        false
    }

    async fn person_sends(&self, filename: &str, content: Bytes) -> Option<FileReference> {
        let path = self.dir.path().join(filename);
        std::fs::write(&path, content).unwrap();
        crate::attachments::file_reference(&path)
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
