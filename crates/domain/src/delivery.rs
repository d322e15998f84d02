//! The part's state machine: what a response of the channel means and what to do next.
//!
//! Pure: the loop in `routing` performs what [`Delivery`] says and feeds back what happened.
//! Whatever happens in whatever order, a part ends settled, because [`DeliveryRules::max_age`] ends every wait.

mod machine;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    MessageRef, Part, PartContent, PartState, Timestamp,
    capabilities::{Idempotency, LookupRule},
    part::FailureReason,
};

pub use self::machine::{
    Attempt, Continuation, Delivery, DeliveryAction, DeliveryEffect, DeliveryEvent, DeliveryPlan, ReplanOutcome,
    SearchResult,
};

/// The form of a refusal, from which follows what is tried instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The request or a file in it is too large.
    TooLarge {
        /// The limit in bytes, where the platform tells it.
        limit: Option<u64>,
    },
    /// The file can't be sent in this form. Stored as `wrong_kind`.
    #[serde(rename = "wrong_kind")]
    UnsupportedKind,
    /// The text's markup can't be read.
    BadMarkup,
    /// Voice messages are forbidden here.
    VoiceForbidden,
    /// The message to edit is gone.
    TargetGone,
    /// One file of several is at fault.
    Item {
        /// Its place in the part, from 0.
        index: usize,
    },
    /// Something else that sending the same again can't mend.
    Other,
}

/// Why a send has no message ids to show. The adapter classifies; nothing else does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum SendError {
    /// It certainly did not arrive, and may later: a rate limit, no connection.
    #[error("not sent: {reason}")]
    NotSent {
        /// The platform's own wait in milliseconds, which is a floor.
        retry_after_ms: Option<u64>,
        /// What went wrong.
        reason: String,
    },
    /// It did not arrive and won't in this form.
    #[error("refused: {reason}")]
    Refused {
        /// What is wrong with it.
        refusal: Refusal,
        /// The platform's words.
        reason: String,
    },
    /// It did not arrive and never will.
    #[error("not allowed: {reason}")]
    Forbidden {
        /// The platform's words.
        reason: String,
    },
    /// The bytes of a file can't be read; nothing was sent.
    #[error("unreadable: {reason}")]
    Unreadable {
        /// Why.
        reason: String,
    },
    /// The request was written, and no usable response came.
    #[error("in doubt: {reason}")]
    InDoubt {
        /// What happened instead of a response.
        reason: String,
    },
}

impl SendError {
    /// Returns the platform's requested delay, if there is one.
    fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::NotSent { retry_after_ms, .. } => *retry_after_ms,
            Self::InDoubt { .. } | Self::Refused { .. } | Self::Forbidden { .. } | Self::Unreadable { .. } => None,
        }
    }
}

/// What an operator decides about doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    /// Send it again, labelled as a possible duplicate.
    #[default]
    Resend,
    /// Give it up as "may have arrived" and go on.
    Hold,
}

/// The numbers by which parts are retried and given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRules {
    /// The age at which a part is given up: a day by default.
    pub max_age: Duration,
    /// What is done about doubt where the channel has no key.
    pub on_doubt: OnDoubt,
    /// The first delay before a part is retried, half a second by default; each further one doubles.
    pub backoff: Duration,
    /// The longest wait that doubling leads to: a minute by default.
    pub backoff_cap: Duration,
    /// The waits before a doubtful part is sent with a label: one for each try, after which it is given up.
    pub resend_delays: [Duration; 3],
    /// The delay after a retried upload before a late duplicate is looked up.
    pub late_duplicate_delay: Duration,
}

impl Default for DeliveryRules {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(24 * 60 * 60),
            on_doubt: OnDoubt::default(),
            backoff: Duration::from_millis(500),
            backoff_cap: Duration::from_secs(60),
            resend_delays: [Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(3 * 60)],
            late_duplicate_delay: Duration::from_secs(10 * 60),
        }
    }
}

/// How a part in doubt can be resolved on its channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DoubtRules {
    /// What keeps a retry from arriving twice.
    idempotency: Idempotency,
    /// How a send in doubt can be looked up.
    look_up: LookupRule,
    /// Whether sending it again, with a label, may help.
    may_resend: bool,
}

impl DoubtRules {
    /// Returns the rules that are left after a retry failed with this error. A refusal says nothing about the first
    /// send, and another retry would be refused again.
    fn after_failed_retry(self, error: &SendError) -> Self {
        match error {
            SendError::NotSent { .. } | SendError::InDoubt { .. } => self,
            SendError::Refused { .. } | SendError::Unreadable { .. } => Self { idempotency: Idempotency::None, ..self },
            SendError::Forbidden { .. } => Self { idempotency: Idempotency::None, may_resend: false, ..self },
        }
    }
}

/// What is to be done with an unsettled part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryStep {
    /// Prepare its bytes, then decide again.
    Prepare,
    /// Commit it as started ([`PartEvent::Started`]) and send it.
    Start,
    /// Do nothing before this moment.
    Wait(Timestamp),
    /// Make a harmless call; when it succeeds, the doubt can be resolved.
    Probe,
    /// Give it up ([`PartEvent::GivenUp`]).
    GiveUp(FailureReason),
    /// Nothing: it is settled.
    Done,
}

/// The next step for a part in doubt once the channel responds again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DoubtStep {
    /// Retry it as it is: it can't arrive twice.
    Retry,
    /// Look for it: what is found is [`PartEvent::Found`], what is certainly missing [`PartEvent::Absent`]; without
    /// certainty see [`doubt_step_without_match`].
    LookUp,
    /// Label it ([`PartEvent::Relabelled`]), and start it once its delay is over.
    Resend,
    /// Give it up as "may have arrived".
    GiveUp(FailureReason),
}

/// What happened to a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartEvent {
    /// It was committed as started.
    Started,
    /// An attempt ended with this result.
    AttemptEnded(Result<Vec<MessageRef>, SendError>),
    /// A retry under the same key ended with this result. If the retry did not arrive, for whatever reason, the first
    /// send still may have.
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
    Replaced(Vec<crate::PartId>),
    /// It is given up.
    GivenUp(FailureReason),
}

/// Says what is to be done with a part now.
#[must_use]
pub fn next_step(part: &Part, now: Timestamp, rules: &DeliveryRules) -> DeliveryStep {
    let is_expired = now.saturating_duration_since(part.created_at) >= rules.max_age;
    match &part.state {
        state if state.is_settled() => DeliveryStep::Done,
        PartState::InDoubt { reason, .. } if is_expired => {
            DeliveryStep::GiveUp(FailureReason::MayHaveArrived { reason: reason.clone() })
        }
        PartState::Waiting { reason, .. } if is_expired => {
            DeliveryStep::GiveUp(FailureReason::Expired { reason: reason.clone() })
        }
        // A notice without an attempt is sent at any age: it reports what became of the other parts.
        PartState::Pending if is_expired && !matches!(part.content, PartContent::Notice { .. }) => {
            DeliveryStep::GiveUp(FailureReason::Expired { reason: "it waited too long in the queue".to_owned() })
        }
        PartState::Waiting { until, .. } | PartState::InDoubt { until, .. } if now < *until => {
            DeliveryStep::Wait((*until).min(part.created_at.saturating_add(rules.max_age)))
        }
        PartState::InDoubt { .. } => DeliveryStep::Probe,
        _ if part.content.needs_preparation() => DeliveryStep::Prepare,
        _ => DeliveryStep::Start,
    }
}

/// Returns the next step for a part in doubt once the channel responds again.
fn next_doubt_step(part: &Part, now: Timestamp, rules: &DeliveryRules, doubt_rules: DoubtRules) -> DoubtStep {
    let idempotent_by_nature = part.target.is_some() || part.content == PartContent::Withdraw;
    let elapsed = part.first_attempt_at.map_or(Duration::ZERO, |first| now.saturating_duration_since(first));
    if idempotent_by_nature || doubt_rules.idempotency.covers(elapsed) {
        return DoubtStep::Retry;
    }
    match doubt_rules.look_up {
        LookupRule::MessageIds => DoubtStep::LookUp,
        // Of a part that was sent with and without a label there is no single match.
        LookupRule::History if !part.labelled => DoubtStep::LookUp,
        LookupRule::History | LookupRule::None => doubt_step_without_match(part, rules, doubt_rules),
    }
}

/// Says what is done when a look-up found nothing certain, or there is none.
fn doubt_step_without_match(part: &Part, rules: &DeliveryRules, doubt_rules: DoubtRules) -> DoubtStep {
    let has_resends_left = resend_delay(part, rules).is_some();
    if !has_resends_left || !doubt_rules.may_resend || rules.on_doubt == OnDoubt::Hold {
        return DoubtStep::GiveUp(FailureReason::MayHaveArrived { reason: doubt_reason(part) });
    }
    DoubtStep::Resend
}

/// How long the next labelled try waits; `None` once all were made.
fn resend_delay(part: &Part, rules: &DeliveryRules) -> Option<Duration> {
    let index = usize::try_from(part.labelled_sends).unwrap_or(usize::MAX);
    rules.resend_delays.get(index).copied()
}

fn doubt_reason(part: &Part) -> String {
    match &part.state {
        PartState::InDoubt { reason, .. } => reason.clone(),
        _ => "the response was lost".to_owned(),
    }
}

/// The part after an event. Settled parts stay as they are.
///
/// A refusal leaves the part `Sending`: whether another form takes its place is for the caller to decide, who then
/// reports [`PartEvent::Replaced`] or [`PartEvent::GivenUp`]. A part with a label was sent before, so it fails as one
/// that may have arrived.
#[must_use]
pub fn advance(part: &Part, event: PartEvent, now: Timestamp, rules: &DeliveryRules) -> Part {
    let mut next = part.clone();
    if part.state.is_settled() {
        return next;
    }
    next.state = match event {
        PartEvent::Started => {
            next.attempts += 1;
            next.first_attempt_at.get_or_insert(now);
            PartState::Sending
        }
        PartEvent::Found(messages) => PartState::Sent { messages },
        PartEvent::RetryEnded(Err(SendError::NotSent { retry_after_ms, reason })) => {
            PartState::InDoubt { until: retry_at(part, part.attempts, retry_after_ms, now, rules), reason }
        }
        PartEvent::RetryEnded(Err(
            SendError::Refused { reason, .. } | SendError::Forbidden { reason } | SendError::Unreadable { reason },
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
        PartEvent::Interrupted => part.state.clone(),
        PartEvent::Absent => {
            next.searched = true;
            PartState::Pending
        }
        PartEvent::Relabelled => {
            next.labelled = true;
            next.labelled_sends += 1;
            let delay = resend_delay(part, rules).unwrap_or_default();
            PartState::Waiting { until: now.saturating_add(delay), reason: doubt_reason(part) }
        }
        PartEvent::Replaced(by) => PartState::Replaced { by },
        PartEvent::GivenUp(reason) => PartState::Failed { reason },
    };
    if let PartState::Failed { reason } = &mut next.state
        && part.labelled
        && *reason != FailureReason::Discarded
        && !matches!(reason, FailureReason::MayHaveArrived { .. })
    {
        *reason = FailureReason::MayHaveArrived { reason: reason.to_string() };
    }
    next
}

fn state_after_response(
    part: &Part,
    response: Result<Vec<MessageRef>, SendError>,
    now: Timestamp,
    rules: &DeliveryRules,
) -> PartState {
    match response {
        Ok(messages) => PartState::Sent { messages },
        Err(SendError::NotSent { retry_after_ms, reason }) => {
            PartState::Waiting { until: retry_at(part, part.attempts, retry_after_ms, now, rules), reason }
        }
        Err(SendError::Forbidden { reason }) => PartState::Failed { reason: FailureReason::Forbidden { reason } },
        Err(SendError::Unreadable { reason }) => PartState::Failed { reason: FailureReason::Unreadable { reason } },
        Err(SendError::Refused { .. }) => PartState::Sending,
        Err(SendError::InDoubt { reason }) => {
            PartState::InDoubt { until: now.saturating_add(backoff(part, part.attempts, rules)), reason }
        }
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

#[cfg(test)]
mod tests;
