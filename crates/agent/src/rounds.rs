//! The state of a turn: its rounds of model answers and tool outcomes. Pure.

use std::collections::{BTreeMap, BTreeSet};

use satchel_domain::{
    Attachment, Ending, HistoryMessage, InboxId, MessageOrigin, OutcomeNotice, RecordedOutcome, RefusedFile, ToolCall,
    ViewedFile,
    fold::fold,
    markdown::{append_paragraph, trim_blank_edges},
    reference_block,
};
use satchel_ports::{
    FileChange, ModelMessage,
    language_model::ModelToolCall,
    ledger::{InboundFileState, JournalEntry, QueuedMessage, QueuedTurn, SteeringMessage},
};

use crate::{calls::RecordedDecision, heading::HeadingContext, prompt, references::turn_references, voice_notes};

/// The text of the outcome of a call that had none when the turn ended, for the model.
const INTERRUPTED_TEXT: &str = "interrupted when the turn ended; it may have taken effect";

/// The text of the outcome of a call that never started, for the model.
const UNSTARTED_TEXT: &str = "the turn ended before this call could start; it has changed nothing";

/// One answer of the model and the messages injected before it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Round {
    /// The messages that were injected before the model call.
    pub steered: Vec<SteeringMessage>,
    pub text: String,
    /// The calls that it requested.
    pub calls: Vec<ToolCall>,
}

/// A task of the turn that has come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedTask {
    pub task: String,
    /// How many rounds it and the tasks before it took.
    pub rounds_end: usize,
}

/// The state of a turn so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rounds {
    /// The model's messages, oldest first.
    pub rounds: Vec<Round>,
    /// The finished tasks of a run, in their order.
    pub finished_tasks: Vec<FinishedTask>,
    /// The agent that gave the last recorded answer.
    pub recorded_agent: Option<String>,
    /// The task whose rounds follow the finished ones, as far as it was recorded.
    pub recorded_task: Option<String>,
    /// The outcomes of the calls, by ordinal.
    pub outcomes: BTreeMap<u32, RecordedOutcome>,
    /// The ordinals of the calls that waited for a decision before this process resumed the turn.
    pub awaiting_decision: BTreeSet<u32>,
    /// The decisions about calls, by ordinal, that were made before this process resumed the turn.
    pub decisions_by_call: BTreeMap<u32, bool>,
    /// The messages with these decisions.
    pub decision_messages: Vec<InboxId>,
    /// What was injected after the last round.
    pub steered: Vec<SteeringMessage>,
    /// The text of the model's unfinished answer.
    pub partial: String,
    /// The ordinals of the calls that may change something, as recorded with the messages that requested them.
    pub changing_calls: BTreeSet<u32>,
    /// The ordinals of those of them that start behind a record of it, as far as there is none yet.
    pub unrecorded_starts: BTreeSet<u32>,
    /// The ordinals of the calls that never started, because the turn was stopped before.
    pub unstarted: BTreeSet<u32>,
    /// The changes of files by calls that were cut off without an outcome.
    pub unrecorded_changes: Vec<FileChange>,
    /// Whether the model has answered in this process, and so has seen what is reported only once.
    pub model_answered: bool,
}

impl Rounds {
    /// Restores the state from what earlier runs of the turn recorded.
    #[must_use]
    pub fn from_journal(journal: &[JournalEntry]) -> Self {
        let mut resumed = Self::default();
        for entry in journal {
            match entry.clone() {
                JournalEntry::Model { agent, task, steered, text, calls, awaiting_decision, changing_calls } => {
                    (resumed.recorded_agent, resumed.recorded_task) = (agent, task);
                    let round = Round { steered, text, calls };
                    match changing_calls {
                        Some(changing_calls) => resumed.add_calling_round(round, &changing_calls),
                        // Every call may have started.
                        None => resumed.rounds.push(round),
                    }
                    resumed.awaiting_decision.extend(awaiting_decision);
                }
                JournalEntry::CallStarted { ordinal } => {
                    resumed.unrecorded_starts.remove(&ordinal);
                }
                JournalEntry::TaskFinished { task, text } => {
                    resumed.rounds.push(Round { text, ..Round::default() });
                    resumed.finish_task(task);
                }
                JournalEntry::Decided { ordinal, allowed, message } => {
                    resumed.decisions_by_call.insert(ordinal, allowed);
                    resumed.decision_messages.push(message);
                }
                JournalEntry::Outcome { ordinal, outcome } => {
                    resumed.outcomes.insert(ordinal, outcome);
                }
            }
        }
        resumed
    }

    /// Adds an answer whose calls run in their order; these of them may change something.
    pub fn add_calling_round(&mut self, round: Round, changing_calls: &[u32]) {
        let first_call = round.calls.first().map(|call| call.id.ordinal);
        self.changing_calls.extend(changing_calls);
        self.unrecorded_starts.extend(changing_calls.iter().filter(|ordinal| first_call != Some(**ordinal)));
        self.rounds.push(round);
    }

    /// Returns whether a call without an outcome may have started, as far as the journal says: its start may be recorded, and
    /// no call before it that may change something is without an outcome.
    #[must_use]
    pub fn may_have_started(&self, ordinal: u32) -> bool {
        let mut earlier_changes = self.changing_calls.range(..ordinal);
        !self.unrecorded_starts.contains(&ordinal) && earlier_changes.all(|earlier| self.outcomes.contains_key(earlier))
    }

    /// Ends a task: the rounds from here on belong to the next one.
    pub fn finish_task(&mut self, task: String) {
        self.finished_tasks.push(FinishedTask { task, rounds_end: self.rounds.len() });
        self.recorded_task = None;
    }

    /// The rounds of the running task, or of the turn if it runs none.
    fn current_rounds(&self) -> &[Round] {
        let start = self.finished_tasks.last().map_or(0, |finished| finished.rounds_end);
        &self.rounds[start..]
    }

    /// The requested calls without an outcome.
    #[must_use]
    pub fn pending_calls(&self) -> Vec<ToolCall> {
        let calls = self.rounds.iter().flat_map(|round| &round.calls);
        calls.filter(|call| !self.outcomes.contains_key(&call.id.ordinal)).cloned().collect()
    }

    /// The ordinal of the first call that may have made unrecorded files: it has no outcome, or a dead process ran it.
    #[must_use]
    pub fn first_interrupted(&self) -> Option<u32> {
        let mut ordinals = self.rounds.iter().flat_map(|round| &round.calls).map(|call| call.id.ordinal);
        ordinals.find(|ordinal| match self.outcomes.get(ordinal) {
            Some(outcome) => outcome.unknown,
            None => !self.unstarted.contains(ordinal),
        })
    }

    /// Adds the files that interrupted calls have made to the outcomes. Which call made which file is unknown, so the
    /// first one gets them all.
    pub fn adopt_interrupted_files(&mut self, mut files: Vec<Attachment>) {
        let Some(ordinal) = self.first_interrupted() else { return };
        let recorded_ids: BTreeSet<_> =
            self.outcomes.values().flat_map(|outcome| &outcome.attachments).map(|file| file.id).collect();
        files.retain(|file| !recorded_ids.contains(&file.id));
        if !files.is_empty() {
            let outcome = self.outcomes.entry(ordinal).or_insert_with(unrecorded_outcome);
            outcome.attachments.extend(files);
        }
    }

    /// The recorded state of the decision about a call; `None` where it needed none.
    pub(crate) fn recorded_decision(&self, ordinal: u32) -> Option<RecordedDecision> {
        match self.decisions_by_call.get(&ordinal) {
            Some(true) => Some(RecordedDecision::Allowed),
            Some(false) => Some(RecordedDecision::Refused),
            None => self.awaiting_decision.contains(&ordinal).then_some(RecordedDecision::Pending),
        }
    }

    /// How many tool calls were requested.
    #[must_use]
    pub fn call_count(&self) -> u32 {
        let calls = self.rounds.iter().map(|round| round.calls.len()).sum::<usize>();
        u32::try_from(calls).unwrap_or(u32::MAX)
    }

    /// How many tool calls the running task requested, or the turn if it runs none.
    #[must_use]
    pub fn current_call_count(&self) -> u32 {
        let calls = self.current_rounds().iter().map(|round| round.calls.len()).sum::<usize>();
        u32::try_from(calls).unwrap_or(u32::MAX)
    }

    /// How often a model has answered.
    #[must_use]
    pub fn model_call_count(&self) -> u32 {
        u32::try_from(self.rounds.len()).unwrap_or(u32::MAX)
    }

    /// How often the model of the running task has answered, or that of the turn if it runs none.
    #[must_use]
    pub fn current_model_call_count(&self) -> u32 {
        u32::try_from(self.current_rounds().len()).unwrap_or(u32::MAX)
    }

    /// The texts of the model's answers, the unfinished last one included; of a run those of its last task.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.current_rounds().iter().map(|round| round.text.clone()).chain([self.partial.clone()]).collect()
    }

    /// The texts of the model's finished answers; of a run those of its running task.
    #[must_use]
    pub fn finished_texts(&self) -> Vec<&str> {
        self.current_rounds().iter().map(|round| round.text.as_str()).collect()
    }

    /// The outcomes of the calls, in the order of the requests; of a run those of its last task.
    #[must_use]
    pub fn outcomes(&self) -> Vec<RecordedOutcome> {
        self.outcomes_of(self.current_rounds())
    }

    fn outcomes_of(&self, rounds: &[Round]) -> Vec<RecordedOutcome> {
        let ordinals = rounds.iter().flat_map(|round| &round.calls).map(|call| call.id.ordinal);
        ordinals.filter_map(|ordinal| self.outcomes.get(&ordinal).cloned()).collect()
    }

    /// What the calls of all tasks show to people, in the order of the requests.
    pub(crate) fn notices(&self) -> impl Iterator<Item = &OutcomeNotice> {
        let ordinals = self.rounds.iter().flat_map(|round| &round.calls).map(|call| call.id.ordinal);
        ordinals.filter_map(|ordinal| self.outcomes.get(&ordinal)).flat_map(|outcome| &outcome.notices)
    }

    /// The files that the finished tasks deliver, in their order.
    #[must_use]
    pub fn earlier_files(&self) -> Vec<Attachment> {
        (0..self.finished_tasks.len()).flat_map(|index| self.task_files(index)).collect()
    }

    /// The files that a finished task delivers.
    #[must_use]
    pub fn task_files(&self, index: usize) -> Vec<Attachment> {
        let outcomes = self.outcomes_of(self.task_rounds(index));
        fold(&[self.task_text(index).to_owned()], &outcomes, &Ending::Done).attachments
    }

    /// The text of a finished task.
    #[must_use]
    pub fn task_text(&self, index: usize) -> &str {
        self.task_rounds(index).last().map_or("", |round| &round.text)
    }

    fn task_rounds(&self, index: usize) -> &[Round] {
        let end = |index: usize| self.finished_tasks.get(index).map_or(0, |finished| finished.rounds_end);
        &self.rounds[index.checked_sub(1).map_or(0, end)..end(index)]
    }

    /// The messages that were injected into the turn, in the order in which the model reads them.
    pub(crate) fn steered_messages(&self) -> impl Iterator<Item = &SteeringMessage> {
        self.rounds.iter().flat_map(|round| &round.steered).chain(&self.steered)
    }

    /// The messages that reached the turn while it ran, which it consumes.
    #[must_use]
    pub fn steered_ids(&self) -> Vec<InboxId> {
        let injected = self.steered_messages().map(|steered| steered.id);
        injected.chain(self.decision_messages.iter().copied()).collect()
    }

    /// What the injected messages said when the model read them.
    #[must_use]
    pub fn steered_texts(&self) -> BTreeMap<InboxId, String> {
        self.steered_messages().map(|steered| (steered.id, steered.text.clone())).collect()
    }

    /// The messages of this turn after the person's message, for the model; those of earlier tasks are not for it.
    #[must_use]
    pub fn to_model_messages(&self, context: &HeadingContext) -> Vec<ModelMessage> {
        let mut messages = Vec::new();
        for round in self.current_rounds() {
            messages.extend(round.steered.iter().flat_map(|steered| prompt::steering_message(steered, context)));
            let calls = round.calls.iter().map(prompt::to_model_tool_call).collect::<Vec<ModelToolCall>>();
            messages.push(ModelMessage::Assistant { text: round.text.clone(), calls });
            messages.extend(round.calls.iter().map(|call| {
                let (text, attachments) = self.tool_result(call);
                prompt::tool_result(call.id, text, attachments, self.viewed_files(call))
            }));
        }
        messages.extend(self.steered.iter().flat_map(|steered| prompt::steering_message(steered, context)));
        messages
    }

    /// What the turn adds to the conversation's history. An early end is recorded as the person read it, so that no
    /// later turn resumes the abandoned work.
    #[must_use]
    pub fn to_history(&self, turn: &QueuedTurn, ending: &Ending) -> Vec<HistoryMessage> {
        let person = |steered: &SteeringMessage| HistoryMessage::Person {
            text: steered.text.clone(),
            attachments: Vec::new(),
            refused: Vec::new(),
            origin: steered.origin.clone(),
        };
        let mut messages = vec![person_message(turn)];
        messages.extend(prompt::reminder_note(turn).map(|text| HistoryMessage::Note { text }));
        for (index, round) in self.rounds.iter().enumerate() {
            messages.extend(round.steered.iter().map(person));
            messages.push(HistoryMessage::Model { text: round.text.clone(), calls: round.calls.clone() });
            messages.extend(round.calls.iter().map(|call| {
                let (text, attachments) = self.tool_result(call);
                HistoryMessage::Tool { call: call.id, text, attachments }
            }));
            let finished = self.finished_tasks.iter().filter(|finished| finished.rounds_end == index + 1);
            messages.extend(
                finished
                    .map(|finished| HistoryMessage::Note { text: format!("The task {:?} is done.", finished.task) }),
            );
        }
        messages.extend(self.steered.iter().map(person));
        let partial = trim_blank_edges(&self.partial);
        let last =
            ending.user_message().map_or_else(|| partial.to_owned(), |sentence| append_paragraph(partial, &sentence));
        if !last.is_empty() {
            messages.push(HistoryMessage::Model { text: last, calls: Vec::new() });
        }
        messages
    }

    /// The files that a call shows to the model in this turn. History names them in the call's result only.
    fn viewed_files(&self, call: &ToolCall) -> &[ViewedFile<Attachment>] {
        self.outcomes.get(&call.id.ordinal).map_or(&[], |outcome| &outcome.viewed_files)
    }

    /// The result of a call. Every call gets one, because providers refuse a conversation with a gap.
    fn tool_result(&self, call: &ToolCall) -> (String, Vec<Attachment>) {
        match self.outcomes.get(&call.id.ordinal) {
            Some(outcome) => (outcome.to_model_text(), outcome.attachments.clone()),
            None if self.unstarted.contains(&call.id.ordinal) => {
                (RecordedOutcome::from_failure(UNSTARTED_TEXT).to_model_text(), Vec::new())
            }
            None => (unrecorded_outcome().to_model_text(), Vec::new()),
        }
    }
}

/// The outcome of a call that had none when the turn ended.
fn unrecorded_outcome() -> RecordedOutcome {
    RecordedOutcome { unknown: true, ..RecordedOutcome::from_failure(INTERRUPTED_TEXT) }
}

/// The person's message of a turn; the messages of an album are one.
fn person_message(turn: &QueuedTurn) -> HistoryMessage {
    let references = turn_references(turn);
    // A text has its block at its end, however many messages the turn has.
    let text = match references.is_empty() {
        true => user_text(turn),
        false => reference_block::append(&text_for_model(turn), &references),
    };
    HistoryMessage::Person {
        text,
        attachments: turn_attachments(turn),
        refused: refused_files(turn),
        origin: message_origin(turn),
    }
}

/// When a turn's message was sent and, where others write too, by whom; of an album its first message counts.
#[must_use]
pub fn message_origin(turn: &QueuedTurn) -> Option<MessageOrigin> {
    turn.messages.first().map(QueuedMessage::origin)
}

/// The person's text of a turn, typed and transcribed.
#[must_use]
pub fn user_text(turn: &QueuedTurn) -> String {
    join_texts(turn, |text| text)
}

/// The same without the blocks that name files by address, of which the model is told in a note.
#[must_use]
pub fn text_for_model(turn: &QueuedTurn) -> String {
    join_texts(turn, |text| reference_block::split(text).0)
}

fn join_texts(turn: &QueuedTurn, select: fn(&str) -> &str) -> String {
    let message_texts = |queued: &'_ QueuedMessage| -> Vec<String> {
        std::iter::once(select(&queued.message.text).to_owned()).chain(voice_notes::transcripts(queued)).collect()
    };
    let texts = turn.messages.iter().flat_map(message_texts);
    texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n")
}

/// The files that came with a turn, in the sender's order.
#[must_use]
pub fn turn_attachments(turn: &QueuedTurn) -> Vec<Attachment> {
    let files = turn.messages.iter().flat_map(|queued| &queued.files);
    let stored = files.filter_map(|file| match file {
        InboundFileState::Stored(attachment) => Some(attachment.clone()),
        InboundFileState::Waiting(_) | InboundFileState::Refused(_) => None,
    });
    stored.collect()
}

/// The files of a turn that were refused.
#[must_use]
pub fn refused_files(turn: &QueuedTurn) -> Vec<RefusedFile> {
    let files = turn.messages.iter().flat_map(|queued| &queued.files);
    let refused = files.filter_map(|file| match file {
        InboundFileState::Refused(refused) => Some(refused.clone()),
        InboundFileState::Waiting(_) | InboundFileState::Stored(_) => None,
    });
    refused.collect()
}
