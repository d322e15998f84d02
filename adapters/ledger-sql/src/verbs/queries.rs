//! What is read and never changed: files, the outbox.

use std::collections::HashSet;

use satchel_domain::{Attachment, AttachmentId, ConversationId, MessageRef, Part, PartId, Sha256, Visibility};
use satchel_ports::ledger::{AttachmentKey, AttachmentOrder, AttachmentQuery, FileCategory, FileOrigin, OutboxQuery};
use uuid::Uuid;

use crate::{
    attachments::{self, select_attachment},
    error::VerbError,
    lanes,
    parameters::{Parameter, ParameterType},
    params,
    rows::{self, AttachmentFields, PartRow, select_part},
    session::{Session, VerbResult},
};

/// Reads nothing, which takes an open database all the same.
pub async fn ping<S: Session>(db: &S) -> VerbResult<(), S> {
    db.value::<i64>("SELECT CAST(1 AS BIGINT)", params![]).await?;
    Ok(())
}

pub async fn attachment<S: Session>(
    db: &S,
    conversation: &ConversationId,
    key: AttachmentKey,
) -> VerbResult<Option<Attachment>, S> {
    let lane = lanes::find_id(db, conversation).await?;
    let found: Option<AttachmentFields> = match key {
        AttachmentKey::Id(id) => {
            db.find(select_attachment!("WHERE lane = $1 AND attachments.id = $2"), params![lane, id.0]).await?
        }
        AttachmentKey::Number(number) => {
            db.find(select_attachment!("WHERE lane = $1 AND number = $2"), params![lane, rows::signed(number)]).await?
        }
    };
    Ok(found.map(AttachmentFields::into_attachment).transpose()?)
}

/// A statement that is put together from constants, and what is bound in it.
struct Statement<'a> {
    sql: String,
    parameters: Vec<Parameter<'a>>,
}

impl<'a> Statement<'a> {
    fn new(sql: &str) -> Self {
        Self { sql: sql.to_owned(), parameters: Vec::new() }
    }

    fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    /// Adds a condition or a clause that ends with a bound value.
    fn push_bound(&mut self, sql: &str, value: Parameter<'a>) {
        self.parameters.push(value);
        self.sql.push_str(&format!("{sql} ${}", self.parameters.len()));
    }
}

/// Counts the files of a query.
pub async fn count_attachments<S: Session>(db: &S, query: &AttachmentQuery) -> VerbResult<u64, S> {
    let from = "FROM attachments WHERE forgotten_at IS NULL";
    if let Some(name) = &query.name_contains {
        let mut statement = Statement::new(&format!("SELECT filename {from}"));
        statement.push_conditions(query, lane_value(db, query).await?);
        let names: Vec<(String,)> = db.all(&statement.sql, &statement.parameters).await?;
        let name = name.to_lowercase();
        return Ok(names.iter().filter(|(filename,)| filename.to_lowercase().contains(&name)).count() as u64);
    }
    let mut statement = Statement::new(&format!("SELECT COUNT(*) {from}"));
    statement.push_conditions(query, lane_value(db, query).await?);
    let count: i64 = db.value(&statement.sql, &statement.parameters).await?;
    Ok(rows::number(count, "number of files")?)
}

pub async fn attachments<S: Session>(db: &S, query: &AttachmentQuery) -> VerbResult<Vec<Attachment>, S> {
    if let Some(name) = &query.name_contains {
        let ids = find_by_name(db, query, &name.to_lowercase()).await?;
        let mut records = attachments::read_records(db, ids.iter().copied().collect()).await?;
        return Ok(ids.into_iter().filter_map(|id| records.remove(id)).collect());
    }
    let mut statement = Statement::new(select_attachment!("WHERE forgotten_at IS NULL"));
    statement.push_conditions(query, lane_value(db, query).await?);
    statement.push_order(query);
    if query.limit.is_some() || query.offset > 0 {
        statement.push_bound(" LIMIT", Parameter::Integer(query.limit.map_or(i64::MAX, i64::from)));
        statement.push_bound(" OFFSET", Parameter::Integer(rows::signed(query.offset)));
    }
    let rows: Vec<AttachmentFields> = db.all(&statement.sql, &statement.parameters).await?;
    Ok(rows.into_iter().map(AttachmentFields::into_attachment).collect::<Result<_, _>>()?)
}

/// Finds the files of a page whose names contain this, in small letters. Databases have other small letters each, so names
/// are compared here.
async fn find_by_name<S: Session>(db: &S, query: &AttachmentQuery, name: &str) -> VerbResult<Vec<AttachmentId>, S> {
    let mut statement = Statement::new("SELECT id, filename FROM attachments WHERE forgotten_at IS NULL");
    statement.push_conditions(query, lane_value(db, query).await?);
    statement.push_order(query);
    let rows: Vec<(Uuid, String)> = db.all(&statement.sql, &statement.parameters).await?;
    let found = rows.into_iter().filter(|(_, filename)| filename.to_lowercase().contains(name));
    let offset = usize::try_from(query.offset).unwrap_or(usize::MAX);
    let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
    Ok(found.skip(offset).take(limit).map(|(id, _)| AttachmentId(id)).collect())
}

/// The number of the conversation that a query is for, as it is bound; `None` if it is for all.
async fn lane_value<S: Session>(db: &S, query: &AttachmentQuery) -> VerbResult<Option<Parameter<'static>>, S> {
    let Some(conversation) = &query.conversation else { return Ok(None) };
    let lane = lanes::find_id(db, conversation).await?;
    Ok(Some(lane.map_or(Parameter::Null(ParameterType::Integer), Parameter::Integer)))
}

impl<'a> Statement<'a> {
    /// Adds the conditions of a query but for that on names, which may be about many rows.
    fn push_conditions(&mut self, query: &'a AttachmentQuery, lane: Option<Parameter<'a>>) {
        if let Some(lane) = lane {
            self.push_bound(" AND lane =", lane);
        }
        if let Some(file) = query.file {
            self.push_bound(" AND attachments.id =", Parameter::Id(file.0));
        }
        if let Some(turn) = query.turn {
            self.push_bound(" AND turn =", Parameter::Id(turn.0));
        }
        if let Some(Sha256(digest)) = &query.sha256 {
            self.push_bound(" AND sha256 =", Parameter::Bytes(digest));
        }
        if let Some(number) = query.before {
            self.push_bound(" AND number <", Parameter::Integer(rows::signed(number)));
        }
        if let Some(prefix) = &query.mime_prefix {
            self.push_bound(" AND substr(mime, 1, length(", Parameter::Text(prefix));
            self.push_bound(")) =", Parameter::Text(prefix));
        }
        if let Some(source) = query.source {
            self.push_bound(" AND source =", Parameter::Text(source.as_str()));
        }
        if let Some(category) = query.category {
            self.push(match category {
                FileCategory::Image => " AND lower(mime) LIKE 'image/%'",
                FileCategory::Audio => " AND lower(mime) LIKE 'audio/%'",
                FileCategory::Video => " AND lower(mime) LIKE 'video/%'",
                FileCategory::Other => {
                    " AND lower(mime) NOT LIKE 'image/%' AND lower(mime) NOT LIKE 'audio/%' AND lower(mime) NOT LIKE 'video/%'"
                }
            });
        }
        if let Some(origin) = query.origin {
            self.push(match origin {
                FileOrigin::Person => " AND source = 'user'",
                FileOrigin::Assistant => " AND source <> 'user'",
            });
        }
        if let Some(visibility) = query.visibility {
            self.push(match visibility {
                Visibility::Deliver => " AND visibility = 'deliver'",
                Visibility::Internal => " AND visibility = 'internal'",
            });
        }
        if let Some(since) = query.since {
            self.push_bound(" AND created_at >=", Parameter::Integer(since.0));
        }
        if let Some(until) = query.until {
            self.push_bound(" AND created_at <", Parameter::Integer(until.0));
        }
    }

    fn push_order(&mut self, query: &AttachmentQuery) {
        // The number orders the files of one conversation as the sequence does, and has an index.
        let age = if query.conversation.is_some() { "number" } else { "sequence" };
        self.push(&match query.order {
            AttachmentOrder::Newest => format!(" ORDER BY {age} DESC"),
            AttachmentOrder::Oldest => format!(" ORDER BY {age}"),
            AttachmentOrder::Largest => format!(" ORDER BY bytes DESC, {age} DESC"),
        });
    }
}

/// Reads parts of the outbox. A draft is one of them once it stands.
pub async fn parts<S: Session>(db: &S, query: &OutboxQuery) -> VerbResult<Vec<Part>, S> {
    let file = query.file.map(|file| file.to_string());
    let mut statement = Statement::new(select_part!("WHERE (NOT draft OR state = 'open')"));
    if let Some(conversation) = &query.conversation {
        let lane = lanes::find_id(db, conversation).await?;
        statement.push_bound(" AND lane =", lane.map_or(Parameter::Null(ParameterType::Integer), Parameter::Integer));
    }
    if let Some(part) = query.part {
        statement.push_bound(" AND parts.id =", Parameter::Id(part.0));
    }
    if let Some(file) = &file {
        statement.push_bound(" AND instr(content,", Parameter::Text(file));
        statement.push(") > 0");
    }
    if query.unsettled_only {
        statement.push(" AND NOT settled AND state <> 'open' ORDER BY turn_sequence, position");
    } else {
        if !query.include_delivered {
            statement.push(
                " AND (NOT settled OR (state = 'failed' \
                 AND json_extract(state_detail, '$.reason.why') <> 'not_needed'))",
            );
        }
        statement.push(" ORDER BY turn_sequence DESC, position DESC");
    }
    if let Some(limit) = query.limit {
        statement.push_bound(" LIMIT", Parameter::Integer(i64::from(limit)));
    }
    let rows: Vec<PartRow> = db.all(&statement.sql, &statement.parameters).await?;
    rows::parts(db, rows).await
}

/// Reads the last message that was sent in the conversation before a part. Questions and drafts don't count: either may be
/// sent before the other, whatever their positions.
pub async fn last_sent_before<S: Session>(db: &S, part: PartId) -> VerbResult<Option<MessageRef>, S> {
    let place: Option<(i64, i64, i64)> =
        db.find("SELECT lane, turn_sequence, position FROM parts WHERE id = $1", params![part.0]).await?;
    let (lane, turn_sequence, position) = place.ok_or_else(|| VerbError::unknown(format!("part {part}")))?;
    let message: Option<(String,)> = db.find(
        "SELECT last_message FROM parts WHERE lane = $1 AND last_message IS NOT NULL AND call IS NULL AND NOT draft \
         AND (turn_sequence, position) < ($2, $3) ORDER BY turn_sequence DESC, position DESC LIMIT 1",
        params![lane, turn_sequence, position],
    ).await?;
    Ok(message.map(|(message,)| MessageRef(message)))
}

/// Of these addresses, those that no file's record, no prepared voice and no message that waits or is held back names.
pub async fn find_unreferenced<S: Session>(db: &S, blobs: &[Sha256]) -> VerbResult<Vec<Sha256>, S> {
    let digests: Vec<[u8; 32]> = blobs.iter().map(|Sha256(digest)| *digest).collect();
    let found: Vec<([u8; 32],)> = db
        .all(
            "SELECT value FROM rarray($1) \
             WHERE NOT EXISTS (SELECT 1 FROM attachments WHERE sha256 = value) \
               AND NOT EXISTS (SELECT 1 FROM parts WHERE voice_sha256 = value) \
               AND NOT EXISTS (SELECT 1 FROM inbox_files AS file JOIN inbox ON inbox.sequence = file.message \
                   WHERE file.sha256 = value AND file.state = 'waiting' AND (inbox.consumed_by IS NULL \
                       OR EXISTS (SELECT 1 FROM held_turns WHERE held_turns.turn = inbox.turn)))",
            params![digests],
        )
        .await?;
    let found: HashSet<[u8; 32]> = found.into_iter().map(|(digest,)| digest).collect();
    Ok(blobs.iter().copied().filter(|Sha256(digest)| found.contains(digest)).collect())
}
