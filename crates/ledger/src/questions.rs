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
    let content = PartContent::question(text, buttons);
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

/// Closes a question that stands in a reply, by an edit which takes its buttons away; one that was never started is not
/// sent. Returns whether there was anything to close: not where it is under way, nor where nobody knows as what it stands.
#[must_use]
pub fn close_reply_question(part: &mut Part, closing: String, now: Timestamp) -> bool {
    if part.question.is_some() || !matches!(part.content(), Some(PartContent::Question { .. })) {
        return false;
    }
    match &part.state {
        PartState::Pending if part.attempts == 0 => {}
        PartState::Sent { messages } => match messages.last() {
            Some(message) => part.state = PartState::Open { message: message.clone() },
            None => return false,
        },
        _ => return false,
    }
    // A turn that is answered by Satchel itself calls no tools.
    let call = CallId { turn: part.turn, ordinal: 0 };
    part.question = Some(CallQuestion { call, unanswered: closing.clone(), closing: None });
    part.close_question(Some(closing), now);
    true
}

/// The text that takes the place of a reply's question: what was asked, without its last paragraph, which says how to
/// answer, and the answer.
#[must_use]
pub fn answer_text(question: &str, answer: &str) -> String {
    let asked = question.rsplit_once("\n\n").map_or(question, |(asked, _)| asked);
    format!("{asked}\n\n**{answer}**")
}

#[cfg(test)]
mod tests {
    use satchel_domain::{MessageRef, TurnId, part::FailureReason};
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

    /// Catches: buttons that stay; a question that is sent though nobody needs its answer; one under way that is lost.
    #[test]
    fn question_of_reply_becomes_edit_without_buttons() {
        let (id, turn) = (PartId(Uuid::from_u128(1)), TurnId(Uuid::from_u128(2)));
        let content = PartContent::question("May I?\n\nPress a button.", Vec::new());
        let conversation = "console:main".parse().expect("a conversation");
        let asked = Part::new(id, conversation, turn, 0, content, Timestamp(1));
        let close = |state, attempts| {
            let mut part = Part { state, attempts, ..asked.clone() };
            let closing = answer_text("May I?\n\nPress a button.", "Yes");
            (close_reply_question(&mut part, closing, Timestamp(9)), part)
        };
        let (is_closed, part) = close(PartState::Sent { messages: vec![MessageRef("m".into())] }, 2);
        assert!(is_closed && part.is_closing_edit());
        assert_eq!((part.target(), &part.state), (Some(&MessageRef("m".into())), &PartState::Pending));
        assert_eq!(part.content(), Some(&PartContent::from_text("May I?\n\n**Yes**")));
        assert_eq!((part.attempts, part.created_at), (0, Timestamp(9)));
        let mut again = part.clone();
        assert!(
            !close_reply_question(&mut again, "No".into(), Timestamp(10)) && again == part,
            "the first answer counts"
        );

        let (is_closed, unsent) = close(PartState::Pending, 0);
        assert!(is_closed && unsent.state == PartState::Failed { reason: FailureReason::NotNeeded });
        for (state, attempts) in [(PartState::Sending, 1), (PartState::Sent { messages: Vec::new() }, 1)] {
            assert!(!close(state, attempts).0);
        }
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
