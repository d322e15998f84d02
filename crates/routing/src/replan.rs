//! What is sent instead when a platform refuses the form of a part.
//!
//! Every replacement is simpler than what it replaces, so a chain of refusals ends, and every file and word of the
//! refused part is in one of its children or in the failure.

use satchel_domain::{
    ChannelCapabilities, PartContent,
    delivery::{Refusal, ReplanOutcome},
    part::{FailureReason, FileForm, FileItem, Markup, PlannedPart},
};

use crate::{
    plan::{groups::group_files, reserve_label},
    split::{split, split_plain},
};

/// What takes the place of a sample that the platform refuses.
const NO_BLOCKS_TEXT: &str =
    "The sample was refused here, so your replies stay as they are. You don't need to do anything.";

/// Says what is sent instead of a part that was refused, and fails with `failure` if there is no other form.
#[must_use]
pub fn replan(
    content: &PartContent,
    refusal: &Refusal,
    failure: &FailureReason,
    capabilities: &ChannelCapabilities,
) -> ReplanOutcome {
    if *refusal == Refusal::TargetGone {
        return ReplanOutcome::SendNew;
    }
    let children = match content {
        PartContent::Text { text, markup, files } if files.is_empty() => {
            replan_text(text, *markup, refusal, capabilities)
        }
        PartContent::Text { text, markup, files } => replan_bundle(text, *markup, files, refusal, capabilities),
        PartContent::Voice { text, in_text, as_file, .. } => {
            replan_voice(content, text, *in_text, *as_file, refusal, capabilities)
        }
        PartContent::File(item) => replan_file(item, refusal, capabilities),
        PartContent::Album { items } => replan_album(items, refusal, capabilities),
        PartContent::Notice { text } => replan_text(text, Markup::Rich, refusal, capabilities),
        // It asks whether it can be read, and isn't there to be read.
        PartContent::Question { markup: Markup::Blocks, .. } => vec![PartContent::from_text(NO_BLOCKS_TEXT)],
        // Whatever is wrong with it may be its buttons, and its words name what they say.
        PartContent::Question { text, .. } => plain_chunks(text, capabilities),
    };
    if children.is_empty() {
        return ReplanOutcome::GiveUp(failure_reason(content, refusal, failure, capabilities));
    }
    ReplanOutcome::Children(children.into_iter().map(|content| plan_child(content, capabilities)).collect())
}

/// A part to be sent, unless it is a file that is known not to be taken here: a refusal may have taught a lower limit.
fn plan_child(content: PartContent, capabilities: &ChannelCapabilities) -> PlannedPart {
    let limit = capabilities.file_bytes;
    let is_too_large = matches!(&content, PartContent::File(item) if item.attachment.bytes > limit);
    PlannedPart { content, failure: is_too_large.then_some(FailureReason::TooLarge { limit }) }
}

/// Files as parts, those that are too large for this place alone.
fn split_oversized(items: &[FileItem], capabilities: &ChannelCapabilities) -> Vec<PartContent> {
    let fits = |item: &FileItem| item.attachment.bytes <= capabilities.file_bytes;
    let runs = items.chunk_by(|one, other| fits(one) && fits(other));
    runs.flat_map(|run| group_files(run, capabilities)).collect()
}

fn failure_reason(
    content: &PartContent,
    refusal: &Refusal,
    failure: &FailureReason,
    capabilities: &ChannelCapabilities,
) -> FailureReason {
    match refusal {
        // The limit is about files: a text or voice that is too large was refused in the platform's words.
        Refusal::TooLarge { limit } if !content.files().is_empty() => {
            FailureReason::TooLarge { limit: limit.unwrap_or(capabilities.file_bytes) }
        }
        _ => failure.clone(),
    }
}

fn replan_text(text: &str, markup: Markup, refusal: &Refusal, capabilities: &ChannelCapabilities) -> Vec<PartContent> {
    match (markup, refusal) {
        (Markup::Blocks, _) => rich_chunks(text, capabilities),
        (Markup::Rich, Refusal::BadMarkup | Refusal::UnsupportedKind | Refusal::TooLarge { .. }) => {
            plain_chunks(text, capabilities)
        }
        _ => Vec::new(),
    }
}

/// The same text in lines.
fn rich_chunks(text: &str, capabilities: &ChannelCapabilities) -> Vec<PartContent> {
    split(text, &reserve_label(&capabilities.text)).into_iter().map(PartContent::from_text).collect()
}

/// The same characters as plain text, in as many chunks as they take with their markers in sight.
fn plain_chunks(text: &str, capabilities: &ChannelCapabilities) -> Vec<PartContent> {
    let chunks = split_plain(text, &reserve_label(&capabilities.text));
    chunks.into_iter().map(|text| PartContent::Text { text, markup: Markup::Plain, files: Vec::new() }).collect()
}

fn replan_bundle(
    text: &str,
    markup: Markup,
    files: &[FileItem],
    refusal: &Refusal,
    capabilities: &ChannelCapabilities,
) -> Vec<PartContent> {
    let text_part = PartContent::Text { text: text.to_owned(), markup, files: Vec::new() };
    let text_part = (!text.trim().is_empty()).then_some(text_part).into_iter();
    match (refusal, markup) {
        (Refusal::BadMarkup, Markup::Rich) => {
            let mut parts = plain_chunks(text, capabilities);
            // The files stay on the message as long as it is one.
            if let [PartContent::Text { files: bundled, .. }] = parts.as_mut_slice() {
                *bundled = files.to_vec();
            } else {
                parts.extend(split_oversized(files, capabilities));
            }
            parts
        }
        (Refusal::Item { index }, _) => text_part.chain(split_into_files(files, Some(*index))).collect(),
        _ => text_part.chain(split_oversized(files, capabilities)).collect(),
    }
}

fn replan_voice(
    content: &PartContent,
    text: &str,
    in_text: bool,
    as_file: bool,
    refusal: &Refusal,
    capabilities: &ChannelCapabilities,
) -> Vec<PartContent> {
    let can_send_as_file = matches!(refusal, Refusal::VoiceForbidden | Refusal::UnsupportedKind | Refusal::Other);
    if !as_file && can_send_as_file {
        let mut file = content.clone();
        if let PartContent::Voice { as_file, .. } = &mut file {
            *as_file = true;
        }
        return vec![file];
    }
    if in_text { Vec::new() } else { plain_chunks(text, capabilities) }
}

fn replan_file(item: &FileItem, refusal: &Refusal, capabilities: &ChannelCapabilities) -> Vec<PartContent> {
    if *refusal == Refusal::BadMarkup && !item.caption.is_empty() {
        let uncaptioned = FileItem { caption: String::new(), ..item.clone() };
        return plain_chunks(&item.caption, capabilities).into_iter().chain([PartContent::File(uncaptioned)]).collect();
    }
    if item.form == FileForm::Document {
        return Vec::new();
    }
    vec![PartContent::File(FileItem { form: FileForm::Document, ..item.clone() })]
}

fn replan_album(items: &[FileItem], refusal: &Refusal, capabilities: &ChannelCapabilities) -> Vec<PartContent> {
    let is_too_large = |item: &FileItem| item.attachment.bytes > capabilities.file_bytes;
    match refusal {
        Refusal::TooLarge { .. } if items.iter().any(is_too_large) => split_oversized(items, capabilities),
        Refusal::Item { index } => split_into_files(items, Some(*index)),
        Refusal::TooLarge { .. } if items.len() > 3 => {
            let (first, second) = items.split_at(items.len() / 2);
            [first, second].map(|half| PartContent::Album { items: half.to_vec() }).into()
        }
        _ => split_into_files(items, None),
    }
}

/// Each file alone; the one at fault as a document, the form that takes anything.
fn split_into_files(items: &[FileItem], faulty_index: Option<usize>) -> Vec<PartContent> {
    let single = |(index, item): (usize, &FileItem)| {
        let form = if Some(index) == faulty_index { FileForm::Document } else { item.form };
        PartContent::File(FileItem { form, ..item.clone() })
    };
    items.iter().enumerate().map(single).collect()
}

#[cfg(test)]
mod tests;
