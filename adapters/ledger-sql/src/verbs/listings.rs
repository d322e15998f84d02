//! How conversations are listed. One that nobody has named, pinned, archived or forgotten has no row.

use satchel_domain::{ConversationId, Timestamp, TurnId};
use satchel_ports::ledger::{ConversationQuery, ConversationSummary, ListingChange};
use uuid::Uuid;

use crate::{
    error::VerbError,
    lanes::{self, LaneId},
    params, row_struct, rows,
    session::{Session, VerbResult},
};

/// The beginning of the first text of the lane `listed.lane`, enough for a title.
#[macro_export]
macro_rules! title {
    () => {
        "(SELECT substr(json_extract(message, '$.text'), 1, 200) FROM inbox WHERE turn = (SELECT id FROM turns \
            WHERE turns.lane = listed.lane AND sequence > listed.forgotten_through ORDER BY sequence LIMIT 1) \
         ORDER BY sequence LIMIT 1)"
    };
}

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
            " AS last, name, COALESCE(pinned, FALSE) AS pinned, COALESCE(archived_through, 0) AS archived_through, \
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

row_struct! {
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
}

impl SummaryRow {
    fn into_summary(self) -> Result<ConversationSummary, VerbError> {
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
pub async fn list_conversations<S: Session>(
    db: &S,
    query: &ConversationQuery,
) -> VerbResult<Vec<ConversationSummary>, S> {
    let ConversationQuery { channel, archived, before, limit } = query;
    let mut rows: Vec<SummaryRow> = Vec::new();
    if before.is_none() && !archived {
        rows = db
            .all(
                select_listed!("channel = $1 AND pinned AND ", last_turn!(), " > forgotten_through"),
                params![channel.as_str()],
            )
            .await?;
    }
    let others: Vec<SummaryRow> = db
        .all(
            select_listed!(
                "channel = $1 AND CASE WHEN listing.lane IS NULL THEN NOT $2 ELSE NOT pinned AND ",
                last_turn!(),
                " > forgotten_through AND (",
                last_turn!(),
                " <= archived_through) = $2 END AND ($3 IS NULL OR ",
                last_turn!(),
                " < (SELECT sequence FROM turns WHERE id = $3)) ORDER BY last DESC LIMIT $4 + 0"
            ),
            params![channel.as_str(), archived, before.map(|turn| turn.0), limit],
        )
        .await?;
    rows.extend(others);
    Ok(rows.into_iter().map(SummaryRow::into_summary).collect::<Result<_, _>>()?)
}

/// Reads the entry of a conversation.
pub async fn find_conversation<S: Session>(
    db: &S,
    conversation: &ConversationId,
) -> VerbResult<Option<ConversationSummary>, S> {
    let row: Option<SummaryRow> = db
        .find(
            select_listed!("conversation = $1 AND ", last_turn!(), " > COALESCE(forgotten_through, 0)"),
            params![conversation.to_string()],
        )
        .await?;
    Ok(row.map(SummaryRow::into_summary).transpose()?)
}

/// Changes how a conversation is listed; returns whether there is such a one.
pub async fn change_listing<S: Session>(
    db: &S,
    conversation: &ConversationId,
    changes: &[ListingChange],
) -> VerbResult<bool, S> {
    let Some(lane) = lanes::find_id(db, conversation).await? else { return Ok(false) };
    if !is_listed(db, lane).await? {
        return Ok(false);
    }
    for change in changes {
        db.run("INSERT INTO conversation_listings (lane) VALUES ($1) ON CONFLICT (lane) DO NOTHING", params![lane])
            .await?;
        match change {
            ListingChange::Name(name) => {
                db.run("UPDATE conversation_listings SET name = $2 WHERE lane = $1", params![lane, name]).await?;
                db.index_name(lane, name.as_deref()).await?;
            }
            ListingChange::Pin => set(db, lane, "pinned = TRUE, archived_through = 0").await?,
            ListingChange::Unpin => set(db, lane, "pinned = FALSE").await?,
            ListingChange::Archive => {
                set(
                    db,
                    lane,
                    "pinned = FALSE, archived_through = (SELECT MAX(sequence) FROM turns WHERE turns.lane = $1)",
                )
                .await?
            }
            ListingChange::Unarchive => set(db, lane, "archived_through = 0").await?,
        }
    }
    Ok(true)
}

async fn set<S: Session>(db: &S, lane: LaneId, assignments: &'static str) -> VerbResult<(), S> {
    db.run(&format!("UPDATE conversation_listings SET {assignments} WHERE lane = $1"), params![lane]).await?;
    Ok(())
}

/// Whether a conversation has a turn that isn't forgotten.
pub(crate) async fn is_listed<S: Session>(db: &S, lane: LaneId) -> VerbResult<bool, S> {
    db.value(
        "SELECT COALESCE((SELECT MAX(sequence) FROM turns WHERE lane = $1), 0) \
             > COALESCE((SELECT forgotten_through FROM conversation_listings WHERE lane = $1), 0)",
        params![lane],
    )
    .await
}

/// Removes what is said of a lane that is removed.
pub(crate) async fn remove<S: Session>(db: &S, lane: LaneId) -> VerbResult<(), S> {
    db.run("DELETE FROM conversation_listings WHERE lane = $1", params![lane]).await?;
    db.index_name(lane, None).await
}
