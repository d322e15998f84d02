//! The Bot API's types for updates, with the fields that are used.
//!
//! teloxide's types are not used: they reject a message with an unknown field value, and such an update must not be
//! lost. Everything that may be missing is optional here, and unknown fields are ignored.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Chat {
    pub(crate) id: i64,
    /// `private`, `group`, `supergroup` or `channel`.
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    pub(crate) title: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) first_name: Option<String>,
    pub(crate) last_name: Option<String>,
}

/// A person or a bot.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct User {
    pub(crate) id: i64,
    #[serde(default)]
    pub(crate) is_bot: bool,
    #[serde(default)]
    pub(crate) first_name: String,
    pub(crate) last_name: Option<String>,
    pub(crate) username: Option<String>,
    /// Returned by `getMe` only.
    pub(crate) can_read_all_group_messages: Option<bool>,
}

/// An entity of a text; its offset and length are in UTF-16 units.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MessageEntity {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) offset: usize,
    pub(crate) length: usize,
    pub(crate) url: Option<String>,
    pub(crate) user: Option<User>,
    pub(crate) language: Option<String>,
    /// The time of a date, in seconds since 1970.
    pub(crate) unix_time: Option<i64>,
}

/// Origin of a forwarded message: a user, a hidden user, a chat or a channel.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MessageOrigin {
    pub(crate) sender_user: Option<User>,
    pub(crate) sender_user_name: Option<String>,
    pub(crate) sender_chat: Option<Chat>,
    pub(crate) chat: Option<Chat>,
}

/// The quoted part of the replied-to message.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TextQuote {
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) entities: Vec<MessageEntity>,
    /// Where it is in the text of the replied-to message, in UTF-16 units, as the sender's app says.
    #[serde(default)]
    pub(crate) position: i64,
    /// Whether the sender has chosen it; Telegram adds quotes of its own.
    #[serde(default)]
    pub(crate) is_manual: bool,
}

/// A file of any kind, which decides which fields are set.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MediaFile {
    pub(crate) file_id: String,
    /// The same in every message and for every bot, while `file_id` isn't.
    pub(crate) file_unique_id: Option<String>,
    pub(crate) file_size: Option<u64>,
    pub(crate) file_name: Option<String>,
    pub(crate) mime_type: Option<String>,
    #[serde(default)]
    pub(crate) width: u64,
    #[serde(default)]
    pub(crate) height: u64,
    pub(crate) performer: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) emoji: Option<String>,
    #[serde(default)]
    pub(crate) is_animated: bool,
    #[serde(default)]
    pub(crate) is_video: bool,
}

/// A point on the map.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Location {
    pub(crate) latitude: f64,
    pub(crate) longitude: f64,
    pub(crate) horizontal_accuracy: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Venue {
    pub(crate) location: Location,
    pub(crate) title: String,
    pub(crate) address: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Contact {
    pub(crate) phone_number: String,
    pub(crate) first_name: String,
    pub(crate) last_name: Option<String>,
}

/// A question with answers to choose from.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Poll {
    pub(crate) question: String,
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) description_entities: Vec<MessageEntity>,
    pub(crate) options: Vec<ListItem>,
}

/// A list of things to do.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Checklist {
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) title_entities: Vec<MessageEntity>,
    pub(crate) tasks: Vec<ListItem>,
}

/// An option of a poll, or a task of a checklist.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ListItem {
    /// Of a task.
    pub(crate) id: Option<i64>,
    /// Of an option.
    pub(crate) persistent_id: Option<String>,
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) text_entities: Vec<MessageEntity>,
    #[serde(default)]
    pub(crate) completion_date: i64,
}

/// A die, a dart, a slot machine.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dice {
    pub(crate) emoji: String,
    pub(crate) value: i64,
}

/// A game or an invoice, by its title.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TitledContent {
    pub(crate) title: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PaidMediaInfo {
    pub(crate) paid_media: Vec<PaidMedia>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PaidMedia {
    #[serde(default)]
    pub(crate) photo: Vec<MediaFile>,
    pub(crate) video: Option<MediaFile>,
    pub(crate) live_photo: Option<MediaFile>,
}

/// A message that consists of blocks.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RichMessage {
    pub(crate) blocks: Value,
}

/// The content of a message besides its text, shared by messages and external replies.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MessageContent {
    pub(crate) animation: Option<MediaFile>,
    pub(crate) audio: Option<MediaFile>,
    pub(crate) document: Option<MediaFile>,
    pub(crate) live_photo: Option<MediaFile>,
    pub(crate) paid_media: Option<PaidMediaInfo>,
    pub(crate) photo: Vec<MediaFile>,
    pub(crate) sticker: Option<MediaFile>,
    pub(crate) story: Option<Present>,
    pub(crate) video: Option<MediaFile>,
    pub(crate) video_note: Option<MediaFile>,
    pub(crate) voice: Option<MediaFile>,
    pub(crate) checklist: Option<Checklist>,
    pub(crate) contact: Option<Contact>,
    pub(crate) dice: Option<Dice>,
    pub(crate) game: Option<TitledContent>,
    pub(crate) giveaway: Option<Present>,
    pub(crate) giveaway_winners: Option<Present>,
    pub(crate) invoice: Option<TitledContent>,
    pub(crate) location: Option<Location>,
    pub(crate) poll: Option<Poll>,
    pub(crate) rich_message: Option<RichMessage>,
    pub(crate) venue: Option<Venue>,
}

/// A field of which only the presence matters.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Present {}

/// The fields that every kind of message has.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MessageHeader {
    pub(crate) message_id: i64,
    pub(crate) message_thread_id: Option<i32>,
    #[serde(default)]
    pub(crate) is_topic_message: bool,
    pub(crate) chat: Chat,
    pub(crate) from: Option<User>,
    pub(crate) sender_chat: Option<Chat>,
    #[serde(default)]
    pub(crate) date: i64,
    pub(crate) edit_date: Option<i64>,
    pub(crate) forward_origin: Option<MessageOrigin>,
    /// Whether it is a channel's post that Telegram has put into the channel's group.
    #[serde(default)]
    pub(crate) is_automatic_forward: bool,
    pub(crate) reply_to_message: Option<Box<Message>>,
    pub(crate) external_reply: Option<Box<ExternalReply>>,
    pub(crate) quote: Option<TextQuote>,
    /// Which task or option of the replied-to message is meant.
    pub(crate) reply_to_checklist_task_id: Option<i64>,
    pub(crate) reply_to_poll_option_id: Option<String>,
    pub(crate) media_group_id: Option<String>,
    pub(crate) text: Option<String>,
    #[serde(default)]
    pub(crate) entities: Vec<MessageEntity>,
    pub(crate) caption: Option<String>,
    #[serde(default)]
    pub(crate) caption_entities: Vec<MessageEntity>,
    pub(crate) migrate_to_chat_id: Option<i64>,
    pub(crate) migrate_from_chat_id: Option<i64>,
    pub(crate) forum_topic_created: Option<Present>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct Message {
    pub(crate) head: MessageHeader,
    pub(crate) content: MessageContent,
}

/// A replied-to message of another chat, with the fields that a reply contains.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct ExternalReply {
    pub(crate) head: ExternalHeader,
    pub(crate) content: MessageContent,
}

/// The header of a message of another chat.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ExternalHeader {
    pub(crate) origin: MessageOrigin,
    pub(crate) message_id: Option<i64>,
}

// Read in two passes and not with `flatten`: that buffers numbers in a form in which a location's could not be read,
// if anything in the build ever turned on `serde_json`'s arbitrary precision.
impl TryFrom<Value> for Message {
    type Error = serde_json::Error;

    fn try_from(message: Value) -> Result<Self, Self::Error> {
        Ok(Self { head: MessageHeader::deserialize(&message)?, content: MessageContent::deserialize(&message)? })
    }
}

impl TryFrom<Value> for ExternalReply {
    type Error = serde_json::Error;

    fn try_from(reply: Value) -> Result<Self, Self::Error> {
        Ok(Self { head: ExternalHeader::deserialize(&reply)?, content: MessageContent::deserialize(&reply)? })
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CallbackQuery {
    pub(crate) id: String,
    pub(crate) from: User,
    pub(crate) message: Option<Message>,
    pub(crate) data: Option<String>,
}

/// The webhook's URL and delivery state, as returned by `getWebhookInfo`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct WebhookInfo {
    #[serde(default)]
    pub(crate) url: String,
    /// When a call failed last.
    pub(crate) last_error_date: Option<i64>,
    pub(crate) last_error_message: Option<String>,
    #[serde(default)]
    pub(crate) pending_update_count: u64,
}

/// A file, as returned by `getFile`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct FileInfo {
    pub(crate) file_path: Option<String>,
    pub(crate) file_size: Option<u64>,
}

/// The stored locator of a file that has not been fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileLocator {
    pub(crate) file_id: String,
}

impl Chat {
    /// Whether several people can read messages.
    pub(crate) fn is_group(&self) -> bool {
        self.kind != "private"
    }

    /// The name that people see.
    pub(crate) fn name(&self) -> String {
        let person = join_names(self.first_name.as_deref(), self.last_name.as_deref());
        let name = self.title.clone().or(person).or_else(|| self.username.clone());
        name.unwrap_or_else(|| self.id.to_string())
    }
}

impl User {
    /// The name that people see.
    pub(crate) fn name(&self) -> String {
        let name = join_names(Some(&self.first_name), self.last_name.as_deref()).or_else(|| self.username.clone());
        name.unwrap_or_else(|| self.id.to_string())
    }
}

impl MessageHeader {
    /// The text or the caption, with its entities.
    pub(crate) fn formatted_text(&self) -> (&str, &[MessageEntity]) {
        match (&self.text, &self.caption) {
            (Some(text), _) => (text.as_str(), self.entities.as_slice()),
            (None, Some(caption)) => (caption.as_str(), self.caption_entities.as_slice()),
            (None, None) => ("", self.entities.as_slice()),
        }
    }
}

impl MessageOrigin {
    /// The name of the original author.
    pub(crate) fn name(&self) -> String {
        let user = self.sender_user.as_ref().map(User::name).or_else(|| self.sender_user_name.clone());
        let chat = self.sender_chat.as_ref().or(self.chat.as_ref());
        user.or_else(|| chat.map(Chat::name)).unwrap_or_else(|| "somebody".to_owned())
    }
}

fn join_names(first: Option<&str>, last: Option<&str>) -> Option<String> {
    let names: Vec<&str> = [first, last].into_iter().flatten().map(str::trim).filter(|name| !name.is_empty()).collect();
    (!names.is_empty()).then(|| names.join(" "))
}
