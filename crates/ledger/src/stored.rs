//! The forms in which rows hold values, and why a row can't be read.

use std::collections::{HashMap, HashSet};

use satchel_domain::{Attachment, AttachmentId, ConversationId, Filename, LinkRevocation, Sha256, Visibility};
use serde::{Deserialize, Serialize};

use crate::rows::AttachmentFields;

pub(crate) type Result<T, E = StoredError> = std::result::Result<T, E>;

/// Why rows can't be read as what they stand for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    #[error("a row contains an invalid {what}")]
    Invalid { what: &'static str },
    /// A caller names what the conversation doesn't have.
    #[error("unknown {item}")]
    Unknown { item: String },
}

impl StoredError {
    /// The error for a file that a conversation doesn't have.
    #[must_use]
    pub fn unknown_file(file: AttachmentId) -> Self {
        Self::Unknown { item: format!("attachment {file}") }
    }
}

/// A file as a row names it: its id, and what that row says of it otherwise than its record.
///
/// A copy of the record that an earlier version has written in such a place is read as one that says it all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentRef {
    pub id: AttachmentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filename: Option<Filename>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mime: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    visibility: Option<Visibility>,
    /// How often the links to it had been revoked when the row was written.
    #[serde(default, skip_serializing_if = "is_zero")]
    link_revocations: u32,
    /// The bytes of a copy. Those of a page that was shown as a picture are not its document's.
    #[serde(default, skip_serializing)]
    sha256: Option<Sha256>,
}

impl From<AttachmentId> for AttachmentRef {
    fn from(id: AttachmentId) -> Self {
        Self { id, filename: None, mime: None, description: None, visibility: None, link_revocations: 0, sha256: None }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The records of the files that some rows name.
#[derive(Debug, Default)]
pub struct AttachmentRecords(HashMap<AttachmentId, Attachment>);

impl AttachmentRecords {
    /// Collects the records of rows.
    ///
    /// # Errors
    /// When a row can't be read.
    pub fn from_rows(rows: impl IntoIterator<Item = AttachmentFields>) -> Result<Self> {
        let records = rows.into_iter().map(|row| Ok((AttachmentId(row.id), row.into_attachment()?)));
        records.collect::<Result<_>>().map(Self)
    }

    /// Checks that files which a caller names are there and of this conversation.
    ///
    /// # Errors
    /// When one is not.
    pub fn require_all(&self, conversation: &ConversationId, files: HashSet<AttachmentId>) -> Result<()> {
        let is_known = |id: &AttachmentId| self.0.get(id).is_some_and(|record| record.conversation == *conversation);
        match files.into_iter().find(|id| !is_known(id)) {
            Some(foreign) => Err(StoredError::unknown_file(foreign)),
            None => Ok(()),
        }
    }

    /// Takes the record of a file out.
    pub fn remove(&mut self, file: AttachmentId) -> Option<Attachment> {
        self.0.remove(&file)
    }

    /// Lets new references to files be as old as these: what takes the place of a part was planned with it.
    pub fn keep_plan<'a>(&mut self, planned: impl IntoIterator<Item = &'a AttachmentRef>) {
        for file in planned {
            let record = self.0.get_mut(&file.id);
            if let Some(last) = record.and_then(|record| record.link_revocation.as_mut()) {
                last.planned_count = file.link_revocations;
            }
        }
    }

    /// The form in which a row names a file. Its number and its conversation are always those of the record.
    pub fn refer(&self, file: &Attachment) -> Result<AttachmentRef> {
        let record = self.0.get(&file.id).ok_or_else(|| StoredError::unknown_file(file.id))?;
        if record.is_forgotten() {
            return Ok(file.id.into());
        }
        Ok(AttachmentRef {
            id: file.id,
            filename: Some(file.filename.clone()).filter(|filename| *filename != record.filename),
            mime: Some(file.mime.clone()).filter(|mime| *mime != record.mime),
            description: Some(file.description.clone()).filter(|description| *description != record.description),
            visibility: Some(file.visibility).filter(|visibility| *visibility != record.visibility),
            link_revocations: record.link_revocation.map_or(0, |last| last.planned_count),
            sha256: None,
        })
    }

    /// The file that a row names; its tombstone if it was forgotten.
    pub fn resolve(&self, file: AttachmentRef) -> Result<Attachment> {
        let AttachmentRef { id, filename, mime, description, visibility, link_revocations, sha256 } = file;
        let record = self.0.get(&id).cloned().ok_or(StoredError::Invalid { what: "file's id" })?;
        if record.is_forgotten() || sha256.is_some_and(|sha256| sha256 != record.sha256) {
            return Ok(record);
        }
        let planned = |last: LinkRevocation| LinkRevocation { planned_count: link_revocations, ..last };
        Ok(Attachment {
            link_revocation: record.link_revocation.map(planned),
            filename: filename.unwrap_or(record.filename),
            mime: mime.unwrap_or(record.mime),
            description: description.unwrap_or(record.description),
            visibility: visibility.unwrap_or(record.visibility),
            ..record
        })
    }

    /// The file as a row that names it will be read: it may have been forgotten since its record was read.
    pub fn refresh(&self, file: &Attachment) -> Result<Attachment> {
        self.resolve(self.refer(file)?)
    }
}
