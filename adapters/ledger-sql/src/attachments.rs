//! Files: each is stored once, and every other row names it by its id.

use std::collections::HashSet;

use satchel_domain::{Attachment, AttachmentId, ConversationId, NewAttachment, TurnId};
use satchel_ledger::{
    quota::Account,
    stored::{AttachmentRecords, StoredError},
};
use uuid::Uuid;

use crate::{
    columns::{FromRow, Row},
    lanes::LaneId,
    parameters::Json,
    params,
    rows::{self, AttachmentFields},
    session::{Session, VerbResult},
    verbs::usage,
};

/// The columns of [`AttachmentFields`], followed by the rest of the statement.
macro_rules! select_attachment {
    ($rest:expr) => {
        select_attachment!(""; $rest)
    };
    // With more columns.
    ($more:expr; $rest:expr) => {
        concat!(
            "SELECT attachments.id, lanes.conversation, number, source, filename, mime, bytes, sha256, media, description, ",
            "visibility, created_at, link_revocations", $more, " FROM attachments JOIN lanes ON lanes.id = attachments.lane ", $rest
        )
    };
}
pub(crate) use select_attachment;

impl FromRow for AttachmentFields {
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        Ok(Self {
            id: row.get("id")?,
            conversation: row.get("conversation")?,
            number: row.get("number")?,
            source: row.get("source")?,
            filename: row.get("filename")?,
            mime: row.get("mime")?,
            bytes: row.get("bytes")?,
            sha256: row.get("sha256")?,
            media: row.get::<Json<_>>("media")?.0,
            description: row.get("description")?,
            visibility: row.get("visibility")?,
            created_at: row.get("created_at")?,
            link_revocations: row.get("link_revocations")?,
        })
    }
}

/// Reads the records of the files that some rows name, in one statement, or none if there are no files.
pub(crate) async fn read_records<S: Session>(db: &S, files: HashSet<AttachmentId>) -> VerbResult<AttachmentRecords, S> {
    if files.is_empty() {
        return Ok(AttachmentRecords::default());
    }
    let ids: Vec<Uuid> = files.into_iter().map(|file| file.0).collect();
    let rows: Vec<AttachmentFields> =
        db.all(select_attachment!("WHERE attachments.id IN (SELECT value FROM rarray($1))"), params![ids]).await?;
    Ok(AttachmentRecords::from_rows(rows)?)
}

/// Reads the records of files that a caller names. All must be of this conversation.
pub(crate) async fn require_records<S: Session>(
    db: &S,
    conversation: &ConversationId,
    files: HashSet<AttachmentId>,
) -> VerbResult<AttachmentRecords, S> {
    let records = read_records(db, files.clone()).await?;
    records.require_all(conversation, files)?;
    Ok(records)
}

/// Stores a file of a turn and gives it its number, if it fits the quotas of the account; one that is stored already stays as
/// it is.
pub(crate) async fn store<S: Session>(
    db: &S,
    account: &Account,
    lane: LaneId,
    turn: TurnId,
    file: &NewAttachment,
) -> VerbResult<Attachment, S> {
    let conversation = &account.conversation;
    let mut known = read_records(db, HashSet::from([file.id])).await?;
    if let Some(stored) = known.remove(file.id) {
        return if stored.conversation == *conversation {
            Ok(stored)
        } else {
            Err(StoredError::unknown_file(file.id).into())
        };
    }
    usage::check(db, account, file.bytes).await?;
    let number: i64 = db
        .value("UPDATE lanes SET last_number = last_number + 1 WHERE id = $1 RETURNING last_number", params![lane])
        .await?;
    let attachment = file.clone().numbered(conversation.clone(), rows::attachment_number(number)?);
    db.run(
        "INSERT INTO attachments (id, lane, number, turn, source, filename, mime, bytes, sha256, media, description, \
             visibility, created_at, person) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        params![
            attachment.id.0,
            lane,
            number,
            turn.0,
            attachment.source.as_str(),
            attachment.filename.as_str(),
            attachment.mime,
            rows::signed(attachment.bytes),
            attachment.sha256.0,
            Json(&attachment.media),
            attachment.description,
            attachment.visibility.as_str(),
            attachment.created_at.0,
            account.person.as_ref().map(ToString::to_string),
        ],
    )
    .await?;
    usage::add_file(db, account, attachment.bytes).await?;
    Ok(attachment)
}
