//! The search index: what was said in completed turns. Names of conversations are few enough to be read.
//!
//! A turn is indexed behind its end, with others, so that it doesn't wait for the index (ADR 0028).

use satchel_domain::ChannelName;
use satchel_ledger_sql::{
    Session,
    lanes::LaneId,
    params, row_struct,
    search::{HitRow, count_unindexed, find_searched_lane},
    title,
};
use satchel_ports::ledger::{ConversationSearch, SearchResults};

use crate::{
    error::Result,
    session::Database,
    tokens::{TokenQuery, index_tokens},
};

row_struct! {
    /// A turn that is to be indexed.
    struct UnindexedTurn {
        sequence: i64,
        text: String,
        files: String,
        is_command: bool,
    }
}

/// Indexes completed turns, the newest first, up to 65 536 characters of each text; returns how many are left. Commands and
/// what Satchel answered to them are no talk: a turn that starts with a slash and left nothing in the history is one, and so is
/// a search.
pub(crate) async fn index_turns(db: &Database, limit: u32, channel: Option<&ChannelName>) -> Result<u64> {
    // Those that another process indexes or changes just now are left to it.
    let next: Vec<(i64,)> = db
        .all(
            "SELECT sequence FROM turns WHERE NOT indexed AND state = 'completed' \
                 AND ($2 IS NULL OR lane IN (SELECT id FROM lanes WHERE channel = $2)) \
             ORDER BY sequence DESC LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED",
            params![limit, channel.map(ChannelName::as_str)],
        )
        .await?;
    let next: Vec<i64> = next.into_iter().map(|(sequence,)| sequence).collect();
    for turn in read_texts(db, &next).await? {
        if turn.is_command {
            continue;
        }
        db.run(
            "INSERT INTO search_index (rowid, text, files, tokens) VALUES ($1, $2, $3, array_to_tsvector($4)) \
             ON CONFLICT (rowid) DO UPDATE SET text = $2, files = $3, tokens = array_to_tsvector($4)",
            params![turn.sequence, turn.text, turn.files, index_tokens(&[&turn.text, &turn.files])],
        )
        .await?;
    }
    db.run("UPDATE turns SET indexed = TRUE WHERE sequence = ANY($1)", params![next]).await?;
    count_unindexed(db, channel).await
}

async fn read_texts(db: &Database, turns: &Vec<i64>) -> Result<Vec<UnindexedTurn>> {
    db.all(
        r"SELECT answering.sequence, concat_ws(E'\n', (
                  SELECT string_agg(concat_ws(E'\n', left(message::json ->> 'text', 65536), (
                      SELECT string_agg(transcription::json ->> 'words', E'\n' ORDER BY position) FROM inbox_files
                      WHERE inbox_files.message = inbox.sequence)), E'\n' ORDER BY sequence)
                  FROM inbox WHERE (turn = answering.id AND consumed_by = turn)
                      OR (consumed_by = answering.id AND consumed_by <> turn)),
              left(response::json ->> 'text', 65536)) AS text,
              COALESCE((SELECT string_agg(filename, E'\n' ORDER BY number) FROM attachments
                  WHERE forgotten_at IS NULL AND visibility = 'deliver' AND turn IN (SELECT answering.id
                      UNION ALL SELECT turn FROM inbox WHERE consumed_by = answering.id AND consumed_by <> turn)), '')
                  AS files,
              EXISTS (SELECT 1 FROM inbox WHERE turn = answering.id AND trim(message::json ->> 'text') LIKE '/%'
                  AND (trim(message::json ->> 'text') ILIKE '/find' OR trim(message::json ->> 'text') ILIKE '/find %'
                      OR NOT EXISTS (SELECT 1 FROM history
                          WHERE history.lane = answering.lane AND history.turn = answering.id)))
                  AS is_command
          FROM turns AS answering WHERE answering.sequence = ANY($1)",
        params![turns],
    )
    .await
}

/// Finds what has all words in the conversations of a channel.
pub(crate) async fn search(db: &Database, search: &ConversationSearch) -> Result<SearchResults> {
    let query = TokenQuery::new(&search.terms);
    let has_names = search.before.is_none() && search.conversation.is_none();
    let mut found = if has_names { find_names(db, search, &query).await? } else { Vec::new() };
    let lane = find_searched_lane(db, search).await?;
    found.extend(find_turns(db, search, &query, lane).await?);
    let marked = found.into_iter().map(|row| HitRow {
        text: query.mark(&row.text),
        files: row.files.map(|files| query.mark(&files)),
        ..row
    });
    let hits = marked.map(HitRow::into_hit).collect::<Result<_, _>>()?;
    Ok(SearchResults { hits, unindexed: count_unindexed(db, Some(&search.channel)).await? })
}

async fn find_names(db: &Database, search: &ConversationSearch, query: &TokenQuery) -> Result<Vec<HitRow>> {
    let names: Vec<(LaneId, String)> = db
        .all(
            "SELECT lane, name FROM conversation_listings JOIN lanes ON lanes.id = lane \
             WHERE channel = $1 AND name IS NOT NULL ORDER BY lane",
            params![search.channel.as_str()],
        )
        .await?;
    let limit = usize::try_from(search.limit).unwrap_or(usize::MAX);
    let found: Vec<LaneId> =
        names.into_iter().filter(|(_, name)| query.are_in(name)).map(|(lane, _)| lane).take(limit).collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    db.all(
        concat!(
            "SELECT conversation, name, ",
            title!(),
            " AS title, NULL::UUID AS turn, \
                 (SELECT MAX(received_at) FROM inbox WHERE inbox.turn = (SELECT id FROM turns \
                     WHERE turns.lane = listed.lane ORDER BY sequence DESC LIMIT 1)) AS at, name AS text, \
                 NULL::TEXT AS files \
             FROM conversation_listings AS listed JOIN lanes ON lanes.id = listed.lane \
             WHERE listed.lane = ANY($1) ORDER BY listed.lane"
        ),
        params![found],
    )
    .await
}

async fn find_turns(
    db: &Database,
    search: &ConversationSearch,
    query: &TokenQuery,
    lane: Option<LaneId>,
) -> Result<Vec<HitRow>> {
    let Some(expression) = query.to_tsquery() else { return Ok(Vec::new()) };
    let ConversationSearch { channel, before, limit, .. } = search;
    db.all(
        concat!(
            "SELECT conversation, name, ",
            title!(),
            " AS title, turn, at, text, files \
             FROM (SELECT turns.lane, turns.id AS turn, completed_at AS at, text, files, name, \
                     COALESCE(forgotten_through, 0) AS forgotten_through, sequence AS place \
                 FROM search_index JOIN turns ON turns.sequence = search_index.rowid JOIN lanes AS searched ON searched.id = turns.lane \
                 LEFT JOIN conversation_listings AS listing ON listing.lane = turns.lane \
                 WHERE tokens @@ $1::TEXT::TSQUERY AND searched.channel = $2 AND ($3 IS NULL OR turns.lane = $3) \
                     AND sequence < COALESCE((SELECT sequence FROM turns WHERE id = $4), 9223372036854775807) \
                 ORDER BY sequence DESC LIMIT $5) AS listed \
             JOIN lanes ON lanes.id = listed.lane ORDER BY place DESC"
        ),
        params![expression, channel.as_str(), lane, before.map(|turn| turn.0), limit],
    )
    .await
}
