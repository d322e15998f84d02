//! What a part's state asks for at a moment.

use super::DeliveryRules;
use crate::{Part, PartContent, PartState, Timestamp, part::FailureReason};

/// What is to be done with an unsettled part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeliveryStep {
    /// Prepare its bytes, then decide again.
    Prepare,
    /// Commit it as started, and send it.
    Start,
    /// Do nothing before this moment.
    Wait(Timestamp),
    /// Make a harmless call; when it succeeds, the doubt can be resolved.
    Probe,
    /// Give it up.
    GiveUp(FailureReason),
    /// Nothing until it is closed: it is a question that stands.
    Rest,
    /// Nothing: it is settled.
    Done,
}

/// Says what is to be done with a part now.
pub(super) fn next_step(part: &Part, now: Timestamp, rules: &DeliveryRules) -> DeliveryStep {
    let expires_at = part.expires_at(rules);
    let is_expired = expires_at.is_some() && now.saturating_duration_since(part.created_at) >= rules.max_age;
    match &part.state {
        state if state.is_settled() => DeliveryStep::Done,
        PartState::Open { .. } => DeliveryStep::Rest,
        PartState::Pending | PartState::Waiting { .. } if part.is_unneeded_question() => {
            DeliveryStep::GiveUp(FailureReason::NotNeeded)
        }
        PartState::InDoubt { reason, .. } if is_expired => {
            DeliveryStep::GiveUp(FailureReason::MayHaveArrived { reason: reason.clone() })
        }
        PartState::Waiting { reason, .. } if is_expired => {
            DeliveryStep::GiveUp(FailureReason::Expired { reason: reason.clone() })
        }
        PartState::Pending if is_expired => {
            DeliveryStep::GiveUp(FailureReason::Expired { reason: "it waited too long in the queue".to_owned() })
        }
        PartState::Waiting { until, .. } | PartState::InDoubt { until, .. } if now < *until => {
            DeliveryStep::Wait(expires_at.map_or(*until, |expires_at| expires_at.min(*until)))
        }
        PartState::InDoubt { .. } => DeliveryStep::Probe,
        _ if part.content().is_some_and(PartContent::needs_preparation) => DeliveryStep::Prepare,
        _ => DeliveryStep::Start,
    }
}

impl Part {
    /// When it is given up. `None` for a notice without an attempt, which is sent at any age: it reports what became of the
    /// other parts. One that a refused account has kept back is such a notice, too.
    pub(super) fn expires_at(&self, rules: &DeliveryRules) -> Option<Timestamp> {
        let is_untried = match self.state {
            PartState::Pending => true,
            PartState::Waiting { .. } => self.attempts == 0,
            _ => false,
        };
        let is_sent_at_any_age = self.is_notice() && is_untried;
        (!is_sent_at_any_age).then(|| self.created_at.saturating_add(rules.max_age))
    }

    /// Returns whether it may be started now without anything done before: nothing to prepare, no wait, no doubt.
    #[must_use]
    pub fn can_start(&self, now: Timestamp, rules: &DeliveryRules) -> bool {
        next_step(self, now, rules) == DeliveryStep::Start && self.state != PartState::Sending
    }
}
