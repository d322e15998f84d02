//! What workspaces hold, as it counts for the quotas.

use satchel_domain::{ConversationId, Sender};
use satchel_ports::ledger::PersonKey;
use sqlx::types::Json;

use crate::{
    batch::Batch,
    error::Result,
    session::Session,
    usage::{self, Account, QuotaRules, signed},
};

/// Sets bytes aside for a write.
pub(crate) async fn reserve(
    session: &mut Session<'_>,
    rules: &QuotaRules,
    conversation: &ConversationId,
    bytes: u64,
) -> Result<()> {
    let account = account(session, rules, conversation).await?;
    usage::check(session, rules, &account, bytes).await?;
    change(session, &account, signed(bytes)).await
}

/// Records what a workspace holds.
pub(crate) async fn record(session: &mut Session<'_>, conversation: &ConversationId, bytes: u64) -> Result<()> {
    let account = account(session, &QuotaRules::default(), conversation).await?;
    let recorded: Option<i64> =
        sqlx::query_scalar("SELECT workspace_bytes FROM usage WHERE scope = 'conversation' AND name = $1")
            .bind(conversation.to_string())
            .fetch_optional(session.connection().await?)
            .await?;
    change(session, &account, signed(bytes) - recorded.unwrap_or(0)).await
}

/// Finds whom a workspace counts for: where others write too, for the conversation alone.
async fn account(session: &mut Session<'_>, rules: &QuotaRules, conversation: &ConversationId) -> Result<Account> {
    let newest: Option<(Json<Sender>, bool)> = sqlx::query_as(
        "SELECT json_extract(inbox.message, '$.sender'), COALESCE(json_extract(inbox.message, '$.group'), FALSE) \
         FROM turns JOIN inbox ON inbox.turn = turns.id \
         WHERE turns.conversation = $1 AND json_extract(inbox.message, '$.errand') IS NULL \
         ORDER BY turns.sequence DESC LIMIT 1",
    )
    .bind(conversation.to_string())
    .fetch_optional(session.connection().await?)
    .await?;
    let channel = conversation.channel();
    let person = newest.and_then(|(sender, is_group)| (!is_group).then_some(sender.0));
    Ok(Account {
        conversation: conversation.clone(),
        is_owner: person.as_ref().is_some_and(|sender| (rules.is_owner)(channel, sender)),
        person: person.map(|sender| PersonKey::new(channel, &sender)),
    })
}

async fn change(session: &mut Session<'_>, account: &Account, bytes: i64) -> Result<()> {
    let names = [
        ("conversation", Some(account.conversation.to_string())),
        ("person", account.person.as_ref().map(ToString::to_string)),
    ];
    let mut batch = Batch::default();
    for (scope, name) in names {
        let Some(name) = name else { continue };
        batch
            .add(
                "INSERT INTO usage (scope, name, workspace_bytes) VALUES ($1, $2, MAX($3, 0)) \
                 ON CONFLICT (scope, name) DO UPDATE SET workspace_bytes = MAX(workspace_bytes + $3, 0)",
            )
            .bind(scope)
            .bind(name)
            .bind(bytes);
    }
    session.run(batch).await?;
    Ok(())
}
