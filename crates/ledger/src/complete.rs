//! The end of a turn: the parts of its reply, and whether the first one starts with the commit.

use satchel_domain::{
    ConversationId, MessageRef, Part, PartContent, PartId, PartState, Timestamp, TurnId, delivery::finish_draft,
    part::Plan,
};
use uuid::Uuid;

/// An incomplete turn, as far as its end goes by it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IncompleteTurn {
    /// Its draft.
    pub draft: Option<Part>,
    /// Whether a part of the lane is unsettled for which others wait.
    pub is_busy: bool,
    /// The place behind all of its parts but the draft.
    pub next_position: u32,
}

/// Makes the parts of a plan, the first text in the place of the draft.
#[must_use]
pub fn reply_parts(
    conversation: &ConversationId,
    turn: TurnId,
    plan: Plan,
    reply_to: Option<&MessageRef>,
    incomplete: &IncompleteTurn,
    next_id: &mut dyn FnMut() -> Uuid,
    now: Timestamp,
) -> Vec<Part> {
    let mut parts = Vec::with_capacity(plan.parts.len());
    for (position, planned) in (incomplete.next_position..).zip(plan.parts) {
        parts.push(Part {
            state: planned.failure.map_or(PartState::Pending, |reason| PartState::Failed { reason }),
            reply_to: reply_to.cloned(),
            ..Part::new(PartId(next_id()), conversation.clone(), turn, position, planned.content, now)
        });
    }
    if let Some(draft) = &incomplete.draft {
        finish_draft(draft, &mut parts, incomplete.next_position, now);
    }
    parts
}

/// Starts the first part that is to be sent, where nothing else of the lane is under way. One that needs preparation is
/// not started, and neither is one in doubt nor anything behind it.
pub fn start_first(parts: &mut [Part], now: Timestamp) {
    if let Some(first) = parts.iter_mut().find(|part| !part.state.is_settled())
        && first.state == PartState::Pending
        && !first.content().is_some_and(PartContent::needs_preparation)
    {
        first.start(now);
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::part::{FailureReason, Operation, PlannedPart};

    use super::*;

    const NOW: Timestamp = Timestamp(9);

    fn text(text: &str) -> PlannedPart {
        PlannedPart::new(PartContent::from_text(text))
    }

    fn voice() -> PlannedPart {
        PlannedPart::new(PartContent::Voice {
            text: "hello".into(),
            in_text: false,
            prepared: None,
            as_file: false,
            caption: String::new(),
        })
    }

    fn draft(state: PartState) -> Part {
        let (id, turn) = (PartId(Uuid::from_u128(50)), TurnId(Uuid::from_u128(2)));
        let conversation = "console:main".parse().expect("a conversation");
        let part = Part::new(id, conversation, turn, 0, PartContent::from_text(""), Timestamp(1));
        Part { state, attempts: 1, first_attempt_at: Some(Timestamp(2)), streamed: true, ..part }
    }

    fn parts(planned: Vec<PlannedPart>, incomplete: IncompleteTurn) -> Vec<Part> {
        let mut ids = 0;
        let mut next_id = || {
            ids += 1;
            Uuid::from_u128(ids)
        };
        let conversation = "console:main".parse().expect("a conversation");
        let reply_to = MessageRef("7".into());
        let turn = TurnId(Uuid::from_u128(2));
        let plan = Plan { parts: planned };
        let mut parts = reply_parts(&conversation, turn, plan, Some(&reply_to), &incomplete, &mut next_id, NOW);
        if !incomplete.is_busy {
            start_first(&mut parts, NOW);
        }
        parts
    }

    fn states(parts: &[Part]) -> Vec<&'static str> {
        parts.iter().map(|part| part.state.as_str()).collect()
    }

    #[test]
    fn first_part_to_be_sent_is_started() {
        let too_large = PlannedPart { failure: Some(FailureReason::TooLarge { limit: 1 }), ..text("a") };
        let planned = vec![too_large, text("b"), text("c")];
        let made = parts(planned.clone(), IncompleteTurn { next_position: 3, ..IncompleteTurn::default() });
        assert_eq!(states(&made), ["failed", "sending", "pending"]);
        assert_eq!(made.iter().map(|part| part.position).collect::<Vec<_>>(), [3, 4, 5], "behind its questions");
        assert_eq!((made[1].attempts, made[1].first_attempt_at), (1, Some(NOW)));
        let busy = parts(planned, IncompleteTurn { is_busy: true, ..IncompleteTurn::default() });
        assert_eq!(states(&busy), ["failed", "pending", "pending"]);
        assert_eq!(states(&parts(vec![voice(), text("a")], IncompleteTurn::default())), ["pending", "pending"]);
    }

    #[test]
    fn first_text_continues_draft() {
        let incomplete = |state| IncompleteTurn { draft: Some(draft(state)), ..IncompleteTurn::default() };
        let open = PartState::Open { message: MessageRef("m1".into()) };
        let edited = parts(vec![text("a"), text("b")], incomplete(open.clone()));
        assert_eq!((edited[0].id.0.as_u128(), edited[0].attempts), (50, 2));
        assert_eq!((edited[0].target(), states(&edited)), (Some(&MessageRef("m1".into())), vec!["sending", "pending"]));

        let doubtful = parts(vec![text("a"), text("b")], incomplete(PartState::Sending));
        assert_eq!((doubtful[0].id.0.as_u128(), states(&doubtful)), (50, vec!["in_doubt", "pending"]));

        let gone = parts(vec![text("a")], incomplete(PartState::Pending));
        assert_eq!(
            (gone[0].id.0.as_u128(), gone[0].attempts, gone[0].streamed),
            (1, 1, false),
            "under a key of its own"
        );

        let without_text = parts(vec![voice()], incomplete(open));
        let deletion = Operation::Delete { message: MessageRef("m1".into()) };
        assert_eq!((&without_text[0].operation, states(&without_text)), (&deletion, vec!["sending", "pending"]));
        let unknown = parts(vec![voice()], incomplete(PartState::Sending));
        assert_eq!(states(&unknown), ["replaced", "pending"], "nobody knows what to delete, and the doubt stays");
    }
}
