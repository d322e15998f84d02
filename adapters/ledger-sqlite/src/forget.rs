//! Forgets a file: its name and its address leave every row, and its number stays.

use rusqlite::{Row, params};
use satchel_domain::{Attachment, FileReference, Timestamp};
use satchel_ledger::{
    forget::{ForgottenFile, Rewrite, transcribed_text},
    quota::Account,
};
use satchel_ports::ledger::{ForgetOutcome, ForgetRequest, PersonKey, Transcription};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    attachments::{AttachmentRow, select_attachment},
    database::{Database, Json, Query},
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

impl TryFrom<&Row<'_>> for FileRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            turn: row.get("turn")?,
            person: row.get("person")?,
            forgotten_at: row.get("forgotten_at")?,
            attachment: row.try_into()?,
        })
    }
}

/// Forgets a file, unless something still needs it.
pub(crate) fn forget_file(db: &Database, forget: &ForgetRequest) -> Result<ForgetOutcome> {
    let ForgetRequest { conversation, number, restricted_to } = forget;
    let Some(lane) = lanes::find_id(db, conversation)? else { return Ok(ForgetOutcome::NotFound) };
    let row: Option<FileRow> = db.find(
        select_attachment!(", turn, person, forgotten_at"; "WHERE lane = ?1 AND number = ?2"),
        params![lane, rows::signed(*number)],
    )?;
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
    if let Some(needed) = needed(db, lane, row.turn, &file)? {
        return Ok(needed);
    }
    let forgotten = ForgottenFile { file: &file, transcription: read_transcription(db, &file)? };
    let copies = Copies { lane, turn: row.turn, forgotten };
    copies.erase(db)?;
    write_tombstone(db, &file)?;
    let account = Account { conversation: conversation.clone(), person, is_owner: false };
    usage::remove_file(db, &account, file.bytes)?;
    Ok(ForgetOutcome::Forgotten(Box::new(file)))
}

/// What still needs the file, if anything does.
fn needed(db: &Database, lane: LaneId, turn: Uuid, file: &Attachment) -> Result<Option<ForgetOutcome>> {
    let is_unsettled: bool = db.value(
        "SELECT EXISTS (SELECT 1 FROM parts WHERE lane = ?1 AND settled = 0 AND instr(content, ?2))",
        params![lane, file.id.to_string()],
    )?;
    if is_unsettled {
        return Ok(Some(ForgetOutcome::Unsettled));
    }
    let is_in_use: bool = db.value(
        "SELECT EXISTS (SELECT 1 FROM turns WHERE id = ?3 AND state = 'queued') \
         OR EXISTS (SELECT 1 FROM inbox JOIN inbox_files ON inbox_files.message = inbox.sequence \
             WHERE inbox.lane = ?1 AND inbox.consumed_by IS NULL AND inbox_files.attachment = ?4) \
         OR EXISTS (SELECT 1 FROM turns JOIN journal ON journal.turn = turns.id \
             WHERE turns.lane = ?1 AND turns.state = 'queued' AND instr(journal.entry, ?2))",
        params![lane, file.id.to_string(), turn, file.id.0],
    )?;
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
fn read_transcription(db: &Database, file: &Attachment) -> Result<Option<String>> {
    let transcription: Option<(Json<Transcription>,)> = db.find(
        "SELECT inbox_files.transcription FROM attachments JOIN inbox ON inbox.turn = attachments.turn \
         JOIN inbox_files ON inbox_files.message = inbox.sequence AND inbox_files.attachment = attachments.id \
         WHERE attachments.id = ?1 AND inbox_files.transcription IS NOT NULL",
        [file.id.0],
    )?;
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
        select: "SELECT sequence, message FROM history WHERE lane = ?1 AND instr(message, ?2)",
        update: "UPDATE history SET message = ?3 WHERE lane = ?1 AND sequence = ?2",
        rewrite: |forgotten, document| forgotten.rewrite_history(document),
    },
    FileColumn {
        select: "SELECT sequence, response FROM turns WHERE lane = ?1 AND instr(response, ?2)",
        update: "UPDATE turns SET response = ?3 WHERE lane = ?1 AND sequence = ?2",
        rewrite: |forgotten, document| forgotten.rewrite_response(document),
    },
    FileColumn {
        select: "SELECT rowid, content FROM parts WHERE lane = ?1 AND instr(content, ?2)",
        update: "UPDATE parts SET content = ?3 WHERE lane = ?1 AND rowid = ?2",
        rewrite: |forgotten, document| forgotten.rewrite_part(document),
    },
];

/// Leaves a row of the file's number alone.
fn write_tombstone(db: &Database, file: &Attachment) -> Result<()> {
    let mut tombstone = file.clone();
    tombstone.erase();
    db.run(
        "UPDATE attachments SET filename = ?2, mime = ?3, bytes = ?4, sha256 = ?5, media = ?6, description = ?7, \
             forgotten_at = ?8 WHERE id = ?1",
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
    )?;
    Ok(())
}

impl Copies<'_> {
    /// Removes what rows say of the file, and the words that were heard in it; its id stays.
    fn erase(&self, db: &Database) -> Result<()> {
        for column in &FILE_COLUMNS {
            let documents: Vec<(i64, Json<Value>)> =
                db.all(column.select, params![self.lane, self.forgotten.file.id.to_string()])?;
            for (row, document) in documents {
                db.run(column.update, params![self.lane, row, Json((column.rewrite)(&self.forgotten, document.0)?)])?;
            }
        }
        self.erase_in_journal(db)?;
        self.erase_in_updates(db)?;
        self.erase_in_inbox(db)?;
        self.erase_in_index(db)
    }

    /// The turns that name the file are indexed anew, without its name and its words.
    fn erase_in_index(&self, db: &Database) -> Result<()> {
        search::reindex_turn(db, self.turn)?;
        let naming: Vec<(Uuid,)> = db.all(
            "SELECT id FROM turns WHERE lane = ?1 AND instr(response, ?2)",
            params![self.lane, self.forgotten.file.id.to_string()],
        )?;
        naming.into_iter().try_for_each(|(turn,)| search::reindex_turn(db, turn))
    }

    fn erase_in_journal(&self, db: &Database) -> Result<()> {
        let documents: Vec<(Uuid, i64, Json<Value>)> = db.all(
            "SELECT journal.turn, journal.position, journal.entry FROM turns JOIN journal ON journal.turn = turns.id \
             WHERE turns.lane = ?1 AND instr(journal.entry, ?2)",
            params![self.lane, self.forgotten.file.id.to_string()],
        )?;
        for (turn, position, document) in documents {
            let rewritten = self.forgotten.rewrite_entry(document.0)?;
            db.run(
                "UPDATE journal SET entry = ?3 WHERE turn = ?1 AND position = ?2",
                params![turn, position, Json(rewritten)],
            )?;
        }
        Ok(())
    }

    /// Drops the updates, as the platform sent them, that name the file: replies and edits repeat the message that brought
    /// it.
    fn erase_in_updates(&self, db: &Database) -> Result<()> {
        let brought: Vec<(Json<FileReference>,)> = db.all(
            "SELECT inbox_files.reference FROM inbox JOIN inbox_files ON inbox_files.message = inbox.sequence \
             WHERE inbox.turn = ?1 AND inbox_files.attachment = ?2",
            [self.turn, self.forgotten.file.id.0],
        )?;
        for (Json(reference),) in brought {
            for trace in [reference.filename.as_str(), reference.locator.as_str()] {
                // As it stands within a JSON document.
                let quoted = Value::from(trace).to_string();
                db.run(
                    "UPDATE inbox SET message = json_remove(message, '$.raw') \
                     WHERE turn IN (SELECT id FROM turns WHERE lane = ?1) \
                       AND instr(json_extract(message, '$.raw'), ?2)",
                    params![self.lane, quoted],
                )?;
            }
        }
        Ok(())
    }

    /// The message that brought the file names it twice: as the channel saw it, and as the platform sent it. What was
    /// heard in it was made from its bytes.
    fn erase_in_inbox(&self, db: &Database) -> Result<()> {
        let brought: Vec<(i64, i64)> = db.all(
            "SELECT inbox_files.message, inbox_files.position FROM inbox \
             JOIN inbox_files ON inbox_files.message = inbox.sequence \
             WHERE inbox.turn = ?1 AND inbox_files.attachment = ?2",
            [self.turn, self.forgotten.file.id.0],
        )?;
        let mut tombstone = self.forgotten.file.clone();
        tombstone.erase();
        let name = tombstone.filename.as_str();
        for (message, position) in brought {
            let in_message = |field: &str| format!("$.files[{position}].{field}");
            db.run(
                "UPDATE inbox SET message = json_remove(json_set(message, ?2, ?5, ?3, '', ?4, ''), '$.raw') \
                 WHERE sequence = ?1",
                params![message, in_message("filename"), in_message("locator"), in_message("caption"), name],
            )?;
            db.run(
                "UPDATE inbox_files SET transcription = NULL, sha256 = NULL, \
                     reference = json_set(reference, '$.filename', ?3, '$.locator', '', '$.caption', '') \
                 WHERE message = ?1 AND position = ?2",
                params![message, position, name],
            )?;
        }
        Ok(())
    }
}
