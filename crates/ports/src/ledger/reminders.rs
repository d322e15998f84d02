//! The reminders that people make in chat, and each person's time zone.

use async_trait::async_trait;
use satchel_domain::{
    ChannelName, ConversationId, ReminderAuthor, ReminderContent, ReminderId, Sender, Timestamp, TurnId,
    reminder::{MAX_REMINDERS_PER_PERSON, MAX_REMINDERS_PER_TURN},
};

use super::{LedgerError, PersonKey};

/// Stores reminders until they have ended.
///
/// # Contract
/// Besides that of [all ports](super):
/// - `create_reminder` stores a key once and returns the same reminder for a repeated key, also if it has ended. A person
///   has at most as many reminders as the caller allows, and so has a turn whose model makes them, with those that have
///   ended.
/// - A reminder ends when it is cancelled, when it is advanced to no further time, and with its conversation when that is
///   forgotten. A reminder that has ended is neither listed nor due, and its number is not used again. Only a scope of the
///   turn that has cancelled it lists it, for as long as its key is known.
/// - `advance_reminder` changes nothing unless the reminder is due at the given time, so that a repeated call or another
///   process skips no time.
/// - A renamed conversation keeps its reminders.
/// - A time zone is kept for each person of a channel.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Reminders: Send + Sync {
    /// Stores a reminder in a conversation that has turns, unless that is one too many.
    async fn create_reminder(
        &self,
        reminder: &NewReminder,
        limits: &ReminderLimits,
    ) -> Result<CreateReminderOutcome, LedgerError>;

    /// Returns reminders, the next due first.
    async fn list_reminders(&self, query: &ReminderQuery) -> Result<Vec<Reminder>, LedgerError>;

    /// Ends a reminder for a turn, if it is one of the scope; returns it as it was.
    async fn cancel_reminder(
        &self,
        reminder: ReminderId,
        scope: &ReminderScope,
        turn: TurnId,
    ) -> Result<Option<Reminder>, LedgerError>;

    /// Gives a reminder that was due its next time, or ends it.
    async fn advance_reminder(
        &self,
        reminder: ReminderId,
        due: Timestamp,
        next: Option<Timestamp>,
    ) -> Result<(), LedgerError>;

    /// Returns the people who have reminders in conversations of these channels.
    async fn list_reminder_people(&self, channels: &[ChannelName]) -> Result<Vec<ReminderPerson>, LedgerError>;

    /// Ends all reminders of the scope, and returns how many there were.
    async fn end_reminders(&self, scope: &ReminderScope) -> Result<u64, LedgerError>;

    /// Returns a person's time zone, by its name.
    async fn load_timezone(&self, person: &PersonKey) -> Result<Option<String>, LedgerError>;

    /// Changes or removes a person's time zone.
    async fn save_timezone(&self, person: &PersonKey, timezone: Option<String>) -> Result<(), LedgerError>;
}

/// A reminder to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReminder {
    /// What makes it unique, such as the id of the call that makes it.
    pub key: String,
    /// The conversation that it is delivered in.
    pub conversation: ConversationId,
    /// The person who makes it.
    pub person: Sender,
    /// Whether others can read along in the conversation.
    pub group: bool,
    /// What happens when it is due.
    pub content: ReminderContent,
    /// When it is due next.
    pub next_at: Timestamp,
    /// When it is due again, as a cron expression; `None` for one that is due once.
    pub cron: Option<String>,
    /// The time zone of these times, by its name; `None` for the machine's.
    pub timezone: Option<String>,
    /// Who makes it for the person.
    pub author: ReminderAuthor,
    /// When it is made, by the wall clock.
    pub made_at: Timestamp,
    /// The turn that makes it.
    pub turn: TurnId,
}

/// How many reminders there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReminderLimits {
    /// Of one person at a time.
    pub per_person: u32,
    /// Made by models in one turn.
    pub per_turn: u32,
}

impl Default for ReminderLimits {
    fn default() -> Self {
        Self { per_person: MAX_REMINDERS_PER_PERSON, per_turn: MAX_REMINDERS_PER_TURN }
    }
}

/// A stored reminder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of `NewReminder`")]
pub struct Reminder {
    pub id: ReminderId,
    pub conversation: ConversationId,
    pub person: Sender,
    pub group: bool,
    pub content: ReminderContent,
    /// When it is due next; of one that has ended, when it was due.
    pub next_at: Timestamp,
    pub cron: Option<String>,
    pub timezone: Option<String>,
    pub author: ReminderAuthor,
    /// When it was made; `None` of one that an earlier version stored.
    pub made_at: Option<Timestamp>,
}

/// The result of creating a reminder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateReminderOutcome {
    /// It is stored, or has been stored with the same key before.
    Created(Box<Reminder>),
    /// The person has too many reminders.
    LimitReached,
    /// The models of the turn have made too many.
    TurnLimitReached,
}

/// The reminders that somebody may see and cancel: those that match everything given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReminderScope {
    /// Only those of this person.
    pub person: Option<PersonKey>,
    /// Only those in conversations of these channels.
    pub channels: Option<Vec<ChannelName>>,
    /// Only those in this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those that models have made in this turn.
    pub made_in: Option<TurnId>,
    /// Only those that this turn has cancelled. They have ended.
    pub cancelled_in: Option<TurnId>,
}

/// A query for reminders.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReminderQuery {
    /// Only these.
    pub scope: ReminderScope,
    /// At most this many.
    pub limit: u32,
}

/// A person who has reminders, by the names that they had when they made the latest one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the types say it")]
pub struct ReminderPerson {
    pub channel: ChannelName,
    pub person: Sender,
}
