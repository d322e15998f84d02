//! Files: each is stored once, and every other row names it by its id.

use std::collections::{HashMap, HashSet};

use rusqlite::{Row, params};
use satchel_domain::{
    Attachment, AttachmentId, ConversationId, Filename, MediaInfo, NewAttachment, Sha256, Timestamp, TurnId, Visibility,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    database::{Database, Json, Query, hex_ids},
    error::{Error, Result},
    lanes::LaneId,
    rows, usage,
};

/// A file as a row names it: its id, and what that row says of it otherwise than its record.
///
/// A copy of the record that an earlier version has written in such a place is read as one that says it all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachmentRef {
    pub(crate) id: AttachmentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filename: Option<Filename>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mime: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    visibility: Option<Visibility>,
    /// The bytes of a copy. Those of a page that was shown as a picture are not its document's.
    #[serde(default, skip_serializing)]
    sha256: Option<Sha256>,
}

impl From<AttachmentId> for AttachmentRef {
    fn from(id: AttachmentId) -> Self {
        Self { id, filename: None, mime: None, description: None, visibility: None, sha256: None }
    }
}

/// The columns of [`AttachmentRow`], followed by the rest of the statement.
macro_rules! select_attachment {
    ($rest:expr) => {
        select_attachment!(""; $rest)
    };
    // With more columns.
    ($more:expr; $rest:expr) => {
        concat!(
            "SELECT attachments.id, lanes.conversation, number, source, filename, mime, bytes, sha256, media, description, ",
            "visibility, created_at", $more, " FROM attachments JOIN lanes ON lanes.id = attachments.lane ", $rest
        )
    };
}
pub(crate) use select_attachment;

#[derive(Debug)]
pub(crate) struct AttachmentRow {
    id: Uuid,
    conversation: String,
    number: i64,
    source: String,
    filename: String,
    mime: String,
    bytes: i64,
    sha256: [u8; 32],
    media: MediaInfo,
    description: String,
    visibility: String,
    created_at: i64,
}

impl TryFrom<&Row<'_>> for AttachmentRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            conversation: row.get("conversation")?,
            number: row.get("number")?,
            source: row.get("source")?,
            filename: row.get("filename")?,
            mime: row.get("mime")?,
            bytes: row.get("bytes")?,
            sha256: row.get("sha256")?,
            media: row.get::<_, Json<_>>("media")?.0,
            description: row.get("description")?,
            visibility: row.get("visibility")?,
            created_at: row.get("created_at")?,
        })
    }
}

impl AttachmentRow {
    pub(crate) fn into_attachment(self) -> Result<Attachment> {
        Ok(Attachment {
            id: AttachmentId(self.id),
            number: rows::attachment_number(self.number)?,
            conversation: rows::conversation(&self.conversation)?,
            source: rows::from_text(self.source, "source of a file")?,
            filename: rows::from_text(self.filename, "name of a file")?,
            mime: self.mime,
            bytes: rows::number(self.bytes, "size of a file")?,
            sha256: Sha256(self.sha256),
            media: self.media,
            description: self.description,
            created_at: Timestamp(self.created_at),
            visibility: rows::from_text(self.visibility, "visibility of a file")?,
        })
    }
}

/// The records of the files that some rows name.
#[derive(Debug, Default)]
pub(crate) struct Records(HashMap<AttachmentId, Attachment>);

impl Records {
    /// Reads the records of files, in one statement, or none if there are no files.
    pub(crate) fn read(db: &Database, files: HashSet<AttachmentId>) -> Result<Self> {
        if files.is_empty() {
            return Ok(Self::default());
        }
        let rows: Vec<AttachmentRow> = db.all(
            select_attachment!("WHERE attachments.id IN (SELECT unhex(value) FROM json_each(?1))"),
            [hex_ids(files.into_iter().map(|file| file.0))],
        )?;
        let records = rows.into_iter().map(|row| Ok((AttachmentId(row.id), row.into_attachment()?)));
        records.collect::<Result<_>>().map(Self)
    }

    /// Reads the records of files that a caller names. All must be of this conversation.
    pub(crate) fn of_conversation(
        db: &Database,
        conversation: &ConversationId,
        files: HashSet<AttachmentId>,
    ) -> Result<Self> {
        let records = Self::read(db, files.clone())?;
        let is_known = |id: &AttachmentId| records.0.get(id).is_some_and(|record| record.conversation == *conversation);
        match files.into_iter().find(|id| !is_known(id)) {
            Some(foreign) => Err(unknown(foreign)),
            None => Ok(records),
        }
    }

    /// The form in which a row names a file. Its number and its conversation are always those of the record.
    pub(crate) fn refer(&self, file: &Attachment) -> Result<AttachmentRef> {
        let record = self.0.get(&file.id).ok_or_else(|| unknown(file.id))?;
        if record.is_forgotten() {
            return Ok(file.id.into());
        }
        Ok(AttachmentRef {
            id: file.id,
            filename: Some(file.filename.clone()).filter(|filename| *filename != record.filename),
            mime: Some(file.mime.clone()).filter(|mime| *mime != record.mime),
            description: Some(file.description.clone()).filter(|description| *description != record.description),
            visibility: Some(file.visibility).filter(|visibility| *visibility != record.visibility),
            sha256: None,
        })
    }

    /// The file that a row names; its tombstone if it was forgotten.
    pub(crate) fn resolve(&self, file: AttachmentRef) -> Result<Attachment> {
        let AttachmentRef { id, filename, mime, description, visibility, sha256 } = file;
        let record = self.0.get(&id).cloned().ok_or(Error::Row { what: "file's id" })?;
        if record.is_forgotten() || sha256.is_some_and(|sha256| sha256 != record.sha256) {
            return Ok(record);
        }
        Ok(Attachment {
            filename: filename.unwrap_or(record.filename),
            mime: mime.unwrap_or(record.mime),
            description: description.unwrap_or(record.description),
            visibility: visibility.unwrap_or(record.visibility),
            ..record
        })
    }

    /// The file as a row that names it will be read: it may have been forgotten since its record was read.
    pub(crate) fn refresh(&self, file: &Attachment) -> Result<Attachment> {
        self.resolve(self.refer(file)?)
    }
}

fn unknown(file: AttachmentId) -> Error {
    Error::unknown(format!("attachment {file}"))
}

/// Stores a file of a turn and gives it its number, if it fits the quotas; one that is stored already stays as it is.
pub(crate) fn store(
    db: &Database,
    conversation: &ConversationId,
    lane: LaneId,
    turn: TurnId,
    file: &NewAttachment,
) -> Result<Attachment> {
    let mut known = Records::read(db, HashSet::from([file.id]))?;
    if let Some(stored) = known.0.remove(&file.id) {
        return if stored.conversation == *conversation { Ok(stored) } else { Err(unknown(file.id)) };
    }
    let account = usage::account(db, conversation, turn)?;
    usage::check(db, &account, file.bytes)?;
    let number: i64 =
        db.value("UPDATE lanes SET last_number = last_number + 1 WHERE id = ?1 RETURNING last_number", [lane])?;
    let attachment = file.clone().numbered(conversation.clone(), rows::attachment_number(number)?);
    db.run(
        "INSERT INTO attachments (id, lane, number, turn, source, filename, mime, bytes, sha256, media, description, \
             visibility, created_at, person) \
         VALUES (?1, ?2, ?3, ?4, ?5 ->> '$', ?6, ?7, ?8, ?9, ?10, ?11, ?12 ->> '$', ?13, ?14)",
        params![
            attachment.id.0,
            lane,
            number,
            turn.0,
            Json(attachment.source),
            attachment.filename.as_str(),
            attachment.mime,
            rows::signed(attachment.bytes),
            attachment.sha256.0,
            Json(&attachment.media),
            attachment.description,
            Json(attachment.visibility),
            attachment.created_at.0,
            account.person.as_ref().map(ToString::to_string),
        ],
    )?;
    usage::add_file(db, &account, attachment.bytes)?;
    Ok(attachment)
}
