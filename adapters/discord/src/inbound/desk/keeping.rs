//! When the place in the stream is kept in mind: not with every event, and not again and again where it can't be.

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::Instant;

use super::{Desk, Done};
use crate::inbound::bookmark::Bookmark;

impl Desk {
    /// Something has changed, and is kept in mind before long.
    pub(super) fn keep_soon(&mut self) {
        let now = Instant::now();
        if !self.has_tried && self.marks.has_position() {
            // The first session at once: who has none begins anew, and reads again what came in between.
            self.keep_at = Some(now);
        } else {
            self.keep_at.get_or_insert(now + self.store.waits.checkpoint_interval);
        }
    }

    /// Where we are, and what the next process is not told again.
    pub(super) fn bookmark(&mut self) -> Bookmark {
        Bookmark { boosted: self.store.known.boosted_guilds(), ..self.marks.bookmark() }
    }

    /// Keeps in mind where we are.
    pub(super) fn keep(&mut self) {
        self.keep_at = None;
        let bookmark = self.bookmark();
        self.has_tried |= bookmark.position.is_some();
        if self.kept.as_ref() == Some(&bookmark) {
            return;
        }
        self.is_keeping = true;
        let store = Arc::clone(&self.store);
        let keeping = async move {
            let kept = store.keep(&bookmark).await;
            Done::Kept { bookmark, kept }
        };
        self.work.push(keeping.boxed());
    }

    /// It is kept, or isn't.
    pub(super) fn has_kept(&mut self, bookmark: Bookmark, kept: bool) {
        self.is_keeping = false;
        if kept {
            self.kept = Some(bookmark);
        } else {
            self.keep_at = Some(Instant::now() + self.store.waits.checkpoint_interval);
        }
    }
}
