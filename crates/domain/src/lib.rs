//! Domain types, and the decisions that need nothing but data.
//!
//! Everything here is synchronous and pure: no clock, no randomness, no disk, no network.
//! Time and ids come in as arguments ([`Timestamp`], the id types), so every function here can be
//! tested with values alone.

#![warn(missing_docs)]

pub mod agent;
pub mod attachment;
pub mod capabilities;
pub mod channel_state;
pub mod conversation;
pub mod delivery;
pub mod disk;
pub mod ending;
pub mod error_chain;
pub mod filename;
pub mod fold;
pub mod id;
pub mod inbound;
pub mod markdown;
pub mod message;
pub mod outcome;
pub mod pairing;
pub mod part;
pub mod path;
pub mod quoting;
pub mod reference_block;
pub mod remedy;
pub mod reminder;
pub mod response;
pub mod script;
pub mod sha256;
pub mod size;
pub mod task;
pub mod time;
pub mod work_share;

pub use agent::{AgentDirectory, AgentSummary, AllowedPeople};
pub use attachment::{Attachment, AttachmentSource, LinkRevocation, MediaInfo, NewAttachment, StoredBlob, Visibility};
pub use capabilities::ChannelCapabilities;
pub use channel_state::{ChannelClosure, ChannelState};
pub use conversation::{ChannelName, ConversationId};
pub use disk::{DiskFull, DiskReserve, DiskSpace};
pub use ending::Ending;
pub use error_chain::error_chain;
pub use filename::Filename;
pub use id::{AttachmentId, CallId, InboxId, LoginId, PartId, TurnId};
pub use inbound::{
    ConversationOpening, FileReference, InboundMessage, QuotedFile, RedactedForm, RefusedFile, SATCHEL_SENDER_ID,
    Sender, UndecodableUpdate,
};
pub use message::{HistoryMessage, MessageOrigin, NotificationDelivery, ToolCall};
pub use outcome::{
    OutcomeFile, OutcomeNotice, Picture, RecordedOutcome, ToolOutcome, ViewedFile, VoiceRequest, WakeRequest,
};
pub use pairing::{PairingCode, SystemTask};
pub use part::{Button, MessageRef, Part, PartContent, PartState};
pub use path::WorkspacePath;
pub use reminder::{ReminderAuthor, ReminderContent, ReminderId, ReminderOrigin};
pub use response::OutgoingResponse;
pub use sha256::Sha256;
pub use task::{TaskDirectory, TaskRequest, TaskSummary};
pub use time::Timestamp;
pub use work_share::WorkShare;
