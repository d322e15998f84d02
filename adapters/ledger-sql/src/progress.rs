//! How far an incomplete turn has come.

use satchel_domain::TurnId;
use satchel_ledger::IncompleteTurn;
use satchel_ports::ledger::Lease;

use crate::{
    error::VerbError,
    lanes::{self, LaneId},
    params, rows,
    session::{Session, VerbResult},
    verbs::{drafts, parts},
};

/// An incomplete turn of a lane that is held.
pub(crate) struct TurnProgress {
    pub(crate) lane: LaneId,
    /// Its place in the lane.
    pub(crate) sequence: i64,
    pub(crate) incomplete: IncompleteTurn,
}

impl TurnProgress {
    /// Reads where an incomplete turn stands, if the lease is valid.
    pub(crate) async fn read<S: Session>(db: &S, lease: &Lease, turn: TurnId) -> VerbResult<Self, S> {
        let lane = lanes::require(db, lease).await?.id;
        let sequence = require_incomplete(db, lane, turn).await?;
        let next_position: i64 = db
            .value("SELECT COALESCE(MAX(position) + 1, 0) FROM parts WHERE turn = $1 AND NOT draft", params![turn.0])
            .await?;
        let incomplete = IncompleteTurn {
            draft: rows::part(db, drafts::find_row(db, turn).await?).await?,
            is_busy: parts::is_busy(db, lane, turn).await?,
            next_position: rows::number(next_position, "position")?,
        };
        Ok(Self { lane, sequence, incomplete })
    }
}

/// Finds the place of an incomplete turn in its lane.
pub(crate) async fn require_incomplete<S: Session>(db: &S, lane: LaneId, turn: TurnId) -> VerbResult<i64, S> {
    let found: Option<(i64,)> = db
        .find("SELECT sequence FROM turns WHERE id = $1 AND lane = $2 AND state = 'queued'", params![turn.0, lane])
        .await?;
    Ok(found.map(|(sequence,)| sequence).ok_or_else(|| VerbError::unknown(format!("incomplete turn {turn}")))?)
}
