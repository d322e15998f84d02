//! The loops that wait for reminders and store those that are due as messages of the people who made them.
//!
//! Each time of a reminder has a dedup key in the inbox. It is stored before the reminder advances, so that a crash in
//! between repeats only what the inbox drops.

use std::{slice, sync::Arc, time::Duration};

use futures::future::join_all;
use satchel_calendar::{Zone, cron::CronSchedule};
use satchel_domain::{
    ChannelName, InboundMessage, ReminderContent, ReminderOrigin, SATCHEL_SENDER_ID, SystemTask, Timestamp,
};
use satchel_intake::InternalInbound;
use satchel_ports::{
    Clock, InboundError, LedgerError, Reminders,
    ledger::{PersonKey, Reminder, ReminderQuery, ReminderScope},
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{MissedRun, scheduler::log_failure};

/// How long it sleeps at most: another process may have made a reminder, and the clock may be set.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The delay after the first failure of the ledger; doubled each time, up to [`MAX_RETRY_DELAY`].
const RETRY_DELAY: Duration = Duration::from_secs(1);

const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// A reminder that is delivered this late says when it was due.
const MISSED_AFTER: Duration = Duration::from_secs(60);

/// How often reminders are ended whose people have lost their access; also before any is delivered.
const ACCESS_INTERVAL: Duration = Duration::from_secs(30);

/// How many reminders are read at once.
const BATCH: u32 = 100;

/// How many missed reminders are listed.
const MAX_LISTED: u32 = 1_000;

/// Delivers the reminders of the channels that a process hosts.
pub struct ReminderScheduler {
    pub reminders: Arc<dyn Reminders>,
    pub inbound: InternalInbound,
    /// Read as the wall clock, as people's times are.
    pub clock: Arc<dyn Clock>,
    /// The zone of reminders that name none.
    pub default_zone: Zone,
    /// The channels that this process hosts.
    pub channels: Vec<ChannelName>,
}

/// Why a due reminder could not be stored.
#[derive(Debug, thiserror::Error)]
enum DeliverReminderError {
    #[error(transparent)]
    Inbound(#[from] InboundError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl ReminderScheduler {
    /// Stores what is due until `stop` is cancelled. Each channel has a loop of its own, so that one whose platform doesn't
    /// answer holds up no other one.
    pub async fn run(self, stop: CancellationToken) {
        // Cancelling it anywhere is as safe as a crash.
        stop.run_until_cancelled(join_all(self.channels.iter().map(|channel| self.run_loop(channel)))).await;
        stop.cancelled().await;
    }

    async fn run_loop(&self, channel: &ChannelName) {
        let mut delay = RETRY_DELAY;
        let mut access_checked = None;
        loop {
            match self.run_due(channel, &mut access_checked).await {
                Ok(wait) => {
                    delay = RETRY_DELAY;
                    sleep(wait).await;
                }
                Err(error) => {
                    log_failure(&error, "storing a due reminder failed; retrying");
                    sleep(delay).await;
                    delay = (delay * 2).min(MAX_RETRY_DELAY);
                }
            }
        }
    }

    /// Stores what is due on a channel, and returns how long to sleep. A reminder that fails does not stop the others.
    async fn run_due(
        &self,
        channel: &ChannelName,
        access_checked: &mut Option<Instant>,
    ) -> Result<Duration, DeliverReminderError> {
        let now = self.clock.wall();
        let mut next = self.list_next(channel).await?;
        let is_due = next.first().is_some_and(|first| first.next_at <= now);
        if is_due || access_checked.is_none_or(|checked| checked.elapsed() >= ACCESS_INTERVAL) {
            self.end_without_access(channel).await?;
            *access_checked = Some(Instant::now());
            next = self.list_next(channel).await?;
        }
        let mut result = Ok(());
        for reminder in next.iter().take_while(|reminder| reminder.next_at <= now) {
            result = result.and(self.deliver_or_end(reminder, now).await);
        }
        result?;
        let has_more = next.len() == BATCH as usize && next.last().is_some_and(|last| last.next_at <= now);
        let first = next.iter().find(|reminder| reminder.next_at > now);
        let wait = first.map_or(POLL_INTERVAL, |reminder| reminder.next_at.saturating_duration_since(now));
        Ok(if has_more { Duration::ZERO } else { wait.min(POLL_INTERVAL) })
    }

    async fn list_next(&self, channel: &ChannelName) -> Result<Vec<Reminder>, LedgerError> {
        let scope = ReminderScope { channels: Some(vec![channel.clone()]), ..ReminderScope::default() };
        self.reminders.list_reminders(&ReminderQuery { scope, limit: BATCH }).await
    }

    /// Ends the reminders of people who may not talk on a channel any more.
    async fn end_without_access(&self, channel: &ChannelName) -> Result<(), LedgerError> {
        for person in self.reminders.list_reminder_people(slice::from_ref(channel)).await? {
            if !self.inbound.is_allowed(&person.channel, &person.person).await? {
                let person = PersonKey::new(&person.channel, &person.person);
                let scope = ReminderScope { person: Some(person.clone()), ..ReminderScope::default() };
                let ended = self.reminders.end_reminders(&scope).await?;
                tracing::warn!(%person, ended, "a person has no access any more; their reminders have ended");
            }
        }
        Ok(())
    }

    /// Ends a due reminder where its person can't write any more; delivers any other one.
    async fn deliver_or_end(&self, reminder: &Reminder, now: Timestamp) -> Result<(), DeliverReminderError> {
        if self.inbound.can_write(&reminder.conversation, &reminder.person) {
            return self.deliver(reminder, now).await;
        }
        self.reminders.advance_reminder(reminder.id, reminder.next_at, None).await?;
        let person = PersonKey::new(reminder.conversation.channel(), &reminder.person);
        tracing::warn!(
            reminder.id = %reminder.id, chat.id = %reminder.conversation, %person,
            "a person can't write in a conversation any more; their reminder there has ended"
        );
        Ok(())
    }

    /// Stores the message of a due reminder, then its next time. Missed times of a recurring one are one delivery.
    async fn deliver(&self, reminder: &Reminder, now: Timestamp) -> Result<(), DeliverReminderError> {
        let Reminder { id, conversation, person, group, content, next_at: due, cron, author, made_at, .. } = reminder;
        let zone = self.readers_zone(reminder).await?;
        let missed = (now.saturating_duration_since(*due) > MISSED_AFTER).then(|| zone.describe(*due));
        if missed.is_some() {
            tracing::info!(reminder.id = %id, "a reminder was missed; it is delivered now");
        }
        let made = made_at.map(|made_at| zone.describe(made_at));
        let origin = Some(ReminderOrigin { author: *author, made, repeats: cron.is_some() });
        let (task, text) = match content.clone() {
            ReminderContent::Message { text, files } => {
                (SystemTask::DeliverReminder { reminder: *id, text, files, missed, origin }, String::new())
            }
            ReminderContent::Prompt(prompt) => {
                (SystemTask::RunReminder { reminder: *id, due: zone.describe(*due), origin }, prompt)
            }
        };
        let key = format!("{SATCHEL_SENDER_ID}:reminder:{id}:{}", due.0);
        let message =
            InboundMessage { group: *group, text, ..InboundMessage::new(conversation.clone(), key, person.clone()) };
        self.inbound.accept(task, message).await?;
        self.reminders.advance_reminder(*id, *due, next_time(reminder, &self.default_zone, now)).await?;
        Ok(())
    }

    /// The zone in which people read the times of a reminder: its own, else the one that its person has chosen.
    async fn readers_zone(&self, reminder: &Reminder) -> Result<Zone, LedgerError> {
        let person = PersonKey::new(reminder.conversation.channel(), &reminder.person);
        let chosen = self.reminders.load_timezone(&person).await?;
        let zone = Zone::find_or(chosen.as_deref(), &self.default_zone);
        Ok(Zone::find_or(reminder.timezone.as_deref(), &zone))
    }
}

/// Lists the reminders that fell due and would be delivered now.
///
/// # Errors
/// When the ledger fails.
pub async fn list_missed_reminders(
    reminders: &dyn Reminders,
    default_zone: &Zone,
    now: Timestamp,
) -> Result<Vec<MissedRun>, LedgerError> {
    let query = ReminderQuery { scope: ReminderScope::default(), limit: MAX_LISTED };
    let missed = reminders.list_reminders(&query).await?.into_iter().filter(|reminder| reminder.next_at <= now);
    let run = |reminder: Reminder| MissedRun {
        schedule: format!("reminder {} in {}", reminder.id, reminder.conversation),
        runs: 1,
        latest: zone_of(&reminder, default_zone).describe(reminder.next_at),
    };
    Ok(missed.map(run).collect())
}

/// Gives the reminders that fell due their next time, or ends them, without a delivery.
///
/// # Errors
/// When the ledger fails.
pub async fn skip_missed_reminders(
    reminders: &dyn Reminders,
    default_zone: &Zone,
    now: Timestamp,
) -> Result<(), LedgerError> {
    let query = ReminderQuery { scope: ReminderScope::default(), limit: BATCH };
    loop {
        let next = reminders.list_reminders(&query).await?;
        let missed: Vec<&Reminder> = next.iter().filter(|reminder| reminder.next_at <= now).collect();
        if missed.is_empty() {
            return Ok(());
        }
        for reminder in missed {
            reminders.advance_reminder(reminder.id, reminder.next_at, next_time(reminder, default_zone, now)).await?;
        }
    }
}

/// When a reminder is due after now; `None` for one that is due once.
fn next_time(reminder: &Reminder, default_zone: &Zone, now: Timestamp) -> Option<Timestamp> {
    let cron = reminder.cron.as_ref()?;
    match CronSchedule::parse(cron, zone_of(reminder, default_zone).time_zone().clone()) {
        Ok(schedule) => schedule.next(now.max(reminder.next_at)),
        Err(error) => {
            tracing::error!(reminder.id = %reminder.id, %error, "a reminder has an invalid cron expression; it has ended");
            None
        }
    }
}

/// The zone by which a reminder is due again, and in which an operator reads its time.
fn zone_of(reminder: &Reminder, default_zone: &Zone) -> Zone {
    Zone::find_or(reminder.timezone.as_deref(), default_zone)
}

#[cfg(test)]
mod tests;
