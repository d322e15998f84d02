//! Forgets a file: its name and its address leave every row, and its number stays.

use satchel_domain::{
    Attachment, ConversationId, FileReference, HistoryMessage, OutgoingResponse, PartContent, Timestamp,
};
use satchel_ports::ledger::{ForgetOutcome, ForgetRequest, JournalEntry, PersonKey, Transcription};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    attachments::{AttachmentRef, AttachmentRow, select_attachment},
    batch::Batch,
    error::{Error, Result},
    process::Process,
    session::Session,
    usage,
};

/// What stands in place of the words of a voice note.
const REPLACEMENT: &str = "(forgotten)";

#[derive(sqlx::FromRow)]
struct FileRow {
    turn: Uuid,
    person: Option<String>,
    forgotten_at: Option<i64>,
    #[sqlx(flatten)]
    attachment: AttachmentRow,
}

/// Forgets a file, unless something still needs it.
pub(crate) async fn forget_file(
    session: &mut Session<'_>,
    process: &Process,
    forget: &ForgetRequest,
) -> Result<ForgetOutcome> {
    let ForgetRequest { conversation, number, restricted_to: only_of } = forget;
    let row: Option<FileRow> = sqlx::query_as(select_attachment!(
        ", turn, person, forgotten_at";
        "WHERE conversation = $1 AND number = $2"
    ))
    .bind(conversation.to_string())
    .bind(i64::try_from(*number).unwrap_or(i64::MAX))
    .fetch_optional(session.connection().await?)
    .await?;
    let Some(row) = row else { return Ok(ForgetOutcome::NotFound) };
    let person: Option<PersonKey> =
        row.person.map(|person| person.parse().map_err(|_| Error::Row { what: "person" })).transpose()?;
    if only_of.is_some() && *only_of != person {
        return Ok(ForgetOutcome::NotPermitted);
    }
    if let Some(forgotten_at) = row.forgotten_at {
        return Ok(ForgetOutcome::AlreadyForgotten(Timestamp(forgotten_at)));
    }
    let file = row.attachment.into_attachment()?;
    if let Some(needed) = needed(session, conversation, row.turn, &file).await? {
        return Ok(needed);
    }
    let copies = Copies { file: &file, transcription: read_transcription(session, &file).await? };
    erase(session, conversation, row.turn, &copies).await?;
    write_tombstone(session, &file, process.now()).await?;
    usage::remove_file(session, conversation, person.as_ref(), file.bytes).await?;
    Ok(ForgetOutcome::Forgotten(Box::new(file)))
}

/// What still needs the file, if anything does.
async fn needed(
    session: &mut Session<'_>,
    conversation: &ConversationId,
    turn: Uuid,
    file: &Attachment,
) -> Result<Option<ForgetOutcome>> {
    let (unsettled, in_use): (bool, bool) = sqlx::query_as(
        "SELECT EXISTS (SELECT 1 FROM parts WHERE conversation = $1 AND settled = 0 AND instr(content, $2)), \
         EXISTS (SELECT 1 FROM turns WHERE id = $3 AND state = 'queued') \
         OR EXISTS (SELECT 1 FROM inbox JOIN inbox_files ON inbox_files.message = inbox.sequence \
             WHERE inbox.conversation = $1 AND inbox.consumed_by IS NULL AND inbox_files.attachment = $4) \
         OR EXISTS (SELECT 1 FROM turns JOIN journal ON journal.turn = turns.id \
             WHERE turns.conversation = $1 AND turns.state = 'queued' AND instr(journal.entry, $2))",
    )
    .bind(conversation.to_string())
    .bind(file.id.to_string())
    .bind(turn)
    .bind(file.id.0)
    .fetch_one(session.connection().await?)
    .await?;
    Ok(match (unsettled, in_use) {
        (true, _) => Some(ForgetOutcome::Unsettled),
        (false, true) => Some(ForgetOutcome::InUse),
        (false, false) => None,
    })
}

/// What rows hold of a file besides its own.
struct Copies<'a> {
    file: &'a Attachment,
    /// The words that were heard in it: they were made from its bytes.
    transcription: Option<String>,
}

/// Reads the words of a voice note.
async fn read_transcription(session: &mut Session<'_>, file: &Attachment) -> Result<Option<String>> {
    let transcription: Option<(Json<Transcription>,)> = sqlx::query_as(
        "SELECT inbox_files.transcription FROM attachments JOIN inbox ON inbox.turn = attachments.turn \
         JOIN inbox_files ON inbox_files.message = inbox.sequence AND inbox_files.attachment = attachments.id \
         WHERE attachments.id = $1 AND inbox_files.transcription IS NOT NULL",
    )
    .bind(file.id.0)
    .fetch_optional(session.connection().await?)
    .await?;
    Ok(transcription.and_then(|(transcription,)| match transcription.0 {
        Transcription::Text(words) => Some(words.trim().to_owned()).filter(|words| !words.is_empty()),
        Transcription::Failed(_) => None,
    }))
}

/// A column of documents that name files: its rows, and how a document is rewritten.
struct FileColumn {
    select: &'static str,
    update: &'static str,
    rewrite: fn(&Copies<'_>, Value) -> Result<Value>,
}

const FILE_COLUMNS: [FileColumn; 3] = [
    FileColumn {
        select: "SELECT rowid, message FROM history WHERE conversation = $1 AND instr(message, $2)",
        update: "UPDATE history SET message = $2 WHERE rowid = $1",
        rewrite: |copies, message| {
            copies.rewrite(message, |message: HistoryMessage<_>, bare| message.try_map_files(bare))
        },
    },
    FileColumn {
        select: "SELECT rowid, response FROM turns WHERE conversation = $1 AND instr(response, $2)",
        update: "UPDATE turns SET response = $2 WHERE rowid = $1",
        rewrite: |copies, response| {
            copies.rewrite(response, |response: OutgoingResponse<_>, bare| response.try_map_files(bare))
        },
    },
    FileColumn {
        select: "SELECT rowid, content FROM parts WHERE conversation = $1 AND instr(content, $2)",
        update: "UPDATE parts SET content = $2 WHERE rowid = $1",
        rewrite: |copies, content| copies.rewrite(content, |content: PartContent<_>, bare| content.try_map_files(bare)),
    },
];

/// Removes what rows say of the file, and the words that were heard in it; its id stays.
async fn erase(
    session: &mut Session<'_>,
    conversation: &ConversationId,
    turn: Uuid,
    copies: &Copies<'_>,
) -> Result<()> {
    for column in &FILE_COLUMNS {
        let documents: Vec<(i64, Json<Value>)> = sqlx::query_as(column.select)
            .bind(conversation.to_string())
            .bind(copies.file.id.to_string())
            .fetch_all(session.connection().await?)
            .await?;
        for (row, document) in documents {
            let document = Json((column.rewrite)(copies, document.0)?);
            sqlx::query(column.update).bind(row).bind(document).execute(session.connection().await?).await?;
        }
    }
    erase_in_journal(session, conversation, copies).await?;
    erase_in_updates(session, conversation, turn, copies.file).await?;
    erase_in_inbox(session, turn, copies.file).await
}

async fn erase_in_journal(session: &mut Session<'_>, conversation: &ConversationId, copies: &Copies<'_>) -> Result<()> {
    let documents: Vec<(Uuid, i64, Json<Value>)> = sqlx::query_as(
        "SELECT journal.turn, journal.position, journal.entry FROM turns JOIN journal ON journal.turn = turns.id \
         WHERE turns.conversation = $1 AND instr(journal.entry, $2)",
    )
    .bind(conversation.to_string())
    .bind(copies.file.id.to_string())
    .fetch_all(session.connection().await?)
    .await?;
    for (turn, position, document) in documents {
        let rewritten = copies.rewrite(document.0, |entry: JournalEntry<AttachmentRef>, bare| {
            Ok(copies.without_pictures(entry.try_map_files(bare)?))
        })?;
        sqlx::query("UPDATE journal SET entry = $3 WHERE turn = $1 AND position = $2")
            .bind(turn)
            .bind(position)
            .bind(Json(rewritten))
            .execute(session.connection().await?)
            .await?;
    }
    Ok(())
}

/// Drops the updates, as the platform sent them, that name the file: replies and edits repeat the message that brought it.
async fn erase_in_updates(
    session: &mut Session<'_>,
    conversation: &ConversationId,
    turn: Uuid,
    file: &Attachment,
) -> Result<()> {
    let brought: Vec<(Json<FileReference>,)> = sqlx::query_as(
        "SELECT inbox_files.reference FROM inbox JOIN inbox_files ON inbox_files.message = inbox.sequence \
         WHERE inbox.turn = $1 AND inbox_files.attachment = $2",
    )
    .bind(turn)
    .bind(file.id.0)
    .fetch_all(session.connection().await?)
    .await?;
    for (reference,) in brought {
        for trace in [reference.filename.as_str(), reference.locator.as_str()] {
            // As it stands within a JSON document.
            let quoted = Value::from(trace).to_string();
            sqlx::query(
                "UPDATE inbox SET message = json_remove(message, '$.raw') \
                 WHERE turn IN (SELECT id FROM turns WHERE conversation = $1) \
                   AND instr(json_extract(message, '$.raw'), $2)",
            )
            .bind(conversation.to_string())
            .bind(quoted)
            .execute(session.connection().await?)
            .await?;
        }
    }
    Ok(())
}

/// The message that brought the file names it twice: as the channel saw it, and as the platform sent it. What was heard
/// in it was made from its bytes.
async fn erase_in_inbox(session: &mut Session<'_>, turn: Uuid, file: &Attachment) -> Result<()> {
    let brought: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT inbox_files.message, inbox_files.position FROM inbox \
         JOIN inbox_files ON inbox_files.message = inbox.sequence WHERE inbox.turn = $1 AND inbox_files.attachment = $2",
    )
    .bind(turn)
    .bind(file.id.0)
    .fetch_all(session.connection().await?)
    .await?;
    let mut tombstone = file.clone();
    tombstone.erase();
    let name = tombstone.filename.as_str();
    let mut batch = Batch::default();
    for (message, position) in brought {
        let in_message = |field: &str| format!("$.files[{position}].{field}");
        batch
            .add("UPDATE inbox SET message = json_remove(json_set(message, $2, $4, $3, '', $6, ''), $5) WHERE sequence = $1")
            .bind(message)
            .bind(in_message("filename"))
            .bind(in_message("locator"))
            .bind(name)
            .bind("$.raw")
            .bind(in_message("caption"));
        batch
            .add(
                "UPDATE inbox_files SET transcription = NULL, sha256 = NULL, \
                     reference = json_set(reference, $4, $3, $5, '', $6, '') \
                 WHERE message = $1 AND position = $2",
            )
            .bind(message)
            .bind(position)
            .bind(name)
            .bind("$.filename")
            .bind("$.locator")
            .bind("$.caption");
    }
    session.run(batch).await?;
    Ok(())
}

async fn write_tombstone(session: &mut Session<'_>, file: &Attachment, now: Timestamp) -> Result<()> {
    let mut tombstone = file.clone();
    tombstone.erase();
    sqlx::query(
        "UPDATE attachments SET filename = $2, mime = $3, bytes = $4, sha256 = $5, media = $6, description = $7, \
             forgotten_at = $8 WHERE id = $1",
    )
    .bind(file.id.0)
    .bind(tombstone.filename.as_str())
    .bind(&tombstone.mime)
    .bind(i64::try_from(tombstone.bytes).unwrap_or(i64::MAX))
    .bind(tombstone.sha256.0.as_slice())
    .bind(Json(&tombstone.media))
    .bind(&tombstone.description)
    .bind(now.0)
    .execute(session.connection().await?)
    .await?;
    Ok(())
}

impl Copies<'_> {
    /// Rewrites a document: of the file its id remains, and none of the words that were heard in it.
    fn rewrite<T: DeserializeOwned + Serialize>(
        &self,
        document: Value,
        map_files: impl FnOnce(T, &dyn Fn(AttachmentRef) -> Result<AttachmentRef>) -> Result<T>,
    ) -> Result<Value> {
        let bare = |file: AttachmentRef| Ok(if file.id == self.file.id { file.id.into() } else { file });
        let unreadable = |_| Error::Row { what: "document" };
        let document: T = serde_json::from_value(document).map_err(unreadable)?;
        let mut rewritten = serde_json::to_value(map_files(document, &bare)?).map_err(unreadable)?;
        if let Some(words) = &self.transcription {
            replace_text(&mut rewritten, words);
        }
        Ok(rewritten)
    }

    /// Removes the pictures that were made of the file.
    fn without_pictures(&self, mut entry: JournalEntry<AttachmentRef>) -> JournalEntry<AttachmentRef> {
        if let JournalEntry::Outcome { outcome, .. } = &mut entry {
            let of_file = outcome.viewed_files.iter_mut().filter(|viewed| viewed.file.id == self.file.id);
            of_file.for_each(|viewed| viewed.picture = None);
        }
        entry
    }
}

fn replace_text(document: &mut Value, words: &str) {
    match document {
        Value::Object(fields) => fields.values_mut().for_each(|value| replace_text(value, words)),
        Value::Array(values) => values.iter_mut().for_each(|value| replace_text(value, words)),
        Value::String(text) if text.contains(words) => *text = text.replace(words, REPLACEMENT),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
