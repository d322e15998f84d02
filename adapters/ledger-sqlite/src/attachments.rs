//! Files: each is stored once, and every other row names it by its id.

use std::collections::HashSet;

use rusqlite::{Row, params};
use satchel_domain::{Attachment, AttachmentId, ConversationId, NewAttachment, TurnId};
pub(crate) use satchel_ledger::stored::AttachmentRef;
use satchel_ledger::stored::{self, StoredError};

use crate::{
    database::{Database, Json, Query, hex_ids},
    error::Result,
    lanes::LaneId,
    rows, usage,
};

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
pub(crate) struct AttachmentRow(rows::AttachmentFields);

impl TryFrom<&Row<'_>> for AttachmentRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self(rows::AttachmentFields {
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
        }))
    }
}

impl AttachmentRow {
    pub(crate) fn into_attachment(self) -> Result<Attachment> {
        Ok(self.0.into_attachment()?)
    }
}

/// The records of the files that some rows name.
#[derive(Debug, Default)]
pub(crate) struct Records(pub(crate) stored::AttachmentRecords);

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
        Ok(Self(stored::AttachmentRecords::from_rows(rows.into_iter().map(|row| row.0))?))
    }

    /// Reads the records of files that a caller names. All must be of this conversation.
    pub(crate) fn of_conversation(
        db: &Database,
        conversation: &ConversationId,
        files: HashSet<AttachmentId>,
    ) -> Result<Self> {
        let records = Self::read(db, files.clone())?;
        records.0.require_all(conversation, files)?;
        Ok(records)
    }

    /// The form in which a row names a file.
    pub(crate) fn refer(&self, file: &Attachment) -> Result<AttachmentRef> {
        Ok(self.0.refer(file)?)
    }

    /// The file that a row names; its tombstone if it was forgotten.
    pub(crate) fn resolve(&self, file: AttachmentRef) -> Result<Attachment> {
        Ok(self.0.resolve(file)?)
    }

    /// The file as a row that names it will be read: it may have been forgotten since its record was read.
    pub(crate) fn refresh(&self, file: &Attachment) -> Result<Attachment> {
        Ok(self.0.refresh(file)?)
    }
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
    if let Some(stored) = known.0.remove(file.id) {
        return if stored.conversation == *conversation {
            Ok(stored)
        } else {
            Err(StoredError::unknown_file(file.id).into())
        };
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
