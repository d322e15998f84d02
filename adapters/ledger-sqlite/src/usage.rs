//! What files take up, in sums that are kept with every file, and the quotas that they are checked against.

use rusqlite::params;
use satchel_domain::{ConversationId, Sender, TurnId};
use satchel_ledger::quota::{Account, find_excess};
use satchel_ports::ledger::{Usage, UsageQuery, UsageScope};

use crate::{
    database::{Database, Json, Query},
    error::{Error, Result},
    rows,
};

/// Finds whom the files of a turn count for.
pub(crate) fn account(db: &Database, conversation: &ConversationId, turn: TurnId) -> Result<Account> {
    let requester: Option<(Json<Sender>,)> = db.find(
        "SELECT json_extract(message, '$.sender') FROM inbox \
         WHERE turn = ?1 AND COALESCE(json_extract(message, '$.errand.errand'), 'reminder_prompt') = 'reminder_prompt' \
         ORDER BY sequence LIMIT 1",
        [turn.0],
    )?;
    Ok(Account::new(&db.settings().quotas, conversation, requester.map(|(sender,)| sender.0)))
}

/// Refuses what takes an account beyond a quota.
pub(crate) fn check(db: &Database, account: &Account, needed: u64) -> Result<()> {
    for (scope, quota, counted) in account.quotas(&db.settings().quotas.quotas) {
        let used = usage(db, &counted)?.map_or(0, |usage| usage.total_bytes());
        if let Some(excess) = find_excess(scope, used, quota, needed) {
            return Err(Error::QuotaExceeded(excess));
        }
    }
    Ok(())
}

/// Counts a file that is new.
pub(crate) fn add_file(db: &Database, account: &Account, bytes: u64) -> Result<()> {
    change(db, account, 1, rows::signed(bytes))
}

/// Counts a file no longer.
pub(crate) fn remove_file(db: &Database, account: &Account, bytes: u64) -> Result<()> {
    change(db, account, -1, -rows::signed(bytes))
}

/// Adds files and their bytes to what counts for an account.
pub(crate) fn change(db: &Database, account: &Account, files: i64, bytes: i64) -> Result<()> {
    for (scope, name) in account.scopes() {
        db.run(
            "INSERT INTO usage (scope, name, files, bytes) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (scope, name) DO UPDATE SET files = files + excluded.files, bytes = bytes + excluded.bytes",
            params![scope, name, files, bytes],
        )?;
    }
    Ok(())
}

type UsageRow = (String, String, i64, i64, i64);

fn into_usage((scope, name, files, bytes, workspace_bytes): UsageRow) -> Result<Usage> {
    const WHAT: &str = "sum of files";
    Ok(Usage {
        scope: match scope.as_str() {
            "conversation" => UsageScope::Conversation(rows::conversation(&name)?),
            _ => UsageScope::Person(name.parse().map_err(|_| Error::Row { what: "person" })?),
        },
        files: rows::number(files, WHAT)?,
        bytes: rows::number(bytes, WHAT)?,
        workspace_bytes: rows::number(workspace_bytes, WHAT)?,
    })
}

/// Reads what files take up.
pub(crate) fn usages(db: &Database, query: &UsageQuery) -> Result<Vec<Usage>> {
    match query {
        UsageQuery::All => {
            let rows: Vec<UsageRow> = db.all(
                "SELECT scope, name, files, bytes, workspace_bytes FROM usage \
                 WHERE files > 0 OR workspace_bytes > 0 ORDER BY bytes + workspace_bytes DESC, scope, name",
                [],
            )?;
            rows.into_iter().map(into_usage).collect()
        }
        UsageQuery::Scopes(scopes) => scopes.iter().filter_map(|scope| usage(db, scope).transpose()).collect(),
    }
}

fn usage(db: &Database, scope: &UsageScope) -> Result<Option<Usage>> {
    let (scope, name) = match scope {
        UsageScope::Conversation(conversation) => ("conversation", conversation.to_string()),
        UsageScope::Person(person) => ("person", person.to_string()),
    };
    let row: Option<UsageRow> = db.find(
        "SELECT scope, name, files, bytes, workspace_bytes FROM usage WHERE scope = ?1 AND name = ?2",
        params![scope, name],
    )?;
    row.map(into_usage).transpose()
}
