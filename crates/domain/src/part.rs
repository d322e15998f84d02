//! One physical send, and the plan that is made of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Attachment, CallId, ConversationId, PartId, Sha256, Timestamp, TurnId};

/// The platform's own id of a message, as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageRef(pub String);

impl fmt::Display for MessageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The form in which a text is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Markup {
    /// Markdown, rendered into what the channel shows.
    Rich,
    /// The same characters without any rendering; the fallback when the platform refuses the rich form.
    Plain,
}

/// The form in which a file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileForm {
    /// A photo, shown at once.
    Photo,
    /// A video with a player.
    Video,
    /// Music or speech with a player.
    Audio,
    /// A short, silent, looping film.
    Animation,
    /// A file to download; the form that takes anything.
    Document,
}

/// A file of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileItem<F = Attachment> {
    /// The file.
    pub attachment: F,
    /// How it is sent.
    pub form: FileForm,
    /// The text under it, or its alternative text; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caption: String,
}

/// A voice after its prepare step: the bytes that every attempt sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedVoice {
    /// The digest of the OGG/Opus bytes.
    pub sha256: Sha256,
    /// Their size in bytes.
    pub bytes: u64,
    /// Playing time in milliseconds.
    pub duration_ms: u64,
    /// Loudness from 0 to 255 at no more than 256 points.
    pub waveform: Vec<u8>,
}

/// What one part sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", bound(deserialize = "F: Deserialize<'de>"))]
pub enum PartContent<F = Attachment> {
    /// A chunk of the reply's text, with the files that ride on it.
    Text {
        /// The chunk in Markdown.
        text: String,
        /// How it is sent.
        markup: Markup,
        /// The files on the same message, where the channel bundles.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<FileItem<F>>,
    },
    /// The reply as a voice message.
    Voice {
        /// The text to speak. Stored as `words`.
        #[serde(rename = "words")]
        text: String,
        /// Whether the reply's text contains it already, so that it needn't be written if synthesis fails.
        in_text: bool,
        /// The bytes, once the prepare step is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prepared: Option<PreparedVoice>,
        /// A file instead of a bubble; the fallback where voice messages are forbidden.
        #[serde(default)]
        as_file: bool,
        /// The text under it; empty for none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        caption: String,
    },
    /// One file.
    File(FileItem<F>),
    /// Several files on one message.
    Album {
        /// The files, in order.
        items: Vec<FileItem<F>>,
    },
    /// The closing notice about what was not delivered: the last part of its response.
    Notice {
        /// The text in Markdown.
        text: String,
    },
    /// A text with buttons; a person without buttons writes their commands.
    Question {
        /// The text in Markdown; it names the commands, for channels without buttons.
        text: String,
        /// The buttons.
        buttons: Vec<Button>,
    },
}

/// What a part does on its channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case", bound(deserialize = "F: Deserialize<'de>"))]
pub enum Operation<F = Attachment> {
    /// Sends this as a new message, or as several.
    Post {
        /// What it sends.
        content: PartContent<F>,
    },
    /// Replaces what a message of ours shows.
    Edit {
        /// The message. Stored as `target`.
        #[serde(rename = "target")]
        message: MessageRef,
        /// What it shows then.
        content: PartContent<F>,
    },
    /// Deletes a message of ours: a draft beside which no text is sent.
    Delete {
        /// The message. Stored as `target`.
        #[serde(rename = "target")]
        message: MessageRef,
    },
}

impl<F> Operation<F> {
    /// Makes the post of this content, or the edit of `message` if there is one.
    #[must_use]
    pub fn show(content: PartContent<F>, message: Option<MessageRef>) -> Self {
        match message {
            Some(message) => Self::Edit { message, content },
            None => Self::Post { content },
        }
    }

    /// The word for it in `--json`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Post { .. } => "post",
            Self::Edit { .. } => "edit",
            Self::Delete { .. } => "delete",
        }
    }

    /// Returns what it sends or shows; `None` for a deletion.
    #[must_use]
    pub fn content(&self) -> Option<&PartContent<F>> {
        match self {
            Self::Post { content } | Self::Edit { content, .. } => Some(content),
            Self::Delete { .. } => None,
        }
    }

    /// Returns what it sends or shows; `None` for a deletion.
    #[must_use]
    pub fn into_content(self) -> Option<PartContent<F>> {
        match self {
            Self::Post { content } | Self::Edit { content, .. } => Some(content),
            Self::Delete { .. } => None,
        }
    }

    /// Returns the message that it edits or deletes.
    #[must_use]
    pub fn target(&self) -> Option<&MessageRef> {
        match self {
            Self::Post { .. } => None,
            Self::Edit { message, .. } | Self::Delete { message } => Some(message),
        }
    }

    /// Returns the name of its content's kind in `--json`, logs and metrics; `delete` where it has none.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.content().map_or("delete", PartContent::kind)
    }

    /// Returns its files, in order.
    #[must_use]
    pub fn files(&self) -> &[FileItem<F>] {
        self.content().map_or(&[], PartContent::files)
    }

    /// Replaces each of its files.
    ///
    /// # Errors
    /// The first that `replace` returns.
    pub fn try_map_files<G, E>(self, replace: impl FnMut(F) -> Result<G, E>) -> Result<Operation<G>, E> {
        Ok(match self {
            Self::Post { content } => Operation::Post { content: content.try_map_files(replace)? },
            Self::Edit { message, content } => Operation::Edit { message, content: content.try_map_files(replace)? },
            Self::Delete { message } => Operation::Delete { message },
        })
    }
}

/// A button that a person can press instead of writing a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// The text on it.
    pub label: String,
    /// The command that pressing it sends for the person, at most 64 bytes: the smallest limit of a platform.
    pub command: String,
}

impl PartContent {
    /// Makes a rich text without files.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), markup: Markup::Rich, files: Vec::new() }
    }
}

impl<F> PartContent<F> {
    /// Replaces each of its files.
    ///
    /// # Errors
    /// The first that `replace` returns.
    pub fn try_map_files<G, E>(self, mut replace: impl FnMut(F) -> Result<G, E>) -> Result<PartContent<G>, E> {
        let mut map_item = |FileItem { attachment, form, caption }: FileItem<F>| {
            Ok(FileItem { attachment: replace(attachment)?, form, caption })
        };
        Ok(match self {
            Self::Text { text, markup, files } => {
                let files = files.into_iter().map(map_item).collect::<Result<_, E>>()?;
                PartContent::Text { text, markup, files }
            }
            Self::Voice { text, in_text, prepared, as_file, caption } => {
                PartContent::Voice { text, in_text, prepared, as_file, caption }
            }
            Self::File(item) => PartContent::File(map_item(item)?),
            Self::Album { items } => {
                PartContent::Album { items: items.into_iter().map(map_item).collect::<Result<_, E>>()? }
            }
            Self::Notice { text } => PartContent::Notice { text },
            Self::Question { text, buttons } => PartContent::Question { text, buttons },
        })
    }

    /// Returns the name of its kind in `--json`, logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Voice { .. } => "voice",
            Self::File(_) => "file",
            Self::Album { .. } => "album",
            Self::Notice { .. } => "notice",
            Self::Question { .. } => "question",
        }
    }

    /// Returns its files, in order.
    #[must_use]
    pub fn files(&self) -> &[FileItem<F>] {
        match self {
            Self::Text { files, .. } => files,
            Self::File(item) => std::slice::from_ref(item),
            Self::Album { items } => items,
            Self::Voice { .. } | Self::Notice { .. } | Self::Question { .. } => &[],
        }
    }

    /// Returns whether it must be prepared before it can be sent: a voice without its recording.
    #[must_use]
    pub fn needs_preparation(&self) -> bool {
        matches!(self, Self::Voice { prepared: None, .. })
    }
}

/// Why a part failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum FailureReason {
    /// A file is larger than the channel takes.
    #[error("{} is the limit here", crate::size::format_bytes(*limit))]
    TooLarge {
        /// The channel's limit in bytes.
        limit: u64,
    },
    /// The platform refused it and there is no other form to send it in.
    #[error("refused: {reason}")]
    Refused {
        /// The platform's reason.
        reason: String,
    },
    /// The platform will never take it: no permission, the chat is gone, the bot is blocked.
    #[error("not allowed: {reason}")]
    Forbidden {
        /// The platform's reason.
        reason: String,
    },
    /// Its deadline passed while it was being retried.
    #[error("not delivered before the deadline: {reason}")]
    Expired {
        /// The last error.
        reason: String,
    },
    /// It may have arrived, so that it must not be sent again.
    #[error("may have arrived: {reason}")]
    MayHaveArrived {
        /// The error that left it in doubt.
        reason: String,
    },
    /// The text could not be turned into speech. Stored as `unspeakable`.
    #[error("could not be turned into speech: {reason}")]
    #[serde(rename = "unspeakable")]
    SynthesisFailed {
        /// The engine's reason.
        reason: String,
    },
    /// The file's bytes are missing or damaged.
    #[error("the file can't be read: {reason}")]
    Unreadable {
        /// The store's reason.
        reason: String,
    },
    /// An operator discarded it.
    #[error("discarded by the operator")]
    Discarded,
    /// A question that was decided or given up before anybody could see it.
    #[error("no longer needed")]
    NotNeeded,
}

/// The state of a part. Per conversation one part at a time is `Sending`, `Waiting` or `InDoubt`, beside a reply that is
/// still being streamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum PartState {
    /// Not started.
    Pending,
    /// Committed as started: from here on it may have arrived.
    Sending,
    /// Known not to have arrived; retried at `until`.
    Waiting {
        /// When it may be retried.
        until: Timestamp,
        /// What went wrong.
        reason: String,
    },
    /// It may have arrived; the channel is probed at `until` before anything else is done.
    InDoubt {
        /// When the channel is probed.
        until: Timestamp,
        /// What left it in doubt.
        reason: String,
    },
    /// It is a question, which stands as this message until it is closed. Parts behind it don't wait for it.
    Open {
        /// The platform's id.
        message: MessageRef,
    },
    /// It arrived as these messages.
    Sent {
        /// The platform's ids.
        messages: Vec<MessageRef>,
    },
    /// It was given up.
    Failed {
        /// Why.
        reason: FailureReason,
    },
    /// Other parts took its place.
    Replaced {
        /// They, in order.
        by: Vec<PartId>,
    },
}

impl PartState {
    /// The word for it in `--json`, logs, metrics and the database.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Waiting { .. } => "waiting",
            Self::InDoubt { .. } => "in_doubt",
            Self::Open { .. } => "open",
            Self::Sent { .. } => "sent",
            Self::Failed { .. } => "failed",
            Self::Replaced { .. } => "replaced",
        }
    }

    /// Whether nothing more will happen to it.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Sent { .. } | Self::Failed { .. } | Self::Replaced { .. })
    }
}

/// One physical send, as the ledger keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its id, and its idempotency key where the channel has one.
    pub id: PartId,
    /// Where it goes.
    pub conversation: ConversationId,
    /// The turn whose response it belongs to.
    pub turn: TurnId,
    /// Its place among the parts of the turn; only the order means something.
    pub position: u32,
    /// What it does.
    #[serde(flatten)]
    pub operation: Operation,
    /// Its state.
    pub state: PartState,
    /// How often it was started.
    pub attempts: u32,
    /// When it was first started.
    pub first_attempt_at: Option<Timestamp>,
    /// Whether its message was streamed before the turn was complete, so that what arrived may be incomplete.
    pub streamed: bool,
    /// Whether a look-up has found that an earlier attempt did not arrive. One that arrives late is then a duplicate.
    pub searched: bool,
    /// Whether it is sent with the label of a possible duplicate.
    pub labelled: bool,
    /// How often it was sent with the label, or is to be.
    pub labelled_sends: u32,
    /// The person's message that it answers.
    pub reply_to: Option<MessageRef>,
    /// What makes it a question about a call; `None` for a part of a response.
    pub question: Option<CallQuestion>,
    /// When it was planned; its age counts from here.
    pub created_at: Timestamp,
}

/// What makes a part a question about a call: it stays open until it is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallQuestion {
    /// The call that waits for the answer.
    pub call: CallId,
    /// The text that takes its place when the call ends without an answer.
    pub unanswered: String,
    /// The text that takes its place; `None` while it waits for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<String>,
}

impl Part {
    /// Makes a part that was never started.
    #[must_use]
    pub fn new(
        id: PartId,
        conversation: ConversationId,
        turn: TurnId,
        position: u32,
        content: PartContent,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            conversation,
            turn,
            position,
            operation: Operation::Post { content },
            state: PartState::Pending,
            attempts: 0,
            first_attempt_at: None,
            streamed: false,
            searched: false,
            labelled: false,
            labelled_sends: 0,
            reply_to: None,
            question: None,
            created_at,
        }
    }

    /// Returns what it sends or shows; `None` for a deletion.
    #[must_use]
    pub fn content(&self) -> Option<&PartContent> {
        self.operation.content()
    }

    /// Returns the message that it edits or deletes.
    #[must_use]
    pub fn target(&self) -> Option<&MessageRef> {
        self.operation.target()
    }

    /// Makes it the edit of this message. A deletion stays one.
    #[must_use]
    pub fn into_edit_of(mut self, message: MessageRef) -> Self {
        self.operation = match self.operation {
            Operation::Post { content } | Operation::Edit { content, .. } => Operation::Edit { message, content },
            Operation::Delete { .. } => Operation::Delete { message },
        };
        self
    }

    /// Returns whether it is a text, new or as an edit.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self.content(), Some(PartContent::Text { .. }))
    }

    /// Returns whether it is the message in which the reply of a running turn grows, and which a person sees.
    #[must_use]
    pub fn is_draft(&self) -> bool {
        self.question.is_none() && matches!(self.state, PartState::Open { .. })
    }

    /// Returns whether it is the closing notice of its response.
    #[must_use]
    pub fn is_notice(&self) -> bool {
        matches!(self.content(), Some(PartContent::Notice { .. }))
    }

    /// Closes a question: an edit replaces it by `text`, or by its [`CallQuestion::unanswered`]. One that was never
    /// started is settled at once; one under way is closed when it is known what became of it. A question that is closed
    /// already stays as it is, and so does any other part.
    pub fn close_question(&mut self, text: Option<String>, now: Timestamp) {
        let Some(question) = self.question.as_mut().filter(|question| question.closing.is_none()) else { return };
        if self.state.is_settled() {
            return;
        }
        question.closing = Some(text.unwrap_or_else(|| question.unanswered.clone()));
        if self.state == PartState::Pending && self.attempts == 0 {
            self.state = PartState::Failed { reason: FailureReason::NotNeeded };
        }
        self.turn_into_closing_edit(now);
    }

    /// Makes an open question that is closed the edit that closes its message, whose age counts from here.
    pub fn turn_into_closing_edit(&mut self, now: Timestamp) {
        let closing = self.question.as_ref().and_then(|question| question.closing.as_ref());
        if let (PartState::Open { message }, Some(text)) = (&self.state, closing) {
            let (message, content) = (message.clone(), PartContent::from_text(text));
            self.operation = Operation::Edit { message, content };
            self.state = PartState::Pending;
            (self.attempts, self.first_attempt_at, self.searched) = (0, None, false);
            self.created_at = now;
        }
    }

    /// Returns whether it is a question that was closed before it was known to stand.
    #[must_use]
    pub fn is_unneeded_question(&self) -> bool {
        let is_closed = self.question.as_ref().is_some_and(|question| question.closing.is_some());
        is_closed && self.target().is_none() && !matches!(self.state, PartState::Open { .. })
    }

    /// Returns whether it is the edit that closes a question.
    #[must_use]
    pub fn is_closing_edit(&self) -> bool {
        self.question.is_some() && self.target().is_some()
    }
}

/// A part as planned: what is to be sent, or why it can't be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedPart {
    /// What it sends.
    pub content: PartContent,
    /// Why it is given up before it was started, such as a file over the channel's limit.
    /// Stored as `refused`.
    #[serde(rename = "refused", default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureReason>,
}

impl PlannedPart {
    /// Makes a part that is to be sent.
    #[must_use]
    pub fn new(content: PartContent) -> Self {
        Self { content, failure: None }
    }
}

/// The ordered physical sends that a response becomes on one channel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// Text, then voice, then files, then the closing notice where something can't be sent.
    pub parts: Vec<PlannedPart>,
}

/// Something of a response that was not delivered, as the turn's record and the model's receipt have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndeliveredPart {
    /// The part that failed.
    pub part: PartId,
    /// The turn whose response it was.
    pub turn: TurnId,
    /// What it was to send.
    pub content: PartContent,
    /// Why it was not delivered.
    pub reason: FailureReason,
}
