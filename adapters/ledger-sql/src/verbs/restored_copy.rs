//! What a restored copy holds back: turns of messages that people sent before its owner released it.

use satchel_domain::{Ending, InboundMessage, Part, TurnId};
use satchel_ports::ledger::QueuedMessage;
use uuid::Uuid;

use crate::{
    attachments,
    lanes::LaneId,
    parameters::Json,
    params,
    rows::{self, MessageFields, PartRow, select_messages, select_part},
    session::{Session, VerbResult},
};

/// Whether a message was sent before the copy was released. What the platform doesn't date, such as the press of a button,
/// can't be told from a new one.
pub(crate) fn is_held_back<S: Session>(db: &S, message: &InboundMessage) -> bool {
    db.held_before().is_some_and(|released_at| message.sent_at.is_some_and(|sent_at| sent_at < released_at))
}

/// Holds back the new turn of a message that came in.
pub(crate) async fn hold_received<S: Session>(db: &S, turn: TurnId) -> VerbResult<(), S> {
    tracing::warn!(turn.id = %turn, "a message from before this restored copy was released is held back; `satchel backup held` lists it");
    db.run("INSERT INTO held_turns (turn, received) VALUES ($1, TRUE) ON CONFLICT (turn) DO NOTHING", params![turn.0])
        .await?;
    complete_turns(db).await
}

/// Takes the turns that are held back out of their lanes' queues. The keys of their messages stay, so that none is stored
/// twice.
///
/// # Errors
/// When the database fails.
pub async fn complete_turns<S: Session>(db: &S) -> VerbResult<(), S> {
    db.run(
        "UPDATE inbox SET consumed_by = turn \
         WHERE consumed_by IS NULL AND turn IN (SELECT turn FROM held_turns)",
        params![],
    )
    .await?;
    db.run(
        "UPDATE turns SET state = 'completed', ending = $1, completed_at = $2, indexed = TRUE \
         WHERE state = 'queued' AND id IN (SELECT turn FROM held_turns)",
        params![Json(&Ending::Cancelled), db.now().0],
    )
    .await?;
    Ok(())
}

/// Reads the parts that are held back.
///
/// # Errors
/// When the database fails.
pub async fn read_parts<S: Session>(db: &S) -> VerbResult<Vec<Part>, S> {
    let parts: Vec<PartRow> = db
        .all(
            select_part!("WHERE parts.id IN (SELECT part FROM held_parts) ORDER BY turn_sequence, position"),
            params![],
        )
        .await?;
    rows::parts(db, parts).await
}

/// Reads the messages that are held back: those of the backup, or those that were received since.
///
/// # Errors
/// When the database fails.
pub async fn read_messages<S: Session>(db: &S, received: bool) -> VerbResult<Vec<QueuedMessage>, S> {
    let rows: Vec<MessageFields> = db
        .all(
            select_messages!(
                "JOIN held_turns ON held_turns.turn = inbox.turn WHERE received = $1 AND inbox.consumed_by = inbox.turn \
                 ORDER BY inbox.sequence, inbox_files.position"
            ),
            params![received],
        )
        .await?;
    let records = attachments::read_records(db, rows.iter().filter_map(MessageFields::file).collect()).await?;
    Ok(rows::messages(rows, &records)?)
}

/// Finds a message that came in and is held back, by its key, and its turn.
pub(crate) async fn find_message<S: Session>(
    db: &S,
    edit: &InboundMessage,
    key: &str,
) -> VerbResult<Option<(i64, Uuid)>, S> {
    db.find(
        "SELECT inbox.sequence, inbox.turn FROM inbox_keys JOIN inbox ON inbox.sequence = inbox_keys.message \
         JOIN held_turns ON held_turns.turn = inbox.turn \
         WHERE inbox_keys.channel = $1 AND inbox_keys.key = $2 AND received",
        params![edit.conversation.channel().as_str(), key],
    )
    .await
}

/// Finds the held turn of the album of a message that is held back.
pub(crate) async fn find_album<S: Session>(
    db: &S,
    lane: LaneId,
    message: &InboundMessage,
) -> VerbResult<Option<Uuid>, S> {
    let turn: Option<(Uuid,)> = db
        .find(
            "SELECT turns.id FROM turns JOIN held_turns ON held_turns.turn = turns.id \
             WHERE lane = $1 AND album = $2 AND received \
               AND EXISTS (SELECT 1 FROM inbox WHERE inbox.turn = turns.id AND json_extract(message, '$.sender.id') = $3)",
            params![lane, message.album, message.sender.id],
        )
        .await?;
    Ok(turn.map(|(turn,)| turn))
}
