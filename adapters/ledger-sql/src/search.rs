//! What the searches of all engines share: what is not indexed, and what was found.

use satchel_domain::{ChannelName, Timestamp, TurnId};
use satchel_ledger::excerpt::{MATCH_START, excerpt};
use satchel_ports::ledger::{ConversationSearch, SearchHit};
use uuid::Uuid;

use crate::{
    error::VerbError,
    lanes::{self, LaneId},
    params, row_struct, rows,
    session::{Session, VerbResult},
};

row_struct! {
    /// Something that was found. Its words are marked.
    #[derive(Debug)]
    #[expect(missing_docs, reason = "the names say it")]
    pub struct HitRow {
        pub conversation: String,
        pub name: Option<String>,
        pub title: Option<String>,
        pub turn: Option<Uuid>,
        pub at: i64,
        pub text: String,
        pub files: Option<String>,
    }
}

impl HitRow {
    /// The hit, with an excerpt around what was found.
    ///
    /// # Errors
    /// When the row can't be read.
    pub fn into_hit(self) -> Result<SearchHit, VerbError> {
        let in_files = self.files.filter(|files| !self.text.contains(MATCH_START) && files.contains(MATCH_START));
        Ok(SearchHit {
            conversation: rows::conversation(&self.conversation)?,
            name: self.name,
            title: self.title.unwrap_or_default(),
            turn: self.turn.map(TurnId),
            at: Timestamp(self.at),
            excerpt: excerpt(&in_files.unwrap_or(self.text)),
        })
    }
}

/// Finds the lane that is searched; `None` for all. No lane has the number 0, which that of an unknown conversation is.
///
/// # Errors
/// When the database fails.
pub async fn find_searched_lane<S: Session>(db: &S, search: &ConversationSearch) -> VerbResult<Option<LaneId>, S> {
    match &search.conversation {
        Some(conversation) => Ok(Some(lanes::find_id(db, conversation).await?.unwrap_or_default())),
        None => Ok(None),
    }
}

/// Counts the completed turns that aren't indexed, of a channel or of all.
///
/// # Errors
/// When the database fails.
pub async fn count_unindexed<S: Session>(db: &S, channel: Option<&ChannelName>) -> VerbResult<u64, S> {
    let count = match channel {
        // The index alone: it is counted again with every step through a database that has many.
        None => db.value("SELECT COUNT(*) FROM turns WHERE NOT indexed AND state = 'completed'", params![]).await?,
        Some(channel) => {
            db.value(
                "SELECT COUNT(*) FROM turns JOIN lanes ON lanes.id = lane \
                 WHERE NOT indexed AND state = 'completed' AND channel = $1",
                params![channel.as_str()],
            )
            .await?
        }
    };
    Ok(rows::number(count, "number of turns")?)
}

/// Takes a turn out of the index, to be indexed once more with what is left of it. One that was merged is indexed as part of
/// the other.
pub(crate) async fn reindex_turn<S: Session>(db: &S, turn: Uuid) -> VerbResult<(), S> {
    // Before the index, so that a process that indexes the turn just now is waited for.
    let found: Option<(i64,)> = db
        .find(
            "UPDATE turns SET indexed = FALSE \
             WHERE id = (SELECT COALESCE(merged_into, id) FROM turns WHERE id = $1) RETURNING sequence",
            params![turn],
        )
        .await?;
    if let Some((sequence,)) = found {
        db.run("DELETE FROM search_index WHERE rowid = $1", params![sequence]).await?;
    }
    Ok(())
}
