//! What is read and never changed: turns, history, files, the outbox.

use satchel_domain::{
    Attachment, ConversationId, Ending, Message, MessageRef, OutgoingResponse, Part, PartId, RefusedFile, Sha256,
    TurnId,
};
use satchel_ports::ledger::{AttachmentKey, AttachmentQuery, OutboxQuery, TurnRecord};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection, types::Json};
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    rows::{self, PartRow, select_part},
};

#[derive(sqlx::FromRow)]
struct TurnRow {
    id: Uuid,
    conversation: String,
    ending: Option<Json<Ending>>,
    response: Option<Json<OutgoingResponse>>,
}

/// Reads a turn; one whose messages were all injected into another is answered with that one.
pub(crate) async fn turn(connection: &mut SqliteConnection, turn: TurnId) -> Result<Option<TurnRecord>> {
    let row: Option<TurnRow> = sqlx::query_as(
        "SELECT id, conversation, ending, response FROM turns \
         WHERE id = (SELECT COALESCE(merged_into, id) FROM turns WHERE id = $1)",
    )
    .bind(turn.0)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let parts: Vec<PartRow> = sqlx::query_as(select_part!("WHERE turn = $1 ORDER BY position, id"))
        .bind(row.id)
        .fetch_all(&mut *connection)
        .await?;
    let refused: Vec<(Json<RefusedFile>,)> = sqlx::query_as(
        "SELECT refused FROM inbox_files JOIN inbox ON inbox.sequence = inbox_files.message \
         WHERE inbox.turn = $1 AND inbox_files.state = 'refused' ORDER BY inbox.sequence, inbox_files.position",
    )
    .bind(row.id)
    .fetch_all(connection)
    .await?;
    Ok(Some(TurnRecord {
        id: TurnId(row.id),
        conversation: rows::conversation(&row.conversation)?,
        ending: row.ending.map(|ending| ending.0),
        response: row.response.map(|response| response.0),
        parts: parts.into_iter().map(Part::try_from).collect::<Result<_>>()?,
        refused: refused.into_iter().map(|(refused,)| refused.0).collect(),
    }))
}

/// Reads the last messages of the history since it last began anew, oldest first.
pub(crate) async fn history(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
    limit: u32,
) -> Result<Vec<Message>> {
    // As one row: every row is a change of thread, and a turn reads hundreds of messages.
    let messages: Json<Vec<Message>> = sqlx::query_scalar(
        "SELECT json_group_array(json(message) ORDER BY sequence) FROM \
         (SELECT sequence, message FROM history WHERE conversation = $1 \
          AND sequence > (SELECT history_after FROM lanes WHERE conversation = $1) ORDER BY sequence DESC LIMIT $2)",
    )
    .bind(conversation.to_string())
    .bind(i64::from(limit))
    .fetch_one(connection)
    .await?;
    Ok(messages.0)
}

pub(crate) async fn attachment(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
    key: AttachmentKey,
) -> Result<Option<Attachment>> {
    let found: Option<(Json<Attachment>,)> = match key {
        AttachmentKey::Id(id) => {
            sqlx::query_as("SELECT record FROM attachments WHERE conversation = $1 AND id = $2")
                .bind(conversation.to_string())
                .bind(id.0)
                .fetch_optional(connection)
                .await?
        }
        AttachmentKey::Number(number) => {
            sqlx::query_as("SELECT record FROM attachments WHERE conversation = $1 AND number = $2")
                .bind(conversation.to_string())
                .bind(i64::try_from(number).unwrap_or(i64::MAX))
                .fetch_optional(connection)
                .await?
        }
    };
    Ok(found.map(|(record,)| record.0))
}

pub(crate) async fn attachments(connection: &mut SqliteConnection, query: &AttachmentQuery) -> Result<Vec<Attachment>> {
    let mut statement = QueryBuilder::<Sqlite>::new("SELECT record FROM attachments WHERE TRUE");
    if let Some(conversation) = &query.conversation {
        statement.push(" AND conversation = ").push_bind(conversation.to_string());
    }
    if let Some(turn) = query.turn {
        statement.push(" AND turn = ").push_bind(turn.0);
    }
    // The number orders the files of one conversation as the sequence does, and has an index.
    statement.push(if query.conversation.is_some() { " ORDER BY number DESC" } else { " ORDER BY sequence DESC" });
    if let Some(limit) = query.limit {
        statement.push(" LIMIT ").push_bind(i64::from(limit));
    }
    let records: Vec<(Json<Attachment>,)> = statement.build_query_as().fetch_all(connection).await?;
    Ok(records.into_iter().map(|(record,)| record.0).collect())
}

pub(crate) async fn outbox(connection: &mut SqliteConnection, query: &OutboxQuery) -> Result<Vec<Part>> {
    let mut statement = QueryBuilder::<Sqlite>::new(select_part!("WHERE TRUE"));
    if let Some(conversation) = &query.conversation {
        statement.push(" AND conversation = ").push_bind(conversation.to_string());
    }
    if let Some(part) = query.part {
        statement.push(" AND id = ").push_bind(part.0);
    }
    if !query.with_delivered {
        statement.push(" AND (settled = 0 OR state = 'failed')");
    }
    statement.push(" ORDER BY turn_sequence DESC, position DESC");
    if let Some(limit) = query.limit {
        statement.push(" LIMIT ").push_bind(i64::from(limit));
    }
    let rows: Vec<PartRow> = statement.build_query_as().fetch_all(connection).await?;
    rows.into_iter().map(Part::try_from).collect()
}

/// Reads the last message that was sent in the conversation before a part.
pub(crate) async fn sent_before(connection: &mut SqliteConnection, part: PartId) -> Result<Option<MessageRef>> {
    let row: Option<PartRow> =
        sqlx::query_as(select_part!("WHERE id = $1")).bind(part.0).fetch_optional(&mut *connection).await?;
    let row = row.ok_or_else(|| Error::unknown(format!("part {part}")))?;
    let message: Option<String> = sqlx::query_scalar(
        "SELECT last_message FROM parts WHERE conversation = $1 AND last_message IS NOT NULL \
         AND (turn_sequence, position) < ($2, $3) ORDER BY turn_sequence DESC, position DESC LIMIT 1",
    )
    .bind(&row.conversation)
    .bind(row.turn_sequence)
    .bind(row.position)
    .fetch_optional(connection)
    .await?;
    Ok(message.map(MessageRef))
}

/// Of these addresses, those that no file's record and no prepared voice names.
pub(crate) async fn unreferenced(connection: &mut SqliteConnection, blobs: &[Sha256]) -> Result<Vec<Sha256>> {
    let found: Vec<String> = sqlx::query_scalar(
        "SELECT value FROM json_each($1) \
         WHERE NOT EXISTS (SELECT 1 FROM attachments WHERE sha256 = unhex(value)) \
           AND NOT EXISTS (SELECT 1 FROM parts WHERE voice_sha256 = unhex(value)) ORDER BY key",
    )
    .bind(Json(blobs))
    .fetch_all(connection)
    .await?;
    found.iter().map(|text| text.parse().map_err(|_| Error::Row { what: "blob's address" })).collect()
}
