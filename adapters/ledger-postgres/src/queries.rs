//! What is read and never changed: files, the outbox.

use satchel_domain::{Attachment, ConversationId, MessageRef, Part, PartId, Sha256, Visibility};
use satchel_ports::ledger::{AttachmentKey, AttachmentOrder, AttachmentQuery, FileCategory, FileOrigin, OutboxQuery};

use crate::{
    attachments::{AttachmentRow, select_attachment},
    database::{ColumnValue, Database, StatementParameters, params},
    error::{Error, Result},
    lanes,
    rows::{self, PartRow, select_part},
};

/// Reads nothing, which takes an open database all the same.
pub(crate) async fn ping(db: &Database) -> Result<()> {
    db.value::<i64>("SELECT 1::BIGINT", params![]).await?;
    Ok(())
}

/// Counts the processes that are connected, by the names of their connections.
pub(crate) async fn count_processes(db: &Database) -> Result<usize> {
    let count: i64 = db
        .value(
            "SELECT COUNT(DISTINCT application_name) FROM pg_stat_activity \
             WHERE datname = current_database() AND split_part(application_name, '/', 1) = 'satchel' \
             AND split_part(application_name, '/', 3) = current_schema()",
            params![],
        )
        .await?;
    Ok(usize::try_from(count).unwrap_or(0))
}

pub(crate) async fn attachment(
    db: &Database,
    conversation: &ConversationId,
    key: AttachmentKey,
) -> Result<Option<Attachment>> {
    let lane = lanes::find_id(db, conversation).await?;
    let found: Option<AttachmentRow> = match key {
        AttachmentKey::Id(id) => {
            db.find(select_attachment!("WHERE lane = $1 AND attachments.id = $2"), params![lane, id.0]).await?
        }
        AttachmentKey::Number(number) => {
            db.find(select_attachment!("WHERE lane = $1 AND number = $2"), params![lane, rows::signed(number)]).await?
        }
    };
    found.map(AttachmentRow::into_attachment).transpose()
}

/// A statement that is put together from constants, and what is bound in it.
struct Statement {
    sql: String,
    parameters: StatementParameters,
}

impl Statement {
    fn new(sql: &str) -> Self {
        Self { sql: sql.to_owned(), parameters: StatementParameters::default() }
    }

    fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    /// Adds a condition or a clause that ends with a bound value.
    fn push_bound(&mut self, sql: &str, value: impl ColumnValue) {
        self.parameters.push(&value);
        self.sql.push_str(&format!("{sql} ${}", self.parameters.len()));
    }
}

pub(crate) async fn attachments(db: &Database, query: &AttachmentQuery) -> Result<Vec<Attachment>> {
    let mut statement = Statement::new(select_attachment!("WHERE forgotten_at IS NULL"));
    if let Some(conversation) = &query.conversation {
        statement.push_bound(" AND lane =", lanes::find_id(db, conversation).await?);
    }
    if let Some(turn) = query.turn {
        statement.push_bound(" AND turn =", turn.0);
    }
    if let Some(Sha256(digest)) = query.sha256 {
        statement.push_bound(" AND sha256 =", digest);
    }
    if let Some(number) = query.before {
        statement.push_bound(" AND number <", rows::signed(number));
    }
    if let Some(category) = query.category {
        statement.push(match category {
            FileCategory::Image => " AND mime ILIKE 'image/%'",
            FileCategory::Audio => " AND mime ILIKE 'audio/%'",
            FileCategory::Video => " AND mime ILIKE 'video/%'",
            FileCategory::Other => {
                " AND mime NOT ILIKE 'image/%' AND mime NOT ILIKE 'audio/%' AND mime NOT ILIKE 'video/%'"
            }
        });
    }
    if let Some(origin) = query.origin {
        statement.push(match origin {
            FileOrigin::Person => " AND source = 'user'",
            FileOrigin::Assistant => " AND source <> 'user'",
        });
    }
    if let Some(visibility) = query.visibility {
        statement.push(match visibility {
            Visibility::Deliver => " AND visibility = 'deliver'",
            Visibility::Internal => " AND visibility = 'internal'",
        });
    }
    if let Some(since) = query.since {
        statement.push_bound(" AND created_at >=", since.0);
    }
    if let Some(until) = query.until {
        statement.push_bound(" AND created_at <", until.0);
    }
    // The number orders the files of one conversation as the sequence does, and has an index.
    let age = if query.conversation.is_some() { "number" } else { "sequence" };
    statement.push(" ORDER BY ");
    statement.push(&match query.order {
        AttachmentOrder::Newest => format!("{age} DESC"),
        AttachmentOrder::Oldest => age.to_owned(),
        AttachmentOrder::Largest => format!("bytes DESC, {age} DESC"),
    });
    if let Some(limit) = query.limit {
        statement.push_bound(" LIMIT", i64::from(limit));
    }
    let rows: Vec<AttachmentRow> = db.all(&statement.sql, statement.parameters).await?;
    rows.into_iter().map(AttachmentRow::into_attachment).collect()
}

/// Reads parts of the outbox. A draft is one of them once it stands.
pub(crate) async fn outbox(db: &Database, query: &OutboxQuery) -> Result<Vec<Part>> {
    let mut statement = Statement::new(select_part!("WHERE (NOT draft OR state = 'open')"));
    if let Some(conversation) = &query.conversation {
        statement.push_bound(" AND lane =", lanes::find_id(db, conversation).await?);
    }
    if let Some(part) = query.part {
        statement.push_bound(" AND parts.id =", part.0);
    }
    if query.unsettled_only {
        statement.push(" AND NOT settled AND state <> 'open' ORDER BY turn_sequence, position");
    } else {
        if !query.include_delivered {
            statement.push(
                " AND (NOT settled OR (state = 'failed' \
                 AND state_detail::json #>> '{reason,why}' <> 'not_needed'))",
            );
        }
        statement.push(" ORDER BY turn_sequence DESC, position DESC");
    }
    if let Some(limit) = query.limit {
        statement.push_bound(" LIMIT", i64::from(limit));
    }
    let rows: Vec<PartRow> = db.all(&statement.sql, statement.parameters).await?;
    rows::parts(db, rows).await
}

/// Reads the last message that was sent in the conversation before a part. Questions and drafts don't count: either may be
/// sent before the other, whatever their positions.
pub(crate) async fn last_sent_before(db: &Database, part: PartId) -> Result<Option<MessageRef>> {
    let place: Option<(i64, i64, i64)> =
        db.find("SELECT lane, turn_sequence, position FROM parts WHERE id = $1", params![part.0]).await?;
    let (lane, turn_sequence, position) = place.ok_or_else(|| Error::unknown(format!("part {part}")))?;
    let message: Option<(String,)> = db.find(
        "SELECT last_message FROM parts WHERE lane = $1 AND last_message IS NOT NULL AND call IS NULL AND NOT draft \
         AND (turn_sequence, position) < ($2, $3) ORDER BY turn_sequence DESC, position DESC LIMIT 1",
        params![lane, turn_sequence, position],
    ).await?;
    Ok(message.map(|(message,)| MessageRef(message)))
}

/// Of these addresses, those that no file's record, no prepared voice and no message that waits or is held back names.
pub(crate) async fn unreferenced(db: &Database, blobs: &[Sha256]) -> Result<Vec<Sha256>> {
    let digests: Vec<Vec<u8>> = blobs.iter().map(|Sha256(digest)| digest.to_vec()).collect();
    let found: Vec<([u8; 32],)> = db
        .all(
            "SELECT value FROM unnest($1) WITH ORDINALITY AS named (value, place) \
             WHERE NOT EXISTS (SELECT 1 FROM attachments WHERE sha256 = value) \
               AND NOT EXISTS (SELECT 1 FROM parts WHERE voice_sha256 = value) \
               AND NOT EXISTS (SELECT 1 FROM inbox_files AS file JOIN inbox ON inbox.sequence = file.message \
                   WHERE file.sha256 = value AND file.state = 'waiting' AND (inbox.consumed_by IS NULL \
                       OR EXISTS (SELECT 1 FROM held_turns WHERE held_turns.turn = inbox.turn))) ORDER BY place",
            params![digests],
        )
        .await?;
    Ok(found.into_iter().map(|(digest,)| Sha256(digest)).collect())
}
