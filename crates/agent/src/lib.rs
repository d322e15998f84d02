//! The turn: the model is asked, its tools are run, and what they yield becomes one response, in spite of any crash.
//!
//! [`run()`] drives one turn from its queue entry to its commit. Everything that matters is journalled on the way, so
//! that the next process goes on where this one died: [`rounds`] is what is known of a turn, [`calls`] runs tools,
//! [`streaming`] shows the growing text, [`mod@complete`] folds, plans and commits.

pub mod calls;
pub mod complete;
pub mod model;
pub mod prompt;
pub mod rounds;
pub mod run;
pub mod streaming;
pub mod toolbox;

use std::{sync::Arc, time::Duration};

use satchel_ports::{
    Channel, EventBus, LanguageModel, Lease, Ledger,
    ledger::{QueuedMessage, Steering},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use crate::{run::run, toolbox::Toolbox};

/// When messages that arrive during a turn reach its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SteeringMode {
    /// Between two model calls.
    #[default]
    Inject,
    /// With the next turn; only what waits already when a turn begins is merged into it.
    Wait,
}

/// How the agent behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// What the model is told of itself.
    pub instructions: String,
    /// The most model calls of one turn.
    pub model_calls: u32,
    /// The most tool calls of one turn.
    pub tool_calls: u32,
    /// When later messages reach the model.
    pub steering: SteeringMode,
    /// How long a tool may take that names no limit of its own.
    pub tool_time: Duration,
    /// How long a model may be silent before it is given up.
    pub model_silence: Duration,
    /// How many messages of the history the model is shown.
    pub history_messages: u32,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            instructions: prompt::INSTRUCTIONS.to_owned(),
            model_calls: 25,
            tool_calls: 80,
            steering: SteeringMode::default(),
            tool_time: Duration::from_secs(120),
            model_silence: Duration::from_secs(120),
            history_messages: 200,
        }
    }
}

/// What every turn needs.
#[derive(Clone)]
pub struct Services {
    /// Where everything is recorded.
    pub ledger: Arc<dyn Ledger>,
    /// Who hears of it.
    pub bus: Arc<dyn EventBus>,
    /// Who answers.
    pub model: Arc<dyn LanguageModel>,
    /// What the model may ask for.
    pub tools: Toolbox,
    /// What the messages behind a turn ask of it.
    pub steer: fn(&[QueuedMessage]) -> Steering,
    /// How the agent behaves.
    pub settings: AgentSettings,
}

/// The lane in which a turn runs.
#[derive(Clone)]
pub struct Lane {
    /// The right to work on it.
    pub lease: Lease,
    /// Where the conversation takes place.
    pub channel: Arc<dyn Channel>,
    /// Notified when a message arrives in it.
    pub wake: Arc<Notify>,
    /// Cancelled when work is to be laid down in good order: what is in flight is finished, the rest stays in the ledger.
    pub stop: CancellationToken,
}
