//! The search index: what was said in completed turns, and the names of conversations.
//!
//! A turn is indexed behind its end, with others, so that it doesn't wait for the index (ADR 0028).

use std::collections::BTreeSet;

use rusqlite::{Row, params};
use satchel_domain::{ChannelName, Timestamp, TurnId};
use satchel_ledger::excerpt::{MATCH_END, MATCH_START, excerpt};
use satchel_ports::ledger::{ConversationSearch, SearchHit, SearchResults, SearchTerms};
use uuid::Uuid;

use crate::{
    database::{Database, Query},
    error::Result,
    lanes::{self, LaneId},
    listings::title,
    rows,
};

/// The turns that are to be indexed next: at most `?1`, the newest, of the channel `?2` or of all.
macro_rules! next_turns {
    () => {
        "(SELECT sequence FROM turns WHERE indexed = 0 AND state = 'completed' \
            AND (?2 IS NULL OR lane IN (SELECT id FROM lanes WHERE channel = ?2)) ORDER BY sequence DESC LIMIT ?1 + 0)"
    };
}

/// Indexes completed turns, the newest first, up to 65 536 characters of each text; returns how many are left. A search
/// in a chat is no turn that another one is to find.
pub(crate) fn index_turns(db: &Database, limit: u32, channel: Option<&ChannelName>) -> Result<u64> {
    let next = params![limit, channel.map(ChannelName::as_str)];
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
             WHERE NOT EXISTS (SELECT 1 FROM inbox WHERE turn = answering.id \
                 AND (trim(message ->> 'text') LIKE '/find' OR trim(message ->> 'text') LIKE '/find %')) \
               AND answering.sequence IN ",
            next_turns!()
        ),
        next,
    )?;
    db.run(concat!("UPDATE turns SET indexed = 1 WHERE sequence IN ", next_turns!()), next)?;
    count_unindexed(db, channel)
}

/// Counts the completed turns that aren't indexed, of a channel or of all.
pub(crate) fn count_unindexed(db: &Database, channel: Option<&ChannelName>) -> Result<u64> {
    let count = match channel {
        // The index alone: it is counted again with every step through a database that has many.
        None => db.value("SELECT COUNT(*) FROM turns WHERE indexed = 0 AND state = 'completed'", [])?,
        Some(channel) => db.value(
            "SELECT COUNT(*) FROM turns JOIN lanes ON lanes.id = lane \
             WHERE indexed = 0 AND state = 'completed' AND channel = ?1",
            [channel.as_str()],
        )?,
    };
    rows::number(count, "number of turns")
}

/// Indexes the name of a conversation, in place of the one before.
pub(crate) fn index_name(db: &Database, lane: LaneId, name: Option<&str>) -> Result<()> {
    db.run("DELETE FROM name_index WHERE rowid = ?1", [lane])?;
    if let Some(name) = name {
        db.run("INSERT INTO name_index (rowid, name) VALUES (?1, ?2)", params![lane, name])?;
    }
    Ok(())
}

/// Takes a turn out of the index, to be indexed anew with what is left of it. One that was merged stands there as part of
/// the other.
pub(crate) fn reindex_turn(db: &Database, turn: Uuid) -> Result<()> {
    let answering: Uuid = db.value("SELECT COALESCE(merged_into, id) FROM turns WHERE id = ?1", [turn])?;
    db.run("DELETE FROM search_index WHERE rowid = (SELECT sequence FROM turns WHERE id = ?1)", [answering])?;
    db.run("UPDATE turns SET indexed = 0 WHERE id = ?1", [answering])?;
    Ok(())
}

/// Finds what has all words in the conversations of a channel.
pub(crate) fn search(db: &Database, search: &ConversationSearch) -> Result<SearchResults> {
    let has_names = search.before.is_none() && search.conversation.is_none();
    let mut found = if has_names { find_names(db, search)? } else { Vec::new() };
    let lane = match &search.conversation {
        // No row has the number 0.
        Some(conversation) => Some(lanes::find_id(db, conversation)?.unwrap_or_default()),
        None => None,
    };
    found.extend(find_turns(db, search, lane)?);
    let hits = found.into_iter().map(HitRow::into_hit).collect::<Result<_>>()?;
    Ok(SearchResults { hits, unindexed: count_unindexed(db, Some(&search.channel))? })
}

fn find_names(db: &Database, search: &ConversationSearch) -> Result<Vec<HitRow>> {
    db.all(
        concat!(
            "SELECT conversation, name, ",
            title!(),
            " AS title, NULL AS turn, \
                 (SELECT MAX(received_at) FROM inbox WHERE inbox.turn = (SELECT id FROM turns \
                     WHERE turns.lane = listed.lane ORDER BY sequence DESC LIMIT 1)) AS at, text, NULL AS files \
             FROM (SELECT rowid AS lane, highlight(name_index, 0, ?2, ?3) AS text FROM name_index \
                 WHERE name_index MATCH ?1) AS hit \
             JOIN (SELECT lane, name, forgotten_through FROM conversation_listings) AS listed USING (lane) \
             JOIN lanes ON lanes.id = lane WHERE channel = ?4 LIMIT ?5 + 0"
        ),
        params![
            match_terms(&search.terms),
            MATCH_START.to_string(),
            MATCH_END.to_string(),
            search.channel.as_str(),
            search.limit
        ],
    )
}

fn find_turns(db: &Database, search: &ConversationSearch, lane: Option<LaneId>) -> Result<Vec<HitRow>> {
    let ConversationSearch { channel, terms, before, limit, .. } = search;
    db.all(
        concat!(
            "SELECT conversation, name, ",
            title!(),
            " AS title, turn, at, text, files \
             FROM (SELECT turns.lane, turns.id AS turn, completed_at AS at, text, files, name, \
                     COALESCE(forgotten_through, 0) AS forgotten_through, hit.sequence AS place \
                 FROM (SELECT rowid AS sequence, highlight(search_index, 1, ?2, ?3) AS text, \
                         highlight(search_index, 2, ?2, ?3) AS files FROM search_index \
                     WHERE search_index MATCH ?1 \
                     AND rowid < COALESCE((SELECT sequence FROM turns WHERE id = ?4), 9223372036854775807) \
                     ORDER BY rowid DESC LIMIT ?5 + 0) AS hit \
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

struct HitRow {
    conversation: String,
    name: Option<String>,
    title: Option<String>,
    turn: Option<Uuid>,
    at: i64,
    text: String,
    files: Option<String>,
}

impl TryFrom<&Row<'_>> for HitRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            conversation: row.get("conversation")?,
            name: row.get("name")?,
            title: row.get("title")?,
            turn: row.get("turn")?,
            at: row.get("at")?,
            text: row.get("text")?,
            files: row.get("files")?,
        })
    }
}

impl HitRow {
    fn into_hit(self) -> Result<SearchHit> {
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
