//! What stands in the chats, as a person reads it, for programs and for snapshots.

use std::{collections::BTreeMap, fmt};

use satchel_domain::{ConversationId, MessageRef, part::FileForm, size};
use satchel_fake_kit::{Contents, MessageKind, Transcript, TranscriptFile, TranscriptMessage};

use crate::{
    drafts::TelegramDraft,
    message::{ChatKind, FileKind, FormattedText, TelegramContent, TelegramFile, TelegramMessage},
    platform_state::{BOT, ButtonPress, PlatformState},
    rich::RichContent,
};

#[derive(Debug, Clone, Default)]
pub struct TelegramTranscript {
    /// The chats by their id.
    pub chats: BTreeMap<i64, TranscriptChat>,
    people: BTreeMap<i64, String>,
}

#[derive(Debug, Clone)]
pub struct TranscriptChat {
    /// What sort of chat it is.
    pub kind: ChatKind,
    /// What it is called.
    pub title: String,
    pub topics: BTreeMap<i64, String>,
    /// Its messages in the order in which they came, deleted ones too.
    pub messages: Vec<TelegramMessage>,
    /// What the bot was seen doing, in the words of `sendChatAction`.
    pub actions: Vec<String>,
    /// What the bot has shown of messages that it still wrote, oldest first.
    pub drafts: Vec<TelegramDraft>,
    /// The buttons that were pressed, in order.
    pub presses: Vec<ButtonPress>,
}

impl TelegramMessage {
    /// Whether the bot sent it.
    #[must_use]
    pub fn own(&self) -> bool {
        self.from == BOT
    }

    /// The blocks that it shows.
    #[must_use]
    pub fn rich(&self) -> Option<&RichContent> {
        match &self.content {
            TelegramContent::Rich(rich) => Some(rich),
            _ => None,
        }
    }

    /// The file that it shows.
    #[must_use]
    pub fn file(&self) -> Option<&TelegramFile> {
        PlatformState::file_of(self)
    }
}

impl TelegramTranscript {
    pub(crate) fn from_state(platform: &PlatformState) -> Self {
        let chats = platform.chats.iter().map(|(id, chat)| {
            let messages =
                platform.messages.range((*id, 0)..=(*id, i64::MAX)).map(|(_, message)| message.clone()).collect();
            let presses = platform.presses.values().filter(|press| press.chat == *id).cloned().collect();
            let drafts = chat.drafts.iter().map(|draft| draft.at(platform.instant())).collect();
            let (title, topics, actions) = (chat.title.clone(), chat.topics.clone(), chat.actions.clone());
            (*id, TranscriptChat { kind: chat.kind, title, topics, messages, actions, drafts, presses })
        });
        Self { chats: chats.collect(), people: platform.people.clone() }
    }

    /// All messages of a chat, deleted ones too.
    #[must_use]
    pub fn messages(&self, chat: i64) -> &[TelegramMessage] {
        self.chats.get(&chat).map_or(&[], |chat| &chat.messages)
    }

    /// The bot's messages that a person sees now.
    pub fn visible(&self, chat: i64) -> impl Iterator<Item = &TelegramMessage> {
        self.messages(chat).iter().filter(|message| message.own() && !message.deleted)
    }

    /// The words of the bot's messages that are words alone, in blocks or not.
    #[must_use]
    pub fn texts(&self, chat: i64) -> Vec<&str> {
        let alone =
            |message: &&TelegramMessage| matches!(message.content, TelegramContent::Words | TelegramContent::Rich(_));
        self.visible(chat).filter(alone).map(|message| message.words.text.as_str()).collect()
    }

    /// All that the bot has shown in a chat of messages that it still wrote, oldest first.
    #[must_use]
    pub fn drafts(&self, chat: i64) -> &[TelegramDraft] {
        self.chats.get(&chat).map_or(&[], |chat| &chat.drafts)
    }

    /// The drafts that a person sees now, which are no messages.
    pub fn visible_drafts(&self, chat: i64) -> impl Iterator<Item = &TelegramDraft> {
        self.drafts(chat).iter().filter(|draft| draft.visible)
    }

    /// The bot's files, in order.
    #[must_use]
    pub fn files(&self, chat: i64) -> Vec<&TelegramFile> {
        self.visible(chat).filter_map(TelegramMessage::file).collect()
    }

    /// The same in the form that all platforms share, with its checks for what is missing, repeated or out of order.
    #[must_use]
    pub fn shared(&self) -> Transcript {
        let mut transcript = Transcript::default();
        let written = |message: &&TelegramMessage| !matches!(message.content, TelegramContent::Service(_));
        for message in self.chats.values().flat_map(|chat| &chat.messages).filter(written) {
            let conversation = match message.thread {
                Some(thread) => format!("telegram:{}/{thread}", message.chat),
                None => format!("telegram:{}", message.chat),
            };
            let conversation: ConversationId = conversation.parse().expect("a chat's id makes a conversation");
            transcript.conversations.entry(conversation).or_default().push(self.as_shared(message));
        }
        transcript
    }

    fn as_shared(&self, message: &TelegramMessage) -> TranscriptMessage {
        let contents = |words: &FormattedText| match message.file() {
            None => Contents { text: words.text.clone(), files: Vec::new() },
            Some(file) => {
                let file = TranscriptFile {
                    filename: file.filename.clone(),
                    mime: file.mime.clone(),
                    bytes: file.bytes,
                    sha256: file.sha256,
                    form: file_form(file.kind),
                    caption: words.text.clone(),
                    content: file.content.as_ref().map(|content| content.blocks().collect::<Vec<_>>().concat().into()),
                };
                Contents { text: String::new(), files: vec![file] }
            }
        };
        let first_of_album = message.album.as_ref().and_then(|album| {
            let same = |other: &&TelegramMessage| other.album.as_ref() == Some(album);
            self.messages(message.chat).iter().find(same).map(|first| MessageRef(first.id.to_string()))
        });
        let voice = message.file().filter(|file| file.kind == FileKind::Voice);
        TranscriptMessage {
            id: MessageRef(message.id.to_string()),
            own: message.own(),
            kind: match (&message.album, voice, message.file()) {
                (Some(_), ..) => MessageKind::Album,
                (None, Some(_), _) => MessageKind::Voice,
                (None, None, Some(_)) => MessageKind::File,
                (None, None, None) => MessageKind::Text,
            },
            contents: contents(&message.words),
            edits: message.edits.iter().map(contents).collect(),
            deleted: message.deleted,
            reply_to: message.reply_to.map(|id| MessageRef(id.to_string())),
            nonce: None,
            album: first_of_album,
            duration_ms: voice.map(|voice| u64::from(voice.duration) * 1000),
        }
    }

    fn name(&self, id: i64) -> &str {
        if id == BOT { "satchel" } else { self.people.get(&id).map_or("somebody", String::as_str) }
    }

    fn write_message(&self, f: &mut fmt::Formatter<'_>, message: &TelegramMessage) -> fmt::Result {
        write!(f, "[{}] {}", message.id, self.name(message.from))?;
        if let Some(thread) = message.thread {
            write!(f, " in topic {thread}")?;
        }
        if let Some(origin) = message.forwarded_from {
            write!(f, " forwarded from {}", self.name(origin))?;
        }
        if let Some(answered) = message.reply_to {
            write!(f, " to [{answered}]")?;
        }
        let mut album = self.messages(message.chat).iter().filter(|other| other.album == message.album);
        match album.next() {
            Some(first) if message.album.is_some() && first.id == message.id => write!(f, " (album)")?,
            Some(first) if message.album.is_some() => write!(f, " (album of [{}])", first.id)?,
            _ => {}
        }
        match message.edits.len() {
            0 => {}
            1 => write!(f, " (edited once)")?,
            times => write!(f, " (edited {times} times)")?,
        }
        if message.deleted {
            write!(f, " (deleted)")?;
        }
        writeln!(f, ":")?;
        match &message.content {
            TelegramContent::Words => {}
            TelegramContent::Rich(rich) => writeln!(f, "    + rich: {}", rich.kinds().join(", "))?,
            TelegramContent::File(file) => write_file(f, file)?,
            TelegramContent::Location { latitude, longitude } => writeln!(f, "    + location {latitude}, {longitude}")?,
            TelegramContent::Contact { name, phone } => writeln!(f, "    + contact {name}, {phone}")?,
            TelegramContent::Service(fields) => {
                fields.iter().try_for_each(|(field, value)| writeln!(f, "    + {field} {value}"))?;
            }
        }
        message.words.to_string().lines().try_for_each(|line| writeln!(f, "    {line}"))?;
        if message.words.dropped_entities > 0 {
            writeln!(f, "    ({} entities more were dropped)", message.words.dropped_entities)?;
        }
        for row in &message.buttons {
            let labels: Vec<_> = row.iter().map(|button| format!("[{}]", button.label)).collect();
            writeln!(f, "    {}", labels.join(" "))?;
        }
        Ok(())
    }
}

fn write_file(f: &mut fmt::Formatter<'_>, file: &TelegramFile) -> fmt::Result {
    let kind = file.kind.field().replace('_', " ");
    write!(f, "    + {kind} {} ({}, {}", file.filename, file.mime, size::format_bytes(file.bytes))?;
    if file.sides != (0, 0) && file.kind == FileKind::Photo {
        write!(f, ", {}×{}", file.sides.0, file.sides.1)?;
    }
    if file.duration > 0 {
        write!(f, ", {} s", file.duration)?;
    }
    let digest = file.sha256.to_string();
    writeln!(f, ", sha256 {}…)", &digest[..12.min(digest.len())])
}

impl fmt::Display for TelegramTranscript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chat in self.chats.values() {
            let kind = match chat.kind {
                ChatKind::Private => "private chat",
                ChatKind::Group => "group",
                ChatKind::Supergroup => "supergroup",
                ChatKind::Forum => "forum",
                ChatKind::Channel => "channel",
            };
            writeln!(f, "== {kind}: {} ==", chat.title)?;
            chat.messages.iter().try_for_each(|message| self.write_message(f, message))?;
            for draft in chat.drafts.iter().filter(|draft| draft.visible) {
                let topic = draft.thread.map(|thread| format!(" in topic {thread}")).unwrap_or_default();
                writeln!(f, "(satchel still writes{topic}: {})", draft.words.text)?;
            }
            for press in &chat.presses {
                write!(f, "({} pressed [{}] of [{}]", self.name(press.person), press.label, press.message)?;
                match press.answer.as_deref() {
                    None => writeln!(f, "; no answer yet)")?,
                    Some("") => writeln!(f, ")")?,
                    Some(answer) => writeln!(f, " and read: {answer})")?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for FormattedText {
    /// The words with marks where formatting begins and ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        for character in self.text.chars().map(Some).chain([None]) {
            let ending = self.entities.iter().rev().filter(|entity| entity.offset + entity.length == at);
            ending
                .map(|entity| marks(&entity.kind, entity.detail.as_deref()).1)
                .try_for_each(|mark| write!(f, "{mark}"))?;
            let beginning = self.entities.iter().filter(|entity| entity.offset == at);
            beginning
                .map(|entity| marks(&entity.kind, entity.detail.as_deref()).0)
                .try_for_each(|mark| write!(f, "{mark}"))?;
            if let Some(character) = character {
                write!(f, "{character}")?;
                at += character.len_utf16();
            }
        }
        Ok(())
    }
}

fn marks(kind: &str, detail: Option<&str>) -> (String, String) {
    let same = |mark: &str| (mark.to_owned(), mark.to_owned());
    match kind {
        "bold" => same("**"),
        "italic" => same("_"),
        "underline" => same("__"),
        "strikethrough" => same("~~"),
        "spoiler" => same("||"),
        "code" => same("`"),
        "pre" => (format!("```{}\n", detail.unwrap_or_default()), "\n```".to_owned()),
        "blockquote" | "expandable_blockquote" => ("»".to_owned(), "«".to_owned()),
        "text_link" | "text_mention" => ("[".to_owned(), format!("]({})", detail.unwrap_or_default())),
        _ => (String::new(), String::new()),
    }
}

fn file_form(kind: FileKind) -> Option<FileForm> {
    match kind {
        FileKind::Photo => Some(FileForm::Photo),
        FileKind::Document => Some(FileForm::Document),
        FileKind::Audio => Some(FileForm::Audio),
        FileKind::Video => Some(FileForm::Video),
        FileKind::Animation => Some(FileForm::Animation),
        FileKind::Voice | FileKind::VideoNote | FileKind::Sticker => None,
    }
}
