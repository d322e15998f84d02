//! Composes a message with the one that it replies to or forwards. Pure.

use satchel_domain::{
    FileReference, MessageRef, QuotedFile,
    quoting::{self, QuoteAuthor},
};

use super::{ParsedMessage, redaction::Disclosure};
use crate::{
    inbound::{
        fallback_text::{describe_content, describe_list_item},
        files::quoted_file_references,
        text::{BotIdentity, LeadingCommand, entities_of_passage, parse_forwarded},
        wire::{MediaFile, Message, MessageContent, MessageHeader, MessageOrigin, TextQuote},
    },
    send::VOICE_NAME,
};

/// The replied-to message, as far as it is known.
struct RepliedMessage {
    author: QuoteAuthor,
    text: String,
    /// The names of its files.
    filenames: Vec<String>,
    /// The files that are included.
    files: Vec<FileReference>,
}

/// Returns the text and files of a message and of the one that it replies to. The flag is false for later items of an
/// album, which would repeat the quote.
pub(super) fn compose_text_and_files(
    parsed: &ParsedMessage<'_>,
    bot: &BotIdentity,
    commands: &[String],
    is_first_item: bool,
    disclosure: Disclosure,
) -> (String, Vec<FileReference>) {
    let head = &parsed.message.head;
    let mut files = parsed.files.clone();
    let fallback_text = parsed.fallback_text.as_deref();
    if let Some(origin) = &head.forward_origin {
        let text = join_text([&parsed.text.text, fallback_text.unwrap_or_default()]);
        let needs_quote = is_first_item || !text.is_empty();
        let name = origin_name(origin, disclosure);
        return (if needs_quote { quoting::quote_forwarded(&name, &text) } else { text }, files);
    }
    let own_text = quoting::escape_openings(&join_text([&parsed.text.text, fallback_text.unwrap_or_default()]));
    let replied = if is_first_item { replied_message(parsed, bot, disclosure) } else { None };
    let Some(replied) = replied.filter(|replied| includes_reply(parsed, replied, commands)) else {
        // A message that is only a mention keeps it, so that it is not empty.
        let is_mention_only = own_text.is_empty() && files.is_empty();
        return (if is_mention_only { quoting::escape_openings(parsed.raw_text) } else { own_text }, files);
    };
    files.extend(replied.files);
    let quote = quoting::quote_reply(&replied.author, &replied.filenames, &replied.text);
    let text = match parsed.text.command {
        // A command must come first to be recognised.
        Some(_) => format!("{own_text}\n\n{quote}"),
        None if own_text.is_empty() => quote,
        None => quoting::append_below_quote(&quote, &own_text),
    };
    (text, files)
}

/// Whether the replied-to message is included. It is not for Satchel's own commands, nor for commands that reply to the
/// bot.
fn includes_reply(parsed: &ParsedMessage<'_>, replied: &RepliedMessage, commands: &[String]) -> bool {
    match &parsed.text.command {
        Some(LeadingCommand::OwnBot(name)) => !commands.contains(name) && replied.author != QuoteAuthor::Bot,
        _ => true,
    }
}

fn replied_message(parsed: &ParsedMessage<'_>, bot: &BotIdentity, disclosure: Disclosure) -> Option<RepliedMessage> {
    let head = &parsed.message.head;
    if disclosure == Disclosure::WithoutReply && (head.replied_to().is_some() || head.external_reply.is_some()) {
        // Telegram adds quotes of its own, too.
        let quoted = head.quote.as_ref().filter(|quote| quote.is_manual);
        return Some(RepliedMessage {
            author: QuoteAuthor::Stranger,
            text: quoted.map(|quote| parse_forwarded(&quote.text, &quote.entities)).unwrap_or_default(),
            filenames: Vec::new(),
            files: Vec::new(),
        });
    }
    if let Some(replied) = head.replied_to() {
        let files = quoted_file_references(&replied.content, replied.head.message_id);
        let filenames = filenames(&files);
        let text = match &head.quote {
            Some(quote) => quoted_text(quote, replied),
            None => quoted_item(head, &replied.content).unwrap_or_else(|| reply_text(replied)),
        };
        return Some(if replied.head.is_from(bot) {
            RepliedMessage { author: QuoteAuthor::Bot, text, filenames, files: resolvable_files(files, replied) }
        } else {
            RepliedMessage { author: QuoteAuthor::Person(author_name(replied, disclosure)), text, filenames, files }
        });
    }
    let reply = head.external_reply.as_deref()?;
    let is_by_bot = reply.head.origin.sender_user.as_ref().is_some_and(|user| user.id == bot.id);
    let message_id = reply.head.message_id.unwrap_or(head.message_id);
    // A message of the bot in another chat or topic belongs to another conversation, with other files.
    let files = quoted_file_references(&reply.content, message_id);
    Some(RepliedMessage {
        author: if is_by_bot { QuoteAuthor::Bot } else { QuoteAuthor::Person(reply.head.origin.name()) },
        text: match &head.quote {
            Some(quote) => parse_forwarded(&quote.text, &quote.entities),
            None => quoted_item(head, &reply.content).unwrap_or_else(|| text_of_content(&reply.content)),
        },
        filenames: filenames(&files),
        files,
    })
}

fn filenames(files: &[FileReference]) -> Vec<String> {
    files.iter().map(|file| file.filename.to_string()).collect()
}

/// Returns the files of the bot's own message that must be included. The conversation has its files already and
/// resolves them by name, except for photos, whose names Telegram drops, and voice messages, which are not stored as
/// its files.
fn resolvable_files(files: Vec<FileReference>, replied: &Message) -> Vec<FileReference> {
    let Message { head, content } = replied;
    let is_bot_voice = |audio: &MediaFile| audio.file_name.as_deref() == Some(VOICE_NAME);
    let is_voice = content.voice.is_some() || content.audio.as_ref().is_some_and(is_bot_voice);
    if content.photo.is_empty() && !is_voice {
        return Vec::new();
    }
    let shown_in = Some(MessageRef(head.message_id.to_string()));
    let show = |file: FileReference| FileReference {
        quoted: file.quoted.map(|quoted| QuotedFile { shown_in: shown_in.clone(), ..quoted }),
        ..file
    };
    files.into_iter().map(show).collect()
}

/// The name of the author, who may differ from the sender.
fn author_name(message: &Message, disclosure: Disclosure) -> String {
    let head = &message.head;
    if let Some(origin) = &head.forward_origin {
        return origin_name(origin, disclosure);
    }
    let chat = head.sender_chat.as_ref().map(super::Chat::name);
    chat.or_else(|| head.from.as_ref().map(|from| from.name())).unwrap_or_else(|| head.chat.name())
}

/// The name of the author of a forwarded message; empty where it is hidden.
fn origin_name(origin: &MessageOrigin, disclosure: Disclosure) -> String {
    match disclosure {
        Disclosure::Full => origin.name(),
        Disclosure::WithoutOrigin | Disclosure::WithoutReply => String::new(),
    }
}

fn reply_text(message: &Message) -> String {
    let (text, entities) = message.head.formatted_text();
    join_text([&parse_forwarded(text, entities), &text_of_content(&message.content)])
}

/// The task of a checklist or the option of a poll that is meant; `None` if it is all of the message.
fn quoted_item(head: &MessageHeader, replied: &MessageContent) -> Option<String> {
    describe_list_item(replied, head.reply_to_checklist_task_id, head.reply_to_poll_option_id.as_deref())
}

/// The passage of a message that is quoted. Telegram drops code and links of it, which the message still has.
fn quoted_text(quote: &TextQuote, replied: &Message) -> String {
    let (text, entities) = replied.head.formatted_text();
    let position = usize::try_from(quote.position).ok();
    let passage = position.and_then(|position| entities_of_passage(text, entities, &quote.text, position));
    parse_forwarded(&quote.text, passage.as_deref().unwrap_or(&quote.entities))
}

fn text_of_content(content: &MessageContent) -> String {
    describe_content(content).unwrap_or_default()
}

fn join_text(texts: [&str; 2]) -> String {
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}
