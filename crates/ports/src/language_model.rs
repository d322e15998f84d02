//! The model that answers.

use std::{collections::BTreeSet, num::NonZeroU64, pin::Pin, sync::Arc};

use async_trait::async_trait;
use futures::Stream;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, Filename, MediaInfo, NewAttachment, Picture, Sha256, StoredBlob,
    ViewedFile, Visibility, WorkShare, remedy,
};
use serde::{Deserialize, Serialize};

use crate::ToolSpec;

/// A call as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelToolCall {
    /// The id that joins call and answer within one request.
    pub id: String,
    /// The tool's name as Satchel knows it; an adapter maps dots for providers that refuse them.
    pub name: String,
    /// The arguments; a JSON string when what the model wrote was no JSON.
    pub arguments: serde_json::Value,
}

/// A part of what the operator puts before the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentPart {
    /// Text; never an instruction of Satchel itself.
    Text(String),
    /// The `http` or `https` address of an image. An adapter passes it on where the provider fetches it, and otherwise
    /// tells the model that it can't see it.
    ImageUrl(String),
    /// A stored file; an adapter sends it if its model takes it, and otherwise says why not.
    File(Box<ModelFile>),
}

/// A stored file as a model is given it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFile {
    /// Its id.
    pub id: AttachmentId,
    /// Its number in the conversation; `None` for a file of the configuration, which is no file of the conversation.
    pub number: Option<NonZeroU64>,
    /// Who brought it.
    pub source: AttachmentSource,
    /// Its name.
    pub filename: Filename,
    /// Its type.
    pub mime: String,
    /// Its size.
    pub bytes: u64,
    /// The address of its bytes.
    pub sha256: Sha256,
    /// What its header tells.
    pub media: MediaInfo,
    /// Whether the person gets it.
    pub visibility: Visibility,
}

impl ModelFile {
    /// The top-level type: `image` of `image/png`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.mime.split('/').next().unwrap_or_default()
    }
}

impl From<Attachment> for ModelFile {
    fn from(file: Attachment) -> Self {
        let Attachment { id, number, source, filename, mime, bytes, sha256, media, visibility, .. } = file;
        Self { id, number: Some(number), source, filename, mime, bytes, sha256, media, visibility }
    }
}

impl From<NewAttachment> for ModelFile {
    fn from(file: NewAttachment) -> Self {
        let NewAttachment { id, source, filename, mime, bytes, sha256, media, visibility, .. } = file;
        Self { id, number: None, source, filename, mime, bytes, sha256, media, visibility }
    }
}

impl From<ViewedFile<Attachment>> for ModelFile {
    fn from(viewed: ViewedFile<Attachment>) -> Self {
        let file = Self::from(viewed.file);
        match viewed.picture {
            None => file,
            Some(Picture { filename, stored: StoredBlob { sha256, bytes, mime, media } }) => {
                Self { filename, mime, bytes, sha256, media, ..file }
            }
        }
    }
}

/// What a model takes besides text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InputSupport {
    /// Whether its provider fetches the addresses of images.
    pub image_urls: bool,
    /// The types of files, such as `image/png`.
    pub types: BTreeSet<String>,
    /// The types that some of several models take, of which one will answer; otherwise the same.
    pub partial_types: BTreeSet<String>,
    /// The size of the largest file that is no image, in bytes. Images that are too large are scaled.
    pub max_document_bytes: u64,
    /// Whether it reads the text of files that it doesn't take.
    pub document_text: bool,
}

impl InputSupport {
    /// Whether it takes a file; there may still be too many of them.
    #[must_use]
    pub fn accepts(&self, mime: &str, bytes: u64) -> bool {
        self.types.contains(mime) && (mime.starts_with("image/") || bytes <= self.max_document_bytes)
    }

    /// Whether it may be sent a file, or a copy of an image of another type.
    #[must_use]
    pub fn may_be_sent(&self, mime: &str) -> bool {
        let is_image = |mime: &str| mime.starts_with("image/");
        self.partial_types.contains(mime) || is_image(mime) && self.partial_types.iter().any(|mime| is_image(mime))
    }
}

/// One message of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ModelMessage {
    /// From the person.
    User {
        /// The text, and references to files of older turns.
        text: String,
        /// The files of this turn; an adapter sends those that its model takes and leaves the rest to the text.
        attachments: Vec<ModelFile>,
    },
    /// From the operator: what an agent was given, before everything else. Sent in the person's role, because providers
    /// take only text in the instructions; its first part says whose it is.
    Context {
        /// The parts, in the operator's order.
        parts: Vec<ContentPart>,
    },
    /// From Satchel: which files came with the turn (stands right after its `User` message), what was not delivered.
    /// An adapter sends it in whatever role its provider has for it.
    Note {
        /// The text.
        text: String,
    },
    /// From the model.
    Assistant {
        /// Its text.
        text: String,
        /// The tool calls that it requested.
        calls: Vec<ModelToolCall>,
    },
    /// From a tool.
    Tool {
        /// The id of the call that it answers.
        call: String,
        /// The answer.
        text: String,
        /// The files that it made or shows, for models that can see them.
        attachments: Vec<ModelFile>,
    },
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelRequest {
    /// The instructions.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<ModelMessage>,
    /// The tools that it may request; shared, because their schemas are the largest part of many requests.
    pub tools: Arc<[ToolSpec]>,
    /// For whom; no provider is sent it. An adapter that has copies of images made says for whom.
    #[serde(skip)]
    pub work_share: Option<WorkShare>,
}

/// What was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}

/// A piece of a model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// A little more text.
    Text(String),
    /// A whole tool call.
    Call(ModelToolCall),
    /// What was used; at most once, at the end.
    Usage(TokenUsage),
    /// The answer is complete. A stream that ends without it broke off.
    Done,
}

/// Why a model gave no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.owner_message())]
pub struct ModelError {
    /// Why, in words that a person understands.
    pub reason: String,
    /// What the owner can do about it; no part of the reason, since others can't.
    pub remedy: Option<String>,
    /// Whether a retry may help.
    pub retryable: bool,
}

impl ModelError {
    /// Returns the reason for an owner and for the log, with the remedy where there is one.
    #[must_use]
    pub fn owner_message(&self) -> String {
        remedy::message_for(&self.reason, self.remedy.as_deref(), true)
    }

    /// Returns the reason for anybody else.
    #[must_use]
    pub fn public_message(&self) -> String {
        remedy::message_for(&self.reason, self.remedy.as_deref(), false)
    }
}

/// A model's answer as it comes.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// A model that answers and requests tool calls.
///
/// # Contract
/// - The stream ends with [`ModelEvent::Done`] or with an error, and yields nothing after either.
/// - Calls come in the order in which the model requested them.
/// - Retries happen inside, and only before the first piece was yielded.
/// - A stream that is dropped stops its request.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait LanguageModel: Send + Sync {
    /// The model's name, for logs and `--json`.
    fn name(&self) -> String;

    /// Returns what it takes besides text; without an answer of its own, nothing.
    fn input_support(&self) -> InputSupport {
        InputSupport::default()
    }

    /// Sends a request to the model and returns its answer as a stream.
    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError>;
}
