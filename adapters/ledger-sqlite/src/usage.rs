//! What files take up, in sums that are kept with every file, and the quotas that they are checked against.

use std::{fmt, sync::Arc};

use satchel_domain::{ChannelName, ConversationId, Sender, TurnId};
use satchel_ports::ledger::{PersonKey, QuotaExceeded, QuotaScope, Quotas, Usage, UsageQuery, UsageScope};
use sqlx::types::Json;

use crate::{
    batch::Batch,
    error::{Error, Result},
    rows,
    session::Session,
};

/// Tells whether somebody owns this Satchel.
pub type IsOwner = Arc<dyn Fn(&ChannelName, &Sender) -> bool + Send + Sync>;

/// How many bytes may be kept, and by whom more.
#[derive(Clone)]
pub struct QuotaRules {
    pub quotas: Quotas,
    /// Whom no quota binds.
    pub is_owner: IsOwner,
}

impl Default for QuotaRules {
    fn default() -> Self {
        Self { quotas: Quotas::NONE, is_owner: Arc::new(|_, _| false) }
    }
}

impl fmt::Debug for QuotaRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaRules").field("quotas", &self.quotas).finish_non_exhaustive()
    }
}

/// Whom files count for.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) conversation: ConversationId,
    /// The person who asked for the turn; `None` where nobody did.
    pub(crate) person: Option<PersonKey>,
    pub(crate) is_owner: bool,
}

/// Finds whom the files of a turn count for.
pub(crate) async fn account(
    session: &mut Session<'_>,
    rules: &QuotaRules,
    conversation: &ConversationId,
    turn: TurnId,
) -> Result<Account> {
    let asker: Option<(Json<Sender>,)> = sqlx::query_as(
        "SELECT json_extract(message, '$.sender') FROM inbox \
         WHERE turn = $1 AND json_extract(message, '$.errand') IS NULL ORDER BY sequence LIMIT 1",
    )
    .bind(turn.0)
    .fetch_optional(session.connection().await?)
    .await?;
    let channel = conversation.channel();
    Ok(Account {
        conversation: conversation.clone(),
        person: asker.as_ref().map(|(sender,)| PersonKey::new(channel, sender)),
        is_owner: asker.is_some_and(|(sender,)| (rules.is_owner)(channel, &sender)),
    })
}

/// Refuses what takes an account beyond a quota.
pub(crate) async fn check(session: &mut Session<'_>, rules: &QuotaRules, account: &Account, needed: u64) -> Result<()> {
    if account.is_owner {
        return Ok(());
    }
    let conversation = UsageScope::Conversation(account.conversation.clone());
    let person = account.person.clone().map(UsageScope::Person);
    let scopes = [
        (QuotaScope::Conversation, rules.quotas.conversation, Some(conversation)),
        (QuotaScope::Person, rules.quotas.person, person),
    ];
    for (scope, quota, of) in scopes {
        let Some(of) = of else { continue };
        let used = usages(session, &UsageQuery::Scopes(vec![of])).await?.first().map_or(0, Usage::total_bytes);
        if used.saturating_add(needed) > quota {
            return Err(Error::QuotaExceeded(QuotaExceeded { scope, used, quota, needed }));
        }
    }
    Ok(())
}

/// Counts a file that is new.
pub(crate) async fn add_file(session: &mut Session<'_>, account: &Account, bytes: u64) -> Result<()> {
    change(session, &account.conversation, account.person.as_ref(), 1, signed(bytes)).await
}

/// Counts a file no longer.
pub(crate) async fn remove_file(
    session: &mut Session<'_>,
    conversation: &ConversationId,
    person: Option<&PersonKey>,
    bytes: u64,
) -> Result<()> {
    change(session, conversation, person, -1, -signed(bytes)).await
}

async fn change(
    session: &mut Session<'_>,
    conversation: &ConversationId,
    person: Option<&PersonKey>,
    files: i64,
    bytes: i64,
) -> Result<()> {
    let mut batch = Batch::default();
    let names = [("conversation", Some(conversation.to_string())), ("person", person.map(ToString::to_string))];
    for (scope, name) in names {
        let Some(name) = name else { continue };
        batch
            .add(
                "INSERT INTO usage (scope, name, files, bytes) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (scope, name) DO UPDATE SET files = files + excluded.files, bytes = bytes + excluded.bytes",
            )
            .bind(scope)
            .bind(name)
            .bind(files)
            .bind(bytes);
    }
    session.run(batch).await?;
    Ok(())
}

#[derive(sqlx::FromRow)]
struct UsageRow {
    scope: String,
    name: String,
    files: i64,
    bytes: i64,
    workspace_bytes: i64,
}

impl TryFrom<UsageRow> for Usage {
    type Error = Error;

    fn try_from(row: UsageRow) -> Result<Self> {
        const WHAT: &str = "sum of files";
        Ok(Self {
            scope: match row.scope.as_str() {
                "conversation" => UsageScope::Conversation(rows::conversation(&row.name)?),
                _ => UsageScope::Person(row.name.parse().map_err(|_| Error::Row { what: "person" })?),
            },
            files: rows::number(row.files, WHAT)?,
            bytes: rows::number(row.bytes, WHAT)?,
            workspace_bytes: rows::number(row.workspace_bytes, WHAT)?,
        })
    }
}

/// Reads what files take up.
pub(crate) async fn usages(session: &mut Session<'_>, query: &UsageQuery) -> Result<Vec<Usage>> {
    let mut batch = Batch::default();
    let mut found = Vec::new();
    match query {
        UsageQuery::All => found.push(
            batch
                .add(
                    "SELECT scope, name, files, bytes, workspace_bytes FROM usage \
                     WHERE files > 0 OR workspace_bytes > 0 ORDER BY bytes + workspace_bytes DESC, scope, name",
                )
                .id(),
        ),
        UsageQuery::Scopes(scopes) => {
            for scope in scopes {
                let (scope, name) = match scope {
                    UsageScope::Conversation(conversation) => ("conversation", conversation.to_string()),
                    UsageScope::Person(person) => ("person", person.to_string()),
                };
                let row = batch
                    .add("SELECT scope, name, files, bytes, workspace_bytes FROM usage WHERE scope = $1 AND name = $2");
                found.push(row.bind(scope).bind(name).id());
            }
        }
    }
    let answers = session.run(batch).await?;
    let mut usages = Vec::new();
    for statement in found {
        let rows: Vec<UsageRow> = answers.all(statement)?;
        usages.extend(rows.into_iter().map(Usage::try_from).collect::<Result<Vec<_>>>()?);
    }
    Ok(usages)
}

/// A number of bytes as the database has it.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
