//! Locks by which scripts of one turn use its byte quota one at a time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures::lock;
use satchel_domain::{AttachmentSource, TurnId};
use satchel_ports::{ToolContext, ledger::AttachmentQuery};

use crate::{ToolServices, error};

/// The turns whose scripts run. Those of one turn run side by side, and each is told what the turn has left: whoever
/// makes a file holds its turn until the file is recorded, or several would fill the same room. What tools make for scripts is
/// bounded by each script's own room.
#[derive(Default)]
pub(super) struct TurnLocks(Mutex<HashMap<TurnId, Weak<lock::Mutex<()>>>>);

impl TurnLocks {
    /// Returns the lock under which a file of this turn is made.
    pub(super) fn lock_for(&self, turn: TurnId) -> Arc<lock::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, lock| lock.strong_count() > 0);
        turns.get(&turn).and_then(Weak::upgrade).unwrap_or_else(|| {
            let new_lock = Arc::default();
            turns.insert(turn, Arc::downgrade(&new_lock));
            new_lock
        })
    }
}

/// How many bytes of files the turn may still have, by those that are recorded.
///
/// # Errors
/// When these are unknown, in words for the script.
pub(super) async fn remaining_turn_bytes(services: &ToolServices, context: &ToolContext) -> Result<u64, String> {
    let query = AttachmentQuery { turn: Some(context.call.turn), ..AttachmentQuery::default() };
    let files = services.ledger.attachments(&query).await;
    let files = files.map_err(|error| error::tool_error_with_cause("the turn's files are unknown", &error).0)?;
    let used_bytes: u64 =
        files.iter().filter(|file| file.source != AttachmentSource::User).map(|file| file.bytes).sum();
    Ok(services.limits.add_turn_bytes.saturating_sub(used_bytes))
}
