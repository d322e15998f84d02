//! Files for which a provider has refused a request. Later requests are sent without them, so that the turn continues; the
//! model is told.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use satchel_domain::Sha256;
use satchel_ports::{ModelFile, ModelMessage, language_model::ContentPart};

use crate::media_kind::MediaKind;

/// How many refusals are remembered.
const MAX_REMEMBERED: usize = 64;

/// How long a refusal is remembered: a turn sends its files with each of its requests, and an agent its own with each turn.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// Something that a request sends besides text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SentFile {
    pub(crate) kind: MediaKind,
    content: SentContent,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SentContent {
    Stored(Sha256),
    /// The address of an image.
    Address(String),
}

impl SentFile {
    /// `None` for a file of a kind that no model accepts.
    fn from_file(file: &ModelFile) -> Option<Self> {
        let kind = MediaKind::from_mime(&file.mime)?;
        Some(Self { kind, content: SentContent::Stored(file.sha256) })
    }

    fn from_part(part: &ContentPart) -> Option<Self> {
        match part {
            ContentPart::Text(_) => None,
            ContentPart::ImageUrl(url) => {
                Some(Self { kind: MediaKind::Image, content: SentContent::Address(url.clone()) })
            }
            ContentPart::File(file) => Self::from_file(file),
        }
    }

    /// The files and parts of a message, in their order; `None` for each that is never sent as a file.
    pub(crate) fn list(message: &ModelMessage) -> Vec<Option<Self>> {
        match message {
            ModelMessage::User { attachments, .. } | ModelMessage::Tool { attachments, .. } => {
                attachments.iter().map(Self::from_file).collect()
            }
            ModelMessage::Context { parts } => parts.iter().map(Self::from_part).collect(),
            ModelMessage::Note { .. } | ModelMessage::Assistant { .. } => Vec::new(),
        }
    }
}

/// The files of one message that were sent when a provider refused the request. One of them is to blame.
pub(crate) type RefusedGroup = BTreeSet<SentFile>;

/// The groups that a request leaves out.
#[derive(Debug, Clone, Default)]
pub(crate) struct RefusedGroups(Vec<RefusedGroup>);

impl RefusedGroups {
    pub(crate) fn add(&mut self, groups: Vec<RefusedGroup>) {
        self.0.extend(groups);
    }

    /// The smallest group with this file of a message that has the whole group. One file of a group may be fine without the
    /// others, so that it is sent where it stands alone.
    pub(crate) fn find(&self, file: &SentFile, message_files: &RefusedGroup) -> Option<&RefusedGroup> {
        let groups = self.0.iter().filter(|group| group.contains(file) && group.is_subset(message_files));
        groups.min_by_key(|group| group.len())
    }
}

/// The groups to leave out after a refusal: what the newest message was sent with, and if that didn't help, all the rest.
/// `sent` has what the messages were sent with, the oldest first. Empty if nothing was sent.
pub(crate) fn next_groups(mut sent: Vec<RefusedGroup>, earlier_refusals: usize) -> Vec<RefusedGroup> {
    match earlier_refusals {
        0 => sent.pop().into_iter().collect(),
        _ => sent,
    }
}

/// The refusals of one model's provider.
#[derive(Debug, Default)]
pub(crate) struct RefusalMemory {
    /// The oldest first.
    groups: Mutex<VecDeque<(RefusedGroup, Instant)>>,
}

impl RefusalMemory {
    /// What was refused lately.
    pub(crate) fn list(&self) -> RefusedGroups {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|(_, refused_at)| refused_at.elapsed() < MAX_AGE);
        RefusedGroups(groups.iter().map(|(group, _)| group.clone()).collect())
    }

    pub(crate) fn remember(&self, refused: Vec<RefusedGroup>) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.extend(refused.into_iter().map(|group| (group, Instant::now())));
        let excess = groups.len().saturating_sub(MAX_REMEMBERED);
        groups.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(number: u8) -> SentFile {
        SentFile { kind: MediaKind::Image, content: SentContent::Stored(Sha256([number; 32])) }
    }

    fn group(numbers: &[u8]) -> RefusedGroup {
        numbers.iter().map(|number| image(*number)).collect()
    }

    #[test]
    fn file_is_left_out_with_its_whole_group_only() {
        let mut refused = RefusedGroups::default();
        refused.add(vec![group(&[1, 2, 3]), group(&[9])]);
        let is_left_out = |number: u8, message: &[u8]| refused.find(&image(number), &group(message)).is_some();
        assert!(is_left_out(2, &[1, 2, 3]) && is_left_out(2, &[1, 2, 3, 4]));
        assert!(!is_left_out(4, &[1, 2, 3, 4]), "it was not among them");
        assert!(!is_left_out(2, &[2]), "it may be fine");
        assert!(is_left_out(9, &[9]) && is_left_out(9, &[4, 9]), "it was refused alone");
        refused.add(vec![group(&[2])]);
        let found = refused.find(&image(2), &group(&[1, 2, 3]));
        assert_eq!(found.map(BTreeSet::len), Some(1), "what is known best is told");
    }

    #[test]
    fn newest_files_are_left_out_first_and_then_all() {
        let sent = || vec![group(&[1]), group(&[2, 3])];
        assert_eq!(next_groups(sent(), 0), [group(&[2, 3])]);
        assert_eq!(next_groups(vec![group(&[1])], 1), [group(&[1])]);
        assert_eq!(next_groups(sent(), 1), sent());
        assert!(next_groups(Vec::new(), 0).is_empty() && next_groups(Vec::new(), 1).is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let memory = RefusalMemory::default();
        memory.remember((0..=100).map(|number| group(&[number])).collect());
        let listed = memory.list();
        assert_eq!(listed.0.len(), MAX_REMEMBERED);
        assert!(listed.find(&image(100), &group(&[100])).is_some() && listed.find(&image(0), &group(&[0])).is_none());
    }
}
