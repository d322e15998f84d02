//! Chats, messages and files as the fake keeps them and as a test reads them.

use satchel_domain::Sha256;
use satchel_fake_kit::FakeFile;
use serde_json::{Map, Value};

use crate::rich::RichContent;

/// What sort of chat one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatKind {
    /// A person's chat with the bot; its id is the person's.
    Private,
    Group,
    Supergroup,
    /// A large group with topics.
    Forum,
    /// A channel, whose posts are the channel's own.
    Channel,
}

/// What sort of file stands in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// An image in several sizes.
    Photo,
    /// A file of any sort.
    Document,
    /// A bubble with a waveform.
    Voice,
    /// Music with a player.
    Audio,
    /// A video with a player.
    Video,
    VideoNote,
    /// A video without sound that repeats.
    Animation,
    Sticker,
}

/// A file as it stands in a message.
#[derive(Debug, Clone)]
pub struct TelegramFile {
    /// What a bot names it by.
    pub file_id: String,
    /// What all bots know it by.
    pub file_unique_id: String,
    /// The form in which it stands there.
    pub kind: FileKind,
    /// Its name, where its kind keeps one.
    pub filename: String,
    pub mime: String,
    /// How many bytes it has.
    pub bytes: u64,
    pub sha256: Sha256,
    /// Its sides in pixels, where it has any.
    pub sides: (u32, u32),
    /// Its playing time in seconds.
    pub duration: u32,
    /// What is downloaded; bytes that a bot uploaded are kept only where that was asked for.
    pub content: Option<FakeFile>,
}

/// An entity: how a piece of a text is shown (Bot API, MessageEntity).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEntity {
    /// Its `type`.
    pub kind: String,
    /// Where it begins, in UTF-16 units.
    pub offset: usize,
    /// How long it is, in UTF-16 units.
    pub length: usize,
    /// Its `url`, `language` or user's id.
    pub detail: Option<String>,
}

/// A text as it is seen, with its entities.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FormattedText {
    /// The words, without markup.
    pub text: String,
    /// How they are shown.
    pub entities: Vec<TextEntity>,
    /// How many entities more there were than a message keeps.
    pub dropped_entities: usize,
}

/// A button under a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineButton {
    /// What stands on it.
    pub label: String,
    /// What the bot is told when it is pressed.
    pub callback_data: Option<String>,
    /// The button as the bot described it.
    pub described: Value,
}

/// What stands in a message beside its words.
#[derive(Debug, Clone, Default)]
pub enum TelegramContent {
    #[default]
    Words,
    /// Blocks; the words are what a person reads of them.
    Rich(RichContent),
    /// A file; the words are its caption.
    File(TelegramFile),
    Location {
        latitude: f64,
        /// In degrees.
        longitude: f64,
    },
    /// A person of an address book.
    Contact {
        name: String,
        /// How they are called up.
        phone: String,
    },
    /// What happened in the chat: the fields that a service message has.
    Service(Map<String, Value>),
}

#[derive(Debug, Clone, Default)]
pub struct TelegramMessage {
    /// Its id in its chat. Private chats and basic groups share one counter, every other chat has its own.
    pub id: i64,
    pub chat: i64,
    /// The topic in which it stands.
    pub thread: Option<i64>,
    /// Who wrote it: a person, or the bot.
    pub from: i64,
    /// When, in seconds since 1970.
    pub date: i64,
    /// The words, or the caption.
    pub words: FormattedText,
    /// What stands beside them.
    pub content: TelegramContent,
    /// The album that it belongs to.
    pub album: Option<String>,
    /// The message that it answers.
    pub reply_to: Option<i64>,
    /// The passage of that message that its writer chose.
    pub quote: Option<FormattedText>,
    /// The person who wrote it first, if it was forwarded.
    pub forwarded_from: Option<i64>,
    /// The buttons under it.
    pub buttons: Vec<Vec<InlineButton>>,
    /// The words before each edit, oldest first.
    pub edits: Vec<FormattedText>,
    /// When it was edited last.
    pub edit_date: Option<i64>,
    /// Whether it was deleted since.
    pub deleted: bool,
}

/// A message as a person composes it.
#[derive(Debug, Clone, Default)]
pub struct PersonMessage {
    pub(crate) text: String,
    /// Whether the text is HTML, which describes its entities.
    pub(crate) is_html: bool,
    /// The passage of the message that it answers, as HTML.
    pub(crate) quote: Option<String>,
    pub(crate) content: PersonContent,
    pub(crate) thread: Option<i64>,
    pub(crate) reply_to: Option<i64>,
    pub(crate) forwarded_from: Option<i64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) enum PersonContent {
    #[default]
    Words,
    File {
        kind: FileKind,
        file: FakeFile,
        /// Its playing time in seconds, if its kind has one.
        seconds: u32,
    },
    Other(TelegramContent),
}

impl PersonMessage {
    /// A text. Commands, mentions and addresses in it become entities, as in Telegram's own apps.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// A text that is formatted as Telegram's apps allow, written in the Bot API's HTML. Commands, mentions and addresses in
    /// it become entities as well.
    #[must_use]
    pub fn formatted(html: &str) -> Self {
        Self { is_html: true, ..Self::text(html) }
    }

    /// A file in the form in which it was sent; one that plays does so for three seconds.
    #[must_use]
    pub fn file(kind: FileKind, file: FakeFile) -> Self {
        Self { content: PersonContent::File { kind, file, seconds: 3 }, ..Self::default() }
    }

    /// A place, in degrees.
    #[must_use]
    pub fn location(latitude: f64, longitude: f64) -> Self {
        let content = PersonContent::Other(TelegramContent::Location { latitude, longitude });
        Self { content, ..Self::default() }
    }

    /// A person of an address book.
    #[must_use]
    pub fn contact(name: &str, phone: &str) -> Self {
        let contact = TelegramContent::Contact { name: name.to_owned(), phone: phone.to_owned() };
        Self { content: PersonContent::Other(contact), ..Self::default() }
    }

    /// With words under the file.
    #[must_use]
    pub fn caption(self, caption: &str) -> Self {
        Self { text: caption.to_owned(), ..self }
    }

    /// With words under the file that are formatted like those of [`Self::formatted`].
    #[must_use]
    pub fn formatted_caption(self, html: &str) -> Self {
        Self { text: html.to_owned(), is_html: true, ..self }
    }

    /// In a topic of a forum.
    #[must_use]
    pub fn in_topic(self, thread: i64) -> Self {
        Self { thread: Some(thread), ..self }
    }

    /// In answer to a message.
    #[must_use]
    pub fn replying_to(self, message: i64) -> Self {
        Self { reply_to: Some(message), ..self }
    }

    /// In answer to a passage of a message, which is formatted there as this HTML says.
    #[must_use]
    pub fn quoting(self, message: i64, html: &str) -> Self {
        Self { quote: Some(html.to_owned()), ..self.replying_to(message) }
    }

    #[must_use]
    pub fn forwarded_from(self, person: i64) -> Self {
        Self { forwarded_from: Some(person), ..self }
    }
}

impl From<&str> for PersonMessage {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl FileKind {
    /// The name of the field in which a message has it.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Photo => "photo",
            Self::Document => "document",
            Self::Voice => "voice",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::VideoNote => "video_note",
            Self::Animation => "animation",
            Self::Sticker => "sticker",
        }
    }

    /// The folder in which the server keeps files of this kind.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Photo => "photos",
            Self::Document => "documents",
            Self::Voice => "voice",
            Self::Audio => "music",
            Self::Video => "videos",
            Self::VideoNote => "video_notes",
            Self::Animation => "animations",
            Self::Sticker => "stickers",
        }
    }
}
