//! What the fake knows: people, chats, messages, files, buttons that were pressed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use satchel_fake_kit::{FakeFile, TestClock};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::{
    call::ReceivedCall,
    drafts::{self, TelegramDraft},
    message::{ChatKind, FileKind, TelegramContent, TelegramFile, TelegramMessage},
    refusal::{ApiRefusal, bad, forbidden},
};

/// The bot's own id.
pub(crate) const BOT: i64 = 7_654_321_098;

/// The bot's username, without the `@`.
pub(crate) const BOT_USERNAME: &str = "satchel_fake_bot";

#[derive(Debug, Default)]
pub(crate) struct PlatformState {
    clock: TestClock,
    pub(crate) people: BTreeMap<i64, String>,
    pub(crate) chats: BTreeMap<i64, FakeChat>,
    /// By chat and id: equal ids in two chats are two messages.
    pub(crate) messages: BTreeMap<(i64, i64), TelegramMessage>,
    pub(crate) files: HashMap<String, TelegramFile>,
    pub(crate) presses: BTreeMap<String, ButtonPress>,
    pub(crate) commands: Vec<Value>,
    pub(crate) keep_bytes: bool,
    /// Whether the bot sees only a part of what people write in groups.
    pub(crate) privacy_mode: bool,
    /// Whether people can open topics in their chats with the bot.
    pub(crate) has_private_topics: bool,
    /// The last id of the mailbox: private chats and basic groups share one counter, which is the bot's own.
    last_in_mailbox: i64,
    last_chat: i64,
    last_file: u64,
    last_album: u64,
}

#[derive(Debug)]
pub(crate) struct FakeChat {
    pub(crate) kind: ChatKind,
    pub(crate) title: String,
    pub(crate) topics: BTreeMap<i64, String>,
    /// Those of them in which members may not write.
    pub(crate) closed_topics: BTreeSet<i64>,
    pub(crate) membership: BotMembership,
    pub(crate) role: BotRole,
    pub(crate) forbids_voice: bool,
    pub(crate) members: BTreeSet<i64>,
    pub(crate) owner: i64,
    /// The tags of members.
    pub(crate) tags: BTreeMap<i64, String>,
    /// What the bot was seen doing there, in the words of `sendChatAction`.
    pub(crate) actions: Vec<String>,
    /// What the bot has shown there of messages that it still wrote, oldest first.
    pub(crate) drafts: Vec<TelegramDraft>,
    /// The last id of a chat that counts for itself.
    last_message: i64,
}

/// How the bot stands in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BotMembership {
    Welcome,
    Blocked,
    Kicked,
    Migrated(i64),
}

/// What the bot may do in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BotRole {
    Member,
    Administrator {
        /// ChatMemberAdministrator, can_edit_messages: "can edit messages of other users", "for channels only".
        edits_posts: bool,
    },
}

/// A press of a button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ButtonPress {
    pub person: i64,
    pub chat: i64,
    pub message: i64,
    /// What stands on the button.
    pub label: String,
    /// What the person was shown for it, once the bot has answered; the words may be empty.
    pub answer: Option<String>,
    /// Whether the answer is too late by now.
    pub(crate) expired: bool,
}

impl FakeChat {
    pub(crate) fn new(kind: ChatKind, title: &str) -> Self {
        Self {
            kind,
            title: title.to_owned(),
            topics: BTreeMap::new(),
            closed_topics: BTreeSet::new(),
            membership: BotMembership::Welcome,
            role: BotRole::Member,
            forbids_voice: false,
            members: BTreeSet::new(),
            owner: 0,
            tags: BTreeMap::new(),
            actions: Vec::new(),
            drafts: Vec::new(),
            last_message: 0,
        }
    }
}

impl PlatformState {
    pub(crate) fn new(clock: TestClock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Seconds since 1970, as Telegram dates everything.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.clock.unix_time().as_secs()).expect("it is for a long time")
    }

    /// Now, by the fake's clock.
    pub(crate) fn instant(&self) -> Instant {
        self.clock.now()
    }

    /// The chat of a request, if the bot may write there.
    pub(crate) fn chat_of(&self, call: &ReceivedCall) -> Result<i64, ApiRefusal> {
        let Some(named) = call.text("chat_id").filter(|named| !named.is_empty()) else {
            return Err(bad("chat_id is empty"));
        };
        let id = named.parse().map_err(|_| bad("chat not found"))?;
        let chat = self.chats.get(&id).ok_or_else(|| bad("chat not found"))?;
        match (chat.membership, chat.kind) {
            (BotMembership::Welcome, _) => Ok(id),
            (BotMembership::Blocked, _) => Err(forbidden("bot was blocked by the user")),
            (BotMembership::Kicked, ChatKind::Group) => Err(forbidden("bot was kicked from the group chat")),
            (BotMembership::Kicked, ChatKind::Channel) => Err(forbidden("bot was kicked from the channel chat")),
            (BotMembership::Kicked, _) => Err(forbidden("bot was kicked from the supergroup chat")),
            // ResponseParameters: migrate_to_chat_id.
            (BotMembership::Migrated(to), _) => Err(ApiRefusal {
                parameters: Some(json!({ "migrate_to_chat_id": to })),
                ..bad("group chat was upgraded to a supergroup chat")
            }),
        }
    }

    pub(crate) fn chat(&self, id: i64) -> &FakeChat {
        self.chats.get(&id).expect("a test names chats that it made")
    }

    pub(crate) fn chat_mut(&mut self, id: i64) -> &mut FakeChat {
        self.chats.get_mut(&id).expect("a test names chats that it made")
    }

    /// A message that stands in a chat, that has not been deleted, and that the bot can see.
    pub(crate) fn message(&self, chat: i64, id: i64) -> Option<&TelegramMessage> {
        self.messages.get(&(chat, id)).filter(|message| !message.deleted && self.is_visible(message))
    }

    /// Whether the bot can see a message.
    ///
    /// Bots FAQ, "What messages will my bot get?": all bots get service messages and all of private chats and channels,
    /// administrators and bots without privacy mode get all, others get commands and replies that are meant for them.
    pub(crate) fn is_visible(&self, message: &TelegramMessage) -> bool {
        let chat = self.chat(message.chat);
        !self.privacy_mode
            || matches!(chat.kind, ChatKind::Private | ChatKind::Channel)
            || matches!(chat.role, BotRole::Administrator { .. })
            || matches!(message.content, TelegramContent::Service(_))
            || message.from == BOT
            || self.is_for_bot(message)
    }

    fn is_for_bot(&self, message: &TelegramMessage) -> bool {
        let answered = message.reply_to.and_then(|id| self.messages.get(&(message.chat, id)));
        let first = message.words.text.split_whitespace().next().unwrap_or_default();
        let is_command = message.words.entities.iter().any(|entity| entity.kind == "bot_command" && entity.offset == 0);
        // No other bot is there, so commands that name none are for this one.
        let is_named = first.split_once('@').is_none_or(|(_, name)| name == BOT_USERNAME);
        answered.is_some_and(|answered| answered.from == BOT) || (is_command && is_named)
    }

    /// Puts a message into its chat under the next id of the chat's counter. Returns the id.
    ///
    /// Telegram's API, Working with Updates: private chats and basic groups make up the account's one common message
    /// box, each supergroup and channel has a message box of its own. Ids count from 1 in each, one by one.
    pub(crate) fn add(&mut self, message: TelegramMessage) -> i64 {
        let date = self.now();
        let Self { chats, last_in_mailbox, .. } = self;
        let chat = chats.get_mut(&message.chat).expect("a test names chats that it made");
        if message.from == BOT {
            drafts::end(&mut chat.drafts, message.thread);
        }
        let last = match chat.kind {
            ChatKind::Private | ChatKind::Group => last_in_mailbox,
            ChatKind::Supergroup | ChatKind::Forum | ChatKind::Channel => &mut chat.last_message,
        };
        *last += 1;
        let id = *last;
        self.messages.insert((message.chat, id), TelegramMessage { id, date, ..message });
        id
    }

    /// Puts a service message with one field into a chat: what somebody did there. Returns its id.
    pub(crate) fn add_service(&mut self, chat: i64, from: i64, field: &str, value: Value) -> i64 {
        let content = TelegramContent::Service(Map::from_iter([(field.to_owned(), value)]));
        self.add(TelegramMessage { chat, from, content, ..TelegramMessage::default() })
    }

    /// A number for a chat that is no person's.
    pub(crate) fn new_chat_number(&mut self) -> i64 {
        self.last_chat += 1;
        self.last_chat
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
            TelegramContent::File(file) => Some(file),
            _ => None,
        }
    }
}
