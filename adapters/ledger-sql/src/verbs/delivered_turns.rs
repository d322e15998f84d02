//! What has reached people of turns of which something failed: the notice, and some of the text.

use std::collections::{HashMap, HashSet};

use satchel_domain::{Part, PartId, PartState, TurnId};
use uuid::Uuid;

use crate::{
    parameters::Json,
    params,
    session::{Session, VerbResult},
};

/// Of which turns something has arrived.
#[derive(Debug, Default)]
pub(crate) struct TurnArrivals {
    /// Whose closing notice.
    pub(crate) notices: HashSet<TurnId>,
    /// Some of whose text.
    pub(crate) texts: HashSet<TurnId>,
}

/// Reads what has arrived of the turns of these parts.
pub(crate) async fn read<S: Session>(db: &S, parts: &[Part]) -> VerbResult<TurnArrivals, S> {
    if parts.is_empty() {
        return Ok(TurnArrivals::default());
    }
    let turns: Vec<Uuid> = parts.iter().map(|part| part.turn.0).collect();
    // What `Part::has_brought_text` says.
    let texts: Vec<(Uuid,)> = db
        .all(
            "SELECT DISTINCT turn FROM parts \
             WHERE turn IN (SELECT value FROM rarray($1)) AND kind IN ('text', 'question') AND call IS NULL \
               AND (state = 'sent' OR state = 'failed' AND target IS NOT NULL)",
            params![turns],
        )
        .await?;
    let notices: Vec<(Uuid, Json<PartState>)> = db
        .all(
            "SELECT turn, state_detail FROM parts WHERE turn IN (SELECT value FROM rarray($1)) AND kind = 'notice'",
            params![turns],
        )
        .await?;
    let notices: Vec<(TurnId, PartState)> = notices.into_iter().map(|(turn, state)| (TurnId(turn), state.0)).collect();
    let replacements = read_replacements(db, &notices).await?;
    let arrived = notices.iter().filter(|(_, state)| has_arrived(state, &replacements));
    Ok(TurnArrivals {
        notices: arrived.map(|(turn, _)| *turn).collect(),
        texts: texts.into_iter().map(|(turn,)| TurnId(turn)).collect(),
    })
}

/// Reads the parts that took the place of replaced notices, and of those in turn.
async fn read_replacements<S: Session>(
    db: &S,
    notices: &[(TurnId, PartState)],
) -> VerbResult<HashMap<PartId, PartState>, S> {
    let mut found: HashMap<PartId, PartState> = HashMap::new();
    let mut next: Vec<Uuid> = notices.iter().flat_map(|(_, state)| replaced_by(state)).map(|part| part.0).collect();
    while !next.is_empty() {
        let states: Vec<(Uuid, Json<PartState>)> = db
            .all("SELECT id, state_detail FROM parts WHERE id IN (SELECT value FROM rarray($1))", params![next])
            .await?;
        next = states.iter().flat_map(|(_, state)| replaced_by(&state.0)).map(|part| part.0).collect();
        found.extend(states.into_iter().map(|(id, state)| (PartId(id), state.0)));
    }
    Ok(found)
}

fn replaced_by(state: &PartState) -> &[PartId] {
    match state {
        PartState::Replaced { by } => by,
        _ => &[],
    }
}

/// Returns whether a notice with this state has arrived, by itself or as what took its place.
fn has_arrived(state: &PartState, replacements: &HashMap<PartId, PartState>) -> bool {
    match state {
        PartState::Sent { .. } => true,
        PartState::Replaced { by } => {
            let is_there = |part| replacements.get(part).is_some_and(|state| has_arrived(state, replacements));
            !by.is_empty() && by.iter().all(is_there)
        }
        _ => false,
    }
}
