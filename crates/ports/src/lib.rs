//! The ports of the hexagon, one per file: object-safe traits whose docs are their contracts.
//!
//! Adapters implement them, the crates that decide use them as `Arc<dyn …>`, and only the apps put the two together.
//! The feature `mocks` adds a [`mockall`](https://docs.rs/mockall) mock of every port, named `Mock…`.
//! Each `# Contract` line has a test of the same meaning in `tests/contracts`, run against every adapter of the port, or
//! beside its only adapter.

#![warn(missing_docs)]

pub mod audio;
pub mod audit;
pub mod blobs;
pub mod channel;
pub mod clock;
pub mod declared_files;
pub mod documents;
pub mod event_bus;
pub mod fetcher;
pub mod file_links;
pub mod file_runner;
pub mod images;
pub mod inbound;
#[cfg(feature = "intercept")]
pub mod intercept;
pub mod language_model;
pub mod ledger;
pub mod media;
pub mod notifications;
pub mod script_host;
pub mod speech;
pub mod tool;
pub mod workspace;

use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;

/// The bytes of a file as they flow: never the whole file at once.
pub type ByteStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

pub use audio::{AudioDecoder, AudioError, DECODED_SAMPLE_RATE, MAX_DECODED_SAMPLES};
pub use audit::{AuditQuery, AuditRecord, ChangeLog, ChangeOutcome, FileAction, FileChange};
pub use blobs::{BlobError, BlobHint, Blobs};
pub use channel::{
    Activity, Channel, FetchedFile, FileFetchError, LookupOutcome, LookupRange, LookupRequest, PostRequest,
    PreviewRequest,
};
pub use clock::{Clock, Ids};
pub use declared_files::{DeclaredFileError, DeclaredFiles, FileEntry, OpenedFile, ReadableFile};
pub use documents::{DocumentError, DocumentPage, DocumentReader, DocumentRequest, DocumentText};
pub use event_bus::{BusError, BusEvent, EventBus};
pub use fetcher::{FetchRequest, FetchResponse, Fetcher, FetcherError, HostPolicy};
pub use file_links::{FileLinks, LINK_TTL};
pub use file_runner::{FileAccess, FileProfile, FileReader, FileRunner, FileWriter};
pub use images::{ImageError, ImageRequest, ImageScaler, ScaledImage};
pub use inbound::{Inbound, InboundError};
pub use language_model::{LanguageModel, ModelError, ModelEvent, ModelFile, ModelMessage, ModelRequest};
pub use ledger::{
    Archive, Conversations, HolderId, Inbox, Lease, Leases, Ledger, LedgerError, Logins, Outbox, Pairings, Reminders,
    Storage, Turns,
};
pub use media::{MediaError, MediaMeter, MediaRequest};
pub use notifications::{MAX_NOTIFICATION_BYTES, Notification, NotificationError, NotificationFile, Notifications};
pub use satchel_domain::StoredBlob;
pub use script_host::{HostFunctions, ScriptError, ScriptEvaluation, ScriptHost, ScriptRequest};
pub use speech::{Recording, Speech, SpeechError, SynthesizedSpeech};
pub use tool::{
    MAX_DESCRIPTION_CHARS, OutcomeReader, SafetyTier, Tool, ToolCaller, ToolContext, ToolError, ToolSpec, Vault,
};
pub use workspace::{Workspace, WorkspaceError, WriteMode};

#[cfg(feature = "mocks")]
pub use {
    audio::MockAudioDecoder,
    blobs::MockBlobs,
    channel::MockChannel,
    clock::{ManualClock, SequentialIds, TokioClock},
    declared_files::MockDeclaredFiles,
    documents::MockDocumentReader,
    event_bus::MockEventBus,
    fetcher::MockFetcher,
    file_links::MockFileLinks,
    file_runner::{MockFileReader, MockFileRunner, MockFileWriter},
    images::MockImageScaler,
    inbound::MockInbound,
    language_model::MockLanguageModel,
    ledger::{
        MockArchive, MockConversations, MockGateways, MockInbox, MockLeases, MockLedger, MockLogins, MockOutbox,
        MockPairings, MockReminders, MockStorage, MockTurns,
    },
    media::MockMediaMeter,
    notifications::MockNotifications,
    script_host::{MockHostFunctions, MockScriptHost},
    speech::MockSpeech,
    tool::{MockTool, MockToolCaller, MockVault},
    workspace::MockWorkspace,
};
