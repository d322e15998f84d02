//! The files of queued messages: stored and numbered, or refused.

use satchel_domain::{Attachment, InboxId, NewAttachment, RefusedFile, TurnId};
use satchel_ports::ledger::Lease;
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    attachments,
    batch::Batch,
    error::{Error, Result},
    lanes,
    process::Process,
    session::Session,
};

/// Stores a fetched file as the `index`th of a message and numbers it.
pub(crate) async fn store_file(
    session: &mut Session<'_>,
    process: &Process,
    lease: &Lease,
    message: InboxId,
    index: u32,
    file: &NewAttachment,
) -> Result<Attachment> {
    let (sequence, turn) = find(session, lease, message).await?;
    let attachment = attachments::store(session, process, &lease.conversation, turn, file).await?;
    let stored = sqlx::query(
        "UPDATE inbox_files SET state = 'stored', attachment = $3, refused = NULL WHERE message = $1 AND position = $2",
    )
    .bind(sequence)
    .bind(i64::from(index))
    .bind(attachment.id.0)
    .execute(session.connection().await?)
    .await?;
    require_file(stored.rows_affected(), message, index)?;
    Ok(attachment)
}

/// Records that the `index`th file of a message was not taken.
pub(crate) async fn refuse_file(
    session: &mut Session<'_>,
    lease: &Lease,
    message: InboxId,
    index: u32,
    refused: &RefusedFile,
) -> Result<()> {
    let (sequence, _) = find(session, lease, message).await?;
    let stored = sqlx::query(
        "UPDATE inbox_files SET state = 'refused', attachment = NULL, refused = $3 WHERE message = $1 AND position = $2",
    )
    .bind(sequence)
    .bind(i64::from(index))
    .bind(Json(refused))
    .execute(session.connection().await?)
    .await?;
    require_file(stored.rows_affected(), message, index)
}

/// Finds a message of the lane, if the lease is valid.
pub(crate) async fn find(session: &mut Session<'_>, lease: &Lease, message: InboxId) -> Result<(i64, TurnId)> {
    let mut batch = Batch::default();
    let lane = lanes::read(&mut batch, &lease.conversation);
    let found = batch
        .add("SELECT sequence, turn FROM inbox WHERE id = $1 AND conversation = $2")
        .bind(message.0)
        .bind(lease.conversation.to_string())
        .id();
    let answers = session.run(batch).await?;
    lanes::require(&answers, lane, lease)?;
    let found: Option<(i64, Uuid)> = answers.first_row(found)?;
    let (sequence, turn) = found.ok_or_else(|| Error::unknown(format!("message {message}")))?;
    Ok((sequence, TurnId(turn)))
}

pub(crate) fn require_file(rows: u64, message: InboxId, index: u32) -> Result<()> {
    match rows {
        0 => Err(Error::unknown(format!("file {index} of message {message}"))),
        _ => Ok(()),
    }
}
