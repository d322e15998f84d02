//! Schedules: a prompt or a script that starts a turn in a conversation when it is due.
//!
//! A schedule is a source of messages, like a channel. Each run is stored in the inbox under a dedup key with its due
//! time, so that it happens once, despite crashes and other processes with the same schedule.

mod missed;
mod progress;
mod reminders;
mod scheduler;

use satchel_calendar::cron::{CronSchedule, MissedPolicy};
use satchel_domain::{
    ConversationId, InboundMessage, SATCHEL_SENDER_ID, Sender, SystemTask, TaskRequest, Timestamp, task::TASK_COMMAND,
};
use satchel_intake::commands::{ConfiguredSchedule, ScheduleDirectory};

pub use self::{
    missed::{MissedRun, list_missed, skip_missed},
    reminders::{ReminderScheduler, list_missed_reminders, skip_missed_reminders},
    scheduler::Scheduler,
};

/// A prompt or a script, and when it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Its name in the configuration.
    pub name: String,
    /// When it is due.
    pub cron: CronSchedule,
    /// The prompt, or the script as a message.
    pub text: String,
    /// The conversation that it runs in.
    pub conversation: ConversationId,
    /// What happens to missed runs.
    pub missed: MissedPolicy,
    /// Whether it runs at all.
    pub enabled: bool,
}

impl Schedule {
    /// When it runs next after `now`, for people; `None` if it is disabled.
    fn next_run(&self, now: Timestamp) -> Option<ConfiguredSchedule<'_>> {
        let next_at = self.enabled.then(|| self.cron.next(now))??;
        Some(ConfiguredSchedule { name: &self.name, conversation: &self.conversation, next_at })
    }

    /// The task that it runs; `None` if it runs a prompt or a script.
    #[must_use]
    pub fn task_request(&self) -> Option<TaskRequest> {
        let arguments = self.text.strip_prefix('/')?.strip_prefix(TASK_COMMAND)?.strip_prefix(' ')?;
        TaskRequest::parse(arguments).ok()?
    }

    /// The system task of one run.
    #[must_use]
    pub fn system_task(&self, due: Timestamp) -> SystemTask {
        SystemTask::RunSchedule { name: self.name.clone(), due: self.cron.format_local(due) }
    }

    /// The message of one run.
    fn inbound_message(&self, due: Timestamp) -> InboundMessage {
        let key = format!("{SATCHEL_SENDER_ID}:schedule:{}:{}", self.name, due.0);
        InboundMessage {
            // Other people may read the reply, so privileged tools stay off.
            group: true,
            text: self.text.clone(),
            ..InboundMessage::new(self.conversation.clone(), key, Sender::satchel())
        }
    }
}

/// All schedules of the configuration, to be listed.
#[derive(Debug, Clone, Default)]
pub struct Schedules(pub Vec<Schedule>);

impl ScheduleDirectory for Schedules {
    fn upcoming(&self, now: Timestamp) -> Vec<ConfiguredSchedule<'_>> {
        self.0.iter().filter_map(|schedule| schedule.next_run(now)).collect()
    }
}
