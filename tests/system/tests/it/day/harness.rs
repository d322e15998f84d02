//! The harness of a day, generic over the platform's chat.

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
use satchel_system::real_binary::TestHome;
use sha2::Digest;
use tokio::{
    process::{Child, Command},
    sync::oneshot,
};

/// The longest that an answer may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The log of the process that [`DayHarness::start`] starts.
const LOG: &str = "log";

/// The binary with its data, a model's server, a voice's server, and Ann's chat.
pub(crate) struct DayHarness<C> {
    pub(crate) chat: C,
    pub(crate) model: FakeModelServer,
    pub(crate) speech: FakeSpeechServer,
    home: TestHome,
    satchel: Option<Child>,
}

/// Where Ann talks to Satchel.
pub(crate) trait TestChat {
    /// The bot's secret, which is to be found nowhere.
    fn secret(&self) -> &str;

    /// Returns the configuration that connects Satchel to this chat and makes Ann its owner.
    fn settings(&self) -> String;

    /// Waits until Satchel receives what Ann writes.
    async fn wait_until_connected(&self);

    fn send(&self, text: &str);

    /// Lets Ann send photos together.
    fn send_photos(&self, text: &str, photos: &[FakeFile]);

    /// Lets Ann send what she has recorded.
    fn send_voice(&self, note: FakeFile);

    /// Loses the response to the next file: Ann has it, and Satchel does not learn of it. Resolves when she has it.
    fn lose_next_response(&self) -> oneshot::Receiver<()>;

    /// What is said with that file, where this is a message of its own.
    fn text_with_lost_file(&self) -> &'static str;

    /// What the bot has written, as Ann reads it.
    fn texts(&self) -> Vec<String>;

    /// The bot's files by their names.
    fn files(&self) -> Vec<(String, Sha256)>;

    /// How many voice messages the bot has sent.
    fn voice_count(&self) -> usize;

    /// How often the bot was told to slow down.
    fn refused_requests(&self) -> u64;

    /// How often it may have been, once a new process has begun in the middle of it all.
    fn max_refused_after_restart(&self) -> u64;

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

impl<C: TestChat> DayHarness<C> {
    pub(crate) async fn new(chat: C) -> Self {
        Self::with_settings(chat, "").await
    }

    pub(crate) async fn with_settings(chat: C, settings: &str) -> Self {
        Self::with_wire(chat, ModelWire::OpenAiChat, settings).await
    }

    /// With more settings, and a model of that provider's.
    pub(crate) async fn with_wire(chat: C, wire: ModelWire, settings: &str) -> Self {
        let model = FakeModelServer::start().await.expect("a loopback port");
        let speech = FakeSpeechServer::start().await.expect("a loopback port");
        let home = TestHome::new();
        fs::create_dir(home.root().join("shared")).expect("a directory");
        let speech_url = speech.base_url();
        let provider = match wire {
            ModelWire::OpenAiChat => "openai",
            ModelWire::OpenAiResponses => "openai_responses",
            ModelWire::Anthropic => "anthropic",
            ModelWire::Gemini => "gemini",
            ModelWire::Ollama => "ollama",
        };
        home.write_file(
            "satchel.yaml",
            format!(
                "{}{settings}web: {{ listen: off }}\n\
                 workspace: {{ shared_dir: '{}' }}\n\
                 model: fake\n\
                 models: {{ fake: {{ provider: {provider}, base_url: '{}', api_key: '{}', model: '{}' }} }}\n\
                 speech:\n\
                 \x20 speak: {{ base_url: '{speech_url}', api_key: '{key}' }}\n\
                 \x20 transcribe: {{ base_url: '{speech_url}', api_key: '{key}' }}\n",
                chat.settings(),
                home.root().join("shared").display(),
                model.base_url(wire),
                FakeModelServer::KEY,
                wire.model(),
                key = FakeSpeechServer::KEY,
            ),
        );
        Self { chat, model, speech, home, satchel: None }
    }

    fn shared_directory(&self) -> PathBuf {
        self.home.root().join("shared")
    }

    /// Puts a file where the tools find it.
    pub(crate) async fn write_file(&self, file: &FakeFile) {
        let blocks: Vec<_> = file.stream().try_collect().await.expect("given bytes");
        fs::write(self.shared_directory().join(&file.filename), blocks.concat()).expect("a file can be written");
    }

    pub(crate) fn write_film(&self, name: &str, bytes: u64) {
        let mut film = File::create(self.shared_directory().join(name)).expect("a file can be made");
        film.write_all(b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom").expect("a file can be written");
        film.set_len(bytes).expect("a file can have holes");
    }

    pub(crate) async fn start(&mut self) {
        self.satchel = Some(self.spawn(LOG, &[]));
        self.chat.wait_until_connected().await;
    }

    /// Starts one more process on the same data, with further arguments and a log of its own. It is killed when it is
    /// dropped.
    pub(crate) fn spawn(&self, log: &str, arguments: &[&str]) -> Child {
        let arguments = [&["run", "--log", "trace"], arguments].concat();
        let mut command: Command = self.home.satchel_command(&arguments).into();
        let log = File::options().create(true).append(true).open(self.home.root().join(log));
        let log = log.expect("a log can be written");
        command.stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        command.spawn().expect("the binary can be started")
    }

    /// The command line on the same data, with these arguments.
    pub(crate) fn command_line(&self, arguments: &[&str]) -> std::process::Command {
        self.home.satchel_command(arguments)
    }

    /// Writes a file where the command line finds it by its name.
    pub(crate) fn write_local_file(&self, name: &str, content: &[u8]) {
        self.home.write_file(name, content);
    }

    pub(crate) async fn kill(&mut self) {
        let mut satchel = self.satchel.take().expect("it runs");
        satchel.kill().await.expect("a process can be killed");
    }

    pub(crate) async fn stop(&mut self) {
        let satchel = self.satchel.take().expect("it runs");
        let pid = satchel.id().expect("it runs").to_string();
        let status = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(status.is_ok_and(|status| status.success()));
        let output = tokio::time::timeout(REPLY_TIMEOUT, satchel.wait_with_output()).await;
        let ended = output.expect("it stops").expect("it can be waited for");
        assert!(ended.status.success(), "{}\n{}", ended.status, self.log());
    }

    /// Waits until something is to be seen.
    pub(crate) async fn wait_until(&self, description: &str, is_met: impl Fn(&C) -> bool) {
        let condition_met = async {
            while !is_met(&self.chat) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let in_time = tokio::time::timeout(REPLY_TIMEOUT, condition_met).await.is_ok();
        assert!(
            in_time,
            "{description} is not seen:\n{}\nthe voice's server refused {:?}\n{}",
            self.chat.transcript(),
            self.speech.refused(),
            self.log()
        );
    }

    /// Waits until the bot has written these words.
    pub(crate) async fn wait_for_text(&self, expected: &str) {
        self.wait_until(expected, |chat| chat.texts().iter().any(|text| text.contains(expected))).await;
    }

    /// Waits until the bot has sent a file so often.
    pub(crate) async fn wait_for_file(&self, name: &str, times: usize) {
        self.wait_until(name, |chat| chat.files().iter().filter(|(filename, _)| filename == name).count() == times)
            .await;
    }

    /// Whether a file lies in `/shared`.
    pub(crate) fn has_file(&self, path: &str) -> bool {
        self.shared_directory().join(path).is_file()
    }

    /// Takes a file away from `/shared`.
    pub(crate) fn remove_file(&self, path: &str) {
        fs::remove_file(self.shared_directory().join(path)).expect("a file can be removed");
    }

    /// The files of a directory of `/shared`, by name.
    pub(crate) fn list_files(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.shared_directory().join(directory)).expect("something was saved");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    }

    pub(crate) fn data_directory(&self) -> PathBuf {
        self.home.data_directory()
    }

    /// What the model is shown in the last request.
    pub(crate) fn last_request(&self) -> String {
        self.model.requests().last().map(|asked| format!("{asked:?}")).unwrap_or_default()
    }

    /// The path of the `nth` of them as the tools write it.
    pub(crate) fn stored_path(&self, directory: &str, nth: usize) -> String {
        let path = &self.list_files(directory)[nth];
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        format!("/shared/{directory}/{name}")
    }

    pub(crate) fn stored_files(&self, directory: &str) -> Vec<Sha256> {
        let digest = |path: &PathBuf| Sha256(sha2::Sha256::digest(fs::read(path).expect("a file")).into());
        self.list_files(directory).iter().map(digest).collect()
    }

    /// The chat as it stands, without what depends on the clock or the encoder.
    pub(crate) fn stable_transcript(&self) -> String {
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
    pub(crate) fn find_token_holders(&self) -> Vec<String> {
        let secret = self.chat.secret();
        let has_it = |bytes: &[u8]| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        let mut holders = Vec::new();
        let mut directories = vec![self.home.root().to_owned()];
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
        self.read_log(LOG)
    }

    pub(crate) fn read_log(&self, name: &str) -> String {
        fs::read_to_string(self.home.root().join(name)).unwrap_or_default()
    }
}
