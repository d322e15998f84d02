//! The outbox: the parts of a lane on their way to its channel.

use async_trait::async_trait;
use satchel_domain::{
    Button, CallId, ConversationId, MessageRef, Part, PartId, TurnId, delivery::DeliveryRules, part::PlannedPart,
};
use secrecy::{ExposeSecret, SecretString};

use super::{Lease, LedgerError};

/// The parts of a lane, for their delivery.
///
/// # Contract
/// Besides that of [all ports](super):
/// - `settle_part` settles a part once, puts its children in its place, writes the one closing notice at the end of its
///   response, starts the lane's next part if it [can start](satchel_domain::Part::can_start), and releases an idle
///   lane.
/// - A notice that failed is repeated: as the last part of a turn is sent, all failed notices of the lane are replaced by one
///   new notice of the newest one's turn. Those that an operator discarded, or that a restored copy holds back, are not.
/// - `list_recorded_messages` returns the bot's newest thousands of messages in the part's chat, with questions and
///   drafts, and whether another send there is in doubt or was left in doubt within two days. Which messages of people
///   were stored before the part was first started doesn't depend on clocks, which differ and may be set back.
/// - A call is asked about once: `open_question` returns the question that an earlier process has opened, also one that is
///   closed, unless it certainly never arrived. An open question keeps no other part waiting.
/// - A question is closed by `close_question`, `journal_decision`, the outcome of its call or of the call that made it,
///   and the end of its turn, whichever commits first: an open one becomes the edit that closes its message, one that was
///   never started is settled, one under way becomes that edit once it is saved as open, or is settled without children.
/// - `load_question_key` returns the same secret in every process and after every restart, and another one for every
///   ledger.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Opens the draft of a running turn, started; `None` while an earlier part of the lane is unsettled. Returns the one
    /// that an earlier attempt at the turn has opened.
    async fn open_draft(
        &self,
        lease: &Lease,
        turn: TurnId,
        reply_to: Option<MessageRef>,
    ) -> Result<Option<Part>, LedgerError>;

    /// Opens a call's question as a part of its running turn, started unless another part of the lane is being delivered.
    /// Returns the one that stands already, or may, in its place.
    async fn open_question(&self, lease: &Lease, question: &NewQuestion) -> Result<Part, LedgerError>;

    /// Closes the question of a call that got no answer; does nothing where none is unsettled.
    async fn close_question(&self, lease: &Lease, call: CallId, text: &str) -> Result<(), LedgerError>;

    /// Returns the secret of this installation from which the codes of its questions are derived; made when it is first
    /// needed.
    async fn load_question_key(&self) -> Result<QuestionKey, LedgerError>;

    /// Reads the lane's oldest unsettled part that is to be delivered: of a completed turn, or a question that isn't open.
    async fn next_part(&self, lease: &Lease) -> Result<Option<Part>, LedgerError>;

    /// Stores the current form of an unsettled part: sending, waiting, in doubt, open, prepared, with its target. Content that
    /// names files never changes, and is not stored again.
    async fn save_part(&self, lease: &Lease, part: &Part) -> Result<(), LedgerError>;

    /// Settles a part and starts the next.
    async fn settle_part(&self, lease: &Lease, settlement: &Settlement) -> Result<SettleOutcome, LedgerError>;

    /// Discards an unsettled part that is not being sent, for an operator.
    async fn discard_part(&self, part: PartId) -> Result<(), LedgerError>;

    /// Returns the last message sent in the conversation before a part, where a look-up starts.
    async fn last_sent_before(&self, part: PartId) -> Result<Option<MessageRef>, LedgerError>;

    /// Returns the recorded messages among which a part of `conversation` is looked up.
    async fn list_recorded_messages(
        &self,
        conversation: &ConversationId,
        part: PartId,
    ) -> Result<RecordedMessages, LedgerError>;
}

/// A question about a call that waits for a person's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewQuestion {
    /// The call, of a running turn.
    pub call: CallId,
    /// The text in Markdown; it names the commands, for channels without buttons.
    pub text: String,
    /// The buttons.
    pub buttons: Vec<Button>,
    /// The text in Markdown that takes its place when the call ends without an answer.
    pub unanswered: String,
}

/// The secret of an installation from which the codes of its questions are derived. Without it, a model that knows its call
/// can't compute the code that allows it.
#[derive(Debug)]
pub struct QuestionKey(SecretString);

impl QuestionKey {
    /// Wraps the secret, which is text that is hard to guess.
    #[must_use]
    pub fn new(secret: String) -> Self {
        Self(SecretString::from(secret))
    }

    /// Returns the secret. It must not leave the process.
    #[must_use]
    pub fn expose_secret(&self) -> &str {
        self.0.expose_secret()
    }
}

/// The result of a part, with what follows from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The part in its settled state; with children, the ledger sets it to `Replaced`.
    pub part: Part,
    /// The parts that replace it. They inherit its label and its question, the first also its target.
    pub children: Vec<PlannedPart>,
    /// The text of the response's closing notice, when the part failed and is no notice itself.
    pub notice: Option<String>,
    /// The rules by which the next part may start.
    pub rules: DeliveryRules,
}

/// The state of the lane after a part was settled.
#[derive(Debug, Clone, PartialEq)]
pub struct SettleOutcome {
    /// The lane's next unsettled part; `Sending` if it was started in the same commit.
    pub next: Option<Part>,
    /// Whether the lane was idle and has been released.
    pub released: bool,
}

/// A stored platform message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedMessage {
    /// Its conversation.
    pub conversation: ConversationId,
    /// The platform's id.
    pub message: MessageRef,
}

/// The recorded messages of a channel, for looking up a sent part by message ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordedMessages {
    /// People's messages that were stored before the part was first started, in all conversations of the channel.
    pub before: Vec<RecordedMessage>,
    /// All others: people's later messages, and the bot's with a known id.
    pub other: Vec<RecordedMessage>,
    /// Whether another send to the same chat may have arrived as a message with an unknown id.
    pub other_doubt: bool,
}
