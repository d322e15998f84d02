//! Drafts: the messages in which the replies of running turns grow. Their text is nowhere but on the platform.

use satchel_domain::{MessageRef, Part, PartContent, PartId, TurnId};
use satchel_ledger::stored::AttachmentRecords;
use satchel_ports::ledger::Lease;

use crate::{
    lanes, params,
    progress::TurnProgress,
    rows::{PartRow, select_part},
    session::{Session, VerbResult},
    verbs::parts,
};

/// Whether an earlier reply is under way, so that a turn can't have a draft yet.
pub async fn must_draft_wait<S: Session>(db: &S, lease: &Lease, turn: TurnId) -> VerbResult<bool, S> {
    let lane = lanes::require(db, lease).await?;
    parts::is_busy(db, lane.id, turn).await
}

/// Opens the draft of a turn, or returns the one that is open; `None` while anything else of the lane is unsettled.
pub async fn open_draft<S: Session>(
    db: &S,
    lease: &Lease,
    turn: TurnId,
    reply_to: Option<MessageRef>,
) -> VerbResult<Option<Part>, S> {
    let progress = TurnProgress::read(db, lease, turn).await?;
    if progress.incomplete.draft.is_some() || progress.incomplete.is_busy {
        return Ok(progress.incomplete.draft);
    }
    let now = db.now();
    let (id, conversation) = (PartId(db.new_id()), lease.conversation.clone());
    let mut part =
        Part { streamed: true, reply_to, ..Part::new(id, conversation, turn, 0, PartContent::from_text(""), now) };
    part.start(now);
    parts::insert(db, progress.lane, progress.sequence, &part, &AttachmentRecords::default()).await?;
    db.run("UPDATE parts SET draft = TRUE WHERE id = $1", params![part.id.0]).await?;
    Ok(Some(part))
}

/// Finds the draft of a turn.
pub(crate) async fn find_row<S: Session>(db: &S, turn: TurnId) -> VerbResult<Option<PartRow>, S> {
    db.find(select_part!("WHERE turn = $1 AND draft AND NOT settled"), params![turn.0]).await
}
