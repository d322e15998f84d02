//! Parts as rows: stored, read in the order of their lane, saved, discarded.

use satchel_domain::{ConversationId, Part, PartContent, PartId, PartState, TurnId, part::FailureReason};
use satchel_ports::ledger::Lease;
use sqlx::types::Json;

use crate::{
    attachments::Records,
    batch::{Added, Answers, Batch, Statement},
    error::{Error, Result},
    lanes,
    process::Process,
    rows::{self, PartRow, select_part},
    session::Session,
};

/// Stores a new part; its turn is one that is stored, and `records` has its files.
pub(crate) fn insert(batch: &mut Batch, part: &Part, records: &Records) -> Result<()> {
    let operation = part.operation.clone().try_map_files(|file| records.refer(&file))?;
    batch
        .add(
            "INSERT INTO parts (id, conversation, turn, turn_sequence, position, kind, content, state, state_detail, \
                 settled, attempts, first_attempt_at, labelled, target, reply_to, last_message, voice_sha256, created_at, \
                 streamed, searched, labelled_sends, call, unanswered, closing) \
             VALUES ($1, $2, $3, (SELECT sequence FROM turns WHERE turns.id = $3), \
                 $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)",
        )
        .bind(part.id.0)
        .bind(part.conversation.to_string())
        .bind(part.turn.0)
        .bind(i64::from(part.position))
        .bind(operation.kind())
        .bind(Json(operation.content()))
        .bind(part.state.as_str())
        .bind(Json(&part.state))
        .bind(part.state.is_settled())
        .bind(i64::from(part.attempts))
        .bind(part.first_attempt_at.map(|at| at.0))
        .bind(part.labelled)
        .bind(part.target().map(|target| target.0.as_str()))
        .bind(part.reply_to.as_ref().map(|message| message.0.as_str()))
        .bind(last_message(part))
        .bind(prepared_voice(part))
        .bind(part.created_at.0)
        .bind(part.streamed)
        .bind(part.searched)
        .bind(i64::from(part.labelled_sends))
        .bind(part.question.as_ref().map(|question| i64::from(question.call.ordinal)))
        .bind(part.question.as_ref().map(|question| question.unanswered.as_str()))
        .bind(closing(part));
    Ok(())
}

/// What may change of an unsettled part of the lane; its place, its files and what it answers may not.
macro_rules! update {
    () => {
        "UPDATE parts SET kind = $3, content = COALESCE($4, content), state = $5, state_detail = $6, settled = $7, attempts = $8, \
             first_attempt_at = $9, labelled = $10, target = $11, last_message = $12, voice_sha256 = $13, \
             searched = $14, labelled_sends = $15, closing = $16, created_at = $17 \
         WHERE id = $1 AND conversation = $2 AND settled = 0"
    };
}

macro_rules! update_held {
    () => {
        concat!(
            update!(),
            " AND EXISTS (SELECT 1 FROM lanes WHERE lanes.conversation = $2 AND holder = $18 AND token = $19)"
        )
    };
}

fn bind<'a>(added: Added<'a>, conversation: &ConversationId, part: &Part) -> Added<'a> {
    // A voice gets its recording. What names files stays as it is, and so needn't be written again.
    let content = Some(Json(part.content())).filter(|_| part.operation.files().is_empty());
    added
        .bind(part.id.0)
        .bind(conversation.to_string())
        .bind(part.operation.kind())
        .bind(content)
        .bind(part.state.as_str())
        .bind(Json(&part.state))
        .bind(part.state.is_settled())
        .bind(i64::from(part.attempts))
        .bind(part.first_attempt_at.map(|at| at.0))
        .bind(part.labelled)
        .bind(part.target().map(|target| target.0.as_str()))
        .bind(last_message(part))
        .bind(prepared_voice(part))
        .bind(part.searched)
        .bind(i64::from(part.labelled_sends))
        .bind(closing(part))
        .bind(part.created_at.0)
}

/// Stores an unsettled part as it is now, in a transaction that has looked at who may.
pub(crate) fn update(batch: &mut Batch, conversation: &ConversationId, part: &Part) {
    bind(batch.add(update!()), conversation, part);
}

/// Stores an unsettled part as it is now, if the lease is valid; the statement brings a row if it did. Why not, tells
/// [`require_updated`].
pub(crate) fn update_held(batch: &mut Batch, lease: &Lease, part: &Part) -> Statement {
    let added = batch.add(concat!(update_held!(), " RETURNING 1"));
    bind(added, &lease.conversation, part).bind(lease.holder.0).bind(lease.token.cast_signed()).id()
}

/// As [`update_held`], where the next statement asks by `changes()` whether it did.
pub(crate) fn update_held_silently(batch: &mut Batch, lease: &Lease, part: &Part) {
    let added = batch.add(update_held!());
    bind(added, &lease.conversation, part).bind(lease.holder.0).bind(lease.token.cast_signed());
}

/// Whether the lane `$1` has an unsettled part of any other turn than `$2` for which others wait.
///
/// Not only of earlier turns: a later one that was completed first may have a part in flight, and a lane sends one part
/// at a time.
macro_rules! busy {
    () => {
        "EXISTS (SELECT 1 FROM parts WHERE parts.conversation = $1 AND settled = 0 AND turn <> $2 AND parts.state <> 'open')"
    };
}
pub(crate) use busy;

/// Adds the question whether the lane has an unsettled part of any other turn than this one.
pub(crate) fn read_busy(batch: &mut Batch, conversation: &ConversationId, turn: TurnId) -> Statement {
    batch.add(concat!("SELECT ", busy!())).bind(conversation.to_string()).bind(turn.0).id()
}

pub(crate) fn is_busy(answers: &Answers, busy: Statement) -> Result<bool> {
    Ok(answers.first_row::<(bool,)>(busy)?.is_some_and(|(busy,)| busy))
}

/// Adds the question for the lane's next part that is to be delivered, a [`PartRow`]: the one under way, or the oldest. A
/// question that is closed stands before a later turn's part that was started meanwhile.
pub(crate) fn read_first_unsettled(batch: &mut Batch, conversation: &ConversationId) -> Statement {
    batch
        .add(select_part!(
            "WHERE conversation = $1 AND settled = 0 AND draft = 0 AND state <> 'open' \
             ORDER BY state = 'pending', turn_sequence, position LIMIT 1"
        ))
        .bind(conversation.to_string())
        .id()
}

/// Reads the lane's oldest unsettled part that is to be delivered, if the lease is valid.
pub(crate) async fn next(session: &mut Session<'_>, lease: &Lease) -> Result<Option<Part>> {
    let mut batch = Batch::default();
    let lane = lanes::read(&mut batch, &lease.conversation);
    let next = read_first_unsettled(&mut batch, &lease.conversation);
    let answers = session.run(batch).await?;
    lanes::require(&answers, lane, lease)?;
    rows::part(session, answers.first_row(next)?).await
}

/// Reads an unsettled part of the lane, if the lease is valid.
pub(crate) async fn unsettled(session: &mut Session<'_>, lease: &Lease, part: PartId) -> Result<PartRow> {
    let mut batch = Batch::default();
    let lane = lanes::read(&mut batch, &lease.conversation);
    let row = batch
        .add(select_part!("WHERE id = $1 AND conversation = $2"))
        .bind(part.0)
        .bind(lease.conversation.to_string())
        .id();
    let answers = session.run(batch).await?;
    lanes::require(&answers, lane, lease)?;
    match answers.first_row::<PartRow>(row)? {
        None => Err(Error::unknown(format!("part {part}"))),
        Some(row) if row.settled => Err(Error::AlreadySettled(part)),
        Some(row) => Ok(row),
    }
}

/// Stores an unsettled part as it is now. A question may have been closed while it was being sent; it is then stored as
/// the edit that closes it.
pub(crate) async fn save(session: &mut Session<'_>, process: &Process, lease: &Lease, part: &Part) -> Result<()> {
    let mut part = part.clone();
    if let Some(question) = &mut part.question {
        question.closing = unsettled(session, lease, part.id).await?.closing;
        part.turn_into_closing_edit(process.now());
    }
    let mut batch = Batch::default();
    let updated = update_held(&mut batch, lease, &part);
    let answers = session.run(batch).await?;
    require_updated(session, lease, part.id, &answers, updated).await?;
    if part.state.is_settled() {
        return Err(Error::SettleOutcome(part.id));
    }
    Ok(())
}

/// Fails, and says why, when an update has found no lane that is held, or no unsettled part of it. What the verb wrote
/// in the same batch is rolled back by its failure.
pub(crate) async fn require_updated(
    session: &mut Session<'_>,
    lease: &Lease,
    part: PartId,
    answers: &Answers,
    updated: Statement,
) -> Result<()> {
    if answers.first_row::<(i64,)>(updated)?.is_none() {
        unsettled(session, lease, part).await?;
    }
    Ok(())
}

/// Gives up an unsettled part that is not being sent.
pub(crate) async fn discard(session: &mut Session<'_>, part: PartId) -> Result<()> {
    let row: Option<PartRow> =
        sqlx::query_as(select_part!("WHERE id = $1")).bind(part.0).fetch_optional(session.connection().await?).await?;
    match row {
        None => Err(Error::unknown(format!("part {part}"))),
        Some(row) if row.settled => Err(Error::AlreadySettled(part)),
        Some(row) if row.draft || matches!(row.state_detail.0, PartState::Sending | PartState::Open { .. }) => {
            Err(Error::unknown(format!("part {part} among those that are not being sent")))
        }
        Some(row) => {
            let mut batch = Batch::default();
            for part in rows::parts(session, [row]).await? {
                let discarded = Part { state: PartState::Failed { reason: FailureReason::Discarded }, ..part };
                update(&mut batch, &discarded.conversation, &discarded);
            }
            session.run(batch).await?;
            Ok(())
        }
    }
}

/// The message behind which the next one of the conversation stands; what was taken back is not there.
fn last_message(part: &Part) -> Option<&str> {
    match (&part.state, part.content()) {
        (_, None) => None,
        (PartState::Sent { messages }, _) => messages.last().map(|message| message.0.as_str()),
        (PartState::Open { message }, _) => Some(message.0.as_str()),
        _ => None,
    }
}

fn closing(part: &Part) -> Option<&str> {
    part.question.as_ref()?.closing.as_deref()
}

fn prepared_voice(part: &Part) -> Option<&[u8]> {
    match part.content() {
        Some(PartContent::Voice { prepared: Some(voice), .. }) => Some(voice.sha256.0.as_slice()),
        _ => None,
    }
}
