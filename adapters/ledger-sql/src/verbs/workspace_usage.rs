//! What workspaces hold, as it counts for the quotas.

use satchel_domain::{ConversationId, Sender, TurnId};
use satchel_ledger::quota::Account;
use uuid::Uuid;

use crate::{
    lanes,
    parameters::Json,
    params, rows,
    session::{Session, VerbResult},
    verbs::usage,
};

/// Sets bytes aside for a write.
pub async fn reserve_workspace<S: Session>(db: &S, conversation: &ConversationId, bytes: u64) -> VerbResult<(), S> {
    let account = account(db, conversation).await?;
    usage::check(db, &account, bytes).await?;
    change(db, &account, rows::signed(bytes)).await
}

/// Records what a workspace holds.
pub async fn record_workspace<S: Session>(db: &S, conversation: &ConversationId, bytes: u64) -> VerbResult<(), S> {
    let recorded: Option<(i64,)> = db
        .find(
            "SELECT workspace_bytes FROM usage WHERE scope = 'conversation' AND name = $1",
            params![conversation.to_string()],
        )
        .await?;
    let added = rows::signed(bytes) - recorded.map_or(0, |(bytes,)| bytes);
    change(db, &account(db, conversation).await?, added).await
}

/// Finds whom a workspace counts for: where others write too, for the conversation alone; while a turn runs, for whoever its
/// calls count for.
async fn account<S: Session>(db: &S, conversation: &ConversationId) -> VerbResult<Account, S> {
    let lane = lanes::find_id(db, conversation).await?;
    let newest: Option<(Json<Sender>, bool)> = db
        .find(
            "SELECT json_extract(inbox.message, '$.sender'), COALESCE(CAST(json_extract(inbox.message, '$.group') AS BOOLEAN), FALSE) \
         FROM turns JOIN inbox ON inbox.turn = turns.id \
         WHERE turns.lane = $1 AND turns.state <> 'merged' AND json_extract(inbox.message, '$.errand') IS NULL \
         ORDER BY turns.sequence DESC LIMIT 1",
            params![lane],
        )
        .await?;
    let person = newest.and_then(|(sender, is_group)| (!is_group).then_some(sender.0));
    let running: Option<(Uuid,)> = db
        .find("SELECT id FROM turns WHERE lane = $1 AND state = 'queued' ORDER BY sequence LIMIT 1", params![lane])
        .await?;
    if let (Some((turn,)), Some(_)) = (running, &person) {
        let account = usage::call_account(db, conversation, TurnId(turn)).await?;
        if account.person.is_some() {
            return Ok(account);
        }
    }
    Ok(Account::new(&db.settings().quotas, conversation, person.as_slice()))
}

async fn change<S: Session>(db: &S, account: &Account, bytes: i64) -> VerbResult<(), S> {
    for (scope, name) in account.scopes() {
        db.run(
            "INSERT INTO usage (scope, name, workspace_bytes) VALUES ($1, $2, CASE WHEN $3 > 0 THEN $3 ELSE 0 END) \
             ON CONFLICT (scope, name) DO UPDATE SET workspace_bytes = \
                 CASE WHEN usage.workspace_bytes + $3 > 0 THEN usage.workspace_bytes + $3 ELSE 0 END",
            params![scope, name, bytes],
        )
        .await?;
    }
    Ok(())
}
