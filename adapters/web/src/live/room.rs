//! The state of a conversation from events alone, which may be repeated, late, reordered or lost.

use std::collections::{BTreeSet, VecDeque};

use satchel_domain::{Button, CallId, TurnId};
use satchel_ports::BusEvent;

use super::Subscriber;
use crate::wire::ToolState;

/// The maximum size of streamed text; the rest is shown with the complete turn.
const MAX_LIVE_TEXT_BYTES: usize = 256 * 1024;

/// The maximum number of tool calls shown of a running turn.
const MAX_LIVE_CALLS: usize = 200;

/// How many ended turns are remembered, to ignore late events.
const ENDED_TURN_CACHE_SIZE: usize = 32;

/// The live state of a conversation.
#[derive(Default)]
pub(super) struct RoomState {
    /// The turn that is running.
    pub(super) live_turn: Option<LiveTurn>,
    /// The turns that may have changed.
    pub(super) dirty: BTreeSet<TurnId>,
    /// New subscribers that wait for their snapshot.
    pub(super) joining: Vec<Subscriber>,
    /// Whether a task renders it.
    pub(super) has_renderer: bool,
    ended_turns: VecDeque<TurnId>,
}

/// A turn that is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveTurn {
    pub(super) turn: TurnId,
    /// The model's messages, the one that is being streamed last.
    pub(super) messages: Vec<LiveMessage>,
    /// Whether the last message has reached the maximum size of all text; later deltas of it are dropped.
    is_full: bool,
    pub(super) tools: Vec<LiveCall>,
}

/// A message of the model in the running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveMessage {
    /// Its index among the messages of the turn.
    pub(super) number: u32,
    pub(super) text: String,
}

/// A tool that the running turn has called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveCall {
    pub(super) call: CallId,
    pub(super) tool: String,
    /// The index of the message behind which it was called, as far as it is known.
    pub(super) message: u32,
    pub(super) state: ToolState,
    /// The open question to a person, in Markdown, with its buttons.
    pub(super) question: Option<(String, Vec<Button>)>,
    /// Whether the question was decided, so that a late question event is ignored.
    is_decided: bool,
}

impl RoomState {
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
                if let Some(live_turn) = self.live_turn(*turn) {
                    live_turn.push_delta(*message, text);
                }
            }
            BusEvent::ToolStarted { call, tool, .. } => self.update_tool_call(*call, tool, ToolState::Started),
            BusEvent::ToolFinished { call, tool, failed, .. } => {
                self.update_tool_call(*call, tool, if *failed { ToolState::Failed } else { ToolState::Finished });
            }
            BusEvent::ToolQuestion { call, text, buttons, .. } => {
                if let Some(live_call) = self.live_call(*call).filter(|live_call| !live_call.is_decided) {
                    live_call.question = Some((text.clone(), buttons.clone()));
                }
            }
            BusEvent::ToolDecided { call, .. } => {
                if let Some(live_call) = self.live_call(*call) {
                    (live_call.question, live_call.is_decided) = (None, true);
                }
            }
            BusEvent::TaskStarted { turn, .. } => {
                // The texts of the tasks before it aren't part of the reply.
                if let Some(live_turn) = self.live_turn.as_mut().filter(|live_turn| live_turn.turn == *turn) {
                    live_turn.messages.clear();
                }
            }
            BusEvent::ResponseText { .. } | BusEvent::ResponseBinary { .. } => {}
        }
    }

    /// Records that a turn is complete.
    pub(super) fn on_turn_completed(&mut self, turn: TurnId) {
        if !self.ended_turns.contains(&turn) {
            self.ended_turns.push_back(turn);
            if self.ended_turns.len() > ENDED_TURN_CACHE_SIZE {
                self.ended_turns.pop_front();
            }
        }
        if self.live_turn.as_ref().is_some_and(|live_turn| live_turn.turn <= turn) {
            self.live_turn = None;
        }
    }

    /// Returns the running turn if it is this one: an ended turn isn't, and neither is an earlier one.
    fn live_turn(&mut self, turn: TurnId) -> Option<&mut LiveTurn> {
        let current = self.live_turn.as_ref().map(|live_turn| live_turn.turn);
        if self.ended_turns.contains(&turn) || current.is_some_and(|current| current > turn) {
            return None;
        }
        if current != Some(turn) {
            self.live_turn = Some(LiveTurn { turn, messages: Vec::new(), is_full: false, tools: Vec::new() });
            // Its first event: it runs now, and its files were processed.
            self.dirty.insert(turn);
        }
        self.live_turn.as_mut()
    }

    fn update_tool_call(&mut self, call: CallId, tool: &str, state: ToolState) {
        let Some(live_call) = self.live_call(call) else { return };
        if live_call.tool.is_empty() {
            tool.clone_into(&mut live_call.tool);
        }
        // A late start event doesn't change a finished call.
        live_call.state = state.max(live_call.state);
        if live_call.state != ToolState::Started {
            live_call.question = None;
            self.close_nested_questions(call);
        }
    }

    /// Closes the questions about calls that this one has made.
    fn close_nested_questions(&mut self, call: CallId) {
        let calls = self.live_turn(call.turn).into_iter().flat_map(|live_turn| &mut live_turn.tools);
        for nested in calls.filter(|nested| nested.call.is_nested_in(call)) {
            (nested.question, nested.is_decided) = (None, true);
        }
    }

    /// Returns the call of the running turn, and creates it on its first event.
    fn live_call(&mut self, call: CallId) -> Option<&mut LiveCall> {
        let live_turn = self.live_turn(call.turn)?;
        let message = live_turn.messages.last().map_or(0, |message| message.number);
        match live_turn.tools.binary_search_by_key(&call, |live_call| live_call.call) {
            Ok(at) => live_turn.tools.get_mut(at),
            Err(at) if live_turn.tools.len() < MAX_LIVE_CALLS => {
                let live_call = LiveCall {
                    call,
                    tool: String::new(),
                    message,
                    state: ToolState::Started,
                    question: None,
                    is_decided: false,
                };
                live_turn.tools.insert(at, live_call);
                live_turn.tools.get_mut(at)
            }
            Err(_) => None,
        }
    }
}

impl LiveTurn {
    fn push_delta(&mut self, message: u32, delta: &str) {
        if self.messages.last().is_none_or(|last| message > last.number) {
            // The shown text has no gaps: one that was cut off makes room for the next.
            if std::mem::take(&mut self.is_full) {
                self.messages.clear();
            }
            self.messages.push(LiveMessage { number: message, text: String::new() });
        }
        if self.is_full || self.messages.last().is_none_or(|last| last.number != message) {
            return;
        }
        while self.messages.len() > 1 && self.text_bytes() + delta.len() > MAX_LIVE_TEXT_BYTES {
            self.messages.remove(0);
        }
        self.is_full = self.text_bytes() + delta.len() > MAX_LIVE_TEXT_BYTES;
        if let Some(last) = self.messages.last_mut().filter(|_| !self.is_full) {
            last.text.push_str(delta);
        }
    }

    fn text_bytes(&self) -> usize {
        self.messages.iter().map(|message| message.text.len()).sum()
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

    fn text_of(growing: &LiveTurn) -> String {
        growing.messages.iter().map(|message| message.text.as_str()).collect::<Vec<_>>().join("|")
    }

    /// The running turn, the texts of its messages, and its tools' states.
    type Seen<'a> = Option<(u128, &'a str, &'a [ToolState])>;

    fn check(events: &[BusEvent], expected: Seen<'_>) {
        let mut state = RoomState::default();
        events.iter().for_each(|event| state.apply(event));
        let growing = state.live_turn.as_ref();
        let tools: Vec<ToolState> =
            growing.iter().flat_map(|growing| &growing.tools).map(|called| called.state).collect();
        let text = growing.map(text_of).unwrap_or_default();
        let seen = growing.map(|growing| (growing.turn.0.as_u128(), text.as_str(), tools.as_slice()));
        assert_eq!(seen, expected, "{events:?}");
    }

    #[test]
    fn late_repeated_and_reordered_events_are_harmless() {
        use ToolState::{Failed, Finished, Started};
        check(&[], None);
        check(&[delta(1, 0, "a"), delta(1, 0, "b")], Some((1, "ab", &[])));
        check(&[delta(1, 0, "a"), delta(1, 1, "b"), delta(1, 0, "c")], Some((1, "a|b", &[])));
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
        let growing = state.live_turn.as_ref().unwrap();
        assert!(growing.text_bytes() <= MAX_LIVE_TEXT_BYTES && growing.tools.len() == MAX_LIVE_CALLS);
        state.apply(&delta(1, 1, "next"));
        assert_eq!(text_of(state.live_turn.as_ref().unwrap()), "next", "what was cut off makes room");
        for message in 2..100 {
            state.apply(&delta(1, message, &piece));
            assert!(state.live_turn.as_ref().unwrap().text_bytes() <= MAX_LIVE_TEXT_BYTES);
        }
        assert!(text_of(state.live_turn.as_ref().unwrap()).ends_with(&piece), "the newest is shown");
        for number in 2..1_000 {
            let mut other = RoomState::default();
            other.apply(&completed(number));
            assert_eq!(other.ended_turns.len(), 1);
        }
    }

    #[test]
    fn calls_stand_behind_the_message_that_made_them() {
        let mut state = RoomState::default();
        let events = [
            tool(1, 0, None),
            delta(1, 0, "a"),
            tool(1, 1, None),
            tool(1, 1, Some(false)),
            delta(1, 1, "b"),
            tool(1, 2, None),
        ];
        events.iter().for_each(|event| state.apply(event));
        let calls = |state: &RoomState| -> Vec<u32> {
            state.live_turn.iter().flat_map(|live_turn| &live_turn.tools).map(|called| called.message).collect()
        };
        assert_eq!(calls(&state), [0, 0, 1]);
        let conversation = "web:a".parse().unwrap();
        state.apply(&BusEvent::TaskStarted { conversation, turn: turn(1), task: "two".into(), number: 2, total: 2 });
        assert_eq!(text_of(state.live_turn.as_ref().unwrap()), "", "the next task begins its own text");
    }

    #[test]
    fn question_stays_open_until_decided_despite_late_events() {
        let (conversation, call) =
            ("web:a".parse::<satchel_domain::ConversationId>().unwrap(), CallId { turn: turn(1), ordinal: 0 });
        let asked =
            BusEvent::ToolQuestion { conversation: conversation.clone(), call, text: "May I?".into(), buttons: vec![] };
        let decided = BusEvent::ToolDecided { conversation, call, allowed: true, text: "Allowed".into() };
        let stands = |events: &[&BusEvent]| {
            let mut state = RoomState::default();
            events.iter().for_each(|event| state.apply(event));
            state.live_turn.unwrap().tools[0].question.is_some()
        };
        let (started, finished) = (tool(1, 0, None), tool(1, 0, Some(false)));
        assert!(stands(&[&started, &asked]) && stands(&[&asked, &started]));
        assert!(!stands(&[&started, &asked, &decided]) && !stands(&[&started, &decided, &asked]));
        assert!(!stands(&[&started, &asked, &finished]));
    }
}
