//! The end of a part: what takes its place, the closing notice of its response, and the part that follows.

use satchel_domain::{
    Part, PartContent, PartId, PartState, Timestamp,
    delivery::DeliveryRules,
    part::{FailureReason, Operation, PlannedPart},
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

/// What stands before the notices that are repeated.
const REPEATED_HEADING: &str = "About earlier replies of mine:";

/// The longest text of several notices in bytes. One has at most 1,700, so that it still fits into one message anywhere.
const MAX_REPEATED_BYTES: usize = 1_500;

/// Returns whether a part is of a reply that has reached the person, and another message may therefore, too.
#[must_use]
pub fn shows_delivery_works(settled: &Part) -> bool {
    let is_sent = matches!(settled.state, PartState::Sent { .. });
    is_sent && settled.question.is_none() && settled.content().is_some()
}

/// Returns whether a failed notice is to be repeated: not one that somebody has decided not to send.
#[must_use]
pub fn is_repeatable(state: &PartState) -> bool {
    match state {
        PartState::Failed { reason } => !matches!(reason, FailureReason::Discarded | FailureReason::HeldBack),
        _ => false,
    }
}

/// Makes the notice that takes the place of these, oldest first, which have all failed: one message, with the newest of them,
/// which answers what the newest answers. `None` where there are none.
#[must_use]
pub fn repeated_notice(failed: &[Part], position: u32, id: PartId, now: Timestamp) -> Option<Part> {
    let newest = failed.last()?;
    let texts = failed.iter().filter_map(|part| match part.content() {
        Some(PartContent::Notice { text }) => {
            Some(text.strip_prefix(REPEATED_HEADING).map_or(text.as_str(), str::trim_start))
        }
        _ => None,
    });
    let mut length = 0;
    let mut repeated: Vec<&str> = Vec::new();
    for text in texts.rev() {
        length += text.len();
        if length > MAX_REPEATED_BYTES && !repeated.is_empty() {
            break;
        }
        repeated.push(text);
    }
    let omitted = failed.len().saturating_sub(repeated.len());
    let rest = (omitted > 0).then(|| format!("And {omitted} more of what came before."));
    let paragraphs = [REPEATED_HEADING.to_owned()].into_iter();
    let paragraphs = paragraphs.chain(repeated.into_iter().rev().map(str::to_owned)).chain(rest);
    let text = paragraphs.collect::<Vec<_>>().join("\n\n");
    Some(closing_notice(newest, text, position, id, now))
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
    use satchel_domain::{MessageRef, TurnId};

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

    fn failed_notice(number: u128, text: &str) -> Part {
        let reason = FailureReason::Forbidden { reason: "blocked".into() };
        let notice = closing_notice(&parent(), text.to_owned(), 9, PartId(Uuid::from_u128(number)), Timestamp(70));
        let reply_to = Some(MessageRef(number.to_string()));
        Part { state: PartState::Failed { reason }, turn: TurnId(Uuid::from_u128(number)), reply_to, ..notice }
    }

    /// The text of the notice that takes the place of these.
    fn repeated(failed: &[Part]) -> String {
        let notice = repeated_notice(failed, 3, PartId(Uuid::from_u128(9)), Timestamp(90)).expect("there are some");
        let newest = failed.last().expect("there are some");
        assert_eq!((notice.turn, &notice.reply_to, notice.position), (newest.turn, &newest.reply_to, 3));
        assert_eq!((notice.state, notice.created_at), (PartState::Pending, Timestamp(90)));
        match notice.operation {
            Operation::Post { content: PartContent::Notice { text } } => text,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn failed_notices_are_repeated_in_one_bounded_message() {
        assert_eq!(repeated_notice(&[], 3, PartId(Uuid::from_u128(9)), Timestamp(90)), None);
        let (one, two) = (failed_notice(4, "One."), failed_notice(5, "Two."));
        let both = repeated(&[one, two]);
        assert_eq!(both, "About earlier replies of mine:\n\nOne.\n\nTwo.");
        let once_more = repeated(&[failed_notice(6, &both), failed_notice(7, "Three.")]);
        assert_eq!(once_more, "About earlier replies of mine:\n\nOne.\n\nTwo.\n\nThree.", "under one heading");
        let many: Vec<Part> =
            (10..60).map(|number| failed_notice(number, &format!("{number} {}", "x".repeat(97)))).collect();
        let told = repeated(&many);
        assert!(told.len() < 1_700, "{}", told.len());
        assert!(told.contains("\n\n59 x") && told.ends_with("And 35 more of what came before."), "{told}");
    }

    #[test]
    fn discarded_and_held_back_notices_are_not_repeated() {
        let failed = |reason| PartState::Failed { reason };
        assert!(is_repeatable(&failed(FailureReason::Expired { reason: "429".into() })));
        assert!(is_repeatable(&failed(FailureReason::MayHaveArrived { reason: "reset".into() })));
        assert!(!is_repeatable(&failed(FailureReason::Discarded)) && !is_repeatable(&failed(FailureReason::HeldBack)));
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
