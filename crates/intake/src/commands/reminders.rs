//! `/remind`, `/schedules` and `/timezone`: the reminders of a person, and the time zone that they are written in.

use std::fmt::{self, Write};

use satchel_calendar::{TimeError, WrittenTime, Zone};
use satchel_domain::{
    ConversationId, OutgoingResponse, ReminderAuthor, ReminderContent, ReminderId, Timestamp,
    filename::to_inline_code,
    reminder::{MAX_REMINDER_CHARS, MAX_REMINDERS_PER_PERSON},
};
use satchel_ports::{
    LedgerError, Reminders,
    ledger::{CreateReminderOutcome, NewReminder, PersonKey, Reminder, ReminderLimits, ReminderQuery, ReminderScope},
};

use super::MAX_LISTED;
use crate::{pairing::CommandContext, system_tasks::describe_sender};

/// How much of a reminder's text a list shows, in characters.
const MAX_EXCERPT_CHARS: usize = 100;

const REMIND_HELP: &str = "\
When, and of what? `/remind 18:30 TEXT`, `/remind in 20m TEXT` or `/remind 2026-12-24 18:30 TEXT`. Other times, such as \
tomorrow or every Monday, are for the model: ask it in your own words. `/schedules` lists your reminders.";

const UNAVAILABLE: &str = "I can't set reminders here: they need `satchel run` or a session of `satchel chat`.";

/// What reminders are made with; they need a process that delivers them.
#[derive(Debug, Clone, Copy)]
pub struct ReminderClock<'a> {
    /// The zone of everybody who has chosen none.
    pub default_zone: &'a Zone,
    /// What the wall clock shows.
    pub now: Timestamp,
    /// The schedules of the configuration, which `/schedules` lists and nobody cancels.
    pub configured: &'a [ConfiguredSchedule<'a>],
}

/// The schedules of the configuration, where there are any.
pub trait ScheduleDirectory: fmt::Debug + Send + Sync {
    /// Those that run after a time, each with its next run.
    fn upcoming(&self, now: Timestamp) -> Vec<ConfiguredSchedule<'_>>;
}

/// A schedule of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct ConfiguredSchedule<'a> {
    pub name: &'a str,
    /// The conversation that it runs in.
    pub conversation: &'a ConversationId,
    /// When it is due next.
    pub next_at: Timestamp,
}

/// What is done with a person's reminders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedulesCommand {
    List,
    /// Cancels one, by its number; as given.
    Cancel(String),
    /// Cancels all of the person's own.
    CancelAll,
    Help,
}

impl SchedulesCommand {
    /// Reads what stands behind `/schedules`.
    pub(super) fn parse(arguments: &[String]) -> Self {
        match arguments {
            [] => Self::List,
            [verb, all] if verb.eq_ignore_ascii_case("cancel") && all.eq_ignore_ascii_case("all") => Self::CancelAll,
            [verb, number] if verb.eq_ignore_ascii_case("cancel") => Self::Cancel(number.clone()),
            _ => Self::Help,
        }
    }
}

/// Whether `/remind` takes what stands behind it. Other wordings of a time are for the model.
pub(super) fn is_for_remind(arguments: &str) -> bool {
    arguments.is_empty() || WrittenTime::parse(arguments).is_some()
}

/// Makes a reminder, once for each turn.
pub(super) async fn create_reminder(
    text: &str,
    reminders: &dyn Reminders,
    context: &CommandContext<'_>,
    clock: Option<ReminderClock<'_>>,
) -> Result<OutgoingResponse, LedgerError> {
    let Some(clock) = clock else { return Ok(OutgoingResponse::from_text(UNAVAILABLE)) };
    let Some((time, text)) = WrittenTime::parse(text).filter(|(_, text)| !text.is_empty()) else {
        return Ok(OutgoingResponse::from_text(REMIND_HELP));
    };
    let chars = text.chars().count();
    if chars > MAX_REMINDER_CHARS {
        return Ok(OutgoingResponse::from_text(format!(
            "That is too long for a reminder: it has {chars} characters, and {MAX_REMINDER_CHARS} is the most."
        )));
    }
    let zone = person_zone(reminders, context, clock.default_zone).await?;
    let next_at = match time.resolve(clock.now, &zone) {
        Ok(next_at) => next_at,
        Err(TimeError::Past { .. }) if context.repeated => {
            return Ok(OutgoingResponse::from_text(
                "I was interrupted while I made this reminder, and its time has passed. If it was made, you get it now.",
            ));
        }
        Err(error) => return Ok(OutgoingResponse::from_text(format!("I made no reminder: {error}."))),
    };
    let reminder = NewReminder {
        key: context.turn.to_string(),
        conversation: context.conversation.clone(),
        person: context.sender.clone(),
        group: context.group,
        content: ReminderContent::Message { text: text.to_owned(), files: Vec::new() },
        next_at,
        cron: None,
        timezone: None,
        author: ReminderAuthor::Person,
        made_at: clock.now,
        turn: context.turn,
    };
    Ok(OutgoingResponse::from_text(match reminders.create_reminder(&reminder, &ReminderLimits::default()).await? {
        CreateReminderOutcome::Created(created) => {
            let Reminder { id, next_at, .. } = *created;
            format!("I'll remind you on {}. `/schedules cancel {id}` cancels it.", zone.describe(next_at))
        }
        // No command meets it: the limit of a turn binds models alone.
        CreateReminderOutcome::TurnLimitReached => "I made no reminder. Please send the command again.".to_owned(),
        CreateReminderOutcome::LimitReached => format!(
            "I made no reminder: you have {MAX_REMINDERS_PER_PERSON}, which is the most. `/schedules` lists them, \
             `/schedules cancel NUMBER` makes room."
        ),
    }))
}

/// Lists the reminders that the person may see, or cancels one of them, or all of their own.
pub(super) async fn handle_schedules(
    command: &SchedulesCommand,
    reminders: &dyn Reminders,
    context: &CommandContext<'_>,
    clock: Option<ReminderClock<'_>>,
) -> Result<OutgoingResponse, LedgerError> {
    let Some(clock) = clock else { return Ok(OutgoingResponse::from_text(UNAVAILABLE)) };
    let scope = visible_reminders(context);
    Ok(OutgoingResponse::from_text(match command {
        SchedulesCommand::List => {
            let zone = person_zone(reminders, context, clock.default_zone).await?;
            let listed = reminders.list_reminders(&ReminderQuery { scope, limit: MAX_LISTED + 1 }).await?;
            let mut text = list_text(&listed, &zone, context);
            push_configured(&mut text, clock.configured, &zone, context);
            text
        }
        SchedulesCommand::Cancel(number) => {
            let number: Option<ReminderId> = number.trim_start_matches('#').parse().ok();
            let cancelled = match number {
                Some(number) => reminders.cancel_reminder(number, &scope, context.turn).await?,
                None => None,
            };
            match cancelled {
                Some(reminder) => format!(
                    "Reminder {} is cancelled: {}",
                    reminder.id,
                    to_inline_code(reminder.content.text(), MAX_EXCERPT_CHARS)
                ),
                None => "There is no such reminder for you to cancel here. `/schedules` lists them.".to_owned(),
            }
        }
        SchedulesCommand::CancelAll => {
            // Not those of others, which an owner may cancel one by one.
            let own = ReminderScope { person: Some(person_key(context)), channels: None, ..scope };
            cancelled_text(reminders.end_reminders(&own).await?, context.group)
        }
        SchedulesCommand::Help => "`/schedules` lists your reminders, `/schedules cancel 3` cancels reminder 3, \
                                   `/schedules cancel all` cancels all that are yours."
            .to_owned(),
    }))
}

/// Says how many reminders of a person were cancelled, in a group those of the group.
fn cancelled_text(count: u64, is_group: bool) -> String {
    let here = if is_group { " in this group" } else { "" };
    match count {
        0 => format!("You have no reminders{here}, so there is nothing to cancel."),
        1 => format!("Your one reminder{here} is cancelled."),
        count => format!("All {count} of your reminders{here} are cancelled."),
    }
}

/// Shows or changes the person's time zone; `reset` removes it.
pub(super) async fn handle_timezone(
    name: Option<&str>,
    reminders: &dyn Reminders,
    context: &CommandContext<'_>,
    clock: Option<ReminderClock<'_>>,
) -> Result<OutgoingResponse, LedgerError> {
    let Some(clock) = clock else { return Ok(OutgoingResponse::from_text(UNAVAILABLE)) };
    let person = person_key(context);
    let Some(name) = name else {
        let zone = person_zone(reminders, context, clock.default_zone).await?;
        return Ok(OutgoingResponse::from_text(format!(
            "For you it is {}. `/timezone Asia/Tokyo` sets another time zone, `/timezone reset` takes this machine's.",
            zone.describe(clock.now)
        )));
    };
    let zone = match name.eq_ignore_ascii_case("reset") {
        true => None,
        false => match Zone::find(name) {
            Some(zone) => Some(zone),
            None => {
                return Ok(OutgoingResponse::from_text(format!(
                    "I don't know the time zone {}. Their names look like `Europe/Berlin` or `America/New_York`.",
                    to_inline_code(name, MAX_EXCERPT_CHARS)
                )));
            }
        },
    };
    let stored = zone.as_ref().and_then(Zone::name).map(str::to_owned);
    reminders.save_timezone(&person, stored).await?;
    Ok(OutgoingResponse::from_text(format!(
        "For you it is {} from now on. Reminders that you have made keep their times.",
        zone.as_ref().unwrap_or(clock.default_zone).describe(clock.now)
    )))
}

/// The reminders that a person may see and cancel: their own, and all of them where an owner alone reads. A group shows
/// only its own.
fn visible_reminders(context: &CommandContext<'_>) -> ReminderScope {
    let is_owner = context.is_by_owner();
    ReminderScope {
        person: (!is_owner).then(|| person_key(context)),
        channels: context.channel().filter(|_| is_owner).map(|channel| vec![channel.clone()]),
        conversation: context.group.then(|| context.conversation.clone()),
        ..ReminderScope::default()
    }
}

fn list_text(listed: &[Reminder], zone: &Zone, context: &CommandContext<'_>) -> String {
    let Some(first) = listed.first() else {
        return "There are no reminders. `/remind 18:30 TEXT` makes one.".to_owned();
    };
    let mut text = "Reminders, the next one first:\n\n".to_owned();
    for reminder in listed.iter().take(MAX_LISTED as usize) {
        let _ = writeln!(text, "- {}", describe_reminder(reminder, zone, context));
    }
    if listed.len() > MAX_LISTED as usize {
        text.push_str("- … and later ones\n");
    }
    let _ = write!(text, "\n`/schedules cancel {}` cancels the first one.", first.id);
    text
}

/// Adds the schedules of the configuration that run here, for an owner alone those that run anywhere.
fn push_configured(text: &mut String, schedules: &[ConfiguredSchedule<'_>], zone: &Zone, context: &CommandContext<'_>) {
    let sees_all = context.is_by_owner() && !context.group;
    let mut visible: Vec<_> =
        schedules.iter().filter(|schedule| sees_all || schedule.conversation == context.conversation).collect();
    visible.sort_by_key(|schedule| schedule.next_at);
    if visible.is_empty() {
        return;
    }
    text.push_str("\n\nSchedules of the configuration:\n");
    for ConfiguredSchedule { name, conversation, next_at } in visible {
        let _ = write!(text, "\n- {}: {}", to_inline_code(name, MAX_EXCERPT_CHARS), zone.describe(*next_at));
        if *conversation != context.conversation {
            let _ = write!(text, ", in `{conversation}`");
        }
    }
}

fn describe_reminder(reminder: &Reminder, zone: &Zone, context: &CommandContext<'_>) -> String {
    let Reminder { id, conversation, person, content, next_at, cron, timezone, author, .. } = reminder;
    let zone = Zone::find_or(timezone.as_deref(), zone);
    let mut line = format!("{id}: {}", zone.describe(*next_at));
    if let Some(cron) = cron {
        let _ = write!(line, ", again at {}", to_inline_code(cron, MAX_EXCERPT_CHARS));
    }
    if !content.text().is_empty() {
        let _ = write!(line, ": {}", to_inline_code(content.text(), MAX_EXCERPT_CHARS));
    }
    match content {
        ReminderContent::Message { files, .. } if !files.is_empty() => {
            let _ = write!(line, ", with {} {}", files.len(), if files.len() == 1 { "file" } else { "files" });
        }
        ReminderContent::Prompt(_) => line.push_str(", for the model"),
        ReminderContent::Message { .. } => {}
    }
    if *author == ReminderAuthor::Model {
        line.push_str(", set by me");
    }
    if person.id != context.sender.id || conversation.channel() != context.conversation.channel() {
        let _ = write!(line, ", by {} in `{conversation}`", describe_sender(person));
    }
    line
}

fn person_key(context: &CommandContext<'_>) -> PersonKey {
    PersonKey::new(context.conversation.channel(), context.sender)
}

/// The zone of the person who gives a command.
pub(super) async fn person_zone(
    reminders: &dyn Reminders,
    context: &CommandContext<'_>,
    default_zone: &Zone,
) -> Result<Zone, LedgerError> {
    let name = reminders.load_timezone(&person_key(context)).await?;
    Ok(Zone::find_or(name.as_deref(), default_zone))
}

#[cfg(test)]
mod tests;
