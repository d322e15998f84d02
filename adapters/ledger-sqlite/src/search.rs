//! The search index: what was said in completed turns, and the names of conversations.
//!
//! A turn is indexed behind its end, with others, so that it doesn't wait for the index (ADR 0028).

use std::collections::BTreeSet;

use satchel_domain::ChannelName;
use satchel_ledger::excerpt::{MATCH_END, MATCH_START};
use satchel_ledger_sql::{
    Parameter, Session,
    lanes::LaneId,
    params,
    search::{HitRow, count_unindexed, find_searched_lane},
    title,
};
use satchel_ports::ledger::{ConversationSearch, SearchResults, SearchTerms};

use crate::{database::Database, error::Result};

/// The turns that are to be indexed next: at most `$1`, the newest, of the channel `$2` or of all.
macro_rules! next_turns {
    () => {
        "(SELECT sequence FROM turns WHERE NOT indexed AND state = 'completed' \
            AND ($2 IS NULL OR lane IN (SELECT id FROM lanes WHERE channel = $2)) ORDER BY sequence DESC LIMIT $1 + 0)"
    };
}

/// Indexes completed turns, the newest first, up to 65 536 characters of each text; returns how many are left. Commands and
/// what Satchel answered to them are no talk: a turn that starts with a slash and left nothing in the history is one, and so is
/// a search.
pub(crate) async fn index_turns(db: &Database, limit: u32, channel: Option<&ChannelName>) -> Result<u64> {
    let channel_name = channel.map(ChannelName::as_str);
    let next: &[Parameter<'_>] = params![limit, channel_name];
    db.run(
        concat!(
            "INSERT INTO search_index (rowid, channel, text, files) \
             SELECT answering.sequence, 'c' || hex(channel) || ' l' || lane, concat_ws(char(10), ( \
                     SELECT group_concat(concat_ws(char(10), substr(message ->> 'text', 1, 65536), ( \
                         SELECT group_concat(transcription ->> 'words', char(10) ORDER BY position) FROM inbox_files \
                         WHERE inbox_files.message = inbox.sequence)), char(10) ORDER BY sequence) \
                     FROM inbox WHERE (turn = answering.id AND consumed_by = turn) \
                         OR (consumed_by = answering.id AND consumed_by <> turn)), \
                     substr(response ->> 'text', 1, 65536)), \
                 (SELECT group_concat(filename, char(10) ORDER BY number) FROM attachments \
                  WHERE forgotten_at IS NULL AND visibility = 'deliver' AND turn IN (SELECT answering.id \
                      UNION ALL SELECT turn FROM inbox WHERE consumed_by = answering.id AND consumed_by <> turn)) \
             FROM turns AS answering JOIN lanes ON lanes.id = lane \
             WHERE NOT EXISTS (SELECT 1 FROM inbox WHERE turn = answering.id AND trim(message ->> 'text') LIKE '/%' \
                 AND (trim(message ->> 'text') LIKE '/find' OR trim(message ->> 'text') LIKE '/find %' \
                     OR NOT EXISTS (SELECT 1 FROM history \
                         WHERE history.lane = answering.lane AND history.turn = answering.id))) \
               AND answering.sequence IN ",
            next_turns!()
        ),
        next,
    )
    .await?;
    db.run(concat!("UPDATE turns SET indexed = TRUE WHERE sequence IN ", next_turns!()), next).await?;
    count_unindexed(db, channel).await
}

/// How many forgotten turns leave the index in the commit that forgets them, at a millisecond each.
const UNINDEXED_AT_ONCE: u32 = 64;

/// Takes turns of a lane that are being forgotten out of the index, up to this sequence: the newest at once, the others
/// behind the commit. Meanwhile no search finds them, since forgotten turns count as merged.
pub(crate) async fn unindex_turns(db: &Database, lane: LaneId, last: i64) -> Result<()> {
    macro_rules! newest_turns {
        () => {
            "(SELECT sequence FROM turns WHERE lane = $1 AND sequence <= $2 AND indexed \
              ORDER BY sequence DESC LIMIT $3 + 0)"
        };
    }
    let limit = UNINDEXED_AT_ONCE;
    let newest: &[Parameter<'_>] = params![lane, last, limit];
    db.run(concat!("DELETE FROM search_index WHERE rowid IN ", newest_turns!()), newest).await?;
    db.run(concat!("UPDATE turns SET indexed = FALSE WHERE sequence IN ", newest_turns!()), newest).await?;
    Ok(())
}

/// Indexes the name of a conversation, in place of the one before.
pub(crate) async fn index_name(db: &Database, lane: LaneId, name: Option<&str>) -> Result<()> {
    db.run("DELETE FROM name_index WHERE rowid = $1", params![lane]).await?;
    if let Some(name) = name {
        db.run("INSERT INTO name_index (rowid, name) VALUES ($1, $2)", params![lane, name]).await?;
    }
    Ok(())
}

/// Finds what has all words in the conversations of a channel.
pub(crate) async fn search(db: &Database, search: &ConversationSearch) -> Result<SearchResults> {
    let has_names = search.before.is_none() && search.conversation.is_none();
    let mut found = if has_names { find_names(db, search).await? } else { Vec::new() };
    let lane = find_searched_lane(db, search).await?;
    found.extend(find_turns(db, search, lane).await?);
    let hits = found.into_iter().map(HitRow::into_hit).collect::<Result<_, _>>()?;
    Ok(SearchResults { hits, unindexed: count_unindexed(db, Some(&search.channel)).await? })
}

async fn find_names(db: &Database, search: &ConversationSearch) -> Result<Vec<HitRow>> {
    db.all(
        concat!(
            "SELECT conversation, name, ",
            title!(),
            " AS title, NULL AS turn, \
                 (SELECT MAX(received_at) FROM inbox WHERE inbox.turn = (SELECT id FROM turns \
                     WHERE turns.lane = listed.lane ORDER BY sequence DESC LIMIT 1)) AS at, text, NULL AS files \
             FROM (SELECT rowid AS lane, highlight(name_index, 0, $2, $3) AS text FROM name_index \
                 WHERE name_index MATCH $1) AS hit \
             JOIN (SELECT lane, name, forgotten_through FROM conversation_listings) AS listed USING (lane) \
             JOIN lanes ON lanes.id = lane WHERE channel = $4 LIMIT $5 + 0"
        ),
        params![
            match_terms(&search.terms),
            MATCH_START.to_string(),
            MATCH_END.to_string(),
            search.channel.as_str(),
            search.limit
        ],
    )
    .await
}

async fn find_turns(db: &Database, search: &ConversationSearch, lane: Option<LaneId>) -> Result<Vec<HitRow>> {
    let ConversationSearch { channel, terms, before, limit, .. } = search;
    db.all(
        concat!(
            "SELECT conversation, name, ",
            title!(),
            " AS title, turn, at, text, files \
             FROM (SELECT turns.lane, turns.id AS turn, completed_at AS at, text, files, name, \
                     COALESCE(forgotten_through, 0) AS forgotten_through, hit.sequence AS place \
                 FROM (SELECT rowid AS sequence, highlight(search_index, 1, $2, $3) AS text, \
                         highlight(search_index, 2, $2, $3) AS files FROM search_index \
                     WHERE search_index MATCH $1 \
                     AND rowid < COALESCE((SELECT sequence FROM turns WHERE id = $4), 9223372036854775807) \
                     AND rowid NOT IN (SELECT sequence FROM turns WHERE indexed AND state = 'merged') \
                     ORDER BY rowid DESC LIMIT $5 + 0) AS hit \
                 JOIN turns ON turns.sequence = hit.sequence \
                 LEFT JOIN conversation_listings AS listing ON listing.lane = turns.lane) AS listed \
             JOIN lanes ON lanes.id = listed.lane ORDER BY place DESC"
        ),
        params![
            match_turns(channel, lane, terms),
            MATCH_START.to_string(),
            MATCH_END.to_string(),
            before.map(|turn| turn.0),
            limit
        ],
    )
    .await
}

/// The expression for turns of a channel, or of one of its conversations, that have all words.
fn match_turns(channel: &ChannelName, lane: Option<LaneId>, terms: &SearchTerms) -> String {
    let digits: String = channel.as_str().bytes().map(|byte| format!("{byte:02X}")).collect();
    let place = match lane {
        Some(lane) => format!("(c{digits} AND l{lane})"),
        None => format!("c{digits}"),
    };
    format!("channel : {place} AND {{text files}} : ({})", match_terms(terms))
}

/// The expression for all words, or their beginnings. Each is quoted, so that none is an operator.
fn match_terms(terms: &SearchTerms) -> String {
    let quoted = terms.iter().map(|word| {
        // What begins with one letter is nearly everything; in scripts of one sign a word it isn't.
        let is_letter = word.is_ascii() && word.chars().filter(|char| char.is_alphanumeric()).count() < 2;
        format!("\"{}\"{}", word.replace('"', "\"\""), if is_letter { "" } else { "*" })
    });
    quoted.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" AND ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_an_operator() {
        let words = |text: &str| match_terms(&SearchTerms::parse(text).unwrap());
        assert_eq!(words("rent rent"), r#""rent"*"#);
        assert_eq!(
            words("a\"b OR NEAR(b* files:x C++ 日"),
            r#""C++" AND "NEAR(b*"* AND "OR"* AND "a""b"* AND "files:x"* AND "日"*"#
        );
        let channel = ChannelName::new("my-web").unwrap();
        let expression = |lane| match_turns(&channel, lane, &SearchTerms::parse("rent").unwrap());
        assert_eq!(expression(None), r#"channel : c6D792D776562 AND {text files} : ("rent"*)"#);
        assert_eq!(expression(Some(7)), r#"channel : (c6D792D776562 AND l7) AND {text files} : ("rent"*)"#);
    }
}
