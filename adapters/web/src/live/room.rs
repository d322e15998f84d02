//! What is known of one conversation from events alone. They may come twice, late, in any order, or not at all.

use std::collections::{BTreeSet, VecDeque};

use satchel_domain::{Button, CallId, TurnId};
use satchel_ports::BusEvent;

use super::Subscriber;
use crate::wire::ToolState;

/// The longest text that is shown while it grows; the rest comes with the turn.
const LONGEST: usize = 256 * 1024;

/// The most calls that are shown while a turn runs.
const MAX_LIVE_CALLS: usize = 200;

/// How many turns are known to have ended, so that what comes late says nothing.
const ENDED: usize = 32;

/// A conversation as events tell it.
#[derive(Default)]
pub(super) struct RoomState {
    /// The turn that is running.
    pub(super) growing: Option<LiveTurn>,
    /// The turns of which something may have changed.
    pub(super) dirty: BTreeSet<TurnId>,
    /// Who wants to be shown the conversation.
    pub(super) joining: Vec<Subscriber>,
    /// Whether a task shows it already.
    pub(super) tended: bool,
    ended: VecDeque<TurnId>,
}

/// A turn that is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveTurn {
    pub(super) turn: TurnId,
    /// Which of its model messages is being written.
    message: u32,
    pub(super) text: String,
    /// A text that was too long grows no further; pieces after a gap would be nonsense.
    full: bool,
    pub(super) tools: Vec<LiveCall>,
}

/// A tool that the running turn has called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveCall {
    pub(super) call: CallId,
    pub(super) tool: String,
    pub(super) state: ToolState,
    /// What a person is asked before it runs, in Markdown, until they have answered.
    pub(super) question: Option<(String, Vec<Button>)>,
    /// Whether the question has been answered, so that one that comes late asks nothing.
    answered: bool,
}

impl RoomState {
    /// Takes an event in.
    pub(super) fn apply(&mut self, event: &BusEvent) {
        match event {
            BusEvent::MessageReceived { turn, .. } | BusEvent::DeliveryPart { turn, .. } => {
                self.dirty.insert(*turn);
            }
            BusEvent::TurnCompleted { turn, .. } => {
                self.on_turn_completed(*turn);
                self.dirty.insert(*turn);
            }
            BusEvent::TextDelta { turn, message, text, .. } => {
                if let Some(growing) = self.live_turn(*turn) {
                    growing.write(*message, text);
                }
            }
            BusEvent::ToolStarted { call, tool, .. } => self.tool(*call, tool, ToolState::Started),
            BusEvent::ToolFinished { call, tool, failed, .. } => {
                self.tool(*call, tool, if *failed { ToolState::Failed } else { ToolState::Finished });
            }
            BusEvent::ToolQuestion { call, text, buttons, .. } => {
                if let Some(called) = self.live_call(*call).filter(|called| !called.answered) {
                    called.question = Some((text.clone(), buttons.clone()));
                }
            }
            BusEvent::ToolDecided { call, .. } => {
                if let Some(called) = self.live_call(*call) {
                    (called.question, called.answered) = (None, true);
                }
            }
            BusEvent::ResponseBinary { .. } => {}
        }
    }

    /// Notes that a turn is complete: nothing of it grows any more.
    pub(super) fn on_turn_completed(&mut self, turn: TurnId) {
        if !self.ended.contains(&turn) {
            self.ended.push_back(turn);
            if self.ended.len() > ENDED {
                self.ended.pop_front();
            }
        }
        if self.growing.as_ref().is_some_and(|growing| growing.turn <= turn) {
            self.growing = None;
        }
    }

    /// The running turn, if this is it: one that has ended isn't, and neither is one before it.
    fn live_turn(&mut self, turn: TurnId) -> Option<&mut LiveTurn> {
        let known = self.growing.as_ref().map(|growing| growing.turn);
        if self.ended.contains(&turn) || known.is_some_and(|known| known > turn) {
            return None;
        }
        if known != Some(turn) {
            self.growing = Some(LiveTurn { turn, message: 0, text: String::new(), full: false, tools: Vec::new() });
            // Its first sign of life: it runs, and its files have been looked at.
            self.dirty.insert(turn);
        }
        self.growing.as_mut()
    }

    fn tool(&mut self, call: CallId, tool: &str, state: ToolState) {
        let Some(called) = self.live_call(call) else { return };
        if called.tool.is_empty() {
            tool.clone_into(&mut called.tool);
        }
        // A start that comes after its end changes nothing.
        called.state = state.max(called.state);
        if called.state != ToolState::Started {
            called.question = None;
        }
    }

    /// The call of the running turn, whatever of it was heard first.
    fn live_call(&mut self, call: CallId) -> Option<&mut LiveCall> {
        let growing = self.live_turn(call.turn)?;
        match growing.tools.binary_search_by_key(&call, |called| called.call) {
            Ok(at) => growing.tools.get_mut(at),
            Err(at) if growing.tools.len() < MAX_LIVE_CALLS => {
                let called =
                    LiveCall { call, tool: String::new(), state: ToolState::Started, question: None, answered: false };
                growing.tools.insert(at, called);
                growing.tools.get_mut(at)
            }
            Err(_) => None,
        }
    }
}

impl LiveTurn {
    fn write(&mut self, message: u32, piece: &str) {
        if message > self.message {
            (self.message, self.full) = (message, false);
            self.text.clear();
        }
        if message == self.message && !self.full {
            self.full = self.text.len() + piece.len() > LONGEST;
            if !self.full {
                self.text.push_str(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::OutgoingResponse;
    use uuid::Uuid;

    use super::*;

    fn turn(number: u128) -> TurnId {
        TurnId(Uuid::from_u128(number))
    }

    fn delta(of: u128, message: u32, text: &str) -> BusEvent {
        BusEvent::TextDelta { conversation: "web:a".parse().unwrap(), turn: turn(of), message, text: text.into() }
    }

    fn tool(of: u128, ordinal: u32, failed: Option<bool>) -> BusEvent {
        let (conversation, call) = ("web:a".parse().unwrap(), CallId { turn: turn(of), ordinal });
        match failed {
            None => BusEvent::ToolStarted { conversation, call, tool: "t".into() },
            Some(failed) => BusEvent::ToolFinished { conversation, call, tool: "t".into(), failed },
        }
    }

    fn completed(of: u128) -> BusEvent {
        let (conversation, response) = ("web:a".parse().unwrap(), OutgoingResponse::default());
        BusEvent::TurnCompleted { conversation, turn: turn(of), ending: "done".into(), response }
    }

    /// The running turn, its text, and its tools' states.
    type Seen<'a> = Option<(u128, &'a str, &'a [ToolState])>;

    fn check(events: &[BusEvent], expected: Seen<'_>) {
        let mut state = RoomState::default();
        events.iter().for_each(|event| state.apply(event));
        let growing = state.growing.as_ref();
        let tools: Vec<ToolState> =
            growing.iter().flat_map(|growing| &growing.tools).map(|called| called.state).collect();
        let seen = growing.map(|growing| (growing.turn.0.as_u128(), growing.text.as_str(), tools.as_slice()));
        assert_eq!(seen, expected, "{events:?}");
    }

    #[test]
    fn late_repeated_and_reordered_events_are_harmless() {
        use ToolState::{Failed, Finished, Started};
        check(&[], None);
        check(&[delta(1, 0, "a"), delta(1, 0, "b")], Some((1, "ab", &[])));
        check(&[delta(1, 0, "a"), delta(1, 1, "b"), delta(1, 0, "c")], Some((1, "b", &[])));
        check(&[delta(2, 0, "a"), delta(1, 5, "b"), completed(1)], Some((2, "a", &[])));
        check(&[delta(1, 0, "a"), completed(1)], None);
        check(&[completed(1), delta(1, 0, "a"), tool(1, 0, None)], None);
        check(&[delta(1, 0, "a"), completed(2)], None);
        check(&[tool(1, 1, None), tool(1, 0, Some(true)), tool(1, 0, None)], Some((1, "", &[Failed, Started])));
        check(&[delta(1, 0, "a"), tool(1, 0, None), tool(1, 0, Some(false))], Some((1, "a", &[Finished])));
    }

    #[test]
    fn endless_text_and_tool_calls_stay_bounded() {
        let mut state = RoomState::default();
        let piece = "x".repeat(10_000);
        for ordinal in 0..1_000 {
            state.apply(&delta(1, 0, &piece));
            state.apply(&tool(1, ordinal, None));
        }
        let growing = state.growing.as_ref().unwrap();
        assert!(growing.text.len() <= LONGEST && growing.tools.len() == MAX_LIVE_CALLS);
        state.apply(&delta(1, 1, "next"));
        assert_eq!(state.growing.unwrap().text, "next", "another message begins anew");
        for number in 2..1_000 {
            let mut other = RoomState::default();
            other.apply(&completed(number));
            assert_eq!(other.ended.len(), 1);
        }
    }

    #[test]
    fn question_stays_open_until_decided_despite_late_events() {
        let (conversation, call) =
            ("web:a".parse::<satchel_domain::ConversationId>().unwrap(), CallId { turn: turn(1), ordinal: 0 });
        let asked =
            BusEvent::ToolQuestion { conversation: conversation.clone(), call, text: "May I?".into(), buttons: vec![] };
        let decided = BusEvent::ToolDecided { conversation, call, allowed: true, words: "Allowed".into() };
        let stands = |events: &[&BusEvent]| {
            let mut state = RoomState::default();
            events.iter().for_each(|event| state.apply(event));
            state.growing.unwrap().tools[0].question.is_some()
        };
        let (started, finished) = (tool(1, 0, None), tool(1, 0, Some(false)));
        assert!(stands(&[&started, &asked]) && stands(&[&asked, &started]));
        assert!(!stands(&[&started, &asked, &decided]) && !stands(&[&started, &decided, &asked]));
        assert!(!stands(&[&started, &asked, &finished]));
    }
}
