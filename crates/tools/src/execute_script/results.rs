//! What a script has gathered so far: the files that it answers with, and what the tools that it called ask of the
//! reply. The locks by which scripts of one turn use its byte quota one at a time are here, too.

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroU64,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures::lock;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ConversationId, OutcomeFile, RecordedOutcome, ToolOutcome, TurnId,
    fold::merge_selections, size::format_bytes,
};
use satchel_ports::{ToolContext, ledger::AttachmentQuery};

use crate::{ToolServices, error};

/// What a script has gathered.
#[derive(Debug, Default)]
pub(super) struct ScriptResults {
    /// The outcomes of the tools that it called and the files that it made, in order.
    outcomes: Vec<RecordedOutcome>,
    /// The last of them, while the ledger records its files: a script makes one call after the other. Where it is stopped
    /// meanwhile, nobody knows whether they are recorded.
    unrecorded: Option<ToolOutcome>,
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
        let new_files = outcome.attachments.iter().filter(|file| !self.contains(file.id())).collect::<Vec<_>>();
        self.files += new_files.len();
        self.bytes = self.bytes.saturating_add(new_files.iter().map(|file| file.bytes()).sum());
        self.unrecorded = Some(outcome);
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

    /// Keeps what was taken last, as it was recorded. Of what was answered nothing is kept: a script may call for as long
    /// as it has time.
    pub(super) fn keep_recorded(&mut self, outcome: &RecordedOutcome) {
        self.unrecorded = None;
        let RecordedOutcome { attachments, voice, selection, notices, .. } = outcome.clone();
        let kept = RecordedOutcome { attachments, voice, selection, notices, ..RecordedOutcome::default() };
        if kept != RecordedOutcome::default() {
            self.outcomes.push(kept);
        }
    }

    /// Removes what was taken last and could not be recorded.
    pub(super) fn discard_unrecorded(&mut self) {
        self.unrecorded = None;
    }

    fn contains(&self, id: AttachmentId) -> bool {
        self.outcomes.iter().flat_map(|outcome| &outcome.attachments).any(|tracked| tracked.id == id)
    }

    /// Everything that was gathered, each file once, and what it asks of the reply together. `named_files` are the last.
    /// What may not be recorded is among it as if it were, with its files still without a number.
    pub(super) fn join(mut self, named_files: Vec<Attachment>, conversation: &ConversationId) -> ToolOutcome {
        let unrecorded = self.unrecorded.unwrap_or_default();
        let new_files: HashSet<AttachmentId> = unrecorded.new_files().iter().map(|file| file.id).collect();
        let numbered = |file: OutcomeFile| match file {
            OutcomeFile::Stored(file) => file,
            OutcomeFile::New(file) => file.numbered(conversation.clone(), NonZeroU64::MIN),
        };
        self.outcomes.push(unrecorded.map_files(numbered));
        self.outcomes.push(RecordedOutcome { attachments: named_files, ..RecordedOutcome::default() });
        let mut attachments: Vec<Attachment> = Vec::new();
        for file in self.outcomes.iter().flat_map(|outcome| &outcome.attachments) {
            if !attachments.iter().any(|other| other.id == file.id) {
                attachments.push(file.clone());
            }
        }
        let voice = self.outcomes.iter().rev().find_map(|outcome| outcome.voice.clone());
        let selection = merge_selections(&self.outcomes);
        let notices = self.outcomes.iter().flat_map(|outcome| &outcome.notices).cloned().collect();
        let joined = RecordedOutcome { attachments, voice, selection, notices, ..RecordedOutcome::default() };
        joined.map_files(|file| match new_files.contains(&file.id) {
            true => OutcomeFile::New(file.into()),
            false => OutcomeFile::Stored(file),
        })
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

    use satchel_domain::{Visibility, VoiceRequest};

    use super::*;
    use crate::fakes::{attachment, conversation};

    /// The attack: a script that asks for a page again and again, as long as it has time.
    #[test]
    fn only_files_and_requests_of_outcomes_are_retained() {
        let mut gathered = ScriptResults::default();
        for _ in 0..1_000 {
            let page = RecordedOutcome { data: Some(json!([1])), ..RecordedOutcome::from_text("x".repeat(1_000)) };
            gathered.keep_recorded(&page);
            let in_part = RecordedOutcome { data: Some(json!([1])), ..RecordedOutcome::from_failure("1 of 2") };
            gathered.keep_recorded(&in_part);
        }
        let file = attachment(1, "a.txt", "text/plain", b"a");
        gathered.keep_recorded(&RecordedOutcome { attachments: vec![file], ..RecordedOutcome::from_text("made") });
        let kept = &gathered.outcomes;
        assert_eq!((kept.len(), kept[0].attachments.len(), &kept[0].text), (1, 1, &None));
    }

    /// What the stop of a script finds half recorded goes along as it would have, had it been recorded.
    #[test]
    fn unrecorded_outcome_joins_as_a_recorded_one() {
        let room = FileQuota { files: 50, bytes: 1 << 20 };
        let file = |id: u128, content: u8| attachment(id, "a.txt", "text/plain", &[content]);
        let [old, made, copy] = [file(1, 1), file(2, 2), file(4, 1)];
        let note = Attachment { visibility: Visibility::Internal, ..file(3, 3) };
        let selecting = RecordedOutcome { selection: Some(vec![old.clone()]), ..RecordedOutcome::default() };
        let voice = Some(VoiceRequest::default());
        let last = RecordedOutcome { attachments: vec![made.clone(), note, copy, made], voice, ..Default::default() };
        let choosing = RecordedOutcome { selection: Some(vec![]), ..last.clone() };
        for last in [last, choosing] {
            let joined = [true, false].map(|is_recorded| {
                let mut results = ScriptResults::default();
                results.keep_recorded(&selecting);
                let made = last.clone().map_files(|file| OutcomeFile::New(file.into()));
                results.push(made, room).unwrap();
                if is_recorded {
                    results.keep_recorded(&last);
                }
                results.join(Vec::new(), &conversation())
            });
            let [recorded, unrecorded] = &joined;
            let ids = |files: &[OutcomeFile]| files.iter().map(OutcomeFile::id).collect::<Vec<_>>();
            assert_eq!(ids(&recorded.attachments), ids(&unrecorded.attachments));
            assert_eq!(recorded.selection.as_deref().map(ids), unrecorded.selection.as_deref().map(ids));
            assert_eq!(recorded.voice, unrecorded.voice);
            assert_eq!((recorded.new_files().len(), unrecorded.new_files().len()), (0, 3), "they have no number yet");
        }
    }
}
