//! `schedule.cancel`: cancels a reminder of the person of the turn, which Satchel itself names in the reply.

use async_trait::async_trait;
use satchel_calendar::Zone;
use satchel_domain::{OutcomeNotice, ReminderId, ToolOutcome, reminder::ReminderNotice};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, ledger::Reminder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    arguments::{parse_arguments, tool_spec},
    error,
    reminder_services::{ReminderServices, visible_reminders},
};

pub(crate) struct ScheduleCancel(pub(crate) ReminderServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The number of the reminder, as schedule.list shows it.
    reminder: u64,
}

#[async_trait]
impl Tool for ScheduleCancel {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "schedule.cancel",
            SafetyTier::SideEffecting,
            "Cancels a reminder of the person, by its number.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { reminder } = parse_arguments(arguments)?;
        // Read first: what was cancelled is named, whatever else fails.
        let zone = self.0.person_zone(context).await?;
        let (scope, turn) = (visible_reminders(context), context.call.turn);
        let cancelled = self.0.port.cancel_reminder(ReminderId(reminder), &scope, turn).await;
        let cancelled =
            cancelled.map_err(|error| error::tool_error_with_cause("the reminder could not be cancelled", &error))?;
        match cancelled {
            Some(cancelled) => {
                let due = Zone::find_or(cancelled.timezone.as_deref(), &zone).describe(cancelled.next_at);
                let Reminder { id, content, cron, .. } = cancelled;
                let notice = ReminderNotice { reminder: id, content: &content, due: &due, cron: cron.as_deref() };
                let notices = vec![OutcomeNotice { made: None, cancelled: Some(id), text: notice.cancelled() }];
                let data = json!({ "cancelled": id, "was": content.text() });
                Ok(ToolOutcome { notices, ..ToolOutcome::from_data(data) })
            }
            None => Err(error::tool_error(format!(
                "the person has no reminder {reminder} here; schedule.list shows those that there are"
            ))),
        }
    }
}
