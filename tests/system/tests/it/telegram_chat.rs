//! A person's chat on Telegram with the real binary, whose model writes as a test says.

use std::{
    fs::File,
    process::{Child, Stdio},
    time::Duration,
};

use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, ReplyPiece};
use satchel_fake_telegram::{FakeTelegram, TelegramRules, TelegramTranscript};
use satchel_system::real_binary::TestHome;

/// The owner, and the id of their chat with the bot; and somebody who may talk.
pub(crate) const ANN: i64 = 41;
pub(crate) const BOB: i64 = 42;

/// How long the model pauses, by its own clock.
pub(crate) const PAUSE: Duration = Duration::from_secs(600);

/// The process is killed at the end.
pub(crate) struct TelegramChatHarness {
    pub(crate) telegram: FakeTelegram,
    pub(crate) model: FakeModelServer,
    pub(crate) home: TestHome,
    process: Child,
}

impl Drop for TelegramChatHarness {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _status = self.process.wait();
    }
}

impl TelegramChatHarness {
    /// Starts Satchel with these settings of `telegram`, and these lines of its configuration.
    pub(crate) async fn start(rules: TelegramRules, telegram_settings: &str, more: &str) -> Self {
        let telegram = FakeTelegram::start(rules).await.expect("a loopback port");
        for (id, name) in [(ANN, "Ann"), (BOB, "Bob")] {
            telegram.private_chat(telegram.person(id, name));
        }
        let (home, model) = (TestHome::new(), FakeModelServer::start().await.expect("a loopback port"));
        let wire = ModelWire::OpenAiChat;
        let (token, url) = (telegram.token(), telegram.api_url());
        home.write_file(
            "satchel.yaml",
            format!(
                "telegram:\n  {{ token: '{token}', api_url: '{url}', owners: [{ANN}], allow_users: [{BOB}], groups: ['*'], \
                 {telegram_settings} }}\nweb: {{ listen: off }}\ndelivery: {{ pace: off }}\nmodel: fake\n\
                 models: {{ fake: {{ provider: openai, base_url: '{}', api_key: '{}', model: '{}' }} }}\n{more}",
                model.base_url(wire),
                FakeModelServer::KEY,
                wire.model()
            ),
        );
        let process = spawn_satchel(&home);
        Self { telegram, model, home, process }
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("a process can be killed");
        self.process.wait().expect("it ends");
    }

    pub(crate) fn restart(&mut self) {
        self.process = spawn_satchel(&self.home);
    }

    /// Lets the model write these pieces to the next request, with a pause after each but the last.
    pub(crate) fn writes_with_pauses(&self, pieces: &[&str]) {
        let pause = || ReplyPiece::Wait(PAUSE);
        let mut reply = Vec::new();
        for piece in pieces {
            reply.extend((!reply.is_empty()).then(pause));
            reply.push(ReplyPiece::Text((*piece).to_owned()));
        }
        self.model.reply(ModelReply::pieces(reply));
    }

    /// Ends the model's pause.
    pub(crate) fn goes_on(&self) {
        self.model.clock().advance(PAUSE);
    }

    /// Waits until the chats read as wanted.
    pub(crate) async fn wait_until(&self, expected: &str, is_met: impl Fn(&TelegramTranscript) -> bool) {
        let met = self.telegram.wait_until(is_met).await;
        let log = || std::fs::read_to_string(self.home.root().join("log")).unwrap_or_default();
        assert!(met.is_ok(), "not {expected}:\n{}\n{}", self.telegram.transcript(), log());
    }

    /// Waits until the bot's texts in a chat are these.
    pub(crate) async fn wait_for_texts(&self, chat: i64, texts: &[&str]) {
        self.wait_until(&format!("{texts:?}"), |transcript| transcript.texts(chat) == texts).await;
    }
}

fn spawn_satchel(home: &TestHome) -> Child {
    let log = File::options().create(true).append(true).open(home.root().join("log"));
    let mut command = home.satchel_command(&["run", "--log", "debug"]);
    command.stdout(Stdio::null()).stderr(log.expect("a log can be written")).spawn().expect("the binary starts")
}
