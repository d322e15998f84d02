//! A part's end: what takes its place, the closing notice, the part that follows, and the lane's release.

use satchel_domain::{
    Part, PartContent, PartId, PartState, Timestamp,
    delivery::DeliveryRules,
    part::{FailureReason, PlannedPart},
};
use satchel_ports::ledger::{Lease, SettleOutcome, Settlement};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    attachments::{AttachmentRef, Records},
    batch::Batch,
    error::{Error, Result},
    lanes, parts,
    process::Process,
    rows::{self, PartRow},
    session::Session,
};

/// Settles a part and begins the next.
pub(crate) async fn settle_part(
    session: &mut Session<'_>,
    process: &Process,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<SettleOutcome> {
    let now = process.now();
    let mut part = settlement.part.clone();
    if !settlement.children.is_empty() || settlement.notice.is_some() {
        // Only what takes a part's place, or stands behind it, needs to know where it stands.
        let row = parts::unsettled(session, lease, part.id).await?;
        if row.closing.is_some() {
            // A question that was closed while it was refused: nobody needs another form of it.
            part.state = PartState::Failed { reason: FailureReason::NotNeeded };
        } else if !settlement.children.is_empty() {
            let by = insert_children(session, process, lease, &row, &part, &settlement.children).await?;
            part.state = PartState::Replaced { by };
        }
        if let Some(text) = &settlement.notice {
            write_notice(session, process, &row, &part, text, now).await?;
        }
    }
    let mut batch = Batch::default();
    let updated = parts::update_held(&mut batch, lease, &part);
    let released = lanes::give_back_if_idle(&mut batch, &lease.conversation);
    let next = parts::read_first_unsettled(&mut batch, &lease.conversation);
    let answers = session.run(batch).await?;
    parts::require_updated(session, lease, part.id, &answers, updated).await?;
    if !part.state.is_settled() {
        return Err(Error::NotSettled(part.id));
    }
    let next = match rows::part(session, answers.first_row(next)?).await? {
        Some(next) => Some(begin(session, lease, next, &settlement.rules, now).await?),
        None => None,
    };
    Ok(SettleOutcome { next, released: answers.first_row::<(i64,)>(released)?.is_some() })
}

/// Settles a part behind which nothing is expected, and gives its lane back, in one trip. It fails where the lane is
/// not held, the part is settled already or not to be, or anything is left to do.
pub(crate) fn settle_last(session: &mut Session<'_>, lease: &Lease, part: &Part) {
    let mut batch = Batch::default();
    parts::update_held_silently(&mut batch, lease, part);
    lanes::give_back_changed(&mut batch, &lease.conversation);
    session.finish(batch);
}

/// Puts the children where their parent stands: behind it and before whatever followed it.
async fn insert_children(
    session: &mut Session<'_>,
    process: &Process,
    lease: &Lease,
    row: &PartRow,
    parent: &Part,
    children: &[PlannedPart],
) -> Result<Vec<PartId>> {
    let mut batch = Batch::default();
    batch
        .add("UPDATE parts SET position = position + $3 WHERE turn = $1 AND position > $2")
        .bind(row.turn)
        .bind(row.position)
        .bind(i64::try_from(children.len()).unwrap_or(i64::MAX));
    let files = children.iter().flat_map(|planned| planned.content.files()).map(|item| item.attachment.id).collect();
    let records = Records::of_conversation(session, &lease.conversation, files).await?;
    let parent = Part { position: rows::number(row.position, "position")?, ..parent.clone() };
    let replacements = satchel_ledger::replacements(&parent, children, &mut || process.new_id());
    for child in &replacements {
        parts::insert(&mut batch, child, &records)?;
    }
    session.run(batch).await?;
    Ok(replacements.iter().map(|child| child.id).collect())
}

/// Writes the response's one closing notice, or brings it up to date while it is not begun.
async fn write_notice(
    session: &mut Session<'_>,
    process: &Process,
    row: &PartRow,
    failed: &Part,
    text: &str,
    now: Timestamp,
) -> Result<()> {
    let existing: Option<(Uuid, String)> =
        sqlx::query_as("SELECT id, state FROM parts WHERE turn = $1 AND kind = 'notice' ORDER BY position LIMIT 1")
            .bind(row.turn)
            .fetch_optional(session.connection().await?)
            .await?;
    match existing {
        Some((id, state)) if state == "pending" => {
            // It tells something new, so it may wait as long as something new.
            sqlx::query("UPDATE parts SET content = $2, created_at = $3 WHERE id = $1")
                .bind(id)
                .bind(Json(PartContent::<AttachmentRef>::Notice { text: text.to_owned() }))
                .bind(now.0)
                .execute(session.connection().await?)
                .await?;
        }
        Some(_) => {}
        None => {
            let last: i64 = sqlx::query_scalar("SELECT MAX(position) FROM parts WHERE turn = $1")
                .bind(row.turn)
                .fetch_one(session.connection().await?)
                .await?;
            let (id, position) = (PartId(process.new_id()), rows::number(last + 1, "position")?);
            let notice = satchel_ledger::closing_notice(failed, text.to_owned(), position, id, now);
            let mut batch = Batch::default();
            parts::insert(&mut batch, &notice, &Records::default())?;
            session.run(batch).await?;
        }
    }
    Ok(())
}

/// The lane's next part, begun if it may be.
async fn begin(
    session: &mut Session<'_>,
    lease: &Lease,
    mut next: Part,
    rules: &DeliveryRules,
    now: Timestamp,
) -> Result<Part> {
    if !satchel_ledger::start_next(&mut next, rules, now) {
        return Ok(next);
    }
    let mut batch = Batch::default();
    parts::update(&mut batch, &lease.conversation, &next);
    session.finish(batch);
    Ok(next)
}
