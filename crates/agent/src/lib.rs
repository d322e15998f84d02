//! The turn: calls the model, runs its tools, and folds their outcomes into one response, in spite of any crash.
//!
//! [`run_turn`] drives one turn from its queue entry to its commit. Every step that matters is journalled, so that the
//! next process continues where this one died: [`rounds`] is the state of a turn, [`calls`] runs tools, [`mod@confirm`]
//! asks a person first, [`draft`] shows the growing text, [`mod@complete`] folds, plans and commits.

mod block_offer;
mod call_requester;
pub mod call_tracker;
pub mod calls;
pub mod complete;
pub mod confirm;
mod documents;
pub mod draft;
#[cfg(test)]
mod fixtures;
pub mod heading;
pub mod joining;
pub mod model;
mod nested;
mod notices;
pub mod profiles;
pub mod prompt;
mod question;
mod references;
pub mod rounds;
pub mod run;
mod script_turn;
pub mod tasks;
pub mod toolbox;
mod voice_notes;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use jiff::tz::TimeZone;
use satchel_domain::{ChannelName, ConversationId, Sender, fold::InterimText};
use satchel_ports::{
    Archive, Channel, Clock, DocumentReader, EventBus, FileLinks, Ids, Lease, Outbox, Reminders, SafetyTier, Turns,
    ledger::{QueuedMessage, QueuedTurn, SteeringRequests},
};
use satchel_routing::deliver::DeliveryHandle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use crate::{
    profiles::{AgentProfile, AgentProfiles},
    run::run_turn,
    tasks::PlaybookServices,
    toolbox::Toolbox,
};

/// When messages that arrive during a turn reach its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SteeringMode {
    /// Between two model calls.
    #[default]
    Inject,
    /// With the next turn; only messages that wait already when a turn starts are merged into it.
    Wait,
    /// Never: the process answers what it was started with, and the rest is for others.
    Never,
}

/// How all agents behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// The time zone of people who have chosen none.
    pub time_zone: TimeZone,
    /// The most model calls of one turn.
    pub max_model_calls: u32,
    /// The most tool calls of one turn.
    pub max_tool_calls: u32,
    /// When later messages reach the model.
    pub steering: SteeringMode,
    /// What becomes of the texts that the model writes before it calls tools.
    pub interim_text: InterimText,
    /// How long a call of a tool without its own limit may take.
    pub tool_timeout: Duration,
    /// How long a model may send nothing before its call fails.
    pub model_idle_timeout: Duration,
    /// The tiers whose calls need a person's confirmation.
    pub confirm_tiers: Vec<SafetyTier>,
    /// How long a person may take to decide about a call.
    pub confirm_timeout: Duration,
    /// Whether privileged tools may be used where others can read along.
    pub privileged_in_groups: bool,
    /// Whether a script sent as a message runs without confirmation: its author has already asked for it.
    pub trust_written_scripts: bool,
    /// How long calls that run may take once the process stops; less than the runner waits for all of its work.
    pub stop_grace: Duration,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            time_zone: TimeZone::UTC,
            max_model_calls: 25,
            max_tool_calls: 80,
            steering: SteeringMode::default(),
            interim_text: InterimText::default(),
            tool_timeout: Duration::from_secs(120),
            model_idle_timeout: Duration::from_secs(120),
            confirm_tiers: vec![SafetyTier::Privileged],
            confirm_timeout: Duration::from_secs(10 * 60),
            privileged_in_groups: false,
            trust_written_scripts: false,
            stop_grace: Duration::from_secs(20),
        }
    }
}

/// Whether a sender is an owner, on the channel where they write.
pub type OwnerCheck = Arc<dyn Fn(&ChannelName, &Sender) -> bool + Send + Sync>;

/// Whether only an owner reads a conversation, as far as its id tells.
pub type OwnerChatCheck = Arc<dyn Fn(&ConversationId) -> bool + Send + Sync>;

/// Decides what the messages queued behind a turn mean for it.
pub type SteeringPlanner = Arc<dyn Fn(&QueuedTurn, &[QueuedMessage]) -> SteeringRequests + Send + Sync>;

/// What every turn needs.
#[derive(Clone)]
pub struct AgentServices {
    /// Where the steps and the end of a turn are recorded.
    pub turns: Arc<dyn Turns>,
    /// Where questions are opened.
    pub outbox: Arc<dyn Outbox>,
    /// The files of conversations.
    pub archive: Arc<dyn Archive>,
    /// The reminders that calls make.
    pub reminders: Arc<dyn Reminders>,
    pub clock: Arc<dyn Clock>,
    /// The ids of new files.
    pub ids: Arc<dyn Ids>,
    /// Where events are published.
    pub bus: Arc<dyn EventBus>,
    /// The agents that answer.
    pub agents: AgentProfiles,
    /// The tasks, and the attachments of agents; `None` where none are declared.
    pub playbooks: Option<Arc<PlaybookServices>>,
    /// Reads the documents that people send and their model doesn't take; `None` leaves them to tools.
    pub documents: Option<Arc<dyn DocumentReader>>,
    /// Decides what the messages queued behind a turn mean for it.
    pub plan_steering: SteeringPlanner,
    /// Makes links to files that can't be sent; `None` where links are off.
    pub links: Option<Arc<dyn FileLinks>>,
    /// Who may allow a call besides the requester.
    pub is_owner: OwnerCheck,
    /// Which conversations only an owner reads.
    pub is_owners_chat: OwnerChatCheck,
    /// How all agents behave.
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
    /// What delivers its parts.
    pub delivery: DeliveryHandle,
    /// Cancelled to drain the lane: work in flight is finished, the rest stays in the ledger.
    pub stop: CancellationToken,
    /// Whether other processes deliver what turns of this one reply on its channel.
    pub hands_over: Arc<AtomicBool>,
    /// Set once a turn has released the lane, so that another process delivers its reply.
    pub handed_over: Arc<AtomicBool>,
}
