//! What workspaces hold, as it counts for the quotas: each byte for its conversation, and outside groups for a person who
//! has written there.

use satchel_domain::{ConversationId, Sender, TurnId};
use satchel_ledger::quota::Account;
use uuid::Uuid;

use crate::{
    lanes::{self, LaneId},
    parameters::Json,
    params, rows,
    session::{Session, VerbResult},
    verbs::usage,
};

/// Sets bytes aside for a write.
pub async fn reserve_workspace<S: Session>(db: &S, conversation: &ConversationId, bytes: u64) -> VerbResult<(), S> {
    let lane = lanes::find_id(db, conversation).await?;
    let account = account(db, conversation, lane).await?;
    usage::check(db, &account, bytes).await?;
    add(db, lane, &account, rows::signed(bytes)).await
}

/// Records what a workspace holds.
pub async fn record_workspace<S: Session>(db: &S, conversation: &ConversationId, bytes: u64) -> VerbResult<(), S> {
    // Found first: what the lane's row guards is read behind it.
    let lane = lanes::find_id(db, conversation).await?;
    let recorded: Option<(i64,)> = db
        .find(
            "SELECT workspace_bytes FROM usage WHERE scope = 'conversation' AND name = $1",
            params![conversation.to_string()],
        )
        .await?;
    let recorded = recorded.map_or(0, |(bytes,)| bytes);
    let added = rows::signed(bytes) - recorded;
    let account = account(db, conversation, lane).await?;
    match added {
        0 => Ok(()),
        1.. => add(db, lane, &account, added).await,
        _ => release(db, lane, &account, recorded, -added).await,
    }
}

/// Lets what an empty lane has count for the lane that takes its name.
pub(crate) async fn move_shares<S: Session>(db: &S, from: LaneId, to: LaneId) -> VerbResult<(), S> {
    db.run(
        "INSERT INTO workspace_shares (lane, person, bytes) SELECT $2, person, bytes FROM workspace_shares WHERE lane = $1 \
         ON CONFLICT (lane, person) DO UPDATE SET bytes = workspace_shares.bytes + excluded.bytes",
        params![from, to],
    )
    .await?;
    db.run("DELETE FROM workspace_shares WHERE lane = $1", params![from]).await?;
    Ok(())
}

/// Finds for whom a write to a workspace counts: where others write too, for the conversation alone; while a turn runs, for
/// the person for whom its calls count.
async fn account<S: Session>(db: &S, conversation: &ConversationId, lane: Option<LaneId>) -> VerbResult<Account, S> {
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

/// Counts bytes of a workspace for its conversation and the person of the account, whose share of it grows.
async fn add<S: Session>(db: &S, lane: Option<LaneId>, account: &Account, bytes: i64) -> VerbResult<(), S> {
    for (scope, name) in account.scopes() {
        change(db, scope, &name, bytes).await?;
    }
    if let (Some(lane), Some(person)) = (lane, &account.person) {
        db.run(
            "INSERT INTO workspace_shares (lane, person, bytes) VALUES ($1, $2, $3) \
             ON CONFLICT (lane, person) DO UPDATE SET bytes = workspace_shares.bytes + excluded.bytes",
            params![lane, person.to_string(), bytes],
        )
        .await?;
    }
    Ok(())
}

/// Counts bytes of a workspace no longer, for the people for whom they count: first for the person of the account, who may
/// have set them aside for a write, then for nobody, then for the others, the largest share first. Nobody's count falls by
/// more than their share.
async fn release<S: Session>(
    db: &S,
    lane: Option<LaneId>,
    account: &Account,
    recorded: i64,
    released: i64,
) -> VerbResult<(), S> {
    change(db, "conversation", &account.conversation.to_string(), -released).await?;
    let mut shares: Vec<(String, i64)> = db
        .all("SELECT person, bytes FROM workspace_shares WHERE lane = $1 ORDER BY bytes DESC, person", params![lane])
        .await?;
    let own = account.person.as_ref().map(ToString::to_string);
    let is_others = |person: &String| own.as_ref() != Some(person);
    shares.sort_by_key(|(person, _)| is_others(person));
    let shared: i64 = shares.iter().map(|(_, bytes)| bytes).sum();
    let (mut left, mut unshared) = (released, (recorded - shared).max(0));
    let mut taken_from = Vec::new();
    for (person, bytes) in shares {
        if is_others(&person) {
            let taken = left.min(unshared);
            (left, unshared) = (left - taken, unshared - taken);
        }
        let taken = left.min(bytes);
        left -= taken;
        if taken > 0 {
            taken_from.push((person, taken));
        }
    }
    // In one order for all conversations, so that none waits for another's rows.
    taken_from.sort();
    for (person, taken) in taken_from {
        change(db, "person", &person, -taken).await?;
        db.run(
            "UPDATE workspace_shares SET bytes = bytes - $3 WHERE lane = $1 AND person = $2",
            params![lane, person, taken],
        )
        .await?;
    }
    db.run("DELETE FROM workspace_shares WHERE lane = $1 AND bytes <= 0", params![lane]).await?;
    Ok(())
}

async fn change<S: Session>(db: &S, scope: &str, name: &str, bytes: i64) -> VerbResult<(), S> {
    db.run(
        "INSERT INTO usage (scope, name, workspace_bytes) VALUES ($1, $2, CASE WHEN $3 > 0 THEN $3 ELSE 0 END) \
         ON CONFLICT (scope, name) DO UPDATE SET workspace_bytes = \
             CASE WHEN usage.workspace_bytes + $3 > 0 THEN usage.workspace_bytes + $3 ELSE 0 END",
        params![scope, name, bytes],
    )
    .await?;
    Ok(())
}
