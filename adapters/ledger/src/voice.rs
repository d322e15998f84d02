//! Words that were spoken: those of voice notes, and whether a conversation's replies are spoken too.

use satchel_domain::{ConversationId, InboxId};
use satchel_ports::ledger::{Lease, Transcription};
use sqlx::types::Json;

use crate::{
    error::{Error, Result},
    inbox,
    session::Session,
};

/// Records what became of the words of a voice note.
pub(crate) async fn record_transcription(
    session: &mut Session<'_>,
    lease: &Lease,
    message: InboxId,
    index: u32,
    heard: &Transcription,
) -> Result<()> {
    let (sequence, _) = inbox::find(session, lease, message).await?;
    let recorded = sqlx::query("UPDATE inbox_files SET heard = $3 WHERE message = $1 AND position = $2")
        .bind(sequence)
        .bind(i64::from(index))
        .bind(Json(heard))
        .execute(session.connection().await?)
        .await?;
    inbox::require_file(recorded.rows_affected(), message, index)
}

/// Sets whether the replies of a conversation are spoken too.
pub(crate) async fn set(session: &mut Session<'_>, conversation: &ConversationId, on: bool) -> Result<()> {
    let set = sqlx::query("UPDATE lanes SET voice = $2 WHERE conversation = $1")
        .bind(conversation.to_string())
        .bind(on)
        .execute(session.connection().await?)
        .await?;
    match set.rows_affected() {
        0 => Err(Error::unknown(format!("conversation {conversation}"))),
        _ => Ok(()),
    }
}
