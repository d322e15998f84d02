//! Where the person is: the platform that imitates others, or the fake Telegram, asked the same questions.

use satchel_domain::ConversationId;
use satchel_fakes::{
    FakeFile, FakePlatform, Moment, Operation, Transcript,
    telegram::{Composed, DOWNLOAD, FakeTelegram, FileKind, TelegramRules},
};
use tokio::sync::oneshot;

use super::scene::{Platform, Scene};

/// The person's id on Telegram, and so the id of their chat with the bot.
const PERSON: i64 = 5;

pub(crate) enum Place {
    Imitated(FakePlatform),
    Telegram(FakeTelegram),
}

impl Place {
    pub(crate) async fn start(scene: &Scene) -> Self {
        if scene.platform != Platform::Telegram {
            return Self::Imitated(FakePlatform::start(scene.rules.clone()).await.expect("a loopback port"));
        }
        let text_units = scene.rules.text_units;
        let rules = TelegramRules { text_units, upload_bytes: scene.rules.file_bytes, ..TelegramRules::default() };
        let telegram = FakeTelegram::start(rules).await.expect("a loopback port");
        let chat = telegram.private_chat(telegram.person(PERSON, "Ann"));
        assert_eq!(scene.conversation.key(), chat.to_string(), "a private chat has its person's id");
        Self::Telegram(telegram)
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
