//! Which messages are known to stand in a chat, so that a look-up by ids can tell a doubtful one from the rest.

use std::time::Duration;

use satchel_domain::{ConversationId, MessageRef, PartId, PartState, Timestamp};
use satchel_ports::ledger::{RecordedMessage, RecordedMessages};
use sqlx::types::Json;

use crate::{error::Result, rows, session::Session};

/// How many of the newest rows are looked at. Older messages have lower ids than any that is looked for.
const MAX_ROWS: i64 = 20_000;

/// How many messages are read of each sort, the newest first.
const MAX_MESSAGES: i64 = 2_000;

/// For how long a doubt that was never resolved makes others in its chat uncertain: a day, behind the day for which
/// parts are sent by default.
const DOUBT_TTL: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// The conversations `$1` of a chat and, between `$2` and `$3`, of its topics.
macro_rules! in_chat {
    ($column:literal) => {
        concat!("(", $column, " = $1 OR (", $column, " > $2 AND ", $column, " < $3))")
    };
}

#[derive(sqlx::FromRow)]
struct ReceivedRow {
    conversation: String,
    message: String,
    received_at: i64,
}

#[derive(sqlx::FromRow)]
struct SentRow {
    conversation: String,
    state_detail: Json<PartState>,
    target: Option<String>,
}

/// The bounds between which the names of a chat's conversations lie.
struct ChatBounds {
    name: String,
    topics: (String, String),
    channel: (String, String),
}

impl ChatBounds {
    fn new(conversation: &ConversationId) -> Self {
        let (name, channel) = (conversation.chat().to_string(), conversation.channel());
        // The character behind the one that ends the prefix.
        Self {
            topics: (format!("{name}/"), format!("{name}0")),
            channel: (format!("{channel}:"), format!("{channel};")),
            name,
        }
    }
}

/// Reads what is known of messages, where `part` of a conversation was first begun at `since`.
pub(crate) async fn list_recorded_messages(
    session: &mut Session<'_>,
    conversation: &ConversationId,
    part: PartId,
    since: Timestamp,
) -> Result<RecordedMessages> {
    let chat = ChatBounds::new(conversation);
    let mut known =
        RecordedMessages { other_doubt: other_doubt(session, &chat, part, since).await?, ..Default::default() };
    for row in received(session, &chat).await? {
        let message = recorded_message(&row.conversation, row.message)?;
        if row.received_at < since.0 {
            known.before.push(message);
        } else {
            known.other.push(message);
        }
    }
    for row in sent(session, &chat).await? {
        let mut messages: Vec<String> = row.target.into_iter().collect();
        match row.state_detail.0 {
            PartState::Sent { messages: sent } => messages.extend(sent.into_iter().map(|message| message.0)),
            PartState::Open { message } => messages.push(message.0),
            _ => {}
        }
        for message in messages {
            known.other.push(recorded_message(&row.conversation, message)?);
        }
    }
    Ok(known)
}

/// What people wrote of late on the whole channel. The message of a pressed button is one of ours.
async fn received(session: &mut Session<'_>, chat: &ChatBounds) -> Result<Vec<ReceivedRow>> {
    let rows = sqlx::query_as(
        "SELECT conversation, json_extract(message, '$.message') AS message, received_at FROM inbox \
         WHERE sequence > (SELECT COALESCE(MAX(sequence), 0) FROM inbox) - $3 \
         AND conversation > $1 AND conversation < $2 AND json_extract(message, '$.message') IS NOT NULL \
         AND json_extract(message, '$.pressed') IS NULL \
         ORDER BY sequence DESC LIMIT $4 + 0",
    )
    .bind(&chat.channel.0)
    .bind(&chat.channel.1)
    .bind(MAX_ROWS)
    .bind(MAX_MESSAGES)
    .fetch_all(session.connection().await?)
    .await?;
    Ok(rows)
}

/// What we sent of late on the whole channel. By the order of the rows: an index would bring all of the channel's.
async fn sent(session: &mut Session<'_>, chat: &ChatBounds) -> Result<Vec<SentRow>> {
    let rows = sqlx::query_as(
        "SELECT conversation, state_detail, target FROM parts NOT INDEXED \
         WHERE rowid > (SELECT COALESCE(MAX(rowid), 0) FROM parts) - $3 \
         AND conversation > $1 AND conversation < $2 AND (last_message IS NOT NULL OR target IS NOT NULL) \
         ORDER BY rowid DESC LIMIT $4 + 0",
    )
    .bind(&chat.channel.0)
    .bind(&chat.channel.1)
    .bind(MAX_ROWS)
    .bind(MAX_MESSAGES)
    .fetch_all(session.connection().await?)
    .await?;
    Ok(rows)
}

/// Whether another message to the chat may have arrived of which nobody knows the id.
async fn other_doubt(session: &mut Session<'_>, chat: &ChatBounds, part: PartId, since: Timestamp) -> Result<bool> {
    let ttl = i64::try_from(DOUBT_TTL.as_millis()).unwrap_or(i64::MAX);
    let found = sqlx::query_scalar(concat!(
        "SELECT EXISTS (SELECT 1 FROM parts NOT INDEXED \
         WHERE rowid > (SELECT COALESCE(MAX(rowid), 0) FROM parts) - $6 AND ",
        in_chat!("conversation"),
        " AND id <> $4 AND created_at > $5 AND ((labelled = 1 AND call IS NOT NULL) OR (target IS NULL AND (labelled = 1 \
         OR state IN ('sending', 'in_doubt') OR (searched = 1 AND settled = 0 AND state <> 'open') OR (state = 'failed' AND attempts > 0 \
             AND json_extract(state_detail, '$.reason.why') IN ('may_have_arrived', 'discarded'))))))"
    ))
    .bind(&chat.name)
    .bind(&chat.topics.0)
    .bind(&chat.topics.1)
    .bind(part.0)
    .bind(since.0.saturating_sub(ttl))
    .bind(MAX_ROWS)
    .fetch_one(session.connection().await?)
    .await?;
    Ok(found)
}

fn recorded_message(conversation: &str, message: String) -> Result<RecordedMessage> {
    Ok(RecordedMessage { conversation: rows::conversation(conversation)?, message: MessageRef(message) })
}
