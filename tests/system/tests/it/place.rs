//! Where the person is: the platform that imitates others, or the fake Telegram, asked the same questions.

use satchel_domain::ConversationId;
use satchel_fakes::{
    FakeFile, FakeMode, FakePlatform, Fault, Moment, Operation, PlatformRules, Transcript, When,
    telegram::{Composed, DOWNLOAD, FakeTelegram, FileKind, TelegramRules},
};
use satchel_system::crash::Front;
use tokio::sync::oneshot;

/// The person's id on Telegram, and so the id of their chat with the bot.
const PERSON: i64 = 5;

pub(crate) enum Place {
    Imitated(FakePlatform),
    Telegram(FakeTelegram),
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
        }
    }

    /// The person's own conversation.
    pub(crate) fn conversation(front: Front) -> ConversationId {
        let channel = match front {
            Front::Imitated(FakeMode::DiscordLike) => "discord",
            Front::Imitated(FakeMode::TelegramLike) | Front::Telegram => "telegram",
        };
        format!("{channel}:{PERSON}").parse().expect("a conversation")
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::Imitated(platform) => platform.base_url(),
            Self::Telegram(telegram) => telegram.api_url(),
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
        }
    }

    /// Lets the request of an operation with this number go wrong; on Telegram the first call of a method.
    pub(crate) fn script(&self, operation: (Operation, u64), method: &str, fault: Fault) {
        match self {
            Self::Imitated(platform) => platform.script(operation.0, When::Nth(operation.1), fault),
            Self::Telegram(telegram) => telegram.script(method, When::Nth(1), fault),
        }
    }

    /// Whether that request was made.
    pub(crate) fn was_asked(&self, operation: (Operation, u64), method: &str) -> bool {
        match self {
            Self::Imitated(platform) => platform.requests(operation.0) >= operation.1,
            Self::Telegram(telegram) => telegram.requests(method) >= 1,
        }
    }

    pub(crate) fn unconfirmed_updates(&self) -> usize {
        match self {
            Self::Imitated(platform) => platform.unconfirmed_updates(),
            Self::Telegram(telegram) => telegram.unconfirmed_updates(),
        }
    }

    pub(crate) fn transcript(&self) -> Transcript {
        match self {
            Self::Imitated(platform) => platform.transcript(),
            Self::Telegram(telegram) => telegram.transcript().shared(),
        }
    }

    pub(crate) fn requests(&self, operation: Operation) -> u64 {
        match self {
            Self::Imitated(platform) => platform.requests(operation),
            Self::Telegram(telegram) => telegram.requests(methods(operation)),
        }
    }

    pub(crate) fn on_nth(&self, operation: Operation, number: u64, moment: Moment) -> oneshot::Receiver<()> {
        match self {
            Self::Imitated(platform) => platform.on_nth(operation, number, moment),
            Self::Telegram(telegram) => telegram.on_nth(methods(operation), number, moment),
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
