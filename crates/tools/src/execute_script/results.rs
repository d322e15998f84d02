//! What a script has gathered so far: the files that it answers with, and what the tools that it called ask of the
//! reply. The locks by which scripts of one turn use its byte quota one at a time are here, too.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures::lock;
use satchel_domain::{Attachment, AttachmentSource, ToolOutcome, TurnId, size::format_bytes};
use satchel_ports::{ToolContext, ledger::AttachmentQuery};

use crate::{ToolServices, error};

/// What a script has gathered.
#[derive(Debug, Default)]
pub(super) struct ScriptResults {
    /// The outcomes of the tools that it called and the files that it made, in order. Files have their numbers once the
    /// ledger has recorded them.
    outcomes: Vec<ToolOutcome>,
    /// How many files these are, and how many bytes.
    files: usize,
    bytes: u64,
}

/// How much a script may gather.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileQuota {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl ScriptResults {
    /// How many bytes another file may have.
    ///
    /// # Errors
    /// When there is no room for another file, in words for the script.
    pub(super) fn remaining_bytes(&self, quota: FileQuota) -> Result<u64, String> {
        if self.files >= quota.files {
            return Err(format!("the script has made {} files; more are not allowed", self.files));
        }
        Ok(quota.bytes.saturating_sub(self.bytes))
    }

    /// Takes what a tool or the script itself yielded.
    ///
    /// # Errors
    /// When that is more than there is room for, in words for the script. It is taken all the same: the script ends.
    pub(super) fn push(&mut self, outcome: ToolOutcome, quota: FileQuota) -> Result<(), String> {
        let new_files = outcome.attachments.iter().filter(|file| !self.contains(file)).collect::<Vec<_>>();
        self.files += new_files.len();
        self.bytes = self.bytes.saturating_add(new_files.iter().map(|file| file.bytes).sum());
        // Of what was answered nothing is kept: a script may call for as long as it has time.
        let stored = ToolOutcome {
            text: None,
            data: None,
            viewed_files: Vec::new(),
            wakes: Vec::new(),
            failed: false,
            ..outcome
        };
        if stored != ToolOutcome::default() {
            self.outcomes.push(stored);
        }
        if self.files > quota.files || self.bytes > quota.bytes {
            return Err(format!(
                "the script has {} files with {}; at most {} files with {} are allowed",
                self.files,
                format_bytes(self.bytes),
                quota.files,
                format_bytes(quota.bytes)
            ));
        }
        Ok(())
    }

    /// Gives files the numbers under which they were recorded.
    pub(super) fn renumber(&mut self, recorded: &[Attachment]) {
        let files = self.outcomes.iter_mut().flat_map(|outcome| {
            let selected = outcome.selection.iter_mut().flatten();
            outcome.attachments.iter_mut().chain(selected)
        });
        for file in files {
            if let Some(recorded) = recorded.iter().find(|recorded| recorded.id == file.id) {
                file.number = recorded.number;
            }
        }
    }

    /// Removes what was taken last and could not be recorded.
    pub(super) fn remove_last(&mut self) {
        self.outcomes.pop();
    }

    fn contains(&self, file: &Attachment) -> bool {
        self.outcomes.iter().flat_map(|outcome| &outcome.attachments).any(|tracked| tracked.id == file.id)
    }

    /// Everything that was gathered, in order.
    pub(super) fn into_outcomes(self) -> Vec<ToolOutcome> {
        self.outcomes
    }
}

/// The turns whose scripts run. Those of one turn run side by side, and each is told what the turn has left: whoever
/// makes a file holds its turn until the file is recorded, or several would fill the same room. What tools make for
/// scripts is bounded by each script's own room.
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
    let files = services.archive.attachments(&query).await;
    let files = files.map_err(|error| error::tool_error_with_cause("the turn's files are unknown", &error).0)?;
    let used_bytes: u64 =
        files.iter().filter(|file| file.source != AttachmentSource::User).map(|file| file.bytes).sum();
    Ok(services.limits.add_turn_bytes.saturating_sub(used_bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fakes::attachment;

    /// The attack: a script that asks for a page again and again, as long as it has time.
    #[test]
    fn only_files_and_requests_of_outcomes_are_retained() {
        let room = FileQuota { files: 50, bytes: 1 << 20 };
        let mut gathered = ScriptResults::default();
        for _ in 0..1_000 {
            let page = ToolOutcome { data: Some(json!([1])), ..ToolOutcome::from_text("x".repeat(1_000)) };
            gathered.push(page, room).unwrap();
            let in_part = ToolOutcome { data: Some(json!([1])), ..ToolOutcome::from_failure("1 of 2") };
            gathered.push(in_part, room).unwrap();
        }
        let file = attachment(1, "a.txt", "text/plain", b"a");
        gathered.push(ToolOutcome { attachments: vec![file], ..ToolOutcome::from_text("made") }, room).unwrap();
        let kept = gathered.into_outcomes();
        assert_eq!((kept.len(), kept[0].attachments.len(), &kept[0].text), (1, 1, &None));
    }
}
