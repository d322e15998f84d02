//! The transcriptions of voice notes.

use satchel_domain::InboxId;
use satchel_ports::ledger::{Lease, Transcription};
use sqlx::types::Json;

use crate::{error::Result, inbox, session::Session};

/// Records what became of the words of a voice note.
pub(crate) async fn record_transcription(
    session: &mut Session<'_>,
    lease: &Lease,
    message: InboxId,
    index: u32,
    transcription: &Transcription,
) -> Result<()> {
    let (sequence, _) = inbox::find(session, lease, message).await?;
    let recorded = sqlx::query("UPDATE inbox_files SET transcription = $3 WHERE message = $1 AND position = $2")
        .bind(sequence)
        .bind(i64::from(index))
        .bind(Json(transcription))
        .execute(session.connection().await?)
        .await?;
    inbox::require_file(recorded.rows_affected(), message, index)
}
