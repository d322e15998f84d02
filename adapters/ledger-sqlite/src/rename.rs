//! A conversation that goes on under another name, as a Telegram group does that becomes a supergroup.

use satchel_domain::{ConversationId, PartState, part::FailureReason};
use satchel_ports::ledger::RenameOutcome;
use sqlx::types::Json;

use crate::{batch::Batch, error::Result, session::Session};

/// Moves all that a conversation has, unless the new name has something already.
pub(crate) async fn rename(
    session: &mut Session<'_>,
    from: &ConversationId,
    to: &ConversationId,
) -> Result<RenameOutcome> {
    let mut batch = Batch::default();
    let mut has_turns = |conversation: &ConversationId| {
        batch.add("SELECT EXISTS (SELECT 1 FROM turns WHERE conversation = $1)").bind(conversation.to_string()).id()
    };
    let (old, new) = (has_turns(from), has_turns(to));
    let answers = session.run(batch).await?;
    let is_so = |statement| {
        Ok::<_, crate::error::Error>(answers.first_row::<(bool,)>(statement)?.is_some_and(|(is_so,)| is_so))
    };
    if !is_so(old)? {
        return Ok(RenameOutcome::NotFound);
    }
    if from == to || is_so(new)? {
        return Ok(RenameOutcome::Conflict);
    }
    let mut batch = Batch::default();
    forget_messages(&mut batch, from);
    move_lane(&mut batch, from, to);
    move_rows(&mut batch, from, to);
    session.finish(batch);
    Ok(RenameOutcome::Renamed)
}

/// The old lane stays, empty and with a higher token, so that nobody's lease of it can ever be good again.
fn move_lane(batch: &mut Batch, from: &ConversationId, to: &ConversationId) {
    let names = (from.to_string(), to.to_string());
    batch
        .add(
            "INSERT INTO lanes (conversation, channel, token, last_number, history_after, voice, agent) \
             SELECT $2, $3, token + 1, last_number, history_after, voice, agent FROM lanes WHERE conversation = $1 \
             ON CONFLICT (conversation) DO UPDATE SET holder = NULL, expires_at = 0, \
                 token = MAX(token, excluded.token) + 1, last_number = MAX(last_number, excluded.last_number), \
                 history_after = excluded.history_after, voice = excluded.voice, \
                 agent = excluded.agent",
        )
        .bind(&names.0)
        .bind(&names.1)
        .bind(to.channel().as_str());
    batch
        .add("UPDATE lanes SET holder = NULL, expires_at = 0, token = token + 1 WHERE conversation = $1")
        .bind(&names.0);
}

/// No message of the old name is known any more: under the new one its number is another message's, if any. What is
/// still to be sent neither answers nor edits one, and a look-up doesn't begin at one. A draft shows a piece of its reply;
/// the whole is sent as if there were none.
fn forget_messages(batch: &mut Batch, from: &ConversationId) {
    let unsent = PartState::Pending;
    batch
        .add(
            "UPDATE parts SET state = $2, state_detail = $3 \
             WHERE conversation = $1 AND settled = 0 AND draft = 1 AND state = 'open'",
        )
        .bind(from.to_string())
        .bind(unsent.as_str())
        .bind(Json(&unsent));
    // A question is asked again where its turn goes on.
    let unneeded = PartState::Failed { reason: FailureReason::NotNeeded };
    batch
        .add(
            "UPDATE parts SET settled = 1, state = $2, state_detail = $3 \
             WHERE conversation = $1 AND call IS NOT NULL AND (settled = 0 OR state = 'failed')",
        )
        .bind(from.to_string())
        .bind(unneeded.as_str())
        .bind(Json(&unneeded));
    batch.add("DELETE FROM parts WHERE conversation = $1 AND kind = 'delete'").bind(from.to_string());
    batch.add("UPDATE parts SET target = NULL, last_message = NULL WHERE conversation = $1").bind(from.to_string());
    batch.add("UPDATE parts SET reply_to = NULL WHERE conversation = $1 AND settled = 0").bind(from.to_string());
    batch
        .add("UPDATE inbox SET message = json_remove(message, $2) WHERE conversation = $1")
        .bind(from.to_string())
        .bind("$.message");
}

fn move_rows(batch: &mut Batch, from: &ConversationId, to: &ConversationId) {
    let names = (from.to_string(), to.to_string());
    for sql in [
        "UPDATE inbox SET conversation = $2 WHERE conversation = $1",
        "UPDATE attachments SET conversation = $2 WHERE conversation = $1",
        "UPDATE turns SET conversation = $2 WHERE conversation = $1",
        "UPDATE history SET conversation = $2 WHERE conversation = $1",
        "UPDATE parts SET conversation = $2 WHERE conversation = $1",
        "UPDATE audit SET conversation = $2 WHERE conversation = $1",
    ] {
        batch.add(sql).bind(&names.0).bind(&names.1);
    }
    batch
        .add(
            "INSERT INTO usage (scope, name, files, bytes, workspace_bytes) \
             SELECT scope, $2, files, bytes, workspace_bytes FROM usage WHERE scope = 'conversation' AND name = $1 \
             ON CONFLICT (scope, name) DO UPDATE SET files = files + excluded.files, bytes = bytes + excluded.bytes, \
                 workspace_bytes = workspace_bytes + excluded.workspace_bytes",
        )
        .bind(&names.0)
        .bind(&names.1);
    batch.add("DELETE FROM usage WHERE scope = 'conversation' AND name = $1").bind(&names.0);
    batch.add("UPDATE pairings SET conversation = $2 WHERE conversation = $1").bind(&names.0).bind(&names.1);
}
