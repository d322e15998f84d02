//! What a message becomes together with the one that it answers or passes on. Pure.

use satchel_domain::{
    FileReference,
    attributed::{self, QuoteAuthor},
};

use super::{
    Command, Reader, Written,
    described::{boxes, described},
    files::{files, files_of_others},
    words::passed_on,
};
use crate::inbound::wire::{Content, Message};

/// The message that is answered.
struct Answered {
    author: QuoteAuthor,
    words: String,
    files: Vec<FileReference>,
}

/// The words and files of a message, and of the one that it answers or passes on.
pub(super) fn compose(written: &Written<'_>, reader: &Reader) -> (String, Vec<FileReference>) {
    let Message { head, content } = written.message;
    let mut files = files(written.message);
    let own = attributed::escape_openings(&joined([&written.said.text, &described(content).unwrap_or_default()]));
    if head.forwards() {
        let passed: Vec<&Content> = head.message_snapshots.iter().map(|snapshot| &snapshot.message).collect();
        files.extend(passed.iter().flat_map(|content| files_of_others(content, head)));
        // Discord doesn't tell who wrote it.
        let words: Vec<String> =
            passed.iter().map(|content| attributed::quote_forwarded("somebody", &all_words(content, reader))).collect();
        let quotation = words.join("\n\n");
        return (if own.is_empty() { quotation } else { attributed::append_below_quote(&quotation, &own) }, files);
    }
    let Some(answered) = answered(written, reader).filter(|answered| takes_along(written.command, answered)) else {
        // Who writes nothing but our name is heard all the same.
        let only_named = own.is_empty() && files.is_empty();
        return (if only_named { attributed::escape_openings(&reader.passed_on(content)) } else { own }, files);
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
fn takes_along(command: Option<Command>, answered: &Answered) -> bool {
    match command {
        Some(Command::Own) => false,
        Some(Command::Other) => answered.author != QuoteAuthor::Bot,
        None => true,
    }
}

fn answered(written: &Written<'_>, reader: &Reader) -> Option<Answered> {
    let message = written.message.head.answered()?;
    let Message { head, content } = message;
    let by_us = head.author.id.0 == reader.us.user_id;
    let mut words = vec![all_words(content, reader)];
    let mut files = files_of_others(content, head);
    for passed in head.message_snapshots.iter().map(|snapshot| &snapshot.message) {
        words.push(all_words(passed, reader));
        files.extend(files_of_others(passed, head));
    }
    words.retain(|words| !words.is_empty());
    Some(Answered {
        author: if by_us { QuoteAuthor::Bot } else { QuoteAuthor::Person(head.author.name().to_owned()) },
        words: words.join("\n"),
        files,
    })
}

/// All that a message of somebody else says.
fn all_words(content: &Content, reader: &Reader) -> String {
    let said = joined([&reader.passed_on(content), &described(content).unwrap_or_default()]);
    joined([&said, &boxes(content)])
}

impl Reader {
    fn passed_on(&self, content: &Content) -> String {
        passed_on(&content.text, self.names(content))
    }
}

fn joined(pieces: [&str; 2]) -> String {
    pieces.into_iter().filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join("\n")
}
