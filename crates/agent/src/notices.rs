//! What Satchel itself shows people in a reply, whatever the model writes: the reminders that the turn's calls have made and
//! cancelled, and the reminder that has started the turn.

use satchel_calendar::Zone;
use satchel_domain::{
    OutgoingResponse,
    markdown::append_paragraph,
    reminder::{MAX_REMINDERS_PER_PERSON, ReminderNotice},
};
use satchel_ports::{
    LedgerError,
    ledger::{PersonKey, QueuedTurn, Reminder, ReminderQuery, ReminderScope},
};
use satchel_routing::retry::retry_until_stored;

use crate::{
    AgentServices, LaneHandle,
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
        notices.extend(unnamed_notices(services, lane, turn, rounds).await?);
    }
    if notices.is_empty() {
        return Ok(response);
    }
    let text = append_paragraph(response.text.as_deref().unwrap_or_default(), &notices.join("\n\n"));
    Ok(OutgoingResponse { text: Some(text), ..response })
}

/// Names the reminder that has started the turn; `None` where none did.
fn origin_notice(turn: &QueuedTurn) -> Option<String> {
    let PromptReminder { reminder, origin, .. } = prompt_reminder(turn)?;
    let message = turn.messages.first().map(|queued| &queued.message).filter(|message| message.group);
    let origin = origin.describe(reminder, message.map(|message| message.sender.name.as_str()));
    Some(format!("This is from reminder {reminder}. {origin}"))
}

/// The notices about reminders of calls that were cut off: they have no outcome, and may have made or cancelled one anyway.
async fn unnamed_notices(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    rounds: &Rounds,
) -> Result<Vec<String>, LedgerError> {
    let made = ReminderScope { made_in: Some(turn.id), ..ReminderScope::default() };
    let cancelled = ReminderScope { cancelled_in: Some(turn.id), ..ReminderScope::default() };
    let mut notices = Vec::new();
    for reminder in list_reminders(services, lane, made).await? {
        if !rounds.notices().any(|notice| notice.made == Some(reminder.id)) {
            let due = describe_due(services, lane, &reminder).await?;
            notices.push(reminder_notice(&reminder, &due).made());
        }
    }
    for reminder in list_reminders(services, lane, cancelled).await? {
        if !rounds.notices().any(|notice| notice.cancelled == Some(reminder.id)) {
            let due = describe_due(services, lane, &reminder).await?;
            notices.push(reminder_notice(&reminder, &due).cancelled());
        }
    }
    Ok(notices)
}

async fn list_reminders(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: ReminderScope,
) -> Result<Vec<Reminder>, LedgerError> {
    let query = ReminderQuery { scope, limit: MAX_REMINDERS_PER_PERSON };
    retry_until_stored(&lane.stop, || services.reminders.list_reminders(&query)).await
}

fn reminder_notice<'a>(reminder: &'a Reminder, due: &'a str) -> ReminderNotice<'a> {
    let Reminder { id, content, cron, .. } = reminder;
    ReminderNotice { reminder: *id, content, due, cron: cron.as_deref() }
}

/// Describes when a reminder is due, in its own zone, or else that of its person.
async fn describe_due(services: &AgentServices, lane: &LaneHandle, reminder: &Reminder) -> Result<String, LedgerError> {
    let person = PersonKey::new(reminder.conversation.channel(), &reminder.person);
    let chosen = retry_until_stored(&lane.stop, || services.reminders.load_timezone(&person)).await?;
    let zone = Zone::find_or(chosen.as_deref(), &Zone::from(services.settings.time_zone.clone()));
    Ok(Zone::find_or(reminder.timezone.as_deref(), &zone).describe(reminder.next_at))
}
