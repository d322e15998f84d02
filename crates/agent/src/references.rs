//! The files that a front end's message names by their addresses, as a model reads of them. Pure.
//!
//! Such a file is fetched when the model asks for it, with `attachment.download`. The address stays with the message: it may
//! be signed, and the tool needs none.

use std::fmt::Write;

use satchel_domain::reference_block::{self, AttachmentReference};
use satchel_ports::ledger::QueuedTurn;

use crate::prompt::{escape_markers, quote_name, sanitize};

/// The files that a turn's messages name by address, in their order.
pub(crate) fn turn_references(turn: &QueuedTurn) -> Vec<AttachmentReference> {
    let blocks = turn.messages.iter().filter_map(|queued| reference_block::split(&queued.message.text).1);
    blocks.flatten().collect()
}

/// Tells the model of these files and how to get them; `None` when there are none.
pub(crate) fn references_addendum(references: &[AttachmentReference]) -> Option<String> {
    let (files, them) = match references.len() {
        0 => return None,
        1 => ("1 file that is".to_owned(), "it"),
        count => (format!("{count} files that are"), "them"),
    };
    let mut text = format!(
        "The message names {files} not fetched yet. Use attachment.download(downloadDir) to fetch {them}; no address is needed."
    );
    for (reference, number) in references.iter().zip(1..) {
        text.push('\n');
        text.push_str(&describe_reference(reference, number));
    }
    Some(text)
}

/// The line about such a file below a message of an earlier turn.
pub(crate) fn history_line(reference: &AttachmentReference, number: usize) -> String {
    format!("[not fetched: {}]", describe_reference(reference, number))
}

fn describe_reference(reference: &AttachmentReference, number: usize) -> String {
    let mut text = quote_name(reference.display_name(number).as_str());
    if let Some(mime) = &reference.mime_type {
        let _ = write!(text, " {}", escape_markers(sanitize(mime)));
    }
    if let Some(id) = reference.id {
        let _ = write!(text, " id {id}");
    }
    text
}
