//! The archive: what is stored, as people, tools and operators read it.

use std::time::Duration;

use async_trait::async_trait;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelName, ConversationId, Ending, HistoryMessage, OutgoingResponse,
    Part, PartId, PartState, RefusedFile, Sha256, Timestamp, TurnId, Visibility, part::UndeliveredPart,
};

use super::{InboundFileState, LedgerError, QueuedMessage};

/// Reads what is stored; changes nothing.
///
/// # Contract
/// Besides that of [all ports](super):
/// - `attachments` applies all filters of its query before its offset and its limit.
/// - A file of another conversation isn't found; of a forgotten one, `attachment` returns the tombstone.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Archive: Send + Sync {
    /// Checks that the store responds, by its smallest query.
    async fn ping(&self) -> Result<(), LedgerError>;

    /// Counts the processes that have the ledger open, this one included. One that has just ended may still count.
    async fn count_processes(&self) -> Result<usize, LedgerError>;

    /// Reads a turn.
    async fn turn(&self, turn: TurnId) -> Result<Option<TurnRecord>, LedgerError>;

    /// Returns turns, oldest first, without those whose messages were all injected into another.
    async fn turns(&self, query: &TurnQuery) -> Result<Vec<TurnRecord>, LedgerError>;

    /// Returns whether a turn that came before this one in its conversation is incomplete.
    async fn has_earlier_work(&self, turn: TurnId) -> Result<bool, LedgerError>;

    /// Returns the incomplete turns that deliver notifications, in one conversation or all of them, oldest first.
    async fn list_queued_notifications(
        &self,
        conversation: Option<ConversationId>,
    ) -> Result<Vec<TurnRecord>, LedgerError>;

    /// Returns the last `limit` messages of the history since its last reset, oldest first.
    async fn history(&self, conversation: &ConversationId, limit: u32) -> Result<Vec<HistoryMessage>, LedgerError>;

    /// Returns one file's record, or a forgotten one's tombstone; `None` for another conversation's file.
    async fn attachment(
        &self,
        conversation: &ConversationId,
        key: AttachmentKey,
    ) -> Result<Option<Attachment>, LedgerError>;

    /// Returns files' records, without forgotten ones.
    async fn attachments(&self, query: &AttachmentQuery) -> Result<Vec<Attachment>, LedgerError>;

    /// Counts the files of a query, whatever its offset and its limit are.
    async fn count_attachments(&self, query: &AttachmentQuery) -> Result<u64, LedgerError>;

    /// Returns parts, newest first, or oldest first if the query is for unsettled ones only.
    async fn parts(&self, query: &OutboxQuery) -> Result<Vec<Part>, LedgerError>;

    /// Counts the undecodable updates of each channel.
    async fn count_undecodable(&self) -> Result<Vec<UndecodableCount>, LedgerError>;
}

/// A stored turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecord {
    /// Its id.
    pub id: TurnId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// How it ended; `None` while it is queued or running.
    pub ending: Option<Ending>,
    /// The response, with the files' numbers.
    pub response: Option<OutgoingResponse>,
    /// Its own messages and those that were injected into it, in the order of arrival.
    pub messages: Vec<QueuedMessage>,
    /// The parts, in order, replaced ones included.
    pub parts: Vec<Part>,
    /// The tool calls of the model, in order.
    pub calls: Vec<CallRecord>,
    /// The turn that answered its messages once more.
    pub replaced_by: Option<TurnId>,
}

/// A tool call of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    /// The tool's name.
    pub tool: String,
    /// The arguments as the model gave them.
    pub arguments: serde_json::Value,
    /// What the model wrote in the message that requested it. Only the first call of a message has it; empty where it wrote
    /// nothing.
    pub text: String,
    /// How it ended; `None` if the turn ended before it did.
    pub outcome: Option<FinishedCall>,
}

/// How a tool call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedCall {
    /// Whether it failed.
    pub failed: bool,
    /// The beginning of what the model was told.
    pub text: String,
    /// How long it ran; `None` if it may have waited for an earlier call of the same message or for a person, and in records
    /// of earlier versions.
    pub took: Option<Duration>,
}

impl TurnRecord {
    /// Returns the refused inbound files.
    pub fn refused(&self) -> impl Iterator<Item = &RefusedFile> {
        self.messages.iter().flat_map(|message| &message.files).filter_map(|file| match file {
            InboundFileState::Refused(refused) => Some(refused),
            InboundFileState::Waiting(_) | InboundFileState::Stored(_) => None,
        })
    }

    /// Returns the failed parts of the response; of a question, the call's outcome reports it. A notice that a later one has
    /// repeated counts as one that hasn't arrived.
    #[must_use]
    pub fn routing_errors(&self) -> Vec<UndeliveredPart> {
        let notice_arrived =
            self.parts.iter().any(|part| part.is_notice() && matches!(part.state, PartState::Sent { .. }));
        let text_arrived = self.parts.iter().any(Part::has_brought_text);
        let routing_error = |part: &Part| match &part.state {
            PartState::Failed { reason } if part.question.is_none() => Some(UndeliveredPart {
                part: part.id,
                turn: part.turn,
                content: part.content()?.clone(),
                reason: reason.clone(),
                notice_arrived,
                text_arrived,
            }),
            _ => None,
        };
        self.parts.iter().filter_map(routing_error).collect()
    }
}

/// A query for turns of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnQuery {
    /// The conversation.
    pub conversation: ConversationId,
    /// Only turns older than this one.
    pub before: Option<TurnId>,
    /// At most this many, the newest.
    pub limit: u32,
}

/// The key of a file in its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentKey {
    /// Its id.
    Id(AttachmentId),
    /// Its number.
    Number(u64),
}

/// A query for files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachmentQuery {
    /// Only this one.
    pub file: Option<AttachmentId>,
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those of this turn.
    pub turn: Option<TurnId>,
    /// Only those with these bytes.
    pub sha256: Option<Sha256>,
    /// Only those whose number is smaller, which are the older ones of a conversation.
    pub before: Option<u64>,
    /// Only those whose type begins with this.
    pub mime_prefix: Option<String>,
    /// Only those whose name contains this, in upper or lower case.
    pub name_contains: Option<String>,
    /// Only those from this source.
    pub source: Option<AttachmentSource>,
    /// Only those of this category.
    pub category: Option<FileCategory>,
    /// Only those from here.
    pub origin: Option<FileOrigin>,
    /// Only those with this visibility.
    pub visibility: Option<Visibility>,
    /// Only those stored then or later.
    pub since: Option<Timestamp>,
    /// Only those stored before.
    pub until: Option<Timestamp>,
    /// How many to skip.
    pub offset: u64,
    /// How many to return at most.
    pub limit: Option<u32>,
    /// The order.
    pub order: AttachmentOrder,
}

/// What a file shows or plays, by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCategory {
    /// `image/…`.
    Image,
    /// `audio/…`.
    Audio,
    /// `video/…`.
    Video,
    /// Every other type: documents, archives, data.
    Other,
}

/// Who brought a file into its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOrigin {
    /// A person sent it.
    Person,
    /// A tool or a script made it, or the configuration declares it.
    Assistant,
}

/// The order of a list of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttachmentOrder {
    /// The newest first.
    #[default]
    Newest,
    /// The oldest first.
    Oldest,
    /// The largest first.
    Largest,
}

/// A query for parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboxQuery {
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only this one.
    pub part: Option<PartId>,
    /// Only those that name this file.
    pub file: Option<AttachmentId>,
    /// Includes sent and replaced parts.
    pub include_delivered: bool,
    /// Only those that are still to be delivered, the oldest first; an open question is none of them.
    pub unsettled_only: bool,
    /// At most this many, the newest, or the oldest where these come first.
    pub limit: Option<u32>,
}

/// The number of a channel's stored undecodable updates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecodableCount {
    /// The channel.
    pub channel: ChannelName,
    /// Their number.
    pub updates: u64,
}
