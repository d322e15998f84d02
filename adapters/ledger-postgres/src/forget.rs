//! Forgets a file: its name and its address leave every row, and its number stays.

use satchel_domain::{Attachment, FileReference, Timestamp};
use satchel_ledger::{
    forget::{ForgottenFile, Rewrite, transcribed_text},
    quota::Account,
};
use satchel_ports::ledger::{ForgetOutcome, ForgetRequest, PersonKey, Transcription};
use serde_json::Value;
use sqlx::{FromRow, Row, postgres::PgRow};
use uuid::Uuid;

use crate::{
    attachments::{AttachmentRow, select_attachment},
    database::{Database, Json, params},
    error::{Error, Result},
    lanes::{self, LaneId},
    rows, search, usage,
};

struct FileRow {
    turn: Uuid,
    person: Option<String>,
    forgotten_at: Option<i64>,
    attachment: AttachmentRow,
}

impl FromRow<'_, PgRow> for FileRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            turn: row.try_get("turn")?,
            person: row.try_get("person")?,
            forgotten_at: row.try_get("forgotten_at")?,
            attachment: AttachmentRow::from_row(row)?,
        })
    }
}

/// Forgets a file, unless something still needs it.
pub(crate) async fn forget_file(db: &Database, forget: &ForgetRequest) -> Result<ForgetOutcome> {
    let ForgetRequest { conversation, number, restricted_to } = forget;
    let Some(lane) = lanes::find_id(db, conversation).await? else { return Ok(ForgetOutcome::NotFound) };
    let row: Option<FileRow> = db
        .find(
            select_attachment!(", turn, person, forgotten_at"; "WHERE lane = $1 AND number = $2"),
            params![lane, rows::signed(*number)],
        )
        .await?;
    let Some(row) = row else { return Ok(ForgetOutcome::NotFound) };
    let person: Option<PersonKey> =
        row.person.map(|person| person.parse().map_err(|_| Error::Row { what: "person" })).transpose()?;
    if restricted_to.is_some() && *restricted_to != person {
        return Ok(ForgetOutcome::NotPermitted);
    }
    if let Some(forgotten_at) = row.forgotten_at {
        return Ok(ForgetOutcome::AlreadyForgotten(Timestamp(forgotten_at)));
    }
    let file = row.attachment.into_attachment()?;
    if let Some(needed) = needed(db, lane, row.turn, &file).await? {
        return Ok(needed);
    }
    let forgotten = ForgottenFile { file: &file, transcription: read_transcription(db, &file).await? };
    let copies = Copies { lane, turn: row.turn, forgotten };
    copies.erase(db).await?;
    write_tombstone(db, &file).await?;
    let account = Account { conversation: conversation.clone(), person, is_owner: false };
    usage::remove_file(db, &account, file.bytes).await?;
    Ok(ForgetOutcome::Forgotten(Box::new(file)))
}

/// What still needs the file, if anything does.
async fn needed(db: &Database, lane: LaneId, turn: Uuid, file: &Attachment) -> Result<Option<ForgetOutcome>> {
    let is_unsettled: bool = db
        .value(
            "SELECT EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled AND strpos(content, $2) > 0)",
            params![lane, file.id.to_string()],
        )
        .await?;
    if is_unsettled {
        return Ok(Some(ForgetOutcome::Unsettled));
    }
    let is_in_use: bool = db
        .value(
            "SELECT EXISTS (SELECT 1 FROM turns WHERE id = $3 AND state = 'queued') \
         OR EXISTS (SELECT 1 FROM inbox JOIN inbox_files ON inbox_files.message = inbox.sequence \
             WHERE inbox.lane = $1 AND inbox.consumed_by IS NULL AND inbox_files.attachment = $4) \
         OR EXISTS (SELECT 1 FROM turns JOIN journal ON journal.turn = turns.id \
             WHERE turns.lane = $1 AND turns.state = 'queued' AND strpos(journal.entry, $2) > 0)",
            params![lane, file.id.to_string(), turn, file.id.0],
        )
        .await?;
    Ok(is_in_use.then_some(ForgetOutcome::InUse))
}

/// What rows hold of a file besides its own.
struct Copies<'a> {
    lane: LaneId,
    /// The turn that it came with.
    turn: Uuid,
    forgotten: ForgottenFile<'a>,
}

/// Reads the words of a voice note.
async fn read_transcription(db: &Database, file: &Attachment) -> Result<Option<String>> {
    let transcription: Option<(Json<Transcription>,)> = db
        .find(
            "SELECT inbox_files.transcription FROM attachments JOIN inbox ON inbox.turn = attachments.turn \
         JOIN inbox_files ON inbox_files.message = inbox.sequence AND inbox_files.attachment = attachments.id \
         WHERE attachments.id = $1 AND inbox_files.transcription IS NOT NULL",
            params![file.id.0],
        )
        .await?;
    Ok(transcription.and_then(|(transcription,)| transcribed_text(transcription.0)))
}

/// A column of documents that name files: its rows, and how a document is rewritten.
struct FileColumn {
    select: &'static str,
    update: &'static str,
    rewrite: Rewrite,
}

const FILE_COLUMNS: [FileColumn; 3] = [
    FileColumn {
        select: "SELECT sequence::TEXT, message FROM history WHERE lane = $1 AND strpos(message, $2) > 0",
        update: "UPDATE history SET message = $3 WHERE lane = $1 AND sequence = $2::BIGINT",
        rewrite: |forgotten, document| forgotten.rewrite_history(document),
    },
    FileColumn {
        select: "SELECT sequence::TEXT, response FROM turns WHERE lane = $1 AND strpos(response, $2) > 0",
        update: "UPDATE turns SET response = $3 WHERE lane = $1 AND sequence = $2::BIGINT",
        rewrite: |forgotten, document| forgotten.rewrite_response(document),
    },
    FileColumn {
        select: "SELECT id::TEXT, content FROM parts WHERE lane = $1 AND strpos(content, $2) > 0",
        update: "UPDATE parts SET content = $3 WHERE lane = $1 AND id = $2::UUID",
        rewrite: |forgotten, document| forgotten.rewrite_part(document),
    },
];

/// Leaves a row of the file's number alone.
async fn write_tombstone(db: &Database, file: &Attachment) -> Result<()> {
    let mut tombstone = file.clone();
    tombstone.erase();
    db.run(
        "UPDATE attachments SET filename = $2, mime = $3, bytes = $4, sha256 = $5, media = $6, description = $7, \
             forgotten_at = $8 WHERE id = $1",
        params![
            file.id.0,
            tombstone.filename.as_str(),
            tombstone.mime,
            rows::signed(tombstone.bytes),
            tombstone.sha256.0,
            Json(&tombstone.media),
            tombstone.description,
            db.now().0,
        ],
    )
    .await?;
    Ok(())
}

impl Copies<'_> {
    /// Removes what rows say of the file, and the words that were heard in it; its id stays.
    async fn erase(&self, db: &Database) -> Result<()> {
        for column in &FILE_COLUMNS {
            let documents: Vec<(String, Json<Value>)> =
                db.all(column.select, params![self.lane, self.forgotten.file.id.to_string()]).await?;
            for (row, document) in documents {
                db.run(column.update, params![self.lane, row, Json((column.rewrite)(&self.forgotten, document.0)?)])
                    .await?;
            }
        }
        self.erase_in_journal(db).await?;
        self.erase_in_updates(db).await?;
        self.erase_in_inbox(db).await?;
        self.erase_in_index(db).await
    }

    /// The turns that name the file are indexed anew, without its name and its words.
    async fn erase_in_index(&self, db: &Database) -> Result<()> {
        search::reindex_turn(db, self.turn).await?;
        let naming: Vec<(Uuid,)> = db
            .all(
                "SELECT id FROM turns WHERE lane = $1 AND strpos(response, $2) > 0",
                params![self.lane, self.forgotten.file.id.to_string()],
            )
            .await?;
        for (turn,) in naming {
            search::reindex_turn(db, turn).await?;
        }
        Ok(())
    }

    async fn erase_in_journal(&self, db: &Database) -> Result<()> {
        let documents: Vec<(Uuid, i64, Json<Value>)> = db.all(
            "SELECT journal.turn, journal.position, journal.entry FROM turns JOIN journal ON journal.turn = turns.id \
             WHERE turns.lane = $1 AND strpos(journal.entry, $2) > 0",
            params![self.lane, self.forgotten.file.id.to_string()],
        ).await?;
        for (turn, position, document) in documents {
            let rewritten = self.forgotten.rewrite_entry(document.0)?;
            db.run(
                "UPDATE journal SET entry = $3 WHERE turn = $1 AND position = $2",
                params![turn, position, Json(rewritten)],
            )
            .await?;
        }
        Ok(())
    }

    /// Drops the updates, as the platform sent them, that name the file: replies and edits repeat the message that brought
    /// it.
    async fn erase_in_updates(&self, db: &Database) -> Result<()> {
        let brought: Vec<(Json<FileReference>,)> = db
            .all(
                "SELECT inbox_files.reference FROM inbox JOIN inbox_files ON inbox_files.message = inbox.sequence \
             WHERE inbox.turn = $1 AND inbox_files.attachment = $2",
                params![self.turn, self.forgotten.file.id.0],
            )
            .await?;
        for (Json(reference),) in brought {
            for trace in [reference.filename.as_str(), reference.locator.as_str()] {
                // As it stands within a JSON document.
                let quoted = Value::from(trace).to_string();
                db.run(
                    "UPDATE inbox SET message = (message::jsonb - 'raw')::TEXT \
                     WHERE turn IN (SELECT id FROM turns WHERE lane = $1) \
                       AND strpos(message::json ->> 'raw', $2) > 0",
                    params![self.lane, quoted],
                )
                .await?;
            }
        }
        Ok(())
    }

    /// The message that brought the file names it twice: as the channel saw it, and as the platform sent it. What was
    /// heard in it was made from its bytes.
    async fn erase_in_inbox(&self, db: &Database) -> Result<()> {
        let brought: Vec<(i64, i64)> = db
            .all(
                "SELECT inbox_files.message, inbox_files.position FROM inbox \
             JOIN inbox_files ON inbox_files.message = inbox.sequence \
             WHERE inbox.turn = $1 AND inbox_files.attachment = $2",
                params![self.turn, self.forgotten.file.id.0],
            )
            .await?;
        let mut tombstone = self.forgotten.file.clone();
        tombstone.erase();
        let name = tombstone.filename.as_str();
        for (message, position) in brought {
            db.run(
                "UPDATE inbox SET message = (jsonb_set(message::jsonb, ARRAY['files', $2::BIGINT::TEXT], \
                     message::jsonb #> ARRAY['files', $2::BIGINT::TEXT] \
                     || jsonb_build_object('filename', $3, 'locator', '', 'caption', '')) - 'raw')::TEXT \
                 WHERE sequence = $1",
                params![message, position, name],
            )
            .await?;
            db.run(
                "UPDATE inbox_files SET transcription = NULL, sha256 = NULL, reference = \
                     (reference::jsonb || jsonb_build_object('filename', $3, 'locator', '', 'caption', ''))::TEXT \
                 WHERE message = $1 AND position = $2",
                params![message, position, name],
            )
            .await?;
        }
        Ok(())
    }
}
