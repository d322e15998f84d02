//! The end of a part: what takes its place, the closing notice of its response, and the part that follows.

use satchel_domain::{
    Part, PartContent, PartId, PartState, Timestamp,
    delivery::DeliveryRules,
    part::{Operation, PlannedPart},
};
use uuid::Uuid;

/// Makes the parts that stand where their parent stood: behind it and before whatever followed it.
///
/// They keep its age, so that a chain of replacements ends as any wait does. The first one takes over its message, if it is
/// a text.
#[must_use]
pub fn replacements(parent: &Part, children: &[PlannedPart], next_id: &mut dyn FnMut() -> Uuid) -> Vec<Part> {
    let first = parent.position.saturating_add(1);
    let child = |(position, planned): (u32, &PlannedPart)| {
        let takes_message = position == first && matches!(planned.content, PartContent::Text { .. });
        let message = parent.target().filter(|_| takes_message).cloned();
        Part {
            id: PartId(next_id()),
            position,
            operation: Operation::show(planned.content.clone(), message),
            state: planned.failure.clone().map_or(PartState::Pending, |reason| PartState::Failed { reason }),
            attempts: 0,
            first_attempt_at: None,
            streamed: false,
            searched: false,
            ..parent.clone()
        }
    };
    (first..).zip(children).map(child).collect()
}

/// Makes the closing notice of a response of which this part failed.
#[must_use]
pub fn closing_notice(failed: &Part, text: String, position: u32, id: PartId, now: Timestamp) -> Part {
    let content = PartContent::Notice { text };
    let notice = Part::new(id, failed.conversation.clone(), failed.turn, position, content, now);
    Part { reply_to: failed.reply_to.clone(), ..notice }
}

/// Starts the lane's next part if it may be. Returns whether it has changed.
#[must_use]
pub fn start_next(next: &mut Part, rules: &DeliveryRules, now: Timestamp) -> bool {
    if next.can_start(now, rules) {
        next.start(now);
        return true;
    }
    // Whoever started it is gone: a holder sends one part at a time, and has just settled that one.
    let is_left_behind = next.state == PartState::Sending;
    next.interrupt(now);
    is_left_behind
}

#[cfg(test)]
mod tests {
    use satchel_domain::{MessageRef, TurnId, part::FailureReason};

    use super::*;

    fn parent() -> Part {
        let (id, turn) = (PartId(Uuid::from_u128(1)), TurnId(Uuid::from_u128(2)));
        let conversation = "console:main".parse().expect("a conversation");
        let part = Part::new(id, conversation, turn, 4, PartContent::from_text("a"), Timestamp(5));
        Part { state: PartState::Sending, attempts: 3, labelled: true, streamed: true, searched: true, ..part }
    }

    #[test]
    fn children_inherit_age_and_label() {
        let text = PlannedPart::new(PartContent::from_text("b"));
        let refused = PlannedPart { failure: Some(FailureReason::Discarded), ..text.clone() };
        let edited = parent().into_edit_of(MessageRef("m".into()));
        let mut ids = (10..).map(Uuid::from_u128);
        let made = replacements(&edited, &[text, refused], &mut || ids.next().expect("there are more"));
        let facts = |part: &Part| (part.id.0.as_u128(), part.position, part.target().is_some(), part.state.as_str());
        assert_eq!(made.iter().map(facts).collect::<Vec<_>>(), [(10, 5, true, "pending"), (11, 6, false, "failed")]);
        let first = &made[0];
        assert_eq!((first.created_at, first.labelled, first.attempts), (Timestamp(5), true, 0));
        assert!(!first.streamed && !first.searched && first.first_attempt_at.is_none());
    }

    #[test]
    fn notice_has_an_age_of_its_own_and_no_label() {
        let notice = closing_notice(&parent(), "0 of 1".into(), 9, PartId(Uuid::from_u128(3)), Timestamp(70));
        assert_eq!((notice.position, notice.created_at, notice.labelled), (9, Timestamp(70), false));
        assert!(notice.is_notice() && notice.state == PartState::Pending);
    }

    #[test]
    fn next_part_starts_unless_waiting_or_in_doubt() {
        let rules = DeliveryRules::default();
        let after = |state| {
            let mut next = Part { state, ..parent() };
            let is_changed = start_next(&mut next, &rules, Timestamp(6));
            (next.state.as_str(), is_changed)
        };
        assert_eq!(after(PartState::Pending), ("sending", true));
        assert_eq!(after(PartState::Waiting { until: Timestamp(7), reason: "429".into() }), ("waiting", false));
        assert_eq!(after(PartState::Sending), ("in_doubt", true));
    }
}
