//! What Satchel itself tells people in a reply, whatever the model says: the reminders that the turn's calls have made and
//! cancelled, and the reminder that has started the turn.

use satchel_domain::{
    OutgoingResponse,
    markdown::append_paragraph,
    reminder::{MAX_REMINDERS_PER_TURN, ReminderNotice},
};
use satchel_ports::{
    LedgerError,
    ledger::{QueuedTurn, Reminder, ReminderQuery, ReminderScope},
};
use satchel_routing::retry::retry_until_stored;

use crate::{
    AgentServices, LaneHandle,
    heading::describe_time,
    rounds::Rounds,
    script_turn::{PromptReminder, prompt_reminder},
};

/// Appends the notices of a turn to its response.
///
/// # Errors
/// When the ledger can't be read.
pub(crate) async fn append_notices(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    rounds: &Rounds,
    response: OutgoingResponse,
) -> Result<OutgoingResponse, LedgerError> {
    let mut notices: Vec<String> = origin_notice(turn).into_iter().collect();
    notices.extend(rounds.notices().map(|notice| notice.text.clone()));
    if rounds.call_count() > 0 {
        // A call that was cut off has no outcome, and may have made one all the same.
        let scope = ReminderScope { made_in: Some(turn.id), ..ReminderScope::default() };
        let query = ReminderQuery { scope, limit: MAX_REMINDERS_PER_TURN };
        let made = retry_until_stored(&lane.stop, || services.reminders.list_reminders(&query)).await?;
        let is_named = |reminder: &Reminder| rounds.notices().any(|notice| notice.made == Some(reminder.id));
        let unnamed = made.iter().filter(|reminder| !is_named(reminder));
        notices.extend(unnamed.map(|reminder| made_notice(services, reminder)));
    }
    if notices.is_empty() {
        return Ok(response);
    }
    let text = append_paragraph(response.text.as_deref().unwrap_or_default(), &notices.join("\n\n"));
    Ok(OutgoingResponse { text: Some(text), ..response })
}

/// Says which reminder has started the turn; `None` where none did.
fn origin_notice(turn: &QueuedTurn) -> Option<String> {
    let PromptReminder { reminder, origin, .. } = prompt_reminder(turn)?;
    let message = turn.messages.first().map(|queued| &queued.message).filter(|message| message.group);
    let origin = origin.describe(reminder, message.map(|message| message.sender.name.as_str()));
    Some(format!("This is from reminder {reminder}. {origin}"))
}

fn made_notice(services: &AgentServices, reminder: &Reminder) -> String {
    let Reminder { id, content, next_at, cron, .. } = reminder;
    let due = describe_time(*next_at, &services.settings.time_zone);
    ReminderNotice { reminder: *id, content, due: &due, cron: cron.as_deref() }.made()
}
