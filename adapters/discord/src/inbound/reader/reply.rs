//! What a message becomes together with the one that it answers or passes on. Pure.

use satchel_domain::{
    FileReference,
    attributed::{self, QuoteAuthor},
};

use super::{
    InboundReader, LeadingCommand, ParsedMessage,
    fallback_text::{describe_content, embed_text},
    files::{files, files_of_others},
    text::parse_forwarded,
};
use crate::inbound::wire::{Message, MessageContent};

/// The message that is answered.
struct RepliedMessage {
    author: QuoteAuthor,
    words: String,
    files: Vec<FileReference>,
}

/// The words and files of a message, and of the one that it answers or passes on.
pub(super) fn compose(written: &ParsedMessage<'_>, reader: &InboundReader) -> (String, Vec<FileReference>) {
    let Message { head, content } = written.message;
    let mut files = files(written.message);
    let own =
        attributed::escape_openings(&join_text([&written.said.text, &describe_content(content).unwrap_or_default()]));
    if head.forwards() {
        let passed: Vec<&MessageContent> = head.message_snapshots.iter().map(|snapshot| &snapshot.message).collect();
        files.extend(passed.iter().flat_map(|content| files_of_others(content, head)));
        // Discord doesn't tell who wrote it.
        let words: Vec<String> =
            passed.iter().map(|content| attributed::quote_forwarded("somebody", &full_text(content, reader))).collect();
        let quotation = words.join("\n\n");
        return (if own.is_empty() { quotation } else { attributed::append_below_quote(&quotation, &own) }, files);
    }
    let Some(answered) = replied_message(written, reader).filter(|answered| includes_reply(written.command, answered))
    else {
        // Who writes nothing but our name is heard all the same.
        let only_named = own.is_empty() && files.is_empty();
        return (if only_named { attributed::escape_openings(&reader.forwarded_text(content)) } else { own }, files);
    };
    let names: Vec<String> = answered.files.iter().map(|file| file.filename.to_string()).collect();
    files.extend(answered.files);
    let quotation = attributed::quote_reply(&answered.author, &names, &answered.words);
    let text = match written.command {
        // A command stands first, or it would be none.
        Some(_) => format!("{own}\n\n{quotation}"),
        None if own.is_empty() => quotation,
        None => attributed::append_below_quote(&quotation, &own),
    };
    (text, files)
}

/// Whether the message that is answered matters. To Satchel's own commands it doesn't, nor to one that answers a
/// question of ours.
fn includes_reply(command: Option<LeadingCommand>, answered: &RepliedMessage) -> bool {
    match command {
        Some(LeadingCommand::Own) => false,
        Some(LeadingCommand::Other) => answered.author != QuoteAuthor::Bot,
        None => true,
    }
}

fn replied_message(written: &ParsedMessage<'_>, reader: &InboundReader) -> Option<RepliedMessage> {
    let message = written.message.head.replied_to()?;
    let Message { head, content } = message;
    let by_us = head.author.id.0 == reader.us.user_id;
    let mut words = vec![full_text(content, reader)];
    let mut files = files_of_others(content, head);
    for passed in head.message_snapshots.iter().map(|snapshot| &snapshot.message) {
        words.push(full_text(passed, reader));
        files.extend(files_of_others(passed, head));
    }
    words.retain(|words| !words.is_empty());
    Some(RepliedMessage {
        author: if by_us { QuoteAuthor::Bot } else { QuoteAuthor::Person(head.author.name().to_owned()) },
        words: words.join("\n"),
        files,
    })
}

/// All that a message of somebody else says.
fn full_text(content: &MessageContent, reader: &InboundReader) -> String {
    let said = join_text([&reader.forwarded_text(content), &describe_content(content).unwrap_or_default()]);
    join_text([&said, &embed_text(content)])
}

impl InboundReader {
    fn forwarded_text(&self, content: &MessageContent) -> String {
        parse_forwarded(&content.text, self.names(content))
    }
}

fn join_text(pieces: [&str; 2]) -> String {
    pieces.into_iter().filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join("\n")
}
