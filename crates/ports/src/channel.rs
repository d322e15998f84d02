//! The port of a channel, where people write: one adapter a platform.

use std::{fmt, future};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ChannelState, ConversationId, FileReference, MessageRef, PartContent, PartId,
    Sender, TurnId,
    delivery::{Refusal, SendError},
};

use crate::{ByteStream, StoredBlob, ledger::RecordedMessages};

/// A part to post, or to put in place of an earlier message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostRequest {
    /// The part's id: the idempotency key, where the channel has one.
    pub part_id: PartId,
    /// The part's turn.
    pub turn: TurnId,
    /// The conversation to send it to.
    pub conversation: ConversationId,
    /// The content; its text includes the label for possible duplicates, if it needs one.
    pub content: PartContent,
    /// The person's message to which it replies.
    pub reply_to: Option<MessageRef>,
}

/// A preview of a reply that isn't complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewRequest {
    /// The turn that the reply is of; previews of one turn take each other's place.
    pub turn: TurnId,
    /// The conversation to show it in.
    pub conversation: ConversationId,
    /// What it shows, as Markdown: no more than a message holds, and not blank.
    pub text: String,
}

/// A look-up of a part in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupRequest {
    /// The part as it was sent.
    pub part: PostRequest,
    /// The messages to look at.
    pub range: LookupRange,
    /// The number of attempts that may have arrived; more matching messages than that are not all the part's.
    pub attempts: u32,
    /// The ledger's recorded messages; empty where [`ChannelCapabilities::look_up`] is not
    /// [`satchel_domain::capabilities::LookupRule::MessageIds`].
    pub recorded: RecordedMessages,
}

/// The messages that a look-up covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupRange {
    /// All that may have been sent after this message, or after the part was made where there is none. The request may
    /// still be on its way, so the channel waits until it can have arrived.
    After(Option<MessageRef>),
    /// Those before these messages, as which a retry has arrived, without waiting. A match is a duplicate.
    Before(Vec<MessageRef>),
    /// Those after these messages, as which a retry has arrived, without waiting. A match is a duplicate.
    Late(Vec<MessageRef>),
}

/// The result of a look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupOutcome {
    /// The part arrived as `messages`.
    Found {
        /// The messages, all of one attempt; the newest where several attempts arrived.
        messages: Vec<MessageRef>,
        /// The messages of other attempts, which the person sees, too.
        duplicates: Vec<MessageRef>,
    },
    /// It certainly did not arrive.
    Absent,
    /// Whether it arrived is unknown.
    Uncertain {
        /// The reason, for the log.
        reason: String,
    },
}

impl LookupOutcome {
    /// Makes an uncertain outcome with this reason.
    #[must_use]
    pub fn uncertain(reason: impl Into<String>) -> Self {
        Self::Uncertain { reason: reason.into() }
    }
}

/// A file that a channel has opened for its person.
pub enum FetchedFile {
    /// Bytes that are still to be stored.
    Bytes {
        /// Their number, if the platform reports it up front.
        bytes: Option<u64>,
        /// The bytes.
        content: ByteStream,
    },
    /// Bytes that the channel has already put into the blob store, made by [`FileReference::stored`].
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

/// The activity that platforms show beside a chat's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activity {
    /// A reply is being written.
    Writing,
    /// A voice message is being prepared.
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
        /// The reason, written for the person.
        reason: String,
    },
    /// No attempt will succeed: too large for the platform, expired, gone, forbidden.
    #[error("refused: {reason}")]
    Permanent {
        /// The reason, written for the person.
        reason: String,
    },
    /// No attempt will succeed with the current configuration, which the owner can change.
    #[error("refused: {reason}: {remedy}")]
    NotConfigured {
        /// The reason, written for the person.
        reason: String,
        /// What the owner can do about it.
        remedy: String,
    },
}

/// Sends to one platform and fetches from it. The adapter passes input to [`crate::Inbound`].
///
/// `name`, `capabilities`, `post` and `fetch` are enough for a channel; the defaults of the others say that it can't do
/// what its capabilities don't promise.
///
/// # Contract
/// - `post` returns the ids of all messages that it made, or an error; an error other than [`SendError::InDoubt`] means
///   that nothing arrived.
/// - Every failure after the first byte of the request was written and before a decoded answer is `InDoubt`,
///   unless the platform shows nothing of an incomplete request.
/// - A rate limit is `NotSent` with the platform's retry-after. A decoded server error is `NotSent` only if the
///   platform never reports it for a request that it has performed, else `InDoubt`.
/// - Where [`ChannelCapabilities::idempotency`] is a key, a second `post` of one part within the window makes no second message.
/// - Where [`ChannelCapabilities::can_edit`] is false, `edit` is `Refused` and changes nothing.
/// - `edit` is idempotent: the message ends with the new content however often it is called; "not modified" is success,
///   a message that is gone is `Refused` with [`satchel_domain::delivery::Refusal::TargetGone`].
/// - `delete` of a message that is gone is success.
/// - `show_preview` makes no message and needs no idempotency: what it shows vanishes by itself, at the latest with the next
///   message. Any refusal says that the reply has to grow in a message.
/// - `find_sent` never guesses: `Found` returns messages of this part alone, and `Absent` needs the whole range to be
///   readable. Meanwhile, the channel sends nothing else there. If the platform can't be reached, it fails with
///   `NotSent` or `InDoubt` and may be retried.
/// - `probe` changes nothing that a person can see.
/// - Any call that the platform refuses because of the bot's credentials is `AccountRefused` and closes the channel. Until
///   the platform accepts them, or others that are configured meanwhile, every call fails so without a request.
/// - Files are streamed from the blob store: memory does not grow with their size.
/// - Dropping a call cancels its request.
/// - Every call ends: one that makes no progress for the adapter's timeout is an error.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Channel: Send + Sync {
    /// Returns the channel's name, with which all its conversation ids start.
    fn name(&self) -> ChannelName;

    /// Returns what the channel can do in a conversation, with the limits known for that chat.
    fn capabilities(&self, conversation: &ConversationId) -> ChannelCapabilities;

    /// Returns whether an allowed person can write in a conversation now. The default is for a channel that passes in only
    /// what people can write and doesn't know more.
    fn can_write(&self, conversation: &ConversationId, sender: &Sender) -> bool {
        let _ = (conversation, sender);
        true
    }

    /// Returns the chats that a conversation is part of, as in [`satchel_domain::InboundMessage::parents`]; of a private chat
    /// also the one that is called `@` and the id of its person. The default is for a channel whose conversations are part of
    /// nothing.
    async fn find_parents(&self, conversation: &ConversationId) -> Result<Vec<ConversationId>, SendError> {
        let _ = conversation;
        Ok(Vec::new())
    }

    /// Returns whether the channel can be used. The default is for a channel without an account that could be refused.
    fn state(&self) -> ChannelState {
        ChannelState::Open
    }

    /// Waits until the state is another one than this, and returns it. The default is for a channel that is always open.
    async fn next_state(&self, state: &ChannelState) -> ChannelState {
        let _ = state;
        future::pending().await
    }

    /// Sends a part as a new message.
    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError>;

    /// Replaces the content of one of the bot's messages. The default refuses, as [`ChannelCapabilities::can_edit`] says.
    async fn edit(&self, message: &MessageRef, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let _ = (message, request);
        Err(not_supported("the channel can't edit messages"))
    }

    /// Deletes one of the bot's messages. The default refuses; only drafts, duplicates and the question before a conversation
    /// is forgotten are deleted. One that is gone is deleted.
    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError> {
        let _ = (conversation, message);
        Err(not_supported("the channel can't delete messages"))
    }

    /// Shows a reply that isn't complete in place of what it showed of it before. The default refuses, for channels whose
    /// [`ChannelCapabilities::stream`] isn't [`satchel_domain::capabilities::StreamRule::Previews`].
    async fn show_preview(&self, request: &PreviewRequest) -> Result<(), SendError> {
        let _ = request;
        Err(not_supported("the channel can't show previews"))
    }

    /// Looks up a part in doubt, which may take a minute. The default is for channels whose
    /// [`ChannelCapabilities::look_up`] is [`satchel_domain::capabilities::LookupRule::None`].
    async fn find_sent(&self, request: &LookupRequest) -> Result<LookupOutcome, SendError> {
        let _ = request;
        Ok(LookupOutcome::uncertain("the channel doesn't support look-up"))
    }

    /// Checks that the platform responds, by a call without effects. The default is for a channel without a platform
    /// that could be away.
    async fn probe(&self) -> Result<(), SendError> {
        Ok(())
    }

    /// Shows an activity for a few seconds, as far as the platform can and is quick. The default shows none.
    async fn show_activity(&self, conversation: &ConversationId, activity: Activity) {
        let _ = (conversation, activity);
    }

    /// Opens a file that a person sent.
    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError>;
}

/// The refusal of an operation that a channel doesn't have: there is no message to perform it on, so that the content
/// is sent as a new one.
fn not_supported(reason: &str) -> SendError {
    SendError::Refused { refusal: Refusal::TargetGone, reason: reason.to_owned() }
}
