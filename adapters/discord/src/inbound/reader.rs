//! Interprets events: a message for the bot with its files, a slash command, a pressed button, or nothing. Pure.

mod content_digest;
mod forward;
mod starter;
mod text;

use std::{iter, sync::Arc};

use satchel_domain::{
    ConversationId, FileReference, Filename, InboundMessage, MessageRef, QuotedFile, RedactedForm, Sender, Timestamp,
    filename::is_unsafe_char, inbound::may_be_cut,
};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::starter::referenced_starter;
use self::{
    content_digest::digest_content,
    text::{BotMentions, MentionNames, ParsedText, ReplyDisclosure, describe_content},
};
use super::{
    interactions::{InteractionResponseKind, PendingInteraction},
    wire::{
        Attachment, FileLocator, Interaction, InteractionMember, Message, MessageContent, MessageHeader,
        MessageReference, User,
    },
};
use crate::{cache::GuildCache, snowflake};

/// Satchel's own commands that are missing in the slash menu: they need a code, are for owners only, or are registered
/// only if links are enabled or several agents are declared. They are recognised in any case.
const UNREGISTERED_COMMANDS: [&str; 10] =
    ["allow", "refuse", "pair", "persona", "model", "unlink", "agent", "remind", "schedules", "timezone"];

/// The types of messages that people write: plain ones and replies (Message Types).
const PERSON_MESSAGE_TYPES: [u64; 2] = [0, 19];

/// A reference to a forwarded message (Message Reference Types).
const FORWARD: u64 = 1;

/// Interaction types: a command, and a component such as a button.
const APPLICATION_COMMAND: u64 = 2;
const MESSAGE_COMPONENT: u64 = 3;

/// A group DM, or a direct channel without the bot (Interaction Context Types, `PRIVATE_CHANNEL`).
const CONTEXT_PRIVATE_CHANNEL: u64 = 2;

/// A slash command (Application Command Types, `CHAT_INPUT`).
const CHAT_INPUT: u64 = 1;

/// Why a message for the bot is empty: without the intent, Discord removes the content.
pub(crate) const EMPTY_MESSAGE_REASON: &str = "it was written for the bot but is empty: without the Message Content Intent, Discord \
    hides guild messages that don't mention the bot";

/// Why a message to the bot is refused of which Discord shows nothing. It is shown if the message mentions the bot (Message
/// Content Intent).
const HIDDEN_REASON: &str = "Discord shows me what it says only if it mentions me";

/// Why a message to the bot is refused that has nothing known.
const UNKNOWN_REASON: &str = "it is of a kind that I can't read";

/// The name under which a message is refused.
const MESSAGE_NAME: &str = "message";

/// The field of a message that repeats the one that it replies to.
const REPLIED_MESSAGE_FIELD: &str = "referenced_message";

/// The fields of a message that show other people: the message that it replies to, whom it mentions, and who gave the command
/// that it answers.
const OTHERS_FIELDS: [&str; 4] = [REPLIED_MESSAGE_FIELD, "mentions", "interaction", "interaction_metadata"];

/// The longest texts that a person can send in one message, in UTF-16 units: by default, and with Nitro (Create Message names
/// the first; the second is what the subscription promises).
const TEXT_LIMITS: [usize; 2] = [2_000, 4_000];

/// The flag of a voice message (Message Flags).
const VOICE_MESSAGE: u64 = 1 << 13;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BotIdentity {
    /// Its user, by which it is mentioned.
    pub(crate) user_id: u64,
    /// Its application, to which its commands belong.
    pub(crate) application_id: u64,
}

/// The meaning of an event for the bot.
#[derive(Debug, Clone)]
pub(crate) enum InboundEvent {
    /// A message to the bot.
    Message(Box<InboundMessage>),
    /// A slash command or a pressed button, which needs a response.
    Interaction {
        interaction: PendingInteraction,
        /// The command as a message; `None` for a button without one.
        message: Option<Box<InboundMessage>>,
    },
    /// Nothing for the bot; the reason is for the log.
    Ignored(&'static str),
    /// An undecodable event; the reason contains nothing of it.
    Undecodable(&'static str),
}

/// Reads events for one bot.
#[derive(Debug)]
pub(crate) struct InboundReader {
    bot: BotIdentity,
    /// Messages up to this id are older than the bot and are ignored.
    start_id: u64,
    answers_in: Vec<String>,
    cache: Arc<GuildCache>,
    commands: Vec<String>,
}

/// A decoded message with its parsed text.
struct ParsedMessage<'a> {
    message: &'a Message,
    bot_mentions: BotMentions,
    text: ParsedText,
    /// The command that its text starts with.
    command: Option<LeadingCommand>,
    /// The message that it forwards, if that is read because the forward doesn't show it.
    original: Option<&'a Message>,
    /// Why nothing of it can be read.
    unreadable: Option<&'static str>,
}

/// A command at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeadingCommand {
    /// One that Satchel handles itself.
    Own,
    /// An unknown one, which goes to the model.
    Other,
}

impl InboundReader {
    /// Creates a reader. `start_id` is the last id before the bot was set up, `commands` are the names of the commands
    /// that Satchel handles itself.
    pub(crate) fn new(
        bot: BotIdentity,
        start_id: u64,
        answers_in: Vec<String>,
        cache: Arc<GuildCache>,
        commands: Vec<String>,
    ) -> Self {
        let commands = commands.iter().map(|name| name.to_lowercase()).chain(UNREGISTERED_COMMANDS.map(str::to_owned));
        Self { bot, start_id, answers_in, cache, commands: commands.collect() }
    }

    /// Reads an event by its name and data.
    pub(crate) fn read(&self, name: &str, data: &Value) -> InboundEvent {
        match name {
            "MESSAGE_CREATE" => self.read_message(data, None, false),
            "MESSAGE_UPDATE" => match data.get("edited_timestamp") {
                None | Some(Value::Null) => InboundEvent::Ignored("its text did not change"),
                Some(_) if data.get("content").is_none() => InboundEvent::Ignored("it contains no text"),
                // For example, an old message was pinned or got a preview.
                Some(time) if self.predates_bot(data, time) => {
                    InboundEvent::Ignored("it was edited before the bot was there")
                }
                Some(_) => self.read_message(data, None, true),
            },
            "INTERACTION_CREATE" => self.read_interaction(data),
            _ => InboundEvent::Ignored("its kind is not handled"),
        }
    }

    /// Reads a message of the history: in its last edited state, without guild and member. `guild` is the guild of the
    /// requested channel.
    pub(crate) fn read_history(&self, message: &Value, guild: Option<u64>) -> InboundEvent {
        self.read_message(message, guild, true)
    }

    /// Reads a message; `edited` means that an edited message gets its own dedup key.
    fn read_message(&self, raw: &Value, guild: Option<u64>, edited: bool) -> InboundEvent {
        // The parser's error would repeat what people wrote.
        let Ok(message) = Message::read(raw) else {
            return InboundEvent::Undecodable("its message has an unknown form");
        };
        let Message { head, content } = &message;
        if head.author.id.0 == self.bot.user_id {
            return InboundEvent::Ignored("the bot wrote it itself");
        }
        if head.is_by_program() {
            return InboundEvent::Ignored("a program wrote it");
        }
        if !PERSON_MESSAGE_TYPES.contains(&content.kind) {
            return InboundEvent::Ignored("it tells of something that happened in the channel");
        }
        let guild = head.guild_id.map(|guild| guild.0).or(guild);
        let guild = guild.or_else(|| self.cache.guild_id(head.channel_id.0));
        let mut parsed = self.parse(&message, guild);
        let is_to_bot = guild.is_none() || self.is_to_bot(&parsed);
        if !is_to_bot && !self.is_mention_optional(head.channel_id.0) {
            return InboundEvent::Ignored("it was not written to the bot");
        }
        if content.is_empty() && !head.is_forward() {
            if !is_to_bot {
                return InboundEvent::Ignored(EMPTY_MESSAGE_REASON);
            }
            parsed.unreadable = Some(if guild.is_some() { HIDDEN_REASON } else { UNKNOWN_REASON });
        }
        let nick = head.member.as_ref().and_then(|member| member.nick.as_deref());
        let (text, files) = text::compose_text_and_files(&parsed, self, ReplyDisclosure::Full);
        let redacted_forms = self.redacted_form(&parsed, raw).into_iter().collect();
        let id = head.id.0.to_string();
        let (key, edit_of) = match &head.edited_timestamp {
            Some(time) if edited => (format!("{id}:{time}"), Some(id.clone())),
            _ => (id.clone(), None),
        };
        let is_edit = edit_of.is_some();
        let message = InboundMessage {
            edit_of,
            parents: self.parent_conversations(head.channel_id.0),
            group: guild.is_some(),
            sent_at: sent_at(head.id.0, head.edited_timestamp.as_deref().filter(|_| edited)),
            text,
            files,
            content_digest: Some(digest_content(content)),
            may_continue: may_be_cut(content.text.encode_utf16().count(), &TEXT_LIMITS),
            message: Some(MessageRef(id)),
            raw: stored_message(raw),
            redacted_forms,
            ..InboundMessage::new(snowflake::conversation_id(head.channel_id.0), key, sender(&head.author, nick))
        };
        // The files that an edited message still has are the same files.
        let message = if is_edit { message.with_quoted_files() } else { message };
        InboundEvent::Message(Box::new(message))
    }

    /// Parses the text of a message that was written in a guild, or in a direct channel.
    fn parse<'a>(&self, message: &'a Message, guild: Option<u64>) -> ParsedMessage<'a> {
        let content = &message.content;
        let bot_mentions = BotMentions {
            user: self.bot.user_id,
            role: guild.and_then(|guild| self.cache.bot_role(guild, self.bot.user_id)),
        };
        let text = text::parse_text(&content.text, self.mention_names(content), bot_mentions);
        let command = self.leading_command(&text.text);
        ParsedMessage { message, bot_mentions, text, command, original: None, unreadable: None }
    }

    /// Returns what a message becomes if the person may not talk whose message it replies to. Programs are no people.
    /// Discord doesn't say who wrote a forwarded message, so it counts as its sender's own.
    fn redacted_form(&self, parsed: &ParsedMessage<'_>, raw: &Value) -> Option<RedactedForm> {
        let head = &parsed.message.head;
        let replied = &head.replied_to()?.head;
        if replied.is_by_program() || replied.author.id == head.author.id {
            return None;
        }
        let (text, files) = text::compose_text_and_files(parsed, self, ReplyDisclosure::Hidden);
        let raw = without_reply(raw, replied.author.id.0);
        Some(RedactedForm { author: sender(&replied.author, None), text, files, raw })
    }

    /// Whether an edit is older than the bot's membership in the message's channel.
    fn predates_bot(&self, message: &Value, time: &Value) -> bool {
        let guild = snowflake::read(message, "guild_id");
        let guild = guild.or_else(|| self.cache.guild_id(snowflake::read(message, "channel_id")?));
        let visible_since = guild.map_or(0, |guild| self.cache.first_visible_id(guild)).max(self.start_id);
        let edited_id = time.as_str().and_then(snowflake::from_second);
        edited_id.is_some_and(|edited_id| edited_id + snowflake::span(1_000) <= visible_since)
    }

    /// Whether a message in a guild is to the bot: it mentions the bot or replies to it.
    fn is_to_bot(&self, parsed: &ParsedMessage<'_>) -> bool {
        let Message { head, content } = parsed.message;
        parsed.text.mentions_bot
            || content.mentions.iter().any(|user| user.id.0 == parsed.bot_mentions.user)
            || content.mention_roles.iter().any(|role| Some(role.0) == parsed.bot_mentions.role)
            || head.replied_to().is_some_and(|replied| replied.head.author.id.0 == self.bot.user_id)
    }

    /// Whether all messages in a channel are for the bot: the configuration lists it, one of its parents, or `*`.
    fn is_mention_optional(&self, channel_id: u64) -> bool {
        let ancestors: Vec<u64> = self.with_parents(channel_id).collect();
        self.answers_in.iter().any(|entry| {
            let entry = entry.trim();
            let entry = entry.strip_prefix("discord:").unwrap_or(entry);
            entry == "*" || entry.parse().is_ok_and(|id: u64| ancestors.contains(&id))
        })
    }

    /// A thread, its channel, and the category of that; or the last two.
    fn with_parents(&self, channel_id: u64) -> impl Iterator<Item = u64> {
        iter::successors(Some(channel_id), |inner| self.cache.parent_id(*inner)).take(3)
    }

    /// The conversations that a channel is part of.
    fn parent_conversations(&self, channel_id: u64) -> Vec<ConversationId> {
        self.with_parents(channel_id).skip(1).map(snowflake::conversation_id).collect()
    }

    /// Returns the command that a text starts with.
    fn leading_command(&self, text: &str) -> Option<LeadingCommand> {
        let name = text.split_whitespace().next()?.strip_prefix('/')?.to_lowercase();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        is_name.then(|| if self.commands.contains(&name) { LeadingCommand::Own } else { LeadingCommand::Other })
    }

    fn mention_names<'a>(&'a self, content: &'a MessageContent) -> MentionNames<'a> {
        MentionNames { people: &content.mentions, cache: &self.cache }
    }

    /// Reads a slash command or a button's command as a message of the person who used it. A button whose command isn't
    /// Satchel's own yields no message: nobody wrote it, and the button may be from an earlier version.
    fn read_interaction(&self, raw: &Value) -> InboundEvent {
        const INVALID_INTERACTION: InboundEvent = InboundEvent::Undecodable("its interaction has an unknown form");
        let (Ok(interaction), Some(token)) = (Interaction::deserialize(raw), raw.get("token").and_then(Value::as_str))
        else {
            return INVALID_INTERACTION;
        };
        let Interaction { id, kind, channel_id, guild_id, context, member, user, message, data } = interaction;
        if kind != APPLICATION_COMMAND && kind != MESSAGE_COMPONENT {
            return InboundEvent::Ignored("it is an interaction of a kind that is not registered");
        }
        let invoker = match (&member, &user) {
            (Some(InteractionMember { user, nick }), _) => Some((user, nick.as_deref())),
            (None, Some(user)) => Some((user, None)),
            (None, None) => None,
        };
        let (Some((user, nick)), Some(channel), Some(data)) = (invoker, channel_id, data) else {
            return INVALID_INTERACTION;
        };
        let (text, kind) = match (kind, data.name, data.custom_id) {
            (APPLICATION_COMMAND, Some(_), _) if data.kind != CHAT_INPUT => {
                return InboundEvent::Ignored("it is a command of a menu");
            }
            (APPLICATION_COMMAND, Some(name), _) => {
                let arguments = data.options.iter().map(|option| match &option.value {
                    Value::String(value) => value.trim().to_owned(),
                    other => other.to_string(),
                });
                let words_with_name: Vec<String> =
                    iter::once(format!("/{name}")).chain(arguments).filter(|word| !word.is_empty()).collect();
                let text = words_with_name.join(" ");
                (Some(text.clone()), InteractionResponseKind::Command { said: text })
            }
            (MESSAGE_COMPONENT, _, Some(command)) => (
                Some(command).filter(|command| self.leading_command(command) == Some(LeadingCommand::Own)),
                InteractionResponseKind::Press,
            ),
            _ => return INVALID_INTERACTION,
        };
        let is_press = matches!(kind, InteractionResponseKind::Press);
        let inbound_message = text.map(|text| {
            let key = format!("i{}", id.0);
            Box::new(InboundMessage {
                parents: self.parent_conversations(channel.0),
                group: guild_id.is_some() || context == Some(CONTEXT_PRIVATE_CHANNEL),
                text,
                message: message.map(|message| MessageRef(message.id.0.to_string())),
                pressed: is_press,
                raw: without_quotations(&without_token(raw)),
                ..InboundMessage::new(snowflake::conversation_id(channel.0), key, sender(user, nick))
            })
        });
        let interaction = PendingInteraction { id: id.0, token: SecretString::from(token), kind };
        InboundEvent::Interaction { interaction, message: inbound_message }
    }
}

/// Returns an event without the interaction's token, with which anyone could respond as the bot.
pub(crate) fn without_token(raw: &Value) -> Value {
    let mut stripped = raw.clone();
    if let Some(fields) = stripped.as_object_mut() {
        fields.remove("token");
    }
    stripped
}

/// Returns an event without what its messages show of others: of one that can't be read it is unknown whose that is, and so it
/// is of the bot's message under which somebody has pressed a button.
pub(crate) fn without_quotations(raw: &Value) -> Value {
    match raw {
        Value::Object(fields) => {
            let own = fields.iter().filter(|(name, _)| !OTHERS_FIELDS.contains(&name.as_str()));
            Value::Object(own.map(|(name, value)| (name.clone(), without_quotations(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_quotations).collect()),
        other => other.clone(),
    }
}

/// Returns a reply as it is stored if the author of the message that it answers may talk. That message may itself quote other
/// people. Nobody checks whether those may talk, so nothing of theirs is stored.
fn stored_message(raw: &Value) -> Value {
    let mut stored = raw.clone();
    if let Some(replied) = stored.get_mut(REPLIED_MESSAGE_FIELD) {
        *replied = without_quotations(replied);
    }
    stored
}

/// Returns an event without the message that its message replies to, and without that message's author, whom Discord mentions
/// in each reply.
fn without_reply(raw: &Value, author: u64) -> Value {
    let mut redacted = raw.clone();
    if let Some(fields) = redacted.as_object_mut() {
        fields.remove(REPLIED_MESSAGE_FIELD);
        if let Some(mentions) = fields.get_mut("mentions").and_then(Value::as_array_mut) {
            mentions.retain(|mentioned| snowflake::read(mentioned, "id") != Some(author));
        }
    }
    redacted
}

fn sender(user: &User, nick: Option<&str>) -> Sender {
    Sender {
        id: user.id.0.to_string(),
        name: sanitize_name(nick.unwrap_or_else(|| user.name())),
        handle: user.handle().map(str::to_owned),
    }
}

/// Removes invisible characters from a name and truncates it.
fn sanitize_name(name: &str) -> String {
    let visible: String = name.chars().filter(|c| !is_unsafe_char(*c)).take(100).collect();
    visible.trim().to_owned()
}

impl MessageContent {
    /// Whether it has no visible content.
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.attachments.is_empty() && describe_content(self).is_none()
    }
}

impl MessageHeader {
    /// Whether it forwards another message.
    fn is_forward(&self) -> bool {
        matches!(&self.message_reference, Some(MessageReference { kind: FORWARD }))
            || !self.message_snapshots.is_empty()
    }

    fn is_by_program(&self) -> bool {
        self.author.bot || self.author.system || self.webhook_id.is_some()
    }

    fn replied_to(&self) -> Option<&Message> {
        self.referenced_message.as_deref().filter(|_| !self.is_forward())
    }
}

/// Returns the files of a message, in the order in which people see them.
fn message_files(message: &Message) -> Vec<FileReference> {
    let Message { head, content } = message;
    let voice_note = content.flags & VOICE_MESSAGE != 0;
    file_references(content, head).map(|file| FileReference { voice_note, ..file }).collect()
}

/// Returns the files of a message that the sender replies to, or forwards with `head`. A voice message among them is
/// someone else's, so it counts as an audio file and not as the sender's voice note.
fn quoted_files(content: &MessageContent, head: &MessageHeader) -> Vec<FileReference> {
    let quote = |(index, file)| FileReference { quoted: Some(QuotedFile { shown_in: None, index }), ..file };
    (0..).zip(file_references(content, head)).map(quote).collect()
}

fn file_references<'a>(
    content: &'a MessageContent,
    carrier: &'a MessageHeader,
) -> impl Iterator<Item = FileReference> + 'a {
    content.attachments.iter().map(|attachment| {
        let locator = FileLocator {
            url: attachment.url.clone(),
            channel: carrier.channel_id.0,
            message: carrier.id.0,
            attachment: attachment.id.0,
        };
        let locator = serde_json::to_string(&locator).expect("texts and numbers are JSON");
        let mime = attachment.content_type.as_deref().and_then(|mime| mime.split(';').next());
        FileReference {
            mime: mime.map(|mime| mime.trim().to_lowercase()).filter(|mime| !mime.is_empty()),
            bytes: attachment.size,
            source_url: Some(attachment.url.clone()),
            caption: attachment.description.clone().unwrap_or_default(),
            platform_id: Some(attachment.id.0.to_string()),
            ..FileReference::new(locator, Filename::from_untrusted(&original_name(attachment)))
        }
    })
}

/// Returns the original name of a file. Discord replaces some characters in `filename` and puts the original name into
/// `title`, without its extension.
fn original_name(attachment: &Attachment) -> String {
    let filename = attachment.filename.trim();
    let Some(title) = attachment.title.as_deref().map(str::trim).filter(|title| !title.is_empty()) else {
        return filename.to_owned();
    };
    // A slash in a title doesn't separate directories.
    let title = title.replace(['/', '\\'], "-");
    match filename.rsplit_once('.') {
        Some((_, extension)) if !has_extension(&title, extension) => format!("{title}.{extension}"),
        _ => title,
    }
}

fn has_extension(title: &str, extension: &str) -> bool {
    title.rsplit_once('.').is_some_and(|(_, existing)| existing.eq_ignore_ascii_case(extension))
}

/// When a message was sent, or edited if it is an edit.
fn sent_at(id: u64, edited_at: Option<&str>) -> Option<Timestamp> {
    let id = edited_at.and_then(snowflake::from_second).unwrap_or(id);
    i64::try_from(snowflake::unix_ms(id)).ok().map(Timestamp)
}

#[cfg(test)]
mod tests;
