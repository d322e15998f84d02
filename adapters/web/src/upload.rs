//! The handle of an uploaded file, by which a message names it and the channel fetches it.

use std::time::Duration;

use satchel_domain::{ConversationId, Filename, Timestamp};
use satchel_ports::StoredBlob;
use serde::{Deserialize, Serialize};

/// How long an upload can be named by a message. The file store keeps unreferenced blobs for longer.
pub(crate) const UPLOAD_TTL: Duration = Duration::from_secs(30 * 60);

/// An uploaded file. The client gets it signed, and the server stores no copy.
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
