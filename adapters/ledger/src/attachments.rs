//! Files' records and their numbers.

use satchel_domain::{
    Attachment, ConversationId, HistoryMessage, OutgoingResponse, PartContent, ToolOutcome, TurnId, part::FileItem,
};
use sqlx::types::Json;

use crate::{
    error::{Error, Result},
    process::Process,
    rows,
    session::Session,
    usage,
};

/// Whether a file that is new must fit the quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    WithinQuotas,
    /// It counts, but is taken: what has been said must not fail to be stored.
    Always,
}

/// Stores a file that is new and gives it its number; one that is known gets the number that it has.
pub(crate) async fn store(
    session: &mut Session<'_>,
    process: &Process,
    admission: Admission,
    conversation: &ConversationId,
    turn: TurnId,
    attachment: &mut Attachment,
) -> Result<()> {
    let unknown = || Error::unknown(format!("attachment {}", attachment.id));
    if attachment.conversation != *conversation {
        return Err(unknown());
    }
    let known: Option<(String, i64, bool)> =
        sqlx::query_as("SELECT conversation, number, forgotten_at IS NOT NULL FROM attachments WHERE id = $1")
            .bind(attachment.id.0)
            .fetch_optional(session.connection().await?)
            .await?;
    if let Some((owner, number, is_forgotten)) = known {
        if owner != conversation.to_string() {
            return Err(unknown());
        }
        attachment.number = rows::number(number, "number of an attachment")?;
        if is_forgotten {
            // Whoever brings it has read its record before.
            attachment.erase();
        }
        return Ok(());
    }
    let rules = &process.settings.quotas;
    let account = usage::account(session, rules, conversation, turn).await?;
    if admission == Admission::WithinQuotas {
        usage::check(session, rules, &account, attachment.bytes).await?;
    }
    let number: i64 = sqlx::query_scalar(
        "UPDATE lanes SET last_number = last_number + 1 WHERE conversation = $1 RETURNING last_number",
    )
    .bind(conversation.to_string())
    .fetch_one(session.connection().await?)
    .await?;
    attachment.number = rows::number(number, "number of an attachment")?;
    sqlx::query(
        "INSERT INTO attachments (id, conversation, number, turn, sha256, record, bytes, person) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(attachment.id.0)
    .bind(conversation.to_string())
    .bind(number)
    .bind(turn.0)
    .bind(attachment.sha256.0.as_slice())
    .bind(Json(&*attachment))
    .bind(i64::try_from(attachment.bytes).unwrap_or(i64::MAX))
    .bind(account.person.as_ref().map(ToString::to_string))
    .execute(session.connection().await?)
    .await?;
    usage::add_file(session, &account, attachment.bytes).await
}

/// The files that an outcome brings and selects.
pub(crate) fn of_outcome(outcome: &mut ToolOutcome) -> impl Iterator<Item = &mut Attachment> {
    outcome.attachments.iter_mut().chain(outcome.selection.iter_mut().flatten())
}

pub(crate) fn of_response(response: &mut OutgoingResponse) -> impl Iterator<Item = &mut Attachment> {
    response.attachments.iter_mut()
}

pub(crate) fn of_content(content: &mut PartContent) -> impl Iterator<Item = &mut Attachment> {
    let items: &mut [FileItem] = match content {
        PartContent::Text { files, .. } => files,
        PartContent::File(item) => std::slice::from_mut(item),
        PartContent::Album { items } => items,
        PartContent::Voice { .. }
        | PartContent::Notice { .. }
        | PartContent::Question { .. }
        | PartContent::Withdraw => &mut [],
    };
    items.iter_mut().map(|item| &mut item.attachment)
}

pub(crate) fn of_message(message: &mut HistoryMessage) -> impl Iterator<Item = &mut Attachment> {
    let attachments: &mut [Attachment] = match message {
        HistoryMessage::Person { attachments, .. } | HistoryMessage::Tool { attachments, .. } => attachments,
        HistoryMessage::Model { .. } | HistoryMessage::Note { .. } => &mut [],
    };
    attachments.iter_mut()
}
