//! Messages that belong together, as clients send them: a long text in two, a comment and its forward, a question and its file.
//! The real binary answers them once, and its model reads all of them.

use std::{
    process::{Child, Stdio},
    time::Duration,
};

use satchel_fake_discord::{DiscordRules, FakeDiscord};
use satchel_fake_kit::FakeFile;
use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, ReplyPiece, RequestStatus};
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_system::real_binary::TestHome;
use satchel_wait::wait_until;

const ANN: i64 = 41;
const BOB: i64 = 42;

/// Ann on Discord.
const ANN_ON_DISCORD: u64 = 41;

/// How soon the next message of a client arrives.
const CLIENTS_PAUSE: Duration = Duration::from_millis(100);

/// Longer than any test.
const WRITING_TIME: Duration = Duration::from_secs(3_600);

const QUESTION: &str = "What do you make of this?";

/// A process with a model that a test scripts. It is killed at the end.
struct QuickMessagesHarness {
    model: FakeModelServer,
    process: Child,
    _home: TestHome,
}

impl Drop for QuickMessagesHarness {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _status = self.process.wait();
    }
}

impl QuickMessagesHarness {
    /// Starts Satchel on a platform that is configured so.
    async fn start(platform: &str) -> Self {
        let (home, model) = (TestHome::new(), FakeModelServer::start().await.expect("a loopback port"));
        let wire = ModelWire::OpenAiChat;
        home.write_file(
            "satchel.yaml",
            format!(
                "{platform}web: {{ listen: off }}\ndelivery: {{ pace: off }}\nmodel: fake\n\
                 models: {{ fake: {{ provider: openai, base_url: '{}', api_key: '{}', model: '{}' }} }}\n",
                model.base_url(wire),
                FakeModelServer::KEY,
                wire.model()
            ),
        );
        let mut command = home.satchel_command(&["run"]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
        Self { model, process, _home: home }
    }

    /// Lets the model write without end where it reads only the question, and answer where it reads what belongs to it.
    fn answers_only(&self, question: &str, addition: &str, answer: &str) {
        self.model.reply(ModelReply::text(answer).when(addition));
        self.model.reply(ModelReply::pieces([ReplyPiece::Wait(WRITING_TIME)]).when(question).every_time());
    }

    /// Checks that the model read the question and what belongs to it in the last request, in this order, and that calls for the
    /// question alone were dropped.
    async fn check_last_request(&self, question: &str, additions: &[&str]) {
        let read = self.model.last().user_text();
        let places: Vec<Option<usize>> = [question].iter().chain(additions).map(|words| read.rfind(*words)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{question:?}, {additions:?} in {read}");
        let is_dropped = self.model.wait_until(|requests| {
            let (_, earlier) = requests.split_last().expect("there is one");
            earlier.iter().all(|request| request.status != RequestStatus::Running)
        });
        is_dropped.await.expect("the call for the question alone is dropped");
    }
}

async fn open_telegram() -> (FakeTelegram, QuickMessagesHarness) {
    let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
    for (id, name) in [(ANN, "Ann"), (BOB, "Bob")] {
        telegram.private_chat(telegram.person(id, name));
    }
    let (token, url) = (telegram.token(), telegram.api_url());
    let settings = format!(
        "telegram: {{ token: '{token}', api_url: '{url}', owners: [{ANN}], allow_users: [{BOB}], groups: ['*'] }}\n"
    );
    let harness = QuickMessagesHarness::start(&settings).await;
    (telegram, harness)
}

#[tokio::test(flavor = "multi_thread")]
async fn long_text_on_telegram_is_answered_with_its_rest() {
    let (telegram, harness) = open_telegram().await;
    let beginning = format!("{}{}", "word ".repeat(819), "x");
    assert_eq!(beginning.len(), 4_096);
    harness.model.reply(ModelReply::text("It says word, often."));
    telegram.person_says(ANN, ANN, &beginning);
    // As a client sends the rest.
    tokio::time::sleep(CLIENTS_PAUSE).await;
    telegram.person_says(ANN, ANN, "What does all of it say?");
    wait_until("the answer", || telegram.transcript().texts(ANN) == ["It says word, often."]).await;
    let requests = harness.model.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    let read = requests[0].user_text();
    assert!(read.contains(&format!("{beginning}\nWhat does all of it say?")), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forward_and_file_on_telegram_are_answered_with_their_question() {
    let (telegram, harness) = open_telegram().await;
    harness.answers_only(QUESTION, "The bakery opens again.", "Fine news.");
    telegram.person_says(ANN, ANN, QUESTION);
    // As a client sends what is forwarded.
    tokio::time::sleep(CLIENTS_PAUSE).await;
    telegram.person_sends(ANN, ANN, PersonMessage::text("The bakery opens again.").forwarded_from(BOB));
    wait_until("an answer", || telegram.transcript().texts(ANN) == ["Fine news."]).await;
    harness.check_last_request(QUESTION, &["The bakery opens again."]).await;

    harness.answers_only("And of the plan?", "the one with the garden", "A fine plan, too.");
    telegram.person_says(ANN, ANN, "And of the plan?");
    // As a client sends a file.
    tokio::time::sleep(CLIENTS_PAUSE).await;
    let file = FakeFile::from_bytes("plan.bin", "application/octet-stream", "a plan");
    let message = PersonMessage::file(FileKind::Document, file).caption("the one with the garden");
    telegram.person_sends(ANN, ANN, message);
    wait_until("an answer", || telegram.transcript().texts(ANN) == ["Fine news.", "A fine plan, too."]).await;
    harness.check_last_request("And of the plan?", &["the one with the garden", "plan.bin"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_of_another_person_in_a_group_is_answered_by_itself() {
    let (telegram, harness) = open_telegram().await;
    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("To Ann.".to_owned())];
    harness.model.reply(ModelReply::pieces(pieces));
    harness.model.reply(ModelReply::text("To Bob."));
    let (group, bot) = (telegram.supergroup("Family", &[ANN, BOB]), telegram.bot().1);
    telegram.person_says(group, ANN, &format!("@{bot} {QUESTION}"));
    telegram.person_says(group, BOB, &format!("@{bot} And what do I do?"));
    harness.model.wait_until(|requests| requests.len() == 1).await.expect("the model is called");
    wait_until("both are taken", || telegram.unconfirmed_updates() == 0).await;
    harness.model.clock().advance(WRITING_TIME);
    wait_until("both answers", || telegram.transcript().texts(group) == ["To Ann.", "To Bob."]).await;
    let requests = harness.model.requests();
    assert!(requests.len() == 2 && !requests[0].user_text().contains("And what do I do?"), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_and_forward_on_discord_are_answered_with_what_belongs_to_them() {
    let discord = FakeDiscord::start(DiscordRules::default()).await.expect("a loopback port");
    let channel = discord.direct(discord.person(ANN_ON_DISCORD, "Ann"));
    let (token, url) = (discord.token(), discord.api_url());
    let settings = format!("discord: {{ token: '{token}', api_url: '{url}', owners: ['{ANN_ON_DISCORD}'] }}\n");
    let harness = QuickMessagesHarness::start(&settings).await;
    wait_until("it is connected", || discord.gateway().connected() > 0).await;

    let beginning = "y".repeat(2_000);
    harness.model.reply(ModelReply::text("Many letters."));
    let long = discord.person_says(channel, ANN_ON_DISCORD, &beginning);
    // As a person sends the rest.
    tokio::time::sleep(CLIENTS_PAUSE).await;
    discord.person_says(channel, ANN_ON_DISCORD, "How many are they?");
    wait_until("the answer", || discord.transcript().texts(channel) == ["Many letters."]).await;
    assert!(harness.model.last().user_text().contains(&format!("{beginning}\nHow many are they?")));
    assert_eq!(harness.model.requests().len(), 1);

    harness.answers_only(QUESTION, &beginning, "Those letters.");
    discord.person_says(channel, ANN_ON_DISCORD, QUESTION);
    // As a client sends what is forwarded.
    tokio::time::sleep(CLIENTS_PAUSE).await;
    discord.person_forwards(channel, ANN_ON_DISCORD, long);
    wait_until("an answer", || discord.transcript().texts(channel) == ["Many letters.", "Those letters."]).await;
    harness.check_last_request(QUESTION, &[&beginning]).await;
}
