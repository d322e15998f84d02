//! The handle of an uploaded file: what a message names it by, and what the channel fetches it by.

use std::time::Duration;

use satchel_domain::{ConversationId, Filename, Timestamp};
use satchel_ports::StoredBlob;
use serde::{Deserialize, Serialize};

/// How long an upload waits for the message that names it. The file store keeps what nothing references for longer.
pub(crate) const UPLOAD_TTL: Duration = Duration::from_secs(30 * 60);

/// A file that was uploaded. It is handed to the client, signed; nothing else remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UploadHandle {
    /// What lies in the file store.
    pub(crate) blob: StoredBlob,
    /// The conversation for which it was uploaded.
    pub(crate) conversation: ConversationId,
    pub(crate) filename: Filename,
    /// When it was stored.
    pub(crate) at: Timestamp,
}
