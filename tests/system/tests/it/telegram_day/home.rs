//! Where the day takes place: the binary with its data, Telegram, a model's server, a voice's server.

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use futures::TryStreamExt;
use satchel_domain::Sha256;
use satchel_fakes::{
    FakeFile, FakeModelServer,
    model::ModelWire,
    speech::FakeSpeechServer,
    telegram::{FakeTelegram, FileKind, TelegramFile, TelegramRules, TelegramTranscript},
};
use satchel_system::real_binary::Household;
use sha2::Digest;
use tokio::process::{Child, Command};

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

const LOOK: Duration = Duration::from_millis(20);

pub(super) struct Home {
    pub(super) telegram: FakeTelegram,
    pub(super) model: FakeModelServer,
    pub(super) speech: FakeSpeechServer,
    /// Ann's id, which is also that of her chat.
    pub(super) ann: i64,
    household: Household,
    satchel: Option<Child>,
}

/// What Ann sees in her chat.
pub(super) struct Seen {
    transcript: TelegramTranscript,
    chat: i64,
}

impl Seen {
    pub(super) fn files_of(&self, kind: FileKind) -> Vec<&TelegramFile> {
        self.transcript.files(self.chat).into_iter().filter(|file| file.kind == kind).collect()
    }

    pub(super) fn files_named(&self, name: &str) -> Vec<&TelegramFile> {
        self.transcript.files(self.chat).into_iter().filter(|file| file.filename == name).collect()
    }
}

/// The beginning of what Telegram's apps record.
pub(super) fn voice_note() -> FakeFile {
    let pages: [&[u8]; 2] = [
        b"OggS\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x13OpusHead\x01\x01\x38\x01\x80\xbb\0\0\0\0\0",
        &[0; 4_000],
    ];
    FakeFile::of("voice.ogg", "audio/ogg", pages.concat())
}

impl Home {
    pub(super) async fn furnish() -> Self {
        let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
        let model = FakeModelServer::start().await.expect("a loopback port");
        let speech = FakeSpeechServer::start().await.expect("a loopback port");
        let ann = telegram.person(41, "Ann");
        telegram.private_chat(ann);
        let household = Household::new();
        fs::create_dir(household.root().join("shared")).expect("a directory");
        let (wire, spoken) = (ModelWire::OpenAiChat, speech.base_url());
        household.file(
            "satchel.yaml",
            format!(
                "telegram: {{ token: '{}', api_url: '{}', owners: ['{ann}'] }}\n\
                 web: {{ listen: off }}\n\
                 delivery: {{ pace: off }}\n\
                 workspace: {{ shared_dir: '{}' }}\n\
                 model: fake\n\
                 models: {{ fake: {{ provider: openai, base_url: '{}', api_key: '{}', model: '{}' }} }}\n\
                 speech:\n\
                 \x20 speak: {{ base_url: '{spoken}', api_key: '{key}' }}\n\
                 \x20 transcribe: {{ base_url: '{spoken}', api_key: '{key}' }}\n",
                telegram.token(),
                telegram.api_url(),
                household.root().join("shared").display(),
                model.base_url(wire),
                FakeModelServer::KEY,
                wire.model(),
                key = FakeSpeechServer::KEY,
            ),
        );
        Self { telegram, model, speech, ann, household, satchel: None }
    }

    fn shared(&self) -> PathBuf {
        self.household.root().join("shared")
    }

    /// Puts a file where the tools find it.
    pub(super) async fn put(&self, file: &FakeFile) {
        let blocks: Vec<_> = file.stream().try_collect().await.expect("given bytes");
        fs::write(self.shared().join(&file.filename), blocks.concat()).expect("a file can be written");
    }

    pub(super) fn put_film(&self, name: &str, bytes: u64) {
        let mut film = File::create(self.shared().join(name)).expect("a file can be made");
        film.write_all(b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom").expect("a file can be written");
        film.set_len(bytes).expect("a file can have holes");
    }

    pub(super) async fn start(&mut self) {
        let mut command: Command = self.household.satchel(&["run", "--log", "trace"]).into();
        let log = File::options().create(true).append(true).open(self.household.root().join("log"));
        let log = log.expect("a log can be written");
        command.stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        self.satchel = Some(command.spawn().expect("the binary can be started"));
    }

    pub(super) async fn loses_power(&mut self) {
        let mut satchel = self.satchel.take().expect("it runs");
        satchel.kill().await.expect("a process can be killed");
    }

    pub(super) async fn stops(&mut self) {
        let satchel = self.satchel.take().expect("it runs");
        let pid = satchel.id().expect("it runs").to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(told.is_ok_and(|status| status.success()));
        let ended = tokio::time::timeout(PATIENCE, satchel.wait_with_output()).await;
        let ended = ended.expect("it stops").expect("it can be waited for");
        assert!(ended.status.success(), "{}\n{}", ended.status, self.log());
    }

    pub(super) fn says(&self, words: &str) {
        self.telegram.person_says(self.ann, self.ann, words);
    }

    pub(super) fn seen(&self) -> Seen {
        Seen { transcript: self.telegram.transcript(), chat: self.ann }
    }

    /// Waits until something is to be seen.
    pub(super) async fn sees(&self, what: &str, is_there: impl Fn(&Seen) -> bool) {
        let seen = async {
            while !is_there(&self.seen()) {
                tokio::time::sleep(LOOK).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, seen).await.is_ok();
        assert!(
            in_time,
            "{what} is not seen:\n{}\nthe voice's server refused {:?}\n{}",
            self.telegram.transcript(),
            self.speech.refused(),
            self.log()
        );
    }

    /// Waits until the bot has written these words.
    pub(super) async fn hears(&self, words: &str) {
        self.sees(words, |seen| seen.transcript.texts(seen.chat).iter().any(|text| text.contains(words))).await;
    }

    /// The files of a directory of `/shared`, by name.
    fn listed(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.shared().join(directory)).expect("something was saved");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    }

    /// The path of the `nth` of them as the tools write it.
    pub(super) fn kept(&self, directory: &str, nth: usize) -> String {
        let path = &self.listed(directory)[nth];
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        format!("/shared/{directory}/{name}")
    }

    pub(super) fn kept_files(&self, directory: &str) -> Vec<Sha256> {
        let digest = |path: &PathBuf| Sha256(sha2::Sha256::digest(fs::read(path).expect("a file")).into());
        self.listed(directory).iter().map(digest).collect()
    }

    /// The chat as it stands, without what depends on the clock or the encoder.
    pub(super) fn day(&self) -> String {
        let transcript = self.telegram.transcript().to_string();
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
    /// what the model was asked. Only the token's secret half is looked for, however it is written down.
    pub(super) fn holders_of_the_token(&self) -> Vec<String> {
        let secret = self.telegram.token().split_once(':').expect("an id and a secret").1;
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
        if self.model.asked().iter().any(|asked| has_it(format!("{asked:?}").as_bytes())) {
            holders.push("what the model was asked".to_owned());
        }
        holders
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.household.root().join("log")).unwrap_or_default()
    }
}
