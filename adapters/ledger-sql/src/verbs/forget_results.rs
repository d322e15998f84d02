//! Forgets what results of tools tell of a file: found by the calls that name it, and replaced in journals and history.

use std::collections::BTreeMap;

use satchel_domain::{Attachment, HistoryMessage};
use satchel_ledger::{
    file_results::{FileMentions, FileResults, replace_outcome},
    stored::AttachmentRef,
};
use satchel_ports::ledger::JournalEntry;
use uuid::Uuid;

use crate::{
    lanes::LaneId,
    parameters::Json,
    params,
    session::{Session, VerbResult},
};

/// The steps of a turn, as they are stored.
type StoredJournal = Vec<JournalEntry<AttachmentRef>>;

/// Finds the results in a lane that tell what is in a file.
pub(crate) async fn find<S: Session>(db: &S, lane: LaneId, file: &Attachment) -> VerbResult<FileResults, S> {
    let mut mentions = FileMentions::new(file);
    for journal in read_journals(db, lane, vec![mentions.digest().to_owned()]).await? {
        mentions.add_saved_paths(&journal);
    }
    let mut results = FileResults::default();
    for journal in read_journals(db, lane, mentions.search_texts()).await? {
        results.add(mentions.find_results(&journal));
    }
    Ok(results)
}

/// Reads the journals of those turns of a lane in which at least one of the texts stands.
async fn read_journals<S: Session>(db: &S, lane: LaneId, texts: Vec<String>) -> VerbResult<Vec<StoredJournal>, S> {
    let entries: Vec<(Uuid, Json<JournalEntry<AttachmentRef>>)> = db
        .all(
            "SELECT turn, entry FROM journal WHERE turn IN ( \
                 SELECT turns.id FROM turns JOIN journal AS searched ON searched.turn = turns.id \
                 WHERE turns.lane = $1 \
                     AND EXISTS (SELECT 1 FROM rarray($2) WHERE instr(searched.entry, value) > 0)) \
             ORDER BY turn, position",
            params![lane, texts],
        )
        .await?;
    let mut journals: BTreeMap<Uuid, StoredJournal> = BTreeMap::new();
    for (turn, Json(entry)) in entries {
        journals.entry(turn).or_default().push(entry);
    }
    Ok(journals.into_values().collect())
}

/// Replaces results that tell what is in a file.
pub(crate) async fn replace<S: Session>(
    db: &S,
    lane: LaneId,
    file: &Attachment,
    results: &FileResults,
) -> VerbResult<(), S> {
    for call in &results.calls {
        let entry: Option<(Json<JournalEntry<AttachmentRef>>,)> = db
            .find("SELECT entry FROM journal WHERE turn = $1 AND ordinal = $2", params![call.turn.0, call.ordinal])
            .await?;
        if let Some((Json(JournalEntry::Outcome { ordinal, outcome }),)) = entry {
            let replaced = JournalEntry::Outcome { ordinal, outcome: replace_outcome(outcome, file) };
            db.run(
                "UPDATE journal SET entry = $3 WHERE turn = $1 AND ordinal = $2",
                params![call.turn.0, call.ordinal, Json(replaced)],
            )
            .await?;
        }
    }
    replace_in_history(db, lane, file, results).await
}

async fn replace_in_history<S: Session>(
    db: &S,
    lane: LaneId,
    file: &Attachment,
    results: &FileResults,
) -> VerbResult<(), S> {
    let turns = results.turns();
    if turns.is_empty() {
        return Ok(());
    }
    let messages: Vec<(i64, Json<HistoryMessage<AttachmentRef>>)> = db
        .all(
            "SELECT sequence, message FROM history WHERE lane = $1 AND turn IN (SELECT value FROM rarray($2))",
            params![lane, turns],
        )
        .await?;
    for (sequence, Json(message)) in messages {
        if let Some(replaced) = results.replace_in_history(message, file) {
            db.run(
                "UPDATE history SET message = $3 WHERE lane = $1 AND sequence = $2",
                params![lane, sequence, Json(replaced)],
            )
            .await?;
        }
    }
    Ok(())
}
