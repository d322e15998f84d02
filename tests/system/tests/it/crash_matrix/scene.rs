//! The turns of the crash matrix: what the person sends, what the model says, and what must stand on the platform.

use std::{path::Path, time::Duration};

use futures::TryStreamExt;
use satchel_domain::{ChannelCapabilities, ConversationId, OutgoingResponse, PartContent, capabilities::StreamRule};
use satchel_fakes::{FakeFile, FakeMode, Operation, PlatformRules, Shown};
use satchel_local::scripted_model::{Pick, Piece, Script, ScriptedAnswer};
use satchel_system::crash::Front;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::place::Place;

/// The name of the file that no rule lets through.
pub(crate) const OVERSIZE: &str = "big.bin";

/// What the model is asked.
pub(crate) const REQUEST: &str = "Send me everything, and say so.";

/// What it is asked behind that, and what it answers.
pub(crate) const SECOND: &str = "And keep this, please.";
pub(crate) const ANSWER: &str = "It is kept.";

/// What the platform does about repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Platform {
    /// It has no keys and no history: what is sent again arrives again.
    WithoutKeys,
    /// It remembers keys for minutes.
    WithKeys,
    /// It has forgotten them by the time that the process is back; its history can be read.
    WithKeysForgotten,
    /// Telegram through its real adapter, which has no keys either.
    Telegram,
    /// Discord through its real adapter, which remembers keys for minutes.
    Discord,
    /// Discord once it has forgotten them; its history can be read.
    DiscordForgotten,
    /// Discord where the reply is what it usually is: files on the message of its text, which is new.
    DiscordBundle,
}

impl Platform {
    /// The rules that it has, or that the imitated one has.
    fn mode(self) -> FakeMode {
        match self {
            Self::WithoutKeys | Self::Telegram => FakeMode::TelegramLike,
            Self::WithKeys | Self::WithKeysForgotten | Self::Discord | Self::DiscordForgotten | Self::DiscordBundle => {
                FakeMode::DiscordLike
            }
        }
    }

    pub(crate) fn front(self) -> Front {
        match self {
            Self::Telegram => Front::Telegram,
            Self::Discord | Self::DiscordForgotten | Self::DiscordBundle => Front::Discord,
            imitated => Front::Imitated(imitated.mode()),
        }
    }

    /// Whether what is sent again arrives again.
    pub(crate) fn repeats(self) -> bool {
        matches!(self, Self::WithoutKeys | Self::Telegram)
    }

    /// Whether a doubtful send is looked up, since its key has been forgotten.
    pub(crate) fn forgets(self) -> bool {
        matches!(self, Self::WithKeysForgotten | Self::DiscordForgotten)
    }
}

/// Everything that the runs on one platform have in common.
pub(crate) struct Scene {
    pub(crate) platform: Platform,
    pub(crate) rules: PlatformRules,
    pub(crate) capabilities: ChannelCapabilities,
    pub(crate) conversation: ConversationId,
    pub(crate) script: Script,
    /// The files that the tools attach; no run changes them.
    pub(crate) shared: TempDir,
    /// What the person sends.
    pub(crate) sent: FakeFile,
    /// The chunks of the reply's text.
    pub(crate) chunks: Vec<Shown>,
    /// The files of the reply, in order, without the one that is too large.
    pub(crate) files: Vec<Shown>,
    /// Whether the reply has everything that one can have: several texts, a voice, and a file that is too large. Otherwise
    /// it is one message.
    pub(crate) has_everything: bool,
}

impl Scene {
    pub(crate) async fn set(platform: Platform) -> Self {
        let mode = platform.mode();
        // Small limits are kept as strictly as large ones, and cost less time.
        let mut rules = PlatformRules { text_units: 300, file_bytes: 32 * 1024, ..mode.rules() };
        if platform.forgets() {
            rules.nonce_window = Duration::from_millis(1);
        }
        let has_everything = platform != Platform::DiscordBundle;
        let stream = if has_everything { StreamRule::Edits { interval_ms: 4 } } else { StreamRule::None };
        let capabilities = ChannelCapabilities { stream, ..rules.capabilities() };
        let shared = tempfile::tempdir().expect("a directory");
        // A bundle has no more files than one message.
        let photos = if has_everything { 1..=12 } else { 1..=7 };
        let photos: Vec<FakeFile> = photos.map(|n| FakeFile::photo(format!("p{n}.png"), 64, 48, n, 400)).collect();
        let documents: Vec<FakeFile> = (1..=3).map(|n| noise(&format!("d{n}.bin"), 100 + n, 900)).collect();
        let oversize = noise(OVERSIZE, 7, 40 * 1024);
        for file in photos.iter().chain(&documents).chain([&oversize]) {
            write(shared.path(), file).await;
        }
        let paragraphs: &[&str] = if has_everything { &["first", "second", "third"] } else { &["only"] };
        let text = paragraphs.iter().copied().map(paragraph).collect::<Vec<_>>().join("\n\n");
        let chunks = chunks(&text, &capabilities);
        assert_eq!(chunks.len(), paragraphs.len(), "each paragraph is a chunk");
        let attached = [photos.as_slice(), &documents].concat();
        let script = if has_everything { script(&text, &photos, &documents) } else { bundle(&text, &attached) };
        Self {
            platform,
            rules,
            capabilities,
            conversation: Place::conversation(platform.front()),
            script,
            shared,
            sent: noise("note.bin", 9, 3_000),
            chunks,
            files: attached.iter().map(|file| Shown::File(file.sha256())).collect(),
            has_everything,
        }
    }

    /// How many ways to die there are at least.
    pub(crate) fn least_deaths(&self) -> usize {
        if self.has_everything { 300 } else { 150 }
    }

    /// What an undisturbed run asks of the platform at least: the sends, edits and downloads in the midst of which it is
    /// to die.
    pub(crate) fn least_requests(&self) -> [(Operation, u64); 3] {
        // Everything is three texts, a voice, two groups of files, the notice and the second answer.
        let (sends, edits) = if self.has_everything { (8, 1) } else { (2, 0) };
        [(Operation::Send, sends), (Operation::Edit, edits), (Operation::Fetch, 2)]
    }
}

fn noise(name: &str, seed: u64, bytes: u64) -> FakeFile {
    FakeFile::generated(name, "application/octet-stream", seed, bytes)
}

async fn write(directory: &Path, file: &FakeFile) {
    let blocks: Vec<_> = file.stream().try_collect().await.expect("generated bytes");
    std::fs::write(directory.join(&file.filename), blocks.concat()).expect("a file can be written");
}

/// Between half a chunk and a whole one, so that no two share one.
fn paragraph(name: &str) -> String {
    let words: Vec<String> = (1..=18).map(|n| format!("{name}-{n}")).collect();
    words.join(" ")
}

fn chunks(text: &str, capabilities: &ChannelCapabilities) -> Vec<Shown> {
    let planned = satchel_routing::plan::plan(&OutgoingResponse::of_text(text), capabilities);
    let words = planned.parts.into_iter().filter_map(|part| match part.content {
        PartContent::Text { text, .. } => Some(Shown::Text(text)),
        _ => None,
    });
    words.collect()
}

/// For the first turn: progress and a tool with an effect; photos and the wish for a voice at once; the other files and a save at once; the
/// reply in pieces.
fn script(text: &str, photos: &[FakeFile], documents: &[FakeFile]) -> Script {
    let paths =
        |files: &[FakeFile]| -> Vec<String> { files.iter().map(|file| format!("/shared/{}", file.filename)).collect() };
    let mut others = paths(documents);
    others.push(format!("/shared/{OVERSIZE}"));
    let (head, tail) = text.split_at(text.len() / 2);
    let (head, middle) = head.split_at(head.len() / 3);
    Script {
        pick: Pick::ByProgress,
        answers: vec![
            answer(REQUEST, [said("Looking… "), Piece::WaitMs(12), said("counting."), call("tally", json!({}))]),
            answer(
                REQUEST,
                [call("attachment.add", json!({"paths": paths(photos)})), call("request_voice", json!({}))],
            ),
            answer(
                REQUEST,
                [
                    call("attachment.add", json!({"paths": others})),
                    call("attachment_save", json!({"index": 0, "path": "/tmp/copy.bin"})),
                ],
            ),
            answer(REQUEST, [said(head), Piece::WaitMs(12), said(middle), Piece::WaitMs(12), said(tail)]),
            answer(SECOND, [said(ANSWER)]),
        ],
    }
}

/// For the first turn: a tool with an effect, all files and a save at once; the reply in one piece.
fn bundle(text: &str, files: &[FakeFile]) -> Script {
    let paths: Vec<String> = files.iter().map(|file| format!("/shared/{}", file.filename)).collect();
    Script {
        pick: Pick::ByProgress,
        answers: vec![
            answer(
                REQUEST,
                [
                    call("tally", json!({})),
                    call("attachment.add", json!({"paths": paths})),
                    call("attachment_save", json!({"index": 0, "path": "/tmp/copy.bin"})),
                ],
            ),
            answer(REQUEST, [said(text)]),
            answer(SECOND, [said(ANSWER)]),
        ],
    }
}

fn answer(asked: &str, pieces: impl IntoIterator<Item = Piece>) -> ScriptedAnswer {
    ScriptedAnswer { when: Some(asked.to_owned()), refuse: None, pieces: pieces.into_iter().collect() }
}

fn said(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn call(name: &str, arguments: Value) -> Piece {
    Piece::Call { name: name.to_owned(), arguments }
}
