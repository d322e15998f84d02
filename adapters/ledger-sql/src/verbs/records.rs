//! Turns as they are remembered: what was said, what was answered, and how its parts fared.

use std::collections::HashMap;

use satchel_domain::{ConversationId, Ending, OutgoingResponse, Part, Timestamp, TurnId};
use satchel_ledger::stored::{AttachmentRef, StoredError};
use satchel_ports::ledger::{TurnQuery, TurnRecord};
use uuid::Uuid;

use crate::{
    attachments,
    columns::{FromRow, Row},
    lanes,
    parameters::Json,
    params,
    rows::{self, MessageFields, PartRow, select_messages, select_part},
    session::{Session, VerbResult},
    verbs::calls,
};

struct TurnRow {
    id: Uuid,
    conversation: String,
    ending: Option<Ending>,
    response: Option<OutgoingResponse<AttachmentRef>>,
    replaced_by: Option<Uuid>,
}

impl FromRow for TurnRow {
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        Ok(Self {
            id: row.get("id")?,
            conversation: row.get("conversation")?,
            ending: row.get::<Option<Json<_>>>("ending")?.map(|json| json.0),
            response: row.get::<Option<Json<_>>>("response")?.map(|json| json.0),
            replaced_by: row.get("replaced_by")?,
        })
    }
}

/// Reads a turn; one whose messages were all injected into another is answered with that one. A forgotten one is none.
pub async fn turn<S: Session>(db: &S, turn: TurnId) -> VerbResult<Option<TurnRecord>, S> {
    let row: Option<TurnRow> = db.find(
        "SELECT turns.id, conversation, ending, response, replaced_by FROM turns JOIN lanes ON lanes.id = turns.lane \
         WHERE turns.id = (SELECT COALESCE(merged_into, id) FROM turns WHERE id = $1) AND state <> 'merged'",
        params![turn.0],
    ).await?;
    Ok(with_details(db, row.into_iter().collect()).await?.pop())
}

/// Reads turns of a conversation, oldest first.
pub async fn turns<S: Session>(db: &S, query: &TurnQuery) -> VerbResult<Vec<TurnRecord>, S> {
    let mut rows: Vec<TurnRow> = db.all(
        "SELECT turns.id, conversation, ending, response, replaced_by FROM turns JOIN lanes ON lanes.id = turns.lane \
         WHERE lane = $1 AND state <> 'merged' \
         AND ($2 IS NULL OR sequence < (SELECT sequence FROM turns WHERE id = $2)) ORDER BY sequence DESC LIMIT $3 + 0",
        params![lanes::find_id(db, &query.conversation).await?, query.before.map(|turn| turn.0), query.limit],
    ).await?;
    rows.reverse();
    with_details(db, rows).await
}

/// Looks for an incomplete turn before one of the same conversation. Only a process that works on its own turns leaves one
/// behind.
pub async fn has_earlier_work<S: Session>(db: &S, turn: TurnId) -> VerbResult<bool, S> {
    db.value(
        "SELECT EXISTS (SELECT 1 FROM turns JOIN turns AS earlier \
         ON earlier.lane = turns.lane AND earlier.sequence < turns.sequence \
         WHERE turns.id = $1 AND earlier.state = 'queued')",
        params![turn.0],
    )
    .await
}

/// Counts the notifications that wait in each conversation, for a look at the database beside the processes that use it.
pub const COUNT_QUEUED_NOTIFICATIONS: &str = "SELECT conversation, COUNT(*) FROM turns JOIN lanes ON lanes.id = turns.lane \
     WHERE state = 'queued' AND EXISTS (SELECT 1 FROM inbox \
         WHERE inbox.turn = turns.id AND json_extract(message, '$.errand.errand') = 'notification') \
     GROUP BY conversation ORDER BY conversation";

/// Reads the turns of notifications that wait.
pub async fn list_queued_notifications<S: Session>(
    db: &S,
    conversation: Option<ConversationId>,
) -> VerbResult<Vec<TurnRecord>, S> {
    let rows: Vec<TurnRow> = db
        .all(
            "SELECT turns.id, conversation, ending, response, replaced_by FROM turns JOIN lanes ON lanes.id = turns.lane \
         WHERE state = 'queued' AND ($1 IS NULL OR conversation = $1) AND EXISTS (SELECT 1 FROM inbox \
             WHERE inbox.turn = turns.id AND json_extract(message, '$.errand.errand') = 'notification') \
         ORDER BY sequence",
            params![conversation.as_ref().map(ConversationId::to_string)],
        )
        .await?;
    with_details(db, rows).await
}

/// Reads the conversations with a turn that is incomplete, or was completed at `since` or later.
pub async fn active_conversations<S: Session>(db: &S, since: Timestamp) -> VerbResult<Vec<ConversationId>, S> {
    // By lane, since turns have no index by time: the last completed one of each is found at once.
    let rows: Vec<(String,)> = db
        .all(
            "SELECT conversation FROM lanes \
         WHERE EXISTS (SELECT 1 FROM turns WHERE turns.lane = lanes.id AND state = 'queued') \
            OR (SELECT completed_at FROM turns WHERE turns.lane = lanes.id AND state = 'completed' \
                ORDER BY sequence DESC LIMIT 1) >= $1",
            params![since.0],
        )
        .await?;
    Ok(rows.iter().map(|(conversation,)| rows::conversation(conversation)).collect::<Result<_, _>>()?)
}

/// Adds what was said and sent, read for all turns at once.
async fn with_details<S: Session>(db: &S, turns: Vec<TurnRow>) -> VerbResult<Vec<TurnRecord>, S> {
    let ids: Vec<Uuid> = turns.iter().map(|turn| turn.id).collect();
    let parts: Vec<PartRow> = db
        .all(
            select_part!("WHERE turn IN (SELECT value FROM rarray($1)) ORDER BY turn_sequence, position, parts.id"),
            params![&ids],
        )
        .await?;
    // A message that was injected into another turn was answered there.
    let messages: Vec<MessageFields> = db
        .all(
            select_messages!(
                "WHERE inbox.sequence IN ( \
                 SELECT sequence FROM inbox WHERE turn IN (SELECT value FROM rarray($1)) \
                     AND (consumed_by IS NULL OR consumed_by = turn) \
                 UNION ALL \
                 SELECT sequence FROM inbox WHERE consumed_by IN (SELECT value FROM rarray($1)) \
                     AND consumed_by <> turn) \
             ORDER BY inbox.sequence, inbox_files.position"
            ),
            params![&ids],
        )
        .await?;

    let responses = turns.iter().flat_map(|turn| &turn.response);
    let answered = responses.flat_map(|response| response.attachments.iter().map(|file| file.id));
    let sent = parts.iter().flat_map(PartRow::files);
    let received = messages.iter().filter_map(MessageFields::file);
    let records = attachments::read_records(db, answered.chain(sent).chain(received).collect()).await?;
    let mut parts_of: HashMap<Uuid, Vec<Part>> = HashMap::new();
    for row in parts {
        parts_of.entry(row.turn).or_default().push(rows::to_part(db, row, &records)?);
    }
    let mut messages_of: HashMap<Uuid, Vec<MessageFields>> = HashMap::new();
    for row in messages {
        messages_of.entry(row.answered_in).or_default().push(row);
    }
    let mut calls_of = calls::read(db, &ids).await?;
    let record = |turn: TurnRow| {
        let resolve = |response: OutgoingResponse<_>| response.try_map_files(|file| records.resolve(file));
        Ok::<_, StoredError>(TurnRecord {
            id: TurnId(turn.id),
            conversation: rows::conversation(&turn.conversation)?,
            ending: turn.ending,
            response: turn.response.map(resolve).transpose()?,
            messages: rows::messages(messages_of.remove(&turn.id).unwrap_or_default(), &records)?,
            parts: parts_of.remove(&turn.id).unwrap_or_default(),
            calls: calls_of.remove(&turn.id).unwrap_or_default(),
            replaced_by: turn.replaced_by.map(TurnId),
        })
    };
    Ok(turns.into_iter().map(record).collect::<Result<_, _>>()?)
}
