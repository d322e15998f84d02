//! The turn: the model is asked, its tools are run, and what they yield becomes one response, in spite of any crash.
//!
//! [`run()`] drives one turn from its queue entry to its commit. Everything that matters is journalled on the way, so
//! that the next process goes on where this one died: [`rounds`] is what is known of a turn, [`calls`] runs tools,
//! [`mod@confirm`] asks a person first, [`streaming`] shows the growing text, [`mod@complete`] folds, plans and commits.

pub mod calls;
pub mod complete;
pub mod confirm;
pub mod heading;
pub mod model;
mod nested;
pub mod prompt;
mod question;
pub mod rounds;
pub mod run;
mod script_turn;
pub mod streaming;
pub mod toolbox;
mod voice_notes;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use jiff::tz::TimeZone;
use satchel_domain::{ChannelName, ConversationId, Sender, delivery::OnDoubt};
use satchel_ports::{
    Channel, EventBus, FileLinks, LanguageModel, Lease, Ledger, SafetyTier,
    ledger::{QueuedMessage, SteeringRequests},
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
    /// What the model is told of itself: Satchel's own part, and what [`prompt::add_instructions`] puts behind it.
    pub instructions: String,
    /// By whose clocks the model is told when a message was sent.
    pub time_zone: TimeZone,
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
    /// The tiers whose calls a person must allow.
    pub confirm: Vec<SafetyTier>,
    /// How long a person may take to allow a call.
    pub confirm_time: Duration,
    /// What is done with a question of which nobody knows whether it arrived.
    pub on_doubt: OnDoubt,
    /// Whether privileged tools may be used where others can read along.
    pub privileged_in_groups: bool,
    /// Whether a script that is itself the message needs no more words: whoever writes here has given theirs.
    pub trust_written_scripts: bool,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            instructions: prompt::INSTRUCTIONS.to_owned(),
            time_zone: TimeZone::UTC,
            model_calls: 25,
            tool_calls: 80,
            steering: SteeringMode::default(),
            tool_time: Duration::from_secs(120),
            model_silence: Duration::from_secs(120),
            history_messages: 200,
            confirm: vec![SafetyTier::Privileged],
            confirm_time: Duration::from_secs(10 * 60),
            on_doubt: OnDoubt::Resend,
            privileged_in_groups: false,
            trust_written_scripts: false,
        }
    }
}

/// Whether somebody owns this Satchel, on the channel where they write.
pub type OwnerCheck = Arc<dyn Fn(&ChannelName, &Sender) -> bool + Send + Sync>;

/// Whether an owner alone reads a conversation, as far as its id tells.
pub type IsOwnersChat = Arc<dyn Fn(&ConversationId) -> bool + Send + Sync>;

/// Decides what the messages behind a turn ask of it.
pub type Steer = Arc<dyn Fn(&[QueuedMessage]) -> SteeringRequests + Send + Sync>;

/// What every turn needs.
#[derive(Clone)]
pub struct AgentServices {
    /// Where everything is recorded.
    pub ledger: Arc<dyn Ledger>,
    /// Who hears of it.
    pub bus: Arc<dyn EventBus>,
    pub model: Arc<dyn LanguageModel>,
    /// What the model may ask for.
    pub tools: Toolbox,
    /// What the messages behind a turn ask of it.
    pub steer: Steer,
    /// Who gives files away that can't be sent; `None` where nobody does.
    pub links: Option<Arc<dyn FileLinks>>,
    /// Who may allow a call besides the one who asked for the turn.
    pub is_owner: OwnerCheck,
    /// Which conversations an owner alone reads.
    pub is_owners_chat: IsOwnersChat,
    /// How the agent behaves.
    pub settings: AgentSettings,
}

/// The lane in which a turn runs.
#[derive(Clone)]
pub struct LaneHandle {
    /// The right to work on it.
    pub lease: Lease,
    /// Where the conversation takes place.
    pub channel: Arc<dyn Channel>,
    /// Notified when a message arrives in it.
    pub wake: Arc<Notify>,
    /// Set when a turn was woken by such a message, which it may have left for the next.
    pub woken: Arc<AtomicBool>,
    /// Notified when a turn behind the running one was completed, and has parts to deliver.
    pub planned: Arc<Notify>,
    /// Cancelled when work is to be laid down in good order: what is in flight is finished, the rest stays in the ledger.
    pub stop: CancellationToken,
}
