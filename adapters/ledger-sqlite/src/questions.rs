//! Questions about calls: parts that are opened while their turn runs, and closed by its steps.

use satchel_domain::{CallId, Part, PartId, Timestamp, TurnId};
use satchel_ports::ledger::{Lease, NewQuestion};

use crate::{
    attachments::Records,
    batch::Batch,
    error::Result,
    journal, lanes, parts,
    process::Process,
    rows::{self, PartRow, select_part},
    session::Session,
};

/// Opens a call's question, and starts it unless something else of the lane is under way. One that stands already, or
/// may, is returned in its place.
pub(crate) async fn open(
    session: &mut Session<'_>,
    process: &Process,
    lease: &Lease,
    new: NewQuestion,
) -> Result<Part> {
    let position = journal::read_progress(session, lease, new.call.turn).await?.incomplete.next_position;
    if let Some(asked) = find_question(session, new.call).await? {
        return Ok(asked);
    }
    let (id, is_delivering) = (PartId(process.new_id()), is_delivering(session, lease).await?);
    let part = satchel_ledger::open_question(&lease.conversation, new, id, position, is_delivering, process.now());
    let mut batch = Batch::default();
    parts::insert(&mut batch, &part, &Records::default())?;
    session.finish(batch);
    Ok(part)
}

/// The question that was asked about a call, which may be closed by now; `None` if it certainly never arrived.
async fn find_question(session: &mut Session<'_>, call: CallId) -> Result<Option<Part>> {
    let row: Option<PartRow> = sqlx::query_as(select_part!(
        "WHERE turn = $1 AND call = $2 AND (settled = 0 OR closing IS NOT NULL OR (state = 'failed' \
             AND json_extract(state_detail, '$.reason.why') = 'may_have_arrived')) ORDER BY position DESC LIMIT 1"
    ))
    .bind(call.turn.0)
    .bind(i64::from(call.ordinal))
    .fetch_optional(session.connection().await?)
    .await?;
    rows::part(session, row).await
}

/// Whether a part of the lane is on its way, for which others wait.
async fn is_delivering(session: &mut Session<'_>, lease: &Lease) -> Result<bool> {
    let delivering = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM parts \
         WHERE conversation = $1 AND settled = 0 AND draft = 0 AND state <> 'open')",
    )
    .bind(lease.conversation.to_string())
    .fetch_one(session.connection().await?)
    .await?;
    Ok(delivering)
}

/// Closes the question of a call by this text.
pub(crate) async fn close(
    session: &mut Session<'_>,
    process: &Process,
    lease: &Lease,
    call: CallId,
    text: &str,
) -> Result<()> {
    let mut batch = Batch::default();
    let lane = lanes::read(&mut batch, &lease.conversation);
    let answers = session.run(batch).await?;
    lanes::require(&answers, lane, lease)?;
    close_each(session, lease, call.turn, process.now(), Some(text), |asked| asked == call).await?;
    Ok(())
}

/// Closes those unsettled questions of a turn that `ends` picks, by this text or else as unanswered, and starts the edit
/// of the first where nothing else of the lane is under way. Returns whether one of them is still to be delivered.
pub(crate) async fn close_each(
    session: &mut Session<'_>,
    lease: &Lease,
    turn: TurnId,
    now: Timestamp,
    text: Option<&str>,
    ends: impl Fn(CallId) -> bool,
) -> Result<bool> {
    let rows: Vec<PartRow> =
        sqlx::query_as(select_part!("WHERE turn = $1 AND settled = 0 AND call IS NOT NULL ORDER BY position"))
            .bind(turn.0)
            .fetch_all(session.connection().await?)
            .await?;
    let (unsettled, is_delivering) = (rows::parts(session, rows).await?, is_delivering(session, lease).await?);
    let (closed, is_left) = satchel_ledger::close_questions(unsettled, text, is_delivering, now, ends);
    let mut batch = Batch::default();
    for part in &closed {
        parts::update(&mut batch, &lease.conversation, part);
    }
    session.run(batch).await?;
    Ok(is_left)
}
