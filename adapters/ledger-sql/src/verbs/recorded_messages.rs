//! Which messages are known to stand in a chat, so that a look-up by ids can tell a doubtful one from the rest.

use std::time::Duration;

use satchel_domain::{ConversationId, MessageRef, PartId, PartState, Timestamp};
use satchel_ledger::chat::ChatBounds;
use satchel_ports::ledger::{RecordedMessage, RecordedMessages};

use crate::{
    error::VerbError,
    parameters::Json,
    params, rows,
    session::{Session, VerbResult},
};

/// How many of the newest rows are looked at, and of the inbox how many of the newest numbers, of which some have no row. Older
/// messages have lower ids than any that is looked for.
const MAX_ROWS: i64 = 20_000;

/// The condition of the newest so many parts. By the order of their ids, which begin with the time: an index of lanes would
/// bring all of the channel's.
macro_rules! newest_parts {
    ($count:literal) => {
        concat!(
            "parts.id >= COALESCE((SELECT id FROM parts ORDER BY id DESC LIMIT 1 OFFSET ",
            $count,
            " + 0), ",
            "(SELECT id FROM parts ORDER BY id LIMIT 1))"
        )
    };
}

/// How many messages are read of each sort, the newest first.
const MAX_MESSAGES: i64 = 2_000;

/// For how long a doubt that was never resolved makes others in its chat uncertain: a day, behind the day for which
/// parts are sent by default.
const DOUBT_TTL: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// Reads what is known of messages around a part.
pub async fn list_recorded_messages<S: Session>(
    db: &S,
    conversation: &ConversationId,
    part: PartId,
) -> VerbResult<RecordedMessages, S> {
    let chat = ChatBounds::new(conversation);
    let start = FirstStart::read(db, part).await?;
    let other_doubt = other_doubt(db, &chat, part, start.at).await?;
    let mut known = RecordedMessages { other_doubt, ..RecordedMessages::default() };
    for (conversation, message, sequence) in received(db, &chat).await? {
        let message = recorded_message(&conversation, message)?;
        if sequence <= start.newest_message {
            known.before.push(message);
        } else {
            known.other.push(message);
        }
    }
    for (conversation, Json(state), target) in sent(db, &chat).await? {
        let mut messages: Vec<String> = target.into_iter().collect();
        match state {
            PartState::Sent { messages: sent } => messages.extend(sent.into_iter().map(|message| message.0)),
            PartState::Open { message } => messages.push(message.0),
            _ => {}
        }
        for message in messages {
            known.other.push(recorded_message(&conversation, message)?);
        }
    }
    Ok(known)
}

/// When a part was first started; when it was created, where it never was.
struct FirstStart {
    at: Timestamp,
    /// The newest of the inbox at that moment. The times of messages are those of other machines' clocks.
    newest_message: i64,
}

impl FirstStart {
    async fn read<S: Session>(db: &S, part: PartId) -> VerbResult<Self, S> {
        let found: Option<(i64, i64)> = db
            .find(
                "SELECT COALESCE(first_attempt_at, created_at), COALESCE(first_attempt_after, 0) FROM parts \
                 WHERE id = $1",
                params![part.0],
            )
            .await?;
        let (at, newest_message) = found.unwrap_or_default();
        Ok(Self { at: Timestamp(at), newest_message })
    }
}

/// What people wrote of late on the whole channel. The message of a pressed button is one of ours.
async fn received<S: Session>(db: &S, chat: &ChatBounds) -> VerbResult<Vec<(String, String, i64)>, S> {
    db.all(
        "SELECT conversation, json_extract(message, '$.message') AS message, sequence \
         FROM inbox CROSS JOIN lanes \
         WHERE sequence > (SELECT COALESCE(MAX(sequence), 0) FROM inbox) - $3 AND lanes.id = inbox.lane \
         AND conversation > $1 AND conversation < $2 AND json_extract(inbox.message, '$.message') IS NOT NULL \
         AND json_extract(inbox.message, '$.pressed') IS NULL \
         ORDER BY sequence DESC LIMIT $4 + 0",
        params![chat.channel.0, chat.channel.1, MAX_ROWS, MAX_MESSAGES],
    )
    .await
}

/// A conversation, the state of one of its parts, and the message that the part edits.
type SentRow = (String, Json<PartState>, Option<String>);

/// What we sent of late on the whole channel.
async fn sent<S: Session>(db: &S, chat: &ChatBounds) -> VerbResult<Vec<SentRow>, S> {
    db.all(
        concat!(
            "SELECT conversation, state_detail, target FROM parts CROSS JOIN lanes WHERE ",
            newest_parts!("$3"),
            " AND lanes.id = parts.lane AND conversation > $1 AND conversation < $2 \
             AND (last_message IS NOT NULL OR target IS NOT NULL) ORDER BY parts.id DESC LIMIT $4 + 0"
        ),
        params![chat.channel.0, chat.channel.1, MAX_ROWS, MAX_MESSAGES],
    )
    .await
}

/// Whether another message to the chat, or to one of its topics, may have arrived of which nobody knows the id.
async fn other_doubt<S: Session>(
    db: &S,
    chat: &ChatBounds,
    part: PartId,
    started_at: Timestamp,
) -> VerbResult<bool, S> {
    let ttl = i64::try_from(DOUBT_TTL.as_millis()).unwrap_or(i64::MAX);
    db.value(
        concat!(
            "SELECT EXISTS (SELECT 1 FROM parts CROSS JOIN lanes WHERE ",
            newest_parts!("$6"),
            " AND lanes.id = parts.lane AND (conversation = $1 OR (conversation > $2 AND conversation < $3)) \
             AND parts.id <> $4 AND created_at > $5 AND ((labelled AND call IS NOT NULL) OR (target IS NULL AND (labelled \
             OR state IN ('sending', 'in_doubt') OR (searched AND NOT settled AND state <> 'open') \
             OR (state = 'failed' AND attempts > 0 \
                 AND json_extract(state_detail, '$.reason.why') IN ('may_have_arrived', 'discarded'))))))"
        ),
        params![
            chat.name,
            chat.topics.0,
            chat.topics.1,
            part.0,
            started_at.0.saturating_sub(ttl),
            MAX_ROWS,
        ],
    ).await
}

fn recorded_message(conversation: &str, message: String) -> Result<RecordedMessage, VerbError> {
    Ok(RecordedMessage { conversation: rows::conversation(conversation)?, message: MessageRef(message) })
}
