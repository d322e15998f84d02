//! What is read and never changed: history, files, the outbox.

use satchel_domain::{Attachment, ConversationId, HistoryMessage, MessageRef, Part, PartId, Sha256};
use satchel_ports::ledger::{AttachmentKey, AttachmentOrder, AttachmentQuery, OutboxQuery};
use sqlx::{QueryBuilder, Sqlite, types::Json};

use crate::{
    attachments::{AttachmentRef, AttachmentRow, Records, select_attachment},
    error::{Error, Result},
    rows::{self, PartRow, select_part},
    session::Session,
};

/// Reads nothing, which takes an open database all the same.
pub(crate) async fn ping(session: &mut Session<'_>) -> Result<()> {
    sqlx::query("SELECT 1").execute(session.connection().await?).await?;
    Ok(())
}

/// Reads the last messages of the history since it last began anew, oldest first.
pub(crate) async fn history(
    session: &mut Session<'_>,
    conversation: &ConversationId,
    limit: u32,
) -> Result<Vec<HistoryMessage>> {
    // As one row, for every row is a change of thread and a turn reads hundreds of messages; and joined as text, which
    // costs a tenth of what SQLite's own JSON does.
    let messages: Json<Vec<HistoryMessage<AttachmentRef>>> = sqlx::query_scalar(
        "SELECT '[' || COALESCE(group_concat(message, ',' ORDER BY sequence), '') || ']' FROM \
         (SELECT sequence, message FROM history WHERE conversation = $1 \
          AND sequence > (SELECT history_after FROM lanes WHERE conversation = $1) ORDER BY sequence DESC LIMIT $2 + 0)",
    )
    .bind(conversation.to_string())
    .bind(i64::from(limit))
    .fetch_one(session.connection().await?)
    .await?;
    let named = messages.iter().flat_map(HistoryMessage::files).map(|file| file.id).collect();
    let records = Records::read(session, named).await?;
    let resolved = messages.0.into_iter().map(|message| message.try_map_files(|file| records.resolve(file)));
    resolved.collect()
}

pub(crate) async fn attachment(
    session: &mut Session<'_>,
    conversation: &ConversationId,
    key: AttachmentKey,
) -> Result<Option<Attachment>> {
    let found: Option<AttachmentRow> = match key {
        AttachmentKey::Id(id) => {
            sqlx::query_as(select_attachment!("WHERE conversation = $1 AND id = $2"))
                .bind(conversation.to_string())
                .bind(id.0)
                .fetch_optional(session.connection().await?)
                .await?
        }
        AttachmentKey::Number(number) => {
            sqlx::query_as(select_attachment!("WHERE conversation = $1 AND number = $2"))
                .bind(conversation.to_string())
                .bind(i64::try_from(number).unwrap_or(i64::MAX))
                .fetch_optional(session.connection().await?)
                .await?
        }
    };
    found.map(AttachmentRow::into_attachment).transpose()
}

pub(crate) async fn attachments(session: &mut Session<'_>, query: &AttachmentQuery) -> Result<Vec<Attachment>> {
    let mut statement = QueryBuilder::<Sqlite>::new(select_attachment!("WHERE forgotten_at IS NULL"));
    if let Some(conversation) = &query.conversation {
        statement.push(" AND conversation = ").push_bind(conversation.to_string());
    }
    if let Some(turn) = query.turn {
        statement.push(" AND turn = ").push_bind(turn.0);
    }
    if let Some(Sha256(digest)) = query.sha256 {
        statement.push(" AND sha256 = ").push_bind(digest.to_vec());
    }
    if let Some(number) = query.before {
        statement.push(" AND number < ").push_bind(i64::try_from(number).unwrap_or(i64::MAX));
    }
    // The number orders the files of one conversation as the sequence does, and has an index.
    let age = if query.conversation.is_some() { "number" } else { "sequence" };
    statement.push(" ORDER BY ").push(match query.order {
        AttachmentOrder::Newest => format!("{age} DESC"),
        AttachmentOrder::Oldest => age.to_owned(),
        AttachmentOrder::Largest => format!("bytes DESC, {age} DESC"),
    });
    if let Some(limit) = query.limit {
        statement.push(" LIMIT ").push_bind(i64::from(limit));
    }
    let rows: Vec<AttachmentRow> = statement.build_query_as().fetch_all(session.connection().await?).await?;
    rows.into_iter().map(AttachmentRow::into_attachment).collect()
}

/// Reads parts of the outbox. A draft is one of them once it stands.
pub(crate) async fn outbox(session: &mut Session<'_>, query: &OutboxQuery) -> Result<Vec<Part>> {
    let mut statement = QueryBuilder::<Sqlite>::new(select_part!("WHERE (draft = 0 OR state = 'open')"));
    if let Some(conversation) = &query.conversation {
        statement.push(" AND conversation = ").push_bind(conversation.to_string());
    }
    if let Some(part) = query.part {
        statement.push(" AND id = ").push_bind(part.0);
    }
    if query.unsettled_only {
        statement.push(" AND settled = 0 AND state <> 'open' ORDER BY turn_sequence, position");
    } else {
        if !query.include_delivered {
            statement.push(
                " AND (settled = 0 OR (state = 'failed' \
             AND json_extract(state_detail, '$.reason.why') <> 'not_needed'))",
            );
        }
        statement.push(" ORDER BY turn_sequence DESC, position DESC");
    }
    if let Some(limit) = query.limit {
        statement.push(" LIMIT ").push_bind(i64::from(limit));
    }
    let rows: Vec<PartRow> = statement.build_query_as().fetch_all(session.connection().await?).await?;
    rows::parts(session, rows).await
}

/// Reads the last message that was sent in the conversation before a part. Questions and drafts don't count: either may be
/// sent before the other, whatever their positions.
pub(crate) async fn last_sent_before(session: &mut Session<'_>, part: PartId) -> Result<Option<MessageRef>> {
    let row: Option<PartRow> =
        sqlx::query_as(select_part!("WHERE id = $1")).bind(part.0).fetch_optional(session.connection().await?).await?;
    let row = row.ok_or_else(|| Error::unknown(format!("part {part}")))?;
    let message: Option<String> = sqlx::query_scalar(
        "SELECT last_message FROM parts WHERE conversation = $1 AND last_message IS NOT NULL AND call IS NULL AND draft = 0 \
         AND (turn_sequence, position) < ($2, $3) ORDER BY turn_sequence DESC, position DESC LIMIT 1",
    )
    .bind(&row.conversation)
    .bind(row.turn_sequence)
    .bind(row.position)
    .fetch_optional(session.connection().await?)
    .await?;
    Ok(message.map(MessageRef))
}

/// Of these addresses, those that no file's record, no prepared voice and no message that waits names.
pub(crate) async fn unreferenced(session: &mut Session<'_>, blobs: &[Sha256]) -> Result<Vec<Sha256>> {
    let found: Vec<String> = sqlx::query_scalar(
        "SELECT value FROM json_each($1) \
         WHERE NOT EXISTS (SELECT 1 FROM attachments WHERE sha256 = unhex(value)) \
           AND NOT EXISTS (SELECT 1 FROM parts WHERE voice_sha256 = unhex(value)) \
           AND NOT EXISTS (SELECT 1 FROM inbox_files AS file JOIN inbox ON inbox.sequence = file.message \
               WHERE file.sha256 = unhex(value) AND file.state = 'waiting' AND inbox.consumed_by IS NULL) ORDER BY key",
    )
    .bind(Json(blobs))
    .fetch_all(session.connection().await?)
    .await?;
    found.iter().map(|text| text.parse().map_err(|_| Error::Row { what: "blob's address" })).collect()
}
