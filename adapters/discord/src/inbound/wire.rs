//! The shapes of events as Discord documents them, as far as they are read.
//!
//! Own types and not serenity's: those refuse an event that holds something newer than they know, and a message that
//! can be read must not be lost for it. What a message needs is read strictly, so that no file of it is dropped unseen;
//! what merely adds to it is left out where it has another form.

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// An id: a number that JSON carries as text, since it is larger than what some languages read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snowflake(pub(crate) u64);

/// A person or a bot.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct User {
    pub(crate) id: Snowflake,
    #[serde(default)]
    pub(crate) username: String,
    pub(crate) global_name: Option<String>,
    /// What told names apart while several could have the same; `0` for names that nobody else has.
    pub(crate) discriminator: Option<String>,
    #[serde(default)]
    pub(crate) bot: bool,
    #[serde(default)]
    pub(crate) system: bool,
    /// Told of people who are mentioned in a guild.
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) member: Option<Member>,
}

/// What a guild knows of a person.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Member {
    pub(crate) nick: Option<String>,
}

/// A file of a message.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Attachment {
    pub(crate) id: Snowflake,
    pub(crate) filename: String,
    /// The name as it was, without its extension, where `filename` had to be made of other characters.
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) size: Option<u64>,
    pub(crate) url: String,
}

/// What a link or a bot shows beneath a message.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Embed {
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) url: Option<String>,
    #[serde(default, deserialize_with = "lenient_vec")]
    pub(crate) fields: Vec<EmbedField>,
}

/// A line of an embed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EmbedField {
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Sticker {
    pub(crate) name: String,
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

/// The words of a question or an answer.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PollMedia {
    pub(crate) text: Option<String>,
}

/// Which message another one is about.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MessageReference {
    /// 1 where it is passed on; else it is answered.
    #[serde(rename = "type", default)]
    pub(crate) kind: u64,
}

/// What a message says and carries. What is known of one that was passed on has the same form.
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
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) flags: u64,
}

/// Who wrote a message, where, and what it is about.
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

/// What was passed on, as it was then.
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
    /// What sort of place it is.
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) context: Option<u64>,
    /// In a guild, who did it.
    pub(crate) member: Option<InteractionMember>,
    /// Elsewhere, who did it.
    pub(crate) user: Option<User>,
    pub(crate) message: Option<InteractionMessage>,
    #[serde(default, deserialize_with = "lenient_option")]
    pub(crate) data: Option<InteractionData>,
}

/// Who did something in a guild.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct InteractionMember {
    pub(crate) user: User,
    pub(crate) nick: Option<String>,
}

/// The message that a button stands beneath.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct InteractionMessage {
    pub(crate) id: Snowflake,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct InteractionData {
    /// Of a command: 1 where it was typed with a slash.
    #[serde(rename = "type", default)]
    pub(crate) kind: u64,
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "lenient_vec")]
    pub(crate) options: Vec<CommandOption>,
    pub(crate) custom_id: Option<String>,
}

/// What was written for one of a command's options.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CommandOption {
    pub(crate) value: Value,
}

/// What is kept of a file until it is fetched: its address, and where another one is had when that has expired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileLocator {
    pub(crate) url: String,
    /// The channel of the message that carries it.
    pub(crate) channel: u64,
    pub(crate) message: u64,
    /// The file's own number.
    pub(crate) attachment: u64,
}

// Read in two passes and not with `flatten`, which reads numbers in another way than `serde_json` does elsewhere.
impl TryFrom<Value> for Message {
    type Error = serde_json::Error;

    fn try_from(message: Value) -> Result<Self, Self::Error> {
        Self::read(&message)
    }
}

impl Message {
    /// Reads a message; an error where what it needs is missing or has another form.
    pub(crate) fn read(message: &Value) -> serde_json::Result<Self> {
        Ok(Self { head: MessageHeader::deserialize(message)?, content: MessageContent::deserialize(message)? })
    }
}

impl User {
    /// The name that people see, where no guild knows another one.
    pub(crate) fn name(&self) -> &str {
        let nick = self.member.as_ref().and_then(|member| member.nick.as_deref());
        nick.or(self.global_name.as_deref()).unwrap_or(&self.username)
    }

    /// The name that nobody else has. Names from the time when several had the same are none.
    pub(crate) fn handle(&self) -> Option<&str> {
        let alone = self.discriminator.as_deref().is_none_or(|number| number == "0");
        Some(self.username.as_str()).filter(|name| alone && !name.is_empty())
    }
}

impl<'de> Deserialize<'de> for Snowflake {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| serde::de::Error::custom("an id is a number in quotes"))
    }
}

/// Reads something that may be `null`.
fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads something that can be done without.
fn lenient_option<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    Value::deserialize(deserializer).map(|value| serde_json::from_value(value).ok())
}

/// Reads those of several things that can be read, and that can be done without.
fn lenient_vec<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let items = match Value::deserialize(deserializer)? {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}
