//! The decisions about a draft: the message of a reply that grows while the model writes it.
//!
//! It is a part of its running turn and never settles: the end of the turn turns it into the edit of its message, which is
//! then delivered like any part. So nothing here is tried until it succeeds; what fails stays for that edit.

use std::time::Duration;

use super::{DeliveryRules, Refusal, SendError};
use crate::{MessageRef, Part, PartState, Timestamp, capabilities::Idempotency, part::Operation};

/// What is to be done with a draft now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftStep {
    /// Make this call with the text, and answer with [`Draft::on_answer`].
    Call(DraftCall),
    /// Leave it to the end of the turn to find out whether it arrived: [`Draft::abandon`].
    Abandon,
    /// Do nothing before this moment.
    Wait(Timestamp),
    /// Do nothing until the text is another.
    Rest,
}

/// A call of the channel for a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftCall {
    /// The first send of its message.
    Send,
    /// The same once more under the part's key: an earlier process has started it and may have sent it.
    Retry,
    /// An edit of this message.
    Edit(MessageRef),
}

/// A draft under way. What isn't in the [`Part`] is learnt again after a restart.
#[derive(Debug, Clone)]
pub struct Draft {
    part: Part,
    is_taken_up: bool,
    /// The text that its message shows, as far as it is known.
    shown: String,
    /// When its message may be edited again.
    next_edit_at: Timestamp,
    /// Whether its message grows no further.
    is_frozen: bool,
}

impl Draft {
    /// Makes a draft of a part that this holder of the lane has opened and not sent yet.
    #[must_use]
    pub fn new(part: Part) -> Self {
        Self { part, is_taken_up: false, shown: String::new(), next_edit_at: Timestamp(0), is_frozen: false }
    }

    /// Takes up the draft of an earlier attempt at the turn, which may have been sent.
    #[must_use]
    pub fn take_up(part: Part) -> Self {
        Self { is_taken_up: true, ..Self::new(part) }
    }

    /// Returns the part as it is now.
    #[must_use]
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// Returns whether it may ever show more.
    #[must_use]
    pub fn can_grow(&self) -> bool {
        !self.is_frozen && matches!(self.part.state, PartState::Sending | PartState::Open { .. })
    }

    /// Says what is to be done to show this text, which is no longer than a message of the channel.
    #[must_use]
    pub fn next_step(&self, text: &str, now: Timestamp, idempotency: Idempotency) -> DraftStep {
        if !self.can_grow() || text.trim().is_empty() || text == self.shown {
            return DraftStep::Rest;
        }
        match &self.part.state {
            PartState::Sending if !self.is_taken_up => DraftStep::Call(DraftCall::Send),
            PartState::Sending if self.is_key_remembered(now, idempotency) => DraftStep::Call(DraftCall::Retry),
            // It can only be found by its key.
            PartState::Sending => DraftStep::Abandon,
            PartState::Open { .. } if now < self.next_edit_at => DraftStep::Wait(self.next_edit_at),
            PartState::Open { message } => DraftStep::Call(DraftCall::Edit(message.clone())),
            _ => DraftStep::Rest,
        }
    }

    /// Puts it in doubt; it is to be stored.
    pub fn abandon(&mut self, now: Timestamp) {
        self.part.interrupt(now);
    }

    /// Applies the channel's answer to a call that brought this text. Returns whether the part is to be stored.
    #[must_use]
    pub fn on_answer(
        &mut self,
        call: &DraftCall,
        text: &str,
        answer: Result<Vec<MessageRef>, SendError>,
        now: Timestamp,
        interval: Duration,
    ) -> bool {
        self.next_edit_at = now.saturating_add(interval);
        match call {
            DraftCall::Edit(_) => self.on_edited(text, answer, now, interval),
            DraftCall::Send | DraftCall::Retry => {
                match answer {
                    Ok(messages) => self.on_sent(text, messages, now),
                    Err(SendError::InDoubt { reason }) => self.leave_in_doubt(reason, now),
                    // This one did not arrive, but the one that it repeats may have.
                    Err(_) if *call == DraftCall::Retry => self.part.interrupt(now),
                    // It certainly did not arrive: the reply is sent as if there had been no draft.
                    Err(_) => self.part.state = PartState::Pending,
                }
                true
            }
        }
    }

    fn on_sent(&mut self, text: &str, messages: Vec<MessageRef>, now: Timestamp) {
        match messages.into_iter().next() {
            Some(message) => {
                text.clone_into(&mut self.shown);
                self.part.state = PartState::Open { message };
            }
            None => self.leave_in_doubt("it arrived as no message that can be edited".to_owned(), now),
        }
    }

    fn on_edited(
        &mut self,
        text: &str,
        answer: Result<Vec<MessageRef>, SendError>,
        now: Timestamp,
        interval: Duration,
    ) -> bool {
        match answer {
            // The call of a closed channel costs nothing; once it is open, the message grows on.
            Err(error @ (SendError::NotSent { .. } | SendError::AccountRefused { .. })) => {
                let floor = Duration::from_millis(error.retry_after_ms().unwrap_or(0));
                self.next_edit_at = now.saturating_add(interval.max(floor));
            }
            // Under its key the platform might return the message that is gone.
            Err(SendError::Refused { refusal: Refusal::TargetGone, .. }) => {
                self.part.state = PartState::Pending;
                return true;
            }
            // More text can mend its markup, and nothing else of it. The last edit meets the refusal again, and that is
            // reported.
            Err(
                SendError::Refused {
                    refusal:
                        Refusal::TooLarge { .. }
                        | Refusal::UnsupportedKind
                        | Refusal::VoiceForbidden
                        | Refusal::Item { .. }
                        | Refusal::Other,
                    ..
                }
                | SendError::Forbidden { .. }
                | SendError::Unreadable { .. },
            ) => self.is_frozen = true,
            // The last edit brings the text in any case; what went wrong with this one needn't be reported.
            Ok(_) | Err(SendError::Refused { refusal: Refusal::BadMarkup, .. } | SendError::InDoubt { .. }) => {
                text.clone_into(&mut self.shown);
            }
        }
        false
    }

    fn leave_in_doubt(&mut self, reason: String, now: Timestamp) {
        self.part.leave_in_doubt(reason, now, &DeliveryRules::default());
    }

    fn is_key_remembered(&self, now: Timestamp, idempotency: Idempotency) -> bool {
        let first_attempt_at = self.part.first_attempt_at;
        idempotency.covers(first_attempt_at.map_or(Duration::ZERO, |first| now.saturating_duration_since(first)))
    }
}

/// Ends a draft with its turn, of which `parts` are the first that is to be sent and those around it, from `position` on.
///
/// The first one takes the place of the draft if it is a text. Otherwise nothing is written over a message that stands,
/// and it is deleted before. A message that is known is edited. One that may have arrived and has no id stays in doubt,
/// without a text as a doubt that nobody resolves. One that certainly did not arrive, or is gone, is as if it had never been begun: under its key a platform might answer with
/// the one that is gone.
pub fn finish_draft(draft: &Part, parts: &mut Vec<Part>, position: u32, now: Timestamp) {
    let first = parts.iter_mut().find(|part| part.state == PartState::Pending);
    match (&draft.state, first.filter(|part| part.is_text())) {
        (PartState::Open { message }, Some(text)) => {
            *text = continue_as(text.clone(), draft).into_edit_of(message.clone());
        }
        (PartState::Open { message }, None) => {
            let operation = Operation::Delete { message: message.clone() };
            let state = PartState::Pending;
            insert_first(parts, Part { operation, state, position, created_at: now, ..draft.clone() });
        }
        // Nothing takes its place, and a look-up for another part must know that it may be there.
        (PartState::Sending | PartState::InDoubt { .. }, None) => {
            let state = PartState::Replaced { by: Vec::new() };
            insert_first(parts, Part { state, labelled: true, position, ..draft.clone() });
        }
        (PartState::Sending | PartState::InDoubt { .. }, Some(text)) => {
            let mut doubtful = draft.clone();
            doubtful.interrupt(now);
            *text = Part { state: doubtful.state, ..continue_as(text.clone(), draft) };
        }
        _ => {}
    }
}

fn insert_first(parts: &mut Vec<Part>, first: Part) {
    parts.iter_mut().for_each(|part| part.position += 1);
    parts.insert(0, first);
}

/// Makes a part of which the draft was the first attempt.
fn continue_as(part: Part, draft: &Part) -> Part {
    let (attempts, first_attempt_at) = (draft.attempts, draft.first_attempt_at);
    Part { id: draft.id, attempts, first_attempt_at, streamed: true, ..part }
}

#[cfg(test)]
pub(super) mod table;
