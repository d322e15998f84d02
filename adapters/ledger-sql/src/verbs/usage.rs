//! What files take up, in sums that are kept with every file, and the quotas that they are checked against.

use satchel_domain::{ConversationId, Sender, TurnId};
use satchel_ledger::quota::{Account, find_excess};
use satchel_ports::ledger::{SteeringMessage, Usage, UsageQuery, UsageScope};

use crate::{
    error::VerbError,
    parameters::Json,
    params, rows,
    session::{Session, VerbResult},
};

/// Finds whom the files of a message count for.
pub(crate) async fn message_account<S: Session>(
    db: &S,
    conversation: &ConversationId,
    sequence: i64,
) -> VerbResult<Account, S> {
    let sender: Option<(Json<Sender>,)> = db
        .find(
            "SELECT json_extract(message, '$.sender') FROM inbox WHERE sequence = $1 \
         AND COALESCE(json_extract(message, '$.errand.errand'), 'reminder_prompt') = 'reminder_prompt'",
            params![sequence],
        )
        .await?;
    let people: Vec<Sender> = sender.into_iter().map(|(sender,)| sender.0).collect();
    Ok(Account::new(&db.settings().quotas, conversation, &people))
}

/// Finds whom what the calls of a running turn make counts for: the person whose text the model has read last. Texts of
/// others that were put into the turn are in its journal.
pub(crate) async fn call_account<S: Session>(
    db: &S,
    conversation: &ConversationId,
    turn: TurnId,
) -> VerbResult<Account, S> {
    let senders: Vec<(Json<Sender>,)> = db
        .all(
            "SELECT json_extract(message, '$.sender') FROM inbox \
         WHERE turn = $1 AND COALESCE(json_extract(message, '$.errand.errand'), 'reminder_prompt') = 'reminder_prompt' \
         ORDER BY sequence",
            params![turn.0],
        )
        .await?;
    let steered: Vec<(Json<Vec<SteeringMessage>>,)> = db
        .all(
            "SELECT json_extract(entry, '$.steered') FROM journal WHERE turn = $1 AND ordinal IS NULL \
         AND json_extract(entry, '$.entry') = 'model' AND json_extract(entry, '$.steered') <> '[]' ORDER BY position",
            params![turn.0],
        )
        .await?;
    let steered = steered.into_iter().flat_map(|(Json(messages),)| messages).map(|message| message.sender);
    let people: Vec<Sender> = senders.into_iter().map(|(sender,)| sender.0).chain(steered).collect();
    Ok(Account::new(&db.settings().quotas, conversation, &people))
}

/// Refuses what takes an account beyond a quota.
pub(crate) async fn check<S: Session>(db: &S, account: &Account, needed: u64) -> VerbResult<(), S> {
    if let Some(person) = &account.person {
        // Their files in other conversations are checked one after the other.
        db.lock(person).await?;
    }
    for (scope, quota, counted) in account.quotas(&db.settings().quotas.quotas) {
        let used = usage(db, &counted).await?.map_or(0, |usage| usage.total_bytes());
        if let Some(excess) = find_excess(scope, used, quota, needed) {
            return Err(VerbError::QuotaExceeded(excess).into());
        }
    }
    Ok(())
}

/// Counts a file that is new.
pub(crate) async fn add_file<S: Session>(db: &S, account: &Account, bytes: u64) -> VerbResult<(), S> {
    change(db, account, 1, rows::signed(bytes)).await
}

/// Counts a file no longer.
pub(crate) async fn remove_file<S: Session>(db: &S, account: &Account, bytes: u64) -> VerbResult<(), S> {
    change(db, account, -1, -rows::signed(bytes)).await
}

/// Adds files and their bytes to what counts for an account.
pub(crate) async fn change<S: Session>(db: &S, account: &Account, files: i64, bytes: i64) -> VerbResult<(), S> {
    for (scope, name) in account.scopes() {
        db.run(
            "INSERT INTO usage (scope, name, files, bytes) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (scope, name) DO UPDATE SET files = usage.files + excluded.files, \
                 bytes = usage.bytes + excluded.bytes",
            params![scope, name, files, bytes],
        )
        .await?;
    }
    Ok(())
}

type UsageRow = (String, String, i64, i64, i64);

fn into_usage((scope, name, files, bytes, workspace_bytes): UsageRow) -> Result<Usage, VerbError> {
    const WHAT: &str = "sum of files";
    Ok(Usage {
        scope: match scope.as_str() {
            "conversation" => UsageScope::Conversation(rows::conversation(&name)?),
            _ => UsageScope::Person(name.parse().map_err(|_| VerbError::Row { what: "person" })?),
        },
        files: rows::number(files, WHAT)?,
        bytes: rows::number(bytes, WHAT)?,
        workspace_bytes: rows::number(workspace_bytes, WHAT)?,
    })
}

/// Reads what files take up.
pub async fn usages<S: Session>(db: &S, query: &UsageQuery) -> VerbResult<Vec<Usage>, S> {
    match query {
        UsageQuery::All => {
            let rows: Vec<UsageRow> = db
                .all(
                    "SELECT scope, name, files, bytes, workspace_bytes FROM usage \
                 WHERE files > 0 OR workspace_bytes > 0 ORDER BY bytes + workspace_bytes DESC, scope, name",
                    params![],
                )
                .await?;
            Ok(rows.into_iter().map(into_usage).collect::<Result<_, _>>()?)
        }
        UsageQuery::Scopes(scopes) => {
            let mut usages = Vec::new();
            for scope in scopes {
                usages.extend(usage(db, scope).await?);
            }
            Ok(usages)
        }
    }
}

async fn usage<S: Session>(db: &S, scope: &UsageScope) -> VerbResult<Option<Usage>, S> {
    let (scope, name) = match scope {
        UsageScope::Conversation(conversation) => ("conversation", conversation.to_string()),
        UsageScope::Person(person) => ("person", person.to_string()),
    };
    let row: Option<UsageRow> = db
        .find(
            "SELECT scope, name, files, bytes, workspace_bytes FROM usage WHERE scope = $1 AND name = $2",
            params![scope, name],
        )
        .await?;
    Ok(row.map(into_usage).transpose()?)
}
