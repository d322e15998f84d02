//! Notices that failed: the next reply that arrives takes them along.

use satchel_domain::{Part, PartId, PartState};
use satchel_ledger::stored::AttachmentRecords;

use crate::{
    lanes::LaneId,
    params,
    rows::{self, PartRow, select_part},
    session::{Session, VerbResult},
    verbs::parts,
};

/// Puts one new notice in the place of a lane's failed ones, once this part has arrived as the last of its turn. It is the
/// newest one's turn that gets it: it says what became of that reply.
pub(crate) async fn repeat_after<S: Session>(db: &S, lane: LaneId, settled: &Part) -> VerbResult<(), S> {
    if !satchel_ledger::shows_delivery_works(settled) {
        return Ok(());
    }
    let mut failed: Vec<PartRow> = db
        .all(
            select_part!(
                "WHERE lane = $1 AND state = 'failed' AND NOT reported AND kind = 'notice' \
                   AND NOT EXISTS (SELECT 1 FROM parts AS others \
                      WHERE others.turn = $2 AND NOT others.settled AND others.state <> 'open') \
                 ORDER BY turn_sequence, position"
            ),
            params![lane, settled.turn.0],
        )
        .await?;
    failed.retain(|row| satchel_ledger::is_repeatable(&row.state));
    let Some((turn, turn_sequence)) = failed.last().map(|row| (row.turn, row.turn_sequence)) else { return Ok(()) };
    let last: i64 = db.value("SELECT MAX(position) FROM parts WHERE turn = $1", params![turn]).await?;
    let (id, position) = (PartId(db.new_id()), rows::number(last + 1, "position")?);
    let failed = rows::parts(db, failed).await?;
    if let Some(notice) = satchel_ledger::repeated_notice(&failed, position, id, db.now()) {
        for part in failed {
            parts::update(db, &Part { state: PartState::Replaced { by: vec![id] }, ..part }).await?;
        }
        parts::insert(db, lane, turn_sequence, &notice, &AttachmentRecords::default()).await?;
    }
    Ok(())
}
