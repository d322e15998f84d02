//! The port of the tools that a model can call.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, CallId, ConversationId, Filename, NewAttachment, Sender, StoredBlob,
    ToolOutcome, WorkShare, WorkspacePath,
};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{BlobError, BlobHint, Blobs, ChangeLog, Clock, Ids, WorkspaceError};

/// What a tool may do to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SafetyTier {
    /// It changes nothing; it may be repeated.
    ReadOnly,
    /// It changes something; it is never repeated by us.
    SideEffecting,
    /// It reaches secrets or other people; it needs a person's confirmation.
    Privileged,
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolSpec {
    /// Its name; may hold dots.
    pub name: String,
    /// What it does and when to use it, in at most [`MAX_DESCRIPTION_CHARS`].
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
    /// What it may do.
    pub tier: SafetyTier,
    /// How long a call may take; `None` for the default.
    pub time_limit: Option<Duration>,
}

/// The longest description that a tool may have, in characters: the strictest provider takes no longer one.
pub const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// The reader of a call's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutcomeReader {
    /// A model. What is long comes in pages or as a beginning, with words on how to read on.
    Model,
    /// People, as it stands, and a model only where the outcome wakes one.
    Person,
    /// Another tool, such as a script: it gets the whole outcome and nothing besides, or an error above
    /// [`Self::MAX_PROGRAM_BYTES`].
    Program,
}

impl OutcomeReader {
    /// The longest outcome that a program gets, in bytes.
    pub const MAX_PROGRAM_BYTES: u64 = 8 << 20;
}

/// The secrets that a tool may read.
///
/// # Contract
/// - A secret that was read doesn't leave the call: where the outcome or the error holds it, it is masked. What a tool
///   sends elsewhere, or writes into a file in another form, is its own responsibility.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Vault: Send + Sync {
    /// Reads the text of a file in `/vault`, without line breaks at its end.
    async fn read(&self, path: &WorkspacePath) -> Result<SecretString, WorkspaceError>;
}

/// What a call knows of the turn around it. Cheap to clone, however large the files.
#[derive(Clone)]
pub struct ToolContext {
    /// The conversation; the only one whose files the call may touch.
    pub conversation: ConversationId,
    /// The call itself, and with it the turn.
    pub call: CallId,
    /// The name of the tool.
    pub tool: String,
    /// The person for whom the call runs: whose text the model has read last in this turn.
    pub requester: Sender,
    /// For whom workers do the call's work.
    pub work_share: WorkShare,
    /// Whether others can read along in the conversation.
    pub group: bool,
    /// Whether the model has read texts of others too in this turn. The call has no more rights than in a group.
    pub is_shared: bool,
    /// Whether a schedule or a reminder has started the turn, and no person has written into it since.
    pub scheduled: bool,
    /// Whether a script that was sent as a message makes the call, so that no model has requested it.
    pub is_written_script: bool,
    /// The files that came with this turn, by index.
    pub inbound: Arc<[Attachment]>,
    /// Cancelled when the person stops the turn, the time is up, or the lane is lost.
    pub cancel: CancellationToken,
    /// The way to the other tools, for one that runs what a model wrote; `None` where another tool makes this call.
    pub tools: Option<Arc<dyn ToolCaller>>,
    /// Who reads the outcome.
    pub reader: OutcomeReader,
    /// The secrets of the conversation, for a tool whose paths are declared to lie in `/vault`; `None` for all others.
    pub vault: Option<Arc<dyn Vault>>,
    /// Where the call's changes of files are recorded for the audit log.
    pub changes: ChangeLog,
    /// The time that new files get.
    pub clock: Arc<dyn Clock>,
    /// Where ids of new files come from.
    pub ids: Arc<dyn Ids>,
}

impl ToolContext {
    /// Makes a file of the tool out of stored bytes, for its outcome.
    #[must_use]
    pub fn new_file(&self, filename: Filename, stored: StoredBlob) -> NewAttachment {
        let id = AttachmentId(self.ids.next());
        NewAttachment::new(id, AttachmentSource::Tool, filename, stored, self.clock.now())
    }

    /// Stores bytes and makes a file of the tool out of them, for its outcome. Large files are streamed into the store
    /// instead, and then become a [`new_file`](Self::new_file).
    ///
    /// # Errors
    /// When the bytes can't be stored.
    pub async fn store_file(
        &self,
        blobs: &dyn Blobs,
        filename: Filename,
        content: impl Into<Bytes>,
    ) -> Result<NewAttachment, BlobError> {
        let content = content.into();
        let bytes = content.len() as u64;
        let hint = BlobHint { filename: Some(filename.clone()), mime: None, bytes: Some(bytes) };
        let stored = blobs.put(Box::pin(stream::iter([Ok(content)])), &hint, bytes).await?;
        Ok(self.new_file(filename, stored))
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("conversation", &self.conversation)
            .field("call", &self.call)
            .field("inbound", &self.inbound.len())
            .finish_non_exhaustive()
    }
}

/// Calls tools on behalf of a tool.
///
/// # Contract
/// - A call passes every check that the model's own calls pass: tiers, groups, confirmation, time limits.
/// - A tool that is called so has no [`ToolContext::tools`], and returns its whole outcome: its reader is
///   [`OutcomeReader::Program`].
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait ToolCaller: Send + Sync {
    /// What is known of the tools that can be called.
    fn specs(&self) -> Arc<[ToolSpec]>;

    /// Calls a tool by its name; a tool that fails is an error in its own words, unless it
    /// [failed in part](ToolOutcome::has_failed_in_part). A confirmation is
    /// requested for at most `time_left`, the time for which the caller can still wait.
    async fn call(&self, tool: &str, arguments: Value, time_left: Duration) -> Result<ToolOutcome, ToolError>;
}

/// Why a call failed, in words that tell the model what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);

/// A tool that the model can call.
///
/// # Contract
/// - `call` checks its arguments itself and says which is wrong and what is allowed.
/// - It reports what is true: files are `queued`, never `sent`.
/// - The files of an outcome have ids and stored bytes; the ledger numbers them when it stores the outcome.
/// - A call that can't tell whether it had an effect, such as one whose answer was lost, returns an
///   [unknown](ToolOutcome::from_unknown) outcome, whatever words it has for that.
/// - It may be dropped at any await; what it wrote by then is either whole or absent.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model is told of it.
    fn spec(&self) -> ToolSpec;

    /// What a call with these arguments may do to the world: at least what [`spec`](Self::spec) says, and the same for
    /// the same arguments.
    fn tier(&self, _arguments: &Value) -> SafetyTier {
        self.spec().tier
    }

    /// What a call with these arguments would do, as Markdown for the person who is asked to allow it; `None` where the
    /// arguments say it all. It changes nothing.
    async fn preview(&self, _arguments: &Value, _conversation: &ConversationId) -> Option<String> {
        None
    }

    /// The paths at which a call with these arguments may change files of the workspace; `None` for one that the
    /// arguments don't name.
    fn changed_paths(&self, _arguments: &Value) -> Vec<Option<WorkspacePath>> {
        Vec::new()
    }

    /// Performs a call.
    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError>;
}
