//! A small world in memory for the tools' tests: one conversation with files, stored bytes and a workspace.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU64,
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, CallId, ConversationId, DiskFull, Filename, MediaInfo, OutcomeFile,
    Sender, Sha256, Timestamp, ToolOutcome, TurnId, Visibility, WorkShare, WorkspacePath,
};
use satchel_ports::{
    BlobError, BlobHint, Blobs, ByteStream, ChangeLog, DocumentReader, Fetcher, ImageScaler, ManualClock, MockFetcher,
    MockLedger, OutcomeReader, SequentialIds, StoredBlob, ToolContext, ToolError, Workspace, WorkspaceError, WriteMode,
    ledger::{AttachmentKey, AttachmentQuery, TurnRecord},
    workspace::{RestoredFiles, TrashBatch, TrashedEntry, WorkspaceEntry, WorkspaceEntryKind, WorkspaceFile},
};
use secrecy::SecretString;
use serde_json::Value;
use sha2::Digest;
use uuid::Uuid;

use crate::{AuditedWorkspace, ToolLimits, ToolRegistry, ToolServices, built_in};

pub(crate) fn conversation() -> ConversationId {
    "console:main".parse().unwrap()
}

pub(crate) fn turn() -> TurnId {
    TurnId(Uuid::from_u128(99))
}

/// An inbound file's record. Its bytes are known to a [`ToolHarness`] only once it was given them.
pub(crate) fn attachment(id: u128, filename: &str, mime: &str, content: &[u8]) -> Attachment {
    Attachment {
        id: AttachmentId(Uuid::from_u128(id)),
        number: NonZeroU64::new(u64::try_from(id).unwrap()).unwrap(),
        conversation: conversation(),
        source: AttachmentSource::User,
        filename: Filename::from_untrusted(filename),
        mime: mime.to_owned(),
        bytes: content.len() as u64,
        sha256: digest(content),
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(1_000),
        visibility: Visibility::Deliver,
        link_revocation: None,
    }
}

/// The files of an outcome, all of which the conversation has already.
pub(crate) fn stored_files(outcome: &ToolOutcome) -> Vec<Attachment> {
    let known = |file: &OutcomeFile| match file {
        OutcomeFile::Stored(file) => file.clone(),
        OutcomeFile::New(file) => panic!("it is new: {file:?}"),
    };
    outcome.attachments.iter().map(known).collect()
}

pub(crate) fn digest(content: &[u8]) -> Sha256 {
    Sha256(sha2::Sha256::digest(content).into())
}

/// A stream in chunks of seven bytes, so that every boundary is met.
pub(crate) fn chunked(content: &[u8]) -> ByteStream {
    let chunks: Vec<_> = content.chunks(7).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    Box::pin(stream::iter(chunks))
}

async fn collect(mut content: ByteStream, limit: u64) -> Result<Vec<u8>, Option<std::io::Error>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = content.next().await {
        bytes.extend_from_slice(&chunk.map_err(Some)?);
        if bytes.len() as u64 > limit {
            return Err(None);
        }
    }
    Ok(bytes)
}

#[derive(Default)]
struct TestBlobs(Mutex<HashMap<Sha256, Vec<u8>>>);

#[async_trait]
impl Blobs for TestBlobs {
    async fn put(&self, content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError> {
        let content = collect(content, limit).await.map_err(|error| match error {
            Some(error) => BlobError::Source(error),
            None => BlobError::TooLarge { limit },
        })?;
        let extension = hint.filename.as_ref().and_then(Filename::extension);
        let mime = match (std::str::from_utf8(&content), extension.as_deref()) {
            _ if content.starts_with(b"\x89PNG") => "image/png",
            (Ok(_), Some("csv")) => "text/csv",
            (Ok(_), Some("json")) => "application/json",
            (Ok(_), _) => "text/plain",
            (Err(_), _) => "application/octet-stream",
        };
        let (sha256, bytes) = (digest(&content), content.len() as u64);
        self.0.lock().unwrap().insert(sha256, content);
        Ok(StoredBlob { sha256, bytes, mime: mime.to_owned(), media: MediaInfo::default() })
    }

    async fn open(&self, sha256: &Sha256, range: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        let content = self.0.lock().unwrap().get(sha256).cloned().ok_or(BlobError::Missing(*sha256))?;
        let range = range.unwrap_or(0..u64::MAX);
        let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
        Ok(chunked(&content[clamp(range.start)..clamp(range.end)]))
    }

    async fn list_stale(&self, _grace: Duration) -> Result<Vec<Sha256>, BlobError> {
        Ok(Vec::new())
    }

    async fn mark(&self, _unreferenced: &[Sha256], _grace: Duration) -> Result<(), BlobError> {
        Ok(())
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        Ok(0)
    }
}

#[derive(Default)]
struct TestWorkspace {
    files: Mutex<BTreeMap<WorkspacePath, Vec<u8>>>,
    touched: Mutex<Vec<WorkspacePath>>,
}

impl TestWorkspace {
    fn touch(&self, path: &WorkspacePath) {
        self.touched.lock().unwrap().push(path.clone());
    }
}

#[async_trait]
impl Workspace for TestWorkspace {
    async fn read(&self, _: &ConversationId, path: &WorkspacePath) -> Result<WorkspaceFile, WorkspaceError> {
        self.touch(path);
        let files = self.files.lock().unwrap();
        let content = files.get(path).ok_or_else(|| WorkspaceError::NotFound(path.clone()))?;
        Ok(WorkspaceFile { bytes: content.len() as u64, content: chunked(content) })
    }

    async fn write(
        &self,
        _: &ConversationId,
        path: &WorkspacePath,
        content: ByteStream,
        mode: WriteMode,
        limit: u64,
    ) -> Result<u64, WorkspaceError> {
        self.touch(path);
        let content = collect(content, limit).await.map_err(|error| match error {
            Some(error) => WorkspaceError::Failed { path: path.clone(), reason: error.to_string() },
            None => WorkspaceError::TooLarge { path: path.clone(), limit },
        })?;
        let mut files = self.files.lock().unwrap();
        if mode == WriteMode::CreateNew && files.contains_key(path) {
            return Err(WorkspaceError::Exists(path.clone()));
        }
        let bytes = content.len() as u64;
        files.insert(path.clone(), content);
        Ok(bytes)
    }

    async fn read_secret(&self, _: &ConversationId, path: &WorkspacePath) -> Result<SecretString, WorkspaceError> {
        let files = self.files.lock().unwrap();
        let content = files.get(path).ok_or_else(|| WorkspaceError::NotFound(path.clone()))?;
        Ok(SecretString::from(String::from_utf8(content.clone()).unwrap()))
    }

    async fn list(&self, _: &ConversationId, path: &WorkspacePath) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        self.touch(path);
        let files = self.files.lock().unwrap();
        if files.contains_key(path) {
            return Err(WorkspaceError::NotADirectory(path.clone()));
        }
        let beneath = format!("{path}/");
        let mut entries: BTreeMap<WorkspacePath, WorkspaceEntry> = BTreeMap::new();
        for (file, content) in files.iter() {
            let file = file.to_string();
            let Some(rest) = file.strip_prefix(&beneath) else { continue };
            let (name, kind, bytes) = match rest.split_once('/') {
                Some((directory, _)) => (directory, WorkspaceEntryKind::Directory, 0),
                None => (rest, WorkspaceEntryKind::File, content.len() as u64),
            };
            let entry = WorkspaceEntry { path: path.join(name).unwrap(), kind, bytes, modified_at: Timestamp(5_000) };
            entries.insert(entry.path.clone(), entry);
        }
        if entries.is_empty() {
            return Err(WorkspaceError::NotFound(path.clone()));
        }
        Ok(entries.into_values().collect())
    }

    async fn remove(&self, _: &ConversationId, path: &WorkspacePath) -> Result<u64, WorkspaceError> {
        self.touch(path);
        let removed = self.files.lock().unwrap().remove(path);
        removed.map(|content| content.len() as u64).ok_or_else(|| WorkspaceError::NotFound(path.clone()))
    }

    async fn trash(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        _: TrashBatch,
        recursive: bool,
    ) -> Result<TrashedEntry, WorkspaceError> {
        match self.list(conversation, path).await {
            Ok(_) if !recursive => Err(WorkspaceError::NotEmpty(path.clone())),
            Ok(_) => {
                let beneath = format!("{path}/");
                self.files.lock().unwrap().retain(|file, _| !file.to_string().starts_with(&beneath));
                Ok(TrashedEntry { kind: WorkspaceEntryKind::Directory, bytes: 0 })
            }
            Err(_) => {
                let bytes = self.remove(conversation, path).await?;
                Ok(TrashedEntry { kind: WorkspaceEntryKind::File, bytes })
            }
        }
    }

    async fn restore(&self, _: &ConversationId, _: Uuid) -> Result<RestoredFiles, WorkspaceError> {
        Ok(RestoredFiles::default())
    }

    async fn rename_conversation(&self, _: &ConversationId, _: &ConversationId) -> Result<bool, WorkspaceError> {
        Ok(false)
    }

    async fn remove_conversation(&self, _: &ConversationId) -> std::io::Result<()> {
        Ok(())
    }
}

/// A file's record, and the turn in which it came or was made.
type FileRecord = (Attachment, Option<TurnId>);

/// One conversation, its files, and the tools that work on them.
pub(crate) struct ToolHarness {
    pub(crate) limits: ToolLimits,
    /// What fetches; a mock that expects nothing unless a test puts another here.
    pub(crate) fetcher: Arc<dyn Fetcher>,
    /// What reads documents; nothing unless a test puts something here.
    pub(crate) documents: Option<Arc<dyn DocumentReader>>,
    pub(crate) images: Option<Arc<dyn ImageScaler>>,
    turns: Arc<Mutex<Vec<TurnRecord>>>,
    records: Arc<Mutex<Vec<FileRecord>>>,
    inbound: Mutex<Vec<Attachment>>,
    ids: Arc<SequentialIds>,
    blobs: Arc<TestBlobs>,
    workspace: Arc<TestWorkspace>,
}

impl ToolHarness {
    pub(crate) fn new() -> Self {
        Self {
            limits: ToolLimits::default(),
            fetcher: Arc::new(MockFetcher::new()),
            documents: None,
            images: None,
            turns: Arc::default(),
            records: Arc::default(),
            inbound: Mutex::default(),
            ids: Arc::new(SequentialIds::starting_at(1_000)),
            blobs: Arc::default(),
            workspace: Arc::default(),
        }
    }

    /// Adds a turn behind those that were said before.
    pub(crate) fn add_turn(&self, turn: TurnRecord) {
        self.turns.lock().unwrap().push(turn);
    }

    /// Adds a file's record that the ledger knows from an earlier turn.
    pub(crate) fn add_record(&self, attachment: Attachment) {
        self.records.lock().unwrap().push((attachment, None));
    }

    /// Adds a file's record that a tool made earlier in this turn.
    pub(crate) fn add_turn_record(&self, attachment: Attachment) {
        self.records.lock().unwrap().push((attachment, Some(turn())));
    }

    /// Stores bytes for the attachments that name them.
    pub(crate) fn store(&self, content: &[u8]) {
        self.blobs.0.lock().unwrap().insert(digest(content), content.to_vec());
    }

    /// The bytes that are stored at an address.
    pub(crate) fn stored(&self, sha256: &Sha256) -> Vec<u8> {
        self.blobs.0.lock().unwrap().get(sha256).cloned().unwrap()
    }

    /// Lets a file come with this turn.
    pub(crate) fn receive(&self, attachment: Attachment) {
        self.add_turn_record(attachment.clone());
        self.inbound.lock().unwrap().push(attachment);
    }

    /// Lets a file with these bytes come with this turn.
    pub(crate) fn receive_bytes(&self, id: u128, filename: &str, mime: &str, content: &[u8]) {
        self.store(content);
        self.receive(attachment(id, filename, mime, content));
    }

    pub(crate) fn put_file(&self, path: &str, content: &[u8]) {
        self.workspace.files.lock().unwrap().insert(path.parse().unwrap(), content.to_vec());
    }

    pub(crate) fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.workspace.files.lock().unwrap().get(&path.parse().unwrap()).cloned()
    }

    /// The paths that reached the workspace.
    pub(crate) fn touched(&self) -> Vec<WorkspacePath> {
        self.workspace.touched.lock().unwrap().clone()
    }

    pub(crate) fn services(&self) -> ToolServices {
        let mut ledger = MockLedger::default();
        let known = self.records.clone();
        ledger.archive.expect_attachment().returning(move |conversation, key| {
            let known = known.lock().unwrap();
            let is_it = |file: &Attachment| match key {
                AttachmentKey::Id(id) => file.id == id,
                AttachmentKey::Number(number) => file.number.get() == number,
            };
            Ok(known
                .iter()
                .map(|(file, _)| file)
                .find(|file| file.conversation == *conversation && is_it(file))
                .cloned())
        });
        let known = self.records.clone();
        ledger.archive.expect_attachments().returning(move |query| {
            let (offset, limit) = (query.offset as usize, query.limit.map_or(usize::MAX, |limit| limit as usize));
            let known = known.lock().unwrap();
            let found = known.iter().rev().filter(|record| matches_query(query, record));
            Ok(found.map(|(file, _)| file.clone()).skip(offset).take(limit).collect())
        });
        let known = self.records.clone();
        ledger.archive.expect_count_attachments().returning(move |query| {
            Ok(known.lock().unwrap().iter().filter(|record| matches_query(query, record)).count() as u64)
        });
        let registered = self.records.clone();
        ledger.turns.expect_register_files().returning(move |turn, files| {
            let mut known = registered.lock().unwrap();
            let mut numbered = Vec::new();
            for file in files {
                let number = match known.iter().find(|(other, _)| other.id == file.id) {
                    Some((other, _)) => other.number,
                    None => NonZeroU64::new(100 + known.len() as u64).unwrap(),
                };
                let file = file.clone().numbered(conversation(), number);
                numbered.push(file.clone());
                known.push((file, Some(turn)));
            }
            Ok(numbered)
        });
        let said = self.turns.clone();
        ledger
            .archive
            .expect_turn()
            .returning(move |id| Ok(said.lock().unwrap().iter().find(|turn| turn.id == id).cloned()));
        let said = self.turns.clone();
        ledger.archive.expect_turns().returning(move |query| {
            let said = said.lock().unwrap();
            let before = said.iter().take_while(|turn| query.before != Some(turn.id));
            let before: Vec<&TurnRecord> = before.filter(|turn| turn.conversation == query.conversation).collect();
            let newest = before.len().saturating_sub(query.limit as usize);
            Ok(before[newest..].iter().map(|turn| (*turn).clone()).collect())
        });
        ToolServices {
            archive: Arc::new(ledger.archive),
            turns: Arc::new(ledger.turns),
            blobs: self.blobs.clone(),
            workspace: AuditedWorkspace::new(self.workspace.clone()),
            fetcher: self.fetcher.clone(),
            download_hosts: vec!["files.lan".to_owned()],
            documents: self.documents.clone(),
            images: self.images.clone(),
            limits: self.limits.clone(),
        }
    }

    pub(crate) fn registry(&self) -> ToolRegistry {
        built_in(self.services())
    }

    pub(crate) fn context(&self) -> ToolContext {
        ToolContext {
            conversation: conversation(),
            call: CallId { turn: turn(), ordinal: 3 },
            tool: "a_tool".to_owned(),
            requester: Sender::new("1", "Ada"),
            work_share: WorkShare::from_sender(conversation(), &Sender::new("1", "Ada")),
            group: false,
            is_shared: false,
            scheduled: false,
            is_written_script: false,
            inbound: self.inbound.lock().unwrap().clone().into(),
            cancel: tokio_util::sync::CancellationToken::new(),
            tools: Some(Arc::new(satchel_ports::MockToolCaller::new())),
            reader: OutcomeReader::Model,
            vault: None,
            changes: ChangeLog::default(),
            clock: Arc::new(ManualClock::at(Timestamp(7_000))),
            ids: self.ids.clone(),
        }
    }

    /// Calls a tool as everybody does: through the registry.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutcome, ToolError> {
        self.registry().get(tool).unwrap().call(arguments, &self.context()).await
    }

    /// Calls a tool as a script does: as the model's tools are, and for a program to read.
    pub(crate) async fn call_for_program(&self, tool: &str, arguments: Value) -> Result<ToolOutcome, ToolError> {
        let tools = self.registry().for_model(&self.services());
        let found = tools.into_iter().find(|known| known.spec().name == tool).unwrap();
        let context = ToolContext { tools: None, reader: OutcomeReader::Program, ..self.context() };
        found.call(arguments, &context).await
    }

    /// Calls a tool that must answer with data alone.
    pub(crate) async fn data(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.call(tool, arguments).await.unwrap();
        assert_eq!((outcome.text, outcome.failed), (None, false));
        outcome.data.unwrap()
    }

    /// Calls a tool that lists, then what it says to read on with until there is no more; the length of each page.
    pub(crate) async fn list_page_lengths(&self, tool: &str, arguments: Value, entries: &str) -> Vec<usize> {
        let (mut pages, mut seen) = (Vec::new(), Vec::new());
        let mut next = Some(arguments);
        while let Some(arguments) = next {
            let answer = self.data(tool, arguments).await;
            let page = answer[entries].as_array().unwrap();
            pages.push(page.len());
            seen.extend(page.iter().map(Value::to_string));
            assert_eq!(
                answer["more"].as_u64().map(|more| more > 0).or(answer["more"].as_bool()),
                Some(answer.get("next").is_some())
            );
            next = answer.get("next").map(|next| {
                let (named, arguments) = next.as_str().unwrap().split_once(' ').unwrap();
                assert_eq!(named, tool);
                serde_json::from_str(arguments).unwrap()
            });
        }
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count, "no entry comes twice");
        pages
    }

    /// Calls a tool that must fail, and returns its words.
    pub(crate) async fn error(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.unwrap_err().0
    }
}

/// What a store says whose disk is full.
pub(crate) fn disk_full_error() -> BlobError {
    BlobError::Full(DiskFull { free: 0, reserved: 0 })
}

fn matches_query(query: &AttachmentQuery, (file, turn): &FileRecord) -> bool {
    let contains = |name: &String| file.filename.as_str().to_lowercase().contains(&name.to_lowercase());
    query.conversation.as_ref().is_none_or(|conversation| file.conversation == *conversation)
        && query.before.is_none_or(|number| file.number.get() < number)
        && query.turn.is_none_or(|asked| *turn == Some(asked))
        && query.sha256.is_none_or(|digest| file.sha256 == digest)
        && query.mime_prefix.as_ref().is_none_or(|prefix| file.mime.starts_with(prefix.as_str()))
        && query.name_contains.as_ref().is_none_or(contains)
        && query.source.is_none_or(|source| file.source == source)
}
