//! The room that a turn has for files, told to one of its scripts at a time.

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
    /// What is held to make a file in this turn.
    pub(super) fn lock_for(&self, turn: TurnId) -> Arc<lock::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, held| held.strong_count() > 0);
        turns.get(&turn).and_then(Weak::upgrade).unwrap_or_else(|| {
            let new = Arc::default();
            turns.insert(turn, Arc::downgrade(&new));
            new
        })
    }
}

/// How many bytes of files the turn may still have, by those that are recorded.
///
/// # Errors
/// When these are unknown, in words for the script.
pub(super) async fn bytes_left(services: &ToolServices, context: &ToolContext) -> Result<u64, String> {
    let query = AttachmentQuery { turn: Some(context.call.turn), ..AttachmentQuery::default() };
    let made = services.ledger.attachments(&query).await;
    let made = made.map_err(|error| error::tool_error_with_cause("the turn's files are unknown", &error).0)?;
    let made_bytes: u64 = made.iter().filter(|file| file.source != AttachmentSource::User).map(|file| file.bytes).sum();
    Ok(services.limits.add_turn_bytes.saturating_sub(made_bytes))
}
