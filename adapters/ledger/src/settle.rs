//! A part's end: what takes its place, the closing notice, the part that follows, and the lane's release.

use satchel_domain::{
    Part, PartContent, PartId, PartState, Timestamp,
    delivery::{self, DeliveryRules, Event, Step},
    part::PlannedPart,
};
use satchel_ports::ledger::{Lease, Settled, Settlement};
use sqlx::{SqliteConnection, types::Json};
use uuid::Uuid;

use crate::{
    attachments,
    error::{Error, Result},
    lanes, parts,
    process::Process,
    rows::{self, PartRow},
};

/// Settles a part and begins the next.
pub(crate) async fn settle_part(
    connection: &mut SqliteConnection,
    process: &Process,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Settled> {
    lanes::check(connection, lease).await?;
    let row = parts::unsettled(connection, lease, settlement.part.id).await?;
    let now = process.now();
    let mut part = settlement.part.clone();
    if settlement.children.is_empty() {
        if !part.state.is_settled() {
            return Err(Error::NotSettled(part.id));
        }
    } else {
        let by = insert_children(connection, lease, &row, &part, &settlement.children).await?;
        part.state = PartState::Replaced { by };
    }
    parts::update(connection, &part).await?;
    if let Some(text) = &settlement.notice {
        write_notice(connection, &row, &part, text, now).await?;
    }
    let next = begin_next(connection, lease, &settlement.rules, now).await?;
    let released = next.is_none() && lanes::is_idle(connection, &lease.conversation).await?;
    if released {
        lanes::give_back(connection, &lease.conversation).await?;
    }
    Ok(Settled { next, released })
}

/// Puts the children where their parent stands: behind it and before whatever followed it.
///
/// They keep its age, so that a chain of replacements ends as any wait does.
async fn insert_children(
    connection: &mut SqliteConnection,
    lease: &Lease,
    row: &PartRow,
    parent: &Part,
    children: &[PlannedPart],
) -> Result<Vec<PartId>> {
    sqlx::query("UPDATE parts SET position = position + $3 WHERE turn = $1 AND position > $2")
        .bind(row.turn)
        .bind(row.position)
        .bind(i64::try_from(children.len()).unwrap_or(i64::MAX))
        .execute(&mut *connection)
        .await?;
    let mut ids = Vec::with_capacity(children.len());
    for (offset, planned) in (1_i64..).zip(children) {
        let takes_target = offset == 1 && matches!(planned.content, PartContent::Text { .. });
        let mut child = Part {
            id: PartId(Uuid::now_v7()),
            position: rows::number(row.position + offset, "position")?,
            content: planned.content.clone(),
            state: planned.refused.clone().map_or(PartState::Pending, |reason| PartState::Failed { reason }),
            attempts: 0,
            first_attempt_at: None,
            target: parent.target.clone().filter(|_| takes_target),
            ..parent.clone()
        };
        for attachment in attachments::of_content(&mut child.content).filter(|attachment| attachment.number == 0) {
            attachments::store(connection, &lease.conversation, parent.turn, attachment).await?;
        }
        parts::insert(connection, &child, row.turn_sequence).await?;
        ids.push(child.id);
    }
    Ok(ids)
}

/// Writes the response's one closing notice, or brings it up to date while it is not begun.
async fn write_notice(
    connection: &mut SqliteConnection,
    row: &PartRow,
    failed: &Part,
    text: &str,
    now: Timestamp,
) -> Result<()> {
    let content = PartContent::Notice { text: text.to_owned() };
    let existing: Option<(Uuid, String)> =
        sqlx::query_as("SELECT id, state FROM parts WHERE turn = $1 AND kind = 'notice' ORDER BY position LIMIT 1")
            .bind(row.turn)
            .fetch_optional(&mut *connection)
            .await?;
    match existing {
        Some((id, state)) if state == "pending" => {
            sqlx::query("UPDATE parts SET content = $2 WHERE id = $1")
                .bind(id)
                .bind(Json(content))
                .execute(connection)
                .await?;
        }
        Some(_) => {}
        None => {
            let last: i64 = sqlx::query_scalar("SELECT MAX(position) FROM parts WHERE turn = $1")
                .bind(row.turn)
                .fetch_one(&mut *connection)
                .await?;
            let notice = Part {
                id: PartId(Uuid::now_v7()),
                position: rows::number(last + 1, "position")?,
                content,
                state: PartState::Pending,
                attempts: 0,
                first_attempt_at: None,
                labelled: false,
                target: None,
                created_at: now,
                ..failed.clone()
            };
            parts::insert(connection, &notice, row.turn_sequence).await?;
        }
    }
    Ok(())
}

/// The lane's next part, begun if it may be.
async fn begin_next(
    connection: &mut SqliteConnection,
    lease: &Lease,
    rules: &DeliveryRules,
    now: Timestamp,
) -> Result<Option<Part>> {
    let Some(next) = parts::first_unsettled(connection, &lease.conversation).await? else { return Ok(None) };
    let event = match next.state {
        PartState::Pending | PartState::Waiting { .. } if delivery::next_step(&next, now, rules) == Step::Begin => {
            Event::Begun
        }
        // Whoever began it is gone: this owner sends one part at a time, and has just settled that one.
        PartState::Sending => Event::Interrupted,
        _ => return Ok(Some(next)),
    };
    let next = delivery::advance(&next, event, now, rules);
    parts::update(connection, &next).await?;
    Ok(Some(next))
}
