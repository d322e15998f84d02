//! Finds a conversation's attachments by id, and what the model reads of them.

use std::num::NonZeroU64;

use satchel_domain::{Attachment, AttachmentId, AttachmentSource, Filename, OutcomeFile, Sha256, Visibility};
use satchel_ports::{ToolContext, ToolError, ledger::AttachmentKey};
use serde::Serialize;

use crate::{ToolServices, error};

/// Reads the record of an attachment of the call's conversation.
///
/// A foreign id, a missing one and a text that is no id give the same words, so that nothing can be learnt of other
/// conversations.
pub(crate) async fn find_attachment(
    services: &ToolServices,
    context: &ToolContext,
    id: &str,
) -> Result<Attachment, ToolError> {
    let found = match id.parse::<AttachmentId>() {
        Ok(id) => services.archive.attachment(&context.conversation, AttachmentKey::Id(id)).await,
        Err(_) => Ok(None),
    };
    match found {
        Ok(Some(attachment)) if attachment.is_forgotten() => {
            Err(error::tool_error(format!("#{} was forgotten: a person removed the file", attachment.number)))
        }
        // The ledger promises it; a file of somebody else is too much to lose if it ever forgets.
        Ok(Some(attachment)) if attachment.conversation == context.conversation => Ok(attachment),
        Ok(_) => Err(unknown_id_error(id)),
        Err(error) => Err(error::tool_error_with_cause("the attachment's record could not be read", &error)),
    }
}

/// What is said of an id that is none of this conversation's.
pub(crate) fn unknown_id_error(id: &str) -> ToolError {
    let excerpt: String = id.escape_debug().take(100).collect();
    error::tool_error(format!(
        "`{excerpt}` is no attachment of this conversation: attachment.list shows those that are, with their ids"
    ))
}

/// An attachment's record as the model reads it.
#[derive(Debug, Serialize)]
pub(crate) struct AttachmentMetadata {
    id: AttachmentId,
    number: NonZeroU64,
    filename: Filename,
    mime: String,
    bytes: u64,
    sha256: Sha256,
    description: String,
    source: AttachmentSource,
    visibility: Visibility,
    created_at_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

impl From<Attachment> for AttachmentMetadata {
    fn from(attachment: Attachment) -> Self {
        Self {
            id: attachment.id,
            number: attachment.number,
            filename: attachment.filename,
            mime: attachment.mime,
            bytes: attachment.bytes,
            sha256: attachment.sha256,
            description: attachment.description,
            source: attachment.source,
            visibility: attachment.visibility,
            created_at_ms: attachment.created_at.0,
            width: attachment.media.width,
            height: attachment.media.height,
            duration_ms: attachment.media.duration_ms,
        }
    }
}

/// What is said of a file that waits for its delivery.
#[derive(Debug, Serialize)]
pub(crate) struct QueuedAttachment {
    id: AttachmentId,
    /// Left out of a new file, which has none before it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<NonZeroU64>,
    filename: Filename,
    #[serde(rename = "mimeType")]
    mime: String,
    bytes: u64,
}

impl From<&OutcomeFile> for QueuedAttachment {
    fn from(file: &OutcomeFile) -> Self {
        let (number, filename, mime) = match file {
            OutcomeFile::New(file) => (None, &file.filename, &file.mime),
            OutcomeFile::Stored(file) => (Some(file.number), &file.filename, &file.mime),
        };
        Self { id: file.id(), number, filename: filename.clone(), mime: mime.clone(), bytes: file.bytes() }
    }
}

impl From<&Attachment> for QueuedAttachment {
    fn from(file: &Attachment) -> Self {
        let Attachment { id, number, filename, mime, bytes, .. } = file.clone();
        Self { id, number: Some(number), filename, mime, bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use satchel_ports::MockArchive;

    use super::*;
    use crate::fakes::{ToolHarness, attachment};

    #[tokio::test]
    async fn foreign_missing_and_malformed_ids_are_indistinguishable() {
        let world = ToolHarness::new();
        let foreign = Attachment {
            conversation: "console:other".parse().unwrap(),
            ..attachment(7, "secret.txt", "text/plain", b"secret")
        };
        // Even a ledger that forgot its promise gives nothing away.
        let mut forgetful = MockArchive::new();
        let answer = foreign.clone();
        forgetful
            .expect_attachment()
            .returning(move |_, key| Ok((key == AttachmentKey::Id(answer.id)).then(|| answer.clone())));
        let services = ToolServices { archive: Arc::new(forgetful), ..world.services() };
        let missing = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e";
        for id in [foreign.id.to_string().as_str(), missing, "17", "", "../x", "not\u{202E}an id"] {
            let error = find_attachment(&services, &world.context(), id)
                .await
                .expect_err("no attachment of this conversation")
                .0;
            assert_eq!(
                error.split_once('`').and_then(|(_, rest)| rest.split_once('`')).map(|(_, words)| words),
                Some(" is no attachment of this conversation: attachment.list shows those that are, with their ids"),
                "{id}: {error}"
            );
        }
    }
}
