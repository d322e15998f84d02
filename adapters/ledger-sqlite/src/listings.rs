//! How conversations are listed. One that nobody has named, pinned, archived or forgotten has no row.

use rusqlite::{Row, params};
use satchel_domain::{ConversationId, Timestamp, TurnId};
use satchel_ports::ledger::{ConversationQuery, ConversationSummary, ListingChange};
use uuid::Uuid;

use crate::{
    database::{Database, Query},
    error::Result,
    lanes::{self, LaneId},
    rows, search,
};

/// The beginning of the first text of the lane `listed.lane`, enough for a title.
macro_rules! title {
    () => {
        "(SELECT substr(message ->> 'text', 1, 200) FROM inbox WHERE turn = (SELECT id FROM turns \
            WHERE turns.lane = listed.lane AND sequence > listed.forgotten_through ORDER BY sequence LIMIT 1) \
         ORDER BY sequence LIMIT 1)"
    };
}
pub(crate) use title;

/// The sequence of the last turn of a lane.
macro_rules! last_turn {
    () => {
        "(SELECT MAX(sequence) FROM turns WHERE turns.lane = lanes.id)"
    };
}

/// Selects entries under a condition on lanes and their listings, which ends with an order and a limit where there is one.
/// Nearly all lanes have no listing and are only asked for their last turn; all else is read of those that are listed.
macro_rules! select_listed {
    ($($condition:expr),+) => {
        concat!(
            "WITH listed AS MATERIALIZED ( \
                 SELECT lanes.id AS lane, ",
            last_turn!(),
            " AS last, name, COALESCE(pinned, 0) AS pinned, COALESCE(archived_through, 0) AS archived_through, \
                     COALESCE(forgotten_through, 0) AS forgotten_through \
                 FROM lanes LEFT JOIN conversation_listings AS listing ON listing.lane = lanes.id WHERE ",
            $($condition,)+
            ") SELECT conversation, name, ",
            title!(),
            " AS title, pinned, last <= archived_through AS archived, turns.id AS last_turn, \
                 (SELECT MAX(received_at) FROM inbox WHERE inbox.turn = turns.id) AS last_at, \
                 (SELECT model FROM conversation_settings WHERE conversation_settings.lane = listed.lane) AS model \
             FROM listed JOIN lanes ON lanes.id = listed.lane JOIN turns ON turns.sequence = last ORDER BY last DESC"
        )
    };
}

struct SummaryRow {
    conversation: String,
    name: Option<String>,
    title: Option<String>,
    pinned: bool,
    archived: bool,
    last_turn: Uuid,
    last_at: i64,
    model: Option<String>,
}

impl TryFrom<&Row<'_>> for SummaryRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            conversation: row.get("conversation")?,
            name: row.get("name")?,
            title: row.get("title")?,
            pinned: row.get("pinned")?,
            archived: row.get("archived")?,
            last_turn: row.get("last_turn")?,
            last_at: row.get("last_at")?,
            model: row.get("model")?,
        })
    }
}

impl SummaryRow {
    fn into_summary(self) -> Result<ConversationSummary> {
        Ok(ConversationSummary {
            conversation: rows::conversation(&self.conversation)?,
            name: self.name,
            title: self.title.unwrap_or_default(),
            pinned: self.pinned,
            archived: self.archived,
            last_turn: TurnId(self.last_turn),
            last_at: Timestamp(self.last_at),
            model: self.model,
        })
    }
}

/// Reads the pinned conversations of a channel, and after them the others.
pub(crate) fn list(db: &Database, query: &ConversationQuery) -> Result<Vec<ConversationSummary>> {
    let ConversationQuery { channel, archived, before, limit } = query;
    let mut rows: Vec<SummaryRow> = Vec::new();
    if before.is_none() && !archived {
        rows = db.all(
            select_listed!("channel = ?1 AND pinned = 1 AND ", last_turn!(), " > forgotten_through"),
            [channel.as_str()],
        )?;
    }
    let others: Vec<SummaryRow> = db.all(
        select_listed!(
            "channel = ?1 AND CASE WHEN listing.lane IS NULL THEN ?2 = 0 ELSE pinned = 0 AND ",
            last_turn!(),
            " > forgotten_through AND (",
            last_turn!(),
            " <= archived_through) = ?2 END AND (?3 IS NULL OR ",
            last_turn!(),
            " < (SELECT sequence FROM turns WHERE id = ?3)) ORDER BY last DESC LIMIT ?4 + 0"
        ),
        params![channel.as_str(), archived, before.map(|turn| turn.0), limit],
    )?;
    rows.extend(others);
    rows.into_iter().map(SummaryRow::into_summary).collect()
}

/// Reads the entry of a conversation.
pub(crate) fn find(db: &Database, conversation: &ConversationId) -> Result<Option<ConversationSummary>> {
    let row: Option<SummaryRow> = db.find(
        select_listed!("conversation = ?1 AND ", last_turn!(), " > COALESCE(forgotten_through, 0)"),
        [conversation.to_string()],
    )?;
    row.map(SummaryRow::into_summary).transpose()
}

/// Changes how a conversation is listed; returns whether there is such a one.
pub(crate) fn change(db: &Database, conversation: &ConversationId, changes: &[ListingChange]) -> Result<bool> {
    let Some(lane) = lanes::find_id(db, conversation)? else { return Ok(false) };
    if !is_listed(db, lane)? {
        return Ok(false);
    }
    for change in changes {
        db.run("INSERT INTO conversation_listings (lane) VALUES (?1) ON CONFLICT (lane) DO NOTHING", [lane])?;
        match change {
            ListingChange::Name(name) => {
                db.run("UPDATE conversation_listings SET name = ?2 WHERE lane = ?1", params![lane, name])?;
                search::index_name(db, lane, name.as_deref())?;
            }
            ListingChange::Pin => set(db, lane, "pinned = 1, archived_through = 0")?,
            ListingChange::Unpin => set(db, lane, "pinned = 0")?,
            ListingChange::Archive => {
                set(db, lane, "pinned = 0, archived_through = (SELECT MAX(sequence) FROM turns WHERE turns.lane = ?1)")?
            }
            ListingChange::Unarchive => set(db, lane, "archived_through = 0")?,
        }
    }
    Ok(true)
}

fn set(db: &Database, lane: LaneId, assignments: &'static str) -> Result<()> {
    db.run(&format!("UPDATE conversation_listings SET {assignments} WHERE lane = ?1"), [lane])?;
    Ok(())
}

/// Whether a conversation has a turn that isn't forgotten.
pub(crate) fn is_listed(db: &Database, lane: LaneId) -> Result<bool> {
    db.value(
        "SELECT COALESCE((SELECT MAX(sequence) FROM turns WHERE lane = ?1), 0) \
             > COALESCE((SELECT forgotten_through FROM conversation_listings WHERE lane = ?1), 0)",
        [lane],
    )
}

/// Removes what is said of a lane that is removed.
pub(crate) fn remove(db: &Database, lane: LaneId) -> Result<()> {
    db.run("DELETE FROM conversation_listings WHERE lane = ?1", [lane])?;
    search::index_name(db, lane, None)
}
