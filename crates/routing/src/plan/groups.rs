//! Which neighbours share an album or a message.

use std::collections::HashSet;

use satchel_domain::{
    ChannelCapabilities, PartContent,
    capabilities::Together,
    part::{FileForm, FileItem},
};

/// Neighbours that are going to share a message.
#[derive(Debug, Default)]
pub(crate) struct Group {
    items: Vec<FileItem>,
}

impl Group {
    /// The files so far.
    pub(crate) fn items(&self) -> &[FileItem] {
        &self.items
    }

    /// Adds a file that fits.
    pub(crate) fn push(&mut self, item: FileItem) {
        self.items.push(item);
    }

    /// The files as one part, leaving none; `None` when there are none.
    pub(crate) fn take(&mut self) -> Option<PartContent> {
        let mut items = std::mem::take(&mut self.items);
        number_equal_names(&mut items);
        match items.len() {
            0 => None,
            1 => items.pop().map(PartContent::File),
            _ => Some(PartContent::Album { items }),
        }
    }
}

/// The parts of files that stand next to each other, none of them over the limit.
pub(crate) fn grouped(items: &[FileItem], capabilities: &ChannelCapabilities) -> Vec<PartContent> {
    let mut parts = Vec::new();
    let mut group = Group::default();
    for item in items {
        if !fit_together(group.items(), item, capabilities) {
            parts.extend(group.take());
        }
        group.push(item.clone());
    }
    parts.extend(group.take());
    parts
}

/// Whether a file may join its neighbours.
pub(crate) fn fit_together(items: &[FileItem], item: &FileItem, capabilities: &ChannelCapabilities) -> bool {
    let Some(first) = items.first() else { return true };
    let (most, alike) = match capabilities.together {
        Together::Never => (1, false),
        Together::Albums { max } => (max, album(first.form).is_some() && album(first.form) == album(item.form)),
        Together::Messages { max, .. } => (max, true),
    };
    let bytes = total_bytes(items).saturating_add(item.attachment.bytes);
    alike && items.len() < most && capabilities.request_bytes.is_none_or(|limit| bytes <= limit)
}

/// The size of all files together.
pub(crate) fn total_bytes(items: &[FileItem]) -> u64 {
    items.iter().fold(0, |sum, item| sum.saturating_add(item.attachment.bytes))
}

/// The kinds of albums; `None` for a form that stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Album {
    Pictures,
    Audio,
    Documents,
}

fn album(form: FileForm) -> Option<Album> {
    match form {
        FileForm::Photo | FileForm::Video => Some(Album::Pictures),
        FileForm::Audio => Some(Album::Audio),
        FileForm::Document => Some(Album::Documents),
        FileForm::Animation => None,
    }
}

/// Numbers the second and later files of one name, so that a person can tell and save them.
pub(crate) fn number_equal_names(items: &mut [FileItem]) {
    if items.len() < 2 {
        return;
    }
    let mut names: HashSet<_> = items.iter().map(|item| item.attachment.filename.clone()).collect();
    let mut first_seen = HashSet::new();
    for item in items {
        let name = &item.attachment.filename;
        if first_seen.insert(name.clone()) {
            continue;
        }
        let numbered = (2..).map(|number| name.numbered(number)).find(|numbered| names.insert(numbered.clone()));
        item.attachment.filename = numbered.unwrap_or_else(|| name.clone());
    }
}
