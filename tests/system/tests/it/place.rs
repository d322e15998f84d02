//! Where the person is: the platform that imitates others, or the fake Telegram, asked the same questions.

use std::time::Duration;

use satchel_domain::ConversationId;
use satchel_fakes::{
    FakeDiscord, FakeFile, FakeMode, FakePlatform, Fault, Moment, Operation, PlatformRules, Transcript, When,
    discord::{CDN, DiscordRules, Tier},
    telegram::{Composed, DOWNLOAD, FakeTelegram, FileKind, TelegramRules},
};
use satchel_system::crash::Front;
use tokio::sync::oneshot;

/// The person's id on Telegram, and so the id of their chat with the bot.
const PERSON: i64 = 5;

/// The person's id on Discord.
const MEMBER: u64 = 5;

/// The channel on Discord in which the person talks to the bot.
const CHANNEL: u64 = 7;

/// How often is looked whether a platform is listened to.
const LOOK: Duration = Duration::from_millis(2);

pub(crate) enum Place {
    Imitated(FakePlatform),
    Telegram(FakeTelegram),
    Discord(FakeDiscord),
}

impl Place {
    /// Opens the place that is reached through this front, with the limits of these rules.
    pub(crate) async fn open(front: Front, rules: PlatformRules) -> Self {
        match front {
            Front::Imitated(_) => Self::Imitated(FakePlatform::start(rules).await.expect("a loopback port")),
            Front::Telegram => {
                let PlatformRules { text_units, file_bytes, .. } = rules;
                let rules = TelegramRules { text_units, upload_bytes: file_bytes, ..TelegramRules::default() };
                let telegram = FakeTelegram::start(rules).await.expect("a loopback port");
                telegram.private_chat(telegram.person(PERSON, "Ann"));
                Self::Telegram(telegram)
            }
            Front::Discord => {
                let PlatformRules { text_units, file_bytes, nonce_window, .. } = rules;
                let rules = DiscordRules {
                    content_chars: text_units,
                    file_bytes: [(Tier::None, file_bytes)].into(),
                    request_bytes: rules.request_bytes.unwrap_or(u64::MAX),
                    nonce_window,
                    ..DiscordRules::unpaced()
                };
                let discord = FakeDiscord::start(rules).await.expect("a loopback port");
                discord.person(MEMBER, "Ann");
                discord.channel(discord.guild(1, "Home", Tier::None), CHANNEL, "general");
                Self::Discord(discord)
            }
        }
    }

    /// Waits until what people say is heard: Discord tells it to who is there, and remembers no more than a session.
    pub(crate) async fn is_listened_to(&self) {
        if let Self::Discord(discord) = self {
            while discord.sessions() == 0 {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// The person's own conversation.
    pub(crate) fn conversation(front: Front) -> ConversationId {
        let conversation = match front {
            Front::Imitated(FakeMode::DiscordLike) => format!("discord:{PERSON}"),
            Front::Imitated(FakeMode::TelegramLike) | Front::Telegram => format!("telegram:{PERSON}"),
            Front::Discord => format!("discord:{CHANNEL}"),
        };
        conversation.parse().expect("a conversation")
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::Imitated(platform) => platform.base_url(),
            Self::Telegram(telegram) => telegram.api_url(),
            Self::Discord(discord) => discord.api_url(),
        }
    }

    pub(crate) fn person_sends(&self, conversation: &ConversationId, text: &str, file: FakeFile) {
        match self {
            Self::Imitated(platform) => {
                platform.person_says(conversation, text, vec![file]);
            }
            Self::Telegram(telegram) => {
                telegram.person_sends(PERSON, PERSON, Composed::file(FileKind::Document, file).caption(text));
            }
            Self::Discord(discord) => {
                discord.person_sends(CHANNEL, MEMBER, text, vec![file]);
            }
        }
    }

    pub(crate) fn person_says(&self, conversation: &ConversationId, text: &str) {
        match self {
            Self::Imitated(platform) => {
                platform.person_says(conversation, text, Vec::new());
            }
            Self::Telegram(telegram) => {
                telegram.person_says(PERSON, PERSON, text);
            }
            Self::Discord(discord) => {
                discord.person_says(CHANNEL, MEMBER, text);
            }
        }
    }

    /// Lets the request of an operation with this number go wrong; on Telegram the call of a method with this one.
    pub(crate) fn script(&self, operation: (Operation, u64), method: (&str, u64), fault: Fault) {
        match self {
            Self::Imitated(platform) => platform.script(operation.0, When::Nth(operation.1), fault),
            Self::Telegram(telegram) => telegram.script(method.0, When::Nth(method.1), fault),
            Self::Discord(discord) => discord.script(route(operation.0), When::Nth(operation.1), fault),
        }
    }

    /// Lets requests of an operation go wrong; on Telegram calls of a method.
    pub(crate) fn script_all(&self, operation: Operation, method: &str, when: When, fault: Fault) {
        match self {
            Self::Imitated(platform) => platform.script(operation, when, fault),
            Self::Telegram(telegram) => telegram.script(method, when, fault),
            Self::Discord(discord) => discord.script(route(operation), when, fault),
        }
    }

    /// Whether that request was made.
    pub(crate) fn was_asked(&self, operation: (Operation, u64), method: &str) -> bool {
        match self {
            Self::Imitated(platform) => platform.requests(operation.0) >= operation.1,
            Self::Telegram(telegram) => telegram.requests(method) >= 1,
            Self::Discord(discord) => discord.requests(route(operation.0)) >= operation.1,
        }
    }

    pub(crate) fn unconfirmed_updates(&self) -> usize {
        match self {
            Self::Imitated(platform) => platform.unconfirmed_updates(),
            Self::Telegram(telegram) => telegram.unconfirmed_updates(),
            // Discord never hears what was taken.
            Self::Discord(_) => 0,
        }
    }

    pub(crate) fn transcript(&self) -> Transcript {
        match self {
            Self::Imitated(platform) => platform.transcript(),
            Self::Telegram(telegram) => telegram.transcript().shared(),
            Self::Discord(discord) => discord.transcript().shared(),
        }
    }

    pub(crate) fn requests(&self, operation: Operation) -> u64 {
        match self {
            Self::Imitated(platform) => platform.requests(operation),
            Self::Telegram(telegram) => telegram.requests(methods(operation)),
            Self::Discord(discord) => discord.requests(route(operation)),
        }
    }

    pub(crate) fn on_nth(&self, operation: Operation, number: u64, moment: Moment) -> oneshot::Receiver<()> {
        match self {
            Self::Imitated(platform) => platform.on_nth(operation, number, moment),
            Self::Telegram(telegram) => telegram.on_nth(methods(operation), number, moment),
            Self::Discord(discord) => discord.on_nth(route(operation), number, moment),
        }
    }
}

/// The methods of the Bot API that an operation is.
fn methods(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "send*",
        Operation::Edit => "editMessageText",
        Operation::Delete => "deleteMessage",
        Operation::Probe => "getMe",
        Operation::Updates => "getUpdates",
        Operation::Fetch => DOWNLOAD,
        Operation::History => "no such method",
    }
}

/// The route of Discord's HTTP API that an operation is.
fn route(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "POST /channels/{}/messages",
        Operation::Edit => "PATCH /channels/{}/messages/{}",
        Operation::Delete => "DELETE /channels/{}/messages/{}",
        Operation::Probe => "GET /users/@me",
        Operation::Fetch => CDN,
        Operation::History => "GET /channels/{}/messages",
        Operation::Updates => "no such route",
    }
}
