//! Forgets what results of tools tell of a file: found by the calls that name it, and replaced in journals and history.

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

/// Finds the results in a lane that tell what is in a file. One journal at a time is in memory.
pub(crate) async fn find<S: Session>(db: &S, lane: LaneId, file: &Attachment) -> VerbResult<FileResults, S> {
    let mut mentions = FileMentions::new(file);
    for turn in find_turns(db, lane, vec![mentions.saving_text().to_owned()]).await? {
        mentions.add_saved_paths(&read_journal(db, turn).await?);
    }
    let mut results = FileResults::default();
    for turn in find_turns(db, lane, mentions.search_texts()).await? {
        results.add(mentions.find_results(&read_journal(db, turn).await?));
    }
    Ok(results)
}

/// Finds the turns of a lane whose journals have at least one of the texts.
async fn find_turns<S: Session>(db: &S, lane: LaneId, texts: Vec<String>) -> VerbResult<Vec<Uuid>, S> {
    let turns: Vec<(Uuid,)> = db
        .all(
            "SELECT DISTINCT turns.id FROM turns JOIN journal ON journal.turn = turns.id \
             WHERE turns.lane = $1 AND EXISTS (SELECT 1 FROM rarray($2) WHERE instr(journal.entry, value) > 0)",
            params![lane, texts],
        )
        .await?;
    Ok(turns.into_iter().map(|(turn,)| turn).collect())
}

async fn read_journal<S: Session>(db: &S, turn: Uuid) -> VerbResult<StoredJournal, S> {
    let entries: Vec<(Json<JournalEntry<AttachmentRef>>,)> =
        db.all("SELECT entry FROM journal WHERE turn = $1 ORDER BY position", params![turn]).await?;
    Ok(entries.into_iter().map(|(entry,)| entry.0).collect())
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
