//! Parses updates into events: a message for the bot, a pressed button, or nothing. Pure, except for the album tracker.

mod group;
pub(crate) mod kinds;
pub(crate) mod redaction;
mod reply;

use satchel_domain::{
    ConversationId, FileReference, InboundMessage, MessageRef, Sender, Timestamp, filename::is_unsafe_char,
    inbound::may_be_cut,
};
use serde_json::{Map, Value};
use teloxide::types::{ChatId, MessageId, ThreadId};

use self::{
    kinds::{IGNORED_UPDATES, SERVICE_MESSAGE_FIELDS},
    redaction::{Disclosure, redacted_forms, stored_update, without_quotations},
};
use super::{
    albums::{Album, AlbumTracker},
    content_digest::digest_content,
    fallback_text::describe_content,
    files::{file_references, quoted_file_references},
    text::{BotIdentity, LeadingCommand, ParsedText, parse_command, parse_forwarded, parse_text},
    wire::{CallbackQuery, Chat, Message, MessageEntity, MessageHeader},
};
use crate::address::ConversationAddress;

/// The account that anonymous administrators write as.
const ANONYMOUS_ADMINISTRATOR: i64 = 1_087_968_824;

/// Satchel's own commands that are not in the menu, because they need a code or are for owners only, and those
/// that are registered only where links are enabled, several agents are declared or rich messages can be chosen. They are
/// always commands.
const UNREGISTERED_COMMANDS: [&str; 11] =
    ["allow", "refuse", "pair", "persona", "model", "unlink", "agent", "remind", "schedules", "timezone", "rich"];

/// The commands by which a person decides whether a tool may run.
const DECISIONS: [&str; 2] = ["allow", "refuse"];

/// Why what a person sends is refused of which nothing is known.
const UNREADABLE_REASON: &str = "it is of a kind that I can't read";
/// The longest text that a person can send in one message, in UTF-16 units (Bot API, Message, `text`).
const TEXT_LIMITS: [usize; 1] = [4_096];

/// Why most messages in groups are ignored.
const NOT_ADDRESSED_TEXT: &str = "it was not written to the bot";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum InboundEvent {
    /// A message to the bot.
    Message {
        message: Box<InboundMessage>,
        /// Earlier items of its album, which did not mention the bot, in their order.
        album_items: Vec<InboundMessage>,
    },
    /// A pressed button of the bot, whose callback query waits for an answer.
    ButtonPressed {
        query: String,
        /// The button's command as a message; `None` if it carries none.
        message: Option<Box<InboundMessage>>,
    },
    /// A group was migrated to a supergroup, which is another chat.
    Migrated { from: i64, to: i64 },
    /// Nothing for the bot; the reason is for the log.
    Ignored(&'static str),
    /// An undecodable update; the reason quotes nothing of it.
    Undecodable(&'static str),
}

/// Parses updates for one bot.
#[derive(Debug)]
pub(crate) struct InboundReader {
    bot: BotIdentity,
    answers_in: Vec<String>,
    commands: Vec<String>,
    albums: AlbumTracker,
}

/// A message with its parsed text and files.
struct ParsedMessage<'a> {
    message: &'a Message,
    /// The text as written.
    raw_text: &'a str,
    address: ConversationAddress,
    album: Option<Album>,
    text: ParsedText,
    files: Vec<FileReference>,
    fallback_text: Option<String>,
}

impl InboundReader {
    /// Creates a reader. `commands` are the names in the menu, which Satchel handles itself.
    pub(crate) fn new(bot: BotIdentity, answers_in: Vec<String>, mut commands: Vec<String>) -> Self {
        commands.extend(UNREGISTERED_COMMANDS.map(str::to_owned));
        Self { bot, answers_in, commands, albums: AlbumTracker::default() }
    }

    /// Scans the updates of one poll response for albums, before the first of them is parsed: an album is addressed to
    /// the bot if any of its items mentions it, and often a later one has the caption.
    ///
    /// A webhook gets one update at a time and can't look ahead: there, and if an album is split across responses, the
    /// items before the one that mentions the bot are buffered and delivered with it ([`InboundEvent::Message`]).
    pub(crate) fn scan_albums(&mut self, updates: &[Value]) {
        for update in updates {
            let is_album_item =
                |kind: &str| update.get(kind).is_some_and(|message| message.get("media_group_id").is_some());
            if ["message", "channel_post", "edited_message", "edited_channel_post"].into_iter().any(is_album_item) {
                // Parsing an update twice gives the same event.
                self.read(update);
            }
        }
        // None of these needs to be buffered: each is parsed again in its turn, and confirmed with the others.
        let scanned: Vec<Value> = updates.iter().map(stored_update).collect();
        self.albums.release(|message| scanned.contains(&message.raw));
    }

    /// Removes buffered items that were stored with the item that mentions the bot.
    pub(crate) fn release_stored(&mut self, items: &[InboundMessage]) {
        self.albums.release(|message| items.contains(message));
    }

    /// Parses an update. Updates of one chat must be passed in their order, since an album's first item decides for the
    /// others.
    pub(crate) fn read(&mut self, update: &Value) -> InboundEvent {
        let Some(fields) = update.as_object() else { return InboundEvent::Undecodable("it is no object") };
        for kind in ["message", "channel_post"] {
            if let Some(message) = fields.get(kind) {
                return self.read_message(update, message, None);
            }
        }
        for kind in ["edited_message", "edited_channel_post"] {
            if let Some(message) = fields.get(kind) {
                let update_id = fields.get("update_id").and_then(Value::as_i64).unwrap_or_default();
                return self.read_message(update, message, Some(update_id));
            }
        }
        if let Some(query) = fields.get("callback_query") {
            return match serde_json::from_value(query.clone()) {
                Ok(query) => self.read_callback_query(update, query),
                Err(_) => InboundEvent::Undecodable("its button is not in the Bot API's format"),
            };
        }
        if fields.keys().any(|kind| IGNORED_UPDATES.contains(&kind.as_str())) {
            return InboundEvent::Ignored("its kind was not requested");
        }
        InboundEvent::Undecodable("its kind is unknown")
    }

    /// `edit` is the update's id if the message was edited.
    fn read_message(&mut self, update: &Value, raw: &Value, edit: Option<i64>) -> InboundEvent {
        // The parser's error text would repeat what people have written.
        let Ok(message) = serde_json::from_value::<Message>(raw.clone()) else {
            return InboundEvent::Undecodable("its message is not in the Bot API's format");
        };
        let head = &message.head;
        // Both chats report a migration, so that one may be missed; a second report does no harm.
        match (head.migrate_from_chat_id, head.migrate_to_chat_id) {
            (Some(from), _) => return InboundEvent::Migrated { from, to: head.chat.id },
            (None, Some(to)) => return InboundEvent::Migrated { from: head.chat.id, to },
            (None, None) => {}
        }
        if head.is_from(&self.bot) {
            return InboundEvent::Ignored("the bot wrote it itself");
        }
        if head.sender_chat.is_none() && head.from.as_ref().is_some_and(|from| from.is_bot) {
            return InboundEvent::Ignored("another bot wrote it");
        }
        if edit.is_some() && message.content.location.is_some() {
            return InboundEvent::Ignored("a live location has moved");
        }
        let Some(sender) = message_sender(head) else { return InboundEvent::Ignored("nobody wrote it") };
        let (text, entities) = head.formatted_text();
        let parsed_text = match &head.forward_origin {
            // A mention or command in a forwarded message is not the sender's own.
            Some(_) => ParsedText { text: parse_forwarded(text, entities), ..ParsedText::default() },
            None => self.parse_own_text(text, entities),
        };
        // All anonymous senders of a chat share one identity, so that any of them could decide for another.
        if head.chat.is_group() && head.is_anonymous() && command_name(&parsed_text.text).is_some_and(is_decision) {
            return InboundEvent::Ignored("nobody can decide without showing who it is");
        }
        let mut parsed = ParsedMessage {
            message: &message,
            raw_text: text,
            address: head.address(),
            album: head.media_group_id.as_ref().map(|id| Album {
                chat: head.chat.id,
                sender: sender.id.clone(),
                id: id.clone(),
            }),
            text: parsed_text,
            files: match &head.forward_origin {
                Some(_) => quoted_file_references(&message.content, head.message_id),
                None => file_references(&message.content, head.message_id),
            },
            fallback_text: describe_content(&message.content),
        };
        if text.is_empty() && parsed.files.is_empty() && parsed.fallback_text.is_none() {
            let is_service_message = raw.as_object().is_some_and(|fields: &Map<String, Value>| {
                fields.keys().any(|field| SERVICE_MESSAGE_FIELDS.contains(&field.as_str()))
            });
            if is_service_message {
                return InboundEvent::Ignored("it tells of something that happened in the chat");
            }
            // In a group it may report an event of a new kind, unless it forwards something or replies to the bot.
            let is_to_bot = head.replied_to().is_some_and(|replied| replied.head.is_from(&self.bot));
            if head.chat.is_group() && head.forward_origin.is_none() && !is_to_bot {
                return InboundEvent::Undecodable("its message carries nothing that is known");
            }
            let name = if head.forward_origin.is_some() { "forwarded message" } else { "message" };
            parsed.files.push(FileReference::unreadable(name, UNREADABLE_REASON));
        }
        if head.chat.is_group() && parsed.text.command == Some(LeadingCommand::OtherBot) {
            return InboundEvent::Ignored("it is a command for another bot");
        }
        let is_addressed =
            !head.chat.is_group() || group::is_addressed_to_bot(&parsed, &self.bot, &self.answers_in, &self.albums);
        if !is_addressed && parsed.album.is_none() {
            return InboundEvent::Ignored(NOT_ADDRESSED_TEXT);
        }
        let is_first_item = is_addressed
            && parsed.album.as_ref().is_none_or(|album| self.albums.register_first(album, head.message_id));
        let (bot, commands) = (&self.bot, &self.commands);
        let (text, files) = reply::compose_text_and_files(&parsed, bot, commands, is_first_item, Disclosure::Full);
        let redacted_forms = redacted_forms(&parsed, &sender, update, bot, commands, is_first_item);
        // Message ids of private chats and basic groups are unique per bot only.
        let message_key = format!("{}/{}:{}", self.bot.id, head.chat.id, head.message_id);
        let (key, edit_of) = match edit {
            // The date alone is not unique: it has a resolution of one second, and a message may be edited twice in it.
            Some(update_id) => {
                (format!("{message_key}:{}:{update_id}", head.edit_date.unwrap_or_default()), Some(message_key))
            }
            None => (message_key, None),
        };
        let sent_at = head.edit_date.filter(|_| edit_of.is_some()).unwrap_or(head.date);
        let message = InboundMessage {
            edit_of,
            anonymous: head.is_anonymous(),
            group: head.chat.is_group(),
            sent_at: Some(Timestamp(sent_at.saturating_mul(1_000))),
            text,
            files,
            content_digest: Some(digest_content(raw, &parsed.files, parsed.fallback_text.as_deref())),
            album: head.media_group_id.clone(),
            may_continue: may_be_cut(parsed.raw_text.encode_utf16().count(), &TEXT_LIMITS),
            message: Some(MessageRef(head.message_id.to_string())),
            raw: stored_update(update),
            redacted_forms,
            ..InboundMessage::new(parsed.address.conversation(), key, sender)
        };
        // A photo whose caption was edited is the same photo.
        let message = if edit.is_some() { message.with_quoted_files() } else { message };
        let album_items = match parsed.album {
            Some(album) if !is_addressed => {
                self.albums.buffer(album, message, head.date);
                return InboundEvent::Ignored(NOT_ADDRESSED_TEXT);
            }
            Some(album) => self.albums.buffered_items(&album, &message),
            None => Vec::new(),
        };
        InboundEvent::Message { message: Box::new(message), album_items }
    }

    /// A pressed button is its command, sent by the person who pressed it. Anything but a command of Satchel is
    /// ignored: no person has written it, and the button may come from an earlier program of this bot.
    fn read_callback_query(&self, update: &Value, query: CallbackQuery) -> InboundEvent {
        let CallbackQuery { id, from, message, data } = query;
        let is_allowed_command = |data: &String| {
            let is_anonymous_decision =
                from.id == ANONYMOUS_ADMINISTRATOR && command_name(data).is_some_and(is_decision);
            self.is_own_command(data) && !is_anonymous_decision
        };
        let inbound_message = match (message, data.filter(is_allowed_command)) {
            (Some(Message { head, .. }), Some(command)) => Some(Box::new(InboundMessage {
                group: head.chat.is_group(),
                text: command,
                message: Some(MessageRef(head.message_id.to_string())),
                pressed: true,
                raw: without_quotations(update),
                ..InboundMessage::new(
                    head.address().conversation(),
                    format!("callback:{id}"),
                    new_sender(from.id, &from.name(), from.username),
                )
            })),
            _ => None,
        };
        InboundEvent::ButtonPressed { query: id, message: inbound_message }
    }

    /// Parses a text of the sender's own. Satchel's own commands read what was typed: formatting is no part of a number, a code
    /// or the text of a reminder.
    fn parse_own_text(&self, text: &str, entities: &[MessageEntity]) -> ParsedText {
        let command = parse_command(text, entities, &self.bot);
        if self.is_own_command(&command.text) { command } else { parse_text(text, entities, &self.bot) }
    }

    /// Whether a text starts with a command that Satchel handles itself.
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

/// The visible sender of a message. For channel posts and anonymous administrators that is the chat.
fn message_sender(head: &MessageHeader) -> Option<Sender> {
    if let Some(chat) = &head.sender_chat {
        return Some(new_sender(chat.id, &chat.name(), chat.username.clone()));
    }
    if let Some(from) = head.from.as_ref().filter(|from| from.id != ANONYMOUS_ADMINISTRATOR) {
        return Some(new_sender(from.id, &from.name(), from.username.clone()));
    }
    let chat = &head.chat;
    chat.is_group().then(|| new_sender(chat.id, &chat.name(), chat.username.clone()))
}

fn new_sender(id: i64, name: &str, handle: Option<String>) -> Sender {
    Sender { id: id.to_string(), name: sanitize_name(name), handle }
}

/// Returns a name without invisible characters, truncated to 100 characters.
fn sanitize_name(name: &str) -> String {
    let visible: String = name.chars().filter(|c| !is_unsafe_char(*c)).take(100).collect();
    visible.trim().to_owned()
}

impl MessageHeader {
    fn address(&self) -> ConversationAddress {
        let topic = self.message_thread_id.filter(|_| self.is_topic_message);
        ConversationAddress { chat: ChatId(self.chat.id), topic: topic.map(|topic| ThreadId(MessageId(topic))) }
    }

    /// Whether it shows a chat instead of the person who wrote it.
    fn is_anonymous(&self) -> bool {
        self.sender_chat.is_some() || self.from.as_ref().is_some_and(|from| from.id == ANONYMOUS_ADMINISTRATOR)
    }

    /// Whether the bot wrote it.
    fn is_from(&self, bot: &BotIdentity) -> bool {
        self.from.as_ref().is_some_and(|from| from.id == bot.id)
    }

    /// The message that this one replies to. In a topic every message replies to the one that opened it, which is no
    /// reply.
    fn replied_to(&self) -> Option<&Message> {
        self.reply_to_message.as_deref().filter(|replied| replied.head.forum_topic_created.is_none())
    }
}

/// The conversation of an event, by which its updates are ordered.
pub(crate) fn event_conversation(event: &InboundEvent) -> Option<&ConversationId> {
    match event {
        InboundEvent::Message { message, .. } | InboundEvent::ButtonPressed { message: Some(message), .. } => {
            Some(&message.conversation)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
