//! The search index: what was said in completed turns, and the names of conversations.
//!
//! A turn is indexed behind its end, with others, so that it doesn't wait for the index (ADR 0028).

use rusqlite::{Row, params};
use satchel_domain::{Timestamp, TurnId};
use satchel_ports::ledger::{ConversationSearch, ExcerptPiece, SearchHit, SearchResults, SearchWords};
use uuid::Uuid;

use crate::{
    database::{Database, Query},
    error::Result,
    lanes::LaneId,
    listings::title,
    rows,
};

/// What stands around a word that was found: characters that no text has a use for.
const MATCH_START: char = '\u{e000}';
const MATCH_END: char = '\u{e001}';

/// The turns that are to be indexed next.
macro_rules! next_turns {
    () => {
        "(SELECT sequence FROM turns WHERE indexed = 0 AND state = 'completed' ORDER BY sequence LIMIT ?1 + 0)"
    };
}

/// Indexes completed turns, the oldest first; returns how many are left.
pub(crate) fn index_turns(db: &Database, limit: u32) -> Result<u64> {
    db.run(
        concat!(
            "INSERT INTO search_index (rowid, scope, text, files) \
             SELECT answering.sequence, 'c' || channel || ' l' || lane, concat_ws(char(10), ( \
                     SELECT group_concat(concat_ws(char(10), message ->> 'text', ( \
                         SELECT group_concat(transcription ->> 'words', char(10) ORDER BY position) FROM inbox_files \
                         WHERE inbox_files.message = inbox.sequence)), char(10) ORDER BY sequence) \
                     FROM inbox WHERE (turn = answering.id AND consumed_by = turn) \
                         OR (consumed_by = answering.id AND consumed_by <> turn)), \
                     response ->> 'text'), \
                 (SELECT group_concat(filename, char(10) ORDER BY number) FROM attachments \
                  WHERE forgotten_at IS NULL AND turn IN (SELECT answering.id \
                      UNION ALL SELECT turn FROM inbox WHERE consumed_by = answering.id AND consumed_by <> turn)) \
             FROM turns AS answering JOIN lanes ON lanes.id = lane WHERE answering.sequence IN ",
            next_turns!()
        ),
        [limit],
    )?;
    db.run(concat!("UPDATE turns SET indexed = 1 WHERE sequence IN ", next_turns!()), [limit])?;
    count_unindexed(db)
}

/// Counts the completed turns that aren't indexed.
pub(crate) fn count_unindexed(db: &Database) -> Result<u64> {
    let count = db.value("SELECT COUNT(*) FROM turns WHERE indexed = 0 AND state = 'completed'", [])?;
    rows::number(count, "number of turns")
}

/// Indexes the name of a conversation, in place of the one before.
pub(crate) fn index_name(db: &Database, lane: LaneId, name: Option<&str>) -> Result<()> {
    db.run("DELETE FROM search_index WHERE rowid = -?1", [lane])?;
    if let Some(name) = name {
        db.run(
            "INSERT INTO search_index (rowid, scope, text) \
             SELECT -id, 'c' || channel || ' l' || id, ?2 FROM lanes WHERE id = ?1",
            params![lane, name],
        )?;
    }
    Ok(())
}

/// Takes a turn out of the index, to be indexed anew with what is left of it. One that was merged stands there as part of
/// the other.
pub(crate) fn index_again(db: &Database, turn: Uuid) -> Result<()> {
    let answering: Uuid = db.value("SELECT COALESCE(merged_into, id) FROM turns WHERE id = ?1", [turn])?;
    db.run("DELETE FROM search_index WHERE rowid = (SELECT sequence FROM turns WHERE id = ?1)", [answering])?;
    db.run("UPDATE turns SET indexed = 0 WHERE id = ?1", [answering])?;
    Ok(())
}

/// Finds what has all words in the conversations of a channel.
pub(crate) fn search(db: &Database, search: &ConversationSearch) -> Result<SearchResults> {
    let ConversationSearch { channel, words, before, limit } = search;
    let expression = match_expression(&format!("c{channel}"), words);
    let marks = (MATCH_START.to_string(), MATCH_END.to_string());
    let mut found: Vec<HitRow> = Vec::new();
    if before.is_none() {
        found = db.all(
            concat!(
                "SELECT conversation, name, ",
                title!(),
                " AS title, NULL AS turn, \
                     (SELECT MAX(received_at) FROM inbox WHERE inbox.turn = (SELECT id FROM turns \
                         WHERE turns.lane = listed.lane ORDER BY sequence DESC LIMIT 1)) AS at, text, NULL AS files \
                 FROM (SELECT -rowid AS lane, snippet(search_index, 1, ?2, ?3, '…', 16) AS text FROM search_index \
                     WHERE search_index MATCH ?1 AND rowid < 0 ORDER BY rowid DESC LIMIT ?4 + 0) AS hit \
                 JOIN (SELECT lane, name, forgotten_through FROM conversation_listings) AS listed USING (lane) \
                 JOIN lanes ON lanes.id = lane"
            ),
            params![expression, marks.0, marks.1, limit],
        )?;
    }
    let turns: Vec<HitRow> = db.all(
        concat!(
            "SELECT conversation, name, ",
            title!(),
            " AS title, turn, at, text, files \
             FROM (SELECT turns.lane, turns.id AS turn, completed_at AS at, text, files, name, \
                     COALESCE(forgotten_through, 0) AS forgotten_through, hit.sequence AS place \
                 FROM (SELECT rowid AS sequence, snippet(search_index, 1, ?2, ?3, '…', 16) AS text, \
                         snippet(search_index, 2, ?2, ?3, '…', 16) AS files FROM search_index \
                     WHERE search_index MATCH ?1 AND rowid > 0 \
                     AND rowid < COALESCE((SELECT sequence FROM turns WHERE id = ?4), 9223372036854775807) \
                     ORDER BY rowid DESC LIMIT ?5 + 0) AS hit \
                 JOIN turns ON turns.sequence = hit.sequence \
                 LEFT JOIN conversation_listings AS listing ON listing.lane = turns.lane) AS listed \
             JOIN lanes ON lanes.id = listed.lane ORDER BY place DESC"
        ),
        params![expression, marks.0, marks.1, before.map(|turn| turn.0), limit],
    )?;
    found.extend(turns);
    let hits = found.into_iter().map(HitRow::into_hit).collect::<Result<_>>()?;
    Ok(SearchResults { hits, unindexed: count_unindexed(db)? })
}

/// The expression that finds all words, or their beginnings, within a scope. Each is quoted, so that none is an operator.
fn match_expression(scope: &str, words: &SearchWords) -> String {
    let quoted = words.iter().map(|word| {
        // The beginning of everything would be searched letter by letter.
        let is_short = word.chars().filter(|char| char.is_alphanumeric()).count() < 2;
        let word = word.replace('"', "\"\"");
        format!("\"{word}\"{}", if is_short { "" } else { "*" })
    });
    format!("scope : \"{scope}\" AND {{text files}} : ({})", quoted.collect::<Vec<_>>().join(" AND "))
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

/// Splits a text at the marks around the words that were found.
fn excerpt(marked: &str) -> Vec<ExcerptPiece> {
    let piece = |text: &str, matched| ExcerptPiece { text: text.to_owned(), matched };
    let mut marked_pieces = marked.split(MATCH_START);
    let mut pieces: Vec<ExcerptPiece> = marked_pieces.next().map(|before| piece(before, false)).into_iter().collect();
    for marked in marked_pieces {
        let (found, behind) = marked.split_once(MATCH_END).unwrap_or((marked, ""));
        pieces.extend([piece(found, true), piece(behind, false)]);
    }
    pieces.retain(|piece| !piece.text.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_an_operator() {
        let expression = |text: &str| match_expression("cweb", &SearchWords::parse(text).unwrap());
        assert_eq!(expression("rent"), r#"scope : "cweb" AND {text files} : ("rent"*)"#);
        let words = r#"("a""b"* AND "OR"* AND "NEAR(b*"* AND "files:x"* AND "C++")"#;
        assert_eq!(
            expression("a\"b OR NEAR(b* files:x C++"),
            format!(r#"scope : "cweb" AND {{text files}} : {words}"#)
        );
    }

    #[test]
    fn words_that_were_found_are_pieces() {
        let pieces = excerpt("the \u{e000}rent\u{e001} of \u{e000}May\u{e001}");
        let told: Vec<_> = pieces.iter().map(|piece| (piece.text.as_str(), piece.matched)).collect();
        assert_eq!(told, [("the ", false), ("rent", true), (" of ", false), ("May", true)]);
        assert_eq!(excerpt("\u{e000}a\u{e001}")[0].text, "a");
    }
}
