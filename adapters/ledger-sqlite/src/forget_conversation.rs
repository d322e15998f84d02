//! Forgets a conversation: of all that was said only the keys of its messages stay, and the count of its files.

use satchel_domain::{ConversationId, Sha256};
use satchel_ledger::quota::Account;
use satchel_ports::ledger::{ForgetConversationOutcome, PersonKey};

use crate::{
    conversation_settings,
    database::{Database, Query},
    error::{Error, Result},
    history,
    lanes::{self, LaneId},
    listings, reminders, rows, usage, workspace_usage,
};

/// What is removed, in an order in which no row refers to one that is gone.
const REMOVALS: [&str; 6] = [
    "DELETE FROM held_turns WHERE turn IN (SELECT id FROM turns WHERE lane = ?1 AND sequence <= ?2)",
    "DELETE FROM search_index WHERE rowid IN (SELECT sequence FROM turns WHERE lane = ?1 AND sequence <= ?2)",
    "DELETE FROM parts WHERE lane = ?1 AND turn_sequence <= ?2",
    "DELETE FROM journal WHERE turn IN (SELECT id FROM turns WHERE lane = ?1 AND sequence <= ?2)",
    "DELETE FROM inbox_files WHERE message IN \
         (SELECT inbox.sequence FROM turns JOIN inbox ON inbox.turn = turns.id \
          WHERE turns.lane = ?1 AND turns.sequence <= ?2)",
    "DELETE FROM attachments WHERE lane = ?1 AND turn IN (SELECT id FROM turns WHERE lane = ?1 AND sequence <= ?2)",
];

/// What stays, without a word: a repeated message must find its key, and the audit log names turns. A forgotten turn is one
/// that was merged into none, which no list of turns has.
const REMAINS: [&str; 3] = [
    "UPDATE inbox SET message = '{}', steered_into = NULL, consumed_by = turn \
         WHERE turn IN (SELECT id FROM turns WHERE lane = ?1 AND sequence <= ?2)",
    "UPDATE turns SET state = 'merged', merged_into = NULL, album = NULL, ending = NULL, response = NULL \
         WHERE lane = ?1 AND sequence <= ?2",
    "INSERT INTO conversation_listings (lane, forgotten_through, workspace_left) VALUES (?1, ?2, 1)",
];

/// Forgets a conversation, unless something is under way in it.
pub(crate) fn forget_conversation(db: &Database, conversation: &ConversationId) -> Result<ForgetConversationOutcome> {
    let Some(lane) = lanes::find_id(db, conversation)? else { return Ok(ForgetConversationOutcome::NotFound) };
    if !listings::is_listed(db, lane)? {
        return Ok(ForgetConversationOutcome::NotFound);
    }
    if lanes::is_busy(db, lane)? {
        return Ok(ForgetConversationOutcome::Busy);
    }
    let last: i64 = db.value("SELECT MAX(sequence) FROM turns WHERE lane = ?1", [lane])?;
    let blobs = read_blobs(db, lane, last)?;
    forget_through(db, conversation, lane, last)?;
    Ok(ForgetConversationOutcome::Forgotten(blobs))
}

/// Forgets all that came before a turn, which goes on.
pub(crate) fn forget_before(db: &Database, conversation: &ConversationId, lane: LaneId, sequence: i64) -> Result<()> {
    forget_through(db, conversation, lane, sequence - 1)
}

/// Forgets the turns of a lane up to one.
fn forget_through(db: &Database, conversation: &ConversationId, lane: LaneId, last: i64) -> Result<()> {
    release_quota(db, conversation, lane, last)?;
    workspace_usage::record(db, conversation, 0)?;
    for statement in REMOVALS {
        db.run(statement, [lane, last])?;
    }
    history::remove(db, lane)?;
    conversation_settings::remove(db, lane)?;
    listings::remove(db, lane)?;
    reminders::remove(db, lane)?;
    for statement in REMAINS {
        db.run(statement, [lane, last])?;
    }
    Ok(())
}

/// Reads the addresses of all bytes that the conversation refers to.
fn read_blobs(db: &Database, lane: LaneId, last: i64) -> Result<Vec<Sha256>> {
    let addresses: Vec<([u8; 32],)> = db.all(
        "SELECT sha256 FROM attachments WHERE lane = ?1 AND forgotten_at IS NULL \
             AND turn IN (SELECT id FROM turns WHERE lane = ?1 AND sequence <= ?2) \
         UNION SELECT voice_sha256 FROM parts \
             WHERE lane = ?1 AND turn_sequence <= ?2 AND voice_sha256 IS NOT NULL",
        [lane, last],
    )?;
    Ok(addresses.into_iter().map(|(address,)| Sha256(address)).collect())
}

/// Counts the files no longer, for the conversation and for everybody who brought some.
fn release_quota(db: &Database, conversation: &ConversationId, lane: LaneId, last: i64) -> Result<()> {
    let sums: Vec<(Option<String>, i64, i64)> = db.all(
        "SELECT person, COUNT(*), SUM(bytes) FROM attachments WHERE lane = ?1 AND forgotten_at IS NULL \
             AND turn IN (SELECT id FROM turns WHERE lane = ?1 AND sequence <= ?2) GROUP BY person",
        [lane, last],
    )?;
    for (person, files, bytes) in sums {
        let person: Option<PersonKey> =
            person.map(|person| person.parse().map_err(|_| Error::Row { what: "person" })).transpose()?;
        let account = Account { conversation: conversation.clone(), person, is_owner: false };
        usage::change(db, &account, -files, -bytes)?;
    }
    Ok(())
}

/// Finds the forgotten conversations whose workspaces are left. One that goes on has its workspace to itself.
pub(crate) fn list_workspaces(db: &Database) -> Result<Vec<ConversationId>> {
    let rows: Vec<(String,)> = db.all(
        "SELECT conversation FROM conversation_listings JOIN lanes ON lanes.id = lane WHERE workspace_left = 1 \
         AND forgotten_through >= (SELECT MAX(sequence) FROM turns WHERE turns.lane = lanes.id)",
        [],
    )?;
    rows.iter().map(|(conversation,)| rows::conversation(conversation)).collect()
}

/// Records that the workspace of a forgotten conversation is removed.
pub(crate) fn record_workspace_removed(db: &Database, conversation: &ConversationId) -> Result<()> {
    db.run(
        "UPDATE conversation_listings SET workspace_left = 0 WHERE lane = (SELECT id FROM lanes WHERE conversation = ?1)",
        [conversation.to_string()],
    )?;
    Ok(())
}
