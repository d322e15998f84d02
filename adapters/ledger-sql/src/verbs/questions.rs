//! Questions about calls: parts that are opened while their turn runs, and closed by its steps.

use satchel_domain::{CallId, Part, PartId, TurnId};
use satchel_ledger::stored::AttachmentRecords;
use satchel_ports::ledger::{Lease, NewQuestion, QuestionKey};
use uuid::Uuid;

use crate::{
    error::VerbError,
    lanes::{self, LaneId},
    params,
    progress::TurnProgress,
    rows::{self, PartRow, select_part},
    session::{Session, VerbResult},
    verbs::parts,
    work_scope::TurnSelection,
};

/// Opens a call's question, and starts it unless something else of the lane is under way. One that stands already, or
/// may, is returned in its place.
pub async fn open_question<S: Session>(db: &S, lease: &Lease, new: &NewQuestion) -> VerbResult<Part, S> {
    let TurnProgress { lane, sequence, incomplete } = TurnProgress::read(db, lease, new.call.turn).await?;
    if let Some(asked) = find(db, new.call).await? {
        return Ok(asked);
    }
    let (id, is_delivering) = (PartId(db.new_id()), is_delivering(db, lane).await?);
    let position = incomplete.next_position;
    let part = satchel_ledger::open_question(&lease.conversation, new.clone(), id, position, is_delivering, db.now());
    parts::insert(db, lane, sequence, &part, &AttachmentRecords::default()).await?;
    Ok(part)
}

/// The question that was asked about a call, which may be closed by now; `None` if it certainly never arrived.
async fn find<S: Session>(db: &S, call: CallId) -> VerbResult<Option<Part>, S> {
    let row = db
        .find(
            select_part!(
                "WHERE turn = $1 AND call = $2 AND (NOT settled OR closing IS NOT NULL OR (state = 'failed' \
                 AND json_extract(state_detail, '$.reason.why') = 'may_have_arrived')) ORDER BY position DESC LIMIT 1"
            ),
            params![call.turn.0, call.ordinal],
        )
        .await?;
    rows::part(db, row).await
}

/// Whether a part of the lane is on its way, for which others wait.
async fn is_delivering<S: Session>(db: &S, lane: LaneId) -> VerbResult<bool, S> {
    let TurnSelection { all, own } = db.settings().scope.turns();
    db.value(
        "SELECT EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled AND NOT draft AND state <> 'open' \
             AND ($2 OR turn IN (SELECT value FROM rarray($3))))",
        params![lane, all, own],
    )
    .await
}

/// Closes the question of a call by this text, if the lease is valid.
pub async fn close_question<S: Session>(db: &S, lease: &Lease, call: CallId, text: &str) -> VerbResult<(), S> {
    let lane = lanes::require(db, lease).await?;
    close_each(db, lane.id, call.turn, Some(text), |asked| asked == call).await?;
    Ok(())
}

/// Finds the secret from which the codes of questions are derived; `None` before the first question.
pub async fn find_question_key<S: Session>(db: &S) -> VerbResult<Option<QuestionKey>, S> {
    let found: Option<(String,)> =
        db.find("SELECT secret FROM installation_secrets WHERE name = 'question codes'", params![]).await?;
    Ok(found.map(|(secret,)| QuestionKey::new(secret)))
}

/// Makes the secret from which the codes of questions are derived, unless another process was faster, and returns it.
pub async fn create_question_key<S: Session>(db: &S) -> VerbResult<QuestionKey, S> {
    let secret = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    db.run(
        "INSERT INTO installation_secrets (name, secret) VALUES ('question codes', $1) ON CONFLICT (name) DO NOTHING",
        params![secret],
    )
    .await?;
    Ok(find_question_key(db).await?.ok_or(VerbError::Row { what: "secret of the installation" })?)
}

/// Closes those unsettled questions of a turn that `ends` picks, by this text or else as unanswered, and starts the edit
/// of the first where nothing else of the lane is under way. Returns whether one of them is still to be delivered.
pub(crate) async fn close_each<S: Session>(
    db: &S,
    lane: LaneId,
    turn: TurnId,
    text: Option<&str>,
    ends: impl Fn(CallId) -> bool,
) -> VerbResult<bool, S> {
    let rows: Vec<PartRow> = db
        .all(select_part!("WHERE turn = $1 AND NOT settled AND call IS NOT NULL ORDER BY position"), params![turn.0])
        .await?;
    if rows.is_empty() {
        return Ok(false);
    }
    let (unsettled, is_delivering) = (rows::parts(db, rows).await?, is_delivering(db, lane).await?);
    let (closed, is_left) = satchel_ledger::close_questions(unsettled, text, is_delivering, db.now(), ends);
    for part in &closed {
        parts::update(db, part).await?;
    }
    Ok(is_left)
}
