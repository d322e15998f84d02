//! The files of queued messages: stored and numbered, refused, or heard.

use satchel_domain::{Attachment, InboxId, NewAttachment, RefusedFile, TurnId};
use satchel_ports::ledger::{Lease, Transcription};
use uuid::Uuid;

use crate::{
    attachments,
    error::VerbError,
    lanes::{self, LaneId},
    parameters::Json,
    params,
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
    let updated = db.run(
        "UPDATE inbox_files SET state = 'stored', attachment = $3, refused = NULL WHERE message = $1 AND position = $2",
        params![stored.sequence, index, attachment.id.0],
    ).await?;
    require_file(updated, message, index)?;
    Ok(attachment)
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
        0 => Err(VerbError::unknown(format!("file {index} of message {message}"))),
        _ => Ok(()),
    }
}
