//! `schedule.create`: makes a reminder for the person of the turn, once or recurring.
//!
//! A document that the model reads could ask for one, so a prompt that repeats, and what repeats more often than hourly, needs
//! a person's confirmation; what a schedule or a reminder has started makes no further ones; a turn makes only a few; and
//! Satchel itself names each in the reply.

use std::{num::NonZeroU64, time::Duration};

use async_trait::async_trait;
use satchel_calendar::{WrittenTime, Zone, cron::CronSchedule};
use satchel_domain::{
    AttachmentId, OutcomeNotice, ReminderAuthor, ReminderContent, Timestamp, ToolOutcome,
    reminder::{MAX_REMINDER_CHARS, MAX_REMINDERS_PER_PERSON, MAX_REMINDERS_PER_TURN, ReminderNotice},
};
use satchel_ports::{
    SafetyTier, Tool, ToolContext, ToolError, ToolSpec,
    ledger::{AttachmentKey, CreateReminderOutcome, NewReminder, Reminder, ReminderLimits},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    error, lookup,
    reminder_services::ReminderServices,
};

/// What repeats more often needs a confirmation.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// How many times of a cron expression are compared: more than a day of what repeats hourly.
const COMPARED_TIMES: usize = 100;

/// The most files of one reminder.
const MAX_FILES: usize = 20;

pub(crate) struct ScheduleCreate {
    pub(crate) services: ToolServices,
    pub(crate) reminders: ReminderServices,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// When, for what happens once: a date and time in ISO 8601, as the person's clock shows it (2026-12-04T09:00) or with an
    /// offset (2026-12-04T09:00+01:00).
    at: Option<String>,
    /// When, for what repeats: minute, hour, day of the month, month, day of the week, such as 0 9 * * mon-fri.
    cron: Option<String>,
    /// The time zone of `at` or `cron`, such as Europe/Berlin, if it isn't the person's own.
    timezone: Option<String>,
    /// The text that the person gets, as it is.
    text: Option<String>,
    /// What you are asked when it is due, instead of `text` and `attachments`; you answer it with your tools.
    prompt: Option<String>,
    /// The files of this conversation that the person gets: their ids, or numbers such as #12.
    #[serde(default)]
    attachments: Vec<String>,
}

#[async_trait]
impl Tool for ScheduleCreate {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "schedule.create",
            SafetyTier::SideEffecting,
            "Makes a reminder that is delivered in this conversation: a text, files, or a prompt that you answer then. Give \
             either `at` or `cron`. Below your reply the person sees what was made, when it is due and how to cancel it. \
             At most five a turn. A prompt that repeats, and what repeats more often than hourly, needs the person's \
             confirmation.",
        )
    }

    fn tier(&self, arguments: &Value) -> SafetyTier {
        let Some(cron) = arguments["cron"].as_str() else { return SafetyTier::SideEffecting };
        let repeats_often = || {
            // The zone makes no difference, and neither does the present time.
            let schedule = Zone::find("UTC").and_then(|utc| CronSchedule::parse(cron, utc.time_zone().clone()).ok());
            let shortest = schedule.and_then(|schedule| schedule.shortest_interval(Timestamp(0), COMPARED_TIMES));
            shortest.is_some_and(|interval| interval < HOUR)
        };
        match arguments["prompt"].is_string() || repeats_often() {
            true => SafetyTier::Privileged,
            false => SafetyTier::SideEffecting,
        }
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments = parse_arguments(arguments)?;
        if context.scheduled {
            return Err(error::tool_error(
                "no reminder was made: what a schedule or a reminder starts can't make reminders; a person has to ask for it",
            ));
        }
        let has_prompt = arguments.prompt.as_deref().is_some_and(|prompt| !prompt.trim().is_empty());
        if context.is_shared && has_prompt {
            return Err(error::tool_error(
                "no reminder was made: you have read messages of several people, and a prompt would run with the rights of \
                 one of them; give `text`, or let the person ask for it again in a message of their own",
            ));
        }
        let own_zone = self.reminders.person_zone(context).await?;
        let zone = match &arguments.timezone {
            None => own_zone,
            Some(name) => Zone::find(name).ok_or_else(|| {
                let name: String = name.escape_debug().take(100).collect();
                error::tool_error(format!(
                    "argument `timezone`: there is no time zone `{name}`; their names are like Europe/Berlin"
                ))
            })?,
        };
        let now = context.clock.wall();
        let next_at = next_time(&arguments, now, &zone)?;
        let content = self.content(&arguments, context).await?;
        let reminder = NewReminder {
            key: context.call.to_string(),
            conversation: context.conversation.clone(),
            person: context.requester.clone(),
            group: context.group,
            content,
            next_at,
            timezone: arguments.cron.as_ref().and_then(|_| zone.name()).map(str::to_owned),
            cron: arguments.cron,
            author: if context.is_written_script { ReminderAuthor::Person } else { ReminderAuthor::Model },
            made_at: now,
            turn: context.call.turn,
        };
        let created = self.reminders.port.create_reminder(&reminder, &ReminderLimits::default()).await;
        match created.map_err(|error| error::tool_error_with_cause("the reminder could not be stored", &error))? {
            CreateReminderOutcome::Created(created) => {
                let Reminder { id, content, next_at, cron, .. } = *created;
                let (due, now) = (zone.describe(next_at), zone.describe(now));
                let notice = ReminderNotice { reminder: id, content: &content, due: &due, cron: cron.as_deref() };
                let notices = vec![OutcomeNotice { made: Some(id), cancelled: None, text: notice.made() }];
                let data = json!({ "reminder": id, "due": due, "now": now });
                Ok(ToolOutcome { notices, ..ToolOutcome::from_data(data) })
            }
            CreateReminderOutcome::TurnLimitReached => Err(error::tool_error(format!(
                "no reminder was made: this turn has made {MAX_REMINDERS_PER_TURN}, which is the most; the person can ask for \
                 more in another message"
            ))),
            CreateReminderOutcome::LimitReached => Err(error::tool_error(format!(
                "no reminder was made: the person has {MAX_REMINDERS_PER_PERSON}, which is the most; schedule.list shows \
                 them, schedule.cancel makes room"
            ))),
        }
    }
}

impl ScheduleCreate {
    /// What happens when the reminder is due.
    async fn content(&self, arguments: &Arguments, context: &ToolContext) -> Result<ReminderContent, ToolError> {
        let Arguments { text, prompt, attachments, .. } = arguments;
        // Some models fill in what they mean to leave out.
        let [text, prompt] = [text, prompt].map(|text| text.as_deref().map_or("", str::trim));
        for (name, text) in [("text", text), ("prompt", prompt)] {
            let chars = text.chars().count();
            if chars > MAX_REMINDER_CHARS {
                return Err(error::tool_error(format!(
                    "argument `{name}`: it has {chars} characters, and at most {MAX_REMINDER_CHARS} are allowed"
                )));
            }
        }
        if attachments.len() > MAX_FILES {
            let given = attachments.len();
            return Err(error::tool_error(format!(
                "argument `attachments`: {given} files are given, and at most {MAX_FILES} are allowed"
            )));
        }
        let has_message = !text.is_empty() || !attachments.is_empty();
        match (prompt.is_empty(), has_message) {
            (false, false) => Ok(ReminderContent::Prompt(prompt.to_owned())),
            (true, true) => {
                let mut files: Vec<AttachmentId> = Vec::new();
                for given in attachments {
                    let file = self.find_file(given, context).await?;
                    if !files.contains(&file) {
                        files.push(file);
                    }
                }
                Ok(ReminderContent::Message { text: text.to_owned(), files })
            }
            (true, false) => Err(error::tool_error("nothing to deliver: give `text`, `attachments` or `prompt`")),
            (false, true) => Err(error::tool_error(
                "give either `prompt`, which you answer when it is due, or `text` and `attachments`, which are delivered as \
                 they are",
            )),
        }
    }

    /// Finds a file by its id or its number.
    async fn find_file(&self, given: &str, context: &ToolContext) -> Result<AttachmentId, ToolError> {
        let number: Option<NonZeroU64> = given.trim_start_matches('#').parse().ok();
        let Some(number) = number else {
            return Ok(lookup::find_attachment(&self.services, context, given).await?.id);
        };
        let found = self.services.archive.attachment(&context.conversation, AttachmentKey::Number(number.get())).await;
        match found
            .map_err(|error| error::tool_error_with_cause("the attachment's record could not be read", &error))?
        {
            Some(file) if !file.is_forgotten() => Ok(file.id),
            _ => Err(lookup::unknown_id_error(given)),
        }
    }
}

/// The time at which a reminder is due first.
fn next_time(arguments: &Arguments, now: Timestamp, zone: &Zone) -> Result<Timestamp, ToolError> {
    match (&arguments.at, &arguments.cron) {
        (Some(at), None) => {
            let time = WrittenTime::parse_iso(at).ok_or_else(|| {
                let at: String = at.escape_debug().take(100).collect();
                error::tool_error(format!(
                    "argument `at`: `{at}` is no date and time in ISO 8601, such as 2026-12-04T09:00 or \
                     2026-12-04T09:00+01:00; it is {} now",
                    zone.describe(now)
                ))
            })?;
            time.resolve(now, zone).map_err(|error| error::tool_error(format!("argument `at`: {error}")))
        }
        (None, Some(cron)) => {
            let invalid = |reason: &str| error::tool_error(format!("argument `cron`: {reason}"));
            if cron.split_whitespace().count() > 5 {
                return Err(invalid(
                    "it has five fields: minute, hour, day of the month, month, day of the week; once a minute is the most",
                ));
            }
            let schedule = CronSchedule::parse(cron, zone.time_zone().clone());
            let schedule = schedule.map_err(|error| invalid(&error.to_string()))?;
            schedule.next(now).ok_or_else(|| invalid("it is never due"))
        }
        _ => Err(error::tool_error("give either `at`, for what happens once, or `cron`, for what repeats")),
    }
}

#[cfg(test)]
mod tests;
