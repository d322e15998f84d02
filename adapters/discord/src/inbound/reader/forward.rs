//! Forwards: what Discord shows of the forwarded message, or what the bot can read of it itself. Pure.
//!
//! A forward has the message as it was then (Message Snapshot, "minimal subset of fields"). Some come without it, and what a
//! snapshot doesn't have, such as a poll, is seen only in the original.

use std::iter;

use satchel_domain::{FileReference, InboundMessage, quoting};
use serde_json::Value;

use super::{FORWARD, InboundReader, ParsedMessage, ReplyDisclosure, quoted_files, text};
use crate::{
    inbound::wire::{Message, MessageContent, MessageHeader},
    snowflake,
};

/// The name under which a forwarded message is refused that can't be read.
const FORWARDED_MESSAGE_NAME: &str = "forwarded message";

/// Why it is refused.
const UNREADABLE_REASON: &str =
    "Discord doesn't show me what it says; please copy its text and its files into a message of your own";

/// Quotes what a message forwards, and returns its files. `original` is the forwarded message if the forward doesn't show it.
pub(super) fn quote_forward(
    head: &MessageHeader,
    original: Option<&Message>,
    reader: &InboundReader,
) -> (String, Vec<FileReference>) {
    let originals = original.into_iter().flat_map(|Message { head, content }| {
        iter::once((content, head)).chain(head.message_snapshots.iter().map(move |snapshot| (&snapshot.message, head)))
    });
    let (mut quotes, mut files) = (Vec::new(), Vec::new());
    for (content, carrier) in head.message_snapshots.iter().map(|shown| (&shown.message, head)).chain(originals) {
        if is_readable(content, reader) {
            files.extend(quoted_files(content, carrier));
            // Discord doesn't say who wrote it, and who forwards it answers for it.
            quotes.push(quoting::quote_forwarded("somebody", &text::full_text(content, reader)));
        }
    }
    if quotes.is_empty() {
        files.push(FileReference::unreadable(FORWARDED_MESSAGE_NAME, UNREADABLE_REASON));
        quotes.push(quoting::quote_forwarded("somebody", ""));
    }
    (quotes.join("\n\n"), files)
}

fn is_readable(content: &MessageContent, reader: &InboundReader) -> bool {
    !content.attachments.is_empty() || !text::full_text(content, reader).is_empty()
}

impl InboundReader {
    /// Returns the channel and the id of the message that another one forwards without showing anything of it.
    pub(crate) fn find_hidden_original(&self, raw: &Value) -> Option<(u64, u64)> {
        let reference = raw.get("message_reference")?;
        if reference.get("type").and_then(Value::as_u64) != Some(FORWARD) {
            return None;
        }
        let Message { head, .. } = Message::read(raw).ok()?;
        if head.message_snapshots.iter().any(|snapshot| is_readable(&snapshot.message, self)) {
            return None;
        }
        Some((snowflake::read(reference, "channel_id")?, snowflake::read(reference, "message_id")?))
    }

    /// Puts the original into a message that forwards it without showing it.
    pub(crate) fn add_original(&self, message: &mut InboundMessage, original: &Value) {
        let (Ok(forward), Ok(original)) = (Message::read(&message.raw), Message::read(original)) else { return };
        let guild = forward.head.guild_id.map(|guild| guild.0);
        let guild = guild.or_else(|| self.cache.guild_id(forward.head.channel_id.0));
        let parsed = ParsedMessage { original: Some(&original), ..self.parse(&forward, guild) };
        (message.text, message.files) = text::compose_text_and_files(&parsed, self, ReplyDisclosure::Full);
    }
}
