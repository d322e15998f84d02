//! A part's end: what takes its place, the closing notice, the part that follows, and the lane's release.

use satchel_domain::{
    Part, PartContent, PartId, PartState,
    part::{FailureReason, PlannedPart},
};
use satchel_ledger::stored::{AttachmentRecords, AttachmentRef};
use satchel_ports::ledger::{Lease, SettleOutcome, Settlement};
use uuid::Uuid;

use crate::{
    attachments,
    error::VerbError,
    lanes::{self, LaneId},
    parameters::Json,
    params,
    rows::{self, PartRow},
    session::{Session, VerbResult},
    verbs::{failed_notices, parts, reply_questions},
};

/// Settles a part and starts the next, or gives the lane back.
pub async fn settle_part<S: Session>(db: &S, lease: &Lease, settlement: &Settlement) -> VerbResult<SettleOutcome, S> {
    let lane = lanes::require(db, lease).await?.id;
    let mut part = settlement.part.clone();
    let row = parts::require_unsettled(db, lane, part.id).await?;
    if row.closing.is_some() && (!settlement.children.is_empty() || settlement.notice.is_some()) {
        // A question that was closed while it was refused: nobody needs another form of it.
        part.state = PartState::Failed { reason: FailureReason::NotNeeded };
    } else if !settlement.children.is_empty() {
        let by = insert_children(db, lease, lane, &row, &part, &settlement.children).await?;
        part.state = PartState::Replaced { by };
    }
    if let Some(text) = &settlement.notice {
        write_notice(db, lane, &row, &part, text).await?;
    }
    if !part.state.is_settled() {
        return Err(VerbError::NotSettled(part.id).into());
    }
    parts::update(db, &part).await?;
    reply_questions::close_late_request(db, &part).await?;
    failed_notices::repeat_after(db, lane, &part).await?;
    if lanes::release_if_idle(db, lane).await? {
        return Ok(SettleOutcome { next: None, released: true });
    }
    let mut next = parts::first_unsettled(db, lane).await?;
    if let Some(next) = &mut next
        && satchel_ledger::start_next(next, &settlement.rules, db.now())
    {
        parts::update(db, next).await?;
    }
    Ok(SettleOutcome { next, released: false })
}

/// Puts the children where their parent stands: behind it and before whatever followed it.
async fn insert_children<S: Session>(
    db: &S,
    lease: &Lease,
    lane: LaneId,
    row: &PartRow,
    parent: &Part,
    children: &[PlannedPart],
) -> VerbResult<Vec<PartId>, S> {
    db.run(
        "UPDATE parts SET position = position + $3 WHERE turn = $1 AND position > $2",
        params![row.turn, row.position, i64::try_from(children.len()).unwrap_or(i64::MAX)],
    )
    .await?;
    let files = children.iter().flat_map(|planned| planned.content.files()).map(|item| item.attachment.id).collect();
    let mut records = attachments::require_records(db, &lease.conversation, files).await?;
    records.keep_plan(row.content.iter().flat_map(PartContent::files).map(|item| &item.attachment));
    let parent = Part { position: rows::number(row.position, "position")?, ..parent.clone() };
    let replacements = satchel_ledger::replacements(&parent, children, &mut || db.new_id());
    for child in &replacements {
        parts::insert(db, lane, row.turn_sequence, child, &records).await?;
    }
    Ok(replacements.iter().map(|child| child.id).collect())
}

/// Writes the response's one closing notice, or brings it up to date while it is not started.
async fn write_notice<S: Session>(db: &S, lane: LaneId, row: &PartRow, failed: &Part, text: &str) -> VerbResult<(), S> {
    let now = db.now();
    let existing: Option<(Uuid, String)> = db
        .find(
            "SELECT id, state FROM parts WHERE turn = $1 AND kind = 'notice' ORDER BY position LIMIT 1",
            params![row.turn],
        )
        .await?;
    match existing {
        Some((id, state)) if state == "pending" => {
            // It tells something new, so it may wait as long as something new.
            let notice = PartContent::<AttachmentRef>::Notice { text: text.to_owned() };
            db.run("UPDATE parts SET content = $2, created_at = $3 WHERE id = $1", params![id, Json(notice), now.0])
                .await?;
        }
        Some(_) => {}
        None => {
            let last: i64 = db.value("SELECT MAX(position) FROM parts WHERE turn = $1", params![row.turn]).await?;
            let (id, position) = (PartId(db.new_id()), rows::number(last + 1, "position")?);
            let notice = satchel_ledger::closing_notice(failed, text.to_owned(), position, id, now);
            parts::insert(db, lane, row.turn_sequence, &notice, &AttachmentRecords::default()).await?;
        }
    }
    Ok(())
}
