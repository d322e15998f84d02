//! Where people are: one adapter a platform.

use std::fmt;

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, MessageRef, PartContent, PartId, TurnId,
    delivery::SendError,
};

use crate::{ByteStream, StoredBlob, ledger::RecordedMessages};

/// One part on its way to a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendRequest {
    /// The part's id: the idempotency key, where the channel has one.
    pub part: PartId,
    /// The turn that it answers.
    pub turn: TurnId,
    /// Where it goes.
    pub conversation: ConversationId,
    /// What is sent; a label for possible duplicates stands in its text already.
    pub content: PartContent,
    /// The person's message that it answers.
    pub reply_to: Option<MessageRef>,
}

/// A search for a part whose send was left in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupRequest {
    /// The part as it was sent.
    pub part: SendRequest,
    /// Which messages may be it.
    pub range: LookupRange,
    /// How many attempts may have arrived there; more messages than theirs are not all the part's.
    pub attempts: u32,
    /// What the ledger knows of messages; empty where [`ChannelCapabilities::look_up`] is not
    /// [`satchel_domain::capabilities::LookupRule::MessageIds`].
    pub recorded: RecordedMessages,
}

/// Which messages a look-up goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupRange {
    /// All that may have been sent after this message, or after the part was made where there is none. The request may
    /// still be on its way, so the channel waits until it can have arrived.
    After(Option<MessageRef>),
    /// A repeat has arrived as these messages: those before them, at once. What is found is a duplicate.
    Before(Vec<MessageRef>),
    /// A repeat has arrived as these messages: those behind them, at once. What is found is a duplicate.
    Late(Vec<MessageRef>),
}

/// What a look-up has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupOutcome {
    /// The part arrived as `messages`.
    Found {
        /// The messages, all of one attempt; the newest where several attempts arrived.
        messages: Vec<MessageRef>,
        /// The messages of other attempts, which a person sees too.
        duplicates: Vec<MessageRef>,
    },
    /// It did not arrive: this is certain.
    Absent,
    /// Neither is certain.
    Uncertain {
        /// Why, for the log.
        reason: String,
    },
}

impl LookupOutcome {
    /// Neither is certain, for this reason.
    #[must_use]
    pub fn uncertain(reason: impl Into<String>) -> Self {
        Self::Uncertain { reason: reason.into() }
    }
}

/// A file on its way in.
pub enum FetchedFile {
    /// Bytes that are still to be stored.
    Bytes {
        /// Their number, where the platform tells it before they come.
        bytes: Option<u64>,
        /// The bytes.
        content: ByteStream,
    },
    /// The channel has put them into the blob store already, as [`FileReference::stored`] says.
    Stored(StoredBlob),
}

impl fmt::Debug for FetchedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { bytes, .. } => f.debug_struct("Bytes").field("bytes", bytes).finish_non_exhaustive(),
            Self::Stored(stored) => f.debug_tuple("Stored").field(stored).finish(),
        }
    }
}

/// What is being done for a conversation, as platforms show it beside the chat's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activity {
    /// A reply is being written.
    Writing,
    /// A voice is being made.
    Speaking,
    /// A file is being sent.
    Uploading,
}

/// Why a file could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FileFetchError {
    /// A later attempt may succeed.
    #[error("not fetched: {reason}")]
    Retryable {
        /// What went wrong, in words for the person.
        reason: String,
    },
    /// No attempt will succeed: too large for the platform, expired, gone, forbidden.
    #[error("refused: {reason}")]
    Permanent {
        /// Why, in words for the person.
        reason: String,
    },
    /// It never will as Satchel is set up, and the owner can change that.
    #[error("refused: {reason}: {remedy}")]
    NotSetUp {
        /// Why, in words for the person.
        reason: String,
        /// What the owner can do about it.
        remedy: String,
    },
}

/// Sends to one platform and fetches from it. What comes in, the adapter hands to [`crate::Inbound`].
///
/// # Contract
/// - `send` answers with the ids of all messages that it made, or an error that tells what is certain: only an error
///   other than [`SendError::InDoubt`] means that nothing arrived.
/// - Every failure after the first byte of the request was written and before a decoded answer is `InDoubt`.
/// - A rate limit is `NotSent` with the platform's own wait. A decoded server error is `NotSent` only where the platform
///   says it of nothing that it performs, else `InDoubt`.
/// - Where [`ChannelCapabilities::idempotency`] is a key, a second `send` of one part within the window makes no second message.
/// - Where [`ChannelCapabilities::can_edit`] is false, `edit` is `Refused` and changes nothing.
/// - `edit` is idempotent: the message ends with the new content however often it is called; "not modified" is success,
///   a message that is gone is `Refused` with [`satchel_domain::delivery::Refusal::TargetGone`].
/// - `delete` of a message that is gone is success.
/// - `find_sent` is certain or says that it isn't: `Found` names messages of this part alone, `Absent` is no message that
///   can't be seen. While it looks, the channel sends nothing else there. Where it can't reach the platform it fails with
///   `NotSent` or `InDoubt`, and may be asked again.
/// - `probe` changes nothing that a person can see.
/// - Files are streamed from the blob store: memory does not grow with their size.
/// - A call that is dropped stops its request.
/// - Every call ends: one that makes no progress for the adapter's time limit is an error.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Channel: Send + Sync {
    /// The channel's name; all its conversations begin with it.
    fn name(&self) -> ChannelName;

    /// What the channel can do in a conversation; known limits of that place are lowered already.
    fn capabilities(&self, conversation: &ConversationId) -> ChannelCapabilities;

    /// Sends a part as a new message.
    async fn send(&self, part: &SendRequest) -> Result<Vec<MessageRef>, SendError>;

    /// Makes an existing message show a part.
    async fn edit(&self, message: &MessageRef, part: &SendRequest) -> Result<Vec<MessageRef>, SendError>;

    /// Deletes a message of ours.
    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError>;

    /// Looks for a part whose send was left in doubt; it may take a minute. Only a channel whose
    /// [`ChannelCapabilities::look_up`] is [`satchel_domain::capabilities::LookupRule::None`] needs none of its own.
    async fn find_sent(&self, request: &LookupRequest) -> Result<LookupOutcome, SendError> {
        let _ = request;
        Ok(LookupOutcome::uncertain("the channel can't look anything up"))
    }

    /// Makes a harmless call that tells whether the platform answers.
    async fn probe(&self) -> Result<(), SendError>;

    /// Shows for a few seconds that something is being done. Lossy: a platform that can't, or is slow, is left alone.
    async fn show_activity(&self, conversation: &ConversationId, activity: Activity);

    /// Opens a file that a person sent.
    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError>;
}
