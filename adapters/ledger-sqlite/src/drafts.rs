//! Drafts: the messages in which the replies of running turns grow. Their text is nowhere but on the platform.

use satchel_domain::{MessageRef, Part, PartContent, PartId, TurnId};
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
    let incomplete = journal::read_progress(session, lease, turn).await?.incomplete;
    if incomplete.draft.is_some() || incomplete.is_busy {
        return Ok(incomplete.draft);
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
