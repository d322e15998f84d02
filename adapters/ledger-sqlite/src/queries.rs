//! What is read and never changed: files, the outbox.

use rusqlite::{params, params_from_iter, types::Value};
use satchel_domain::{Attachment, ConversationId, MessageRef, Part, PartId, Sha256, Visibility};
use satchel_ports::ledger::{AttachmentKey, AttachmentOrder, AttachmentQuery, FileCategory, FileOrigin, OutboxQuery};

use crate::{
    attachments::{AttachmentRow, select_attachment},
    database::{Database, Json, Query},
    error::{Error, Result},
    lanes,
    rows::{self, PartRow, select_part},
};

/// Reads nothing, which takes an open database all the same.
pub(crate) fn ping(db: &Database) -> Result<()> {
    db.value::<i64>("SELECT 1", [])?;
    Ok(())
}

pub(crate) fn attachment(
    db: &Database,
    conversation: &ConversationId,
    key: AttachmentKey,
) -> Result<Option<Attachment>> {
    let lane = lanes::find_id(db, conversation)?;
    let found: Option<AttachmentRow> = match key {
        AttachmentKey::Id(id) => {
            db.find(select_attachment!("WHERE lane = ?1 AND attachments.id = ?2"), params![lane, id.0])?
        }
        AttachmentKey::Number(number) => {
            db.find(select_attachment!("WHERE lane = ?1 AND number = ?2"), params![lane, rows::signed(number)])?
        }
    };
    found.map(AttachmentRow::into_attachment).transpose()
}

/// A statement that is put together from constants, and what is bound in it.
struct Statement {
    sql: String,
    parameters: Vec<Value>,
}

impl Statement {
    fn new(sql: &str) -> Self {
        Self { sql: sql.to_owned(), parameters: Vec::new() }
    }

    fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    /// Adds a condition or a clause that ends with a bound value.
    fn push_bound(&mut self, sql: &str, value: impl Into<Value>) {
        self.parameters.push(value.into());
        self.sql.push_str(&format!("{sql} ?{}", self.parameters.len()));
    }
}

pub(crate) fn attachments(db: &Database, query: &AttachmentQuery) -> Result<Vec<Attachment>> {
    let mut statement = Statement::new(select_attachment!("WHERE forgotten_at IS NULL"));
    if let Some(conversation) = &query.conversation {
        statement.push_bound(" AND lane =", lanes::find_id(db, conversation)?);
    }
    if let Some(turn) = query.turn {
        statement.push_bound(" AND turn =", turn.0.as_bytes().to_vec());
    }
    if let Some(Sha256(digest)) = query.sha256 {
        statement.push_bound(" AND sha256 =", digest.to_vec());
    }
    if let Some(number) = query.before {
        statement.push_bound(" AND number <", rows::signed(number));
    }
    if let Some(category) = query.category {
        statement.push(match category {
            FileCategory::Image => " AND mime LIKE 'image/%'",
            FileCategory::Audio => " AND mime LIKE 'audio/%'",
            FileCategory::Video => " AND mime LIKE 'video/%'",
            FileCategory::Other => {
                " AND mime NOT LIKE 'image/%' AND mime NOT LIKE 'audio/%' AND mime NOT LIKE 'video/%'"
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
    let rows: Vec<AttachmentRow> = db.all(&statement.sql, params_from_iter(statement.parameters))?;
    rows.into_iter().map(AttachmentRow::into_attachment).collect()
}

/// Reads parts of the outbox. A draft is one of them once it stands.
pub(crate) fn outbox(db: &Database, query: &OutboxQuery) -> Result<Vec<Part>> {
    let mut statement = Statement::new(select_part!("WHERE (draft = 0 OR state = 'open')"));
    if let Some(conversation) = &query.conversation {
        statement.push_bound(" AND lane =", lanes::find_id(db, conversation)?);
    }
    if let Some(part) = query.part {
        statement.push_bound(" AND parts.id =", part.0.as_bytes().to_vec());
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
        statement.push_bound(" LIMIT", i64::from(limit));
    }
    let rows: Vec<PartRow> = db.all(&statement.sql, params_from_iter(statement.parameters))?;
    rows::parts(db, rows)
}

/// Reads the last message that was sent in the conversation before a part. Questions and drafts don't count: either may be
/// sent before the other, whatever their positions.
pub(crate) fn last_sent_before(db: &Database, part: PartId) -> Result<Option<MessageRef>> {
    let place: Option<(i64, i64, i64)> =
        db.find("SELECT lane, turn_sequence, position FROM parts WHERE id = ?1", [part.0])?;
    let (lane, turn_sequence, position) = place.ok_or_else(|| Error::unknown(format!("part {part}")))?;
    let message: Option<(String,)> = db.find(
        "SELECT last_message FROM parts WHERE lane = ?1 AND last_message IS NOT NULL AND call IS NULL AND draft = 0 \
         AND (turn_sequence, position) < (?2, ?3) ORDER BY turn_sequence DESC, position DESC LIMIT 1",
        [lane, turn_sequence, position],
    )?;
    Ok(message.map(|(message,)| MessageRef(message)))
}

/// Of these addresses, those that no file's record, no prepared voice and no message that waits or is held back names.
pub(crate) fn unreferenced(db: &Database, blobs: &[Sha256]) -> Result<Vec<Sha256>> {
    let found: Vec<(String,)> = db.all(
        "SELECT value FROM json_each(?1) \
         WHERE NOT EXISTS (SELECT 1 FROM attachments WHERE sha256 = unhex(value)) \
           AND NOT EXISTS (SELECT 1 FROM parts WHERE voice_sha256 = unhex(value)) \
           AND NOT EXISTS (SELECT 1 FROM inbox_files AS file JOIN inbox ON inbox.sequence = file.message \
               WHERE file.sha256 = unhex(value) AND file.state = 'waiting' AND (inbox.consumed_by IS NULL \
                   OR EXISTS (SELECT 1 FROM held_turns WHERE held_turns.turn = inbox.turn))) ORDER BY key",
        [Json(blobs)],
    )?;
    found.iter().map(|(text,)| text.parse().map_err(|_| Error::Row { what: "blob's address" })).collect()
}
