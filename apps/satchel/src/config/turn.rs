//! How far one turn may go: `turn`.

use satchel_agent::SteeringMode;
use satchel_domain::fold::InterimText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::amount::Count;

/// Limits of one turn, and what happens to messages during it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TurnConfig {
    /// The most model calls of one turn.
    pub model_calls: Count<1, 1_000>,
    /// The most tool calls of one turn.
    pub tool_calls: Count<0, 10_000>,
    /// What happens to a text that arrives during a turn. `inject`: the model reads it before its next call. `wait`: it
    /// is the next turn, as another person's text in a group always is.
    steering: Steering,
    /// What becomes of the texts that a model writes before it calls tools. `keep`: they are part of the reply, in their
    /// order. `last`: the reply is the last text alone.
    interim_text: InterimTextMode,
}

/// What happens to a text that arrives during a turn.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Steering {
    Inject,
    Wait,
}

/// What becomes of the texts before a turn's last one.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum InterimTextMode {
    Keep,
    Last,
}

impl Default for TurnConfig {
    fn default() -> Self {
        Self {
            model_calls: Count(25),
            tool_calls: Count(80),
            steering: Steering::Inject,
            interim_text: InterimTextMode::Keep,
        }
    }
}

impl TurnConfig {
    /// When messages that arrive during a turn reach its model.
    #[must_use]
    pub fn steering(&self) -> SteeringMode {
        match self.steering {
            Steering::Inject => SteeringMode::Inject,
            Steering::Wait => SteeringMode::Wait,
        }
    }

    /// What becomes of the texts that a model writes before it calls tools.
    #[must_use]
    pub fn interim_text(&self) -> InterimText {
        match self.interim_text {
            InterimTextMode::Keep => InterimText::Keep,
            InterimTextMode::Last => InterimText::Last,
        }
    }
}
