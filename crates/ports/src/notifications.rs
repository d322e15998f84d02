//! The port through which other programs send messages to the people of a conversation.

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, Filename, PartId, StoredBlob, TurnId};

use crate::{InboundError, LedgerError};

/// The longest text of a notification, in bytes.
pub const MAX_NOTIFICATION_BYTES: usize = 100_000;

/// What another program sends to the people of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Where it is to be delivered; it must exist.
    pub conversation: ConversationId,
    /// What makes it unique within its conversation; without one, each call is a message of its own.
    pub key: Option<String>,
    /// The text, as Markdown.
    pub text: String,
    /// The files, in their order.
    pub files: Vec<NotificationFile>,
}

/// A file of a notification, whose bytes are in the blob store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationFile {
    /// The bytes.
    pub blob: StoredBlob,
    /// The name under which people get it.
    pub filename: Filename,
}

/// Why a notification was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NotificationError {
    /// Nobody has written in the conversation. A retry helps only after somebody has.
    #[error("there is no conversation `{0}`; it begins with the first message that somebody writes there")]
    UnknownConversation(ConversationId),
    /// Nobody here delivers on the channel.
    #[error("channel `{0}` does not run in this process")]
    NotHosted(ChannelName),
    /// The key belongs to a notification with another text or other files.
    #[error("the key `{0}` belongs to another message; use a new key for a new message")]
    KeyReused(String),
    /// The key belongs to this notification, of which something could not be delivered. A retry doesn't help.
    #[error("{}", describe_undelivered(.key, .part, .reason))]
    NotDelivered {
        /// The key.
        key: String,
        /// The first part that failed, if one was planned.
        part: Option<PartId>,
        /// Why it failed.
        reason: String,
    },
    /// Something in it is not allowed; a retry doesn't help.
    #[error("{0}")]
    Invalid(String),
    /// It could not be stored; a retry may help.
    #[error(transparent)]
    Inbound(#[from] InboundError),
    /// The ledger could not be read; a retry may help.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

fn describe_undelivered(key: &str, part: &Option<PartId>, reason: &str) -> String {
    let next_step = match part {
        Some(part) => format!("`satchel outbox resend {part}` sends it again, and so does a new key"),
        None => "a new key sends it again".to_owned(),
    };
    format!("the message with the key `{key}` was accepted before and could not be delivered: {reason}; {next_step}")
}

/// Accepts notifications. Implemented by `intake`.
///
/// # Contract
/// - `send` returns `Ok` only after the notification is durable; from then on it is delivered as a reply is, behind what
///   is under way in its conversation.
/// - The same key in the same conversation returns the turn of the first; with another text or other files it is an error,
///   and so it is once something of the first could not be delivered.
/// - A conversation that does not exist is an error; nothing is stored.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Notifications: Send + Sync {
    /// Stores a notification, and returns the turn that delivers it.
    async fn send(&self, notification: Notification) -> Result<TurnId, NotificationError>;
}
