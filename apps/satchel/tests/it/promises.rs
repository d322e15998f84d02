//! The board against the contract suite of the port.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use satchel::embed::{
    MemoryBlobs,
    domain::{ConversationId, FileReference, Filename, MessageRef, Sha256},
    ports::{Blobs, Channel},
};
use satchel_contracts::channel::{ArrivedMessage, ChannelFault, ChannelFixture};

use super::board::Board;

struct Fixture {
    board: Arc<Board>,
    directory: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let blobs = Arc::new(MemoryBlobs::default());
    Fixture { board: Arc::new(Board { directory: directory.path().join("messages"), blobs }), directory }
}

#[async_trait]
impl ChannelFixture for Fixture {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.board) as _
    }

    fn conversation(&self) -> ConversationId {
        "board:hall".parse().unwrap()
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.board.blobs)
    }

    /// What a person sees: each directory is a message.
    async fn arrived_messages(&self) -> Vec<ArrivedMessage> {
        let conversation = self.board.directory.join(self.conversation().to_file_name());
        let messages = sorted(conversation).into_iter().filter(|path| !name(path).starts_with('.'));
        let message = |path: PathBuf| {
            let (texts, files): (Vec<_>, Vec<_>) =
                sorted(path.clone()).into_iter().partition(|path| name(path) == "text.md");
            ArrivedMessage {
                message: MessageRef(name(&path)),
                text: texts.iter().map(|path| fs::read_to_string(path).unwrap()).collect(),
                files: files.iter().map(|path| (name(path), Sha256::digest(fs::read(path).unwrap()))).collect(),
            }
        };
        messages.map(message).collect()
    }

    /// A directory has no connection that could break.
    async fn inject_fault(&self, _: ChannelFault) -> bool {
        false
    }

    async fn person_sends(&self, filename: &str, content: Bytes) -> Option<FileReference> {
        let path = self.directory.path().join(filename);
        fs::write(&path, content).unwrap();
        Some(FileReference::new(path.display().to_string(), Filename::from_untrusted(filename)))
    }
}

fn sorted(directory: PathBuf) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

satchel_contracts::channel_contract!(
    fixture(),
    without: [ConnectionRefused, RateLimited, ServerError, Reset, ResponseLost, ForeignResponse, Hang, Forbidden]
);
