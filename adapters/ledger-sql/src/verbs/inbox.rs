//! The files of queued messages: stored and numbered, found among those that are stored, refused, or heard.

use std::collections::HashSet;

use satchel_domain::{
    Attachment, AttachmentId, FileReference, InboxId, MessageRef, NewAttachment, PartState, QuotedFile, RefusedFile,
    TurnId,
};
use satchel_ports::ledger::{Lease, Transcription};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    attachments,
    error::VerbError,
    lanes::{self, LaneId},
    parameters::Json,
    params,
    rows::{PartRow, select_part},
    session::{Session, VerbResult},
    verbs::usage,
};

/// A message of a lane that is held.
struct StoredMessage {
    lane: LaneId,
    sequence: i64,
    turn: TurnId,
}

impl StoredMessage {
    /// Finds a message of the lane, if the lease is valid.
    async fn find<S: Session>(db: &S, lease: &Lease, message: InboxId) -> VerbResult<Self, S> {
        let lane = lanes::require(db, lease).await?.id;
        let found: Option<(i64, Uuid)> =
            db.find("SELECT sequence, turn FROM inbox WHERE id = $1 AND lane = $2", params![message.0, lane]).await?;
        let (sequence, turn) = found.ok_or_else(|| VerbError::unknown(format!("message {message}")))?;
        Ok(Self { lane, sequence, turn: TurnId(turn) })
    }
}

/// Stores a fetched file as the `index`th of a message and numbers it.
pub async fn store_file<S: Session>(
    db: &S,
    lease: &Lease,
    message: InboxId,
    index: u32,
    file: &NewAttachment,
) -> VerbResult<Attachment, S> {
    let stored = StoredMessage::find(db, lease, message).await?;
    let account = usage::message_account(db, &lease.conversation, stored.sequence).await?;
    let attachment = attachments::store(db, &account, stored.lane, stored.turn, file).await?;
    record_stored(db, stored.sequence, message, index, attachment.id).await?;
    Ok(attachment)
}

/// Takes a stored file of the conversation for the `index`th of a message that quotes it; `None` if it isn't there.
pub async fn adopt_file<S: Session>(
    db: &S,
    lease: &Lease,
    message: InboxId,
    index: u32,
) -> VerbResult<Option<Attachment>, S> {
    let stored = StoredMessage::find(db, lease, message).await?;
    let reference: Option<(Json<FileReference>,)> = db
        .find("SELECT reference FROM inbox_files WHERE message = $1 AND position = $2", params![stored.sequence, index])
        .await?;
    let (Json(reference),) = reference.ok_or_else(|| unknown_file(message, index))?;
    let Some(quoted) = &reference.quoted else { return Ok(None) };
    let known = match find_received(db, stored.lane, reference.platform_id.as_deref()).await? {
        Some(file) => Some(file),
        None => find_displayed(db, stored.lane, quoted).await?,
    };
    let Some(known) = known else { return Ok(None) };
    let mut records = attachments::read_records(db, HashSet::from([known])).await?;
    let Some(attachment) = records.remove(known).filter(|file| !file.is_forgotten()) else { return Ok(None) };
    record_stored(db, stored.sequence, message, index, attachment.id).await?;
    Ok(Some(attachment))
}

/// Finds the newest file of a lane that came under this name of its platform.
async fn find_received<S: Session>(
    db: &S,
    lane: LaneId,
    platform_id: Option<&str>,
) -> VerbResult<Option<AttachmentId>, S> {
    let Some(platform_id) = platform_id else { return Ok(None) };
    let found: Option<(Uuid,)> = db
        .find(
            "SELECT attachments.id FROM attachments JOIN inbox_files ON inbox_files.attachment = attachments.id \
             WHERE attachments.lane = $1 AND forgotten_at IS NULL \
               AND json_extract(reference, '$.platform_id') = $2 ORDER BY number DESC LIMIT 1",
            params![lane, platform_id],
        )
        .await?;
    Ok(found.map(|(id,)| AttachmentId(id)))
}

/// Finds the file that a message of the bot shows.
async fn find_displayed<S: Session>(db: &S, lane: LaneId, quoted: &QuotedFile) -> VerbResult<Option<AttachmentId>, S> {
    let Some(message) = &quoted.shown_in else { return Ok(None) };
    // As it stands within a JSON document.
    let trace = Value::from(message.0.as_str()).to_string();
    let parts: Vec<PartRow> = db
        .all(
            select_part!(
                "WHERE parts.lane = $1 AND state = 'sent' AND last_message IS NOT NULL AND instr(state_detail, $2) > 0 \
                 ORDER BY turn_sequence DESC, position DESC"
            ),
            params![lane, trace],
        )
        .await?;
    // Several parts have the message where one has edited another, and one whose id has the message's in it is another one.
    Ok(parts.iter().find_map(|part| displayed_file(part, message, quoted.index)))
}

/// Finds the file that a part shows in one of its messages.
fn displayed_file(part: &PartRow, message: &MessageRef, index: u32) -> Option<AttachmentId> {
    let PartState::Sent { messages } = &part.state else { return None };
    let place = messages.iter().position(|sent| sent == message)?;
    let files: Vec<AttachmentId> = part.files().collect();
    let index = match messages.len() {
        1 => usize::try_from(index).ok()?,
        count if count == files.len() => place,
        _ => return None,
    };
    files.get(index).copied()
}

async fn record_stored<S: Session>(
    db: &S,
    sequence: i64,
    message: InboxId,
    index: u32,
    file: AttachmentId,
) -> VerbResult<(), S> {
    let updated = db.run(
        "UPDATE inbox_files SET state = 'stored', attachment = $3, refused = NULL WHERE message = $1 AND position = $2",
        params![sequence, index, file.0],
    ).await?;
    Ok(require_file(updated, message, index)?)
}

/// Records that the `index`th file of a message was not taken.
pub async fn refuse_file<S: Session>(
    db: &S,
    lease: &Lease,
    message: InboxId,
    index: u32,
    refused: &RefusedFile,
) -> VerbResult<(), S> {
    let sequence = StoredMessage::find(db, lease, message).await?.sequence;
    let updated = db.run(
        "UPDATE inbox_files SET state = 'refused', attachment = NULL, refused = $3 WHERE message = $1 AND position = $2",
        params![sequence, index, Json(refused)],
    ).await?;
    Ok(require_file(updated, message, index)?)
}

/// Records what became of the words of a voice note.
pub async fn record_transcription<S: Session>(
    db: &S,
    lease: &Lease,
    message: InboxId,
    index: u32,
    transcription: &Transcription,
) -> VerbResult<(), S> {
    let sequence = StoredMessage::find(db, lease, message).await?.sequence;
    let updated = db
        .run(
            "UPDATE inbox_files SET transcription = $3 WHERE message = $1 AND position = $2",
            params![sequence, index, Json(transcription)],
        )
        .await?;
    Ok(require_file(updated, message, index)?)
}

fn require_file(updated: u64, message: InboxId, index: u32) -> Result<(), VerbError> {
    match updated {
        0 => Err(unknown_file(message, index)),
        _ => Ok(()),
    }
}

fn unknown_file(message: InboxId, index: u32) -> VerbError {
    VerbError::unknown(format!("file {index} of message {message}"))
}
