//! The web as a [`Channel`]: a part has arrived when its bytes can be opened, because the page reads the ledger.
//! What people upload is fetched by its signed handle.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, Filename, MessageRef, PartContent, Sha256,
    Timestamp, delivery::SendError,
};
use satchel_ports::{
    Activity, BlobError, Blobs, Channel, FetchedFile, FileFetchError, PostRequest, Storage, StoredBlob,
};
use serde::{Deserialize, Serialize};

use crate::{
    WebError, WebSettings,
    links::SignedLinks,
    revocations,
    signing::{Purpose, SigningKey},
};

/// How long an upload can be named by a message. The file store keeps unreferenced blobs for longer.
pub(crate) const UPLOAD_TTL: Duration = Duration::from_secs(30 * 60);

/// The channel of the page.
const PAGE_CHANNEL: &str = "web";

/// The channel of programs that keep their conversations themselves. The page doesn't list it.
pub(crate) const API_CHANNEL: &str = "api";

/// Delivers parts to the page.
///
/// A message's id is its part's id, so that a part sent twice is the same message. The content is in the ledger; the
/// channel has no state.
pub struct WebChannel {
    name: &'static str,
    capabilities: ChannelCapabilities,
    blobs: Arc<dyn Blobs>,
    key: SigningKey,
    links: SignedLinks,
}

/// An uploaded file, as a message names it and the channel fetches it. The client gets it signed, and the server stores
/// no copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UploadHandle {
    /// The blob in the file store.
    pub(crate) blob: StoredBlob,
    /// The conversation for which it was uploaded.
    pub(crate) conversation: ConversationId,
    pub(crate) filename: Filename,
    /// When it was stored.
    pub(crate) at: Timestamp,
}

impl WebChannel {
    /// Opens the channel and, at the first start, creates the key that signs uploads and links.
    ///
    /// # Errors
    /// When the key can be neither read nor created, and when revocations of an earlier version can't be moved into the
    /// ledger.
    pub async fn open(settings: &WebSettings, blobs: Arc<dyn Blobs>, storage: &dyn Storage) -> Result<Self, WebError> {
        revocations::move_into_ledger(&settings.key_file, storage).await?;
        let key = SigningKey::load_or_create(&settings.key_file)?;
        let links = SignedLinks::new(key.clone());
        Ok(Self { name: PAGE_CHANNEL, capabilities: settings.capabilities.clone(), blobs, key, links })
    }

    /// Creates the channel of programs that talk to the same server and keep their conversations themselves.
    #[must_use]
    pub fn for_programs(&self) -> Self {
        Self {
            name: API_CHANNEL,
            capabilities: self.capabilities.clone(),
            blobs: Arc::clone(&self.blobs),
            key: self.key.clone(),
            links: self.links.clone(),
        }
    }

    pub(crate) fn key(&self) -> &SigningKey {
        &self.key
    }

    pub(crate) fn links(&self) -> &SignedLinks {
        &self.links
    }

    /// Checks that all files of a part can be opened.
    async fn check(&self, content: &PartContent) -> Result<(), SendError> {
        let voice = match content {
            PartContent::Voice { prepared: Some(voice), .. } => Some(voice.sha256),
            _ => None,
        };
        let files = content.files().iter().map(|item| item.attachment.sha256);
        for sha256 in files.chain(voice) {
            let opened = self.blobs.open(&sha256, Some(0..1)).await;
            opened.map(drop).map_err(|error| match error {
                BlobError::Missing(_) | BlobError::Damaged(_) => SendError::Unreadable { reason: error.to_string() },
                // The store failed and not this blob, so a retry can help.
                other => SendError::NotSent { retry_after_ms: None, reason: other.to_string() },
            })?;
        }
        Ok(())
    }

    async fn check_stored(&self, sha256: &Sha256) -> Result<(), FileFetchError> {
        match self.blobs.open(sha256, Some(0..1)).await {
            Ok(_) => Ok(()),
            Err(BlobError::Missing(_) | BlobError::Damaged(_)) => {
                Err(FileFetchError::Permanent { reason: "it has expired; please upload it again".to_owned() })
            }
            Err(error) => Err(FileFetchError::Retryable { reason: error.to_string() }),
        }
    }
}

impl fmt::Debug for WebChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebChannel").field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

#[async_trait]
impl Channel for WebChannel {
    fn name(&self) -> ChannelName {
        ChannelName::new(self.name).expect("the names are lower-case letters")
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        self.capabilities.clone()
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        self.check(&request.content).await?;
        Ok(vec![MessageRef(request.part_id.to_string())])
    }

    async fn edit(&self, message: &MessageRef, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        self.check(&request.content).await?;
        Ok(vec![message.clone()])
    }

    /// Does nothing, because the page shows the state of the ledger.
    async fn delete(&self, _: &ConversationId, _: &MessageRef) -> Result<(), SendError> {
        Ok(())
    }

    async fn probe(&self) -> Result<(), SendError> {
        Ok(())
    }

    /// Does nothing, because the page shows the events of the bus.
    async fn show_activity(&self, _: &ConversationId, _: Activity) {}

    /// The age of an upload isn't checked here: it was when a message named it, and that message may have waited since.
    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        let upload: Option<UploadHandle> = self.key.verify(Purpose::Upload, &reference.locator);
        let Some(upload) = upload else {
            return Err(FileFetchError::Permanent { reason: "the upload was not created by this server".to_owned() });
        };
        self.check_stored(&upload.blob.sha256).await?;
        Ok(FetchedFile::Stored(upload.blob))
    }
}

#[cfg(test)]
mod contract;
