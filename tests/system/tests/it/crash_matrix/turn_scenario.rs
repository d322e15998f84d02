//! The turns of the crash matrix: the person's messages, the model's answers, and the expected messages on the
//! platform.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::TryStreamExt;
use satchel_domain::{
    ChannelCapabilities, ConversationId, OutgoingResponse, PartContent, Sha256,
    capabilities::{LookupRule, StreamRule},
};
use satchel_fake_kit::{FakeFile, TranscriptFile, VisibleItem};
use satchel_local::scripted_model::{AnswerOrder, ModelScript, ScriptedAnswer, ScriptedPiece};
use satchel_system::{
    crash::{ChannelAdapter, CrashOptions, storage::StorageOptions},
    real_binary::script_worker,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    report::MatrixReport,
    run::{RunOutcome, Scenario, SignalFiles},
    storage::MatrixStorage,
};
use crate::test_platform::{Operation, PlatformRules, TestPlatform};

/// Name of the file that exceeds every limit.
pub(crate) const OVERSIZED_FILE: &str = "big.bin";

pub(crate) const REQUEST: &str = "Send me everything, and say so.";

/// What the model writes before its first calls; it is the beginning of the reply.
const PROGRESS_TEXT: &str = "Looking and counting.";

/// The second request, and its reply.
pub(crate) const SECOND_REQUEST: &str = "And keep this, please.";
pub(crate) const SECOND_REPLY: &str = "It is kept.";

/// What the platform does about repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatrixPlatform {
    /// Telegram, which has no keys and is asked for the ids of messages.
    Telegram,
    /// Telegram with `telegram.look_up: off`: what is sent again arrives again.
    TelegramWithoutLookUp,
    /// Discord, which remembers keys for minutes.
    Discord,
    /// Discord once it has forgotten them; its history can be read.
    DiscordForgotten,
    /// Discord where the reply is what it usually is: files on the message of its text, which is new.
    DiscordBundle,
}

impl MatrixPlatform {
    pub(crate) fn adapter(self) -> ChannelAdapter {
        match self {
            Self::Telegram | Self::TelegramWithoutLookUp => ChannelAdapter::Telegram,
            Self::Discord | Self::DiscordForgotten | Self::DiscordBundle => ChannelAdapter::Discord,
        }
    }

    /// How many messages may stand there twice for each death: what is in doubt and can't be recognised is sent again.
    pub(crate) fn max_repeats_per_kill(self) -> usize {
        match self {
            Self::TelegramWithoutLookUp => 1,
            Self::Telegram | Self::Discord | Self::DiscordForgotten | Self::DiscordBundle => 0,
        }
    }

    /// Whether a doubtful send is looked up, since its key has been forgotten.
    pub(crate) fn has_forgotten_keys(self) -> bool {
        self == Self::DiscordForgotten
    }
}

/// The name under which the person's file is saved.
pub(crate) const SAVED_FILE: &str = "copy.bin";

/// The files that a script makes of nothing, by name and content.
const SCRIPT_FILES: [(&str, &str); 2] = [("made.txt", "made by a script\n"), ("made.csv", "a,b\n1,2\n")];

/// A file as the person is to have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeliveredFile {
    pub(crate) filename: String,
    pub(crate) mime: String,
    pub(crate) description: String,
    pub(crate) sha256: Sha256,
}

impl DeliveredFile {
    fn new(file: &FakeFile) -> Self {
        let (filename, mime) = (file.filename.clone(), file.mime.clone());
        Self { description: format!("what {filename} shows"), filename, mime, sha256: file.sha256() }
    }

    /// A file as it stands on the platform, without the label of a possible duplicate.
    pub(crate) fn from_transcript(file: &TranscriptFile) -> Self {
        let caption = file.caption.trim_start();
        let caption = caption.strip_prefix(satchel_fake_kit::DUPLICATE_LABEL).unwrap_or(caption);
        Self {
            filename: file.filename.clone(),
            mime: file.mime.clone(),
            description: caption.trim().to_owned(),
            sha256: file.sha256,
        }
    }
}

/// Everything that the runs on one platform have in common.
pub(crate) struct TurnScenario {
    pub(crate) platform: MatrixPlatform,
    storage: Arc<MatrixStorage>,
    pub(crate) rules: PlatformRules,
    pub(crate) capabilities: ChannelCapabilities,
    pub(crate) conversation: ConversationId,
    pub(crate) script: ModelScript,
    /// The files that the tools attach; no run changes them.
    pub(crate) shared: TempDir,
    /// What the person sends with the first message, and with the second.
    pub(crate) inbound_files: [FakeFile; 2],
    /// The bytes of the first of these, which is saved.
    pub(crate) saved_bytes: Vec<u8>,
    /// The chunks of the reply's text.
    pub(crate) chunks: Vec<VisibleItem>,
    /// The files of the reply, in order, without the one that is too large and those that the script makes.
    pub(crate) reply_files: Vec<DeliveredFile>,
    /// The files behind them, which the script makes.
    pub(crate) script_files: Vec<DeliveredFile>,
    /// Whether the reply has everything that one can have: several texts, a voice, and a file that is too large.
    /// Otherwise it is one message.
    pub(crate) has_everything: bool,
}

impl TurnScenario {
    pub(crate) async fn new(platform: MatrixPlatform, storage: Arc<MatrixStorage>) -> Self {
        // Small limits are kept as strictly as large ones, and cost less time.
        let mut rules = PlatformRules::for_platform(platform.adapter()).with_limits(300, 32 * 1024);
        if platform.has_forgotten_keys() {
            rules = rules.with_nonce_window(Duration::from_millis(1));
        }
        let has_everything = platform != MatrixPlatform::DiscordBundle;
        let stream = if has_everything { StreamRule::Edits { interval_ms: 4 } } else { StreamRule::None };
        let mut capabilities = ChannelCapabilities { stream, ..rules.capabilities() };
        if platform == MatrixPlatform::TelegramWithoutLookUp {
            capabilities.look_up = LookupRule::None;
        }
        let shared = tempfile::tempdir().expect("a directory");
        // A bundle has no more files than one message.
        let photos = if has_everything { 1..=12 } else { 1..=7 };
        let photos: Vec<FakeFile> = photos.map(|n| FakeFile::photo(format!("p{n}.png"), 64, 48, n, 400)).collect();
        let documents = [
            generated_file("d1.bin", 101, 900),
            FakeFile::from_bytes("d2.txt", "text/plain", "words of the second document\n"),
            FakeFile::from_bytes("d3.pdf", "application/pdf", "%PDF-1.4\n%third document\n"),
        ];
        let oversize = generated_file(OVERSIZED_FILE, 7, 40 * 1024);
        for file in photos.iter().chain(&documents).chain([&oversize]) {
            write_file(shared.path(), file).await;
        }
        let paragraphs: &[&str] = if has_everything { &["first", "second", "third"] } else { &["only"] };
        let text = paragraphs.iter().copied().map(paragraph).collect::<Vec<_>>().join("\n\n");
        let reply = if has_everything { format!("{PROGRESS_TEXT}\n\n{text}") } else { text.clone() };
        let chunks = plan_chunks(&reply, &capabilities);
        assert_eq!(chunks.len(), paragraphs.len(), "each paragraph is a chunk");
        let attached = [photos.as_slice(), &documents].concat();
        let script =
            if has_everything { model_script(&text, &photos, &documents) } else { bundle_script(&text, &attached) };
        // Telegram makes every photo a JPEG.
        let as_delivered = |file: &FakeFile| match DeliveredFile::new(file) {
            photo if platform.adapter() == ChannelAdapter::Telegram && photo.mime == "image/png" => {
                DeliveredFile { mime: "image/jpeg".to_owned(), ..photo }
            }
            file => file,
        };
        // With a file the second message is a turn of its own, in whatever state the first one is.
        let inbound_files = [generated_file("note.bin", 9, 3_000), FakeFile::from_bytes("b.txt", "text/plain", "b")];
        let script_files = SCRIPT_FILES.map(|(name, content)| FakeFile::from_bytes(name, mime_of(name), content));
        Self {
            platform,
            storage,
            rules,
            capabilities,
            conversation: TestPlatform::conversation(platform.adapter()),
            script,
            shared,
            saved_bytes: read_bytes(&inbound_files[0]).await,
            inbound_files,
            chunks,
            reply_files: attached.iter().map(as_delivered).collect(),
            script_files: if has_everything { script_files.iter().map(as_delivered).collect() } else { Vec::new() },
            has_everything,
        }
    }

    /// How many ways to die there are at least.
    pub(crate) fn min_kill_points(&self) -> usize {
        if self.has_everything { 300 } else { 150 }
    }

    /// What an undisturbed run asks of the platform at least: the sends, edits and downloads in the midst of which it
    /// is to die.
    pub(crate) fn min_requests(&self) -> [(Operation, u64); 3] {
        // Everything is three texts, a voice, two groups of files, the notice and the second answer.
        let (sends, edits) = if self.has_everything { (8, 1) } else { (2, 0) };
        [(Operation::Send, sends), (Operation::Edit, edits), (Operation::Fetch, 2)]
    }
}

impl Scenario for TurnScenario {
    fn options(&self) -> CrashOptions {
        CrashOptions {
            data: PathBuf::new(),
            storage: StorageOptions::Disk,
            shared: self.shared.path().to_owned(),
            tally: PathBuf::new(),
            reached: PathBuf::new(),
            done: PathBuf::new(),
            confirms: false,
            reminds: false,
            notifies: false,
            platform: String::new(),
            adapter: self.platform.adapter(),
            capabilities: self.capabilities.clone(),
            channel: self.conversation.channel().clone(),
            turns: 2,
            script: self.script.clone(),
            playbook: None,
            script_worker: self.has_everything.then(script_worker),
            points: None,
            crash_at: None,
        }
    }

    async fn open(&self) -> TestPlatform {
        TestPlatform::open(self.rules.clone()).await
    }

    fn storage(&self) -> &MatrixStorage {
        &self.storage
    }

    async fn act_as_person(&self, platform: &TestPlatform, _: &SignalFiles) {
        platform.wait_until_connected().await;
        for (text, file) in [REQUEST, SECOND_REQUEST].into_iter().zip(&self.inbound_files) {
            platform.person_sends(&self.conversation, text, vec![file.clone()]);
        }
    }

    fn platform(&self) -> MatrixPlatform {
        self.platform
    }

    fn check(&self, outcome: &RunOutcome, undisturbed: &RunOutcome) -> MatrixReport {
        MatrixReport::new(self, outcome, undisturbed)
    }
}

fn mime_of(name: &str) -> &'static str {
    if name.ends_with(".csv") { "text/csv" } else { "text/plain" }
}

fn generated_file(name: &str, seed: u64, bytes: u64) -> FakeFile {
    FakeFile::generated(name, "application/octet-stream", seed, bytes)
}

async fn read_bytes(file: &FakeFile) -> Vec<u8> {
    let blocks: Vec<_> = file.stream().try_collect().await.expect("generated bytes");
    blocks.concat()
}

async fn write_file(directory: &Path, file: &FakeFile) {
    std::fs::write(directory.join(&file.filename), read_bytes(file).await).expect("a file can be written");
}

/// Between half a chunk and a whole one, so that no two share one.
fn paragraph(name: &str) -> String {
    let words: Vec<String> = (1..=18).map(|n| format!("{name}-{n}")).collect();
    words.join(" ")
}

fn plan_chunks(text: &str, capabilities: &ChannelCapabilities) -> Vec<VisibleItem> {
    let planned = satchel_routing::plan::plan(&OutgoingResponse::from_text(text), capabilities);
    let words = planned.parts.into_iter().filter_map(|part| match part.content {
        PartContent::Text { text, .. } => Some(VisibleItem::Text(text)),
        _ => None,
    });
    words.collect()
}

/// The call that adds files with descriptions.
fn add_call<'a>(files: impl IntoIterator<Item = &'a FakeFile>) -> ScriptedPiece {
    let (paths, descriptions): (Vec<String>, Vec<String>) = files
        .into_iter()
        .map(|file| (format!("/shared/{}", file.filename), DeliveredFile::new(file).description))
        .unzip();
    call_piece("attachment.add", json!({"paths": paths, "descriptions": descriptions}))
}

fn save_call() -> ScriptedPiece {
    call_piece("attachment_save", json!({"index": 0, "path": format!("/tmp/{SAVED_FILE}")}))
}

/// The call that has a script make files.
fn script_call() -> ScriptedPiece {
    let create = |(name, content): &(&'static str, &'static str)| {
        let description = DeliveredFile::new(&FakeFile::from_bytes(*name, "", *content)).description;
        let mime = mime_of(name);
        format!(
            "attachment_create(content={content:?}, filename={name:?}, description={description:?}, mime_type={mime:?})\n"
        )
    };
    let lines: String = SCRIPT_FILES.iter().map(create).collect();
    call_piece("execute_script", json!({"script": format!("{lines}return \"made\"\n")}))
}

/// For the first turn: progress and a tool with an effect; photos and the wish for a voice at once; the other files, a
/// save and a script at once; the reply in pieces.
fn model_script(text: &str, photos: &[FakeFile], documents: &[FakeFile]) -> ModelScript {
    let oversize = generated_file(OVERSIZED_FILE, 0, 0);
    let (head, tail) = text.split_at(text.len() / 2);
    let (head, middle) = head.split_at(head.len() / 3);
    let (progress_head, progress_tail) = PROGRESS_TEXT.split_at(PROGRESS_TEXT.len() / 2);
    ModelScript {
        pick: AnswerOrder::ByProgress,
        answers: vec![
            scripted_answer(
                REQUEST,
                [
                    text_piece(progress_head),
                    ScriptedPiece::WaitMs(12),
                    text_piece(progress_tail),
                    call_piece("tally", json!({})),
                ],
            ),
            scripted_answer(REQUEST, [add_call(photos), call_piece("request_voice", json!({}))]),
            scripted_answer(REQUEST, [add_call(documents.iter().chain([&oversize])), save_call(), script_call()]),
            scripted_answer(
                REQUEST,
                [
                    text_piece(head),
                    ScriptedPiece::WaitMs(12),
                    text_piece(middle),
                    ScriptedPiece::WaitMs(12),
                    text_piece(tail),
                ],
            ),
            scripted_answer(SECOND_REQUEST, [text_piece(SECOND_REPLY)]),
        ],
    }
}

/// For the first turn: a tool with an effect, all files and a save at once; the reply in one piece.
fn bundle_script(text: &str, files: &[FakeFile]) -> ModelScript {
    ModelScript {
        pick: AnswerOrder::ByProgress,
        answers: vec![
            scripted_answer(REQUEST, [call_piece("tally", json!({})), add_call(files), save_call()]),
            scripted_answer(REQUEST, [text_piece(text)]),
            scripted_answer(SECOND_REQUEST, [text_piece(SECOND_REPLY)]),
        ],
    }
}

pub(crate) fn scripted_answer(request: &str, pieces: impl IntoIterator<Item = ScriptedPiece>) -> ScriptedAnswer {
    ScriptedAnswer { when: Some(request.to_owned()), refuse: None, pieces: pieces.into_iter().collect() }
}

pub(crate) fn text_piece(text: &str) -> ScriptedPiece {
    ScriptedPiece::Text(text.to_owned())
}

pub(crate) fn call_piece(name: &str, arguments: Value) -> ScriptedPiece {
    ScriptedPiece::Call { name: name.to_owned(), arguments }
}
