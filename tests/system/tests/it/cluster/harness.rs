//! Processes of the real binary on servers that they share, with people on the strict Telegram and the strict Discord, and
//! a fake model.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    process::Stdio,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use satchel_fake_discord::{DiscordRules, DiscordTranscript, FakeDiscord};
use satchel_fake_kit::{FakeFile, Fault, FaultTiming};
use satchel_fake_model::{FakeModelServer, ModelWire};
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_requirements::exclusion::{TestLock, alone};
use satchel_servers::{S3Server, nats::NatsServer, postgres::TestDatabase};
use satchel_system::real_binary::TestHome;
use tokio::process::{Child, Command};

use super::clock;

/// Longer than a lease of a lane whose process died, and the takeover of a gateway before it.
pub(super) const TIMEOUT: Duration = Duration::from_secs(90);

pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What stands before a reply that may have arrived before, and in the caption of such a file.
pub(super) const LABEL: &str = "(possible duplicate)";

/// The calls that bring a reply to a person, on Telegram and on Discord.
const TELEGRAM_SENDS: [&str; 2] = ["sendMessage", "sendDocument"];
const DISCORD_SEND: &str = "POST /channels/{}/messages";

/// The beginning of the keys in the bucket.
pub(super) const FILES: &str = "files";

/// The id of the first person.
const FIRST: i64 = 41;

pub(super) struct Cluster {
    pub(super) model: FakeModelServer,
    pub(super) telegram: FakeTelegram,
    discord: FakeDiscord,
    /// The people on Discord, with the channels of their DMs.
    channels: BTreeMap<i64, u64>,
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
    /// Up to seven processes, and leases that a machine without time for them would lose.
    _alone: TestLock,
}

impl ClusterServers {
    /// Starts them on a database. The error is what a test would need.
    pub(super) async fn start(database: TestDatabase) -> Result<Self, String> {
        let alone = alone("cluster");
        Ok(Self { database, bucket: S3Server::start().await?, nats: NatsServer::start().await?, _alone: alone })
    }
}

/// What a person has got.
#[derive(Debug, Clone, Default)]
pub(super) struct Received {
    pub(super) texts: Vec<String>,
    pub(super) files: Vec<ReceivedFile>,
}

/// A file that a person has got.
#[derive(Debug, Clone)]
pub(super) struct ReceivedFile {
    pub(super) filename: String,
    pub(super) is_labelled: bool,
}

impl ReceivedFile {
    fn new(filename: &str, caption: &str) -> Self {
        Self { filename: filename.to_owned(), is_labelled: caption.starts_with(LABEL) }
    }
}

struct ClusterProcess {
    arguments: Vec<String>,
    /// How far its machine's clock is off, as `faketime` takes it.
    clock_offset: Option<&'static str>,
    child: Option<Child>,
}

impl Cluster {
    /// Starts the servers, with so many people on Telegram who may write. The error is what a test would need.
    pub(super) async fn open(people: i64) -> Result<Self, String> {
        Self::open_on_both(people, 0).await
    }

    /// The same with so many people on each platform.
    pub(super) async fn open_on_both(on_telegram: i64, on_discord: i64) -> Result<Self, String> {
        let servers = ClusterServers::start(TestDatabase::create().await?).await?;
        Ok(Self::open_for(servers, on_telegram, on_discord).await)
    }

    /// The same on servers that run already, with so many people on Telegram.
    pub(super) async fn open_on(servers: ClusterServers, people: i64) -> Self {
        Self::open_for(servers, people, 0).await
    }

    async fn open_for(servers: ClusterServers, on_telegram: i64, on_discord: i64) -> Self {
        let people = on_telegram + on_discord;
        let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
        let model = FakeModelServer::start().await.expect("a loopback port");
        let discord = FakeDiscord::start(DiscordRules::unpaced()).await.expect("a loopback port");
        for person in FIRST..FIRST + on_telegram {
            telegram.private_chat(telegram.person(person, &format!("person {person}")));
        }
        let channels: BTreeMap<i64, u64> = (FIRST + on_telegram..FIRST + people)
            .map(|person| {
                let id = discord.person(person.unsigned_abs(), &format!("person {person}"));
                (person, discord.direct(id))
            })
            .collect();
        let owners: Vec<String> = (FIRST..FIRST + people).map(|person| format!("'{person}'")).collect();
        let home = TestHome::new();
        let owners = owners.join(", ");
        let on_discord = match channels.is_empty() {
            true => String::new(),
            false => format!(
                "discord: {{ token: '{}', api_url: '{}', owners: [{owners}] }}\n",
                discord.token(),
                discord.api_url()
            ),
        };
        let wire = ModelWire::OpenAiChat;
        home.write_file(
            "satchel.yaml",
            format!(
                "telegram: {{ token: '{}', api_url: '{}', owners: [{owners}] }}\n\
                 {on_discord}delivery: {{ pace: off }}\n\
                 web: {{ listen: off }}\n\
                 storage: {{ database_url: '{}', blobs_url: '{}' }}\n\
                 bus: {{ url: '{}' }}\n\
                 model: fake\n\
                 models: {{ fake: {{ provider: openai, base_url: '{}', api_key: '{}', model: '{}' }} }}\n",
                telegram.token(),
                telegram.api_url(),
                servers.database.url(),
                servers.bucket.url(FILES),
                servers.nats.url(),
                model.base_url(wire),
                FakeModelServer::KEY,
                wire.model(),
            ),
        );
        let processes = Mutex::default();
        Self { model, telegram, discord, channels, home, people, processes, servers }
    }

    pub(super) fn people(&self) -> impl Iterator<Item = i64> + use<> {
        FIRST..FIRST + self.people
    }

    /// Adds a process with these arguments of `run`, and returns its number.
    pub(super) fn add(&self, arguments: &[&str]) -> usize {
        self.add_process(arguments, None)
    }

    /// The same on a machine whose clock is off by this, as `faketime` takes it: `+30m`.
    pub(super) fn add_with_clock(&self, offset: &'static str, arguments: &[&str]) -> usize {
        self.add_process(arguments, Some(offset))
    }

    fn add_process(&self, arguments: &[&str], clock_offset: Option<&'static str>) -> usize {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let index = {
            let mut processes = self.lock();
            processes.push(ClusterProcess { arguments, clock_offset, child: None });
            processes.len() - 1
        };
        self.start(index);
        index
    }

    pub(super) fn start(&self, index: usize) {
        let mut processes = self.lock();
        let process = &mut processes[index];
        let arguments = ["run", "--log", "debug"].into_iter().chain(process.arguments.iter().map(String::as_str));
        let mut command = self.home.satchel_command(&arguments.collect::<Vec<_>>());
        if let Some(offset) = process.clock_offset {
            clock::set(&mut command, offset);
        }
        let mut command = Command::from(command);
        let log = File::options().create(true).append(true).open(self.home.root().join(format!("log-{index}")));
        command.stdout(Stdio::null()).stderr(log.expect("a log can be written")).kill_on_drop(true);
        process.child = Some(command.spawn().expect("the binary can be started"));
    }

    pub(super) async fn kill(&self, index: usize) {
        let mut child = self.lock()[index].child.take().expect("it runs");
        let pid = child.id().expect("nothing has waited for it");
        child.kill().await.expect("a process can be killed");
        clock::remove(pid);
    }

    pub(super) async fn signal(&self, index: usize, signal: &str) {
        let pid = self.lock()[index].child.as_ref().and_then(Child::id).expect("it runs").to_string();
        let status = Command::new("kill").args([signal, &pid]).status().await;
        assert!(status.is_ok_and(|status| status.success()));
    }

    pub(super) fn send(&self, person: i64, text: &str) {
        match self.channels.get(&person) {
            Some(channel) => self.discord.person_says(*channel, person.unsigned_abs(), text),
            None => self.telegram.person_says(person, person, text).unsigned_abs(),
        };
    }

    pub(super) fn send_file(&self, person: i64, caption: &str, filename: &str) {
        let file = FakeFile::from_bytes(filename, "text/plain", format!("the file {filename}\n"));
        match self.channels.get(&person) {
            Some(channel) => self.discord.person_sends(*channel, person.unsigned_abs(), caption, vec![file]),
            None => {
                let message = PersonMessage::file(FileKind::Document, file).caption(caption);
                self.telegram.person_sends(person, person, message).unsigned_abs()
            }
        };
    }

    /// What the bot has written to a person.
    pub(super) fn texts(&self, person: i64) -> Vec<String> {
        match self.channels.get(&person) {
            Some(channel) => discord_texts(&self.discord.transcript(), *channel),
            None => to_owned(self.telegram.transcript().texts(person)),
        }
    }

    /// The names of the files that the bot has sent to a person.
    pub(super) fn files(&self, person: i64) -> Vec<String> {
        self.received()[&person].files.iter().map(|file| file.filename.clone()).collect()
    }

    /// How many messages the bot has written to all.
    pub(super) fn answers(&self) -> usize {
        self.people().map(|person| self.texts(person).len()).sum()
    }

    /// What the bot has written and sent to each person, read at once.
    pub(super) fn received(&self) -> BTreeMap<i64, Received> {
        let (telegram, discord) = (self.telegram.transcript(), self.discord.transcript());
        let received = self.people().map(|person| {
            let received = match self.channels.get(&person) {
                Some(channel) => {
                    let files = discord.visible(*channel).flat_map(|message| {
                        message.files.iter().map(|file| ReceivedFile::new(&file.filename, &message.content))
                    });
                    Received { texts: discord_texts(&discord, *channel), files: files.collect() }
                }
                None => {
                    let files = telegram
                        .visible(person)
                        .filter_map(|message| Some(ReceivedFile::new(&message.file()?.filename, &message.words.text)));
                    Received { texts: to_owned(telegram.texts(person)), files: files.collect() }
                }
            };
            (person, received)
        });
        received.collect()
    }

    /// How many messages and files the processes have begun to send.
    pub(super) fn sends(&self) -> u64 {
        let on_telegram = TELEGRAM_SENDS.into_iter().map(|method| self.telegram.requests(method)).sum::<u64>();
        on_telegram + self.discord.requests(DISCORD_SEND)
    }

    /// Answers no message from now on, which the platforms accept before, or don't.
    pub(super) fn hang_sends(&self, performed: bool) {
        let fault = Fault::Hang { performed };
        for method in TELEGRAM_SENDS {
            self.telegram.script(method, FaultTiming::Every, fault);
        }
        self.discord.script(DISCORD_SEND, FaultTiming::Every, fault);
    }

    /// Answers those messages that come from now on.
    pub(super) fn answer_sends(&self) {
        self.telegram.clear_script();
        self.discord.clear_script();
    }

    /// Whether a process receives what is written on both platforms: Discord tells of it to who is there.
    pub(super) fn is_connected(&self) -> bool {
        self.telegram.requests("getUpdates") > 0 && self.discord.gateway().connected() > 0
    }

    /// How often Telegram was asked for messages, and how often Discord was connected to.
    pub(super) fn connections(&self) -> (u64, u64) {
        (self.telegram.requests("getUpdates"), self.discord.identifies() + self.discord.resumes())
    }

    /// The numbers of the processes whose log has these words.
    pub(super) fn logs_with(&self, words: &str) -> Vec<usize> {
        let count = self.lock().len();
        let log = |index: &usize| fs::read_to_string(self.home.root().join(format!("log-{index}"))).unwrap_or_default();
        (0..count).filter(|index| log(index).contains(words)).collect()
    }

    pub(super) async fn wait_until(&self, description: &str, is_met: impl Fn() -> bool) {
        self.wait_within(TIMEOUT, description, is_met).await;
    }

    pub(super) async fn wait_within(&self, limit: Duration, description: &str, is_met: impl Fn() -> bool) {
        let waiting = async {
            while !is_met() {
                // Nothing announces it.
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let in_time = tokio::time::timeout(limit, waiting).await.is_ok();
        assert!(in_time, "not within {limit:?}: {description}\n{}", self.report());
    }

    /// What stands in the chats, and what the processes have complained about.
    pub(super) fn report(&self) -> String {
        format!("{}\n{}\n{}", self.telegram.transcript(), self.discord.transcript(), self.warnings())
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

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.lock().iter_mut().filter_map(|process| process.child.as_mut()) {
            let (pid, killed) = (child.id(), child.start_kill());
            while killed.is_ok() && matches!(child.try_wait(), Ok(None)) {
                // Nothing announces its end to who can't await it.
                std::thread::sleep(POLL_INTERVAL);
            }
            pid.into_iter().for_each(clock::remove);
        }
    }
}

/// The texts without the label of a possible duplicate above a file, which is a caption on Telegram.
fn discord_texts(transcript: &DiscordTranscript, channel: u64) -> Vec<String> {
    let texts = transcript.visible(channel).filter(|message| message.files.is_empty() || message.content != LABEL);
    texts.map(|message| message.content.clone()).filter(|text| !text.is_empty()).collect()
}

fn to_owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}
