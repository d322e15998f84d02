//! Turns as they are remembered: what was said, what was answered, and how its parts fared.

use std::collections::HashMap;

use satchel_domain::{ChannelName, ConversationId, Ending, OutgoingResponse, Part, Timestamp, TurnId};
use satchel_ports::ledger::{ConversationSummary, TurnQuery, TurnRecord};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    attachments::{AttachmentRef, Records},
    error::Result,
    rows::{self, MessageRow, PartRow, select_messages, select_part},
    session::Session,
};

#[derive(sqlx::FromRow)]
struct TurnRow {
    id: Uuid,
    conversation: String,
    ending: Option<Json<Ending>>,
    response: Option<Json<OutgoingResponse<AttachmentRef>>>,
}

/// Reads a turn; one whose messages were all injected into another is answered with that one.
pub(crate) async fn turn(session: &mut Session<'_>, turn: TurnId) -> Result<Option<TurnRecord>> {
    let row: Option<TurnRow> = sqlx::query_as(
        "SELECT id, conversation, ending, response FROM turns \
         WHERE id = (SELECT COALESCE(merged_into, id) FROM turns WHERE id = $1)",
    )
    .bind(turn.0)
    .fetch_optional(session.connection().await?)
    .await?;
    Ok(with_details(session, row.into_iter().collect()).await?.pop())
}

/// Reads turns of a conversation, oldest first.
pub(crate) async fn turns(session: &mut Session<'_>, query: &TurnQuery) -> Result<Vec<TurnRecord>> {
    let mut rows: Vec<TurnRow> = sqlx::query_as(
        "SELECT id, conversation, ending, response FROM turns WHERE conversation = $1 AND state <> 'merged' \
         AND ($2 IS NULL OR sequence < (SELECT sequence FROM turns WHERE id = $2)) ORDER BY sequence DESC LIMIT $3 + 0",
    )
    .bind(query.conversation.to_string())
    .bind(query.before.map(|turn| turn.0))
    .bind(i64::from(query.limit))
    .fetch_all(session.connection().await?)
    .await?;
    rows.reverse();
    with_details(session, rows).await
}

/// Reads the conversations of a channel, the one last used first.
pub(crate) async fn conversations(
    session: &mut Session<'_>,
    channel: &ChannelName,
    limit: u32,
) -> Result<Vec<ConversationSummary>> {
    let rows: Vec<(String, Option<String>, i64)> = sqlx::query_as(
        "SELECT last.conversation, \
             (SELECT message ->> 'text' FROM inbox WHERE turn = (SELECT id FROM turns \
                 WHERE turns.conversation = last.conversation ORDER BY sequence LIMIT 1) ORDER BY sequence LIMIT 1), \
             (SELECT MAX(received_at) FROM inbox WHERE inbox.turn = last.id) \
         FROM lanes JOIN turns AS last ON last.sequence = \
             (SELECT MAX(sequence) FROM turns WHERE turns.conversation = lanes.conversation) \
         WHERE lanes.channel = $1 ORDER BY last.sequence DESC LIMIT $2 + 0",
    )
    .bind(channel.as_str())
    .bind(i64::from(limit))
    .fetch_all(session.connection().await?)
    .await?;
    let summary = |(conversation, title, last_at): (String, Option<String>, i64)| {
        Ok(ConversationSummary {
            conversation: rows::conversation(&conversation)?,
            title: title.unwrap_or_default(),
            last_at: Timestamp(last_at),
        })
    };
    rows.into_iter().map(summary).collect()
}

/// Reads the conversations with a turn that is incomplete, or was completed at `since` or later.
pub(crate) async fn active_conversations(session: &mut Session<'_>, since: Timestamp) -> Result<Vec<ConversationId>> {
    // By lane, since turns have no index by time: the last completed one of each is found at once.
    let rows: Vec<String> = sqlx::query_scalar(
        "SELECT conversation FROM lanes \
         WHERE EXISTS (SELECT 1 FROM turns WHERE turns.conversation = lanes.conversation AND state = 'queued') \
            OR (SELECT completed_at FROM turns WHERE turns.conversation = lanes.conversation AND state = 'completed' \
                ORDER BY sequence DESC LIMIT 1) >= $1",
    )
    .bind(since.0)
    .fetch_all(session.connection().await?)
    .await?;
    rows.iter().map(|conversation| rows::conversation(conversation)).collect()
}

/// Adds what was said and sent, read for all turns at once.
async fn with_details(session: &mut Session<'_>, turns: Vec<TurnRow>) -> Result<Vec<TurnRecord>> {
    let ids = Json(turns.iter().map(|turn| format!("{:X}", turn.id.simple())).collect::<Vec<_>>());
    let parts: Vec<PartRow> = sqlx::query_as(select_part!(
        "WHERE turn IN (SELECT unhex(value) FROM json_each($1)) ORDER BY turn_sequence, position, id"
    ))
    .bind(&ids)
    .fetch_all(session.connection().await?)
    .await?;
    // A message that was injected into another turn was answered there.
    let messages: Vec<MessageRow> = sqlx::query_as(select_messages!(
        "WHERE inbox.sequence IN ( \
             SELECT sequence FROM inbox WHERE turn IN (SELECT unhex(value) FROM json_each($1)) \
                 AND (consumed_by IS NULL OR consumed_by = turn) \
             UNION ALL \
             SELECT sequence FROM inbox WHERE consumed_by IN (SELECT unhex(value) FROM json_each($1)) \
                 AND consumed_by <> turn) \
         ORDER BY inbox.sequence, inbox_files.position"
    ))
    .bind(&ids)
    .fetch_all(session.connection().await?)
    .await?;

    let responses = turns.iter().flat_map(|turn| &turn.response);
    let answered = responses.flat_map(|response| response.attachments.iter().map(|file| file.id));
    let sent = parts.iter().flat_map(PartRow::files);
    let received = messages.iter().filter_map(MessageRow::file);
    let records = Records::read(session, answered.chain(sent).chain(received).collect()).await?;
    let mut parts_of: HashMap<Uuid, Vec<Part>> = HashMap::new();
    for row in parts {
        parts_of.entry(row.turn).or_default().push(row.into_part(&records)?);
    }
    let mut messages_of: HashMap<Uuid, Vec<MessageRow>> = HashMap::new();
    for row in messages {
        messages_of.entry(row.answered_in).or_default().push(row);
    }
    let record = |turn: TurnRow| {
        let resolve = |response: Json<OutgoingResponse<_>>| response.0.try_map_files(|file| records.resolve(file));
        Ok(TurnRecord {
            id: TurnId(turn.id),
            conversation: rows::conversation(&turn.conversation)?,
            ending: turn.ending.map(|ending| ending.0),
            response: turn.response.map(resolve).transpose()?,
            messages: rows::messages(messages_of.remove(&turn.id).unwrap_or_default(), &records)?,
            parts: parts_of.remove(&turn.id).unwrap_or_default(),
        })
    };
    turns.into_iter().map(record).collect()
}
