//! One physical send, and the plan that is made of them.

mod content;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::content::{Button, FileForm, FileItem, Markup, Operation, PartContent, PreparedVoice};
use crate::{CallId, ConversationId, PartId, Timestamp, TurnId};

/// The platform's own id of a message, as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageRef(pub String);

impl fmt::Display for MessageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
    /// It was unsettled in a backup of which this data is a restored copy.
    #[error("held back after a restore from a backup; it may have been sent before")]
    HeldBack,
}

/// The state of a part. Per conversation one part at a time is `Sending`, `Waiting` or `InDoubt`, beside a draft.
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
    /// It stands as this message, which is edited or deleted later: a question until it is closed, or a draft until its turn
    /// ends. Parts behind it don't wait for it.
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

    /// Returns whether it is a text, with buttons or without, new or as an edit.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.content().is_some_and(PartContent::is_text)
    }

    /// Returns whether it is the message in which the reply of a running turn grows, and which a person sees.
    #[must_use]
    pub fn is_draft(&self) -> bool {
        self.question.is_none() && matches!(self.state, PartState::Open { .. })
    }

    /// Returns whether it has brought some of its response's text: as a whole, or as what was streamed before it failed.
    #[must_use]
    pub fn has_brought_text(&self) -> bool {
        let has_arrived = match self.state {
            PartState::Sent { .. } => true,
            PartState::Failed { .. } => self.target().is_some(),
            _ => false,
        };
        has_arrived && self.question.is_none() && self.content().is_some_and(PartContent::is_text)
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
    /// Whether the notice about it has arrived, as it was planned or as a later one that repeats it.
    pub notice_arrived: bool,
    /// Whether some of the response's text has arrived.
    pub text_arrived: bool,
}
