//! Parts as rows: stored, read in the order of their lane, saved, discarded.

use satchel_domain::{Part, PartContent, PartId, PartState, TurnId, part::FailureReason};
use satchel_ledger::stored::AttachmentRecords;
use satchel_ports::ledger::Lease;

use crate::{
    error::VerbError,
    lanes::{self, LaneId},
    parameters::Json,
    params,
    rows::{self, PartRow, select_part},
    session::{Session, VerbResult},
    work_scope::TurnSelection,
};

/// Stores a new part of a turn that stands at `turn_sequence` in its lane; `records` has its files.
pub(crate) async fn insert<S: Session>(
    db: &S,
    lane: LaneId,
    turn_sequence: i64,
    part: &Part,
    records: &AttachmentRecords,
) -> VerbResult<(), S> {
    let operation = part.operation.clone().try_map_files(|file| records.refer(&file))?;
    db.run(
        "INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, \
             attempts, first_attempt_at, labelled, target, reply_to, last_message, voice_sha256, created_at, streamed, \
             searched, labelled_sends, call, unanswered, closing, first_attempt_after) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, \
             $23, $24, CASE WHEN $12 IS NOT NULL THEN (SELECT COALESCE(MAX(sequence), 0) FROM inbox) END)",
        params![
            part.id.0,
            lane,
            part.turn.0,
            turn_sequence,
            part.position,
            operation.kind(),
            Json(operation.content()),
            part.state.as_str(),
            Json(rows::shift_wait(part.state.clone(), -db.clock_lead())),
            part.state.is_settled(),
            part.attempts,
            part.first_attempt_at.map(|at| at.0),
            part.labelled,
            part.target().map(|target| target.0.as_str()),
            part.reply_to.as_ref().map(|message| message.0.as_str()),
            last_message(part),
            prepared_voice(part),
            part.created_at.0,
            part.streamed,
            part.searched,
            part.labelled_sends,
            part.question.as_ref().map(|question| question.call.ordinal),
            part.question.as_ref().map(|question| question.unanswered.as_str()),
            closing(part),
        ],
    )
    .await?;
    Ok(())
}

/// Stores what may change of an unsettled part; its place, its files and what it answers may not.
pub(crate) async fn update<S: Session>(db: &S, part: &Part) -> VerbResult<(), S> {
    // A voice gets its recording. What names files stays as it is, and so needn't be written again.
    let content = Some(Json(part.content())).filter(|_| part.operation.files().is_empty());
    db.run(
        "UPDATE parts SET kind = $2, content = COALESCE($3, content), state = $4, state_detail = $5, settled = $6, \
             attempts = $7, first_attempt_at = $8, labelled = $9, target = $10, last_message = $11, voice_sha256 = $12, \
             searched = $13, labelled_sends = $14, closing = $15, created_at = $16, \
             first_attempt_after = CASE WHEN $8 IS NOT NULL \
                 THEN COALESCE(first_attempt_after, (SELECT COALESCE(MAX(sequence), 0) FROM inbox)) END \
         WHERE id = $1",
        params![
            part.id.0,
            part.operation.kind(),
            content,
            part.state.as_str(),
            Json(rows::shift_wait(part.state.clone(), -db.clock_lead())),
            part.state.is_settled(),
            part.attempts,
            part.first_attempt_at.map(|at| at.0),
            part.labelled,
            part.target().map(|target| target.0.as_str()),
            last_message(part),
            prepared_voice(part),
            part.searched,
            part.labelled_sends,
            closing(part),
            part.created_at.0,
        ],
    ).await?;
    Ok(())
}

/// Whether a lane has an unsettled part of any other turn than this one, for which others wait.
///
/// Not only of earlier turns: a later one that was completed first may have a part in flight, and a lane sends one part
/// at a time.
pub(crate) async fn is_busy<S: Session>(db: &S, lane: LaneId, turn: TurnId) -> VerbResult<bool, S> {
    let TurnSelection { all, own } = db.settings().scope.turns();
    db.value(
        "SELECT EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled AND turn <> $2 AND state <> 'open' \
             AND ($3 OR turn IN (SELECT value FROM rarray($4))))",
        params![lane, turn.0, all, own],
    )
    .await
}

/// Reads the lane's oldest unsettled part that is to be delivered, if the lease is valid.
pub async fn next_part<S: Session>(db: &S, lease: &Lease) -> VerbResult<Option<Part>, S> {
    let lane = lanes::require(db, lease).await?;
    first_unsettled(db, lane.id).await
}

/// Reads the lane's next part that is to be delivered: the one under way, or the oldest. A question that is closed stands
/// before a later turn's part that was started meanwhile.
pub(crate) async fn first_unsettled<S: Session>(db: &S, lane: LaneId) -> VerbResult<Option<Part>, S> {
    let TurnSelection { all, own } = db.settings().scope.turns();
    let row = db
        .find(
            select_part!(
                "WHERE lane = $1 AND NOT settled AND NOT draft AND state <> 'open' \
               AND ($2 OR turn IN (SELECT value FROM rarray($3))) \
             ORDER BY state = 'pending', turn_sequence, position LIMIT 1"
            ),
            params![lane, all, own],
        )
        .await?;
    rows::part(db, row).await
}

/// Reads an unsettled part of a lane.
pub(crate) async fn require_unsettled<S: Session>(db: &S, lane: LaneId, part: PartId) -> VerbResult<PartRow, S> {
    let row: Option<PartRow> =
        db.find(select_part!("WHERE parts.id = $1 AND lane = $2"), params![part.0, lane]).await?;
    match row {
        None => Err(VerbError::unknown(format!("part {part}")).into()),
        Some(row) if row.settled => Err(VerbError::AlreadySettled(part).into()),
        Some(row) => Ok(row),
    }
}

/// Stores an unsettled part as it is now. A question may have been closed while it was being sent; it is then stored as
/// the edit that closes it.
pub async fn save_part<S: Session>(db: &S, lease: &Lease, part: &Part) -> VerbResult<(), S> {
    let lane = lanes::require(db, lease).await?;
    let stored = require_unsettled(db, lane.id, part.id).await?;
    let mut part = part.clone();
    if let Some(question) = &mut part.question {
        question.closing.clone_from(&stored.closing);
        part.turn_into_closing_edit(db.now());
    }
    if part.state.is_settled() {
        return Err(VerbError::SettleOutcome(part.id).into());
    }
    update(db, &part).await
}

/// Gives up an unsettled part that is not being sent.
pub async fn discard_part<S: Session>(db: &S, part: PartId) -> VerbResult<(), S> {
    let lane: Option<(String,)> = db
        .find("SELECT conversation FROM lanes JOIN parts ON parts.lane = lanes.id WHERE parts.id = $1", params![part.0])
        .await?;
    if let Some((conversation,)) = lane {
        // Whoever delivers the part waits until it is discarded, or it waits until the part is stored as it is then.
        db.find_lane(&rows::conversation(&conversation)?).await?;
    }
    let row: Option<PartRow> = db.find(select_part!("WHERE parts.id = $1"), params![part.0]).await?;
    let row = match row {
        None => return Err(VerbError::unknown(format!("part {part}")).into()),
        Some(row) if row.settled => return Err(VerbError::AlreadySettled(part).into()),
        Some(row) if row.draft || matches!(row.state, PartState::Sending | PartState::Open { .. }) => {
            return Err(VerbError::unknown(format!("part {part} among those that are not being sent")).into());
        }
        Some(row) => row,
    };
    for part in rows::parts(db, vec![row]).await? {
        update(db, &Part { state: PartState::Failed { reason: FailureReason::Discarded }, ..part }).await?;
    }
    Ok(())
}

/// The message behind which the next one of the conversation stands; what was taken back is not there.
fn last_message(part: &Part) -> Option<&str> {
    match (&part.state, part.content()) {
        (_, None) => None,
        (PartState::Sent { messages }, _) => messages.last().map(|message| message.0.as_str()),
        (PartState::Open { message }, _) => Some(message.0.as_str()),
        _ => None,
    }
}

fn closing(part: &Part) -> Option<&str> {
    part.question.as_ref()?.closing.as_deref()
}

fn prepared_voice(part: &Part) -> Option<[u8; 32]> {
    match part.content() {
        Some(PartContent::Voice { prepared: Some(voice), .. }) => Some(voice.sha256.0),
        _ => None,
    }
}
