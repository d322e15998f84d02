//! Drafts: the messages in which the replies of running turns grow. Their text is nowhere but on the platform.

use satchel_domain::{MessageRef, Part, PartContent, PartId, PartState, Timestamp, TurnId, part::Operation};
use satchel_ports::ledger::Lease;

use crate::{
    attachments::Records,
    batch::Batch,
    error::Result,
    journal, lanes, parts,
    process::Process,
    rows::{self, select_part},
    session::Session,
};

/// Whether an earlier reply is under way, so that a turn can't have a draft yet.
pub(crate) async fn must_wait(session: &mut Session<'_>, lease: &Lease, turn: TurnId) -> Result<bool> {
    let mut batch = Batch::default();
    let lane = lanes::read(&mut batch, &lease.conversation);
    let busy = parts::read_busy(&mut batch, &lease.conversation, turn);
    let answers = session.run(batch).await?;
    lanes::require(&answers, lane, lease)?;
    parts::is_busy(&answers, busy)
}

/// Opens the draft of a turn, or returns the one that is open; `None` while anything else of the lane is unsettled.
pub(crate) async fn open(
    session: &mut Session<'_>,
    process: &Process,
    lease: &Lease,
    turn: TurnId,
    reply_to: Option<MessageRef>,
) -> Result<Option<Part>> {
    let progress = journal::read_progress(session, lease, turn).await?;
    if progress.draft.is_some() {
        return Ok(progress.draft);
    }
    if progress.busy {
        return Ok(None);
    }
    let now = process.now();
    let (id, conversation) = (PartId(process.new_id()), lease.conversation.clone());
    let mut part =
        Part { streamed: true, reply_to, ..Part::new(id, conversation, turn, 0, PartContent::from_text(""), now) };
    part.start(now);
    let mut batch = Batch::default();
    parts::insert(&mut batch, &part, &Records::default())?;
    batch.add("UPDATE parts SET draft = 1 WHERE id = $1").bind(part.id.0);
    session.run(batch).await?;
    Ok(Some(part))
}

/// Reads the draft of a turn.
pub(crate) async fn read(session: &mut Session<'_>, turn: TurnId) -> Result<Option<Part>> {
    let mut batch = Batch::default();
    let draft = batch.add(select_part!("WHERE turn = $1 AND draft = 1 AND settled = 0")).bind(turn.0).id();
    let draft = session.run(batch).await?.first_row(draft)?;
    rows::part(session, draft).await
}

/// Puts the first part of a reply that is to be sent in the place of its draft, if it is a text. Otherwise nothing is
/// written over a message that stands, and it is deleted before.
///
/// A message that is known is edited. One that may have arrived and has no id stays in doubt. One that surely did not
/// arrive, or is gone, is as if it had never been begun: under its key a platform might answer with the one that is
/// gone.
pub(crate) fn finish(batch: &mut Batch, draft: &Part, parts: &mut Vec<Part>, position: u32, now: Timestamp) {
    batch.add("DELETE FROM parts WHERE id = $1").bind(draft.id.0);
    let first = parts.iter_mut().find(|part| part.state == PartState::Pending);
    match (&draft.state, first.filter(|part| part.is_text())) {
        (PartState::Open { message }, Some(text)) => {
            *text = continue_as(text.clone(), draft).into_edit_of(message.clone());
        }
        (PartState::Open { message }, None) => {
            parts.iter_mut().for_each(|part| part.position += 1);
            let operation = Operation::Delete { message: message.clone() };
            let state = PartState::Pending;
            parts.insert(0, Part { operation, state, position, created_at: now, ..draft.clone() });
        }
        (PartState::Sending | PartState::InDoubt { .. }, Some(text)) => {
            let mut doubtful = draft.clone();
            doubtful.interrupt(now);
            *text = Part { state: doubtful.state, ..continue_as(text.clone(), draft) };
        }
        _ => {}
    }
}

/// A part of which the draft was the first attempt.
fn continue_as(part: Part, draft: &Part) -> Part {
    let (attempts, first_attempt_at) = (draft.attempts, draft.first_attempt_at);
    Part { id: draft.id, attempts, first_attempt_at, streamed: true, ..part }
}
