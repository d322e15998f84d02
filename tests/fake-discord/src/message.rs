//! Messages and files as the fake keeps them and as a test reads them.

use satchel_domain::Sha256;
use satchel_fake_kit::FakeFile;
use serde_json::Value;

/// Message Flags: `IS_VOICE_MESSAGE`.
pub const VOICE_MESSAGE: u64 = 1 << 13;

/// Message Flags: `EPHEMERAL`.
pub const EPHEMERAL: u64 = 1 << 6;

#[derive(Debug, Clone, Default)]
pub struct DiscordMessage {
    pub id: u64,
    pub channel: u64,
    /// Who wrote it: a person, or the bot.
    pub author: u64,
    /// Its words, in Discord's Markdown.
    pub content: String,
    /// Its files, in order.
    pub files: Vec<DiscordFile>,
    pub flags: u64,
    /// The nonce that it came with; told in the answer and in the event, and nowhere later.
    pub nonce: Option<String>,
    /// The message that it answers.
    pub reply_to: Option<u64>,
    /// What it forwards, as it stood then.
    pub forwarded: Option<Box<DiscordMessage>>,
    /// Whether what it forwards isn't shown: Message object, `message_snapshots?`, which may be missing.
    pub hides_forwarded: bool,
    /// The message in the parent channel from which its thread was started. It is the first message of the thread then
    /// (Threads, New Message Types: `THREAD_STARTER_MESSAGE`, which "only contains a message reference field").
    pub thread_starter: Option<u64>,
    /// The people whom it mentions.
    pub mentions: Vec<u64>,
    /// The roles that it mentions.
    pub role_mentions: Vec<u64>,
    /// Whether it mentions everybody.
    pub mentions_everyone: bool,
    pub pings: Vec<Mention>,
    /// The stickers on it: ids and names.
    pub stickers: Vec<(u64, String)>,
    /// The buttons under it.
    pub buttons: Vec<Vec<DiscordButton>>,
    /// What it showed before each edit, oldest first.
    pub edits: Vec<MessageVersion>,
    /// When it was edited last, in microseconds since 1970.
    pub edited_us: Option<i64>,
    /// Whether it was deleted since.
    pub deleted: bool,
    /// The interaction that it answers.
    pub interaction: Option<u64>,
}

/// What a message showed before an edit.
#[derive(Debug, Clone)]
pub struct MessageVersion {
    pub content: String,
    pub files: Vec<DiscordFile>,
}

/// Somebody who was notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mention {
    /// Everybody, or everybody who is there.
    Everyone,
    Person(u64),
    /// Everybody who has a role.
    Role(u64),
}

/// A file as it stands in a message.
#[derive(Debug, Clone)]
pub struct DiscordFile {
    pub id: u64,
    /// Its name as Discord rewrote it.
    pub filename: String,
    /// What is shown in place of the name, without its extension: as the request has it, or the name as it was if rewriting
    /// took special characters away.
    pub title: Option<String>,
    pub mime: String,
    /// How many bytes it has.
    pub bytes: u64,
    pub sha256: Sha256,
    pub description: Option<String>,
    /// A voice's playing time in seconds.
    pub duration_secs: Option<f64>,
    /// A voice's waveform, as base64.
    pub waveform: Option<String>,
    /// Its sides in pixels, if it is an image.
    pub sides: Option<(u64, u64)>,
    /// What is downloaded; bytes that a bot uploaded are kept only where that was asked for.
    pub content: Option<FakeFile>,
}

impl DiscordFile {
    /// The name that people see, and under which they download it: the title with the extension of the rewritten name.
    #[must_use]
    pub fn shown_name(&self) -> String {
        match (&self.title, self.filename.rsplit_once('.')) {
            (Some(title), Some((_, extension))) => format!("{title}.{extension}"),
            (Some(title), None) => title.clone(),
            (None, _) => self.filename.clone(),
        }
    }
}

/// A button under a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscordButton {
    /// What stands on it.
    pub label: String,
    /// What the bot is told when it is pressed; `None` for one that opens a link.
    pub custom_id: Option<String>,
    /// Whether it can't be pressed.
    pub disabled: bool,
    /// The button as the bot described it.
    pub described: Value,
}

/// A message as a person composes it.
#[derive(Debug, Clone, Default)]
pub struct PersonMessage {
    pub(crate) text: String,
    pub(crate) files: Vec<FakeFile>,
    pub(crate) voice_seconds: Option<f64>,
    pub(crate) reply_to: Option<u64>,
    pub(crate) silent_reply: bool,
    pub(crate) forwarding: Option<u64>,
    pub(crate) hides_forwarded: bool,
    pub(crate) stickers: Vec<String>,
}

impl PersonMessage {
    /// A text. `<@id>` mentions somebody.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// A voice message of so many seconds, recorded in Discord's own app.
    #[must_use]
    pub fn voice(file: FakeFile, seconds: f64) -> Self {
        Self { files: vec![file], voice_seconds: Some(seconds), ..Self::default() }
    }

    /// A message of somebody, forwarded.
    #[must_use]
    pub fn forwarding(message: u64) -> Self {
        Self { forwarding: Some(message), ..Self::default() }
    }

    /// A message of somebody, forwarded so that Discord shows nothing of it.
    #[must_use]
    pub fn forwarding_unseen(message: u64) -> Self {
        Self { hides_forwarded: true, ..Self::forwarding(message) }
    }

    #[must_use]
    pub fn with_files(self, files: Vec<FakeFile>) -> Self {
        Self { files, ..self }
    }

    #[must_use]
    pub fn with_sticker(mut self, name: &str) -> Self {
        self.stickers.push(name.to_owned());
        self
    }

    /// In answer to a message, whose author is mentioned.
    #[must_use]
    pub fn replying_to(self, message: u64) -> Self {
        Self { reply_to: Some(message), ..self }
    }

    /// In answer to a message, with the mention switched off.
    #[must_use]
    pub fn replying_silently_to(self, message: u64) -> Self {
        Self { reply_to: Some(message), silent_reply: true, ..self }
    }
}

impl From<&str> for PersonMessage {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl DiscordMessage {
    /// Whether it is a native voice message.
    #[must_use]
    pub fn is_voice(&self) -> bool {
        self.flags & VOICE_MESSAGE != 0
    }
}
