//! What an update means: a message for us, a pressed button, or nothing. Pure, but for the albums that it remembers.

mod group;
pub(crate) mod kinds;
mod reply;

use satchel_domain::{
    ConversationId, FileReference, InboundMessage, MessageRef, Sender, Timestamp, filename::is_unsafe_char,
};
use serde_json::{Map, Value};
use teloxide::types::{ChatId, MessageId, ThreadId};

use self::kinds::{IGNORED_CONTENT, SERVICE_MESSAGES};
use super::{
    albums::{Album, AlbumTracker},
    fallback_text::describe_content,
    files::{files, files_of_others},
    text::{BotIdentity, LeadingCommand, ParsedText, parse_forwarded, parse_text},
    wire::{CallbackQuery, Chat, Message, MessageHeader},
};
use crate::address::ConversationAddress;

/// The account in whose name an administrator writes who doesn't show who it is.
const ANONYMOUS_ADMINISTRATOR: i64 = 1_087_968_824;

/// Satchel's own commands that no menu offers, since they come with a code that it has told, or are its owners' alone, and
/// the one that is offered only where links are given. Whatever the menu holds, they are commands.
const UNREGISTERED_COMMANDS: [&str; 4] = ["allow", "refuse", "pair", "unlink"];

/// The commands by which a person says whether a tool may run.
const DECISIONS: [&str; 2] = ["allow", "refuse"];

/// Why most of what is written in groups is passed over.
const NOT_ADDRESSED_TEXT: &str = "it was not written to the bot";

/// What an update means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum InboundEvent {
    /// Somebody wrote to us.
    Message {
        message: Box<InboundMessage>,
        /// The items of its album that came before it and named nobody, in their order. They are for us too.
        kept: Vec<InboundMessage>,
    },
    /// Somebody pressed a button of ours; the button waits for an answer to the query. Nothing is said by one that
    /// carries no command.
    ButtonPressed {
        query: String,
        /// What was said with it.
        message: Option<Box<InboundMessage>>,
    },
    /// A group became a supergroup, which is another chat.
    Migrated { from: i64, to: i64 },
    /// Nothing that concerns us; the reason is for the log.
    Ignored(&'static str),
    /// Something that can't be read; the reason holds nothing of it.
    Undecodable(&'static str),
}

/// Reads updates for one bot.
#[derive(Debug)]
pub(crate) struct InboundReader {
    us: BotIdentity,
    answers_in: Vec<String>,
    commands: Vec<String>,
    albums: AlbumTracker,
}

/// A message on its way to being read.
struct ParsedMessage<'a> {
    message: &'a Message,
    /// The words as they were written.
    original: &'a str,
    place: ConversationAddress,
    album: Option<Album>,
    said: ParsedText,
    files: Vec<FileReference>,
    described: Option<String>,
}

impl InboundReader {
    /// A reader for the bot that is `us`. `commands` are the names of those in the menu, which Satchel answers itself.
    pub(crate) fn new(us: BotIdentity, answers_in: Vec<String>, mut commands: Vec<String>) -> Self {
        commands.extend(UNREGISTERED_COMMANDS.map(str::to_owned));
        Self { us, answers_in, commands, albums: AlbumTracker::default() }
    }

    /// Looks through updates that came together, before the first of them is read: an album is for us whichever of its
    /// items says so, and the words often stand beneath a later one.
    ///
    /// A webhook is told of one update at a time and can't look ahead: there, and where an album comes in two answers,
    /// the items before the one that names us are kept meanwhile, and come with it ([`InboundEvent::Message`]).
    pub(crate) fn scan_albums(&mut self, updates: &[Value]) {
        for update in updates {
            let of_album = |kind: &str| update.get(kind).is_some_and(|message| message.get("media_group_id").is_some());
            if ["message", "channel_post", "edited_message", "edited_channel_post"].into_iter().any(of_album) {
                // What is read twice means the same twice.
                self.read(update);
            }
        }
        // None of these has been passed over yet: each is read once more, in its turn, and confirmed with the others.
        self.albums.release(|message| updates.contains(&message.raw));
    }

    /// Keeps no longer what came with the item that names us: it is stored.
    pub(crate) fn release_stored(&mut self, kept: &[InboundMessage]) {
        self.albums.release(|message| kept.contains(message));
    }

    /// Reads an update. Updates of one chat must come in their order, for an album's first item speaks for the others.
    pub(crate) fn read(&mut self, update: &Value) -> InboundEvent {
        let Some(fields) = update.as_object() else { return InboundEvent::Undecodable("it is no object") };
        for kind in ["message", "channel_post"] {
            if let Some(message) = fields.get(kind) {
                return self.message(update, message, None);
            }
        }
        for kind in ["edited_message", "edited_channel_post"] {
            if let Some(message) = fields.get(kind) {
                let number = fields.get("update_id").and_then(Value::as_i64).unwrap_or_default();
                return self.message(update, message, Some(number));
            }
        }
        if let Some(query) = fields.get("callback_query") {
            return match serde_json::from_value(query.clone()) {
                Ok(query) => self.pressed(update, query),
                Err(_) => InboundEvent::Undecodable("its button has another form than the Bot API's"),
            };
        }
        if fields.keys().any(|kind| IGNORED_CONTENT.contains(&kind.as_str())) {
            return InboundEvent::Ignored("its kind was not asked for");
        }
        InboundEvent::Undecodable("its kind is unknown")
    }

    /// `edit` is the update's number where the message was edited.
    fn message(&mut self, update: &Value, raw: &Value, edit: Option<i64>) -> InboundEvent {
        // The parser's own words would repeat what people have written.
        let Ok(message) = serde_json::from_value::<Message>(raw.clone()) else {
            return InboundEvent::Undecodable("its message has another form than the Bot API's");
        };
        let head = &message.head;
        // Both chats tell of a move. Whoever missed the one hears of it by the other, and to be told twice does no harm.
        match (head.migrate_from_chat_id, head.migrate_to_chat_id) {
            (Some(from), _) => return InboundEvent::Migrated { from, to: head.chat.id },
            (None, Some(to)) => return InboundEvent::Migrated { from: head.chat.id, to },
            (None, None) => {}
        }
        if head.is_by(&self.us) {
            return InboundEvent::Ignored("the bot wrote it itself");
        }
        if head.sender_chat.is_none() && head.from.as_ref().is_some_and(|from| from.is_bot) {
            return InboundEvent::Ignored("another bot wrote it");
        }
        if edit.is_some() && message.content.location.is_some() {
            return InboundEvent::Ignored("a live location has moved");
        }
        let Some(sender) = sender(head) else { return InboundEvent::Ignored("nobody wrote it") };
        let (text, entities) = match (&head.text, &head.caption) {
            (Some(text), _) => (text.as_str(), &head.entities),
            (None, Some(caption)) => (caption.as_str(), &head.caption_entities),
            (None, None) => ("", &head.entities),
        };
        let said = match &head.forward_origin {
            // Whoever passes on a message has not called us with it, nor given its command.
            Some(_) => ParsedText { text: parse_forwarded(text, entities), ..ParsedText::default() },
            None => parse_text(text, entities, &self.us),
        };
        // All who write in the name of a chat have one name, so that any of them could answer for another.
        if head.chat.is_group() && head.is_anonymous() && command_name(&said.text).is_some_and(is_decision) {
            return InboundEvent::Ignored("nobody can decide without showing who it is");
        }
        let written = ParsedMessage {
            message: &message,
            original: text,
            place: head.address(),
            album: head.media_group_id.as_ref().map(|id| Album {
                chat: head.chat.id,
                sender: sender.id.clone(),
                id: id.clone(),
            }),
            said,
            files: match &head.forward_origin {
                Some(_) => files_of_others(&message.content, head.message_id),
                None => files(&message.content, head.message_id),
            },
            described: describe_content(&message.content),
        };
        if text.is_empty() && written.files.is_empty() && written.described.is_none() {
            let happened = raw.as_object().is_some_and(|fields: &Map<String, Value>| {
                fields.keys().any(|field| SERVICE_MESSAGES.contains(&field.as_str()))
            });
            return if happened {
                InboundEvent::Ignored("it tells of something that happened in the chat")
            } else {
                InboundEvent::Undecodable("its message carries nothing that is known")
            };
        }
        if head.chat.is_group() && written.said.command == Some(LeadingCommand::OtherBot) {
            return InboundEvent::Ignored("it is a command for another bot");
        }
        let is_for_us =
            !head.chat.is_group() || group::is_addressed_to_bot(&written, &self.us, &self.answers_in, &self.albums);
        if !is_for_us && written.album.is_none() {
            return InboundEvent::Ignored(NOT_ADDRESSED_TEXT);
        }
        let leads =
            is_for_us && written.album.as_ref().is_none_or(|album| self.albums.register_first(album, head.message_id));
        let (text, files) = reply::compose(&written, &self.us, &self.commands, leads);
        // Each bot counts the messages of a private chat, or of a small group, for itself.
        let original = format!("{}/{}:{}", self.us.id, head.chat.id, head.message_id);
        let (key, edit_of) = match edit {
            // The date alone is no key: it counts seconds, and people edit twice in one.
            Some(number) => (format!("{original}:{}:{number}", head.edit_date.unwrap_or_default()), Some(original)),
            None => (original, None),
        };
        let message = InboundMessage {
            edit_of,
            group: head.chat.is_group(),
            sent_at: Some(Timestamp(head.date.saturating_mul(1_000))),
            text,
            files,
            album: head.media_group_id.clone(),
            message: Some(MessageRef(head.message_id.to_string())),
            raw: update.clone(),
            ..InboundMessage::new(written.place.conversation(), key, sender)
        };
        let kept = match written.album {
            Some(album) if !is_for_us => {
                self.albums.buffer(album, message, head.date);
                return InboundEvent::Ignored(NOT_ADDRESSED_TEXT);
            }
            Some(album) => self.albums.buffered_items(&album, &message),
            None => Vec::new(),
        };
        InboundEvent::Message { message: Box::new(message), kept }
    }

    /// A pressed button is its command, said by whoever pressed it. What is no command of ours is not taken for
    /// anybody's words: nobody has written it, and a button may be older than we are.
    fn pressed(&self, update: &Value, query: CallbackQuery) -> InboundEvent {
        let CallbackQuery { id, from, message, data } = query;
        let may_say = |data: &String| {
            let is_unknown = from.id == ANONYMOUS_ADMINISTRATOR && command_name(data).is_some_and(is_decision);
            self.is_own_command(data) && !is_unknown
        };
        let said = match (message, data.filter(may_say)) {
            (Some(Message { head, .. }), Some(command)) => Some(Box::new(InboundMessage {
                group: head.chat.is_group(),
                text: command,
                message: Some(MessageRef(head.message_id.to_string())),
                raw: update.clone(),
                ..InboundMessage::new(
                    head.address().conversation(),
                    format!("callback:{id}"),
                    sender_of(from.id, &from.name(), from.username),
                )
            })),
            _ => None,
        };
        InboundEvent::ButtonPressed { query: id, message: said }
    }

    /// Whether a text begins with a command that Satchel answers itself.
    fn is_own_command(&self, text: &str) -> bool {
        command_name(text).is_some_and(|name| self.commands.contains(&name.to_lowercase()))
    }
}

/// The first word of a text, where it is a command.
fn command_name(text: &str) -> Option<&str> {
    text.split_whitespace().next().and_then(|word| word.strip_prefix('/'))
}

fn is_decision(name: &str) -> bool {
    DECISIONS.iter().any(|decision| name.eq_ignore_ascii_case(decision))
}

/// Who wrote a message: whoever it shows. Who writes for a channel, or doesn't show who it is, is that chat.
fn sender(head: &MessageHeader) -> Option<Sender> {
    if let Some(chat) = &head.sender_chat {
        return Some(sender_of(chat.id, &chat.name(), chat.username.clone()));
    }
    if let Some(from) = head.from.as_ref().filter(|from| from.id != ANONYMOUS_ADMINISTRATOR) {
        return Some(sender_of(from.id, &from.name(), from.username.clone()));
    }
    let chat = &head.chat;
    chat.is_group().then(|| sender_of(chat.id, &chat.name(), chat.username.clone()))
}

fn sender_of(id: i64, name: &str, handle: Option<String>) -> Sender {
    Sender { id: id.to_string(), name: sanitize_name(name), handle }
}

/// A name without anything that can't be seen, and not longer than anybody reads.
fn sanitize_name(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !is_unsafe_char(*c)).take(100).collect();
    shown.trim().to_owned()
}

impl MessageHeader {
    fn address(&self) -> ConversationAddress {
        let topic = self.message_thread_id.filter(|_| self.is_topic_message);
        ConversationAddress { chat: ChatId(self.chat.id), topic: topic.map(|topic| ThreadId(MessageId(topic))) }
    }

    /// Whether it shows a chat in the place of the person who wrote it.
    fn is_anonymous(&self) -> bool {
        self.sender_chat.is_some() || self.from.as_ref().is_some_and(|from| from.id == ANONYMOUS_ADMINISTRATOR)
    }

    /// Whether the bot wrote it.
    fn is_by(&self, us: &BotIdentity) -> bool {
        self.from.as_ref().is_some_and(|from| from.id == us.id)
    }

    /// The message that this one answers. In a topic every message answers the one that opened it, which is no answer.
    fn replied_to(&self) -> Option<&Message> {
        self.reply_to_message.as_deref().filter(|answered| answered.head.forum_topic_created.is_none())
    }
}

/// The conversation in which a message would be answered, which is all that is said of it in the log.
pub(crate) fn conversation(meaning: &InboundEvent) -> Option<&ConversationId> {
    match meaning {
        InboundEvent::Message { message, .. } | InboundEvent::ButtonPressed { message: Some(message), .. } => {
            Some(&message.conversation)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
