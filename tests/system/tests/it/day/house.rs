//! Where the day takes place, whatever the platform.

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use futures::TryStreamExt;
use satchel_domain::Sha256;
use satchel_fake_kit::FakeFile;
use satchel_fake_model::{FakeModelServer, ModelWire, speech::FakeSpeechServer};
use satchel_system::real_binary::Household;
use sha2::Digest;
use tokio::{
    process::{Child, Command},
    sync::oneshot,
};

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

const LOOK: Duration = Duration::from_millis(20);

/// The binary with its data, a model's server, a voice's server, and Ann's chat.
pub(crate) struct House<C> {
    pub(crate) chat: C,
    pub(crate) model: FakeModelServer,
    pub(crate) speech: FakeSpeechServer,
    household: Household,
    satchel: Option<Child>,
}

/// Where Ann talks to Satchel.
pub(crate) trait Chat {
    /// The bot's secret, which is to be found nowhere.
    fn secret(&self) -> &str;

    /// The part of the configuration that makes Satchel come here, and Ann its owner.
    fn settings(&self) -> String;

    /// Waits until what Ann writes is heard.
    async fn is_listened_to(&self);

    fn says(&self, words: &str);

    /// Lets Ann send photos together.
    fn sends_photos(&self, words: &str, photos: &[FakeFile]);

    /// Lets Ann send what she has recorded.
    fn sends_voice(&self, note: FakeFile);

    /// Lets the next file that is sent get lost on its way back: Ann has it, and Satchel isn't told. Tells when she has.
    fn loses_the_next_answer(&self) -> oneshot::Receiver<()>;

    /// What is said with that file, where this is a message of its own.
    fn words_with_the_lost_file(&self) -> &'static str;

    /// What the bot has written, as Ann reads it.
    fn texts(&self) -> Vec<String>;

    /// The bot's files by their names.
    fn files(&self) -> Vec<(String, Sha256)>;

    /// How many voice messages the bot has sent.
    fn voices(&self) -> usize;

    /// How often the bot was told to slow down.
    fn refused(&self) -> u64;

    /// How often it may have been, once a new process has begun in the middle of it all.
    fn refused_after_a_restart(&self) -> u64;

    /// Everything that stands there.
    fn transcript(&self) -> String;
}

/// The beginning of what apps record.
pub(crate) fn voice_note() -> FakeFile {
    let pages: [&[u8]; 2] = [
        b"OggS\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x13OpusHead\x01\x01\x38\x01\x80\xbb\0\0\0\0\0",
        &[0; 4_000],
    ];
    FakeFile::from_bytes("voice.ogg", "audio/ogg", pages.concat())
}

impl<C: Chat> House<C> {
    pub(crate) async fn furnish(chat: C) -> Self {
        Self::furnish_with(chat, "").await
    }

    pub(crate) async fn furnish_with(chat: C, settings: &str) -> Self {
        Self::furnish_on(chat, ModelWire::OpenAiChat, settings).await
    }

    /// With more settings, and a model of that provider's.
    pub(crate) async fn furnish_on(chat: C, wire: ModelWire, settings: &str) -> Self {
        let model = FakeModelServer::start().await.expect("a loopback port");
        let speech = FakeSpeechServer::start().await.expect("a loopback port");
        let household = Household::new();
        fs::create_dir(household.root().join("shared")).expect("a directory");
        let spoken = speech.base_url();
        let provider = match wire {
            ModelWire::OpenAiChat => "openai",
            ModelWire::OpenAiResponses => "openai_responses",
            ModelWire::Anthropic => "anthropic",
            ModelWire::Gemini => "gemini",
            ModelWire::Ollama => "ollama",
        };
        household.file(
            "satchel.yaml",
            format!(
                "{}{settings}web: {{ listen: off }}\n\
                 workspace: {{ shared_dir: '{}' }}\n\
                 model: fake\n\
                 models: {{ fake: {{ provider: {provider}, base_url: '{}', api_key: '{}', model: '{}' }} }}\n\
                 speech:\n\
                 \x20 speak: {{ base_url: '{spoken}', api_key: '{key}' }}\n\
                 \x20 transcribe: {{ base_url: '{spoken}', api_key: '{key}' }}\n",
                chat.settings(),
                household.root().join("shared").display(),
                model.base_url(wire),
                FakeModelServer::KEY,
                wire.model(),
                key = FakeSpeechServer::KEY,
            ),
        );
        Self { chat, model, speech, household, satchel: None }
    }

    fn shared(&self) -> PathBuf {
        self.household.root().join("shared")
    }

    /// Puts a file where the tools find it.
    pub(crate) async fn put(&self, file: &FakeFile) {
        let blocks: Vec<_> = file.stream().try_collect().await.expect("given bytes");
        fs::write(self.shared().join(&file.filename), blocks.concat()).expect("a file can be written");
    }

    pub(crate) fn put_film(&self, name: &str, bytes: u64) {
        let mut film = File::create(self.shared().join(name)).expect("a file can be made");
        film.write_all(b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom").expect("a file can be written");
        film.set_len(bytes).expect("a file can have holes");
    }

    pub(crate) async fn start(&mut self) {
        let mut command: Command = self.household.satchel(&["run", "--log", "trace"]).into();
        let log = File::options().create(true).append(true).open(self.household.root().join("log"));
        let log = log.expect("a log can be written");
        command.stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        self.satchel = Some(command.spawn().expect("the binary can be started"));
        self.chat.is_listened_to().await;
    }

    pub(crate) async fn loses_power(&mut self) {
        let mut satchel = self.satchel.take().expect("it runs");
        satchel.kill().await.expect("a process can be killed");
    }

    pub(crate) async fn stops(&mut self) {
        let satchel = self.satchel.take().expect("it runs");
        let pid = satchel.id().expect("it runs").to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(told.is_ok_and(|status| status.success()));
        let ended = tokio::time::timeout(PATIENCE, satchel.wait_with_output()).await;
        let ended = ended.expect("it stops").expect("it can be waited for");
        assert!(ended.status.success(), "{}\n{}", ended.status, self.log());
    }

    /// Waits until something is to be seen.
    pub(crate) async fn sees(&self, what: &str, is_there: impl Fn(&C) -> bool) {
        let seen = async {
            while !is_there(&self.chat) {
                tokio::time::sleep(LOOK).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, seen).await.is_ok();
        assert!(
            in_time,
            "{what} is not seen:\n{}\nthe voice's server refused {:?}\n{}",
            self.chat.transcript(),
            self.speech.refused(),
            self.log()
        );
    }

    /// Waits until the bot has written these words.
    pub(crate) async fn hears(&self, words: &str) {
        self.sees(words, |chat| chat.texts().iter().any(|text| text.contains(words))).await;
    }

    /// Waits until the bot has sent a file so often.
    pub(crate) async fn gets(&self, name: &str, times: usize) {
        self.sees(name, |chat| chat.files().iter().filter(|(known, _)| known == name).count() == times).await;
    }

    /// Whether a file lies in `/shared`.
    pub(crate) fn is_there(&self, path: &str) -> bool {
        self.shared().join(path).is_file()
    }

    /// Takes a file away from `/shared`.
    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.shared().join(path)).expect("a file can be removed");
    }

    /// The files of a directory of `/shared`, by name.
    pub(crate) fn listed(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.shared().join(directory)).expect("something was saved");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    }

    /// What the model is shown in the last request.
    pub(crate) fn last_asked(&self) -> String {
        self.model.requests().last().map(|asked| format!("{asked:?}")).unwrap_or_default()
    }

    /// The path of the `nth` of them as the tools write it.
    pub(crate) fn kept(&self, directory: &str, nth: usize) -> String {
        let path = &self.listed(directory)[nth];
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        format!("/shared/{directory}/{name}")
    }

    pub(crate) fn kept_files(&self, directory: &str) -> Vec<Sha256> {
        let digest = |path: &PathBuf| Sha256(sha2::Sha256::digest(fs::read(path).expect("a file")).into());
        self.listed(directory).iter().map(digest).collect()
    }

    /// The chat as it stands, without what depends on the clock or the encoder.
    pub(crate) fn day(&self) -> String {
        let transcript = self.chat.transcript();
        let lines = transcript.lines().map(|line| {
            let line = match line.split_once(" (edited ") {
                Some((before, after)) => format!("{before}{}", after.split_once(')').map_or("", |(_, rest)| rest)),
                None => line.to_owned(),
            };
            match line.split_once("+ voice ") {
                Some((before, _)) => format!("{before}+ voice"),
                None => line,
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Everything that holds the bot's token besides the configuration: files of the household, the log among them, and
    /// what the model was asked.
    pub(crate) fn holders_of_the_token(&self) -> Vec<String> {
        let secret = self.chat.secret();
        let has_it = |bytes: &[u8]| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        let mut holders = Vec::new();
        let mut directories = vec![self.household.root().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()) {
                if entry.is_dir() {
                    directories.push(entry);
                } else if !entry.ends_with("satchel.yaml") && has_it(&fs::read(&entry).expect("a file")) {
                    holders.push(entry.display().to_string());
                }
            }
        }
        if self.model.requests().iter().any(|asked| has_it(format!("{asked:?}").as_bytes())) {
            holders.push("what the model was asked".to_owned());
        }
        holders
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.household.root().join("log")).unwrap_or_default()
    }
}
