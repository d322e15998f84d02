//! What a message becomes together with the one that it answers or passes on. Pure.

use satchel_domain::{
    FileReference,
    attributed::{self, QuoteAuthor},
};

use super::ParsedMessage;
use crate::{
    inbound::{
        fallback_text::describe_content,
        files::files_of_others,
        text::{BotIdentity, LeadingCommand, parse_forwarded},
        wire::{Media, Message, MessageContent},
    },
    send::VOICE_NAME,
};

/// The message that is answered, as far as it is known.
struct RepliedMessage {
    author: QuoteAuthor,
    words: String,
    /// The names of its files.
    names: Vec<String>,
    /// Those that come along.
    files: Vec<FileReference>,
}

/// The words and files of a message, and of the one that it answers. `leads` is false for the later items of an album,
/// which would say everything again.
pub(super) fn compose(
    written: &ParsedMessage<'_>,
    us: &BotIdentity,
    commands: &[String],
    leads: bool,
) -> (String, Vec<FileReference>) {
    let head = &written.message.head;
    let mut files = written.files.clone();
    let described = written.described.as_deref();
    if let Some(origin) = &head.forward_origin {
        let words = join_text([&written.said.text, described.unwrap_or_default()]);
        let says = leads || !words.is_empty();
        return (if says { attributed::quote_forwarded(&origin.name(), &words) } else { words }, files);
    }
    let own = attributed::escape_openings(&join_text([&written.said.text, described.unwrap_or_default()]));
    let answered = if leads { replied_message(written, us) } else { None };
    let Some(answered) = answered.filter(|answered| includes_reply(written, answered, commands)) else {
        // Who writes nothing but our name is heard all the same.
        let only_named = own.is_empty() && files.is_empty();
        return (if only_named { attributed::escape_openings(written.original) } else { own }, files);
    };
    files.extend(answered.files);
    let quotation = attributed::quote_reply(&answered.author, &answered.names, &answered.words);
    let text = match written.said.command {
        // A command stands first, or it would be none.
        Some(_) => format!("{own}\n\n{quotation}"),
        None if own.is_empty() => quotation,
        None => attributed::append_below_quote(&quotation, &own),
    };
    (text, files)
}

/// Whether the message that is answered matters. To Satchel's own commands it doesn't, nor to one that answers a
/// question of ours.
fn includes_reply(written: &ParsedMessage<'_>, answered: &RepliedMessage, commands: &[String]) -> bool {
    match &written.said.command {
        Some(LeadingCommand::OwnBot(name)) => !commands.contains(name) && answered.author != QuoteAuthor::Bot,
        _ => true,
    }
}

fn replied_message(written: &ParsedMessage<'_>, us: &BotIdentity) -> Option<RepliedMessage> {
    let head = &written.message.head;
    let quoted = head.quote.as_ref().map(|quote| quote.text.clone());
    if let Some(answered) = head.replied_to() {
        let files = files_of_others(&answered.content, answered.head.message_id);
        let names = names(&files);
        let words = quoted.unwrap_or_else(|| reply_text(answered));
        return Some(if answered.head.is_by(us) {
            RepliedMessage { author: QuoteAuthor::Bot, words, names, files: resolvable_files(files, &answered.content) }
        } else {
            RepliedMessage { author: QuoteAuthor::Person(author(answered)), words, names, files }
        });
    }
    let reply = head.external_reply.as_deref()?;
    let by_us = reply.head.origin.sender_user.as_ref().is_some_and(|user| user.id == us.id);
    let elsewhere = reply.head.message_id.unwrap_or(head.message_id);
    // What we said in another chat or topic, we said in another conversation, whose files aren't this one's.
    let files = files_of_others(&reply.content, elsewhere);
    Some(RepliedMessage {
        author: if by_us { QuoteAuthor::Bot } else { QuoteAuthor::Person(reply.head.origin.name()) },
        words: quoted.unwrap_or_else(|| text_of_content(&reply.content)),
        names: names(&files),
        files,
    })
}

fn names(files: &[FileReference]) -> Vec<String> {
    files.iter().map(|file| file.filename.to_string()).collect()
}

/// What comes along of a message of ours in this conversation, which has its files already and finds them by their names.
/// Of a photo Telegram keeps none, so that nobody could tell which one is meant; and a voice of ours is none of its files.
fn resolvable_files(files: Vec<FileReference>, content: &MessageContent) -> Vec<FileReference> {
    let is_our_voice = |audio: &Media| audio.file_name.as_deref() == Some(VOICE_NAME);
    let is_spoken = content.voice.is_some() || content.audio.as_ref().is_some_and(is_our_voice);
    if content.photo.is_empty() && !is_spoken { Vec::new() } else { files }
}

/// Whoever wrote the words, who isn't always whoever sent them.
fn author(message: &Message) -> String {
    let head = &message.head;
    if let Some(origin) = &head.forward_origin {
        return origin.name();
    }
    let chat = head.sender_chat.as_ref().map(super::Chat::name);
    chat.or_else(|| head.from.as_ref().map(|from| from.name())).unwrap_or_else(|| head.chat.name())
}

fn reply_text(message: &Message) -> String {
    let head = &message.head;
    let text = match (&head.text, &head.caption) {
        (Some(text), _) => parse_forwarded(text, &head.entities),
        (None, Some(caption)) => parse_forwarded(caption, &head.caption_entities),
        (None, None) => String::new(),
    };
    join_text([&text, &text_of_content(&message.content)])
}

fn text_of_content(content: &MessageContent) -> String {
    describe_content(content).unwrap_or_default()
}

fn join_text(pieces: [&str; 2]) -> String {
    pieces.into_iter().filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join("\n")
}
