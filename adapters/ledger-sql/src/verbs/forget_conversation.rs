//! Forgets a conversation: of all that was said only the keys of its messages stay, and the count of its files.

use satchel_domain::{ConversationId, Sha256};
use satchel_ledger::quota::Account;
use satchel_ports::ledger::{ForgetConversationOutcome, ForgetScope, PersonKey};

use crate::{
    error::VerbError,
    lanes::{self, LaneId},
    params, rows,
    session::{Session, VerbResult},
    verbs::{conversation_settings, history, listings, reminders, usage, workspace_usage},
};

/// What is removed, in an order in which no row refers to one that is gone.
const REMOVALS: [&str; 5] = [
    "DELETE FROM held_turns WHERE turn IN (SELECT id FROM turns WHERE lane = $1 AND sequence <= $2)",
    "DELETE FROM parts WHERE lane = $1 AND turn_sequence <= $2",
    "DELETE FROM journal WHERE turn IN (SELECT id FROM turns WHERE lane = $1 AND sequence <= $2)",
    "DELETE FROM inbox_files WHERE message IN \
         (SELECT inbox.sequence FROM turns JOIN inbox ON inbox.turn = turns.id \
          WHERE turns.lane = $1 AND turns.sequence <= $2)",
    "DELETE FROM attachments WHERE lane = $1 AND turn IN (SELECT id FROM turns WHERE lane = $1 AND sequence <= $2)",
];

/// What stays, without a word: a repeated message must find its key, and the audit log names turns. A forgotten turn is one
/// that was merged into none, which no list of turns has.
const REMAINS: [&str; 3] = [
    "UPDATE inbox SET message = '{}', steered_into = NULL, consumed_by = turn \
         WHERE turn IN (SELECT id FROM turns WHERE lane = $1 AND sequence <= $2)",
    "UPDATE turns SET state = 'merged', merged_into = NULL, album = NULL, ending = NULL, response = NULL \
         WHERE lane = $1 AND sequence <= $2",
    "INSERT INTO conversation_listings (lane, forgotten_through, workspace_left) VALUES ($1, $2, TRUE)",
];

/// Forgets a conversation, unless something is under way in it.
pub async fn forget_conversation<S: Session>(
    db: &S,
    conversation: &ConversationId,
) -> VerbResult<ForgetConversationOutcome, S> {
    let Some(lane) = lanes::find_id(db, conversation).await? else { return Ok(ForgetConversationOutcome::NotFound) };
    if !listings::is_listed(db, lane).await? {
        return Ok(ForgetConversationOutcome::NotFound);
    }
    if lanes::is_busy(db, lane).await? {
        return Ok(ForgetConversationOutcome::Busy);
    }
    let last: i64 = db.value("SELECT MAX(sequence) FROM turns WHERE lane = $1", params![lane]).await?;
    let blobs = read_blobs(db, lane, last).await?;
    forget_through(db, conversation, lane, last, &ForgetScope::Everything).await?;
    Ok(ForgetConversationOutcome::Forgotten(blobs))
}

/// Forgets all that came before a turn, which continues.
pub(crate) async fn forget_before<S: Session>(
    db: &S,
    conversation: &ConversationId,
    lane: LaneId,
    sequence: i64,
    scope: &ForgetScope,
) -> VerbResult<(), S> {
    forget_through(db, conversation, lane, sequence - 1, scope).await
}

/// Forgets the turns of a lane up to one.
async fn forget_through<S: Session>(
    db: &S,
    conversation: &ConversationId,
    lane: LaneId,
    last: i64,
    scope: &ForgetScope,
) -> VerbResult<(), S> {
    db.wait_for_index(lane, last).await?;
    release_quota(db, conversation, lane, last).await?;
    workspace_usage::record_workspace(db, conversation, 0).await?;
    db.unindex_turns(lane, last).await?;
    for statement in REMOVALS {
        db.run(statement, params![lane, last]).await?;
    }
    history::remove(db, lane).await?;
    match scope {
        ForgetScope::Everything => {
            conversation_settings::remove(db, lane).await?;
            reminders::remove(db, lane).await?;
        }
        ForgetScope::Own { person, keeps_agent } => {
            conversation_settings::remove_own(db, lane, *keeps_agent).await?;
            reminders::remove_own(db, lane, person).await?;
        }
    }
    listings::remove(db, lane).await?;
    for statement in REMAINS {
        db.run(statement, params![lane, last]).await?;
    }
    db.request_erasure().await
}

/// Reads the addresses of all bytes that the conversation refers to.
async fn read_blobs<S: Session>(db: &S, lane: LaneId, last: i64) -> VerbResult<Vec<Sha256>, S> {
    let addresses: Vec<([u8; 32],)> = db
        .all(
            "SELECT sha256 FROM attachments WHERE lane = $1 AND forgotten_at IS NULL \
             AND turn IN (SELECT id FROM turns WHERE lane = $1 AND sequence <= $2) \
         UNION SELECT voice_sha256 FROM parts \
             WHERE lane = $1 AND turn_sequence <= $2 AND voice_sha256 IS NOT NULL",
            params![lane, last],
        )
        .await?;
    Ok(addresses.into_iter().map(|(address,)| Sha256(address)).collect())
}

/// Counts the files no longer, for the conversation and for everybody who brought some.
async fn release_quota<S: Session>(
    db: &S,
    conversation: &ConversationId,
    lane: LaneId,
    last: i64,
) -> VerbResult<(), S> {
    let sums: Vec<(Option<String>, i64, i64)> = db
        .all(
            "SELECT person, COUNT(*), CAST(SUM(bytes) AS BIGINT) FROM attachments WHERE lane = $1 AND forgotten_at IS NULL \
             AND turn IN (SELECT id FROM turns WHERE lane = $1 AND sequence <= $2) GROUP BY person",
            params![lane, last],
        )
        .await?;
    for (person, files, bytes) in sums {
        let person: Option<PersonKey> =
            person.map(|person| person.parse().map_err(|_| VerbError::Row { what: "person" })).transpose()?;
        let account = Account { conversation: conversation.clone(), person, is_owner: false };
        usage::change(db, &account, -files, -bytes).await?;
    }
    Ok(())
}

/// Finds the forgotten conversations whose workspaces are left. One that is used again has its workspace to itself.
pub async fn list_forgotten_workspaces<S: Session>(db: &S) -> VerbResult<Vec<ConversationId>, S> {
    let rows: Vec<(String,)> = db
        .all(
            "SELECT conversation FROM conversation_listings JOIN lanes ON lanes.id = lane WHERE workspace_left \
         AND forgotten_through >= (SELECT MAX(sequence) FROM turns WHERE turns.lane = lanes.id)",
            params![],
        )
        .await?;
    Ok(rows.iter().map(|(conversation,)| rows::conversation(conversation)).collect::<Result<_, _>>()?)
}

/// Records that the workspace of a forgotten conversation is removed.
pub async fn record_workspace_removed<S: Session>(db: &S, conversation: &ConversationId) -> VerbResult<(), S> {
    db.run(
        "UPDATE conversation_listings SET workspace_left = FALSE WHERE lane = (SELECT id FROM lanes WHERE conversation = $1)",
        params![conversation.to_string()],
    ).await?;
    Ok(())
}
