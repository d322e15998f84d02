//! `satchel outbox …`: parts that are in progress or failed.

use std::io::Write;

use anyhow::{Context, bail};
use satchel_domain::{ConversationId, InboundMessage, Part, PartId, PartState, Sender};
use satchel_ports::{
    Archive, Ids, Ledger, LedgerError, Outbox,
    ledger::{ClaimMode, OutboxQuery},
};

use super::{format_timestamp, summarize_content, write_json, write_table};

/// The sender under whose name the operator's commands are stored.
pub const OPERATOR: &str = "operator";

/// Lists parts, the newest first.
///
/// # Errors
/// When the ledger fails or the output can't be written.
pub async fn list(
    archive: &dyn Archive,
    conversation: Option<ConversationId>,
    include_delivered: bool,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let query = OutboxQuery { conversation, include_delivered, ..OutboxQuery::default() };
    let parts = archive.parts(&query).await?;
    if json {
        return Ok(write_json(out, &parts)?);
    }
    if parts.is_empty() {
        writeln!(out, "the outbox is empty: nothing in progress, nothing failed")?;
        return Ok(());
    }
    let row = |part: &Part| {
        vec![
            part.id.to_string(),
            part.conversation.to_string(),
            part.operation.kind().to_owned(),
            describe_state(&part.state),
            summarize_part(part),
        ]
    };
    write_table(out, &parts.iter().map(row).collect::<Vec<_>>())?;
    Ok(())
}

/// Describes in one line what a part shows or does.
fn summarize_part(part: &Part) -> String {
    match part.content() {
        _ if part.is_draft() => "a reply that is still being written".to_owned(),
        Some(content) => summarize_content(content),
        None => "the draft of a reply without text".to_owned(),
    }
}

/// Shows one part.
///
/// # Errors
/// When there is no such part, the ledger fails, or the output can't be written.
pub async fn show(archive: &dyn Archive, part: PartId, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let part = find_part(archive, part).await?;
    if json {
        return Ok(write_json(out, &part)?);
    }
    let mut rows = vec![
        ("id", part.id.to_string()),
        ("conversation", part.conversation.to_string()),
        ("turn", part.turn.to_string()),
        ("kind", part.operation.kind().to_owned()),
        ("content", summarize_part(&part)),
        ("state", describe_state(&part.state)),
        ("attempts", part.attempts.to_string()),
        ("planned", format_timestamp(part.created_at)),
    ];
    if let Some(first) = part.first_attempt_at {
        rows.push(("first attempt", format_timestamp(first)));
    }
    if part.labelled {
        rows.push(("label", "possible duplicate".to_owned()));
    }
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    write_table(out, &rows)?;
    Ok(())
}

/// Resends the files of a part: stores `/resend N` for each in the part's conversation, so that the holder of the lane
/// runs it in order.
///
/// # Errors
/// When there is no such part, it has no files, or the ledger fails.
pub async fn resend(ledger: &Ledger, ids: &dyn Ids, part: PartId, out: &mut dyn Write) -> anyhow::Result<()> {
    let part = find_part(&*ledger.archive, part).await?;
    if part.operation.files().is_empty() {
        bail!("part {} is a {} without files; only files can be sent again", part.id, part.operation.kind());
    }
    for message in queue_resend(ledger, &part, &ids.next().to_string()).await? {
        writeln!(out, "queued: {} in {}", message.text, message.conversation)?;
    }
    Ok(())
}

/// Stores `/resend N` for each file of a part, once for each `key`, and returns the messages.
///
/// # Errors
/// When the ledger fails.
pub(crate) async fn queue_resend(ledger: &Ledger, part: &Part, key: &str) -> Result<Vec<InboundMessage>, LedgerError> {
    let mut queued = Vec::new();
    for item in part.operation.files() {
        let number = item.attachment.number;
        let key = format!("{OPERATOR}:{}:{key}:{number}", part.id);
        let sender = Sender::new(OPERATOR, OPERATOR);
        let message = InboundMessage {
            text: format!("/resend {number}"),
            ..InboundMessage::new(part.conversation.clone(), key, sender)
        };
        ledger.inbox.receive(&message, ClaimMode::Never).await?;
        queued.push(message);
    }
    Ok(queued)
}

/// Gives up a part that is not being sent.
///
/// # Errors
/// When the part is unknown, settled or being sent, or the ledger fails.
pub async fn discard(outbox: &dyn Outbox, part: PartId, out: &mut dyn Write) -> anyhow::Result<()> {
    outbox.discard_part(part).await?;
    writeln!(out, "discarded: {part}")?;
    Ok(())
}

async fn find_part(archive: &dyn Archive, part: PartId) -> anyhow::Result<Part> {
    read_part(archive, part).await?.with_context(|| format!("there is no part {part}"))
}

/// Reads a part in any state.
///
/// # Errors
/// When the ledger fails.
pub(crate) async fn read_part(archive: &dyn Archive, part: PartId) -> Result<Option<Part>, LedgerError> {
    let query = OutboxQuery { part: Some(part), include_delivered: true, ..OutboxQuery::default() };
    Ok(archive.parts(&query).await?.into_iter().next())
}

fn describe_state(state: &PartState) -> String {
    match state {
        PartState::Failed { reason } => format!("failed: {}", super::one_line(&reason.to_string(), 120)),
        PartState::Waiting { reason, .. } | PartState::InDoubt { reason, .. } => {
            format!("{}: {}", state.as_str().replace('_', " "), super::one_line(reason, 120))
        }
        state => state.as_str().to_owned(),
    }
}

#[cfg(test)]
mod tests;
