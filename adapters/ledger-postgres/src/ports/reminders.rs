//! The port `Reminders`: what people want to be reminded of.

use async_trait::async_trait;
use satchel_domain::{ChannelName, ReminderId, Timestamp};
use satchel_ports::ledger::{
    CreateReminderOutcome, LedgerError, NewReminder, PersonKey, Reminder, ReminderPerson, ReminderQuery, ReminderScope,
    Reminders,
};

use crate::{PostgresLedger, reminders};

#[async_trait]
impl Reminders for PostgresLedger {
    async fn create_reminder(
        &self,
        reminder: &NewReminder,
        max_per_person: u32,
    ) -> Result<CreateReminderOutcome, LedgerError> {
        self.write("creating a reminder", |db| async move { reminders::create(&db, reminder, max_per_person).await })
            .await
    }

    async fn list_reminders(&self, query: &ReminderQuery) -> Result<Vec<Reminder>, LedgerError> {
        self.read("listing reminders", |db| async move { reminders::list(&db, query).await }).await
    }

    async fn cancel_reminder(
        &self,
        reminder: ReminderId,
        scope: &ReminderScope,
    ) -> Result<Option<Reminder>, LedgerError> {
        self.write("cancelling a reminder", |db| async move { reminders::cancel(&db, reminder, scope).await }).await
    }

    async fn advance_reminder(
        &self,
        reminder: ReminderId,
        due: Timestamp,
        next: Option<Timestamp>,
    ) -> Result<(), LedgerError> {
        self.write("advancing a reminder", |db| async move { reminders::advance(&db, reminder, due, next).await }).await
    }

    async fn list_reminder_people(&self, channels: &[ChannelName]) -> Result<Vec<ReminderPerson>, LedgerError> {
        self.read("listing people with reminders", |db| async move { reminders::list_people(&db, channels).await })
            .await
    }

    async fn end_reminders(&self, person: &PersonKey) -> Result<u64, LedgerError> {
        self.write("ending a person's reminders", |db| async move { reminders::end_all(&db, person).await }).await
    }

    async fn load_timezone(&self, person: &PersonKey) -> Result<Option<String>, LedgerError> {
        self.read("loading a time zone", |db| async move { reminders::load_timezone(&db, person).await }).await
    }

    async fn save_timezone(&self, person: &PersonKey, timezone: Option<String>) -> Result<(), LedgerError> {
        let timezone = timezone.as_deref();
        self.write("saving a time zone", |db| async move { reminders::save_timezone(&db, person, timezone).await })
            .await
    }
}
