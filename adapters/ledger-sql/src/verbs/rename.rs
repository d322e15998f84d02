//! A conversation that goes on under another name, as a Telegram group does that becomes a supergroup.

use satchel_domain::{ConversationId, PartState, part::FailureReason};
use satchel_ports::ledger::RenameOutcome;

use crate::{
    lanes::{self, LaneId},
    parameters::Json,
    params,
    session::{Session, VerbResult},
    verbs::{conversation_settings, listings, people, workspace_usage},
};

/// Gives all that a conversation has another name, unless the new name has something already.
pub async fn rename_conversation<S: Session>(
    db: &S,
    from: &ConversationId,
    to: &ConversationId,
) -> VerbResult<RenameOutcome, S> {
    // A decision about a pairing code is answered in the conversation of the code.
    db.lock(people::CODES).await?;
    let Some(lane) = find_used(db, from).await? else { return Ok(RenameOutcome::NotFound) };
    if from == to || find_used(db, to).await?.is_some() {
        return Ok(RenameOutcome::Conflict);
    }
    forget_messages(db, lane).await?;
    swap_names(db, lane, from, to).await?;
    rename_usage(db, from, to).await?;
    db.run("UPDATE pairings SET conversation = $2 WHERE conversation = $1", params![from.to_string(), to.to_string()])
        .await?;
    Ok(RenameOutcome::Renamed)
}

/// Finds the lane of a conversation that has turns.
async fn find_used<S: Session>(db: &S, conversation: &ConversationId) -> VerbResult<Option<LaneId>, S> {
    let Some(lane) = lanes::find_id(db, conversation).await? else { return Ok(None) };
    let has_turns = db.value("SELECT EXISTS (SELECT 1 FROM turns WHERE lane = $1)", params![lane]).await?;
    Ok(Some(lane).filter(|_| has_turns))
}

/// Gives the lane its new name. The old name stays, with an empty lane of its own and the same settings. The tokens of
/// both are higher than any that was handed out under either name, so that nobody's lease can ever be good again; numbers
/// of files go on.
async fn swap_names<S: Session>(db: &S, lane: LaneId, from: &ConversationId, to: &ConversationId) -> VerbResult<(), S> {
    let names = [from.to_string(), to.to_string()];
    let token: i64 = db
        .value("SELECT MAX(token) + 1 FROM lanes WHERE conversation IN ($1, $2)", params![names[0], names[1]])
        .await?;
    let last_number: i64 = db
        .value("SELECT MAX(last_number) FROM lanes WHERE conversation IN ($1, $2)", params![names[0], names[1]])
        .await?;
    // An empty lane of the new name, as an earlier renaming leaves it, has no rows to be moved.
    if let Some(empty) = lanes::find_id(db, to).await? {
        conversation_settings::remove(db, empty).await?;
        listings::remove(db, empty).await?;
        workspace_usage::move_shares(db, empty, lane).await?;
        db.run("DELETE FROM lanes WHERE id = $1", params![empty]).await?;
    }
    db.run(
        "UPDATE lanes SET conversation = $2, channel = $3, holder = NULL, expires_at = 0, token = $4, last_number = $5 \
         WHERE id = $1",
        params![lane, to.to_string(), to.channel().as_str(), token, last_number],
    )
    .await?;
    let left: LaneId = db
        .value(
            "INSERT INTO lanes (conversation, channel, token, last_number) \
         SELECT $2, $3, token, last_number FROM lanes WHERE id = $1 RETURNING id",
            params![lane, from.to_string(), from.channel().as_str()],
        )
        .await?;
    conversation_settings::copy(db, lane, left).await
}

/// No message of the old name is known any more: under the new one its number is another message's, if any. What is
/// still to be sent neither answers nor edits one, and a look-up doesn't begin at one. A draft shows a piece of its reply;
/// the whole is sent as if there were none.
async fn forget_messages<S: Session>(db: &S, lane: LaneId) -> VerbResult<(), S> {
    let unsent = PartState::Pending;
    db.run(
        "UPDATE parts SET state = $2, state_detail = $3 \
         WHERE lane = $1 AND NOT settled AND draft AND state = 'open'",
        params![lane, unsent.as_str(), Json(&unsent)],
    )
    .await?;
    // A question is asked again where its turn goes on.
    let unneeded = PartState::Failed { reason: FailureReason::NotNeeded };
    db.run(
        "UPDATE parts SET settled = TRUE, state = $2, state_detail = $3 \
         WHERE lane = $1 AND call IS NOT NULL AND (NOT settled OR state = 'failed')",
        params![lane, unneeded.as_str(), Json(&unneeded)],
    )
    .await?;
    db.run("DELETE FROM parts WHERE lane = $1 AND kind = 'delete'", params![lane]).await?;
    db.run("UPDATE parts SET target = NULL, last_message = NULL WHERE lane = $1", params![lane]).await?;
    db.run("UPDATE parts SET reply_to = NULL WHERE lane = $1 AND NOT settled", params![lane]).await?;
    db.run("UPDATE inbox SET message = json_remove(message, '$.message') WHERE lane = $1", params![lane]).await?;
    Ok(())
}

async fn rename_usage<S: Session>(db: &S, from: &ConversationId, to: &ConversationId) -> VerbResult<(), S> {
    db.run(
        "INSERT INTO usage (scope, name, files, bytes, workspace_bytes) \
         SELECT scope, $2, files, bytes, workspace_bytes FROM usage WHERE scope = 'conversation' AND name = $1 \
         ON CONFLICT (scope, name) DO UPDATE SET files = usage.files + excluded.files, bytes = usage.bytes + excluded.bytes, \
             workspace_bytes = usage.workspace_bytes + excluded.workspace_bytes",
        params![from.to_string(), to.to_string()],
    )
    .await?;
    db.run("DELETE FROM usage WHERE scope = 'conversation' AND name = $1", params![from.to_string()]).await?;
    Ok(())
}
