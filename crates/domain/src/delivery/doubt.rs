//! What is done about a part in doubt once its channel answers again.

use std::time::Duration;

use super::{
    DeliveryRules, OnDoubt, SendError,
    transition::{doubt_reason, resend_delay},
};
use crate::{
    Part, Timestamp,
    capabilities::{Idempotency, LookupRule},
    part::FailureReason,
};

/// How a part in doubt can be resolved on its channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DoubtRules {
    /// What keeps a retry from arriving twice.
    pub(super) idempotency: Idempotency,
    /// How a send in doubt can be looked up.
    pub(super) look_up: LookupRule,
    /// Whether sending it again, with a label, may help.
    pub(super) may_resend: bool,
}

impl DoubtRules {
    /// Returns the rules that are left after a retry failed with this error. A refusal says nothing about the first
    /// send, and another retry would be refused again.
    pub(super) fn after_failed_retry(self, error: &SendError) -> Self {
        match error {
            SendError::NotSent { .. } | SendError::InDoubt { .. } | SendError::AccountRefused { .. } => self,
            SendError::Refused { .. } | SendError::Unreadable { .. } => Self { idempotency: Idempotency::None, ..self },
            SendError::Forbidden { .. } => Self { idempotency: Idempotency::None, may_resend: false, ..self },
        }
    }
}

/// The next step for a part in doubt once the channel responds again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DoubtStep {
    /// Retry it as it is: it can't arrive twice.
    Retry,
    /// Look for it; what follows without certainty says [`doubt_step_without_match`].
    LookUp,
    /// Label it, and start it once its delay is over.
    Resend,
    /// Give it up as "may have arrived".
    GiveUp(FailureReason),
}

/// Returns the next step for a part in doubt once the channel responds again.
pub(super) fn next_doubt_step(
    part: &Part,
    now: Timestamp,
    rules: &DeliveryRules,
    doubt_rules: DoubtRules,
) -> DoubtStep {
    let idempotent_by_nature = part.target().is_some();
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
pub(super) fn doubt_step_without_match(part: &Part, rules: &DeliveryRules, doubt_rules: DoubtRules) -> DoubtStep {
    let has_resends_left = resend_delay(part, rules).is_some();
    if !has_resends_left || !doubt_rules.may_resend || rules.on_doubt == OnDoubt::Hold {
        return DoubtStep::GiveUp(FailureReason::MayHaveArrived { reason: doubt_reason(part) });
    }
    DoubtStep::Resend
}
