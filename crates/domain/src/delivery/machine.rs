//! One part under way: every decision about it, as a function of what the ledger holds, what this process knows, and
//! what has just happened.
//!
//! The driver in `routing` performs the [`DeliveryEffect`]s in their order and feeds back what came of them. If a
//! [`DeliveryEffect::Save`] fails, it stops: the lane is lost or the ledger is down, and whoever resumes the part starts
//! from what is stored.

use std::time::Duration;

use super::{
    DeliveryRules, DeliveryStep, DoubtRules, DoubtStep, PartEvent, Refusal, SendError, advance,
    doubt_step_without_match, next_doubt_step, next_step,
};
use crate::{
    ChannelCapabilities, MessageRef, Part, PartContent, PartState, Timestamp,
    capabilities::Idempotency,
    part::{FailureReason, PlannedPart},
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

/// What is to be done with a part. The last of several effects is an action or the end.
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryEffect {
    /// Store the part, before a call or a wait. If that fails, stop.
    Save,
    /// Store the part after an answer, which would be lost otherwise: again and again until the ledger takes it.
    Record,
    /// Publish the part's state.
    Publish,
    /// Delete earlier attempts that arrived all the same, after a search had not found them.
    RemoveDuplicates,
    /// Do something that ends with an event.
    Perform(DeliveryAction),
    /// Settle the part as it is.
    Settle,
    /// Settle the part as replaced by these.
    Replace(Vec<PlannedPart>),
}

/// What takes time, and ends with an event.
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryAction {
    /// Prepare the part's bytes: [`DeliveryEvent::Prepared`] or [`DeliveryEvent::NotPrepared`].
    Prepare,
    /// Send, edit or delete, as the part's content and target say: [`DeliveryEvent::Answered`].
    Call(Attempt),
    /// Make a harmless call: [`DeliveryEvent::ProbeEnded`].
    Probe,
    /// Look for the part among the messages of its chat: [`DeliveryEvent::SearchEnded`].
    Search,
    /// Find another form for what was refused: [`DeliveryEvent::Replanned`].
    Replan(Refusal, String),
    /// Do nothing before this moment: [`DeliveryEvent::TimeReached`].
    Sleep(Timestamp),
}

/// What happened to a part under way.
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryEvent {
    /// Its bytes are prepared.
    Prepared(Box<PartContent>),
    /// Its bytes can't be prepared, for this reason; these take its place, if there are any.
    NotPrepared(FailureReason, Vec<PlannedPart>),
    /// The channel answered the call.
    Answered(Result<Vec<MessageRef>, SendError>),
    /// The harmless call ended.
    ProbeEnded(Result<(), SendError>),
    /// The search ended; an error means that the channel could not look.
    SearchEnded(Result<SearchResult, SendError>),
    /// The planner answered what is sent instead.
    Replanned(ReplanOutcome),
    /// The moment has come.
    TimeReached,
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
    /// The call that is under way, or was answered last.
    attempt: Attempt,
    /// What is left to be done about doubt, after the retries that failed.
    doubt_rules: DoubtRules,
    /// The key of the channel, whatever was refused under it.
    idempotency: Idempotency,
    /// The text of a part with files, until that is refused as well.
    text_alone: Option<PartContent>,
    /// How often the channel was probed in vain.
    probes: u32,
    /// What the part fails with if the planner finds no other form.
    refusal: Option<FailureReason>,
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
    ) -> (Self, Vec<DeliveryEffect>) {
        let ChannelCapabilities { idempotency, look_up, can_edit, .. } = *capabilities;
        // Without an edit the files could never be added.
        let text_alone = text_alone(&part.content).filter(|_| can_edit);
        let mut delivery = Self {
            part,
            rules,
            attempt: Attempt::Plain,
            doubt_rules: DoubtRules { idempotency, look_up, may_resend: true },
            idempotency,
            text_alone,
            probes: 0,
            refusal: None,
        };
        let effects = match (&delivery.part.state, started_here) {
            (PartState::Sending, true) => perform(DeliveryAction::Call(Attempt::Plain)),
            (PartState::Sending, false) => {
                delivery.advance(PartEvent::Interrupted, now);
                delivery.proceed(now)
            }
            _ => delivery.proceed(now),
        };
        (delivery, effects)
    }

    /// The part as it is now.
    #[must_use]
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// Ends the delivery, for whoever settles the part.
    #[must_use]
    pub fn into_part(self) -> Part {
        self.part
    }

    /// The content that a call sends; a label is the driver's to add.
    #[must_use]
    pub fn content(&self, attempt: Attempt) -> &PartContent {
        match (attempt, &self.text_alone) {
            (Attempt::RetryText, Some(text)) => text,
            _ => &self.part.content,
        }
    }

    /// Says what is to be done after an event.
    #[must_use]
    pub fn on(&mut self, event: DeliveryEvent, now: Timestamp) -> Vec<DeliveryEffect> {
        match event {
            DeliveryEvent::TimeReached => self.proceed(now),
            DeliveryEvent::Prepared(content) => {
                // Stored with the start: until then it can be prepared again.
                self.part.content = *content;
                self.proceed(now)
            }
            DeliveryEvent::NotPrepared(reason, children) => self.replace(children, reason, now),
            DeliveryEvent::Answered(answer) => self.on_answer(answer, now),
            DeliveryEvent::ProbeEnded(Err(error)) => self.on_unreachable(error, now),
            DeliveryEvent::ProbeEnded(Ok(())) => {
                let step = next_doubt_step(&self.part, now, &self.rules, self.doubt_rules);
                self.take_doubt_step(step, now)
            }
            DeliveryEvent::SearchEnded(found) => self.on_search(found, now),
            DeliveryEvent::Replanned(outcome) => self.on_replanned(outcome, now),
        }
    }

    /// Does what the state of the part asks for at this time.
    fn proceed(&mut self, now: Timestamp) -> Vec<DeliveryEffect> {
        match next_step(&self.part, now, &self.rules) {
            DeliveryStep::Done => vec![DeliveryEffect::Settle],
            DeliveryStep::GiveUp(reason) => self.give_up(reason, now),
            DeliveryStep::Wait(until) => perform(DeliveryAction::Sleep(until)),
            DeliveryStep::Prepare => perform(DeliveryAction::Prepare),
            DeliveryStep::Start => self.start(Attempt::Plain, now),
            DeliveryStep::Probe => perform(DeliveryAction::Probe),
        }
    }

    /// Waits as long as the part's state asks for, after it was stored: what it asks for then may change it again.
    fn wait(&self, now: Timestamp) -> DeliveryEffect {
        match next_step(&self.part, now, &self.rules) {
            DeliveryStep::Wait(until) => DeliveryEffect::Perform(DeliveryAction::Sleep(until)),
            _ => DeliveryEffect::Perform(DeliveryAction::Sleep(now)),
        }
    }

    /// Commits the part as started before the call. From then on it may have arrived.
    fn start(&mut self, attempt: Attempt, now: Timestamp) -> Vec<DeliveryEffect> {
        self.attempt = attempt;
        self.advance(PartEvent::Started, now);
        vec![DeliveryEffect::Save, DeliveryEffect::Perform(DeliveryAction::Call(attempt))]
    }

    fn on_answer(&mut self, answer: Result<Vec<MessageRef>, SendError>, now: Timestamp) -> Vec<DeliveryEffect> {
        match (answer, self.attempt) {
            (Ok(messages), attempt @ (Attempt::Retry | Attempt::RetryText))
                if attempt == Attempt::RetryText || self.is_possibly_partial() =>
            {
                return self.complete(messages, now);
            }
            (answer, attempt @ (Attempt::Retry | Attempt::RetryText)) => {
                if let Err(error) = &answer {
                    self.record_failed_retry(attempt, error);
                }
                self.advance(PartEvent::RetryEnded(answer), now);
            }
            (Err(SendError::Refused { refusal, reason }), Attempt::Plain | Attempt::Complete) => {
                self.refusal = Some(FailureReason::Refused { reason: reason.clone() });
                return perform(DeliveryAction::Replan(refusal, reason));
            }
            // One file that can't be read must not take the others, or the text, with it.
            (Err(SendError::Unreadable { reason }), Attempt::Plain | Attempt::Complete)
                if has_more_than_one_file(&self.part.content) =>
            {
                self.refusal = Some(FailureReason::Unreadable { reason: reason.clone() });
                return perform(DeliveryAction::Replan(Refusal::TooLarge { limit: None }, reason));
            }
            (answer, Attempt::Plain | Attempt::Complete) => self.advance(PartEvent::AttemptEnded(answer), now),
        }
        if !self.part.state.is_settled() {
            return vec![DeliveryEffect::Record, self.wait(now)];
        }
        let has_arrived = matches!(self.part.state, PartState::Sent { .. });
        let mut effects = Vec::new();
        effects.extend((self.part.searched && has_arrived).then_some(DeliveryEffect::RemoveDuplicates));
        effects.push(DeliveryEffect::Settle);
        effects
    }

    /// Edits the message that a retry has found or made to the whole part.
    fn complete(&mut self, messages: Vec<MessageRef>, now: Timestamp) -> Vec<DeliveryEffect> {
        self.part.target = messages.into_iter().next();
        match self.part.target {
            Some(_) => {
                self.attempt = Attempt::Complete;
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
            self.text_alone = None;
        }
    }

    /// Nothing is stored: the part is in doubt already, and a restart would probe again.
    fn on_unreachable(&mut self, error: SendError, now: Timestamp) -> Vec<DeliveryEffect> {
        self.probes += 1;
        self.advance(PartEvent::StillUnreachable { error, probes: self.probes }, now);
        self.proceed(now)
    }

    fn on_search(&mut self, found: Result<SearchResult, SendError>, now: Timestamp) -> Vec<DeliveryEffect> {
        match found {
            Ok(SearchResult::Found(messages)) if self.is_possibly_partial() => {
                self.part.target = messages.into_iter().next();
                self.start(Attempt::Plain, now)
            }
            Ok(SearchResult::Found(messages)) => {
                self.advance(PartEvent::Found(messages), now);
                vec![DeliveryEffect::Settle]
            }
            Ok(SearchResult::Absent) => {
                self.advance(PartEvent::Absent, now);
                self.start(Attempt::Plain, now)
            }
            Ok(SearchResult::Uncertain)
            | Err(SendError::Forbidden { .. } | SendError::Refused { .. } | SendError::Unreadable { .. }) => {
                let step = doubt_step_without_match(&self.part, &self.rules, self.doubt_rules);
                self.take_doubt_step(step, now)
            }
            Err(error @ (SendError::NotSent { .. } | SendError::InDoubt { .. })) => self.on_unreachable(error, now),
        }
    }

    fn take_doubt_step(&mut self, step: DoubtStep, now: Timestamp) -> Vec<DeliveryEffect> {
        match step {
            DoubtStep::LookUp => perform(DeliveryAction::Search),
            // An edit is idempotent by itself and has no key.
            DoubtStep::Retry if self.part.target.is_some() => self.start(Attempt::Plain, now),
            DoubtStep::Retry => self.start(Attempt::Retry, now),
            // What the key finds by the text alone is edited to the rest.
            DoubtStep::Resend | DoubtStep::GiveUp(_) if self.can_retry_text(now) => self.start(Attempt::RetryText, now),
            DoubtStep::GiveUp(reason) => self.give_up(reason, now),
            DoubtStep::Resend => {
                self.advance(PartEvent::Relabelled, now);
                vec![DeliveryEffect::Save, DeliveryEffect::Publish, self.wait(now)]
            }
        }
    }

    /// Whether the text alone may be retried: the message that it finds or makes is not there twice, which also holds
    /// where doubt is held. It may not where nothing may be sent any more, nor with a label, which would appear in the
    /// message that it finds.
    fn can_retry_text(&self, now: Timestamp) -> bool {
        let first_attempt_at = self.part.first_attempt_at;
        let elapsed = first_attempt_at.map_or(Duration::ZERO, |first| now.saturating_duration_since(first));
        let is_allowed = self.doubt_rules.may_resend && !self.part.labelled;
        is_allowed && self.text_alone.is_some() && self.idempotency.covers(elapsed)
    }

    fn on_replanned(&mut self, outcome: ReplanOutcome, now: Timestamp) -> Vec<DeliveryEffect> {
        let Some(refusal) = self.refusal.take() else { return self.proceed(now) };
        match outcome {
            ReplanOutcome::Children(children) => self.replace(children, refusal, now),
            // As a new part: under the old key the platform would return the message that is gone.
            ReplanOutcome::SendNew if self.part.target.take().is_some() => {
                self.replace(vec![PlannedPart::new(self.part.content.clone())], refusal, now)
            }
            ReplanOutcome::GiveUp(reason) if matches!(refusal, FailureReason::Refused { .. }) => {
                self.give_up(reason, now)
            }
            ReplanOutcome::SendNew | ReplanOutcome::GiveUp(_) => self.give_up(refusal, now),
        }
    }

    /// Puts children in the part's place; without any it fails. A voice of which only the words are left is reported as
    /// failed.
    fn replace(
        &mut self,
        mut children: Vec<PlannedPart>,
        reason: FailureReason,
        now: Timestamp,
    ) -> Vec<DeliveryEffect> {
        if children.is_empty() {
            return self.give_up(reason, now);
        }
        let is_voice = |content: &PartContent| matches!(content, PartContent::Voice { .. });
        if is_voice(&self.part.content) && !children.iter().any(|child| is_voice(&child.content)) {
            children.push(PlannedPart { content: self.part.content.clone(), failure: Some(reason) });
        }
        self.advance(PartEvent::Replaced(Vec::new()), now);
        vec![DeliveryEffect::Replace(children)]
    }

    fn give_up(&mut self, reason: FailureReason, now: Timestamp) -> Vec<DeliveryEffect> {
        self.advance(PartEvent::GivenUp(reason), now);
        vec![DeliveryEffect::Settle]
    }

    fn advance(&mut self, event: PartEvent, now: Timestamp) {
        self.part = advance(&self.part, event, now, &self.rules);
    }

    /// Whether the message that a key or a search finds may show less than the part: what had been streamed by then.
    fn is_possibly_partial(&self) -> bool {
        self.part.streamed && matches!(self.part.content, PartContent::Text { .. })
    }
}

fn perform(action: DeliveryAction) -> Vec<DeliveryEffect> {
    vec![DeliveryEffect::Perform(action)]
}

fn text_alone(content: &PartContent) -> Option<PartContent> {
    match content {
        PartContent::Text { text, markup, files } if !files.is_empty() && !text.trim().is_empty() => {
            Some(PartContent::Text { text: text.clone(), markup: *markup, files: Vec::new() })
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
mod tests;
