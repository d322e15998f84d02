//! The platform of a test: the strict fake Telegram or Discord behind one interface.

use std::time::Duration;

use satchel_domain::{
    ChannelCapabilities, ConversationId,
    capabilities::{Idempotency, ReplyRule, StreamRule, TextLimit},
};
use satchel_fake_discord::{CDN, DiscordRules, FakeDiscord, Tier};
use satchel_fake_kit::{FakeFile, Fault, FaultTiming, RequestPhase, Transcript};
use satchel_fake_telegram::{DOWNLOAD, FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_routing::tables;
use satchel_system::crash::ChannelAdapter;
use tokio::sync::oneshot;

/// The person's id on Telegram, and so the id of their chat with the bot; and that of somebody else.
const PERSON: i64 = 5;
const OTHER_PERSON: i64 = 6;

/// The person's id on Discord.
const MEMBER: u64 = 5;

/// The channel on Discord in which the person talks to the bot, and another one of theirs.
const CHANNEL: u64 = 7;
const OTHER_CHANNEL: u64 = 8;

/// How often to check whether the product listens to a platform.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A request to a platform that tests count, script and wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Send,
    Edit,
    /// A download of a person's file.
    Fetch,
}

/// The limits of the platform of a test.
#[derive(Debug, Clone)]
pub(crate) enum PlatformRules {
    Telegram(TelegramRules),
    Discord(DiscordRules),
}

impl PlatformRules {
    /// The platform's own limits, without its rate limits.
    pub(crate) fn for_platform(adapter: ChannelAdapter) -> Self {
        match adapter {
            ChannelAdapter::Telegram => Self::Telegram(TelegramRules::default()),
            ChannelAdapter::Discord => Self::Discord(DiscordRules::unpaced()),
        }
    }

    /// The same with a longest text, and a largest file in bytes.
    pub(crate) fn with_limits(mut self, text: usize, file: u64) -> Self {
        match &mut self {
            Self::Telegram(rules) => {
                rules.text_units = text;
                rules.upload_bytes = file;
            }
            Self::Discord(rules) => {
                rules.content_chars = text;
                rules.file_bytes = [(Tier::None, file)].into();
            }
        }
        self
    }

    /// The same with nonces that are remembered so long, on a platform that has them.
    pub(crate) fn with_nonce_window(mut self, window: Duration) -> Self {
        if let Self::Discord(rules) = &mut self {
            rules.nonce_window = window;
        }
        self
    }

    pub(crate) fn adapter(&self) -> ChannelAdapter {
        match self {
            Self::Telegram(_) => ChannelAdapter::Telegram,
            Self::Discord(_) => ChannelAdapter::Discord,
        }
    }

    /// These limits for the planner. There is no rate limit, and edits may follow one another fast, so that tests don't
    /// wait; nor are messages joined, so that what is sent at once is several turns.
    pub(crate) fn capabilities(&self) -> ChannelCapabilities {
        let stream = StreamRule::Edits { interval_ms: 20 };
        match self {
            Self::Telegram(rules) => {
                let table = tables::telegram();
                ChannelCapabilities {
                    text: TextLimit { max: Some(rules.text_units), ..table.text },
                    file_bytes: table.file_bytes.min(rules.upload_bytes),
                    stream,
                    rate_limits: None,
                    joins_messages: false,
                    ..table
                }
            }
            Self::Discord(rules) => {
                let table = tables::discord();
                let window_ms = u64::try_from(rules.nonce_window.as_millis()).ok();
                ChannelCapabilities {
                    text: TextLimit { max: Some(rules.content_chars), ..table.text },
                    file_bytes: table.file_bytes.min(rules.file_bytes[&Tier::None]),
                    idempotency: Idempotency::Key { window_ms },
                    replies: ReplyRule::PersonMessage,
                    stream,
                    rate_limits: None,
                    joins_messages: false,
                    ..table
                }
            }
        }
    }
}

pub(crate) enum TestPlatform {
    Telegram(FakeTelegram),
    Discord(FakeDiscord),
}

impl TestPlatform {
    pub(crate) async fn open(rules: PlatformRules) -> Self {
        match rules {
            PlatformRules::Telegram(rules) => {
                let telegram = FakeTelegram::start(rules).await.expect("a loopback port");
                telegram.private_chat(telegram.person(PERSON, "Ann"));
                telegram.private_chat(telegram.person(OTHER_PERSON, "Ben"));
                Self::Telegram(telegram)
            }
            PlatformRules::Discord(rules) => {
                let discord = FakeDiscord::start(rules).await.expect("a loopback port");
                discord.person(MEMBER, "Ann");
                let guild = discord.guild(1, "Home", Tier::None);
                discord.channel(guild, CHANNEL, "general");
                discord.channel(guild, OTHER_CHANNEL, "elsewhere");
                Self::Discord(discord)
            }
        }
    }

    /// Waits until what people say reaches the product: Discord delivers it to open sessions alone.
    pub(crate) async fn wait_until_connected(&self) {
        if let Self::Discord(discord) = self {
            while discord.sessions() == 0 {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }

    /// The person's own conversation.
    pub(crate) fn conversation(adapter: ChannelAdapter) -> ConversationId {
        match adapter {
            ChannelAdapter::Telegram => telegram_conversation(PERSON),
            ChannelAdapter::Discord => discord_conversation(CHANNEL),
        }
    }

    pub(crate) fn other_conversation(adapter: ChannelAdapter) -> ConversationId {
        match adapter {
            ChannelAdapter::Telegram => telegram_conversation(OTHER_PERSON),
            ChannelAdapter::Discord => discord_conversation(OTHER_CHANNEL),
        }
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::Telegram(telegram) => telegram.api_url(),
            Self::Discord(discord) => discord.api_url(),
        }
    }

    /// Sends a message with all files; on Telegram one file is a message, and several are an album.
    pub(crate) fn person_sends(&self, conversation: &ConversationId, text: &str, mut files: Vec<FakeFile>) {
        match self {
            Self::Telegram(telegram) => {
                let chat = platform_id(conversation);
                let document = |file| PersonMessage::file(FileKind::Document, file);
                match files.len() {
                    0 => {
                        telegram.person_says(chat, chat, text);
                    }
                    1 => {
                        telegram.person_sends(chat, chat, document(files.remove(0)).caption(text));
                    }
                    _ => {
                        let mut items: Vec<PersonMessage> = files.into_iter().map(document).collect();
                        items[0] = items[0].clone().caption(text);
                        telegram.person_sends_album(chat, chat, items);
                    }
                }
            }
            Self::Discord(discord) => {
                discord.person_sends(platform_id(conversation), MEMBER, text, files);
            }
        }
    }

    pub(crate) fn person_says(&self, conversation: &ConversationId, text: &str) {
        self.person_sends(conversation, text, Vec::new());
    }

    /// Lets the request of an operation with this number go wrong; on Telegram the call of a method with this one.
    pub(crate) fn inject_fault(&self, operation: (Operation, u64), method: (&str, u64), fault: Fault) {
        match self {
            Self::Telegram(telegram) => telegram.script(method.0, FaultTiming::Nth(method.1), fault),
            Self::Discord(discord) => discord.script(route(operation.0), FaultTiming::Nth(operation.1), fault),
        }
    }

    /// Lets requests of an operation go wrong; on Telegram calls of a method.
    pub(crate) fn inject_faults(&self, operation: Operation, method: &str, when: FaultTiming, fault: Fault) {
        match self {
            Self::Telegram(telegram) => telegram.script(method, when, fault),
            Self::Discord(discord) => discord.script(route(operation), when, fault),
        }
    }

    /// Whether that request was made.
    pub(crate) fn has_request(&self, operation: (Operation, u64), method: &str) -> bool {
        match self {
            Self::Telegram(telegram) => telegram.requests(method) >= 1,
            Self::Discord(discord) => discord.requests(route(operation.0)) >= operation.1,
        }
    }

    pub(crate) fn unconfirmed_updates(&self) -> usize {
        match self {
            Self::Telegram(telegram) => telegram.unconfirmed_updates(),
            // Discord's gateway has no confirmation of updates.
            Self::Discord(_) => 0,
        }
    }

    pub(crate) fn transcript(&self) -> Transcript {
        match self {
            Self::Telegram(telegram) => telegram.transcript().shared(),
            Self::Discord(discord) => discord.transcript().shared(),
        }
    }

    /// Whether a person has seen something of the product in a conversation, and be it a preview.
    pub(crate) fn shows_something(&self, conversation: &ConversationId) -> bool {
        let has_preview = match self {
            Self::Telegram(telegram) => !telegram.transcript().drafts(platform_id(conversation)).is_empty(),
            Self::Discord(_) => false,
        };
        has_preview || self.transcript().visible(conversation).any(|message| message.own)
    }

    /// The bot's texts in a conversation, with marks where Telegram formats them: on Discord they are Markdown already.
    pub(crate) fn marked_texts(&self, conversation: &ConversationId) -> Vec<String> {
        match self {
            Self::Telegram(telegram) => telegram
                .transcript()
                .visible(platform_id(conversation))
                .map(|message| message.words.to_string())
                .collect(),
            Self::Discord(discord) => {
                discord.transcript().texts(platform_id(conversation)).into_iter().map(str::to_owned).collect()
            }
        }
    }

    pub(crate) fn requests(&self, operation: Operation) -> u64 {
        match self {
            Self::Telegram(telegram) => telegram.requests(method_pattern(operation)),
            Self::Discord(discord) => discord.requests(route(operation)),
        }
    }

    pub(crate) fn on_nth(&self, operation: Operation, number: u64, moment: RequestPhase) -> oneshot::Receiver<()> {
        match self {
            Self::Telegram(telegram) => telegram.on_nth(method_pattern(operation), number, moment),
            Self::Discord(discord) => discord.on_nth(route(operation), number, moment),
        }
    }
}

fn telegram_conversation(chat: i64) -> ConversationId {
    format!("telegram:{chat}").parse().expect("a chat's id makes a conversation")
}

fn discord_conversation(channel: u64) -> ConversationId {
    format!("discord:{channel}").parse().expect("a channel's id makes a conversation")
}

/// The platform's own id of a conversation.
fn platform_id<T: std::str::FromStr>(conversation: &ConversationId) -> T {
    let id = conversation.key().parse().ok();
    id.expect("a test names conversations of its platform")
}

/// The methods of the Bot API that an operation is.
fn method_pattern(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "send*",
        Operation::Edit => "editMessageText",
        Operation::Fetch => DOWNLOAD,
    }
}

/// The route of Discord's HTTP API that an operation is.
fn route(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "POST /channels/{}/messages",
        Operation::Edit => "PATCH /channels/{}/messages/{}",
        Operation::Fetch => CDN,
    }
}
