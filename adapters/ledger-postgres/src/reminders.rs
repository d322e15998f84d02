//! Reminders and time zones: who made what, and when it is due next.

use std::time::Duration;

use satchel_domain::{ChannelName, ReminderContent, ReminderId, Sender, Timestamp};
use satchel_ports::ledger::{
    CreateReminderOutcome, NewReminder, PersonKey, Reminder, ReminderPerson, ReminderQuery, ReminderScope,
};
use sqlx::{FromRow, Row, postgres::PgRow};

use crate::{
    database::{Database, Json, params},
    error::{Error, Result},
    lanes::{self, LaneId},
    rows,
};

/// How long the key of a reminder that has ended is kept: longer than any turn waits to be run again.
const KEY_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Selects whole reminders, as [`ReminderRow`] reads them.
const SELECT: &str = "SELECT reminders.id, lanes.conversation, sender, in_group, content, next_at, cron, timezone \
     FROM reminders JOIN lanes ON lanes.id = reminders.lane";

/// The reminders of a scope that have not ended, with the parameters of [`scope_parameters`].
const IN_SCOPE: &str = "ended_at IS NULL AND ($1 IS NULL OR person = $1) \
     AND ($2 IS NULL OR lanes.channel = ANY($2)) \
     AND ($3 IS NULL OR lanes.conversation = $3)";

struct ReminderRow {
    id: i64,
    conversation: String,
    person: Json<Sender>,
    group: bool,
    content: Json<ReminderContent>,
    next_at: i64,
    cron: Option<String>,
    timezone: Option<String>,
}

impl FromRow<'_, PgRow> for ReminderRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get(0)?,
            conversation: row.try_get(1)?,
            person: row.try_get(2)?,
            group: row.try_get(3)?,
            content: row.try_get(4)?,
            next_at: row.try_get(5)?,
            cron: row.try_get(6)?,
            timezone: row.try_get(7)?,
        })
    }
}

impl ReminderRow {
    fn into_reminder(self) -> Result<Reminder> {
        let Self { id, conversation, person, group, content, next_at, cron, timezone } = self;
        Ok(Reminder {
            id: ReminderId(rows::number(id, "number of a reminder")?),
            conversation: rows::conversation(&conversation)?,
            person: person.0,
            group,
            content: content.0,
            next_at: Timestamp(next_at),
            cron,
            timezone,
        })
    }
}

/// Stores a reminder, unless its key is stored already or its person has too many.
pub(crate) async fn create(
    db: &Database,
    reminder: &NewReminder,
    max_per_person: u32,
) -> Result<CreateReminderOutcome> {
    if let Some(stored) = find_by_key(db, &reminder.key).await? {
        return Ok(CreateReminderOutcome::Created(Box::new(stored)));
    }
    let NewReminder { key, conversation, person, group, content, next_at, cron, timezone } = reminder;
    let Some(lane) = lanes::find_id(db, conversation).await? else {
        return Err(Error::unknown(format!("conversation {conversation}")));
    };
    let now = db.now();
    let kept_since = now.0.saturating_sub(i64::try_from(KEY_TTL.as_millis()).unwrap_or(i64::MAX));
    db.run("DELETE FROM reminders WHERE ended_at IS NOT NULL AND ended_at < $1", params![kept_since]).await?;
    let owner = PersonKey::new(conversation.channel(), person);
    db.lock(&owner).await?;
    let owner = owner.to_string();
    let count: i64 =
        db.value("SELECT COUNT(*) FROM reminders WHERE person = $1 AND ended_at IS NULL", params![&owner]).await?;
    if count >= i64::from(max_per_person) {
        return Ok(CreateReminderOutcome::LimitReached);
    }
    db.run(
        "INSERT INTO reminders (key, lane, person, sender, in_group, content, next_at, cron, timezone) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        params![key, lane, owner, Json(person), group, Json(content), next_at.0, cron, timezone],
    )
    .await?;
    let stored = find_by_key(db, key).await?.ok_or(Error::Row { what: "reminder" })?;
    Ok(CreateReminderOutcome::Created(Box::new(stored)))
}

async fn find_by_key(db: &Database, key: &str) -> Result<Option<Reminder>> {
    let row: Option<ReminderRow> = db.find(&format!("{SELECT} WHERE reminders.key = $1"), params![key]).await?;
    row.map(ReminderRow::into_reminder).transpose()
}

pub(crate) async fn list(db: &Database, query: &ReminderQuery) -> Result<Vec<Reminder>> {
    let (person, channels, conversation) = scope_parameters(&query.scope);
    let rows: Vec<ReminderRow> = db
        .all(
            &format!("{SELECT} WHERE {IN_SCOPE} ORDER BY next_at, reminders.id LIMIT $4"),
            params![person, channels, conversation, query.limit],
        )
        .await?;
    rows.into_iter().map(ReminderRow::into_reminder).collect()
}

pub(crate) async fn cancel(db: &Database, reminder: ReminderId, scope: &ReminderScope) -> Result<Option<Reminder>> {
    let (person, channels, conversation) = scope_parameters(scope);
    let Ok(id) = i64::try_from(reminder.0) else { return Ok(None) };
    let row: Option<ReminderRow> = db
        .find(&format!("{SELECT} WHERE {IN_SCOPE} AND reminders.id = $4"), params![person, channels, conversation, id])
        .await?;
    let Some(row) = row else { return Ok(None) };
    end_reminder(db, row.id).await?;
    row.into_reminder().map(Some)
}

/// Gives a reminder that is due at `due` its next time, or ends it.
pub(crate) async fn advance(
    db: &Database,
    reminder: ReminderId,
    due: Timestamp,
    next: Option<Timestamp>,
) -> Result<()> {
    let id = i64::try_from(reminder.0).unwrap_or(i64::MAX);
    let is_due: bool = db
        .value(
            "SELECT EXISTS (SELECT 1 FROM reminders WHERE id = $1 AND next_at = $2 AND ended_at IS NULL)",
            params![id, due.0],
        )
        .await?;
    match next {
        _ if !is_due => {}
        Some(next) => {
            db.run("UPDATE reminders SET next_at = $2 WHERE id = $1", params![id, next.0]).await?;
        }
        None => end_reminder(db, id).await?,
    }
    Ok(())
}

async fn end_reminder(db: &Database, id: i64) -> Result<()> {
    db.run("UPDATE reminders SET ended_at = $2 WHERE id = $1", params![id, db.now().0]).await?;
    Ok(())
}

pub(crate) async fn list_people(db: &Database, channels: &[ChannelName]) -> Result<Vec<ReminderPerson>> {
    let rows: Vec<(String, Json<Sender>)> = db
        .all(
            "SELECT lanes.channel, sender FROM reminders JOIN lanes ON lanes.id = reminders.lane \
         WHERE reminders.id IN (SELECT MAX(id) FROM reminders WHERE ended_at IS NULL GROUP BY person) \
           AND lanes.channel = ANY($1) ORDER BY person",
            params![channels.iter().map(ToString::to_string).collect::<Vec<_>>()],
        )
        .await?;
    let person = |(channel, person): (String, Json<Sender>)| {
        Ok(ReminderPerson { channel: rows::channel(channel)?, person: person.0 })
    };
    rows.into_iter().map(person).collect()
}

pub(crate) async fn end_all(db: &Database, person: &PersonKey) -> Result<u64> {
    let ended = db
        .run(
            "UPDATE reminders SET ended_at = $2 WHERE person = $1 AND ended_at IS NULL",
            params![person.to_string(), db.now().0],
        )
        .await?;
    Ok(ended)
}

/// Removes the reminders of a conversation that is forgotten.
pub(crate) async fn remove(db: &Database, lane: LaneId) -> Result<()> {
    db.run("DELETE FROM reminders WHERE lane = $1", params![lane]).await?;
    Ok(())
}

pub(crate) async fn load_timezone(db: &Database, person: &PersonKey) -> Result<Option<String>> {
    let row: Option<(String,)> =
        db.find("SELECT timezone FROM person_settings WHERE person = $1", params![person.to_string()]).await?;
    Ok(row.map(|(timezone,)| timezone))
}

pub(crate) async fn save_timezone(db: &Database, person: &PersonKey, timezone: Option<&str>) -> Result<()> {
    match timezone {
        Some(timezone) => {
            db.run(
                "INSERT INTO person_settings (person, timezone) VALUES ($1, $2) \
             ON CONFLICT (person) DO UPDATE SET timezone = excluded.timezone",
                params![person.to_string(), timezone],
            )
            .await?
        }
        None => db.run("DELETE FROM person_settings WHERE person = $1", params![person.to_string()]).await?,
    };
    Ok(())
}

type ScopeParameters = (Option<String>, Option<Vec<String>>, Option<String>);

fn scope_parameters(scope: &ReminderScope) -> ScopeParameters {
    let ReminderScope { person, channels, conversation } = scope;
    (
        person.as_ref().map(ToString::to_string),
        channels.as_ref().map(|channels| channels.iter().map(ToString::to_string).collect()),
        conversation.as_ref().map(ToString::to_string),
    )
}
