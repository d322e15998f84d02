//! The parts of Discord's documented events that are read.
//!
//! Own types and not serenity's, which reject an event with values newer than they know; a readable message must not be
//! lost for that. Required fields are decoded strictly, so that no file is dropped silently; optional fields are
//! left out if they have an unknown form.

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// An id: a number as text, because some languages can't represent it as a JSON number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snowflake(pub(crate) u64);

/// A person or a bot.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct User {
    pub(crate) id: Snowflake,
    #[serde(default)]
    pub(crate) username: String,
    pub(crate) global_name: Option<String>,
    /// Distinguished equal names before names became unique; `0` for unique names.
    pub(crate) discriminator: Option<String>,
    #[serde(default)]
    pub(crate) bot: bool,
    #[serde(default)]
    pub(crate) system: bool,
    /// Set for people who are mentioned in a guild.
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) member: Option<Member>,
}

/// A person's membership in a guild.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Member {
    pub(crate) nick: Option<String>,
}

/// A file of a message.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Attachment {
    pub(crate) id: Snowflake,
    pub(crate) filename: String,
    /// The original name without its extension, if `filename` was rewritten.
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) size: Option<u64>,
    pub(crate) url: String,
}

/// The preview of a link, or rich content of a bot.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Embed {
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) url: Option<String>,
    #[serde(default, deserialize_with = "lenient_vec")]
    pub(crate) fields: Vec<EmbedField>,
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) author: Option<EmbedAuthor>,
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) footer: Option<EmbedFooter>,
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) image: Option<EmbedImage>,
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) thumbnail: Option<EmbedImage>,
}

/// Who is named above an embed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EmbedAuthor {
    pub(crate) name: String,
}

/// The small text below an embed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EmbedFooter {
    pub(crate) text: String,
}

/// A picture of an embed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EmbedImage {
    pub(crate) url: String,
}

/// A field of an embed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EmbedField {
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Sticker {
    pub(crate) name: String,
}

/// A part of a message that is laid out by its app: text, or something with parts of its own.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Component {
    #[serde(rename = "type", default)]
    pub(crate) kind: u64,
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) content: Option<String>,
    #[serde(default, deserialize_with = "lenient_vec")]
    pub(crate) components: Vec<Component>,
}

/// A question with answers to choose from.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Poll {
    pub(crate) question: PollMedia,
    #[serde(default)]
    pub(crate) answers: Vec<PollAnswer>,
}

/// An answer to choose.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PollAnswer {
    pub(crate) poll_media: PollMedia,
}

/// The text of a question or an answer.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PollMedia {
    pub(crate) text: Option<String>,
}

/// A reference to another message.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MessageReference {
    /// 1 for a forward, 0 for a reply.
    #[serde(rename = "type", default)]
    pub(crate) kind: u64,
}

/// The content of a message. A forwarded message has the same form.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MessageContent {
    #[serde(rename = "type", default)]
    pub(crate) kind: u64,
    #[serde(rename = "content", default, deserialize_with = "null_as_default")]
    pub(crate) text: String,
    #[serde(default, deserialize_with = "lenient_vec")]
    pub(crate) mentions: Vec<User>,
    #[serde(default, deserialize_with = "lenient_vec")]
    pub(crate) mention_roles: Vec<Snowflake>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) attachments: Vec<Attachment>,
    #[serde(default, deserialize_with = "lenient_vec")]
    pub(crate) embeds: Vec<Embed>,
    #[serde(default, deserialize_with = "lenient_vec")]
    pub(crate) sticker_items: Vec<Sticker>,
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) poll: Option<Poll>,
    #[serde(default, deserialize_with = "lenient_vec")]
    pub(crate) components: Vec<Component>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) flags: u64,
}

/// The author, the channel and the references of a message.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MessageHeader {
    pub(crate) id: Snowflake,
    pub(crate) channel_id: Snowflake,
    pub(crate) guild_id: Option<Snowflake>,
    pub(crate) author: User,
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) member: Option<Member>,
    pub(crate) webhook_id: Option<Snowflake>,
    pub(crate) edited_timestamp: Option<String>,
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) message_reference: Option<MessageReference>,
    pub(crate) referenced_message: Option<Box<Message>>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) message_snapshots: Vec<MessageSnapshot>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct Message {
    pub(crate) head: MessageHeader,
    pub(crate) content: MessageContent,
}

/// A forwarded message, as it was at that time.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MessageSnapshot {
    pub(crate) message: MessageContent,
}

/// A slash command or a pressed button. Its token is read apart, so that no `Debug` shows it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Interaction {
    pub(crate) id: Snowflake,
    #[serde(rename = "type")]
    pub(crate) kind: u64,
    pub(crate) channel_id: Option<Snowflake>,
    pub(crate) guild_id: Option<Snowflake>,
    /// The kind of channel.
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) context: Option<u64>,
    /// The person who used it, in a guild.
    pub(crate) member: Option<InteractionMember>,
    /// The person who used it, elsewhere.
    pub(crate) user: Option<User>,
    pub(crate) message: Option<InteractionMessage>,
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) data: Option<InteractionData>,
}

/// The person who used an interaction in a guild.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct InteractionMember {
    pub(crate) user: User,
    pub(crate) nick: Option<String>,
}

/// The message to which a button belongs.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct InteractionMessage {
    pub(crate) id: Snowflake,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct InteractionData {
    /// The type of a command: 1 for a slash command.
    #[serde(rename = "type", default)]
    pub(crate) kind: u64,
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "lenient_vec")]
    pub(crate) options: Vec<CommandOption>,
    pub(crate) custom_id: Option<String>,
}

/// The value of a command's option.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CommandOption {
    pub(crate) value: Value,
}

/// The stored reference of a file: its link, and the message from which an expired link is refreshed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileLocator {
    pub(crate) url: String,
    /// The channel of the message that carries it.
    pub(crate) channel: u64,
    pub(crate) message: u64,
    pub(crate) attachment: u64,
}

// Decoded in two passes and not with `flatten`, which decodes numbers differently from `serde_json`.
impl TryFrom<Value> for Message {
    type Error = serde_json::Error;

    fn try_from(message: Value) -> Result<Self, Self::Error> {
        Self::read(&message)
    }
}

impl Message {
    /// Decodes a message; fails if a required field is missing or has an unknown form.
    pub(crate) fn read(message: &Value) -> serde_json::Result<Self> {
        Ok(Self { head: MessageHeader::deserialize(message)?, content: MessageContent::deserialize(message)? })
    }
}

impl User {
    /// Returns the displayed name: the nickname in the guild, else the global name.
    pub(crate) fn name(&self) -> &str {
        let nick = self.member.as_ref().and_then(|member| member.nick.as_deref());
        nick.or(self.global_name.as_deref()).unwrap_or(&self.username)
    }

    /// Returns the unique user name; `None` for old names with a discriminator.
    pub(crate) fn handle(&self) -> Option<&str> {
        let is_unique = self.discriminator.as_deref().is_none_or(|number| number == "0");
        Some(self.username.as_str()).filter(|name| is_unique && !name.is_empty())
    }
}

impl<'de> Deserialize<'de> for Snowflake {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| serde::de::Error::custom("an id is a number in quotes"))
    }
}

/// Decodes a value that may be `null`.
fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Decodes an optional value; `None` if it has an unknown form.
fn lenient_option<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    Value::deserialize(deserializer).map(|value| serde_json::from_value(value).ok())
}

/// Decodes a list and skips items of an unknown form.
fn lenient_vec<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let items = match Value::deserialize(deserializer)? {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}
