//! `satchel migrate`, with the real binary: a chat with files moves to PostgreSQL and S3 and back, and nothing answers from
//! where it was.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_requirements::required;
use satchel_servers::{S3Server, postgres::TestDatabase};
use satchel_system::real_binary::{ProcessOutput, TestHome, wait_for_exit};
use satchel_wait::wait_until;

const ANN: i64 = 41;

/// A process that is killed when a test fails.
struct KilledAtEnd(Option<Child>);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            let _ended_already = process.kill();
            let _status = process.wait();
        }
    }
}

/// A chat with a bot whose data is moved about.
struct MovingBot {
    home: TestHome,
    telegram: FakeTelegram,
    chat: i64,
}

impl MovingBot {
    async fn new() -> Self {
        let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a port");
        let chat = telegram.private_chat(telegram.person(ANN, "Ann"));
        Self { home: TestHome::new(), telegram, chat }
    }

    fn configure(&self, name: &str, storage: &str) {
        let (token, url) = (self.telegram.token(), self.telegram.api_url());
        self.home.write_file(
            name,
            format!(
                "telegram: {{ token: '{token}', api_url: '{url}', owners: [{ANN}] }}\nmodel: offline\n\
                 web: {{ listen: off }}\nstorage: {storage}\n"
            ),
        );
    }

    /// Lets the bot run with a configuration while `talk` lasts.
    async fn serve(&self, config: &str, talk: impl AsyncFnOnce()) {
        let mut serve = self.home.satchel_command(&["run", "--config", config]);
        let serve = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut process = KilledAtEnd(Some(serve.spawn().expect("the binary starts")));
        talk().await;
        let process = process.0.take().expect("it runs");
        let signal = Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
        assert!(signal.expect("kill can be run").success());
        let ended = tokio::task::spawn_blocking(move || wait_for_exit(process)).await.expect("it ends");
        assert_eq!(ended.exit_code(), Some(0), "{ended:?}");
    }

    /// Says something, and waits for an answer with these words.
    async fn ask(&self, question: &str, words: &str) {
        let before = self.telegram.transcript().texts(self.chat).len();
        self.telegram.person_says(self.chat, ANN, question);
        let is_answered =
            || self.telegram.transcript().texts(self.chat)[before..].iter().any(|text| text.contains(words));
        wait_until(&format!("{words:?} as an answer to {question}"), is_answered).await;
    }

    async fn send_file(&self, file: &FakeFile) {
        let before = self.telegram.transcript().texts(self.chat).len();
        let message = PersonMessage::file(FileKind::Document, file.clone()).caption("keep this");
        self.telegram.person_sends(self.chat, ANN, message);
        wait_until("an answer", || self.telegram.transcript().texts(self.chat).len() > before).await;
    }

    /// Lets a file be sent again, and compares it with what was sent first.
    async fn expect_file(&self, number: u32, file: &FakeFile) {
        let before = self.telegram.transcript().files(self.chat).len();
        self.telegram.person_says(self.chat, ANN, &format!("/resend {number}"));
        wait_until("the file", || self.telegram.transcript().files(self.chat).len() > before).await;
        assert_eq!(self.telegram.transcript().files(self.chat)[before].sha256, file.sha256());
    }

    fn migrate(&self, from: &str, to: &str) -> ProcessOutput {
        self.home.run(&["migrate", "--config", from, "--to", to])
    }
}

/// The storage of several machines.
fn on_servers(database: &TestDatabase, bucket: &str) -> String {
    format!("{{ database_url: '{}', blobs_url: '{bucket}' }}", database.url())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_moves_to_servers_and_back() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let Some(bucket) = required(S3Server::start().await) else { return };
    let bot = MovingBot::new().await;
    bot.configure("here.yaml", "{}");
    bot.configure("servers.yaml", &on_servers(&database, &bucket.url("files")));
    bot.configure("back.yaml", "{ database_url: 'sqlite:back/satchel.db', blobs_url: 'file:back/blobs' }");
    // More than a part, so that it is uploaded in several.
    let report = FakeFile::generated("report.bin", "application/octet-stream", 7, 6 << 20);
    let notes = FakeFile::generated("notes.bin", "application/octet-stream", 8, 20_000);
    bot.serve("here.yaml", async || {
        bot.send_file(&report).await;
        bot.ask("/remind in 5h water the plants", "I'll remind you").await;
        let running = bot.migrate("here.yaml", "servers.yaml");
        assert_eq!(running.exit_code(), Some(1), "{running:?}");
        assert!(running.stderr.contains("is in use; stop Satchel first (running processes: 1)"), "{running:?}");
    })
    .await;

    let moved = bot.migrate("here.yaml", "servers.yaml");
    assert_eq!(moved.exit_code(), Some(0), "{moved:?}");
    assert!(moved.stdout.contains("files: 1 copied to s3://"), "{moved:?}");
    assert!(moved.stdout.contains("start with: satchel run --config servers.yaml"), "{moved:?}");
    let old = bot.home.run(&["run", "--config", "here.yaml"]);
    assert_eq!(old.exit_code(), Some(1), "{old:?}");
    assert!(old.stderr.contains("was moved to postgres://********@127.0.0.1"), "{old:?}");
    assert!(!format!("{moved:?}{old:?}").contains("correct-horse"), "{moved:?} {old:?}");

    bot.serve("servers.yaml", async || {
        bot.expect_file(1, &report).await;
        bot.ask("/schedules", "water the plants").await;
        bot.ask("/find keep", "report.bin").await;
        bot.send_file(&notes).await;
    })
    .await;

    let back = bot.migrate("servers.yaml", "back.yaml");
    assert_eq!(back.exit_code(), Some(0), "{back:?}");
    assert!(back.stdout.contains("files: 2 copied to "), "{back:?}");
    let old = bot.home.run(&["run", "--config", "servers.yaml"]);
    assert!(old.exit_code() == Some(1) && old.stderr.contains("was moved to"), "{old:?}");
    bot.serve("back.yaml", async || {
        bot.expect_file(1, &report).await;
        bot.expect_file(2, &notes).await;
        bot.ask("/schedules", "water the plants").await;
        bot.ask("/find keep", "notes.bin").await;
    })
    .await;

    // There again, into the schema and the bucket that it has left.
    let again = bot.migrate("back.yaml", "servers.yaml");
    assert_eq!(again.exit_code(), Some(0), "{again:?}");
    assert!(again.stdout.contains("files: 0 copied to s3://") && again.stdout.contains("2 were there"), "{again:?}");
    bot.serve("servers.yaml", async || bot.expect_file(2, &notes).await).await;
    let old = bot.home.run(&["run", "--config", "back.yaml"]);
    assert!(old.exit_code() == Some(1) && old.stderr.contains("was moved to"), "{old:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_move_changes_nothing() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let Some(other) = required(TestDatabase::create().await) else { return };
    let Some(bucket) = required(S3Server::start().await) else { return };
    let bot = MovingBot::new().await;
    bot.configure("here.yaml", "{}");
    bot.configure("other.yaml", &on_servers(&other, &bucket.url("other")));
    let report = FakeFile::generated("report.bin", "application/octet-stream", 7, 20_000);
    for config in ["here.yaml", "other.yaml"] {
        bot.serve(config, async || bot.send_file(&report).await).await;
    }
    let read_only = bucket.url_of(bucket.bucket(), "files", &bucket.reader, bucket.port());
    bot.configure("read-only.yaml", &on_servers(&database, &read_only));
    for (target, code, words) in [
        ("here.yaml", 2, "set `storage.database_url` or `storage.blobs_url` there"),
        ("missing.yaml", 2, "missing.yaml"),
        ("other.yaml", 1, "holds another ledger already"),
        ("read-only.yaml", 1, "the file store can't be used"),
    ] {
        let refused = bot.migrate("here.yaml", target);
        assert_eq!(refused.exit_code(), Some(code), "{target}: {refused:?}");
        assert!(refused.stderr.contains(words), "{target}: {refused:?}");
    }
    bot.serve("here.yaml", async || bot.expect_file(1, &report).await).await;

    // What the store has lost is named, and left behind only by somebody who says so.
    bot.configure("servers.yaml", &on_servers(&database, &bucket.url("files")));
    let notes = FakeFile::generated("notes.bin", "application/octet-stream", 8, 20_000);
    bot.serve("here.yaml", async || bot.send_file(&notes).await).await;
    let lost = report.sha256();
    for entry in walk(&bot.home.data_directory().join("blobs")) {
        if entry.to_string_lossy().contains(&lost.to_string()[4..]) {
            fs::remove_file(entry).expect("it can be removed");
        }
    }
    let refused = bot.migrate("here.yaml", "servers.yaml");
    assert_eq!(refused.exit_code(), Some(1), "{refused:?}");
    assert!(refused.stdout.contains("files: 1 copied"), "{refused:?}");
    assert!(
        refused.stderr.contains(&format!("{lost}: missing")) && refused.stderr.contains("--skip-lost"),
        "{refused:?}"
    );
    bot.serve("here.yaml", async || bot.expect_file(2, &notes).await).await;
    let moved = bot.home.run(&["migrate", "--config", "here.yaml", "--to", "servers.yaml", "--skip-lost"]);
    assert_eq!(moved.exit_code(), Some(0), "{moved:?}");
    assert!(moved.stdout.contains("files: 0 copied") && moved.stdout.contains("1 were there"), "{moved:?}");
    bot.serve("servers.yaml", async || bot.expect_file(2, &notes).await).await;
}

/// All files below a directory.
fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory).expect("the directory can be read").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
