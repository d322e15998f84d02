//! Files: each is stored once, and every other row names it by its id.

use std::collections::{HashMap, HashSet};

use satchel_domain::{
    Attachment, AttachmentId, ConversationId, Filename, MediaInfo, NewAttachment, Sha256, Timestamp, TurnId, Visibility,
};
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    process::Process,
    rows,
    session::Session,
    usage,
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
            "SELECT id, conversation, number, source, filename, mime, bytes, sha256, media, description, visibility, ",
            "created_at", $more, " FROM attachments ", $rest
        )
    };
}
pub(crate) use select_attachment;

#[derive(Debug, sqlx::FromRow)]
pub(crate) struct AttachmentRow {
    id: Uuid,
    conversation: String,
    number: i64,
    source: String,
    filename: String,
    mime: String,
    bytes: i64,
    sha256: Vec<u8>,
    media: Json<MediaInfo>,
    description: String,
    visibility: String,
    created_at: i64,
}

impl AttachmentRow {
    pub(crate) fn into_attachment(self) -> Result<Attachment> {
        let sha256 = self.sha256.try_into().map_err(|_| Error::Row { what: "digest of a file" })?;
        Ok(Attachment {
            id: AttachmentId(self.id),
            number: rows::attachment_number(self.number)?,
            conversation: rows::conversation(&self.conversation)?,
            source: rows::from_text(self.source, "source of a file")?,
            filename: rows::from_text(self.filename, "name of a file")?,
            mime: self.mime,
            bytes: rows::number(self.bytes, "size of a file")?,
            sha256: Sha256(sha256),
            media: self.media.0,
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
    pub(crate) async fn read(session: &mut Session<'_>, files: HashSet<AttachmentId>) -> Result<Self> {
        if files.is_empty() {
            return Ok(Self::default());
        }
        let ids: Vec<String> = files.into_iter().map(|file| format!("{:X}", file.0.simple())).collect();
        let rows: Vec<AttachmentRow> =
            sqlx::query_as(select_attachment!("WHERE id IN (SELECT unhex(value) FROM json_each($1))"))
                .bind(Json(ids))
                .fetch_all(session.connection().await?)
                .await?;
        let records = rows.into_iter().map(|row| Ok((AttachmentId(row.id), row.into_attachment()?)));
        records.collect::<Result<_>>().map(Self)
    }

    /// Reads the records of files that a caller names. All must be of this conversation.
    pub(crate) async fn of_conversation(
        session: &mut Session<'_>,
        conversation: &ConversationId,
        files: HashSet<AttachmentId>,
    ) -> Result<Self> {
        let records = Self::read(session, files.clone()).await?;
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

/// Stores a file and gives it its number, if it fits the quotas; one that is stored already stays as it is.
pub(crate) async fn store(
    session: &mut Session<'_>,
    process: &Process,
    conversation: &ConversationId,
    turn: TurnId,
    file: &NewAttachment,
) -> Result<Attachment> {
    let mut known = Records::read(session, HashSet::from([file.id])).await?;
    if let Some(stored) = known.0.remove(&file.id) {
        return if stored.conversation == *conversation { Ok(stored) } else { Err(unknown(file.id)) };
    }
    let rules = &process.settings.quotas;
    let account = usage::account(session, rules, conversation, turn).await?;
    usage::check(session, rules, &account, file.bytes).await?;
    let number: i64 = sqlx::query_scalar(
        "UPDATE lanes SET last_number = last_number + 1 WHERE conversation = $1 RETURNING last_number",
    )
    .bind(conversation.to_string())
    .fetch_one(session.connection().await?)
    .await?;
    let attachment = file.clone().numbered(conversation.clone(), rows::attachment_number(number)?);
    sqlx::query(
        "INSERT INTO attachments (id, conversation, number, turn, source, filename, mime, bytes, sha256, media, description, \
             visibility, created_at, person) \
         VALUES ($1, $2, $3, $4, $5 ->> '$', $6, $7, $8, $9, $10, $11, $12 ->> '$', $13, $14)",
    )
    .bind(attachment.id.0)
    .bind(conversation.to_string())
    .bind(number)
    .bind(turn.0)
    .bind(Json(attachment.source))
    .bind(attachment.filename.as_str())
    .bind(&attachment.mime)
    .bind(i64::try_from(attachment.bytes).unwrap_or(i64::MAX))
    .bind(attachment.sha256.0.as_slice())
    .bind(Json(&attachment.media))
    .bind(&attachment.description)
    .bind(Json(attachment.visibility))
    .bind(attachment.created_at.0)
    .bind(account.person.as_ref().map(ToString::to_string))
    .execute(session.connection().await?)
    .await?;
    usage::add_file(session, &account, attachment.bytes).await?;
    Ok(attachment)
}
