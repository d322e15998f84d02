//! What runs: channels, models, tools, schedules, reminders, and the room on the disks.

use std::env::consts::{ARCH, OS};

use satchel_domain::{ChannelName, PartState};
use satchel_metrics::{FileDirectory, read_space};
use satchel_ports::{
    LedgerError, SafetyTier, ToolSpec,
    ledger::{OutboxQuery, Reminder, ReminderQuery, UsageQuery, UsageScope},
};
use satchel_runtime::schedules::Schedule;
use satchel_web::{
    SystemChannel, SystemDirectory, SystemModel, SystemOverview, SystemReminder, SystemSchedule, SystemTool,
};

use super::RunningSystem;
use crate::{models::named_candidate, stores};

/// The most reminders that are listed.
const MAX_REMINDERS: u32 = 200;

/// The most unsettled parts that are counted.
const MAX_COUNTED_PARTS: u32 = 10_000;

impl RunningSystem {
    /// Describes what runs.
    pub(super) async fn describe(&self) -> Result<SystemOverview, LedgerError> {
        let config = self.loaded.config();
        let query = ReminderQuery { limit: MAX_REMINDERS, ..ReminderQuery::default() };
        let reminders = self.ledger.reminders.list_reminders(&query).await?;
        let mut overview = SystemOverview {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            platform: format!("{OS} {ARCH}"),
            started_at: self.started_at.0,
            config_file: self.loaded.file.as_ref().map(|file| file.display().to_string()),
            channels: self.describe_channels().await?,
            models: self.describe_models(),
            tools: self.tools.iter().map(to_system_tool).collect(),
            schedules: config.schedules.iter().map(|schedule| self.describe_schedule(schedule)).collect(),
            reminders: reminders.into_iter().map(to_system_reminder).collect(),
            directories: stores::file_directories(config).iter().map(to_system_directory).collect(),
            files: 0,
            file_bytes: 0,
            workspace_bytes: 0,
        };
        for usage in self.ledger.storage.usages(&UsageQuery::All).await? {
            // Those of people count the same files.
            if matches!(usage.scope, UsageScope::Conversation(_)) {
                overview.files = overview.files.saturating_add(usage.files);
                overview.file_bytes = overview.file_bytes.saturating_add(usage.bytes);
                overview.workspace_bytes = overview.workspace_bytes.saturating_add(usage.workspace_bytes);
            }
        }
        Ok(overview)
    }

    async fn describe_channels(&self) -> Result<Vec<SystemChannel>, LedgerError> {
        let query = OutboxQuery { unsettled_only: true, limit: Some(MAX_COUNTED_PARTS), ..OutboxQuery::default() };
        let parts = self.ledger.archive.parts(&query).await?;
        let channel = |name: &ChannelName| {
            let own = || parts.iter().filter(|part| part.conversation.channel() == name);
            let in_doubt = own().filter(|part| matches!(part.state, PartState::InDoubt { .. }));
            SystemChannel {
                name: name.to_string(),
                detail: self.describe_connection(name),
                unsettled: own().count() as u64,
                in_doubt: in_doubt.count() as u64,
            }
        };
        Ok(self.channels.iter().map(channel).collect())
    }

    fn describe_connection(&self, channel: &ChannelName) -> String {
        let config = self.loaded.config();
        match channel.as_str() {
            "web" => config.web.listen.0.map(|address| format!("http://{address}")).unwrap_or_default(),
            "telegram" if config.telegram.webhook.is_some() => "receives by webhook".to_owned(),
            "telegram" => "receives by long polling".to_owned(),
            "discord" => "receives by its gateway connection".to_owned(),
            _ => String::new(),
        }
    }

    fn describe_models(&self) -> Vec<SystemModel> {
        let selected = self.selection.candidates.iter().enumerate().map(|(index, candidate)| SystemModel {
            name: candidate.name().to_owned(),
            title: candidate.title(),
            role: if index == 0 { "answers" } else { "fallback" },
            reason: self.selection.reason.clone(),
        });
        let is_selected = |name: &str| self.selection.candidates.iter().any(|candidate| candidate.name() == name);
        let models = &self.loaded.config().models;
        let choices = self.model_names.iter().filter(|name| !is_selected(name)).map(|name| SystemModel {
            name: name.clone(),
            title: named_candidate(models, name).title(),
            role: "choice",
            reason: String::new(),
        });
        selected.chain(choices).collect()
    }

    fn describe_schedule(&self, schedule: &Schedule) -> SystemSchedule {
        let Schedule { name, cron, conversation, enabled, .. } = schedule;
        let next = enabled.then(|| cron.next(self.clock.wall())).flatten();
        SystemSchedule {
            name: name.clone(),
            next: next.map(|next| cron.format_local(next)),
            conversation: conversation.to_string(),
            enabled: *enabled,
        }
    }
}

fn to_system_tool(spec: &ToolSpec) -> SystemTool {
    let tier = match spec.tier {
        SafetyTier::ReadOnly => "read_only",
        SafetyTier::SideEffecting => "side_effecting",
        SafetyTier::Privileged => "privileged",
    };
    SystemTool { name: spec.name.clone(), description: spec.description.clone(), tier }
}

fn to_system_reminder(reminder: Reminder) -> SystemReminder {
    let Reminder { conversation, person, next_at, cron, .. } = reminder;
    SystemReminder { person: person.name, conversation: conversation.to_string(), next_at: next_at.0, cron }
}

fn to_system_directory(directory: &FileDirectory) -> SystemDirectory {
    let space = read_space(&directory.path).ok();
    SystemDirectory {
        role: directory.role.to_owned(),
        path: directory.path.display().to_string(),
        free: space.map(|space| space.free),
        total: space.map(|space| space.total),
        reserved: space.map_or(0, |space| directory.reserve.reserved_bytes(space.total)),
    }
}
