//! Forgets a file: its name, its address and what results tell of it leave every row, and its number stays.

use std::collections::BTreeSet;

use satchel_domain::{Attachment, ConversationId, FileReference, Timestamp};
use satchel_ledger::{
    file_results::FileResults,
    forget::{ForgottenFile, erase_in_message, erase_reference},
    quota::Account,
    stored::StoredError,
};
use satchel_ports::ledger::{ForgetOutcome, ForgetRequest, PersonKey, Transcription};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    attachments::select_attachment,
    columns::{FromColumn, FromRow, Row},
    error::VerbError,
    lanes::{self, LaneId},
    parameters::{Json, ToParameter},
    params,
    rows::{self, AttachmentFields},
    search,
    session::{Session, VerbResult},
    verbs::{forget_results, usage},
};

struct FileRow {
    turn: Uuid,
    person: Option<String>,
    forgotten_at: Option<i64>,
    attachment: AttachmentFields,
}

impl FromRow for FileRow {
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        Ok(Self {
            turn: row.get("turn")?,
            person: row.get("person")?,
            forgotten_at: row.get("forgotten_at")?,
            attachment: AttachmentFields::from_row(row)?,
        })
    }
}

impl FileRow {
    /// The person for whom the file counts.
    fn person(&self) -> Result<Option<PersonKey>, VerbError> {
        let parse = |person: &String| person.parse::<PersonKey>().map_err(|_| VerbError::Row { what: "person" });
        self.person.as_ref().map(parse).transpose()
    }
}

/// A file that may be forgotten.
struct ForgettableFile {
    /// The turn that it came with.
    turn: Uuid,
    person: Option<PersonKey>,
    file: Attachment,
    /// The results that tell what is in it.
    results: FileResults,
}

impl ForgettableFile {
    async fn load<S: Session>(db: &S, lane: LaneId, row: FileRow) -> VerbResult<Self, S> {
        let (turn, person, file) = (row.turn, row.person()?, row.attachment.into_attachment()?);
        let results = forget_results::find(db, lane, &file).await?;
        Ok(Self { turn, person, file, results })
    }
}

/// Forgets a file, unless something still needs it.
pub async fn forget_file<S: Session>(db: &S, forget: &ForgetRequest) -> VerbResult<ForgetOutcome, S> {
    let ForgetRequest { conversation, number, restricted_to } = forget;
    let Some(lane) = lanes::find_id(db, conversation).await? else { return Ok(ForgetOutcome::NotFound) };
    let row: Option<FileRow> = db
        .find(
            select_attachment!(", turn, person, forgotten_at"; "WHERE lane = $1 AND number = $2"),
            params![lane, rows::signed(*number)],
        )
        .await?;
    let Some(row) = row else { return Ok(ForgetOutcome::NotFound) };
    if restricted_to.is_some() && *restricted_to != row.person()? {
        return Ok(ForgetOutcome::NotPermitted);
    }
    if let Some(forgotten_at) = row.forgotten_at {
        return Ok(ForgetOutcome::AlreadyForgotten(Timestamp(forgotten_at)));
    }
    let file = ForgettableFile::load(db, lane, row).await?;
    let forgotten = file.file.clone();
    // All are looked at first: nothing is forgotten in part.
    let files = add_hidden_files(db, lane, file).await?;
    for file in &files {
        if let Some(needed) = needed(db, lane, file).await? {
            return Ok(needed);
        }
    }
    for file in &files {
        erase(db, conversation, lane, file).await?;
    }
    db.request_erasure().await?;
    Ok(ForgetOutcome::Forgotten(Box::new(forgotten)))
}

/// Returns a file with those that its readers made for the model alone, such as the whole of a long result: no list that
/// people see has them.
async fn add_hidden_files<S: Session>(
    db: &S,
    lane: LaneId,
    file: ForgettableFile,
) -> VerbResult<Vec<ForgettableFile>, S> {
    let mut ids = BTreeSet::from([file.file.id.0]);
    let (mut pending, mut found) = (vec![file], Vec::new());
    while let Some(file) = pending.pop() {
        for row in find_hidden_files(db, lane, &file.results).await? {
            if ids.insert(row.attachment.id) {
                pending.push(ForgettableFile::load(db, lane, row).await?);
            }
        }
        found.push(file);
    }
    Ok(found)
}

/// Finds the files that came with results, were made by their turns, and are only for the model.
async fn find_hidden_files<S: Session>(db: &S, lane: LaneId, results: &FileResults) -> VerbResult<Vec<FileRow>, S> {
    if results.files.is_empty() {
        return Ok(Vec::new());
    }
    let files: Vec<Uuid> = results.files.iter().map(|file| file.0).collect();
    db.all(
        select_attachment!(
            ", turn, person, forgotten_at";
            "WHERE lane = $1 AND attachments.id IN (SELECT value FROM rarray($2)) \
                 AND turn IN (SELECT value FROM rarray($3)) AND visibility = 'internal' \
                 AND source IN ('tool', 'script') AND forgotten_at IS NULL"
        ),
        params![lane, files, results.turns()],
    )
    .await
}

async fn erase<S: Session>(
    db: &S,
    conversation: &ConversationId,
    lane: LaneId,
    found: &ForgettableFile,
) -> VerbResult<(), S> {
    let ForgettableFile { turn, person, file, results } = found;
    forget_results::replace(db, lane, file, results).await?;
    let forgotten = ForgottenFile::new(file, read_transcriptions(db, file).await?);
    let copies = Copies { lane, turn: *turn, forgotten };
    copies.erase(db).await?;
    write_tombstone(db, file).await?;
    let account = Account { conversation: conversation.clone(), person: person.clone(), is_owner: false };
    usage::remove_file(db, &account, file.bytes).await
}

/// What still needs the file, if anything does.
async fn needed<S: Session>(db: &S, lane: LaneId, found: &ForgettableFile) -> VerbResult<Option<ForgetOutcome>, S> {
    let ForgettableFile { turn, file, results, .. } = found;
    let is_unsettled: bool = db
        .value(
            "SELECT EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled AND instr(content, $2) > 0)",
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
             WHERE turns.lane = $1 AND turns.state = 'queued' AND instr(journal.entry, $2) > 0) \
         OR EXISTS (SELECT 1 FROM turns WHERE state = 'queued' AND id IN (SELECT value FROM rarray($5)))",
            params![lane, file.id.to_string(), *turn, file.id.0, results.turns()],
        )
        .await?;
    Ok(is_in_use.then_some(ForgetOutcome::InUse))
}

/// What rows hold of a file besides its own.
struct Copies<'a> {
    lane: LaneId,
    /// The turn that made it, or that of the message which brought it first.
    turn: Uuid,
    forgotten: ForgottenFile<'a>,
}

/// Reads what was made of the words of a voice note: a retry may have heard it again.
async fn read_transcriptions<S: Session>(db: &S, file: &Attachment) -> VerbResult<Vec<Transcription>, S> {
    let transcriptions: Vec<(Json<Transcription>,)> = db
        .all(
            "SELECT transcription FROM inbox_files WHERE attachment = $1 AND transcription IS NOT NULL",
            params![file.id.0],
        )
        .await?;
    Ok(transcriptions.into_iter().map(|(transcription,)| transcription.0).collect())
}

/// Leaves a row of the file's number alone.
async fn write_tombstone<S: Session>(db: &S, file: &Attachment) -> VerbResult<(), S> {
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
    async fn erase<S: Session>(&self, db: &S) -> VerbResult<(), S> {
        self.erase_in_rows::<_, i64>(
            db,
            "SELECT sequence, message FROM history WHERE lane = $1 AND instr(message, $2) > 0",
            "UPDATE history SET message = $3 WHERE lane = $1 AND sequence = $2",
            |document| self.forgotten.rewrite_history(document),
        )
        .await?;
        self.erase_in_rows::<_, i64>(
            db,
            "SELECT sequence, response FROM turns WHERE lane = $1 AND instr(response, $2) > 0",
            "UPDATE turns SET response = $3 WHERE lane = $1 AND sequence = $2",
            |document| self.forgotten.rewrite_response(document),
        )
        .await?;
        self.erase_in_rows::<_, Uuid>(
            db,
            "SELECT id, content FROM parts WHERE lane = $1 AND instr(content, $2) > 0",
            "UPDATE parts SET content = $3 WHERE lane = $1 AND id = $2",
            |document| self.forgotten.rewrite_part(document),
        )
        .await?;
        self.erase_in_journal(db).await?;
        self.erase_in_updates(db).await?;
        self.erase_in_inbox(db).await?;
        self.erase_in_index(db).await
    }

    /// Rewrites the documents of a column that name the file. `K` identifies a row in its lane.
    async fn erase_in_rows<S: Session, K: FromColumn + ToParameter>(
        &self,
        db: &S,
        select: &'static str,
        update: &'static str,
        rewrite: impl Fn(Value) -> Result<Value, StoredError>,
    ) -> VerbResult<(), S> {
        let documents: Vec<(K, Json<Value>)> =
            db.all(select, params![self.lane, self.forgotten.file.id.to_string()]).await?;
        for (row, Json(document)) in documents {
            db.run(update, params![self.lane, row, Json(rewrite(document)?)]).await?;
        }
        Ok(())
    }

    /// Has the turns that name the file indexed again, without its name and its words: those that made it or answer with it,
    /// and those of the messages that brought it, of which a retry makes copies.
    async fn erase_in_index<S: Session>(&self, db: &S) -> VerbResult<(), S> {
        let naming: Vec<(Uuid,)> = db
            .all(
                "SELECT id FROM turns WHERE lane = $1 AND instr(response, $2) > 0 \
                 UNION SELECT inbox.turn FROM inbox_files JOIN inbox ON inbox.sequence = inbox_files.message \
                     WHERE inbox_files.attachment = $3 \
                 UNION SELECT inbox.consumed_by FROM inbox_files JOIN inbox ON inbox.sequence = inbox_files.message \
                     WHERE inbox_files.attachment = $3 AND inbox.consumed_by IS NOT NULL",
                params![self.lane, self.forgotten.file.id.to_string(), self.forgotten.file.id.0],
            )
            .await?;
        let turns: BTreeSet<Uuid> = naming.into_iter().map(|(turn,)| turn).chain([self.turn]).collect();
        for turn in turns {
            search::reindex_turn(db, turn).await?;
        }
        Ok(())
    }

    async fn erase_in_journal<S: Session>(&self, db: &S) -> VerbResult<(), S> {
        let documents: Vec<(Uuid, i64, Json<Value>)> = db.all(
            "SELECT journal.turn, journal.position, journal.entry FROM turns JOIN journal ON journal.turn = turns.id \
             WHERE turns.lane = $1 AND instr(journal.entry, $2) > 0",
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
    async fn erase_in_updates<S: Session>(&self, db: &S) -> VerbResult<(), S> {
        let brought: Vec<(Json<FileReference>,)> = db
            .all("SELECT reference FROM inbox_files WHERE attachment = $1", params![self.forgotten.file.id.0])
            .await?;
        // As they stand within a JSON document.
        let quoted = |(Json(reference),): &(Json<FileReference>,)| {
            let names = [reference.filename.as_str(), reference.locator.as_str()].into_iter();
            let names = names.chain(reference.platform_id.as_deref()).chain(reference.source_url.as_deref());
            names.map(|trace| Value::from(trace).to_string()).collect::<Vec<_>>()
        };
        let traces: BTreeSet<String> = brought.iter().flat_map(quoted).collect();
        for trace in traces {
            db.run(
                "UPDATE inbox SET message = json_remove(message, '$.raw') \
                 WHERE turn IN (SELECT id FROM turns WHERE lane = $1) \
                   AND instr(json_extract(message, '$.raw'), $2) > 0",
                params![self.lane, trace],
            )
            .await?;
        }
        Ok(())
    }

    /// Each message that brought the file, and each copy that a retry made of one, names it twice: as the channel saw it, and
    /// as the platform sent it. What was heard in it was made from its bytes.
    async fn erase_in_inbox<S: Session>(&self, db: &S) -> VerbResult<(), S> {
        let brought: Vec<(i64, i64, Json<Value>, Json<Value>)> = db
            .all(
                "SELECT inbox_files.message, inbox_files.position, inbox.message, inbox_files.reference FROM inbox_files \
                 JOIN inbox ON inbox.sequence = inbox_files.message WHERE inbox_files.attachment = $1",
                params![self.forgotten.file.id.0],
            )
            .await?;
        for (sequence, position, Json(mut message), Json(mut reference)) in brought {
            erase_in_message(&mut message, position);
            erase_reference(&mut reference);
            db.run("UPDATE inbox SET message = $2 WHERE sequence = $1", params![sequence, Json(message)]).await?;
            db.run(
                "UPDATE inbox_files SET transcription = NULL, sha256 = NULL, reference = $3 \
                 WHERE message = $1 AND position = $2",
                params![sequence, position, Json(reference)],
            )
            .await?;
        }
        Ok(())
    }
}
