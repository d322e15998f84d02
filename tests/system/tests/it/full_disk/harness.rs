//! A household on a small disk, with people on Telegram and a model, and the real `satchel run` in it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use satchel_fake_kit::FakeFile;
use satchel_fake_model::{FakeModelServer, ModelWire};
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_system::real_binary::{TestHome, run_to_end, satchel_binary};

use super::{ANN, BEN, small_disk::SmallDisk};

/// After how long what is waited for is taken for something that never comes.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A household on a small disk, the people, and the model.
pub(super) struct FullDiskHarness {
    home: TestHome,
    pub(super) disk: SmallDisk,
    pub(super) telegram: FakeTelegram,
    pub(super) model: FakeModelServer,
}

impl FullDiskHarness {
    /// Opens one with these `storage` settings.
    pub(super) async fn open(home: TestHome, disk: SmallDisk, storage: &str) -> Self {
        let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
        telegram.private_chat(telegram.person(ANN, "Ann"));
        telegram.private_chat(telegram.person(BEN, "Ben"));
        let model = FakeModelServer::start().await.expect("a loopback port");
        let (token, url) = (telegram.token(), telegram.api_url());
        let wire = ModelWire::OpenAiChat;
        let (key, model_url, name) = (FakeModelServer::KEY, model.base_url(wire), wire.model());
        let settings = format!(
            "telegram: {{ token: '{token}', api_url: '{url}', owners: [{ANN}], allow_users: [{BEN}] }}\n\
             models: {{ main: {{ provider: openai, base_url: '{model_url}', api_key: '{key}', model: {name} }} }}\n\
             web: {{ listen: off }}\ndelivery: {{ pace: off }}\nstorage: {{ {storage} }}\n"
        );
        home.write_file("satchel.yaml", settings);
        Self { home, disk, telegram, model }
    }

    pub(super) fn satchel_command(&self, arguments: &[&str]) -> Command {
        self.disk.command(&self.home, &satchel_binary(), arguments)
    }

    pub(super) fn start(&self) -> SatchelProcess {
        let log = File::options().create(true).append(true).open(self.home.root().join("log"));
        let mut command = self.satchel_command(&["run"]);
        command.stdout(Stdio::null()).stderr(log.expect("the log is on a disk with room"));
        SatchelProcess(command.spawn().expect("the binary starts"))
    }

    /// Waits for a condition.
    pub(super) async fn wait_until(&self, description: &str, condition: impl Fn() -> bool) {
        let started_at = Instant::now();
        while !condition() {
            assert!(started_at.elapsed() < WAIT_TIMEOUT, "{description}: not in {WAIT_TIMEOUT:?}\n{}", self.summary());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Lets somebody do something and returns the reply.
    async fn wait_for_reply(&self, chat: i64, act: impl FnOnce(&FakeTelegram) -> i64) -> String {
        let before = self.texts(chat).len();
        act(&self.telegram);
        self.wait_until("a reply", || self.texts(chat).len() > before).await;
        self.texts(chat).remove(before)
    }

    pub(super) async fn reply_to_text(&self, chat: i64, text: &str) -> String {
        self.wait_for_reply(chat, |telegram| telegram.person_says(chat, chat, text)).await
    }

    pub(super) async fn reply_to_file(&self, chat: i64, file: &FakeFile) -> String {
        let message = PersonMessage::file(FileKind::Document, file.clone()).caption("keep this");
        self.wait_for_reply(chat, |telegram| telegram.person_sends(chat, chat, message)).await
    }

    pub(super) fn texts(&self, chat: i64) -> Vec<String> {
        self.telegram.transcript().texts(chat).into_iter().map(str::to_owned).collect()
    }

    /// The names and digests of the files that the ledger has, each verified on the disk.
    pub(super) fn files(&self) -> BTreeMap<String, String> {
        let listed = run_to_end(&mut self.satchel_command(&["attachments", "list", "--json"]));
        let listed = listed.json();
        let text = |value: &serde_json::Value| value.as_str().expect("it is text").to_owned();
        let listed = listed.as_array().expect("a list");
        let listed = listed.iter().map(|file| (text(&file["filename"]), text(&file["sha256"])));
        listed
            .inspect(|(name, sha256)| {
                let path = format!("blobs/{}/{}/{sha256}", &sha256[..2], &sha256[2..4]);
                assert_eq!(self.disk.sha256(&path), *sha256, "{name} is whole");
            })
            .collect()
    }

    /// Whether the model has been asked with these words.
    pub(super) fn has_model_read(&self, text: &str) -> bool {
        self.model.requests().iter().any(|asked| asked.user_text().contains(text))
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.home.root().join("log")).unwrap_or_default()
    }

    pub(super) fn summary(&self) -> String {
        format!("{}\n{}\n{} bytes are free", self.telegram.transcript(), self.log(), self.disk.free_bytes())
    }
}

/// A running `satchel run`.
pub(super) struct SatchelProcess(Child);

impl SatchelProcess {
    /// Lets it end in good order.
    pub(super) fn stop(mut self) -> Option<i32> {
        let status = Command::new("kill").args(["-s", "TERM", &self.0.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "a running process takes a signal");
        self.0.wait().expect("a child can be waited for").code()
    }
}

impl Drop for SatchelProcess {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}
