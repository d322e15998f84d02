//! The real binary on a disk that is really full: the ledger goes on, everybody is told, nothing is lost.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

mod small_disk;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use satchel_fakes::{
    FakeFile, FakeModelServer,
    model::ModelWire,
    telegram::{Composed, FakeTelegram, FileKind, TelegramRules},
};
use satchel_requirements::required;
use satchel_system::real_binary::{Household, finish, satchel_binary};

use self::small_disk::SmallDisk;

/// Ann owns the bot, Ben may talk to it. Their ids are those of their chats.
const ANN: i64 = 41;
const BEN: i64 = 42;

/// The size of the disk in MiB, and 5 % of it.
const DISK_MIB: u64 = 100;
const RESERVE: u64 = 5 << 20;

/// After how long what is waited for is taken for something that never comes.
const PATIENCE: Duration = Duration::from_secs(90);

const LOOK: Duration = Duration::from_millis(20);

/// A household on a small disk, the people, and the model.
struct Scene {
    household: Household,
    disk: SmallDisk,
    telegram: FakeTelegram,
    model: FakeModelServer,
}

impl Scene {
    /// Opens one with these `storage` settings; `None` where the machine lets nobody mount a disk.
    #[track_caller]
    fn open(storage: &str) -> Option<impl Future<Output = Self>> {
        let household = Household::new();
        let disk = required(SmallDisk::mount(&household, DISK_MIB))?;
        let storage = storage.to_owned();
        Some(async move {
            let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
            telegram.private_chat(telegram.person(ANN, "Ann"));
            telegram.private_chat(telegram.person(BEN, "Ben"));
            let model = FakeModelServer::start().await.expect("a loopback port");
            let (token, url) = (telegram.token(), telegram.api_url());
            let (key, model_url) = (FakeModelServer::KEY, model.base_url(ModelWire::OpenAiChat));
            let settings = format!(
                "telegram: {{ token: '{token}', api_url: '{url}', owners: [{ANN}], allow_users: [{BEN}] }}\n\
                 models: {{ main: {{ provider: openai, base_url: '{model_url}', api_key: '{key}' }} }}\n\
                 web: {{ listen: off }}\ndelivery: {{ pace: off }}\nstorage: {{ {storage} }}\n"
            );
            household.file("satchel.yaml", settings);
            Self { household, disk, telegram, model }
        })
    }

    fn satchel(&self, arguments: &[&str]) -> Command {
        self.disk.command(&self.household, &satchel_binary(), arguments)
    }

    fn start(&self) -> Server {
        let log = File::options().create(true).append(true).open(self.household.root().join("log"));
        let mut command = self.satchel(&["run"]);
        command.stdout(Stdio::null()).stderr(log.expect("the log is on a disk with room"));
        Server(command.spawn().expect("the binary starts"))
    }

    /// Waits for a condition.
    async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(begun.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}\n{}", self.known());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Lets somebody do something and returns the reply.
    async fn reply(&self, chat: i64, act: impl FnOnce(&FakeTelegram)) -> String {
        let before = self.texts(chat).len();
        act(&self.telegram);
        self.until("a reply", || self.texts(chat).len() > before).await;
        self.texts(chat).remove(before)
    }

    async fn reply_to_text(&self, chat: i64, text: &str) -> String {
        self.reply(chat, |telegram| drop(telegram.person_says(chat, chat, text))).await
    }

    async fn reply_to_file(&self, chat: i64, file: &FakeFile) -> String {
        let composed = Composed::file(FileKind::Document, file.clone()).caption("keep this");
        self.reply(chat, |telegram| drop(telegram.person_sends(chat, chat, composed))).await
    }

    fn texts(&self, chat: i64) -> Vec<String> {
        self.telegram.transcript().texts(chat).into_iter().map(str::to_owned).collect()
    }

    /// The names and digests of the files that the ledger has, each verified on the disk.
    fn files(&self) -> BTreeMap<String, String> {
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

    fn log(&self) -> String {
        fs::read_to_string(self.household.root().join("log")).unwrap_or_default()
    }

    fn known(&self) -> String {
        format!("{}\n{}\n{} bytes free", self.telegram.transcript(), self.log(), self.disk.free())
    }
}

/// A running `satchel run`.
struct Server(Child);

impl Server {
    /// Lets it end in good order.
    fn stop(mut self) -> Option<i32> {
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

fn file(name: &str, seed: u64) -> FakeFile {
    FakeFile::generated(name, "application/octet-stream", seed, 3_000_000)
}

fn digests(files: &[&FakeFile]) -> BTreeMap<String, String> {
    files.iter().map(|file| (file.filename.clone(), file.sha256().to_string())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_leave_the_reserve_of_a_full_disk_to_the_ledger() {
    let Some(scene) = Scene::open("") else { return };
    let scene = scene.await;
    let server = scene.start();
    scene.reply_to_text(ANN, "hello").await;
    scene.disk.fill(RESERVE + 8_000_000);
    let [first, second, third, fourth] =
        [("f1.bin", 1), ("f2.bin", 2), ("f3.bin", 3), ("f4.bin", 4)].map(|(name, seed)| file(name, seed));
    for kept in [&first, &second] {
        let reply = scene.reply_to_file(ANN, kept).await;
        assert!(!reply.contains("could not"), "{reply}");
    }

    let told = scene.reply_to_file(ANN, &third).await;
    for words in ["I could not take `f3.bin`", "MB free, 5.2 MB is kept free for the database", "`storage.reserve`"] {
        assert!(told.contains(words), "{words} in {told}");
    }
    let read = scene.model.last().words();
    assert!(read.contains("Not taken: \"f3.bin\"") && read.contains("5.2 MB is kept free"), "{read}");
    let told = scene.reply_to_file(BEN, &file("b.bin", 5)).await;
    assert!(told.contains("`b.bin`") && told.contains("5.2 MB is kept free"), "{told}");
    assert!(told.contains("ask whoever runs me") && !told.contains("storage.reserve"), "{told}");
    let free = scene.disk.free();
    assert!(free > RESERVE, "{free} bytes are free");
    println!("files are refused with {free} bytes free, {RESERVE} of them the reserve");

    let reply = scene.reply_to_text(ANN, "still there?").await;
    assert!(!reply.is_empty());
    assert_eq!(server.stop(), Some(0), "{}", scene.known());
    let server = scene.start();
    scene.reply_to_text(ANN, "and after a restart?").await;

    scene.disk.clear();
    let reply = scene.reply_to_file(ANN, &fourth).await;
    assert!(!reply.contains("could not"), "{reply}");
    assert_eq!(server.stop(), Some(0), "{}", scene.known());
    assert_eq!(scene.files(), digests(&[&first, &second, &fourth]));
    assert_eq!(scene.telegram.unconfirmed_updates(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_without_room_loses_nothing_that_was_acknowledged() {
    /// What is logged where a message can't be stored.
    const STUCK: &str = "can't be stored; Telegram keeps it until it can";
    let Some(scene) = Scene::open("reserve: 0") else { return };
    let scene = scene.await;
    let server = scene.start();
    scene.reply_to_text(ANN, "hello").await;
    scene.disk.fill(0);

    // What room the database has within its own files is used up first.
    let mut said = Vec::new();
    while !scene.log().contains(STUCK) {
        assert!(said.len() < 400, "the database never runs out of room\n{}", scene.known());
        let text = format!("message-{:03}. {}", said.len(), "All work and no play. ".repeat(100));
        scene.telegram.person_says(ANN, ANN, &text);
        said.push(text);
        let taken = || scene.telegram.unconfirmed_updates() == 0 || scene.log().contains(STUCK);
        scene.until("the message is taken or not", taken).await;
    }
    let late = file("late.bin", 9);
    scene.telegram.person_sends(ANN, ANN, Composed::file(FileKind::Document, late.clone()).caption("keep this"));
    let waiting = scene.telegram.unconfirmed_updates();
    assert!(waiting > 0, "{}", scene.known());
    println!("{} messages until the ledger is full; {waiting} updates wait at the platform", said.len());

    scene.disk.clear();
    scene.until("everything is taken", || scene.telegram.unconfirmed_updates() == 0).await;
    let has_read = |text: &str| scene.model.asked().iter().any(|asked| asked.words().contains(text));
    scene.until("everything is read", || said.iter().all(|text| has_read(text)) && has_read("late.bin")).await;
    let reply = scene.reply_to_text(ANN, "all there?").await;
    assert!(!reply.is_empty());
    let read = scene.model.last().words();
    for text in &said {
        assert_eq!(read.matches(text.as_str()).count(), 1, "{text} in {read}");
    }
    assert_eq!(server.stop(), Some(0), "{}", scene.known());
    assert_eq!(scene.files(), digests(&[&late]));
    println!("{}", scene.log());
}
