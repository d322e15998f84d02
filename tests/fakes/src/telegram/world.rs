//! What the fake knows: people, chats, messages, files, buttons that were pressed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{
    FakeFile,
    telegram::{
        call::Call,
        message::{ChatKind, Content, FileKind, TelegramFile, TelegramMessage},
        refusal::{Refusal, bad, forbidden},
    },
};

/// The bot's own id.
pub(crate) const BOT: i64 = 7_654_321_098;

/// The bot's username, without the `@`.
pub(crate) const BOT_USERNAME: &str = "satchel_fake_bot";

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) people: BTreeMap<i64, String>,
    pub(crate) chats: BTreeMap<i64, Chat>,
    pub(crate) messages: BTreeMap<i64, TelegramMessage>,
    pub(crate) files: HashMap<String, TelegramFile>,
    pub(crate) presses: BTreeMap<String, Press>,
    pub(crate) commands: Vec<Value>,
    pub(crate) keep_bytes: bool,
    last_message: i64,
    last_file: u64,
    last_album: u64,
}

#[derive(Debug)]
pub(crate) struct Chat {
    pub(crate) kind: ChatKind,
    pub(crate) title: String,
    pub(crate) topics: BTreeMap<i64, String>,
    pub(crate) standing: Standing,
    pub(crate) forbids_voice: bool,
    pub(crate) members: BTreeSet<i64>,
    /// What the bot was seen doing there, in the words of `sendChatAction`.
    pub(crate) actions: Vec<String>,
}

/// How the bot stands in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Welcome,
    Blocked,
    Kicked,
    Migrated(i64),
}

/// A press of a button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Press {
    /// Who pressed it.
    pub person: i64,
    /// Under which message.
    pub message: i64,
    /// What stands on the button.
    pub label: String,
    /// What the person was shown for it, once the bot has answered; the words may be empty.
    pub answer: Option<String>,
    /// Whether the answer is too late by now.
    pub(crate) expired: bool,
}

impl Chat {
    pub(crate) fn new(kind: ChatKind, title: &str) -> Self {
        Self {
            kind,
            title: title.to_owned(),
            topics: BTreeMap::new(),
            standing: Standing::Welcome,
            forbids_voice: false,
            members: BTreeSet::new(),
            actions: Vec::new(),
        }
    }
}

/// Seconds since 1970, as Telegram dates everything.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    i64::try_from(since.as_secs()).expect("it is for a long time")
}

impl World {
    /// The chat of a request, if the bot may write there.
    pub(crate) fn chat_of(&self, call: &Call) -> Result<i64, Refusal> {
        let Some(named) = call.words("chat_id").filter(|named| !named.is_empty()) else {
            return Err(bad("chat_id is empty"));
        };
        let id = named.parse().map_err(|_| bad("chat not found"))?;
        let chat = self.chats.get(&id).ok_or_else(|| bad("chat not found"))?;
        match (chat.standing, chat.kind) {
            (Standing::Welcome, _) => Ok(id),
            (Standing::Blocked, _) => Err(forbidden("bot was blocked by the user")),
            (Standing::Kicked, ChatKind::Group) => Err(forbidden("bot was kicked from the group chat")),
            (Standing::Kicked, _) => Err(forbidden("bot was kicked from the supergroup chat")),
            // ResponseParameters: migrate_to_chat_id.
            (Standing::Migrated(to), _) => Err(Refusal {
                parameters: Some(json!({ "migrate_to_chat_id": to })),
                ..bad("group chat was upgraded to a supergroup chat")
            }),
        }
    }

    pub(crate) fn chat(&self, id: i64) -> &Chat {
        self.chats.get(&id).expect("a test names chats that it made")
    }

    pub(crate) fn chat_mut(&mut self, id: i64) -> &mut Chat {
        self.chats.get_mut(&id).expect("a test names chats that it made")
    }

    /// A message that stands in a chat and has not been deleted.
    pub(crate) fn message(&self, chat: i64, id: i64) -> Option<&TelegramMessage> {
        self.messages.get(&id).filter(|message| message.chat == chat && !message.deleted)
    }

    pub(crate) fn add(&mut self, message: TelegramMessage) -> i64 {
        self.last_message += 1;
        let id = self.last_message;
        self.messages.insert(id, TelegramMessage { id, date: now(), ..message });
        id
    }

    /// A number for something that shares the messages' numbers, as topics do.
    pub(crate) fn new_number(&mut self) -> i64 {
        self.last_message += 1;
        self.last_message
    }

    pub(crate) fn new_album(&mut self) -> String {
        self.last_album += 1;
        format!("1345678901234{:04}", self.last_album)
    }

    /// Gives a file its names and keeps it.
    pub(crate) fn keep_file(&mut self, file: TelegramFile) -> TelegramFile {
        self.last_file += 1;
        let number = self.last_file;
        let file = TelegramFile {
            file_id: format!("BQACAgIAAxkDAAI{number:06}"),
            file_unique_id: format!("AgAD{number:06}"),
            ..file
        };
        if file.kind == FileKind::Photo {
            // PhotoSize: the server makes smaller pictures of each; here they are noise of their size.
            for (name, longest) in [("s", 90), ("m", 320)] {
                let sides = (file.sides.0.min(longest), file.sides.1.min(longest));
                let picture = FakeFile::photo("small.jpg", sides.0, sides.1, self.last_file, 1000);
                let smaller = TelegramFile {
                    file_id: format!("{}{name}", file.file_id),
                    file_unique_id: format!("{}{name}", file.file_unique_id),
                    sides,
                    bytes: picture.bytes(),
                    sha256: picture.sha256(),
                    content: Some(picture),
                    ..file.clone()
                };
                self.files.insert(smaller.file_id.clone(), smaller);
            }
        }
        self.files.insert(file.file_id.clone(), file.clone());
        file
    }

    /// Where the server keeps a file. What it calls the file has nothing to do with the person's name for it.
    pub(crate) fn path_of(file: &TelegramFile) -> String {
        let number = file.file_unique_id.trim_start_matches("AgAD").trim_start_matches('0');
        let extension = file.filename.rsplit_once('.').map(|(_, extension)| extension);
        let extension = extension.filter(|extension| extension.chars().all(|next| next.is_ascii_alphanumeric()));
        match extension {
            Some(extension) => format!("{}/file_{number}.{extension}", file.kind.folder()),
            None => format!("{}/file_{number}", file.kind.folder()),
        }
    }

    /// The file that a message shows.
    pub(crate) fn file_of(message: &TelegramMessage) -> Option<&TelegramFile> {
        match &message.content {
            Content::File(file) => Some(file),
            _ => None,
        }
    }
}
