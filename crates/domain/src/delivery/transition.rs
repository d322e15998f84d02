//! How a part's state changes with what happens to it.

use std::time::Duration;

use super::{DeliveryRules, SendError};
use crate::{MessageRef, Part, PartId, PartState, Timestamp, part::FailureReason};

/// What happened to a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartEvent {
    /// It was committed as started.
    Started,
    /// An attempt ended with this result.
    AttemptEnded(Result<Vec<MessageRef>, SendError>),
    /// A retry under the same key ended with this result, or a repeat of an edit with one that may change. If it did not
    /// arrive, for whatever reason, the first send still may have.
    RetryEnded(Result<Vec<MessageRef>, SendError>),
    /// The process that started it is gone, and with it the response.
    Interrupted,
    /// A look-up found it as these messages.
    Found(Vec<MessageRef>),
    /// A look-up found that it did not arrive.
    Absent,
    /// It is to be sent again with a label: a look-up found nothing certain, or there is none.
    Relabelled,
    /// The channel can't be reached, so the doubt lasts.
    StillUnreachable {
        /// What went wrong. A wait that it names is a floor.
        error: SendError,
        /// How often it has been probed in vain, this time included.
        probes: u32,
    },
    /// Other parts take its place.
    Replaced(Vec<PartId>),
    /// It is given up.
    GivenUp(FailureReason),
}

/// How long the next labelled try waits; `None` once all were made.
pub(super) fn resend_delay(part: &Part, rules: &DeliveryRules) -> Option<Duration> {
    let index = usize::try_from(part.labelled_sends).unwrap_or(usize::MAX);
    rules.resend_delays.get(index).copied()
}

pub(super) fn doubt_reason(part: &Part) -> String {
    match &part.state {
        PartState::InDoubt { reason, .. } => reason.clone(),
        _ => "the response was lost".to_owned(),
    }
}

/// Changes a part by an event. Settled parts stay as they are.
///
/// A refusal leaves the part `Sending`: whether another form takes its place is for the caller to decide, who then
/// reports [`PartEvent::Replaced`] or [`PartEvent::GivenUp`]. A part with a label was sent before, so it fails as one
/// that may have arrived.
pub(super) fn apply(part: &mut Part, event: PartEvent, now: Timestamp, rules: &DeliveryRules) {
    if part.state.is_settled() {
        return;
    }
    part.state = match event {
        PartEvent::Started => {
            part.attempts += 1;
            part.first_attempt_at.get_or_insert(now);
            PartState::Sending
        }
        PartEvent::Found(messages) => state_after_arrival(part, messages),
        PartEvent::RetryEnded(Err(SendError::NotSent { retry_after_ms, reason })) => {
            PartState::InDoubt { until: retry_at(part, part.attempts, retry_after_ms, now, rules), reason }
        }
        PartEvent::RetryEnded(Err(
            SendError::Refused { reason, .. }
            | SendError::Forbidden { reason }
            | SendError::AccountRefused { reason }
            | SendError::Unreadable { reason },
        )) => PartState::InDoubt { until: now, reason },
        PartEvent::AttemptEnded(response) | PartEvent::RetryEnded(response) => {
            state_after_response(part, response, now, rules)
        }
        PartEvent::StillUnreachable { error, probes } => {
            let tries = part.attempts.saturating_add(probes);
            let until = retry_at(part, tries, error.retry_after_ms(), now, rules);
            PartState::InDoubt { until, reason: error.to_string() }
        }
        // Only a started part can be interrupted. It is probed immediately: the restart was delay enough.
        PartEvent::Interrupted if part.state == PartState::Sending => {
            PartState::InDoubt { until: now, reason: "interrupted while it was being sent".to_owned() }
        }
        PartEvent::Interrupted => return,
        PartEvent::Absent => {
            part.searched = true;
            PartState::Pending
        }
        PartEvent::Relabelled => {
            let (delay, reason) = (resend_delay(part, rules).unwrap_or_default(), doubt_reason(part));
            part.labelled = true;
            part.labelled_sends += 1;
            PartState::Waiting { until: now.saturating_add(delay), reason }
        }
        PartEvent::Replaced(by) => PartState::Replaced { by },
        PartEvent::GivenUp(reason) => PartState::Failed { reason },
    };
    if part.labelled {
        doubt_failure(&mut part.state);
    }
}

/// Makes the failure of a part that was sent before one of a part that may have arrived.
pub(super) fn doubt_failure(state: &mut PartState) {
    if let PartState::Failed { reason } = state
        && *reason != FailureReason::Discarded
        && !matches!(reason, FailureReason::MayHaveArrived { .. })
    {
        *reason = FailureReason::MayHaveArrived { reason: reason.to_string() };
    }
}

impl Part {
    /// Commits it as started: from here on it may have arrived.
    pub fn start(&mut self, now: Timestamp) {
        apply(self, PartEvent::Started, now, &DeliveryRules::default());
    }

    /// Reverts a start of which nothing was sent.
    pub fn revert_start(&mut self) {
        self.attempts = self.attempts.saturating_sub(1);
        self.first_attempt_at = self.first_attempt_at.filter(|_| self.attempts > 0);
    }

    /// Puts it in doubt after a call that had no usable answer.
    pub fn leave_in_doubt(&mut self, reason: String, now: Timestamp, rules: &DeliveryRules) {
        apply(self, PartEvent::AttemptEnded(Err(SendError::InDoubt { reason })), now, rules);
    }

    /// Puts it in doubt if it was started: the process that did so is gone, and with it the answer.
    pub fn interrupt(&mut self, now: Timestamp) {
        apply(self, PartEvent::Interrupted, now, &DeliveryRules::default());
    }
}

fn state_after_response(
    part: &Part,
    response: Result<Vec<MessageRef>, SendError>,
    now: Timestamp,
    rules: &DeliveryRules,
) -> PartState {
    match response {
        Ok(messages) => state_after_arrival(part, messages),
        Err(SendError::NotSent { retry_after_ms, reason }) => {
            PartState::Waiting { until: retry_at(part, part.attempts, retry_after_ms, now, rules), reason }
        }
        // Due at once, since the machine waits for the account and not for a time.
        Err(SendError::AccountRefused { reason }) => PartState::Waiting { until: now, reason },
        Err(SendError::Forbidden { reason }) => PartState::Failed { reason: FailureReason::Forbidden { reason } },
        Err(SendError::Unreadable { reason }) => PartState::Failed { reason: FailureReason::Unreadable { reason } },
        Err(SendError::Refused { .. }) => PartState::Sending,
        Err(SendError::InDoubt { reason }) => {
            PartState::InDoubt { until: now.saturating_add(backoff(part, part.attempts, rules)), reason }
        }
    }
}

/// A question stands from then on, if there is a message to close.
fn state_after_arrival(part: &Part, messages: Vec<MessageRef>) -> PartState {
    match messages.first() {
        Some(message) if part.question.is_some() && part.target().is_none() => {
            PartState::Open { message: message.clone() }
        }
        _ => PartState::Sent { messages },
    }
}

/// When a part may be retried or looked up after so many tries; the platform's requested delay is a floor.
fn retry_at(part: &Part, tries: u32, retry_after_ms: Option<u64>, now: Timestamp, rules: &DeliveryRules) -> Timestamp {
    let floor = Duration::from_millis(retry_after_ms.unwrap_or(0));
    now.saturating_add(floor.max(backoff(part, tries, rules)))
}

/// The wait after so many tries: doubled each time, with up to a quarter more so that parts that failed together don't
/// come back together. The jitter is taken from the part's id, since nothing here is random.
fn backoff(part: &Part, tries: u32, rules: &DeliveryRules) -> Duration {
    let doubled = rules.backoff.saturating_mul(1 << tries.saturating_sub(1).min(20)).min(rules.backoff_cap);
    let jitter = u32::from(part.id.0.as_bytes()[15] ^ tries.to_le_bytes()[0]);
    doubled + doubled / 4 * jitter / 255
}
