//! The decisions about one part under way, by what the ledger holds, what this process knows, and what has just
//! happened.
//!
//! The driver in `routing` performs the [`DeliveryEffect`]s in their order, does what the [`Continuation`] says, and feeds
//! back the event with which that ends. If a [`DeliveryEffect::Save`] fails, it stops: the lane is lost or the ledger is
//! down, and the next process resumes from what is stored.

use std::time::Duration;

use super::{
    DeliveryRules, Refusal, SendError,
    doubt::{DoubtRules, DoubtStep, doubt_step_without_match, next_doubt_step},
    step::{DeliveryStep, next_step},
    transition::{PartEvent, apply, doubt_failure, doubt_reason},
};
use crate::{
    ChannelCapabilities, MessageRef, Part, PartContent, PartState, Timestamp,
    capabilities::Idempotency,
    part::{FailureReason, Operation, PlannedPart},
};

/// Which call of the channel is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The part as it is: its first send, an edit, or a labelled one.
    Plain,
    /// A retry under the part's idempotency key, as it is.
    Retry,
    /// A retry under the key with the text alone. The key returns the message that arrived first under it, which may be
    /// the beginning of a streamed reply; where the full retry is refused because of its files, the text alone still
    /// finds or makes that message, and [`Complete`](Self::Complete) adds the rest.
    RetryText,
    /// The edit that completes a message which a key or a look-up has found.
    Complete,
}

/// A step that is done before the [`Continuation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryEffect {
    /// Store the part, before a call or a wait. If that fails, stop.
    Save,
    /// Store the part after an answer, which would be lost otherwise: retry until the ledger takes it.
    Record,
    /// Publish the part's state.
    Publish,
    /// Delete earlier attempts that arrived all the same, after a search had not found them.
    RemoveDuplicates,
}

/// How a delivery goes on.
#[derive(Debug, Clone, PartialEq)]
pub enum Continuation {
    /// With an action, which ends with an event.
    Perform(DeliveryAction),
    /// Not before it is closed: the part is a question that stands.
    Rest,
    /// Not at all: the part is settled as it is.
    Settle,
    /// Not at all: the part is settled as replaced by these.
    Replace(Vec<PlannedPart>),
}

/// The answer to an event: effects in their order, and what follows them.
pub type DeliveryPlan = (Vec<DeliveryEffect>, Continuation);

/// A step that takes time and ends with an event.
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryAction {
    /// Prepare the part's bytes: [`DeliveryEvent::Prepared`] or [`DeliveryEvent::NotPrepared`].
    Prepare,
    /// Perform [`Delivery::operation`]: [`DeliveryEvent::Answered`].
    Call(Attempt),
    /// Make a harmless call: [`DeliveryEvent::ProbeEnded`].
    Probe,
    /// Look for the part among the messages of its chat: [`DeliveryEvent::SearchEnded`].
    Search,
    /// Find another form for what was refused, or whose file can't be read: [`DeliveryEvent::Replanned`].
    Replan(Refusal, FailureReason),
    /// Do nothing before this moment: [`DeliveryEvent::TimeReached`] or [`DeliveryEvent::QuestionClosed`].
    Sleep(Timestamp),
    /// Do nothing before the platform accepts the account again, and no longer than to this moment, if there is one:
    /// [`DeliveryEvent::TimeReached`] or [`DeliveryEvent::QuestionClosed`].
    AwaitAccount(Option<Timestamp>),
}

/// The end of a [`DeliveryAction`].
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryEvent {
    /// Its bytes are prepared.
    Prepared(Box<PartContent>),
    /// Its bytes can't be prepared, for this reason; these take its place, if there are any.
    NotPrepared(FailureReason, Vec<PlannedPart>),
    /// The channel answered this call.
    Answered(Attempt, Result<Vec<MessageRef>, SendError>),
    /// The harmless call ended.
    ProbeEnded(Result<(), SendError>),
    /// The search ended; an error means that the channel could not look.
    SearchEnded(Result<SearchResult, SendError>),
    /// The planner answered what is sent instead of a part that fails with this reason otherwise.
    Replanned(ReplanOutcome, FailureReason),
    /// The moment has come.
    TimeReached,
    /// The moment has come, and meanwhile the part, a question, was closed by this text.
    QuestionClosed(String),
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchResult {
    /// The part arrived as these messages.
    Found(Vec<MessageRef>),
    /// It certainly did not arrive.
    Absent,
    /// Nothing certain.
    Uncertain,
}

/// What is sent instead of a part that was refused in its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplanOutcome {
    /// These take its place, in this order.
    Children(Vec<PlannedPart>),
    /// The message to edit is gone: the same goes as a new message.
    SendNew,
    /// There is no other form.
    GiveUp(FailureReason),
}

/// A part under way. What isn't in the [`Part`] is learnt again after a restart.
#[derive(Debug, Clone)]
pub struct Delivery {
    part: Part,
    rules: DeliveryRules,
    /// What is left to be done about doubt, after the retries that failed.
    doubt_rules: DoubtRules,
    /// The key of the channel, whatever was refused under it.
    idempotency: Idempotency,
    /// The post of its text alone, of a part with files, until that is refused as well.
    text_only: Option<Operation>,
    /// How many probes failed.
    probes: u32,
    /// Whether the part is an edit that is repeated because it may have arrived, so that it never fails for certain.
    repeats_edit: bool,
}

impl Delivery {
    /// Takes up a part. `started_here` says that a started part was started by this holder of the lane and not sent
    /// yet; that of another may have arrived.
    #[must_use]
    pub fn resume(
        part: Part,
        started_here: bool,
        capabilities: &ChannelCapabilities,
        now: Timestamp,
        rules: DeliveryRules,
    ) -> (Self, DeliveryPlan) {
        let ChannelCapabilities { idempotency, look_up, can_edit, .. } = *capabilities;
        // Without an edit the files could never be added.
        let text_only = part.content().and_then(text_only).filter(|_| can_edit);
        let mut delivery = Self {
            part,
            rules,
            doubt_rules: DoubtRules { idempotency, look_up, may_resend: true },
            idempotency,
            text_only,
            probes: 0,
            repeats_edit: false,
        };
        let plan = match (&delivery.part.state, started_here) {
            (PartState::Sending, true) => perform(DeliveryAction::Call(Attempt::Plain)),
            (PartState::Sending, false) => {
                delivery.apply(PartEvent::Interrupted, now);
                delivery.proceed(now)
            }
            _ => delivery.proceed(now),
        };
        (delivery, plan)
    }

    /// Returns the part as it is now.
    #[must_use]
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// Returns the part, for its settlement.
    #[must_use]
    pub fn into_part(self) -> Part {
        self.part
    }

    /// Returns what a call does; the driver adds the label.
    #[must_use]
    pub fn operation(&self, attempt: Attempt) -> &Operation {
        match (attempt, &self.text_only) {
            (Attempt::RetryText, Some(text)) => text,
            _ => &self.part.operation,
        }
    }

    /// Says what is to be done after an event.
    #[must_use]
    pub fn on(&mut self, event: DeliveryEvent, now: Timestamp) -> DeliveryPlan {
        match event {
            DeliveryEvent::TimeReached => self.proceed(now),
            DeliveryEvent::QuestionClosed(text) => {
                self.part.close_question(Some(text), now);
                self.proceed(now)
            }
            DeliveryEvent::Prepared(content) => {
                // Stored with the start: until then it can be prepared again.
                self.part.operation = Operation::Post { content: *content };
                self.proceed(now)
            }
            DeliveryEvent::NotPrepared(reason, children) => self.replace(children, reason, now),
            DeliveryEvent::Answered(attempt, answer) => self.on_answer(attempt, answer, now),
            DeliveryEvent::ProbeEnded(Err(SendError::AccountRefused { reason })) => self.await_account(reason, now),
            DeliveryEvent::ProbeEnded(Err(error)) => self.on_unreachable(error, now),
            DeliveryEvent::ProbeEnded(Ok(())) => {
                let step = next_doubt_step(&self.part, now, &self.rules, self.doubt_rules);
                self.take_doubt_step(step, now)
            }
            DeliveryEvent::SearchEnded(found) => self.on_search(found, now),
            DeliveryEvent::Replanned(outcome, failure) => self.on_replanned(outcome, failure, now),
        }
    }

    /// Does what the state of the part asks for at this time.
    fn proceed(&mut self, now: Timestamp) -> DeliveryPlan {
        match next_step(&self.part, now, &self.rules) {
            DeliveryStep::Done => settle(),
            DeliveryStep::Rest => (Vec::new(), Continuation::Rest),
            DeliveryStep::GiveUp(reason) => self.give_up(reason, now),
            DeliveryStep::Wait(until) => perform(DeliveryAction::Sleep(until)),
            DeliveryStep::Prepare => perform(DeliveryAction::Prepare),
            DeliveryStep::Start => self.start(Attempt::Plain, now),
            DeliveryStep::Probe => perform(DeliveryAction::Probe),
        }
    }

    /// Waits as long as the part's state asks for. The effects before it store that state, so nothing may change it yet.
    fn wait(&self, now: Timestamp) -> Continuation {
        let until = match next_step(&self.part, now, &self.rules) {
            DeliveryStep::Wait(until) => until,
            _ => now,
        };
        Continuation::Perform(DeliveryAction::Sleep(until))
    }

    /// Commits the part as started before the call. From then on it may have arrived.
    fn start(&mut self, attempt: Attempt, now: Timestamp) -> DeliveryPlan {
        self.apply(PartEvent::Started, now);
        (vec![DeliveryEffect::Save], Continuation::Perform(DeliveryAction::Call(attempt)))
    }

    fn on_answer(
        &mut self,
        attempt: Attempt,
        answer: Result<Vec<MessageRef>, SendError>,
        now: Timestamp,
    ) -> DeliveryPlan {
        match (attempt, answer) {
            // An edit that may have arrived is repeated without a key, but the doubt lasts as in a retry under one.
            (Attempt::Plain, Err(error @ SendError::AccountRefused { .. })) if self.repeats_edit => {
                return self.on_account_refused(Attempt::Retry, error, now);
            }
            (Attempt::Plain, answer @ Err(SendError::NotSent { .. })) if self.repeats_edit => {
                self.apply(PartEvent::RetryEnded(answer), now);
            }
            (_, Err(error @ SendError::AccountRefused { .. })) => return self.on_account_refused(attempt, error, now),
            (Attempt::RetryText, Ok(messages)) => return self.complete(messages, now),
            (Attempt::Retry, Ok(messages)) if self.is_possibly_partial() => return self.complete(messages, now),
            // A labelled send goes under the same key, which the platform may remember for longer than it says.
            (Attempt::Plain, Ok(messages))
                if !messages.is_empty() && self.is_possibly_partial() && self.goes_under_key() =>
            {
                return self.complete(messages, now);
            }
            (Attempt::Retry | Attempt::RetryText, answer) => {
                if let Err(error) = &answer {
                    self.record_failed_retry(attempt, error);
                }
                self.apply(PartEvent::RetryEnded(answer), now);
            }
            // There is nothing left to close or to delete, and no other form of it.
            (Attempt::Plain, Err(SendError::Refused { refusal, reason }))
                if self.part.is_closing_edit() || self.part.content().is_none() =>
            {
                let message = self.part.target().filter(|_| self.part.is_closing_edit());
                let event = match refusal {
                    Refusal::TargetGone => PartEvent::Found(message.into_iter().cloned().collect()),
                    _ => PartEvent::GivenUp(FailureReason::Refused { reason }),
                };
                self.apply(event, now);
            }
            (Attempt::Plain | Attempt::Complete, Err(SendError::Refused { refusal, reason })) => {
                return perform(DeliveryAction::Replan(refusal, FailureReason::Refused { reason }));
            }
            // One file that can't be read must not take the others, or the text, with it.
            (Attempt::Plain | Attempt::Complete, Err(SendError::Unreadable { reason }))
                if self.part.content().is_some_and(has_more_than_one_file) =>
            {
                let refusal = Refusal::TooLarge { limit: None };
                return perform(DeliveryAction::Replan(refusal, FailureReason::Unreadable { reason }));
            }
            (Attempt::Plain | Attempt::Complete, answer) => self.apply(PartEvent::AttemptEnded(answer), now),
        }
        match &self.part.state {
            PartState::Sent { .. } if self.part.searched => {
                (vec![DeliveryEffect::RemoveDuplicates], Continuation::Settle)
            }
            PartState::Open { .. } if self.part.searched => {
                (vec![DeliveryEffect::Record, DeliveryEffect::RemoveDuplicates], Continuation::Rest)
            }
            PartState::Open { .. } => (vec![DeliveryEffect::Record], Continuation::Rest),
            state if state.is_settled() => settle(),
            _ => (vec![DeliveryEffect::Record], self.wait(now)),
        }
    }

    /// Edits the message that a retry has found or made to the whole part.
    fn complete(&mut self, messages: Vec<MessageRef>, now: Timestamp) -> DeliveryPlan {
        match messages.into_iter().next() {
            Some(message) => {
                self.turn_into_edit_of(message);
                perform(DeliveryAction::Call(Attempt::Complete))
            }
            None => self.proceed(now),
        }
    }

    /// A refusal says nothing about the first send, and another retry would be refused again.
    fn record_failed_retry(&mut self, attempt: Attempt, error: &SendError) {
        self.doubt_rules = self.doubt_rules.after_failed_retry(error);
        let is_transient = matches!(error, SendError::NotSent { .. } | SendError::InDoubt { .. });
        if attempt == Attempt::RetryText && !is_transient {
            self.text_only = None;
        }
    }

    /// The platform doesn't look at what a refused account sends, so the attempt counts as never made.
    fn on_account_refused(&mut self, attempt: Attempt, error: SendError, now: Timestamp) -> DeliveryPlan {
        // The edit that completes a message is no attempt of its own.
        if attempt != Attempt::Complete {
            self.part.revert_start();
        }
        self.apply(
            match attempt {
                Attempt::Plain | Attempt::Complete => PartEvent::AttemptEnded(Err(error)),
                Attempt::Retry | Attempt::RetryText => PartEvent::RetryEnded(Err(error)),
            },
            now,
        );
        (vec![DeliveryEffect::Record], self.account_wait())
    }

    /// A doubt lasts until the account is accepted. Nothing is stored, as in [`Self::on_unreachable`].
    fn await_account(&mut self, reason: String, now: Timestamp) -> DeliveryPlan {
        self.apply(PartEvent::RetryEnded(Err(SendError::AccountRefused { reason })), now);
        (Vec::new(), self.account_wait())
    }

    /// Waits for the account until the part is too old, if it can be.
    fn account_wait(&self) -> Continuation {
        Continuation::Perform(DeliveryAction::AwaitAccount(self.part.expires_at(&self.rules)))
    }

    /// Nothing is stored: the part is in doubt already, and a restart would probe again.
    fn on_unreachable(&mut self, error: SendError, now: Timestamp) -> DeliveryPlan {
        self.probes += 1;
        self.apply(PartEvent::StillUnreachable { error, probes: self.probes }, now);
        self.proceed(now)
    }

    fn on_search(&mut self, found: Result<SearchResult, SendError>, now: Timestamp) -> DeliveryPlan {
        match found {
            Ok(SearchResult::Found(messages)) if self.is_possibly_partial() => {
                if let Some(message) = messages.into_iter().next() {
                    self.turn_into_edit_of(message);
                }
                self.start(Attempt::Plain, now)
            }
            Ok(SearchResult::Found(messages)) => {
                self.apply(PartEvent::Found(messages), now);
                match self.part.state {
                    PartState::Open { .. } => (vec![DeliveryEffect::Record], Continuation::Rest),
                    _ => settle(),
                }
            }
            Ok(SearchResult::Absent) if self.part.is_unneeded_question() => self.give_up(FailureReason::NotNeeded, now),
            Ok(SearchResult::Absent) => {
                self.apply(PartEvent::Absent, now);
                self.start(Attempt::Plain, now)
            }
            Ok(SearchResult::Uncertain)
            | Err(SendError::Forbidden { .. } | SendError::Refused { .. } | SendError::Unreadable { .. }) => {
                let step = doubt_step_without_match(&self.part, &self.rules, self.doubt_rules);
                self.take_doubt_step(step, now)
            }
            Err(SendError::AccountRefused { reason }) => self.await_account(reason, now),
            Err(error @ (SendError::NotSent { .. } | SendError::InDoubt { .. })) => self.on_unreachable(error, now),
        }
    }

    fn take_doubt_step(&mut self, step: DoubtStep, now: Timestamp) -> DeliveryPlan {
        match step {
            DoubtStep::LookUp => perform(DeliveryAction::Search),
            // An edit is idempotent by itself and has no key.
            DoubtStep::Retry if self.part.target().is_some() => {
                self.repeats_edit = true;
                self.start(Attempt::Plain, now)
            }
            DoubtStep::Retry => self.start(Attempt::Retry, now),
            // What the key finds by the text alone is edited to the rest.
            DoubtStep::Resend | DoubtStep::GiveUp(_) if self.can_retry_text(now) => self.start(Attempt::RetryText, now),
            DoubtStep::GiveUp(reason) => self.give_up(reason, now),
            // Nobody needs the answer, so nobody is asked again.
            DoubtStep::Resend if self.part.is_unneeded_question() => {
                let reason = doubt_reason(&self.part);
                self.give_up(FailureReason::MayHaveArrived { reason }, now)
            }
            DoubtStep::Resend => {
                self.apply(PartEvent::Relabelled, now);
                (vec![DeliveryEffect::Save, DeliveryEffect::Publish], self.wait(now))
            }
        }
    }

    /// Whether the text alone may be retried: the message that it finds or makes is not there twice, which also holds
    /// where doubt is held. It may not where nothing may be sent any more, nor with a label, which would appear in the
    /// message that it finds.
    fn can_retry_text(&self, now: Timestamp) -> bool {
        let is_allowed = self.doubt_rules.may_resend && !self.part.labelled;
        is_allowed && self.text_only.is_some() && self.is_key_remembered(now)
    }

    /// Whether a send might return an older message.
    fn goes_under_key(&self) -> bool {
        self.part.target().is_none() && self.idempotency != Idempotency::None
    }

    /// Whether a new message would go under a key that the platform certainly still remembers.
    fn is_key_remembered(&self, now: Timestamp) -> bool {
        let first_attempt_at = self.part.first_attempt_at;
        let elapsed = first_attempt_at.map_or(Duration::ZERO, |first| now.saturating_duration_since(first));
        self.part.target().is_none() && self.idempotency.covers(elapsed)
    }

    fn on_replanned(&mut self, outcome: ReplanOutcome, failure: FailureReason, now: Timestamp) -> DeliveryPlan {
        let was_refused = matches!(failure, FailureReason::Refused { .. });
        match outcome {
            ReplanOutcome::Children(children) => self.replace(children, failure, now),
            // As a new part: under the old key the platform would return the message that is gone.
            ReplanOutcome::SendNew if was_refused && self.part.target().is_some() => {
                let Some(content) = self.part.content().cloned() else { return self.give_up(failure, now) };
                // Its child would edit the message otherwise.
                self.part.operation = Operation::Post { content: content.clone() };
                self.replace(vec![PlannedPart::new(content)], failure, now)
            }
            ReplanOutcome::GiveUp(reason) if was_refused => self.give_up(reason, now),
            ReplanOutcome::SendNew | ReplanOutcome::GiveUp(_) => self.give_up(failure, now),
        }
    }

    /// Puts children in the part's place; without any it fails. A voice of which only the words are left is reported as
    /// failed.
    fn replace(&mut self, mut children: Vec<PlannedPart>, reason: FailureReason, now: Timestamp) -> DeliveryPlan {
        if children.is_empty() {
            return self.give_up(reason, now);
        }
        let is_voice = |content: &PartContent| matches!(content, PartContent::Voice { .. });
        if let Some(voice) = self.part.content().filter(|content| is_voice(content))
            && !children.iter().any(|child| is_voice(&child.content))
        {
            children.push(PlannedPart { content: voice.clone(), failure: Some(reason) });
        }
        self.apply(PartEvent::Replaced(Vec::new()), now);
        (Vec::new(), Continuation::Replace(children))
    }

    fn give_up(&mut self, reason: FailureReason, now: Timestamp) -> DeliveryPlan {
        self.apply(PartEvent::GivenUp(reason), now);
        settle()
    }

    fn turn_into_edit_of(&mut self, message: MessageRef) {
        self.part = self.part.clone().into_edit_of(message);
    }

    fn apply(&mut self, event: PartEvent, now: Timestamp) {
        apply(&mut self.part, event, now, &self.rules);
        if self.repeats_edit {
            doubt_failure(&mut self.part.state);
        }
    }

    /// Whether the message that a key or a search finds may show less than the part: what had been streamed by then.
    fn is_possibly_partial(&self) -> bool {
        self.part.streamed && self.part.is_text()
    }
}

fn perform(action: DeliveryAction) -> DeliveryPlan {
    (Vec::new(), Continuation::Perform(action))
}

fn settle() -> DeliveryPlan {
    (Vec::new(), Continuation::Settle)
}

fn text_only(content: &PartContent) -> Option<Operation> {
    match content {
        PartContent::Text { text, markup, files } if !files.is_empty() && !text.trim().is_empty() => {
            let content = PartContent::Text { text: text.clone(), markup: *markup, files: Vec::new() };
            Some(Operation::Post { content })
        }
        _ => None,
    }
}

fn has_more_than_one_file(content: &PartContent) -> bool {
    match content {
        PartContent::Text { files, .. } => !files.is_empty(),
        PartContent::Album { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
pub(super) mod table;
#[cfg(test)]
mod tests;
