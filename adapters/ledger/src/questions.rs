//! Questions that are put to people past the outbox: what is known of each, so that no look-up takes one for a reply.

use satchel_domain::{MessageRef, PartId, TurnId};
use satchel_ports::ledger::Lease;

use crate::{error::Result, journal, process::Process, session::Session};

/// Records that a question is about to be put: from here on it may have arrived.
pub(crate) async fn begin(
    session: &mut Session<'_>,
    process: &Process,
    lease: &Lease,
    question: PartId,
    turn: TurnId,
) -> Result<()> {
    journal::standing(session, lease, turn).await?;
    sqlx::query("INSERT INTO questions (id, conversation, turn, asked_at) VALUES ($1, $2, $3, $4)")
        .bind(question.0)
        .bind(lease.conversation.to_string())
        .bind(turn.0)
        .bind(process.now().0)
        .execute(session.connection().await?)
        .await?;
    Ok(())
}

/// Records as which message a question arrived; `None` is that it certainly did not.
pub(crate) async fn settle(session: &mut Session<'_>, question: PartId, message: Option<MessageRef>) -> Result<()> {
    let statement = match &message {
        Some(message) => {
            sqlx::query("UPDATE questions SET message = $2 WHERE id = $1").bind(question.0).bind(&message.0)
        }
        None => sqlx::query("DELETE FROM questions WHERE id = $1").bind(question.0),
    };
    statement.execute(session.connection().await?).await?;
    Ok(())
}
