//! What an event means: a message for us, a slash command, a pressed button, or nothing. Pure.

mod fallback_text;
mod files;
mod reply;
mod text;

use std::{iter, sync::Arc};

use satchel_domain::{InboundMessage, MessageRef, Sender, Timestamp, filename::is_unsafe_char};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

use self::{
    fallback_text::describe_content,
    text::{BotMentions, MentionNames, ParsedText},
};
use super::{
    interactions::{InteractionResponseKind, PendingInteraction},
    wire::{Interaction, InteractionMember, Message, MessageContent, MessageReference, User},
};
use crate::{address, cache::GuildCache, snowflake};

/// Satchel's own commands that no menu offers, since they come with a code that it has told, or are its owners' alone, and
/// the one that is offered only where links are given. Whatever the menu holds, they are commands.
const UNREGISTERED_COMMANDS: [&str; 4] = ["allow", "refuse", "pair", "unlink"];

/// The kinds of messages that people write: by themselves and as an answer (Message Types).
const WRITTEN: [u64; 2] = [0, 19];

/// A reference to a message that is passed on (Message Reference Types).
const FORWARD: u64 = 1;

/// Interactions: a command, and a component such as a button (Interaction Type).
const COMMAND: u64 = 2;
const COMPONENT: u64 = 3;

/// Where several people write without a guild, or without us (Interaction Context Types, `PRIVATE_CHANNEL`).
const CONTEXT_PRIVATE_CHANNEL: u64 = 2;

/// A command that was typed with a slash (Application Command Types).
const TYPED: u64 = 1;

/// Why a message for us says nothing: Discord takes out what people write where the bot has not asked to read it.
pub(crate) const EMPTIED: &str = "it was written for the bot but is empty: without the Message Content Intent, Discord \
    hides guild messages that don't mention the bot";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BotIdentity {
    /// Its user, by which it is mentioned.
    pub(crate) user_id: u64,
    /// Its application, to which its commands belong.
    pub(crate) application_id: u64,
}

/// What an event means.
#[derive(Debug, Clone)]
pub(crate) enum InboundEvent {
    /// Somebody wrote to us.
    Message(Box<InboundMessage>),
    /// Somebody used a command or pressed a button of ours, which waits for an answer. Nothing is said by one that
    /// carries no command.
    Interaction {
        interaction: PendingInteraction,
        /// What was said with it.
        message: Option<Box<InboundMessage>>,
    },
    /// Nothing that concerns us; the reason is for the log.
    Ignored(&'static str),
    /// Something that can't be read; the reason holds nothing of it.
    Undecodable(&'static str),
}

/// Reads events for one bot.
#[derive(Debug)]
pub(crate) struct InboundReader {
    us: BotIdentity,
    /// The id up to which nothing is for us, because we were not there yet.
    begun_at: u64,
    answers_in: Vec<String>,
    known: Arc<GuildCache>,
    commands: Vec<String>,
}

/// A message on its way to being read.
struct ParsedMessage<'a> {
    message: &'a Message,
    ours: BotMentions,
    said: ParsedText,
    /// The command of ours that its words begin with, or any other word with a slash.
    command: Option<LeadingCommand>,
}

/// A command at the beginning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeadingCommand {
    /// One that Satchel answers itself.
    Own,
    /// One that it doesn't know; whoever answers may make something of it.
    Other,
}

impl InboundReader {
    /// A reader for the bot that is `us`, and was not there up to the id `begun_at`. `commands` are the names of those that Satchel answers itself.
    pub(crate) fn new(
        us: BotIdentity,
        begun_at: u64,
        answers_in: Vec<String>,
        known: Arc<GuildCache>,
        commands: Vec<String>,
    ) -> Self {
        let commands = commands.iter().map(|name| name.to_lowercase()).chain(UNREGISTERED_COMMANDS.map(str::to_owned));
        Self { us, begun_at, answers_in, known, commands: commands.collect() }
    }

    /// Reads an event by its name and data.
    pub(crate) fn read(&self, name: &str, data: &Value) -> InboundEvent {
        match name {
            "MESSAGE_CREATE" => self.message(data, None, false),
            "MESSAGE_UPDATE" => match data.get("edited_timestamp") {
                None | Some(Value::Null) => InboundEvent::Ignored("its text did not change"),
                Some(_) if data.get("content").is_none() => InboundEvent::Ignored("it contains no text"),
                // As when a message is pinned, or a preview is added, that was there before we were.
                Some(time) if self.predates_bot(data, time) => {
                    InboundEvent::Ignored("it was edited before we were there")
                }
                Some(_) => self.message(data, None, true),
            },
            "INTERACTION_CREATE" => self.interaction(data),
            _ => InboundEvent::Ignored("its kind says nothing to us"),
        }
    }

    /// Reads a message as history tells it: as its last edit left it, without the guild and the member. `guild` is where
    /// it was asked for.
    pub(crate) fn read_history(&self, message: &Value, guild: Option<u64>) -> InboundEvent {
        self.message(message, guild, true)
    }

    /// Reads a message; `edited` says whether an edit is one of its own.
    fn message(&self, raw: &Value, guild: Option<u64>, edited: bool) -> InboundEvent {
        // The parser's own words would repeat what people have written.
        let Ok(message) = Message::read(raw) else {
            return InboundEvent::Undecodable("its message has another form than Discord's");
        };
        let Message { head, content } = &message;
        if head.author.id.0 == self.us.user_id {
            return InboundEvent::Ignored("the bot wrote it itself");
        }
        if head.author.bot || head.author.system || head.webhook_id.is_some() {
            return InboundEvent::Ignored("a program wrote it");
        }
        if !WRITTEN.contains(&content.kind) {
            return InboundEvent::Ignored("it tells of something that happened in the channel");
        }
        let guild = head.guild_id.map(|guild| guild.0).or(guild);
        let guild = guild.or_else(|| self.known.guild_of(head.channel_id.0));
        let ours = BotMentions {
            user: self.us.user_id,
            role: guild.and_then(|guild| self.known.role_of(guild, self.us.user_id)),
        };
        let said = text::parse_text(&content.text, self.names(content), ours);
        let written = ParsedMessage { command: self.command(&said.text), message: &message, ours, said };
        if guild.is_some() && !self.is_addressed_to_bot(&written) {
            return InboundEvent::Ignored("it was not written to the bot");
        }
        if content.is_empty() && head.message_snapshots.is_empty() {
            return match guild {
                Some(_) => InboundEvent::Ignored(EMPTIED),
                None => InboundEvent::Undecodable("its message carries nothing that is known"),
            };
        }
        let nick = head.member.as_ref().and_then(|member| member.nick.as_deref());
        let (text, files) = reply::compose(&written, self);
        let id = head.id.0.to_string();
        let (key, edit_of) = match &head.edited_timestamp {
            Some(time) if edited => (format!("{id}:{time}"), Some(id.clone())),
            _ => (id.clone(), None),
        };
        InboundEvent::Message(Box::new(InboundMessage {
            edit_of,
            group: guild.is_some(),
            sent_at: i64::try_from(snowflake::unix_ms(head.id.0)).ok().map(Timestamp),
            text,
            files,
            message: Some(MessageRef(id)),
            raw: raw.clone(),
            ..InboundMessage::new(address::conversation(head.channel_id.0), key, sender(&head.author, nick))
        }))
    }

    /// Whether an edit at a time is older than we are where the message stands.
    fn predates_bot(&self, message: &Value, time: &Value) -> bool {
        let guild = snowflake::read(message, "guild_id");
        let guild = guild.or_else(|| self.known.guild_of(snowflake::read(message, "channel_id")?));
        let there_since = guild.map_or(0, |guild| self.known.first_visible_id(guild)).max(self.begun_at);
        let edited = time.as_str().and_then(snowflake::from_second);
        edited.is_some_and(|edited| edited + snowflake::span(1_000) <= there_since)
    }

    /// Whether somebody in a guild wrote to us: by our name, in reply, or where we answer everything.
    fn is_addressed_to_bot(&self, written: &ParsedMessage<'_>) -> bool {
        let Message { head, content } = written.message;
        written.said.mentions_us
            || content.mentions.iter().any(|user| user.id.0 == written.ours.user)
            || content.mention_roles.iter().any(|role| Some(role.0) == written.ours.role)
            || head.replied_to().is_some_and(|answered| answered.head.author.id.0 == self.us.user_id)
            || self.answers_in(head.channel_id.0)
    }

    /// Whether everything in a channel is for us: it is named itself, or what its threads belong to, or all are.
    fn answers_in(&self, channel: u64) -> bool {
        // A thread, its channel, and the category of that.
        let around: Vec<u64> = iter::successors(Some(channel), |inner| self.known.parent_of(*inner)).take(3).collect();
        self.answers_in.iter().any(|place| {
            let place = place.trim();
            let place = place.strip_prefix("discord:").unwrap_or(place);
            place == "*" || place.parse().is_ok_and(|named: u64| around.contains(&named))
        })
    }

    /// The command that a text begins with.
    fn command(&self, text: &str) -> Option<LeadingCommand> {
        let name = text.split_whitespace().next()?.strip_prefix('/')?.to_lowercase();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        is_name.then(|| if self.commands.contains(&name) { LeadingCommand::Own } else { LeadingCommand::Other })
    }

    fn names<'a>(&'a self, content: &'a MessageContent) -> MentionNames<'a> {
        MentionNames { people: &content.mentions, known: &self.known }
    }

    /// A command is said by whoever used it, and so is the one that a button carries. What is no command of ours is not
    /// taken for anybody's words: nobody has written it, and a button may be older than we are.
    fn interaction(&self, raw: &Value) -> InboundEvent {
        const NOT_DISCORDS: InboundEvent = InboundEvent::Undecodable("its interaction has another form than Discord's");
        let (Ok(interaction), Some(token)) = (Interaction::deserialize(raw), raw.get("token").and_then(Value::as_str))
        else {
            return NOT_DISCORDS;
        };
        let Interaction { id, kind, channel_id, guild_id, context, member, user, message, data } = interaction;
        if kind != COMMAND && kind != COMPONENT {
            return InboundEvent::Ignored("it is an interaction of a kind that was not offered");
        }
        let who = match (&member, &user) {
            (Some(InteractionMember { user, nick }), _) => Some((user, nick.as_deref())),
            (None, Some(user)) => Some((user, None)),
            (None, None) => None,
        };
        let (Some((user, nick)), Some(channel), Some(data)) = (who, channel_id, data) else { return NOT_DISCORDS };
        let (said, kind) = match (kind, data.name, data.custom_id) {
            (COMMAND, Some(_), _) if data.kind != TYPED => return InboundEvent::Ignored("it is a command of a menu"),
            (COMMAND, Some(name), _) => {
                let words = data.options.iter().map(|option| match &option.value {
                    Value::String(words) => words.trim().to_owned(),
                    other => other.to_string(),
                });
                let words: Vec<String> =
                    iter::once(format!("/{name}")).chain(words).filter(|word| !word.is_empty()).collect();
                let said = words.join(" ");
                (Some(said.clone()), InteractionResponseKind::Command { said })
            }
            (COMPONENT, _, Some(command)) => (
                Some(command).filter(|command| self.command(command) == Some(LeadingCommand::Own)),
                InteractionResponseKind::Press,
            ),
            _ => return NOT_DISCORDS,
        };
        let said = said.map(|text| {
            let key = format!("i{}", id.0);
            Box::new(InboundMessage {
                group: guild_id.is_some() || context == Some(CONTEXT_PRIVATE_CHANNEL),
                text,
                message: message.map(|message| MessageRef(message.id.0.to_string())),
                raw: without_token(raw),
                ..InboundMessage::new(address::conversation(channel.0), key, sender(user, nick))
            })
        });
        let interaction = PendingInteraction { id: id.0, token: SecretString::from(token), kind };
        InboundEvent::Interaction { interaction, message: said }
    }
}

/// An event as it may be kept: the token of an interaction lets whoever has it answer in our name.
pub(crate) fn without_token(raw: &Value) -> Value {
    let mut kept = raw.clone();
    if let Some(fields) = kept.as_object_mut() {
        fields.remove("token");
    }
    kept
}

fn sender(user: &User, nick: Option<&str>) -> Sender {
    Sender {
        id: user.id.0.to_string(),
        name: sanitize_name(nick.unwrap_or_else(|| user.name())),
        handle: user.handle().map(str::to_owned),
    }
}

/// A name without anything that can't be seen, and not longer than anybody reads.
fn sanitize_name(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !is_unsafe_char(*c)).take(100).collect();
    shown.trim().to_owned()
}

impl MessageContent {
    /// Whether nobody could see anything in it.
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.attachments.is_empty() && describe_content(self).is_none()
    }
}

impl super::wire::MessageHeader {
    /// Whether it passes on another message.
    fn forwards(&self) -> bool {
        matches!(&self.message_reference, Some(MessageReference { kind: FORWARD }))
            || !self.message_snapshots.is_empty()
    }

    fn replied_to(&self) -> Option<&Message> {
        self.referenced_message.as_deref().filter(|_| !self.forwards())
    }
}

#[cfg(test)]
mod tests;
