//! What there is to work on in a lane: its oldest incomplete turn and what waits behind it.

use satchel_domain::{Part, PartState, Timestamp, TurnId, part::UndeliveredPart};
use satchel_ledger::stored::AttachmentRef;
use satchel_ports::ledger::{JournalEntry, Lease, QueuedMessage, QueuedTurn};
use uuid::Uuid;

use crate::{
    attachments,
    lanes::{self, Lane, LaneId},
    parameters::Json,
    params,
    rows::{self, MessageFields, PartRow, select_messages, select_part},
    session::{Session, VerbResult},
    verbs::{
        conversation_settings,
        delivered_turns::{self, TurnArrivals},
        drafts, history,
    },
    work_scope::TurnSelection,
};

/// How many of the messages behind a turn are looked at: it is done at every message that arrives, and a flood must not
/// make each of them dearer than the one before.
const MAX_WAITING: i64 = 200;

/// How many of the newest messages are looked through for commands: nobody who wants a flood to end waits for its end.
const MAX_NEWEST: i64 = 300;

/// A turn as it was read.
pub struct ReadTurn {
    pub turn: QueuedTurn,
    /// Whether messages could join it until now, so that one may be on its way to the database.
    pub is_ready_album: bool,
}

/// A lane's oldest incomplete turn, before its details are read.
struct OldestTurn {
    id: Uuid,
    sequence: i64,
    is_album: bool,
    ready_at: Timestamp,
    crashes: i64,
}

/// Reads the lane's oldest incomplete turn.
pub async fn next_turn<S: Session>(db: &S, lease: &Lease) -> VerbResult<Option<ReadTurn>, S> {
    let lane = lanes::require(db, lease).await?;
    let oldest = find_oldest(db, lane.id).await?;
    match oldest {
        Some(oldest) => Ok(Some(read_details(db, &lane, oldest).await?)),
        None => Ok(None),
    }
}

/// Reads what the claim of a lane hands over: its oldest incomplete turn, unless that is not ready.
pub async fn claimed_turn<S: Session>(db: &S, lane: &Lane) -> VerbResult<Option<Box<QueuedTurn>>, S> {
    // Until it is ready, messages may join it.
    let oldest = find_oldest(db, lane.id).await?.filter(|oldest| oldest.ready_at <= lane.now);
    match oldest {
        Some(oldest) => Ok(Some(Box::new(read_details(db, lane, oldest).await?.turn))),
        None => Ok(None),
    }
}

/// Finds the oldest incomplete turn among those that this process works on.
async fn find_oldest<S: Session>(db: &S, lane: LaneId) -> VerbResult<Option<OldestTurn>, S> {
    let TurnSelection { all, own } = db.settings().scope.turns();
    let oldest: Option<(Uuid, i64, bool, i64, i64)> = db
        .find(
            "SELECT id, sequence, album IS NOT NULL, ready_at, crashes FROM turns \
         WHERE lane = $1 AND state = 'queued' AND ($2 OR id IN (SELECT value FROM rarray($3))) \
         ORDER BY sequence LIMIT 1",
            params![lane, all, own],
        )
        .await?;
    Ok(oldest.map(|(id, sequence, is_album, ready_at, crashes)| OldestTurn {
        id,
        sequence,
        is_album,
        ready_at: Timestamp(ready_at),
        crashes,
    }))
}

async fn read_details<S: Session>(db: &S, lane: &Lane, oldest: OldestTurn) -> VerbResult<ReadTurn, S> {
    let OldestTurn { id, sequence, is_album, ready_at, crashes } = oldest;
    let messages: Vec<MessageFields> = db
        .all(
            select_messages!(
                "WHERE inbox.turn = $1 AND inbox.consumed_by IS NULL ORDER BY inbox.sequence, inbox_files.position"
            ),
            params![id],
        )
        .await?;
    let journal: Vec<(Json<JournalEntry<AttachmentRef>>,)> =
        db.all("SELECT entry FROM journal WHERE turn = $1 ORDER BY position", params![id]).await?;
    let draft = drafts::find_row(db, TurnId(id)).await?;
    let unreported = unreported_failures(db, lane.id, sequence).await?;

    let named = journal.iter().flat_map(|(entry,)| entry.0.files()).map(|file| file.id);
    let sent = draft.iter().chain(&unreported).flat_map(PartRow::files);
    let received = messages.iter().filter_map(MessageFields::file);
    let records = attachments::read_records(db, named.chain(sent).chain(received).collect()).await?;
    let journal = journal.into_iter().map(|(entry,)| entry.0.try_map_files(|file| records.resolve(file)));
    let unreported =
        unreported.into_iter().map(|row| rows::to_part(db, row, &records)).collect::<VerbResult<Vec<_>, S>>()?;
    let arrivals = delivered_turns::read(db, &unreported).await?;
    let turn = QueuedTurn {
        id: TurnId(id),
        messages: rows::messages(messages, &records)?,
        has_followers: has_followers(db, lane.id, id).await?,
        journal: journal.collect::<Result<_, _>>()?,
        draft: draft.map(|row| rows::to_part(db, row, &records)).transpose()?,
        crashes: rows::number(crashes, "number of crashes")?,
        unreported_failures: unreported.into_iter().filter_map(|part| undelivered(part, &arrivals)).collect(),
        settings: conversation_settings::read(db, lane.id).await?,
        history: history::read(db, lane.id, db.settings().max_history_messages).await?.into(),
        // Callers wait by the clock of this process, which has gone on since the lane was read.
        ready_at: Timestamp(ready_at.0.saturating_add(db.clock_lead_over(lane.now))),
    };
    // At the end: a caller that finds it ready begins it.
    let is_ready_album = is_album && turn.ready_at <= db.now();
    Ok(ReadTurn { turn, is_ready_album })
}

/// Reads the parts before a turn that failed and of which the model doesn't know yet. A notice says nothing of its own: one that
/// is never repeated, since an operator has discarded it, would be read with every turn.
async fn unreported_failures<S: Session>(db: &S, lane: LaneId, turn_sequence: i64) -> VerbResult<Vec<PartRow>, S> {
    db.all(
        select_part!(
            "WHERE lane = $1 AND state = 'failed' AND NOT reported AND call IS NULL \
             AND kind NOT IN ('delete', 'notice') \
             AND turn_sequence < $2 ORDER BY turn_sequence, position"
        ),
        params![lane, turn_sequence],
    )
    .await
}

async fn has_followers<S: Session>(db: &S, lane: LaneId, turn: Uuid) -> VerbResult<bool, S> {
    db.value(
        "SELECT EXISTS (SELECT 1 FROM inbox WHERE lane = $1 AND consumed_by IS NULL AND turn <> $2)",
        params![lane, turn],
    )
    .await
}

/// Reads the messages that wait behind a turn, oldest first: the first of them, and the commands among the newest. Those
/// that were injected into it wait no longer. A process that works on its own turns only reads nothing but what begins as a
/// command does: the rest is for others to answer.
pub async fn list_queued_behind<S: Session>(db: &S, lease: &Lease, turn: TurnId) -> VerbResult<Vec<QueuedMessage>, S> {
    let lane = lanes::require(db, lease).await?;
    let rows: Vec<MessageFields> = db
        .all(
            select_messages!(
                "JOIN turns ON turns.id = inbox.turn \
             WHERE inbox.sequence IN (\
                SELECT sequence FROM ( \
                   SELECT waiting.sequence FROM inbox AS waiting JOIN turns ON turns.id = waiting.turn \
                   WHERE waiting.lane = $1 AND waiting.consumed_by IS NULL AND waiting.steered_into IS NULL \
                     AND turns.sequence > (SELECT sequence FROM turns WHERE id = $2) \
                     AND ($5 OR ltrim(json_extract(waiting.message, '$.text')) LIKE '/%') \
                   ORDER BY turns.sequence, waiting.sequence LIMIT $3 + 0) AS oldest \
                UNION \
                SELECT newest.sequence FROM ( \
                   SELECT sequence, turn, message FROM inbox \
                   WHERE lane = $1 AND consumed_by IS NULL AND steered_into IS NULL \
                   ORDER BY sequence DESC LIMIT $4 + 0) AS newest \
                JOIN turns ON turns.id = newest.turn \
                WHERE turns.sequence > (SELECT sequence FROM turns WHERE id = $2) \
                  AND ltrim(json_extract(newest.message, '$.text')) LIKE '/%') \
             ORDER BY turns.sequence, inbox.sequence, inbox_files.position"
            ),
            params![lane.id, turn.0, MAX_WAITING, MAX_NEWEST, !db.settings().scope.has_own_turns_only()],
        )
        .await?;
    let records = attachments::read_records(db, rows.iter().filter_map(MessageFields::file).collect()).await?;
    Ok(rows::messages(rows, &records)?)
}

fn undelivered(part: Part, arrivals: &TurnArrivals) -> Option<UndeliveredPart> {
    let Part { id, turn, operation, state, .. } = part;
    match state {
        PartState::Failed { reason } => {
            let content = operation.into_content()?;
            let (notice_arrived, text_arrived) = (arrivals.notices.contains(&turn), arrivals.texts.contains(&turn));
            Some(UndeliveredPart { part: id, turn, content, reason, notice_arrived, text_arrived })
        }
        _ => None,
    }
}
