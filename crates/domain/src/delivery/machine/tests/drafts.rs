//! The part of the simulation in which a reply grows, before its turn is complete.

use super::*;
use crate::{
    PartId,
    delivery::{Draft, DraftCall, DraftStep, finish_draft},
};

impl World {
    /// The reply grows in a draft, with deaths before and after every step, until its turn ends.
    pub(super) fn grow_draft(&mut self) {
        let mut part = Part { streamed: true, ..pending() };
        part.start(self.now);
        let opened = part.id;
        self.stored = part;
        let mut draft = Draft::new(self.stored.clone());
        for length in 1..=self.chance.below(8) {
            let text = "word ".repeat(usize::try_from(length).unwrap_or_default());
            let before = self.stored.state.clone();
            if !self.advance_draft(&mut draft, &text) || self.dies() {
                // The turn begins again, and its reply grows on in the draft that is stored.
                self.doubted |= before == PartState::Sending;
                draft = Draft::take_up(self.stored.clone());
            }
            self.now = self.now.saturating_add(Duration::from_millis(self.chance.below(4_000)));
        }
        let mut parts = vec![Part { id: PartId(uuid::Uuid::from_u128(99)), ..pending() }];
        if self.makes(Mistake::DoubtfulDraftIsForgotten) && !matches!(self.stored.state, PartState::Open { .. }) {
            self.stored.state = PartState::Pending;
        }
        finish_draft(&self.stored, &mut parts, 0, self.now);
        self.stored = parts.remove(0);
        self.stored.created_at = self.now;
        self.key = if self.stored.id == opened || self.makes(Mistake::GoneDraftKeepsItsKey) { 1 } else { 2 };
        self.doubted = matches!(self.stored.state, PartState::InDoubt { .. });
    }

    /// Does the next step of a draft; `false` if the process dies in it.
    fn advance_draft(&mut self, draft: &mut Draft, text: &str) -> bool {
        let step = draft.next_step(text, self.now, self.capabilities.idempotency);
        let is_changed = match step {
            DraftStep::Call(call) => {
                let answer = self.call_for_draft(&call);
                !self.dies() && draft.on_answer(&call, text, answer, self.now, Duration::from_secs(1))
            }
            DraftStep::Abandon => {
                draft.abandon(self.now);
                true
            }
            DraftStep::Wait(_) | DraftStep::Rest => return true,
        };
        if is_changed {
            self.stored = draft.part().clone();
        }
        is_changed || matches!(self.stored.state, PartState::Open { .. })
    }

    /// The platform's side of a call for a draft, as of [`call`](Self::call).
    fn call_for_draft(&mut self, call: &DraftCall) -> Result<Vec<MessageRef>, SendError> {
        let reason = || "scripted".to_owned();
        let chance = self.chance.below(8);
        if let DraftCall::Edit(message) = call
            && self.is_gone(message)
        {
            return Err(SendError::Refused { refusal: Refusal::TargetGone, reason: reason() });
        }
        let effect = match call {
            _ if chance > 4 => None,
            DraftCall::Edit(message) => Some(message.clone()),
            DraftCall::Send | DraftCall::Retry => Some(self.arrive_by_key(1, false, false)),
        };
        match (chance, call) {
            (0..3, _) => Ok(effect.into_iter().collect()),
            (3..6, _) => Err(SendError::InDoubt { reason: reason() }),
            (6, DraftCall::Edit(message)) => {
                self.arrivals.retain(|arrival| arrival.id != *message);
                Err(SendError::Refused { refusal: Refusal::TargetGone, reason: reason() })
            }
            (6, _) => Err(SendError::NotSent { retry_after_ms: None, reason: reason() }),
            _ => Err(SendError::Refused { refusal: Refusal::Other, reason: reason() }),
        }
    }
}
