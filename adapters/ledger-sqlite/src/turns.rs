//! What there is to work on in a lane: its oldest incomplete turn and what waits behind it.

use satchel_domain::{ConversationId, Part, PartState, Timestamp, TurnId, part::UndeliveredPart};
use satchel_ports::ledger::{JournalEntry, Lease, QueuedMessage, QueuedTurn};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    attachments::{AttachmentRef, Records},
    batch::{Answers, Batch, Statement},
    error::Result,
    lanes,
    rows::{self, MessageRow, PartRow, select_messages, select_part},
    session::Session,
};

/// How many of the messages behind a turn are looked at: it is done at every message that arrives, and a flood must not
/// make each of them dearer than the one before.
const WAITING: i64 = 200;

/// How many of the newest messages are looked through for commands: nobody who wants a flood to end waits for its end.
const NEWEST: i64 = 300;

#[derive(sqlx::FromRow)]
struct OldestTurn {
    id: Uuid,
    album: Option<String>,
    ready_at: i64,
    crashes: i64,
    voice: bool,
    agent: Option<String>,
}

/// The id of the lane's oldest incomplete turn.
macro_rules! oldest {
    () => {
        "(SELECT id FROM turns WHERE conversation = $1 AND state = 'queued' ORDER BY sequence LIMIT 1)"
    };
}

/// A turn as it was read.
pub(crate) struct ReadTurn {
    pub(crate) turn: QueuedTurn,
    /// Whether messages may join it until it begins.
    pub(crate) is_album: bool,
}

/// Where a batch has read the rows of a lane's oldest incomplete turn.
struct TurnStatements {
    oldest: Statement,
    messages: Statement,
    journal: Statement,
    draft: Statement,
    unreported: Statement,
    followed: Statement,
}

/// Reads the lane's oldest incomplete turn.
pub(crate) async fn next_turn(session: &mut Session<'_>, lease: &Lease) -> Result<Option<ReadTurn>> {
    let mut batch = Batch::default();
    let statements = read(&mut batch, &lease.conversation);
    // Last, because nobody but the lane's owner moves on to another turn: if it still is ours, all rows are of one.
    let lane = lanes::read(&mut batch, &lease.conversation);
    let answers = session.run(batch).await?;
    lanes::require(&answers, lane, lease)?;
    statements.load(session, &answers).await
}

/// Runs the statements of a claim, and reads behind them what it hands over: the lane's oldest incomplete turn, unless
/// that is not ready.
pub(crate) async fn claimed_turn(
    session: &mut Session<'_>,
    mut claim: Batch,
    conversation: &ConversationId,
    now: Timestamp,
) -> Result<Option<Box<QueuedTurn>>> {
    let statements = read(&mut claim, conversation);
    let answers = session.run(claim).await?;
    let turn = statements.load(session, &answers).await?.map(|read| read.turn);
    // Until it is ready, messages may join it.
    Ok(turn.filter(|turn| turn.ready_at <= now).map(Box::new))
}

fn read(batch: &mut Batch, conversation: &ConversationId) -> TurnStatements {
    let conversation = conversation.to_string();
    let oldest = batch
        .add(concat!(
            "SELECT id, album, ready_at, crashes, lanes.voice, lanes.agent FROM turns \
             JOIN lanes ON lanes.conversation = turns.conversation WHERE id = ",
            oldest!()
        ))
        .bind(&conversation)
        .id();
    let messages = batch
        .add(select_messages!(
            "WHERE inbox.turn = ",
            oldest!(),
            " AND inbox.consumed_by IS NULL ORDER BY inbox.sequence, inbox_files.position"
        ))
        .bind(&conversation)
        .id();
    let journal = batch
        .add(concat!("SELECT entry FROM journal WHERE turn = ", oldest!(), " ORDER BY position"))
        .bind(&conversation)
        .id();
    let draft =
        batch.add(select_part!("WHERE turn = ", oldest!(), " AND draft = 1 AND settled = 0")).bind(&conversation).id();
    let unreported = batch
        .add(select_part!(
            "WHERE conversation = $1 AND state = 'failed' AND reported = 0 AND call IS NULL AND kind <> 'delete' \
             AND turn_sequence < (SELECT MIN(sequence) FROM turns WHERE conversation = $1 AND state = 'queued') \
             ORDER BY turn_sequence, position"
        ))
        .bind(&conversation)
        .id();
    let followed = batch
        .add(concat!(
            "SELECT EXISTS (SELECT 1 FROM inbox WHERE conversation = $1 AND consumed_by IS NULL AND turn <> ",
            oldest!(),
            ")"
        ))
        .bind(&conversation)
        .id();
    TurnStatements { oldest, messages, journal, draft, unreported, followed }
}

impl TurnStatements {
    async fn load(&self, session: &mut Session<'_>, answers: &Answers) -> Result<Option<ReadTurn>> {
        let Some(oldest) = answers.first_row::<OldestTurn>(self.oldest)? else { return Ok(None) };
        let journal: Vec<(Json<JournalEntry<AttachmentRef>>,)> = answers.all(self.journal)?;
        let draft: Option<PartRow> = answers.first_row(self.draft)?;
        let unreported: Vec<PartRow> = answers.all(self.unreported)?;
        let named = journal.iter().flat_map(|(entry,)| entry.files()).map(|file| file.id);
        let sent = draft.iter().chain(&unreported).flat_map(PartRow::files);
        let messages: Vec<MessageRow> = answers.all(self.messages)?;
        let received = messages.iter().filter_map(MessageRow::file);
        let records = Records::read(session, named.chain(sent).chain(received).collect()).await?;
        let journal = journal.into_iter().map(|(entry,)| entry.0.try_map_files(|file| records.resolve(file)));
        let unreported = unreported.into_iter().map(|row| row.into_part(&records)).collect::<Result<Vec<_>>>()?;
        let turn = QueuedTurn {
            id: TurnId(oldest.id),
            messages: rows::messages(messages, &records)?,
            ready_at: Timestamp(oldest.ready_at),
            has_followers: answers.first_row::<(bool,)>(self.followed)?.is_some_and(|(followed,)| followed),
            journal: journal.collect::<Result<_>>()?,
            draft: draft.map(|row| row.into_part(&records)).transpose()?,
            crashes: rows::number(oldest.crashes, "number of crashes")?,
            unreported_failures: unreported.into_iter().filter_map(undelivered).collect(),
            voice: oldest.voice,
            agent: oldest.agent,
        };
        Ok(Some(ReadTurn { turn, is_album: oldest.album.is_some() }))
    }
}

/// Reads the messages that wait behind a turn, oldest first: the first of them, and the commands among the newest. Those that were injected into it wait no longer.
pub(crate) async fn list_queued_behind(
    session: &mut Session<'_>,
    lease: &Lease,
    turn: TurnId,
) -> Result<Vec<QueuedMessage>> {
    let mut batch = Batch::default();
    let messages = batch
        .add(select_messages!(
            "JOIN turns ON turns.id = inbox.turn \
             WHERE inbox.sequence IN \
               (SELECT waiting.sequence FROM inbox AS waiting JOIN turns ON turns.id = waiting.turn \
                WHERE waiting.conversation = $1 AND waiting.consumed_by IS NULL AND waiting.steered_into IS NULL \
                  AND turns.sequence > (SELECT sequence FROM turns WHERE id = $2) \
                ORDER BY turns.sequence, waiting.sequence LIMIT $3 + 0) \
             OR inbox.sequence IN \
               (SELECT newest.sequence FROM \
                  (SELECT sequence, turn, message FROM inbox \
                   WHERE conversation = $1 AND consumed_by IS NULL AND steered_into IS NULL \
                   ORDER BY sequence DESC LIMIT $4 + 0) AS newest \
                JOIN turns ON turns.id = newest.turn \
                WHERE turns.sequence > (SELECT sequence FROM turns WHERE id = $2) \
                  AND ltrim(json_extract(newest.message, $5)) LIKE '/%') \
             ORDER BY turns.sequence, inbox.sequence, inbox_files.position"
        ))
        .bind(lease.conversation.to_string())
        .bind(turn.0)
        .bind(WAITING)
        .bind(NEWEST)
        .bind("$.text")
        .id();
    let lane = lanes::read(&mut batch, &lease.conversation);
    let answers = session.run(batch).await?;
    lanes::require(&answers, lane, lease)?;
    let rows: Vec<MessageRow> = answers.all(messages)?;
    let records = Records::read(session, rows.iter().filter_map(MessageRow::file).collect()).await?;
    rows::messages(rows, &records)
}

fn undelivered(part: Part) -> Option<UndeliveredPart> {
    let Part { id, turn, operation, state, .. } = part;
    match state {
        PartState::Failed { reason } => {
            Some(UndeliveredPart { part: id, turn, content: operation.into_content()?, reason })
        }
        _ => None,
    }
}
