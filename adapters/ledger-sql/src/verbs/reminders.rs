//! Reminders and time zones: who made what, and when it is due next.

use std::time::Duration;

use satchel_domain::{ChannelName, ReminderAuthor, ReminderContent, ReminderId, Sender, Timestamp, TurnId};
use satchel_ports::ledger::{
    CreateReminderOutcome, NewReminder, PersonKey, Reminder, ReminderLimits, ReminderPerson, ReminderQuery,
    ReminderScope,
};
use uuid::Uuid;

use crate::{
    error::VerbError,
    lanes::{self, LaneId},
    parameters::Json,
    params, row_struct, rows,
    session::{Session, VerbResult},
};

/// How long the key of a reminder that has ended is kept: longer than any turn waits to be run again.
const KEY_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Selects whole reminders, as [`ReminderRow`] reads them.
const SELECT: &str = "SELECT reminders.id, lanes.conversation, sender, in_group, content, next_at, cron, timezone, author, \
     made_at FROM reminders JOIN lanes ON lanes.id = reminders.lane";

/// The reminders of a scope, with the parameters of [`ScopeParameters`], whichever turn has cancelled them.
const IN_SCOPE: &str = "($1 IS NULL OR person = $1) AND ($2 OR lanes.channel IN (SELECT value FROM rarray($3))) \
     AND ($4 IS NULL OR lanes.conversation = $4) AND ($5 IS NULL OR (turn = $5 AND author = 'model'))";

row_struct! {
    struct ReminderRow {
        id: i64,
        conversation: String,
        sender: Json<Sender>,
        in_group: bool,
        content: Json<ReminderContent>,
        next_at: i64,
        cron: Option<String>,
        timezone: Option<String>,
        author: String,
        made_at: Option<i64>,
    }
}

impl ReminderRow {
    fn into_reminder(self) -> Result<Reminder, VerbError> {
        let Self { id, conversation, sender, in_group, content, next_at, cron, timezone, author, made_at } = self;
        Ok(Reminder {
            id: ReminderId(rows::number(id, "number of a reminder")?),
            conversation: rows::conversation(&conversation)?,
            person: sender.0,
            group: in_group,
            content: content.0,
            next_at: Timestamp(next_at),
            cron,
            timezone,
            author: match author.as_str() {
                "person" => ReminderAuthor::Person,
                "model" => ReminderAuthor::Model,
                _ => return Err(VerbError::Row { what: "author of a reminder" }),
            },
            made_at: made_at.map(Timestamp),
        })
    }
}

/// Stores a reminder, unless its key is stored already, its person has too many, or a model makes too many in its turn.
pub async fn create_reminder<S: Session>(
    db: &S,
    reminder: &NewReminder,
    limits: &ReminderLimits,
) -> VerbResult<CreateReminderOutcome, S> {
    if let Some(stored) = find_by_key(db, &reminder.key).await? {
        return Ok(CreateReminderOutcome::Created(Box::new(stored)));
    }
    let NewReminder { key, conversation, person, group, content, next_at, cron, timezone, author, made_at, turn } =
        reminder;
    let Some(lane) = lanes::find_id(db, conversation).await? else {
        return Err(VerbError::unknown(format!("conversation {conversation}")).into());
    };
    let now = db.now();
    let kept_since = now.0.saturating_sub(i64::try_from(KEY_TTL.as_millis()).unwrap_or(i64::MAX));
    db.run("DELETE FROM reminders WHERE ended_at IS NOT NULL AND ended_at < $1", params![kept_since]).await?;
    let owner = PersonKey::new(conversation.channel(), person);
    db.lock(&owner).await?;
    let owner = owner.to_string();
    let count: i64 =
        db.value("SELECT COUNT(*) FROM reminders WHERE person = $1 AND ended_at IS NULL", params![&owner]).await?;
    if count >= i64::from(limits.per_person) {
        return Ok(CreateReminderOutcome::LimitReached);
    }
    let made: i64 =
        db.value("SELECT COUNT(*) FROM reminders WHERE turn = $1 AND author = 'model'", params![turn.0]).await?;
    if *author == ReminderAuthor::Model && made >= i64::from(limits.per_turn) {
        return Ok(CreateReminderOutcome::TurnLimitReached);
    }
    db.run(
        "INSERT INTO reminders \
             (key, lane, person, sender, in_group, content, next_at, cron, timezone, author, made_at, turn) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        params![
            key,
            lane,
            owner,
            Json(person),
            group,
            Json(content),
            next_at.0,
            cron,
            timezone,
            author.as_str(),
            made_at.0,
            turn.0
        ],
    )
    .await?;
    let stored = find_by_key(db, key).await?.ok_or(VerbError::Row { what: "reminder" })?;
    Ok(CreateReminderOutcome::Created(Box::new(stored)))
}

async fn find_by_key<S: Session>(db: &S, key: &str) -> VerbResult<Option<Reminder>, S> {
    let row: Option<ReminderRow> = db.find(&format!("{SELECT} WHERE reminders.key = $1"), params![key]).await?;
    Ok(row.map(ReminderRow::into_reminder).transpose()?)
}

pub async fn list_reminders<S: Session>(db: &S, query: &ReminderQuery) -> VerbResult<Vec<Reminder>, S> {
    let ScopeParameters { person, is_any_channel, channels, conversation, made_in } =
        ScopeParameters::new(&query.scope);
    // Two statements, because each has an index of its own.
    let rows: Vec<ReminderRow> = match query.scope.cancelled_in {
        None => {
            db.all(
                &format!("{SELECT} WHERE ended_at IS NULL AND {IN_SCOPE} ORDER BY next_at, reminders.id LIMIT $6 + 0"),
                params![person, is_any_channel, channels, conversation, made_in, query.limit],
            )
            .await?
        }
        Some(turn) => {
            db.all(
                &format!("{SELECT} WHERE cancelled_in = $6 AND {IN_SCOPE} ORDER BY next_at, reminders.id LIMIT $7 + 0"),
                params![person, is_any_channel, channels, conversation, made_in, turn.0, query.limit],
            )
            .await?
        }
    };
    Ok(rows.into_iter().map(ReminderRow::into_reminder).collect::<Result<_, _>>()?)
}

pub async fn cancel_reminder<S: Session>(
    db: &S,
    reminder: ReminderId,
    scope: &ReminderScope,
    turn: TurnId,
) -> VerbResult<Option<Reminder>, S> {
    let ScopeParameters { person, is_any_channel, channels, conversation, made_in } = ScopeParameters::new(scope);
    let Ok(id) = i64::try_from(reminder.0) else { return Ok(None) };
    if scope.cancelled_in.is_some() {
        return Ok(None);
    }
    let row: Option<ReminderRow> = db
        .find(
            &format!("{SELECT} WHERE {IN_SCOPE} AND ended_at IS NULL AND reminders.id = $6"),
            params![person, is_any_channel, channels, conversation, made_in, id],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    end_reminder(db, row.id).await?;
    db.run("UPDATE reminders SET cancelled_in = $2 WHERE id = $1", params![row.id, turn.0]).await?;
    Ok(row.into_reminder().map(Some)?)
}

/// Gives a reminder that is due at `due` its next time, or ends it.
pub async fn advance_reminder<S: Session>(
    db: &S,
    reminder: ReminderId,
    due: Timestamp,
    next: Option<Timestamp>,
) -> VerbResult<(), S> {
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

async fn end_reminder<S: Session>(db: &S, id: i64) -> VerbResult<(), S> {
    db.run("UPDATE reminders SET ended_at = $2 WHERE id = $1", params![id, db.now().0]).await?;
    Ok(())
}

pub async fn list_reminder_people<S: Session>(db: &S, channels: &[ChannelName]) -> VerbResult<Vec<ReminderPerson>, S> {
    let rows: Vec<(String, Json<Sender>)> = db
        .all(
            "SELECT lanes.channel, sender FROM reminders JOIN lanes ON lanes.id = reminders.lane \
         WHERE reminders.id IN (SELECT MAX(id) FROM reminders WHERE ended_at IS NULL GROUP BY person) \
           AND lanes.channel IN (SELECT value FROM rarray($1)) ORDER BY person",
            params![channels.iter().map(ToString::to_string).collect::<Vec<_>>()],
        )
        .await?;
    let person = |(channel, person): (String, Json<Sender>)| {
        Ok(ReminderPerson { channel: rows::channel(channel)?, person: person.0 })
    };
    rows.into_iter().map(person).collect()
}

pub async fn end_reminders<S: Session>(db: &S, scope: &ReminderScope) -> VerbResult<u64, S> {
    let ScopeParameters { person, is_any_channel, channels, conversation, made_in } = ScopeParameters::new(scope);
    if scope.cancelled_in.is_some() {
        return Ok(0);
    }
    let ended = db
        .run(
            &format!(
                "UPDATE reminders SET ended_at = $6 WHERE ended_at IS NULL AND id IN ( \
                     SELECT reminders.id FROM reminders JOIN lanes ON lanes.id = reminders.lane WHERE {IN_SCOPE})"
            ),
            params![person, is_any_channel, channels, conversation, made_in, db.now().0],
        )
        .await?;
    Ok(ended)
}

/// Removes the reminders of a conversation that is forgotten.
pub(crate) async fn remove<S: Session>(db: &S, lane: LaneId) -> VerbResult<(), S> {
    db.run("DELETE FROM reminders WHERE lane = $1", params![lane]).await?;
    Ok(())
}

/// Removes the reminders of a person in a conversation that is forgotten.
pub(crate) async fn remove_own<S: Session>(db: &S, lane: LaneId, person: &PersonKey) -> VerbResult<(), S> {
    db.run("DELETE FROM reminders WHERE lane = $1 AND person = $2", params![lane, person.to_string()]).await?;
    Ok(())
}

pub async fn load_timezone<S: Session>(db: &S, person: &PersonKey) -> VerbResult<Option<String>, S> {
    let row: Option<(String,)> =
        db.find("SELECT timezone FROM person_settings WHERE person = $1", params![person.to_string()]).await?;
    Ok(row.map(|(timezone,)| timezone))
}

pub async fn save_timezone<S: Session>(db: &S, person: &PersonKey, timezone: Option<String>) -> VerbResult<(), S> {
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

/// What is bound for [`IN_SCOPE`].
struct ScopeParameters {
    person: Option<String>,
    is_any_channel: bool,
    channels: Vec<String>,
    conversation: Option<String>,
    made_in: Option<Uuid>,
}

impl ScopeParameters {
    fn new(scope: &ReminderScope) -> Self {
        let ReminderScope { person, channels, conversation, made_in, cancelled_in: _ } = scope;
        Self {
            person: person.as_ref().map(ToString::to_string),
            is_any_channel: channels.is_none(),
            channels: channels.iter().flatten().map(ToString::to_string).collect(),
            conversation: conversation.as_ref().map(ToString::to_string),
            made_in: made_in.map(|turn| turn.0),
        }
    }
}
