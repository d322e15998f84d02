//! What a running turn records, so that it goes on after a crash.

use satchel_domain::{
    MessageRef, Part, PartContent, PartId, PartState, ToolOutcome, TurnId,
    delivery::{self, DeliveryRules, Event},
};
use satchel_ports::ledger::{JournalEntry, Lease};
use sqlx::{SqliteConnection, types::Json};
use uuid::Uuid;

use crate::{
    attachments,
    error::{Error, Result},
    lanes, parts,
    process::Process,
    rows::{PartRow, select_part},
};

/// Records a model message and marks what was injected before it as taken up.
pub(crate) async fn journal_message(
    connection: &mut SqliteConnection,
    lease: &Lease,
    turn: TurnId,
    entry: &JournalEntry,
) -> Result<()> {
    lanes::check(connection, lease).await?;
    queued_sequence(connection, lease, turn).await?;
    let JournalEntry::Model { steered, .. } = entry else {
        return Err(Error::unknown("model message to journal"));
    };
    for message in steered {
        sqlx::query("UPDATE inbox SET steered_into = $2 WHERE id = $1 AND conversation = $3 AND consumed_by IS NULL")
            .bind(message.id.0)
            .bind(turn.0)
            .bind(lease.conversation.to_string())
            .execute(&mut *connection)
            .await?;
    }
    append(connection, turn, None, entry).await
}

/// Records what a call yielded together with its new files, and returns it with their numbers.
pub(crate) async fn journal_outcome(
    connection: &mut SqliteConnection,
    lease: &Lease,
    turn: TurnId,
    ordinal: u32,
    mut outcome: ToolOutcome,
) -> Result<ToolOutcome> {
    lanes::check(connection, lease).await?;
    queued_sequence(connection, lease, turn).await?;
    for attachment in attachments::of_outcome(&mut outcome) {
        attachments::store(connection, &lease.conversation, turn, attachment).await?;
    }
    let entry = JournalEntry::Outcome { ordinal, outcome: outcome.clone() };
    append(connection, turn, Some(ordinal), &entry).await?;
    Ok(outcome)
}

/// Whether an earlier reply is under way, so that a turn can't stream yet.
pub(crate) async fn must_wait(connection: &mut SqliteConnection, lease: &Lease, turn: TurnId) -> Result<bool> {
    lanes::check(connection, lease).await?;
    parts::is_busy(connection, &lease.conversation, turn).await
}

/// Begins the message in which a turn streams; `None` while anything else of the lane is unsettled.
pub(crate) async fn begin_stream(
    connection: &mut SqliteConnection,
    process: &Process,
    lease: &Lease,
    turn: TurnId,
    reply_to: Option<MessageRef>,
) -> Result<Option<Part>> {
    lanes::check(connection, lease).await?;
    let sequence = queued_sequence(connection, lease, turn).await?;
    if let Some(open) = open_stream(connection, turn).await? {
        return Ok(Some(open));
    }
    if parts::is_busy(connection, &lease.conversation, turn).await? {
        return Ok(None);
    }
    let now = process.now();
    let planned = Part {
        id: PartId(Uuid::now_v7()),
        conversation: lease.conversation.clone(),
        turn,
        position: 0,
        content: PartContent::of_text(""),
        state: PartState::Pending,
        attempts: 0,
        first_attempt_at: None,
        labelled: false,
        target: None,
        reply_to,
        created_at: now,
    };
    let part = delivery::advance(&planned, Event::Begun, now, &DeliveryRules::default());
    parts::insert(connection, &part, sequence).await?;
    sqlx::query("UPDATE parts SET open_stream = 1 WHERE id = $1").bind(part.id.0).execute(connection).await?;
    Ok(Some(part))
}

/// The message in which a turn streams.
pub(crate) async fn open_stream(connection: &mut SqliteConnection, turn: TurnId) -> Result<Option<Part>> {
    let row: Option<PartRow> = sqlx::query_as(select_part!("WHERE turn = $1 AND open_stream = 1 AND settled = 0"))
        .bind(turn.0)
        .fetch_optional(connection)
        .await?;
    row.map(Part::try_from).transpose()
}

/// The place of an incomplete turn in its lane.
pub(crate) async fn queued_sequence(connection: &mut SqliteConnection, lease: &Lease, turn: TurnId) -> Result<i64> {
    let sequence =
        sqlx::query_scalar("SELECT sequence FROM turns WHERE id = $1 AND conversation = $2 AND state = 'queued'")
            .bind(turn.0)
            .bind(lease.conversation.to_string())
            .fetch_optional(connection)
            .await?;
    sequence.ok_or_else(|| Error::unknown(format!("incomplete turn {turn}")))
}

async fn append(
    connection: &mut SqliteConnection,
    turn: TurnId,
    ordinal: Option<u32>,
    entry: &JournalEntry,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO journal (turn, position, ordinal, entry) \
         SELECT $1, COALESCE(MAX(position) + 1, 0), $2, $3 FROM journal WHERE turn = $1",
    )
    .bind(turn.0)
    .bind(ordinal.map(i64::from))
    .bind(Json(entry))
    .execute(connection)
    .await?;
    Ok(())
}
