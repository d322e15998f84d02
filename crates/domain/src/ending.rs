//! How a turn ended, and the message that tells the person.

use serde::{Deserialize, Serialize};

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The model finished its answer.
    Done,
    /// The turn used up its model calls or tool calls.
    Budget {
        /// What was used up, in words: `25 model calls`.
        limit: String,
    },
    /// The person stopped it.
    Cancelled,
    /// The model could not be called, or stopped in the middle of its answer.
    ModelFailed {
        /// Why, in words for the person.
        reason: String,
    },
    /// The task could not be run to its end, or the agent could not begin.
    Failed {
        /// Why, as a sentence for the person.
        reason: String,
    },
    /// The process died this many times in the middle of it.
    Crashed {
        /// How many times.
        times: u32,
    },
}

impl Ending {
    /// The word for it in `--json`, logs and metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Budget { .. } => "budget",
            Self::Cancelled => "cancelled",
            Self::ModelFailed { .. } => "model_failed",
            Self::Failed { .. } => "failed",
            Self::Crashed { .. } => "crashed",
        }
    }

    /// The sentence that tells the person how the turn ended; `None` when it ended well.
    #[must_use]
    pub fn user_message(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Budget { limit } => Some(format!(
                "I stopped because this turn reached its limit of {limit}. Send me any message and I'll continue."
            )),
            Self::Cancelled => Some("Stopped, as you asked.".to_owned()),
            // Some reasons say themselves when to try again.
            Self::ModelFailed { reason } if reason.contains("try again") => {
                Some(format!("The model couldn't finish: {reason}."))
            }
            Self::ModelFailed { reason } => Some(format!("The model couldn't finish: {reason}. Please try again.")),
            Self::Failed { reason } => Some(reason.clone()),
            Self::Crashed { times } => Some(format!(
                "I crashed {times} times while working on this, so I stopped trying. Please ask again, perhaps in \
                 smaller steps."
            )),
        }
    }
}
