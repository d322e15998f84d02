//! What stands in the requests and answers between [`crate::FakeChannel`] and [`crate::FakePlatform`].

use satchel_domain::{
    ConversationId, MessageRef, Sender,
    part::{FileForm, Markup},
};
use serde::{Deserialize, Serialize};

use crate::transcript::MessageKind;

/// The first field of a multipart request; the files follow as fields of their own, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outgoing {
    pub(crate) conversation: ConversationId,
    pub(crate) kind: MessageKind,
    #[serde(default)]
    pub(crate) text: String,
    pub(crate) markup: Markup,
    #[serde(default)]
    pub(crate) files: Vec<OutgoingFile>,
    #[serde(default)]
    pub(crate) voice: Option<VoiceTimes>,
    #[serde(default)]
    pub(crate) reply_to: Option<MessageRef>,
    /// Telegram's `allow_sending_without_reply`, Discord's `fail_if_not_exists: false`.
    #[serde(default)]
    pub(crate) reply_even_if_gone: bool,
    #[serde(default)]
    pub(crate) nonce: Option<String>,
    #[serde(default)]
    pub(crate) enforce_nonce: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OutgoingFile {
    pub(crate) filename: String,
    pub(crate) mime: String,
    pub(crate) form: FileForm,
    #[serde(default)]
    pub(crate) caption: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoiceTimes {
    pub(crate) duration_ms: u64,
    pub(crate) waveform: Vec<u8>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MessageAddress {
    pub(crate) conversation: ConversationId,
    pub(crate) message: MessageRef,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HistoryQuery {
    pub(crate) conversation: ConversationId,
    #[serde(default)]
    pub(crate) after: Option<MessageRef>,
}

/// A message as history tells it: without its nonce, as Discord's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PastMessage {
    pub(crate) message: MessageRef,
    pub(crate) own: bool,
    pub(crate) text: String,
    pub(crate) files: Vec<(String, u64)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct UpdatesQuery {
    pub(crate) offset: u64,
    pub(crate) timeout_ms: u64,
}

/// Something that a person did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) update: u64,
    pub(crate) conversation: ConversationId,
    pub(crate) message: MessageRef,
    /// The number of the edit; `None` for a new message.
    #[serde(default)]
    pub(crate) edit: Option<u64>,
    pub(crate) from: Sender,
    #[serde(default)]
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) files: Vec<UpdateFile>,
    #[serde(default)]
    pub(crate) media_group: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UpdateFile {
    pub(crate) file: String,
    pub(crate) filename: String,
    pub(crate) mime: String,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) ok: bool,
    #[serde(default)]
    pub(crate) result: serde_json::Value,
    #[serde(default)]
    pub(crate) error: Option<WireError>,
}

/// The platform's no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireError {
    pub(crate) status: u16,
    pub(crate) description: String,
    /// What the words mean, so that the small adapter need not read prose.
    pub(crate) why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Why {
    RateLimited { retry_after_ms: u64 },
    Server,
    TooLarge { limit: Option<u64> },
    WrongKind,
    BadMarkup,
    VoiceForbidden,
    TargetGone,
    NotModified,
    Item { index: usize },
    Forbidden,
    Expired,
    Other,
}

impl WireError {
    pub(crate) fn new(status: u16, why: Why, description: impl Into<String>) -> Self {
        Self { status, description: description.into(), why }
    }
}
