//! What is known of a turn: its rounds of model message and tool outcomes. Pure.

use std::collections::{BTreeMap, BTreeSet};

use satchel_domain::{
    Attachment, Ending, HistoryMessage, InboxId, MessageOrigin, RefusedFile, ToolCall, ToolOutcome,
    markdown::{append_paragraph, trim_blank_edges},
};
use satchel_ports::{
    ModelMessage,
    language_model::ModelToolCall,
    ledger::{InboundFileState, JournalEntry, QueuedMessage, QueuedTurn, SteeringMessage},
};

use crate::{heading::HeadingContext, prompt, voice_notes};

/// How the outcome of a call begins that a dead process may have run.
pub(crate) const OUTCOME_UNKNOWN: &str = "outcome unknown: ";

/// What the model is told of a call that had yielded nothing when the turn ended.
const INTERRUPTED_TEXT: &str = "interrupted when the turn ended; it may have taken effect";

/// One message of the model and what was put before it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Round {
    /// The messages that were injected before the model was asked.
    pub steered: Vec<SteeringMessage>,
    pub text: String,
    /// What it asked for.
    pub calls: Vec<ToolCall>,
}

/// What a turn has gathered so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rounds {
    /// The model's messages, oldest first.
    pub rounds: Vec<Round>,
    /// What the calls yielded, by ordinal.
    pub outcomes: BTreeMap<u32, ToolOutcome>,
    /// The ordinals of the calls that waited for a person's word before this process took the turn up.
    pub awaiting_decision: BTreeSet<u32>,
    /// What a person has said about calls, by ordinal, before this process took the turn up.
    pub decided: BTreeMap<u32, bool>,
    /// The messages that said so.
    pub decisions: Vec<InboxId>,
    /// What was injected after the last round.
    pub steered: Vec<SteeringMessage>,
    /// What the model has written of its next message.
    pub partial: String,
    /// Whether the model has answered this process, and so has been told what it is told once.
    pub answered: bool,
}

impl Rounds {
    /// Takes up what an earlier run of the turn recorded.
    #[must_use]
    pub fn from_journal(journal: &[JournalEntry]) -> Self {
        let mut resumed = Self::default();
        for entry in journal {
            match entry.clone() {
                JournalEntry::Model { steered, text, calls, asks } => {
                    resumed.rounds.push(Round { steered, text, calls });
                    resumed.awaiting_decision.extend(asks);
                }
                JournalEntry::Decided { ordinal, allowed, message } => {
                    resumed.decided.insert(ordinal, allowed);
                    resumed.decisions.push(message);
                }
                JournalEntry::Outcome { ordinal, outcome } => {
                    resumed.outcomes.insert(ordinal, outcome);
                }
            }
        }
        resumed
    }

    /// The calls that were asked for and have yielded nothing yet.
    #[must_use]
    pub fn pending_calls(&self) -> Vec<ToolCall> {
        let calls = self.rounds.iter().flat_map(|round| &round.calls);
        calls.filter(|call| !self.outcomes.contains_key(&call.id.ordinal)).cloned().collect()
    }

    /// The first call that may have made files of which no outcome tells: it has none, or a dead process ran it.
    #[must_use]
    pub fn first_interrupted(&self) -> Option<u32> {
        let is_interrupted = |outcome: &ToolOutcome| {
            outcome.failed && outcome.text.as_ref().is_some_and(|text| text.starts_with(OUTCOME_UNKNOWN))
        };
        let ordinals = self.rounds.iter().flat_map(|round| &round.calls).map(|call| call.id.ordinal);
        ordinals.into_iter().find(|ordinal| self.outcomes.get(ordinal).is_none_or(is_interrupted))
    }

    /// Takes up files that the interrupted calls of a turn had made which ended early. Which of several calls made which
    /// is not known, so that the first stands for all.
    pub fn take_interrupted(&mut self, mut made: Vec<Attachment>) {
        let Some(ordinal) = self.first_interrupted() else { return };
        let known: BTreeSet<_> =
            self.outcomes.values().flat_map(|outcome| &outcome.attachments).map(|file| file.id).collect();
        made.retain(|file| !known.contains(&file.id));
        if !made.is_empty() {
            let outcome = self.outcomes.entry(ordinal).or_insert_with(|| ToolOutcome::from_failure(INTERRUPTED_TEXT));
            outcome.attachments.extend(made);
        }
    }

    /// How many tools have been asked for.
    #[must_use]
    pub fn calls(&self) -> u32 {
        let calls = self.rounds.iter().map(|round| round.calls.len()).sum::<usize>();
        u32::try_from(calls).unwrap_or(u32::MAX)
    }

    /// How often the model has answered.
    #[must_use]
    pub fn model_calls(&self) -> u32 {
        u32::try_from(self.rounds.len()).unwrap_or(u32::MAX)
    }

    /// What the model wrote, message by message, the unfinished last one included.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.rounds.iter().map(|round| round.text.clone()).chain([self.partial.clone()]).collect()
    }

    /// What the calls yielded, in the order in which the model asked for them.
    #[must_use]
    pub fn outcomes(&self) -> Vec<ToolOutcome> {
        self.outcomes.values().cloned().collect()
    }

    /// The messages that reached the turn while it ran, which it consumes.
    #[must_use]
    pub fn steered_ids(&self) -> Vec<InboxId> {
        let injected = self.rounds.iter().flat_map(|round| &round.steered).chain(&self.steered);
        injected.map(|steered| steered.id).chain(self.decisions.iter().copied()).collect()
    }

    /// What the model is shown of this turn after the person's message.
    #[must_use]
    pub fn to_model_messages(&self, context: &HeadingContext) -> Vec<ModelMessage> {
        let mut messages = Vec::new();
        for round in &self.rounds {
            messages.extend(round.steered.iter().flat_map(|steered| prompt::steering_message(steered, context)));
            let calls = round.calls.iter().map(prompt::model_call).collect::<Vec<ModelToolCall>>();
            messages.push(ModelMessage::Assistant { text: round.text.clone(), calls });
            messages.extend(round.calls.iter().map(|call| {
                let (text, attachments) = self.tool_result(call);
                prompt::tool_result(call.id, text, attachments, self.viewed_files(call))
            }));
        }
        messages.extend(self.steered.iter().flat_map(|steered| prompt::steering_message(steered, context)));
        messages
    }

    /// What the turn adds to the conversation's history. How it ended early stands in it as the person read it, so that
    /// no later turn takes up what was given up.
    #[must_use]
    pub fn to_history(&self, turn: &QueuedTurn, ending: &Ending) -> Vec<HistoryMessage> {
        let person = |steered: &SteeringMessage| HistoryMessage::Person {
            text: steered.text.clone(),
            attachments: Vec::new(),
            refused: Vec::new(),
            origin: steered.origin.clone(),
        };
        let mut messages = vec![user_message(turn)];
        for round in &self.rounds {
            messages.extend(round.steered.iter().map(person));
            messages.push(HistoryMessage::Model { text: round.text.clone(), calls: round.calls.clone() });
            messages.extend(round.calls.iter().map(|call| {
                let (text, attachments) = self.tool_result(call);
                HistoryMessage::Tool { call: call.id, text, attachments }
            }));
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

    /// The files that a call shows to the model in this turn. History names them in the call's answer alone.
    fn viewed_files(&self, call: &ToolCall) -> &[Attachment] {
        self.outcomes.get(&call.id.ordinal).map_or(&[], |outcome| &outcome.viewed_files)
    }

    /// What a call was answered. Every call gets an answer, because providers refuse a conversation with a gap.
    fn tool_result(&self, call: &ToolCall) -> (String, Vec<Attachment>) {
        match self.outcomes.get(&call.id.ordinal) {
            Some(outcome) => (outcome.as_model_text(), outcome.attachments.clone()),
            None => (ToolOutcome::from_failure(INTERRUPTED_TEXT).as_model_text(), Vec::new()),
        }
    }
}

/// The person's message of a turn; the messages of an album are one.
fn user_message(turn: &QueuedTurn) -> HistoryMessage {
    HistoryMessage::Person {
        text: user_text(turn),
        attachments: turn_attachments(turn),
        refused: refused_files(turn),
        origin: origin(turn),
    }
}

/// When a turn's message was sent and, where others write too, by whom; of an album its first message counts.
#[must_use]
pub fn origin(turn: &QueuedTurn) -> Option<MessageOrigin> {
    turn.messages.first().map(QueuedMessage::origin)
}

/// The person's words of a turn, written and spoken.
#[must_use]
pub fn user_text(turn: &QueuedTurn) -> String {
    let said = |queued: &'_ QueuedMessage| -> Vec<String> {
        std::iter::once(queued.message.text.clone()).chain(voice_notes::transcripts(queued)).collect()
    };
    let texts = turn.messages.iter().flat_map(said);
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

/// The files of a turn that were not taken.
#[must_use]
pub fn refused_files(turn: &QueuedTurn) -> Vec<RefusedFile> {
    let files = turn.messages.iter().flat_map(|queued| &queued.files);
    let refused = files.filter_map(|file| match file {
        InboundFileState::Refused(refused) => Some(refused.clone()),
        InboundFileState::Waiting(_) | InboundFileState::Stored(_) => None,
    });
    refused.collect()
}
