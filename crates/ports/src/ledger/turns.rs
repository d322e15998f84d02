//! The turns: what is queued, what a running turn records, and its end in one commit.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use satchel_domain::{
    Attachment, CallId, Ending, FileReference, HistoryMessage, InboundMessage, InboxId, MessageOrigin, MessageRef,
    NewAttachment, OutgoingResponse, Part, PartId, RecordedOutcome, RefusedFile, Sender, Timestamp, ToolCall,
    ToolOutcome, TurnId,
    part::{Plan, UndeliveredPart},
};
use serde::{Deserialize, Serialize};

use super::{Lease, LedgerError, PersonKey};
use crate::FileChange;

/// The turns of a lane: their input, their steps and their end.
///
/// # Contract
/// Besides that of [all ports](super):
/// - `next_turn` returns a lane's turns in the order of their first messages, the same one until it is completed.
/// - `next_turn` returns the transcriptions that `record_transcription` stored, and the settings that the
///   conversation's last completed turns have left.
/// - Every message is read with the time zone that its sender has [chosen](super::Reminders::save_timezone) by then.
/// - A turn brings what [`Archive::history`](super::Archive::history) returns at that moment, up to the ledger's limit.
/// - `join_turns` makes turns queued behind another one a part of it, all or none, as long as nothing of them or of it is
///   journalled or shown. Their messages are its own from then on, in the order of arrival, and it is ready once all of them are;
///   an album among them takes its remaining items there.
/// - `store_file`, `journal_outcome` and `register_files` alone number files; a stored file keeps its number. Whoever
///   names a file of another conversation, or none that is stored, gets [`LedgerError::Unknown`].
/// - A file of an outcome, a response, a message or a part is read with the name, the type, the description and the
///   visibility that it was given there; everything else of it is its record's.
/// - `adopt_file` takes only a file that the same conversation has and hasn't forgotten; the file keeps its number, and counts
///   for nobody once more.
/// - Numbers of attachments count from 1 in each conversation and never repeat.
/// - The changes given to `journal_outcome` and `complete_turn` become lines of the audit log in the same commit, in their
///   order.
/// - `store_file`, `journal_outcome` and `register_files` obey the quotas of [`Storage`](super::Storage).
/// - `register_files` numbers new files as `journal_outcome` does, before the outcome exists; they can be read by id
///   from then on, however the turn ends.
/// - `complete_turn` commits consumed messages, history, setting, response and parts together, and only once.
/// - `complete_turn` starts the first part if it needs no preparation and no earlier part of the lane is unsettled; one that
///   hands the lane over starts none, and releases the lane.
/// - If the turn has a draft, the plan's first part that is to be sent takes its place if it is a text: its id, and its
///   message or its doubt. Without one an open draft is deleted, and the doubt of another is kept.
/// - A planned part that was refused is stored as failed.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Turns: Send + Sync {
    /// Reads the lane's oldest incomplete turn.
    async fn next_turn(&self, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError>;

    /// Returns the messages queued behind `turn`, oldest first; of a flood, the first hundreds and the commands among
    /// the last hundreds.
    async fn list_queued_behind(&self, lease: &Lease, turn: TurnId) -> Result<Vec<QueuedMessage>, LedgerError>;

    /// Makes `followers`, which are queued behind `turn`, a part of it. Returns `false` if that can't be done any more; then nothing
    /// has changed.
    async fn join_turns(&self, lease: &Lease, turn: TurnId, followers: &[TurnId]) -> Result<bool, LedgerError>;

    /// Stores a fetched file as the `index`th of a message and numbers it.
    async fn store_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        file: &NewAttachment,
    ) -> Result<Attachment, LedgerError>;

    /// Takes a stored file for the `index`th of a message, if the message [quotes](FileReference::quoted) it: one that came
    /// under the same name of its platform, or that the quoted message shows. Returns it, or `None` if it has to be fetched.
    async fn adopt_file(&self, lease: &Lease, message: InboxId, index: u32) -> Result<Option<Attachment>, LedgerError>;

    /// Records that the `index`th file of a message was refused.
    async fn refuse_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        refused: &RefusedFile,
    ) -> Result<(), LedgerError>;

    /// Records the transcription of a voice note, the `index`th file of a message, in place of an earlier one.
    async fn record_transcription(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        transcription: &Transcription,
    ) -> Result<(), LedgerError>;

    /// Records a model message with tool calls before they start, the start of a call that had to wait for others, or the end
    /// of a task.
    async fn journal_message(&self, lease: &Lease, turn: TurnId, entry: &JournalEntry) -> Result<(), LedgerError>;

    /// Records a person's decision about a call and closes its question.
    async fn journal_decision(&self, lease: &Lease, decision: &CallDecision) -> Result<(), LedgerError>;

    /// Records a call's outcome together with its new files and the changes that it made, and returns it with the files'
    /// numbers.
    async fn journal_outcome(
        &self,
        lease: &Lease,
        turn: TurnId,
        ordinal: u32,
        outcome: &ToolOutcome,
        changes: &[FileChange],
    ) -> Result<RecordedOutcome, LedgerError>;

    /// Records files that a running call of a turn has made, all or none, and returns them with their numbers.
    async fn register_files(&self, turn: TurnId, files: &[NewAttachment]) -> Result<Vec<Attachment>, LedgerError>;

    /// Completes a turn and returns its first part, if that was started.
    async fn complete_turn(&self, lease: &Lease, completed: &CompletedTurn) -> Result<Option<Part>, LedgerError>;
}

/// The state of a file of a queued message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboundFileState {
    /// To be fetched.
    Waiting(FileReference),
    /// Stored.
    Stored(Attachment),
    /// Refused for good.
    Refused(RefusedFile),
}

/// The result of transcribing a voice note. Stored as `words` and `unheard`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transcription {
    /// The text; empty if the recording has no speech.
    #[serde(rename = "words")]
    Text(String),
    /// The reason why there is no text. The recording is kept.
    #[serde(rename = "unheard")]
    Failed(String),
}

/// A message in the inbox.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedMessage {
    /// Its id in the inbox.
    pub id: InboxId,
    /// Its turn.
    pub turn: TurnId,
    /// The message as it was received.
    pub message: InboundMessage,
    /// Its files, in the sender's order.
    pub files: Vec<InboundFileState>,
    /// The transcriptions of its voice notes made so far, by the index of the file.
    pub transcriptions: BTreeMap<u32, Transcription>,
    /// When it was stored.
    pub received_at: Timestamp,
}

impl QueuedMessage {
    /// Returns when the message was sent, in the time zone of its sender, and, in a group, by whom; a system task has no
    /// sender.
    #[must_use]
    pub fn origin(&self) -> MessageOrigin {
        let InboundMessage { group, system_task, sender, sent_at, timezone, earlier_text, .. } = &self.message;
        let is_own = system_task.as_ref().is_some_and(|task| !task.runs_for_sender());
        MessageOrigin {
            sent_at: sent_at.unwrap_or(self.received_at),
            sender: (*group && !is_own).then(|| sender.clone()),
            timezone: timezone.clone().filter(|_| !is_own),
            earlier_text: earlier_text.clone(),
        }
    }
}

/// A message that was injected between two model calls of a running turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteeringMessage {
    /// Its id in the inbox; consumed with the turn that it was injected into.
    pub id: InboxId,
    /// The person who wrote it.
    pub sender: Sender,
    /// Its text.
    pub text: String,
    /// When it was sent and, in a group, by whom; `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<MessageOrigin>,
}

/// A person's decision about a tool call that waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDecision {
    /// The message with the decision.
    pub id: InboxId,
    /// The person who decided; only the requester and owners may.
    pub sender: Sender,
    /// The confirmation code of the call.
    pub code: String,
    /// Whether the call may run.
    pub allow: bool,
}

/// A person's decision about a call, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDecision {
    /// The call.
    pub call: CallId,
    /// Whether it may run.
    pub allowed: bool,
    /// The message with the decision; consumed with the turn.
    pub message: InboxId,
    /// The text in Markdown that takes the place of the call's question.
    pub closing: String,
}

/// A reply of Satchel itself to a message queued behind a running turn, sent without waiting for that turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImmediateReply {
    /// The message's own turn, which the reply completes.
    pub turn: TurnId,
    /// The message on its platform.
    pub reply_to: Option<MessageRef>,
    /// The reply.
    pub text: String,
}

/// What the messages queued behind a running turn request of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SteeringRequests {
    /// The message that stops the turn.
    pub stop: Option<InboxId>,
    /// The messages to give to the model before its next call, oldest first.
    pub inject: Vec<SteeringMessage>,
    /// People's decisions about calls that wait for one, oldest first.
    pub decisions: Vec<ToolDecision>,
    /// The replies to send at once, oldest first.
    pub immediate_replies: Vec<ImmediateReply>,
    /// The turns whose messages belong to the running one, as long as nothing of that is recorded or shown, oldest first.
    pub joins: Vec<TurnId>,
}

/// A durable step of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case", bound(deserialize = "F: Deserialize<'de>"))]
pub enum JournalEntry<F = Attachment> {
    /// A model message with tool calls, and the messages that were injected before it.
    Model {
        /// The name of the agent that answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// The task whose model it was, in a run of tasks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// The messages that were injected before the model call.
        #[serde(default)]
        steered: Vec<SteeringMessage>,
        /// The model's text.
        text: String,
        /// Its calls; ordinals count over the whole turn.
        calls: Vec<ToolCall>,
        /// The ordinals of the calls that need a decision before they start. Stored as `asks`.
        #[serde(default, rename = "asks")]
        awaiting_decision: Vec<u32>,
        /// The ordinals of the calls that may change something, by the tools of the process that has recorded the message. Each
        /// starts once all calls before it have ended, and unless it is the first call, behind its `CallStarted`; the calls
        /// behind it start once it has ended. `None` in what an earlier version has recorded: all its calls may have started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changing_calls: Option<Vec<u32>>,
    },
    /// A call that may change something, and had to wait for others, is about to run.
    CallStarted {
        /// The call's ordinal.
        ordinal: u32,
    },
    /// A person's decision about a call.
    Decided {
        /// The call's ordinal.
        ordinal: u32,
        /// Whether the call may run.
        allowed: bool,
        /// The message with the decision; consumed with the turn.
        message: InboxId,
    },
    /// The end of a task that another task of the turn needs. What is recorded behind it belongs to the next one.
    TaskFinished {
        /// The task's name.
        task: String,
        /// The text of its model's last message.
        text: String,
    },
    /// The outcome of a call.
    Outcome {
        /// The call's ordinal.
        ordinal: u32,
        /// The outcome, with its files' numbers.
        outcome: ToolOutcome<F>,
    },
}

impl<F> JournalEntry<F> {
    /// Returns the files of an outcome.
    pub fn files(&self) -> impl Iterator<Item = &F> {
        let outcome = match self {
            Self::Outcome { outcome, .. } => Some(outcome),
            Self::Model { .. } | Self::CallStarted { .. } | Self::Decided { .. } | Self::TaskFinished { .. } => None,
        };
        outcome.into_iter().flat_map(ToolOutcome::files)
    }

    /// Replaces each file of an outcome.
    ///
    /// # Errors
    /// The first that `replace` returns.
    pub fn try_map_files<G, E>(self, replace: impl FnMut(F) -> Result<G, E>) -> Result<JournalEntry<G>, E> {
        Ok(match self {
            Self::Model { agent, task, steered, text, calls, awaiting_decision, changing_calls } => {
                JournalEntry::Model { agent, task, steered, text, calls, awaiting_decision, changing_calls }
            }
            Self::CallStarted { ordinal } => JournalEntry::CallStarted { ordinal },
            Self::Decided { ordinal, allowed, message } => JournalEntry::Decided { ordinal, allowed, message },
            Self::TaskFinished { task, text } => JournalEntry::TaskFinished { task, text },
            Self::Outcome { ordinal, outcome } => {
                JournalEntry::Outcome { ordinal, outcome: outcome.try_map_files(replace)? }
            }
        })
    }
}

/// The turn to work on: the oldest incomplete one of its lane.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedTurn {
    /// Its id.
    pub id: TurnId,
    /// Its messages: one, those of an album, or those that a person sent in quick succession.
    pub messages: Vec<QueuedMessage>,
    /// When it may start: an album waits for half a second without another item.
    pub ready_at: Timestamp,
    /// Whether more messages of the conversation are queued behind it.
    pub has_followers: bool,
    /// The steps that an earlier run recorded, in order.
    pub journal: Vec<JournalEntry>,
    /// The draft of an earlier attempt.
    pub draft: Option<Part>,
    /// How many processes crashed while it was the lane's oldest turn.
    pub crashes: u32,
    /// Failed deliveries that haven't been reported to the model, without notices of such.
    pub unreported_failures: Vec<UndeliveredPart>,
    /// What is set for the conversation.
    pub settings: ConversationSettings,
    /// The conversation so far as the model sees it, oldest first: the newest messages since it last began anew. Nobody but
    /// the lane's holder adds to it.
    pub history: Arc<[HistoryMessage]>,
}

/// What a turn does to the conversation's history.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryChange {
    /// Adds messages.
    Append(Vec<HistoryMessage>),
    /// Hides all earlier messages from the model.
    Reset,
    /// Removes all earlier turns, as [`forget_conversation`](super::Conversations::forget_conversation) does.
    Forget(ForgetScope),
}

/// What is removed of a conversation besides its earlier turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForgetScope {
    /// All settings and reminders.
    Everything,
    /// What a person who isn't an owner may remove: their own reminders, and what they can set. Persona and model stay.
    Own {
        /// The person.
        person: PersonKey,
        /// Whether the chosen agent stays, too.
        keeps_agent: bool,
    },
}

/// What is set for a conversation. The ledger knows neither agents nor models and takes any name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConversationSettings {
    /// Whether every reply is sent as a voice message, too.
    pub voice_replies: bool,
    /// The name of the chosen agent, whether or not it still exists; `None` is the chat's own.
    pub agent: Option<String>,
    /// Who the assistant is here, in place of its agent's instructions.
    pub persona: Option<String>,
    /// The name of the chosen model, whether or not it still exists; `None` is that of the agent.
    pub model: Option<String>,
    /// Whether a person has said that texts in blocks can be read here; `None` where nobody has said so or otherwise.
    pub blocks: Option<bool>,
    /// When a reply last had a button with which a person can try blocks.
    pub blocks_offered_at: Option<Timestamp>,
}

/// A change to [`ConversationSettings`], which holds from the turn after the one that makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationSetting {
    /// Changes [`ConversationSettings::voice_replies`].
    VoiceReplies(bool),
    /// Changes [`ConversationSettings::agent`].
    Agent(Option<String>),
    /// Changes [`ConversationSettings::persona`].
    Persona(Option<String>),
    /// Changes [`ConversationSettings::model`].
    Model(Option<String>),
    /// Changes [`ConversationSettings::blocks`].
    Blocks(Option<bool>),
    /// Changes [`ConversationSettings::blocks_offered_at`].
    BlocksOffered(Timestamp),
}

/// The end of a turn, committed at once.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedTurn {
    /// The turn.
    pub turn: TurnId,
    /// How it ended.
    pub ending: Ending,
    /// The response.
    pub response: OutgoingResponse,
    /// The response's plan for its channel.
    pub plan: Plan,
    /// The change to the history.
    pub history: HistoryChange,
    /// The setting that the turn changes, if it changes one.
    pub setting: Option<ConversationSetting>,
    /// The injected messages that the turn consumed besides its own.
    pub steered: Vec<InboxId>,
    /// What those of them that a model has read, and the one that stopped the turn, said then: an edit that has taken the place
    /// of one stays queued, as a correction of this text.
    pub injected_texts: BTreeMap<InboxId, String>,
    /// The failed parts that were reported to the model in this turn.
    pub reported_failures: Vec<PartId>,
    /// The person's message to which the parts reply.
    pub reply_to: Option<MessageRef>,
    /// The changes of files that no recorded outcome has.
    pub changes: Vec<FileChange>,
    /// The command of the button by which an earlier reply's question is answered: each message of the conversation that
    /// has such a button loses its buttons, or is deleted where the conversation is forgotten.
    pub answered: Option<String>,
    /// Whether the lane is released with the commit, so that another process delivers the reply. Only for a holder that
    /// has nothing of the lane in flight.
    pub hands_over: bool,
}
