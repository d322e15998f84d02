//! The port `Reminders`: what people want to be reminded of.

use async_trait::async_trait;
use satchel_domain::{ChannelName, ReminderId, Timestamp};
use satchel_ports::ledger::{
    CreateReminderOutcome, LedgerError, NewReminder, PersonKey, Reminder, ReminderPerson, ReminderQuery, ReminderScope,
    Reminders,
};

use crate::{SqliteLedger, reminders};

#[async_trait]
impl Reminders for SqliteLedger {
    async fn create_reminder(
        &self,
        reminder: &NewReminder,
        max_per_person: u32,
    ) -> Result<CreateReminderOutcome, LedgerError> {
        let reminder = reminder.clone();
        self.writer.run("creating a reminder", move |db| reminders::create(db, &reminder, max_per_person)).await
    }

    async fn list_reminders(&self, query: &ReminderQuery) -> Result<Vec<Reminder>, LedgerError> {
        let query = query.clone();
        self.read("listing reminders", move |db| reminders::list(db, &query)).await
    }

    async fn cancel_reminder(
        &self,
        reminder: ReminderId,
        scope: &ReminderScope,
    ) -> Result<Option<Reminder>, LedgerError> {
        let scope = scope.clone();
        self.writer.run("cancelling a reminder", move |db| reminders::cancel(db, reminder, &scope)).await
    }

    async fn advance_reminder(
        &self,
        reminder: ReminderId,
        due: Timestamp,
        next: Option<Timestamp>,
    ) -> Result<(), LedgerError> {
        self.writer.run("advancing a reminder", move |db| reminders::advance(db, reminder, due, next)).await
    }

    async fn list_reminder_people(&self, channels: &[ChannelName]) -> Result<Vec<ReminderPerson>, LedgerError> {
        let channels = channels.to_vec();
        self.read("listing people with reminders", move |db| reminders::list_people(db, &channels)).await
    }

    async fn end_reminders(&self, person: &PersonKey) -> Result<u64, LedgerError> {
        let person = person.clone();
        self.writer.run("ending a person's reminders", move |db| reminders::end_all(db, &person)).await
    }

    async fn load_timezone(&self, person: &PersonKey) -> Result<Option<String>, LedgerError> {
        let person = person.clone();
        self.read("loading a time zone", move |db| reminders::load_timezone(db, &person)).await
    }

    async fn save_timezone(&self, person: &PersonKey, timezone: Option<String>) -> Result<(), LedgerError> {
        let person = person.clone();
        self.writer
            .run("saving a time zone", move |db| reminders::save_timezone(db, &person, timezone.as_deref()))
            .await
    }
}
