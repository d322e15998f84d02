//! Questions about calls: how they are opened, and how the steps of their turn close them.

use satchel_domain::{CallId, ConversationId, Part, PartContent, PartId, PartState, Timestamp, part::CallQuestion};
use satchel_ports::ledger::NewQuestion;

/// Makes a call's question, started unless a part of the lane is being delivered.
#[must_use]
pub fn open_question(
    conversation: &ConversationId,
    new: NewQuestion,
    id: PartId,
    position: u32,
    is_delivering: bool,
    now: Timestamp,
) -> Part {
    let NewQuestion { call, text, buttons, unanswered } = new;
    let content = PartContent::Question { text, buttons };
    let mut part = Part {
        question: Some(CallQuestion { call, unanswered, closing: None }),
        ..Part::new(id, conversation.clone(), call.turn, position, content, now)
    };
    if !is_delivering {
        part.start(now);
    }
    part
}

/// Closes those unsettled questions of a turn that `ends` picks, by this text or else as unanswered, and starts the edit of
/// the first unless a part of the lane is being delivered. Returns them, and whether one of them is still to be delivered.
#[must_use]
pub fn close_questions(
    unsettled: Vec<Part>,
    text: Option<&str>,
    is_delivering: bool,
    now: Timestamp,
    ends: impl Fn(CallId) -> bool,
) -> (Vec<Part>, bool) {
    let mut is_free = !is_delivering;
    let mut closed = Vec::new();
    for mut part in unsettled {
        if !part.question.as_ref().is_some_and(|question| ends(question.call)) {
            continue;
        }
        part.close_question(text.map(str::to_owned), now);
        if part.is_closing_edit() && part.state == PartState::Pending && std::mem::take(&mut is_free) {
            part.start(now);
        }
        closed.push(part);
    }
    let is_left = closed.iter().any(|part| !part.state.is_settled());
    (closed, is_left)
}

#[cfg(test)]
mod tests {
    use satchel_domain::{MessageRef, TurnId};
    use uuid::Uuid;

    use super::*;

    fn question(ordinal: u32, state: PartState) -> Part {
        let call = CallId { turn: TurnId(Uuid::from_u128(2)), ordinal };
        let new = NewQuestion { call, text: "May I?".into(), buttons: Vec::new(), unanswered: "No longer".into() };
        let conversation = "console:main".parse().expect("a conversation");
        let id = PartId(Uuid::from_u128(u128::from(ordinal)));
        Part { state, ..open_question(&conversation, new, id, ordinal, false, Timestamp(1)) }
    }

    fn open(ordinal: u32) -> Part {
        question(ordinal, PartState::Open { message: MessageRef(ordinal.to_string()) })
    }

    #[test]
    fn only_first_edit_starts() {
        let (closed, is_left) = close_questions(vec![open(1), open(2)], Some("Allowed"), false, Timestamp(9), |_| true);
        assert_eq!(closed.iter().map(|part| part.state.as_str()).collect::<Vec<_>>(), ["sending", "pending"]);
        assert!(is_left && closed.iter().all(Part::is_closing_edit));
        let (busy, _) = close_questions(vec![open(1)], None, true, Timestamp(9), |_| true);
        assert_eq!(busy[0].state, PartState::Pending);
        assert_eq!(busy[0].content(), Some(&PartContent::from_text("No longer")));
    }

    #[test]
    fn only_what_ends_is_closed() {
        let never_started = Part { attempts: 0, ..question(2, PartState::Pending) };
        let (closed, is_left) =
            close_questions(vec![open(1), never_started], None, false, Timestamp(9), |call| call.ordinal == 2);
        assert_eq!(closed.iter().map(|part| part.state.as_str()).collect::<Vec<_>>(), ["failed"]);
        assert!(!is_left, "nobody has seen it");
    }
}
