//! `schedule.list`: lists the reminders of the person of the turn.

use async_trait::async_trait;
use satchel_calendar::Zone;
use satchel_domain::{ReminderAuthor, ReminderContent, ToolOutcome, reminder::MAX_REMINDERS_PER_PERSON};
use satchel_ports::{
    SafetyTier, Tool, ToolContext, ToolError, ToolSpec,
    ledger::{Reminder, ReminderQuery},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    arguments::{parse_arguments, tool_spec},
    error,
    reminder_services::{ReminderServices, visible_reminders},
};

pub(crate) struct ScheduleList(pub(crate) ReminderServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[async_trait]
impl Tool for ScheduleList {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "schedule.list",
            SafetyTier::ReadOnly,
            "Lists the person's reminders, the next due first, with their numbers; and the person's time now.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments {} = parse_arguments(arguments)?;
        let zone = self.0.person_zone(context).await?;
        let query = ReminderQuery { scope: visible_reminders(context), limit: MAX_REMINDERS_PER_PERSON };
        let reminders = self.0.port.list_reminders(&query).await;
        let reminders =
            reminders.map_err(|error| error::tool_error_with_cause("the reminders could not be listed", &error))?;
        let reminders: Vec<Value> = reminders.iter().map(|reminder| describe(reminder, &zone)).collect();
        Ok(ToolOutcome::from_data(json!({ "now": zone.describe(context.clock.wall()), "reminders": reminders })))
    }
}

fn describe(reminder: &Reminder, zone: &Zone) -> Value {
    let Reminder { id, conversation, content, next_at, cron, timezone, author, .. } = reminder;
    let zone = Zone::find_or(timezone.as_deref(), zone);
    let mut entry = json!({ "reminder": id, "due": zone.describe(*next_at), "conversation": conversation });
    match content {
        ReminderContent::Message { text, files } => {
            entry["text"] = json!(text);
            if !files.is_empty() {
                entry["attachments"] = json!(files);
            }
        }
        ReminderContent::Prompt(prompt) => entry["prompt"] = json!(prompt),
    }
    if let Some(cron) = cron {
        entry["cron"] = json!(cron);
    }
    if *author == ReminderAuthor::Model {
        entry["made_by"] = json!("a model");
    }
    entry
}
