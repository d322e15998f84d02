//! What the tools for reminders work with.

use std::sync::Arc;

use satchel_calendar::Zone;
use satchel_ports::{
    Reminders, Tool, ToolContext, ToolError,
    ledger::{PersonKey, ReminderScope},
};

use crate::{
    ToolServices, error, schedule_cancel::ScheduleCancel, schedule_create::ScheduleCreate, schedule_list::ScheduleList,
};

/// Where reminders are, and the zone of everybody who has chosen none. Cheap to clone.
#[derive(Clone)]
pub struct ReminderServices {
    pub port: Arc<dyn Reminders>,
    pub default_zone: Zone,
}

impl ReminderServices {
    /// The zone of the person for whom a call is made.
    pub(crate) async fn person_zone(&self, context: &ToolContext) -> Result<Zone, ToolError> {
        let name = self.port.load_timezone(&person(context)).await;
        let name = name.map_err(|error| error::tool_error_with_cause("the time zone could not be read", &error))?;
        Ok(Zone::find_or(name.as_deref(), &self.default_zone))
    }
}

/// The tools for reminders, which are offered only where a process delivers them.
#[must_use]
pub fn reminder_tools(services: ToolServices, reminders: ReminderServices) -> [Arc<dyn Tool>; 3] {
    [
        Arc::new(ScheduleCreate { services, reminders: reminders.clone() }),
        Arc::new(ScheduleList(reminders.clone())),
        Arc::new(ScheduleCancel(reminders)),
    ]
}

/// The reminders that a call may see and cancel: those of its person; in a group, and where the model has read texts of others
/// too, only those of the conversation.
pub(crate) fn visible_reminders(context: &ToolContext) -> ReminderScope {
    ReminderScope {
        person: Some(person(context)),
        conversation: (context.group || context.is_shared).then(|| context.conversation.clone()),
        ..ReminderScope::default()
    }
}

fn person(context: &ToolContext) -> PersonKey {
    PersonKey::new(context.conversation.channel(), &context.requester)
}
