//! Combines a message with the one that it replies to or forwards. Pure.

use satchel_domain::{
    FileReference,
    quoting::{self, QuoteAuthor},
};

use super::{
    InboundReader, LeadingCommand, ParsedMessage,
    fallback_text::{describe_content, embed_text},
    files::{message_files, quoted_files},
    text::parse_forwarded,
};
use crate::inbound::wire::{Message, MessageContent};

/// The message that is replied to.
struct RepliedMessage {
    author: QuoteAuthor,
    text: String,
    files: Vec<FileReference>,
}

/// Returns the text and files of a message, together with those of the message that it replies to or forwards.
pub(super) fn compose_text_and_files(
    parsed: &ParsedMessage<'_>,
    reader: &InboundReader,
) -> (String, Vec<FileReference>) {
    let Message { head, content } = parsed.message;
    let mut files = message_files(parsed.message);
    let own_text =
        quoting::escape_openings(&join_text([&parsed.text.text, &describe_content(content).unwrap_or_default()]));
    if head.is_forward() {
        let forwarded: Vec<&MessageContent> = head.message_snapshots.iter().map(|snapshot| &snapshot.message).collect();
        files.extend(forwarded.iter().flat_map(|content| quoted_files(content, head)));
        // Discord doesn't say who wrote it.
        let quotes: Vec<String> =
            forwarded.iter().map(|content| quoting::quote_forwarded("somebody", &full_text(content, reader))).collect();
        let quotation = quotes.join("\n\n");
        return (
            if own_text.is_empty() { quotation } else { quoting::append_below_quote(&quotation, &own_text) },
            files,
        );
    }
    let Some(replied) = replied_message(parsed, reader).filter(|replied| includes_reply(parsed.command, replied))
    else {
        // A mention alone is a message, too.
        let is_mention_only = own_text.is_empty() && files.is_empty();
        return (
            if is_mention_only { quoting::escape_openings(&reader.forwarded_text(content)) } else { own_text },
            files,
        );
    };
    let names: Vec<String> = replied.files.iter().map(|file| file.filename.to_string()).collect();
    files.extend(replied.files);
    let quotation = quoting::quote_reply(&replied.author, &names, &replied.text);
    let text = match parsed.command {
        // A command must come first to be recognised.
        Some(_) => format!("{own_text}\n\n{quotation}"),
        None if own_text.is_empty() => quotation,
        None => quoting::append_below_quote(&quotation, &own_text),
    };
    (text, files)
}

/// Whether the message that is replied to is included: not with Satchel's own commands, and not with another command
/// that replies to the bot.
fn includes_reply(command: Option<LeadingCommand>, replied: &RepliedMessage) -> bool {
    match command {
        Some(LeadingCommand::Own) => false,
        Some(LeadingCommand::Other) => replied.author != QuoteAuthor::Bot,
        None => true,
    }
}

fn replied_message(parsed: &ParsedMessage<'_>, reader: &InboundReader) -> Option<RepliedMessage> {
    let message = parsed.message.head.replied_to()?;
    let Message { head, content } = message;
    let is_by_bot = head.author.id.0 == reader.bot.user_id;
    let mut texts = vec![full_text(content, reader)];
    let mut files = quoted_files(content, head);
    for forwarded in head.message_snapshots.iter().map(|snapshot| &snapshot.message) {
        texts.push(full_text(forwarded, reader));
        files.extend(quoted_files(forwarded, head));
    }
    texts.retain(|text| !text.is_empty());
    Some(RepliedMessage {
        author: if is_by_bot { QuoteAuthor::Bot } else { QuoteAuthor::Person(head.author.name().to_owned()) },
        text: texts.join("\n"),
        files,
    })
}

/// Returns the full text of someone else's message.
fn full_text(content: &MessageContent, reader: &InboundReader) -> String {
    let text = join_text([&reader.forwarded_text(content), &describe_content(content).unwrap_or_default()]);
    join_text([&text, &embed_text(content)])
}

impl InboundReader {
    fn forwarded_text(&self, content: &MessageContent) -> String {
        parse_forwarded(&content.text, self.mention_names(content))
    }
}

fn join_text(parts: [&str; 2]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}
