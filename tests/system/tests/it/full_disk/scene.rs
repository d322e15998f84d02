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
use satchel_system::real_binary::{Household, finish, satchel_binary};

use super::{ANN, BEN, small_disk::SmallDisk};

/// After how long what is waited for is taken for something that never comes.
const PATIENCE: Duration = Duration::from_secs(90);

const LOOK: Duration = Duration::from_millis(20);

/// A household on a small disk, the people, and the model.
pub(super) struct Scene {
    household: Household,
    pub(super) disk: SmallDisk,
    pub(super) telegram: FakeTelegram,
    pub(super) model: FakeModelServer,
}

impl Scene {
    /// Opens one with these `storage` settings.
    pub(super) async fn open(household: Household, disk: SmallDisk, storage: &str) -> Self {
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
        household.file("satchel.yaml", settings);
        Self { household, disk, telegram, model }
    }

    pub(super) fn satchel(&self, arguments: &[&str]) -> Command {
        self.disk.command(&self.household, &satchel_binary(), arguments)
    }

    pub(super) fn start(&self) -> Server {
        let log = File::options().create(true).append(true).open(self.household.root().join("log"));
        let mut command = self.satchel(&["run"]);
        command.stdout(Stdio::null()).stderr(log.expect("the log is on a disk with room"));
        Server(command.spawn().expect("the binary starts"))
    }

    /// Waits for a condition.
    pub(super) async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(begun.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}\n{}", self.known());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Lets somebody do something and returns the reply.
    async fn reply(&self, chat: i64, act: impl FnOnce(&FakeTelegram) -> i64) -> String {
        let before = self.texts(chat).len();
        act(&self.telegram);
        self.until("a reply", || self.texts(chat).len() > before).await;
        self.texts(chat).remove(before)
    }

    pub(super) async fn reply_to_text(&self, chat: i64, text: &str) -> String {
        self.reply(chat, |telegram| telegram.person_says(chat, chat, text)).await
    }

    pub(super) async fn reply_to_file(&self, chat: i64, file: &FakeFile) -> String {
        let composed = PersonMessage::file(FileKind::Document, file.clone()).caption("keep this");
        self.reply(chat, |telegram| telegram.person_sends(chat, chat, composed)).await
    }

    pub(super) fn texts(&self, chat: i64) -> Vec<String> {
        self.telegram.transcript().texts(chat).into_iter().map(str::to_owned).collect()
    }

    /// The names and digests of the files that the ledger has, each verified on the disk.
    pub(super) fn files(&self) -> BTreeMap<String, String> {
        let listed = finish(&mut self.satchel(&["attachments", "list", "--json"]));
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
    pub(super) fn has_read(&self, words: &str) -> bool {
        self.model.requests().iter().any(|asked| asked.user_text().contains(words))
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.household.root().join("log")).unwrap_or_default()
    }

    pub(super) fn known(&self) -> String {
        format!("{}\n{}\n{} bytes are free", self.telegram.transcript(), self.log(), self.disk.free())
    }
}

/// A running `satchel run`.
pub(super) struct Server(Child);

impl Server {
    /// Lets it end in good order.
    pub(super) fn stop(mut self) -> Option<i32> {
        let told = Command::new("kill").args(["-s", "TERM", &self.0.id().to_string()]).status();
        assert!(told.is_ok_and(|status| status.success()), "a running process takes a signal");
        self.0.wait().expect("a child can be waited for").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}
