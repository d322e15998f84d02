//! How far one turn may go: `turn`.

use super::reader::Reader;

/// How far one turn may go, and what is done with what is written meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct TurnSettings {
    /// How often the model is asked at most.
    pub model_calls: u32,
    /// How many tools are called at most.
    pub tool_calls: u32,
    /// What is done with a text that comes in while the turn runs.
    pub steering: Steering,
}

/// What is done with a text that comes in while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steering {
    /// The model reads it before its next call.
    Inject,
    /// It is the next turn.
    Wait,
}

pub(super) fn read(reader: &mut Reader<'_>) -> TurnSettings {
    TurnSettings {
        model_calls: reader.count("turn.model_calls", 25, 1..=1_000),
        tool_calls: reader.count("turn.tool_calls", 80, 0..=10_000),
        steering: reader.choice("turn.steering", &[("inject", Steering::Inject), ("wait", Steering::Wait)]),
    }
}
