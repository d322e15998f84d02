//! What happens at a time of its own: a prompt or a script that comes into a conversation when it is due.
//!
//! A schedule is a source of messages as a channel is. What comes from it is stored in the ledger like everything that
//! comes in, under a key that is made of the time at which it was due, so that it happens once however often this
//! process dies and however many others do the same.

pub mod cron;
mod progress;
mod scheduler;

use satchel_domain::{ConversationId, InboundMessage, Sender, SystemTask, Timestamp};

use self::cron::{CronSchedule, MissedPolicy};
pub use self::scheduler::{Scheduler, WallClock, open};

/// The sender of what nobody wrote.
const SYSTEM_SENDER: &str = "satchel";

/// What happens when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Its name in the configuration.
    pub name: String,
    /// When it is due.
    pub rhythm: CronSchedule,
    /// The prompt, or the script as a message.
    pub words: String,
    /// Where it comes in and is answered.
    pub conversation: ConversationId,
    /// What becomes of times that came while nobody was there.
    pub missed: MissedPolicy,
    /// Whether it happens at all.
    pub enabled: bool,
}

impl Schedule {
    /// What there is to do at one of its times.
    fn system_task(&self, due: Timestamp) -> SystemTask {
        SystemTask::RunSchedule { name: self.name.clone(), due: self.rhythm.format_local(due) }
    }

    /// What comes into the conversation at one of its times.
    fn message(&self, due: Timestamp) -> InboundMessage {
        let key = format!("{SYSTEM_SENDER}:schedule:{}:{}", self.name, due.0);
        InboundMessage {
            // Nobody is there to vouch that nobody else reads along, so what is privileged stays shut.
            group: true,
            text: self.words.clone(),
            ..InboundMessage::new(self.conversation.clone(), key, Sender::new(SYSTEM_SENDER, "Satchel"))
        }
    }
}
