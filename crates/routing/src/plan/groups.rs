//! Which neighbours share an album or a message.

use std::collections::HashSet;

use satchel_domain::{
    ChannelCapabilities, Filename, PartContent,
    capabilities::GroupingRule,
    part::{FileForm, FileItem},
};

/// Neighbours that are going to share a message.
#[derive(Debug, Default)]
pub(crate) struct FileGroup {
    items: Vec<FileItem>,
}

impl FileGroup {
    /// The files so far.
    pub(crate) fn items(&self) -> &[FileItem] {
        &self.items
    }

    /// Adds a file that fits.
    pub(crate) fn push(&mut self, item: FileItem) {
        self.items.push(item);
    }

    /// The files as one part, leaving none; `None` when there are none.
    pub(crate) fn take_part(&mut self) -> Option<PartContent> {
        let mut items = std::mem::take(&mut self.items);
        number_duplicate_names(&mut items);
        match items.len() {
            0 => None,
            1 => items.pop().map(PartContent::File),
            _ => Some(PartContent::Album { items }),
        }
    }
}

/// The parts of files that stand next to each other, none of them over the limit.
pub(crate) fn group_files(items: &[FileItem], capabilities: &ChannelCapabilities) -> Vec<PartContent> {
    let mut parts = Vec::new();
    let mut group = FileGroup::default();
    for item in items {
        if !can_share_message(group.items(), item, capabilities) {
            parts.extend(group.take_part());
        }
        group.push(item.clone());
    }
    parts.extend(group.take_part());
    parts
}

/// Whether a file may join its neighbours.
pub(crate) fn can_share_message(items: &[FileItem], item: &FileItem, capabilities: &ChannelCapabilities) -> bool {
    let Some(first) = items.first() else { return true };
    let (max_items, is_same_kind) = match capabilities.grouping {
        GroupingRule::Never => (1, false),
        GroupingRule::Albums { max } => {
            (max, album_kind(first.form).is_some() && album_kind(first.form) == album_kind(item.form))
        }
        GroupingRule::Messages { max, .. } => (max, true),
    };
    let bytes = total_bytes(items).saturating_add(item.attachment.bytes);
    is_same_kind && items.len() < max_items && capabilities.request_bytes.is_none_or(|limit| bytes <= limit)
}

/// The size of all files together.
pub(crate) fn total_bytes(items: &[FileItem]) -> u64 {
    items.iter().fold(0, |sum, item| sum.saturating_add(item.attachment.bytes))
}

/// The kinds of albums; `None` for a form that stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AlbumKind {
    Pictures,
    Audio,
    Documents,
}

fn album_kind(form: FileForm) -> Option<AlbumKind> {
    match form {
        FileForm::Photo | FileForm::Video => Some(AlbumKind::Pictures),
        FileForm::Audio => Some(AlbumKind::Audio),
        FileForm::Document => Some(AlbumKind::Documents),
        FileForm::Animation => None,
    }
}

/// Numbers the second and later files of one name, so that a person can tell and save them. Case doesn't count, as on
/// the disks of Windows and macOS.
pub(crate) fn number_duplicate_names(items: &mut [FileItem]) {
    if items.len() < 2 {
        return;
    }
    let fold_case = |name: &Filename| name.as_str().to_lowercase();
    let mut names: HashSet<_> = items.iter().map(|item| fold_case(&item.attachment.filename)).collect();
    let mut used_names = HashSet::new();
    for item in items {
        let name = &item.attachment.filename;
        if used_names.insert(fold_case(name)) {
            continue;
        }
        let numbered = (2..).map(|number| name.with_number(number)).find(|numbered| names.insert(fold_case(numbered)));
        item.attachment.filename = numbered.unwrap_or_else(|| name.clone());
    }
}
