//! The channel: each message is a directory, named by the id of its part, with a text and files in it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use futures::TryStreamExt;
use satchel::embed::{
    domain::{
        ChannelCapabilities, ChannelName, ConversationId, FileReference, Filename, MessageRef, PartContent, Sha256,
        capabilities::{StreamRule, VoiceRule},
        delivery::SendError,
    },
    ports::{Blobs, Channel, FetchedFile, FileFetchError, PostRequest},
    tables,
};
use tokio::{fs, io::AsyncWriteExt};
use tokio_util::io::ReaderStream;

pub(crate) struct Board {
    pub directory: PathBuf,
    pub blobs: Arc<dyn Blobs>,
}

#[async_trait]
impl Channel for Board {
    fn name(&self) -> ChannelName {
        ChannelName::new("board").expect("the name is lower-case letters")
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        // Start with the table that comes nearest and change what differs. This one says that a second `post` of a part
        // makes no second message, and that a text and its files are one message.
        let (voice, stream) = (VoiceRule::AudioFile, StreamRule::None);
        ChannelCapabilities { file_bytes: 100_000_000, voice, stream, can_edit: false, ..tables::web() }
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let conversation = self.directory.join(request.conversation.to_file_name());
        let message = conversation.join(request.part_id.to_string());
        if !fs::try_exists(&message).await.map_err(not_sent)? {
            // The directory is renamed once it is complete, so an error here always means that nothing arrived.
            let draft = conversation.join(format!(".{}", request.part_id));
            self.write(&request.content, &draft).await?;
            fs::rename(&draft, &message).await.map_err(not_sent)?;
            fs::File::open(&conversation).await.map_err(not_sent)?.sync_all().await.map_err(not_sent)?;
        }
        Ok(vec![MessageRef(request.part_id.to_string())])
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        // Each channel defines its own locators: here they are paths.
        let file = fs::File::open(&reference.locator).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FileFetchError::Permanent { reason: "the file is gone".to_owned() },
            _ => FileFetchError::Retryable { reason: error.to_string() },
        })?;
        Ok(FetchedFile::Bytes { bytes: reference.bytes, content: Box::pin(ReaderStream::new(file)) })
    }
}

impl Board {
    async fn write(&self, content: &PartContent, draft: &Path) -> Result<(), SendError> {
        fs::create_dir_all(draft).await.map_err(not_sent)?;
        let text = match content {
            PartContent::Text { text, .. } | PartContent::Notice { text } | PartContent::Question { text, .. } => text,
            PartContent::Voice { caption, .. } => caption,
            PartContent::File(_) | PartContent::Album { .. } => "",
        };
        if !text.is_empty() {
            println!("{text}");
            fs::write(draft.join("text.md"), text).await.map_err(not_sent)?;
        }
        for (index, item) in content.files().iter().enumerate() {
            // Two files of a message may have the same name. `Filename` shortens names that are too long for a disk.
            let name = Filename::from_untrusted(&format!("{}-{}", index + 1, item.attachment.filename));
            self.copy(&item.attachment.sha256, draft.join(name.as_str())).await?;
        }
        if let PartContent::Voice { prepared: Some(voice), .. } = content {
            self.copy(&voice.sha256, draft.join("voice.ogg")).await?;
        }
        Ok(())
    }

    async fn copy(&self, sha256: &Sha256, to: PathBuf) -> Result<(), SendError> {
        // The stream checks the bytes against their digest.
        let mut content = self.blobs.open(sha256, None).await.map_err(unreadable)?;
        let mut file = fs::File::create(to).await.map_err(not_sent)?;
        while let Some(chunk) = content.try_next().await.map_err(unreadable)? {
            file.write_all(&chunk).await.map_err(not_sent)?;
        }
        file.sync_all().await.map_err(not_sent)
    }
}

/// A full disk may have space later: the part is retried.
fn not_sent(error: io::Error) -> SendError {
    SendError::NotSent { retry_after_ms: None, reason: error.to_string() }
}

/// Lost bytes don't come back: the failure is reported to the person.
fn unreadable(error: impl std::fmt::Display) -> SendError {
    SendError::Unreadable { reason: error.to_string() }
}
