//! One cell of the fault matrix: the product in this process, a platform with one fault, two turns.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use satchel::{
    build::{Satchel, SatchelOptions, build},
    ports::{ExtraTool, Ports},
};
use satchel_domain::{
    ChannelCapabilities, ConversationId, MessageRef, Part, capabilities::StreamRule, delivery::DeliveryRules,
};
use satchel_fake_kit::{FakeFile, Fault, FaultTiming, Transcript, VisibleItem};
use satchel_files::{DirectoryBlobs, DirectoryWorkspace};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{
    LocalBus, ScriptedModel, SystemClock, UuidV7,
    scripted_model::{AnswerOrder, ModelScript, ScriptedAnswer, ScriptedPiece},
};
use satchel_ports::{
    Archive, Clock, LanguageModel, ModelError, ModelEvent, ModelRequest, language_model::ModelStream,
    ledger::OutboxQuery,
};
use satchel_sandbox::SandboxRunner;
use satchel_system::{
    crash::{
        ChannelAdapter,
        channel::{AdapterTimeouts, OpenChannel},
        quick_delivery,
        tools::{RequestVoiceTool, SPOKEN_TEXT},
        voice::FakeSpeech,
    },
    fetching::fetcher,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::FaultPlatform;
use crate::test_platform::{Operation, PlatformRules, TestPlatform};

/// The longest that two turns may take, outages and all.
const TURNS_TIMEOUT: Duration = Duration::from_secs(15);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The longest wait for the beginning of a reply that is shown while it grows: the fault may keep it away. The product
/// shows it after 300 ms; a busy machine may be as late again and more.
const DRAFT_TIMEOUT: Duration = Duration::from_millis(1_500);

const TEXT: &str = "Here is *what* you asked for.";
/// The same as Telegram shows it, where Markdown becomes entities.
const TEXT_SHOWN: &str = "Here is what you asked for.";
/// The same without its markup as Discord gets it: what isn't meant as markup is escaped.
const TEXT_ESCAPED: &str = r"Here is \*what\* you asked for.";
/// A reply with a table, what a person sees of it, and what of its text in lines.
const RICH_TEXT: &str = "Here is what you asked for.\n\n| a | b |\n|---|---|\n| 1 | 2 |";
const RICH_TEXT_SHOWN: &str = "Here is what you asked for.\n| a | b |\n| 1 | 2 |";
const RICH_TEXT_IN_LINES: &str = "Here is what you asked for.\n\na │ b\n─────\n1 │ 2";

const SECOND_REPLY: &str = "And here is the second reply.";

/// The request that meets the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Text,
    Voice,
    File,
    Album,
    /// Files on the message of their text.
    Bundle,
    /// The beginning of a reply that is shown while it grows.
    Stream,
    /// The end of it.
    Edit,
    /// A table, where the platform has such messages.
    Rich,
    /// The edit by which a growing reply becomes one.
    RichEdit,
    /// The beginning of a reply that is shown by previews, which are no messages.
    Preview,
}

impl Column {
    pub(crate) const ALL: [Self; 10] = [
        Self::Text,
        Self::Voice,
        Self::File,
        Self::Album,
        Self::Bundle,
        Self::Stream,
        Self::Edit,
        Self::Rich,
        Self::RichEdit,
        Self::Preview,
    ];

    /// Whether the reply is a rich message.
    pub(crate) fn is_rich(self) -> bool {
        matches!(self, Self::Rich | Self::RichEdit)
    }

    /// Whether it is shown while it grows.
    fn is_streamed(self) -> bool {
        matches!(self, Self::Stream | Self::Edit | Self::RichEdit | Self::Preview)
    }

    /// What the model writes.
    fn text(self) -> &'static str {
        if self.is_rich() { RICH_TEXT } else { TEXT }
    }

    fn request(self) -> (Operation, u64) {
        match self {
            Self::Text | Self::Bundle | Self::Stream | Self::Rich | Self::Preview => (Operation::Send, 1),
            Self::Voice => (Operation::Send, 2),
            Self::File | Self::Album => (Operation::Send, 3),
            Self::Edit | Self::RichEdit => (Operation::Edit, 1),
        }
    }

    /// The method of Telegram's that it is, the first call of which meets the fault.
    fn method(self) -> &'static str {
        match self {
            Self::Text | Self::Bundle | Self::Stream => "sendMessage",
            Self::Voice => "sendVoice",
            Self::File => "sendDocument",
            Self::Album => "sendMediaGroup",
            Self::Edit | Self::RichEdit => "editMessageText",
            Self::Rich => "sendRichMessage",
            Self::Preview => "sendMessageDraft",
        }
    }

    fn files(self) -> Vec<FakeFile> {
        let document = |n: u64| FakeFile::generated(format!("d{n}.bin"), "application/octet-stream", 40 + n, 1_500);
        let photo = |n| FakeFile::photo(format!("p{n}.png"), 64, 48, n, 600);
        match self {
            Self::Album | Self::Bundle => vec![photo(1), photo(2), photo(3), document(1)],
            Self::Text | Self::Voice | Self::File | Self::Stream | Self::Edit | Self::Rich | Self::RichEdit => {
                vec![document(1)]
            }
            // With a tool, the reply would grow in a message.
            Self::Preview => Vec::new(),
        }
    }

    fn is_spoken(self) -> bool {
        matches!(self, Self::Text | Self::Voice | Self::File | Self::Album)
    }
}

pub(crate) struct MatrixCell {
    pub(crate) platform: FaultPlatform,
    pub(crate) column: Column,
    pub(crate) fault: Fault,
    /// Which requests of the sort meet it, where that is not the one of the column.
    pub(crate) fault_timing: Option<FaultTiming>,
    pub(crate) next_fault: Option<Fault>,
    pub(crate) max_age: Duration,
    pub(crate) key_ttl: Option<Duration>,
}

/// What came of it.
pub(crate) struct CellResult {
    /// Whether all parts were settled in time.
    pub(crate) is_settled: bool,
    /// Whether the request that was to go wrong was made.
    pub(crate) was_requested: bool,
    /// What a person should see and does not.
    pub(crate) missing: Vec<String>,
    /// What of that no notice names.
    pub(crate) unreported: Vec<String>,
    pub(crate) duplicates: usize,
    pub(crate) unlabelled: usize,
    pub(crate) labels: usize,
    pub(crate) out_of_order: Vec<VisibleItem>,
    parts: Vec<Part>,
    transcript: Transcript,
}

impl CellResult {
    /// The cell as the table shows it.
    pub(crate) fn label(&self) -> String {
        let mut labels = Vec::new();
        if self.missing.is_empty() {
            labels.push("all");
        } else {
            labels.push("told");
        }
        if self.duplicates > 0 {
            labels.push("twice");
        }
        if self.labels > 0 {
            labels.push("labelled");
        }
        labels.join(", ")
    }

    pub(crate) fn summary(&self) -> String {
        let mut summary = self.transcript.to_string();
        for part in &self.parts {
            summary.push_str(&format!("{} {:?}\n", part.operation.kind(), part.state));
        }
        summary
    }
}

pub(crate) async fn run_cell(cell: &MatrixCell) -> CellResult {
    let FaultPlatform { adapter, look_up } = cell.platform;
    let mut rules = PlatformRules::for_platform(adapter);
    if let Some(window) = cell.key_ttl {
        rules = rules.with_nonce_window(window);
    }
    let platform = Arc::new(TestPlatform::open(rules.clone()).await);
    let conversation = TestPlatform::conversation(adapter);
    // The streamed message grows once; its only edit is the last.
    let stream = match cell.column {
        Column::Stream | Column::Edit | Column::RichEdit => StreamRule::Edits { interval_ms: 60_000 },
        Column::Preview => StreamRule::Previews { interval_ms: 60_000, ttl_ms: 60_000 },
        _ => StreamRule::None,
    };
    let reads_blocks = cell.column.is_rich().then_some(true);
    let capabilities = ChannelCapabilities { stream, look_up, ..rules.capabilities().with_block_choice(reads_blocks) };
    let directory = tempfile::tempdir().expect("a directory");
    let files = cell.column.files();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let data = directory.path().join("data");
    let ledger = SqliteLedger::open(&data, Settings::default(), Arc::clone(&clock), Arc::new(UuidV7));
    let ledger = Arc::new(ledger.await.expect("a ledger"));
    let stop = CancellationToken::new();
    let product_task =
        start_product(cell, capabilities, &platform, directory.path(), Arc::clone(&ledger), clock, &stop).await;

    let (request, method) = (cell.column.request(), cell.column.method());
    platform.wait_until_connected().await;
    match cell.fault_timing {
        Some(lasts) => platform.inject_faults(request.0, method, lasts, cell.fault),
        None => platform.inject_fault(request, (method, 1), cell.fault),
    }
    if let Some(then) = cell.next_fault {
        platform.inject_fault((request.0, request.1 + 1), (method, 2), then);
    }
    platform.person_says(&conversation, "first");
    // With a file it is a turn of its own, whatever the first is doing.
    platform.person_sends(&conversation, "second", vec![FakeFile::from_bytes("a.txt", "text/plain", "a")]);
    let settled = tokio::time::timeout(TURNS_TIMEOUT, wait_until_settled(&*ledger, &conversation)).await;
    let parts = read_parts(&*ledger, &conversation).await;
    let transcript = platform.transcript();
    let was_requested = platform.has_request(request, method);
    stop.cancel();
    drop(platform);
    tokio::time::timeout(TURNS_TIMEOUT, product_task).await.expect("everything stops").expect("nothing panics");
    CellResult {
        was_requested,
        is_settled: settled.is_ok(),
        ..check_cell(cell, &conversation, &files, parts, transcript)
    }
}

/// Builds the product and lets it work until `stop`.
async fn start_product(
    cell: &MatrixCell,
    capabilities: ChannelCapabilities,
    platform: &Arc<TestPlatform>,
    directory: &Path,
    ledger: Arc<SqliteLedger>,
    clock: Arc<dyn Clock>,
    stop: &CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let shared = directory.join("shared");
    std::fs::create_dir(&shared).expect("a directory");
    for file in cell.column.files() {
        let blocks: Vec<_> = file.stream().try_collect().await.expect("generated bytes");
        std::fs::write(shared.join(&file.filename), blocks.concat()).expect("a file can be written");
    }
    let blobs = Arc::new(DirectoryBlobs::open(&directory.join("blobs")).expect("blobs"));
    let workspace = DirectoryWorkspace::open(
        &directory.join("workspaces"),
        Some(&shared),
        1 << 30,
        Arc::new(SandboxRunner::default()),
    );
    let timeouts = AdapterTimeouts { connect: Duration::from_millis(500), response: Duration::from_secs(1) };
    let fetcher = fetcher();
    let channel = OpenChannel::new(
        cell.platform.adapter,
        &platform.address(),
        capabilities,
        Arc::clone(&blobs) as _,
        Arc::clone(&fetcher),
        timeouts,
    );
    let channel = channel.expect("HTTP is spoken");
    let ports = Ports {
        ledger: ledger.into(),
        clock,
        ids: Arc::new(UuidV7),
        blobs,
        workspace: Arc::new(workspace.expect("workspaces")),
        bus: Arc::new(LocalBus::new()),
        fetcher,
        model: Arc::new(DraftModel {
            script: ScriptedModel::new(model_script(cell.column)),
            platform: Arc::downgrade(platform),
            conversation: TestPlatform::conversation(cell.platform.adapter),
            waits: cell.column.is_streamed(),
        }),
        models: BTreeMap::new(),
        speech: Some(Arc::new(FakeSpeech)),
        scripts: None,
        documents: None,
        images: None,
        declared_files: None,
        links: None,
        channels: vec![channel.channel()],
        tools: vec![ExtraTool::without_paths(Arc::new(RequestVoiceTool))],
    };
    let delivery = DeliveryRules { max_age: cell.max_age, ..quick_delivery() };
    let Satchel { inbound, runner, .. } =
        build(ports, SatchelOptions { delivery, ..SatchelOptions::default() }).expect("one channel");
    let stop = stop.clone();
    tokio::spawn(async move {
        let ((), listened) = tokio::join!(runner.run(stop.clone()), channel.listen(inbound, stop.clone()));
        listened.expect("the platform knows its bot");
    })
}

/// A model that, where replies are shown while they grow, continues once the beginning is on the platform.
struct DraftModel {
    script: ScriptedModel,
    platform: Weak<TestPlatform>,
    conversation: ConversationId,
    waits: bool,
}

#[async_trait]
impl LanguageModel for DraftModel {
    fn name(&self) -> String {
        self.script.name()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let events = self.script.stream(request).await?;
        if !self.waits {
            return Ok(events);
        }
        let (platform, conversation) = (Weak::clone(&self.platform), self.conversation.clone());
        Ok(Box::pin(events.enumerate().then(move |(index, event)| {
            let (platform, conversation) = (Weak::clone(&platform), conversation.clone());
            async move {
                if index > 0 && matches!(event, Ok(ModelEvent::Text(_))) {
                    let draft = wait_until_shown(&platform, &conversation);
                    // Where it is kept away for longer, the reply is complete without it.
                    let _is_shown = tokio::time::timeout(DRAFT_TIMEOUT, draft).await;
                }
                event
            }
        })))
    }
}

/// Waits until anything of the product is on the platform, or the platform is gone.
async fn wait_until_shown(platform: &Weak<TestPlatform>, conversation: &ConversationId) {
    while platform.upgrade().is_some_and(|platform| !platform.shows_something(conversation)) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn model_script(column: Column) -> ModelScript {
    let call = |name: &str, arguments| ScriptedPiece::Call { name: name.to_owned(), arguments };
    let when = |words: &str, pieces| ScriptedAnswer { when: Some(words.to_owned()), pieces, refuse: None };
    let paths: Vec<String> = column.files().iter().map(|file| format!("/shared/{}", file.filename)).collect();
    let mut calls = Vec::new();
    if !paths.is_empty() {
        calls.push(call("attachment.add", json!({"paths": paths})));
    }
    if column.is_spoken() {
        calls.push(call("request_voice", json!({})));
    }
    let (head, tail) = column.text().split_at(7);
    let said = |text: &str| ScriptedPiece::Text(text.to_owned());
    let mut answers = Vec::new();
    if !calls.is_empty() {
        answers.push(when("first", calls));
    }
    answers.extend([when("first", vec![said(head), said(tail)]), when("second", vec![said(SECOND_REPLY)])]);
    ModelScript { pick: AnswerOrder::ByProgress, answers }
}

async fn read_parts(archive: &dyn Archive, conversation: &ConversationId) -> Vec<Part> {
    let query =
        OutboxQuery { conversation: Some(conversation.clone()), include_delivered: true, ..OutboxQuery::default() };
    archive.parts(&query).await.expect("the outbox can be read")
}

/// Waits until both turns are complete and nothing of them is unsettled.
async fn wait_until_settled(archive: &dyn Archive, conversation: &ConversationId) {
    loop {
        let parts = read_parts(archive, conversation).await;
        let turns: BTreeSet<_> = parts.iter().map(|part| part.turn).collect();
        let mut complete = turns.len() == 2 && parts.iter().all(|part| part.state.is_settled());
        for turn in turns {
            let record = archive.turn(turn).await.expect("a turn can be read").expect("a part has a turn");
            complete &= record.ending.is_some();
        }
        if complete {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn check_cell(
    cell: &MatrixCell,
    conversation: &ConversationId,
    files: &[FakeFile],
    parts: Vec<Part>,
    transcript: Transcript,
) -> CellResult {
    let voice_file = transcript
        .visible(conversation)
        .flat_map(|message| &message.contents.files)
        .find(|file| file.mime.starts_with("audio/"))
        .map(|file| VisibleItem::File(file.sha256));
    let texts = transcript.visible_texts(conversation);
    // What could not be spoken may be written; both are the voice.
    let voice = voice_file.unwrap_or_else(|| VisibleItem::Text(SPOKEN_TEXT.to_owned()));
    let text = match cell.platform.adapter {
        // What was refused as a rich message comes in lines.
        _ if cell.column.is_rich() && texts.contains(&RICH_TEXT_IN_LINES) => RICH_TEXT_IN_LINES,
        _ if cell.column.is_rich() => RICH_TEXT_SHOWN,
        // A text that was refused for its size comes as it was written.
        ChannelAdapter::Discord if matches!(cell.fault, Fault::TooLarge) && texts.contains(&TEXT_ESCAPED) => {
            TEXT_ESCAPED
        }
        ChannelAdapter::Discord => TEXT,
        // Without its markup a text is shown as it was written.
        ChannelAdapter::Telegram if texts.contains(&TEXT) => TEXT,
        ChannelAdapter::Telegram => TEXT_SHOWN,
    };
    let mut expected = vec![(VisibleItem::Text(text.to_owned()), "text".to_owned())];
    if cell.column.is_spoken() {
        expected.push((voice, "voice".to_owned()));
    }
    expected.extend(files.iter().map(|file| (VisibleItem::File(file.sha256()), file.filename.clone())));
    expected.push((VisibleItem::Text(SECOND_REPLY.to_owned()), "text".to_owned()));

    let order: Vec<VisibleItem> = expected.iter().map(|(shown, _)| shown.clone()).collect();
    let missing = transcript.missing(conversation, &order);
    let names = expected.iter().filter(|(shown, _)| missing.contains(shown)).map(|(_, name)| name.clone());
    let missing: Vec<String> = names.collect();
    let is_reported = |name: &&String| texts.iter().any(|text| is_notice(text) && text.to_lowercase().contains(*name));
    let unreported = missing.iter().filter(|name| !is_reported(name)).cloned().collect();
    let duplicates = transcript.duplicates(conversation);
    let messages: Vec<_> = transcript.visible(conversation).collect();
    let album_or_message = |message: &MessageRef| {
        let found = messages.iter().find(|known| known.id == *message);
        found.and_then(|found| found.album.clone()).unwrap_or_else(|| message.clone())
    };
    let labelled = messages.iter().filter(|message| message.is_labelled()).map(|message| album_or_message(&message.id));
    let repeats = |all: bool| -> BTreeSet<MessageRef> {
        let some = duplicates.iter().filter(|duplicate| all || !duplicate.labelled);
        some.map(|duplicate| album_or_message(&duplicate.message)).collect()
    };
    CellResult {
        is_settled: false,
        was_requested: false,
        missing,
        unreported,
        duplicates: repeats(true).len(),
        unlabelled: repeats(false).len(),
        labels: labelled.collect::<BTreeSet<_>>().len(),
        out_of_order: transcript.out_of_order(conversation, &order),
        parts,
        transcript,
    }
}

/// Whether a text is none of the replies, and so tells of what did not arrive.
fn is_notice(text: &str) -> bool {
    ![TEXT, TEXT_SHOWN, TEXT_ESCAPED, SECOND_REPLY, SPOKEN_TEXT].iter().any(|reply| text.contains(reply))
}
