//! Processes of the real binary on servers that they share, with people on the strict Telegram and a fake model.

use std::{
    fs::{self, File},
    process::Stdio,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use satchel_fake_kit::FakeFile;
use satchel_fake_model::{FakeModelServer, ModelWire};
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_servers::{S3Server, nats::NatsServer, postgres::TestDatabase};
use satchel_system::real_binary::TestHome;
use tokio::process::{Child, Command};

/// Longer than a lease of a lane whose process died, and the takeover of a gateway before it.
const TIMEOUT: Duration = Duration::from_secs(90);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The beginning of the keys in the bucket.
pub(super) const FILES: &str = "files";

/// The id of the first person.
const FIRST: i64 = 41;

pub(super) struct Cluster {
    pub(super) model: FakeModelServer,
    pub(super) telegram: FakeTelegram,
    home: TestHome,
    people: i64,
    processes: Mutex<Vec<ClusterProcess>>,
    pub(super) servers: ClusterServers,
}

/// What the processes share.
pub(super) struct ClusterServers {
    pub(super) database: TestDatabase,
    pub(super) bucket: S3Server,
    pub(super) nats: NatsServer,
}

impl ClusterServers {
    /// Starts them on a database. The error is what a test would need.
    pub(super) async fn start(database: TestDatabase) -> Result<Self, String> {
        Ok(Self { database, bucket: S3Server::start().await?, nats: NatsServer::start().await? })
    }
}

struct ClusterProcess {
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Cluster {
    /// Starts the servers, with so many people who may write. The error is what a test would need.
    pub(super) async fn open(people: i64) -> Result<Self, String> {
        Ok(Self::open_on(ClusterServers::start(TestDatabase::create().await?).await?, people).await)
    }

    /// The same on servers that run already.
    pub(super) async fn open_on(servers: ClusterServers, people: i64) -> Self {
        let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
        let model = FakeModelServer::start().await.expect("a loopback port");
        for person in FIRST..FIRST + people {
            telegram.private_chat(telegram.person(person, &format!("person {person}")));
        }
        let owners: Vec<String> = (FIRST..FIRST + people).map(|person| format!("'{person}'")).collect();
        let home = TestHome::new();
        let wire = ModelWire::OpenAiChat;
        home.write_file(
            "satchel.yaml",
            format!(
                "telegram: {{ token: '{}', api_url: '{}', owners: [{}] }}\n\
                 delivery: {{ pace: off }}\n\
                 web: {{ listen: off }}\n\
                 storage: {{ database_url: '{}', blobs_url: '{}' }}\n\
                 bus: {{ url: '{}' }}\n\
                 model: fake\n\
                 models: {{ fake: {{ provider: openai, base_url: '{}', api_key: '{}', model: '{}' }} }}\n",
                telegram.token(),
                telegram.api_url(),
                owners.join(", "),
                servers.database.url(),
                servers.bucket.url(FILES),
                servers.nats.url(),
                model.base_url(wire),
                FakeModelServer::KEY,
                wire.model(),
            ),
        );
        let processes = Mutex::default();
        Self { model, telegram, home, people, processes, servers }
    }

    pub(super) fn people(&self) -> impl Iterator<Item = i64> + use<> {
        FIRST..FIRST + self.people
    }

    /// Adds a process with these arguments of `run`, and returns its number.
    pub(super) fn add(&self, arguments: &[&str]) -> usize {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let index = {
            let mut processes = self.lock();
            processes.push(ClusterProcess { arguments, child: None });
            processes.len() - 1
        };
        self.start(index);
        index
    }

    pub(super) fn start(&self, index: usize) {
        let mut processes = self.lock();
        let process = &mut processes[index];
        let arguments = ["run", "--log", "debug"].into_iter().chain(process.arguments.iter().map(String::as_str));
        let mut command: Command = self.home.satchel_command(&arguments.collect::<Vec<_>>()).into();
        let log = File::options().create(true).append(true).open(self.home.root().join(format!("log-{index}")));
        command.stdout(Stdio::null()).stderr(log.expect("a log can be written")).kill_on_drop(true);
        process.child = Some(command.spawn().expect("the binary can be started"));
    }

    pub(super) async fn kill(&self, index: usize) {
        let child = self.lock()[index].child.take();
        child.expect("it runs").kill().await.expect("a process can be killed");
    }

    pub(super) async fn signal(&self, index: usize, signal: &str) {
        let pid = self.lock()[index].child.as_ref().and_then(Child::id).expect("it runs").to_string();
        let status = Command::new("kill").args([signal, &pid]).status().await;
        assert!(status.is_ok_and(|status| status.success()));
    }

    pub(super) fn send(&self, person: i64, text: &str) {
        self.telegram.person_says(person, person, text);
    }

    pub(super) fn send_file(&self, person: i64, caption: &str, filename: &str) {
        let file = FakeFile::from_bytes(filename, "text/plain", format!("the file {filename}\n"));
        let message = PersonMessage::file(FileKind::Document, file).caption(caption);
        self.telegram.person_sends(person, person, message);
    }

    /// What the bot has written to a person.
    pub(super) fn texts(&self, person: i64) -> Vec<String> {
        self.telegram.transcript().texts(person).into_iter().map(str::to_owned).collect()
    }

    /// The names of the files that the bot has sent to a person.
    pub(super) fn files(&self, person: i64) -> Vec<String> {
        self.telegram.transcript().files(person).iter().map(|file| file.filename.clone()).collect()
    }

    /// How many messages the bot has written to all.
    pub(super) fn answers(&self) -> usize {
        self.people().map(|person| self.texts(person).len()).sum()
    }

    /// The numbers of the processes whose log has these words.
    pub(super) fn logs_with(&self, words: &str) -> Vec<usize> {
        let count = self.lock().len();
        let log = |index: &usize| fs::read_to_string(self.home.root().join(format!("log-{index}"))).unwrap_or_default();
        (0..count).filter(|index| log(index).contains(words)).collect()
    }

    pub(super) async fn wait_until(&self, description: &str, is_met: impl Fn() -> bool) {
        let waiting = async {
            while !is_met() {
                // Nothing announces it.
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let in_time = tokio::time::timeout(TIMEOUT, waiting).await.is_ok();
        assert!(in_time, "not within {TIMEOUT:?}: {description}\n{}\n{}", self.telegram.transcript(), self.warnings());
    }

    /// What the processes have complained about.
    fn warnings(&self) -> String {
        let count = self.lock().len();
        let mut found = String::new();
        for index in 0..count {
            let log = fs::read_to_string(self.home.root().join(format!("log-{index}"))).unwrap_or_default();
            for line in
                log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR") || line.contains("rror:"))
            {
                found.push_str(&format!("process {index}: {line}\n"));
            }
        }
        found
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<ClusterProcess>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
