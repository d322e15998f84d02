//! Files for which a provider has refused a request. Later requests leave them out, so that the turn continues, and tell the
//! model so.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use satchel_domain::Sha256;
use satchel_ports::{ModelFile, ModelMessage, language_model::ContentPart};

use crate::media_kind::MediaKind;

/// How many groups are remembered.
const MAX_REMEMBERED: usize = 64;

/// How long a group is remembered: a turn sends its files with each of its requests, and an agent its own with each turn.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// Something that a request sends besides text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SentFile {
    pub(crate) kind: MediaKind,
    content: SentContent,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SentContent {
    Stored {
        sha256: Sha256,
        /// The same bytes may be sent as one type and not as another.
        mime: String,
    },
    /// The address of an image.
    Address(String),
}

impl SentFile {
    /// `None` for a file of a kind that no model accepts.
    pub(crate) fn from_file(file: &ModelFile) -> Option<Self> {
        let kind = MediaKind::from_mime(&file.mime)?;
        Some(Self { kind, content: SentContent::Stored { sha256: file.sha256, mime: file.mime.clone() } })
    }

    pub(crate) fn from_image_url(url: &str) -> Self {
        Self { kind: MediaKind::Image, content: SentContent::Address(url.to_owned()) }
    }

    fn from_part(part: &ContentPart) -> Option<Self> {
        match part {
            ContentPart::Text(_) => None,
            ContentPart::ImageUrl(url) => Some(Self::from_image_url(url)),
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

/// The files of one message.
pub(crate) type SentGroup = BTreeSet<SentFile>;

/// What each message was sent with of this kind, the oldest first.
pub(crate) fn sent_groups(messages: &[ModelMessage], sent: &BTreeSet<SentFile>, kind: MediaKind) -> Vec<SentGroup> {
    let groups = messages.iter().map(|message| -> SentGroup {
        let files = SentFile::list(message).into_iter().flatten();
        files.filter(|file| file.kind == kind && sent.contains(file)).collect()
    });
    groups.filter(|group| !group.is_empty()).collect()
}

/// What is known of a file that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// The provider refuses the file.
    File,
    /// The provider refuses at least one of the files of its message.
    MessageFiles,
    /// The provider refuses at least one of the files of the request.
    RequestFiles,
}

/// A group that a request leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LeftOutGroup {
    files: SentGroup,
    /// Whether answers of the provider show that at least one of its files is refused.
    is_at_fault: bool,
}

/// The groups that a request leaves out.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeftOutGroups(Vec<LeftOutGroup>);

impl LeftOutGroups {
    /// The same groups and those that searches leave out for now.
    pub(crate) fn with_searches<'a>(&self, searches: impl IntoIterator<Item = &'a RefusalSearch>) -> Self {
        let searched = searches.into_iter().flat_map(RefusalSearch::left_out);
        Self(self.0.iter().cloned().chain(searched).collect())
    }

    /// Why this file of a message is left out; `None` if it isn't. A group is left out where a message has all of it: one
    /// file may be fine without the others, so that it is sent where it stands alone.
    pub(crate) fn find(&self, file: &SentFile, message_files: &SentGroup) -> Option<RefusalReason> {
        let is_match = |group: &&LeftOutGroup| group.files.contains(file) && group.files.is_subset(message_files);
        // A file that is surely at fault comes first, then the smallest group: the model reads the most exact reason.
        let group = self.0.iter().filter(is_match).min_by_key(|group| (!group.is_at_fault, group.files.len()))?;
        Some(match (group.is_at_fault, group.files.len()) {
            (false, _) => RefusalReason::RequestFiles,
            (true, 1) => RefusalReason::File,
            (true, _) => RefusalReason::MessageFiles,
        })
    }
}

/// The search for the groups that a provider refuses, among those of one kind that a request was sent with. It takes at most
/// three further requests: without the newest group, with the newest alone, and without any.
#[derive(Debug)]
pub(crate) struct RefusalSearch {
    /// The groups of the first request, the oldest first.
    sent: Vec<SentGroup>,
    /// Those of them that weren't accepted lately.
    suspects: Vec<SentGroup>,
    /// The groups of each request so far. All but the last one are refused.
    requests: Vec<Vec<SentGroup>>,
}

impl RefusalSearch {
    /// A search after the first refusal. `accepted` has groups that were accepted lately: they are suspected last.
    pub(crate) fn new(groups: Vec<SentGroup>, accepted: &[SentGroup]) -> Self {
        let mut sent: Vec<SentGroup> = Vec::new();
        for group in groups {
            // A group that two messages have is left out of both, or of neither.
            sent.retain(|other| *other != group);
            sent.push(group);
        }
        let mut suspects: Vec<SentGroup> = sent.iter().filter(|group| !accepted.contains(group)).cloned().collect();
        if suspects.is_empty() {
            suspects.clone_from(&sent);
        }
        Self { requests: vec![sent.clone()], sent, suspects }
    }

    /// Chooses what the next request is sent with; `false` if there is nothing left to try.
    pub(crate) fn advance(&mut self) -> bool {
        let (older, newest) = self.suspects.split_at(self.suspects.len().saturating_sub(1));
        let without = |left_out: &[SentGroup]| -> Vec<SentGroup> {
            self.sent.iter().filter(|group| !left_out.contains(group)).cloned().collect()
        };
        let choices = [without(newest), without(older), Vec::new()];
        let Some(next) = choices.into_iter().find(|groups| !self.requests.contains(groups)) else { return false };
        self.requests.push(next);
        true
    }

    /// The groups of the last request.
    fn last_groups(&self) -> &[SentGroup] {
        self.requests.last().map(Vec::as_slice).unwrap_or_default()
    }

    /// What the last request leaves out, and what is known of it once that request is accepted: a group is at fault if a
    /// request was refused which had nothing else that is left out now.
    fn left_out(&self) -> Vec<LeftOutGroup> {
        let last_groups = self.last_groups();
        let refused = &self.requests[..self.requests.len().saturating_sub(1)];
        let is_at_fault = |group: &SentGroup| {
            refused.iter().any(|groups| {
                groups.contains(group) && groups.iter().all(|other| other == group || last_groups.contains(other))
            })
        };
        let left_out = self.sent.iter().filter(|group| !last_groups.contains(group));
        left_out.map(|group| LeftOutGroup { files: group.clone(), is_at_fault: is_at_fault(group) }).collect()
    }
}

/// Groups that are forgotten after a while, the oldest first.
#[derive(Debug, Default)]
struct RecentGroups(VecDeque<(SentGroup, Instant)>);

impl RecentGroups {
    fn list(&mut self) -> Vec<SentGroup> {
        self.0.retain(|(_, added_at)| added_at.elapsed() < MAX_AGE);
        self.0.iter().map(|(group, _)| group.clone()).collect()
    }

    fn add(&mut self, groups: impl IntoIterator<Item = SentGroup>) {
        self.0.extend(groups.into_iter().map(|group| (group, Instant::now())));
        let excess = self.0.len().saturating_sub(MAX_REMEMBERED);
        self.0.drain(..excess);
    }
}

/// What one model's provider has refused lately, in any conversation.
#[derive(Debug, Default)]
pub(crate) struct RefusalMemory {
    refused: Mutex<RecentGroups>,
    /// Groups that were accepted in a request that others had to be left out of without proof. With them, the next search
    /// finds out more.
    accepted: Mutex<RecentGroups>,
}

impl RefusalMemory {
    pub(crate) fn refused(&self) -> LeftOutGroups {
        let groups = lock(&self.refused).list().into_iter();
        LeftOutGroups(groups.map(|files| LeftOutGroup { files, is_at_fault: true }).collect())
    }

    pub(crate) fn accepted(&self) -> Vec<SentGroup> {
        lock(&self.accepted).list()
    }

    /// Remembers what searches have found, once the last request is accepted.
    pub(crate) fn remember<'a>(&self, searches: impl IntoIterator<Item = &'a RefusalSearch>) {
        for search in searches {
            let left_out = search.left_out();
            if left_out.iter().any(|group| !group.is_at_fault) {
                lock(&self.accepted).add(search.last_groups().iter().cloned());
            }
            let at_fault = left_out.into_iter().filter(|group| group.is_at_fault);
            lock(&self.refused).add(at_fault.map(|group| group.files));
        }
    }
}

fn lock(groups: &Mutex<RecentGroups>) -> MutexGuard<'_, RecentGroups> {
    groups.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(number: u8) -> SentFile {
        let content = SentContent::Stored { sha256: Sha256([number; 32]), mime: "image/png".into() };
        SentFile { kind: MediaKind::Image, content }
    }

    fn group(numbers: &[u8]) -> SentGroup {
        numbers.iter().map(|number| image(*number)).collect()
    }

    fn groups(numbers: &[u8]) -> Vec<SentGroup> {
        numbers.iter().map(|number| group(&[*number])).collect()
    }

    /// Sends images of one message each to a provider that refuses some of them; returns the search and how many further
    /// requests it made.
    fn search(sent: &[u8], accepted: &[SentGroup], refused: &[u8]) -> (RefusalSearch, usize) {
        let mut search = RefusalSearch::new(groups(sent), accepted);
        while search.last_groups().iter().any(|group| groups(refused).contains(group)) {
            assert!(search.advance(), "a request without images is accepted");
        }
        let requests = search.requests.len() - 1;
        (search, requests)
    }

    /// The images that are left out, and whether each is at fault.
    fn left_out(search: &RefusalSearch, at_fault: bool) -> Vec<SentGroup> {
        let groups = search.left_out().into_iter().filter(|group| group.is_at_fault == at_fault);
        groups.map(|group| group.files).collect()
    }

    #[test]
    fn file_is_left_out_with_its_whole_group_only() {
        let at_fault = |files: SentGroup| LeftOutGroup { files, is_at_fault: true };
        let mut refused = LeftOutGroups(vec![at_fault(group(&[1, 2, 3])), at_fault(group(&[9]))]);
        let reason =
            |refused: &LeftOutGroups, number: u8, message: &[u8]| refused.find(&image(number), &group(message));
        for message in [[1, 2, 3].as_slice(), &[1, 2, 3, 4]] {
            assert_eq!(reason(&refused, 2, message), Some(RefusalReason::MessageFiles));
        }
        assert_eq!(reason(&refused, 4, &[1, 2, 3, 4]), None, "it was not among them");
        assert_eq!(reason(&refused, 2, &[2]), None, "it may be fine");
        for message in [[9].as_slice(), &[4, 9]] {
            assert_eq!(reason(&refused, 9, message), Some(RefusalReason::File), "it was refused alone");
        }
        refused.0.push(LeftOutGroup { files: group(&[2]), is_at_fault: false });
        assert_eq!(reason(&refused, 2, &[2]), Some(RefusalReason::RequestFiles));
        assert_eq!(reason(&refused, 2, &[1, 2, 3]), Some(RefusalReason::MessageFiles), "what is known best is told");
    }

    #[test]
    fn only_what_is_shown_to_be_refused_is_at_fault() {
        type Case = (&'static [u8], &'static [u8], usize, &'static [u8], &'static [u8]);
        let cases: [Case; 8] = [
            (&[1], &[1], 1, &[1], &[]),
            (&[1, 2], &[2], 1, &[2], &[]),
            (&[1, 2], &[1], 2, &[1], &[]),
            (&[1, 2], &[1, 2], 3, &[1, 2], &[]),
            (&[1, 2, 3], &[3], 1, &[3], &[]),
            (&[1, 2, 3], &[1], 2, &[], &[1, 2]),
            (&[1, 2, 3], &[2, 3], 3, &[3], &[1, 2]),
            (&[1, 2, 1], &[1], 1, &[1], &[]),
        ];
        for (sent, refused, requests, at_fault, unknown) in cases {
            let (search, made) = search(sent, &[], refused);
            assert_eq!(made, requests, "{sent:?} {refused:?}");
            assert_eq!(left_out(&search, true), groups(at_fault), "{sent:?} {refused:?}");
            assert_eq!(left_out(&search, false), groups(unknown), "{sent:?} {refused:?}");
        }
    }

    /// A turn sends its files with each of its requests: each finds out more.
    #[test]
    fn next_search_goes_on_from_what_was_accepted() {
        let memory = RefusalMemory::default();
        let (first, _) = search(&[1, 2, 3], &memory.accepted(), &[1]);
        memory.remember([&first]);
        assert_eq!(memory.accepted(), groups(&[3]));
        assert_eq!(memory.refused().find(&image(1), &group(&[1])), None, "it is not shown yet");
        let (second, requests) = search(&[1, 2, 3], &memory.accepted(), &[1]);
        memory.remember([&second]);
        assert_eq!((requests, left_out(&second, false)), (2, Vec::new()));
        for (number, reason) in [(1, Some(RefusalReason::File)), (2, None), (3, None)] {
            assert_eq!(memory.refused().find(&image(number), &group(&[number])), reason, "{number}");
        }
    }

    #[test]
    fn file_that_was_accepted_once_is_left_out_when_nothing_else_helps() {
        let (search, requests) = search(&[1, 2], &groups(&[1]), &[1]);
        assert_eq!((requests, left_out(&search, true), left_out(&search, false)), (2, groups(&[1]), groups(&[2])));
    }

    #[test]
    fn memory_is_bounded() {
        let memory = RefusalMemory::default();
        for number in 0..=100 {
            memory.remember([&search(&[number], &[], &[number]).0]);
        }
        let refused = memory.refused();
        assert_eq!(refused.0.len(), MAX_REMEMBERED);
        assert!(refused.find(&image(100), &group(&[100])).is_some() && refused.find(&image(0), &group(&[0])).is_none());
    }
}
