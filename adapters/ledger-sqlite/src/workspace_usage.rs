//! What workspaces hold, as it counts for the quotas.

use rusqlite::params;
use satchel_domain::{ConversationId, Sender};
use satchel_ledger::quota::Account;

use crate::{
    database::{Database, Json, Query},
    error::Result,
    lanes, rows, usage,
};

/// Sets bytes aside for a write.
pub(crate) fn reserve(db: &Database, conversation: &ConversationId, bytes: u64) -> Result<()> {
    let account = account(db, conversation)?;
    usage::check(db, &account, bytes)?;
    change(db, &account, rows::signed(bytes))
}

/// Records what a workspace holds.
pub(crate) fn record(db: &Database, conversation: &ConversationId, bytes: u64) -> Result<()> {
    let recorded: Option<(i64,)> = db.find(
        "SELECT workspace_bytes FROM usage WHERE scope = 'conversation' AND name = ?1",
        [conversation.to_string()],
    )?;
    let added = rows::signed(bytes) - recorded.map_or(0, |(bytes,)| bytes);
    change(db, &account(db, conversation)?, added)
}

/// Finds whom a workspace counts for: where others write too, for the conversation alone.
fn account(db: &Database, conversation: &ConversationId) -> Result<Account> {
    let newest: Option<(Json<Sender>, bool)> = db.find(
        "SELECT json_extract(inbox.message, '$.sender'), COALESCE(json_extract(inbox.message, '$.group'), FALSE) \
         FROM turns JOIN inbox ON inbox.turn = turns.id \
         WHERE turns.lane = ?1 AND turns.state <> 'merged' AND json_extract(inbox.message, '$.errand') IS NULL \
         ORDER BY turns.sequence DESC LIMIT 1",
        [lanes::find_id(db, conversation)?],
    )?;
    let person = newest.and_then(|(sender, is_group)| (!is_group).then_some(sender.0));
    Ok(Account::new(&db.settings().quotas, conversation, person))
}

fn change(db: &Database, account: &Account, bytes: i64) -> Result<()> {
    for (scope, name) in account.scopes() {
        db.run(
            "INSERT INTO usage (scope, name, workspace_bytes) VALUES (?1, ?2, MAX(?3, 0)) \
             ON CONFLICT (scope, name) DO UPDATE SET workspace_bytes = MAX(workspace_bytes + ?3, 0)",
            params![scope, name, bytes],
        )?;
    }
    Ok(())
}
