//! What Telegram has refused as a rich message, so that it isn't asked again: each call counts against the chat's pace, and an
//! attempt that spends it on the form that is refused may never come to the text in lines.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use satchel_domain::PartId;

/// How many parts are remembered, the newest: most are sent in lines with the same attempt.
const MAX_PARTS: usize = 1_000;

/// What is known until the process ends.
#[derive(Debug, Default)]
pub(crate) struct RichRefusals {
    /// Whether the server has turned out to know no rich messages.
    is_unknown: AtomicBool,
    /// The refused parts whose text has not been sent in lines so far.
    parts: Mutex<BTreeSet<PartId>>,
}

impl RichRefusals {
    /// Records that the server knows no rich messages. Returns whether that is new.
    pub(crate) fn mark_unknown(&self) -> bool {
        !self.is_unknown.swap(true, Ordering::Relaxed)
    }

    /// Whether the server knows no rich messages.
    pub(crate) fn are_unknown(&self) -> bool {
        self.is_unknown.load(Ordering::Relaxed)
    }

    /// Records that a part was refused as a rich message.
    pub(crate) fn mark_refused(&self, part: PartId) {
        let mut parts = self.lock();
        parts.insert(part);
        if parts.len() > MAX_PARTS {
            parts.pop_first();
        }
    }

    /// Forgets a part that is settled.
    pub(crate) fn remove(&self, part: PartId) {
        self.lock().remove(&part);
    }

    /// Whether a part would be refused as a rich message.
    pub(crate) fn has_refused(&self, part: PartId) -> bool {
        self.are_unknown() || self.lock().contains(&part)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<PartId>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
