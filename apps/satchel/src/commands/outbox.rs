//! `satchel outbox …`: parts that are in progress or failed, and what `satchel send` has queued.

use std::io::Write;

use anyhow::{Context, bail};
use satchel_domain::{
    ConversationId, Filename, InboundMessage, Part, PartContent, PartId, PartState, Sender, SystemTask, Timestamp,
    TurnId,
};
use satchel_ports::{
    Archive, Ids, Ledger, LedgerError, Outbox,
    ledger::{ClaimMode, OutboxQuery, TurnRecord},
};
use serde::Serialize;

use super::{format_timestamp, message_text, summarize_content, summarize_message, write_json, write_table};

/// The sender under whose name the operator's commands are stored.
pub const OPERATOR: &str = "operator";

/// Lists queued notifications, which have no parts yet, and parts, the newest first.
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
    let mut queued = archive.list_queued_notifications(conversation.clone()).await?;
    queued.reverse();
    let query = OutboxQuery { conversation, include_delivered, ..OutboxQuery::default() };
    let parts = archive.parts(&query).await?;
    if json {
        let queued = queued.iter().map(|turn| OutboxEntry::Notification(QueuedNotificationJson::from(turn)));
        let entries: Vec<_> = queued.chain(parts.iter().map(OutboxEntry::Part)).collect();
        return Ok(write_json(out, &entries)?);
    }
    if parts.is_empty() && queued.is_empty() {
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
    let rows: Vec<_> = queued.iter().map(notification_row).chain(parts.iter().map(row)).collect();
    write_table(out, &rows)?;
    Ok(())
}

/// What is printed as JSON: a part, or a notification that waits for its turn.
#[derive(Serialize)]
#[serde(untagged)]
enum OutboxEntry<'a> {
    Notification(QueuedNotificationJson<'a>),
    Part(&'a Part),
}

#[derive(Serialize)]
struct QueuedNotificationJson<'a> {
    turn: TurnId,
    conversation: &'a ConversationId,
    kind: &'static str,
    state: QueuedState,
    text: &'a str,
    files: Vec<&'a Filename>,
    created_at: Option<Timestamp>,
}

/// The state, in the form of a part's.
#[derive(Serialize)]
struct QueuedState {
    state: &'static str,
}

/// The kind and the state of a notification that waits, beside those of parts.
const NOTIFICATION_KIND: &str = "notification";
const QUEUED_STATE: &str = "queued";

impl<'a> From<&'a TurnRecord> for QueuedNotificationJson<'a> {
    fn from(record: &'a TurnRecord) -> Self {
        Self {
            turn: record.id,
            conversation: &record.conversation,
            kind: NOTIFICATION_KIND,
            state: QueuedState { state: QUEUED_STATE },
            text: record.messages.first().map_or("", |queued| message_text(&queued.message)),
            files: record.messages.iter().flat_map(|queued| &queued.message.files).map(|file| &file.filename).collect(),
            created_at: record.messages.first().map(|queued| queued.received_at),
        }
    }
}

fn notification_row(record: &TurnRecord) -> Vec<String> {
    let QueuedNotificationJson { turn, conversation, kind, state, .. } = QueuedNotificationJson::from(record);
    let message = record.messages.first().map(|queued| summarize_message(&queued.message)).unwrap_or_default();
    vec![turn.to_string(), conversation.to_string(), kind.to_owned(), state.state.to_owned(), message]
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

/// Sends the text and the files of a part once more: stores what does so in the part's conversation, so that the holder of
/// the lane runs it in order.
///
/// # Errors
/// When there is no such part, it can't be sent again, or the ledger fails.
pub async fn resend(ledger: &Ledger, ids: &dyn Ids, part: PartId, out: &mut dyn Write) -> anyhow::Result<()> {
    let part = find_part(&*ledger.archive, part).await?;
    if let Some(reason) = resend_obstacle(&part) {
        bail!("part {} {reason}", part.id);
    }
    for message in queue_resend(ledger, &part, &ids.next().to_string()).await? {
        let content = if message.system_task.is_some() { "the text" } else { message.text.as_str() };
        writeln!(out, "queued: {content} in {}", message.conversation)?;
    }
    Ok(())
}

/// Returns why a part can't be sent again, as text that follows its name.
pub(crate) fn resend_obstacle(part: &Part) -> Option<&'static str> {
    match part.content() {
        _ if part.is_draft() => Some("is a reply that is still being written"),
        None => Some("deletes a message, and has nothing that could be sent again"),
        Some(PartContent::Question { .. }) if part.question.is_some() => {
            Some("is a question about a tool call, which is not asked again")
        }
        Some(content) if text_of(content).is_some() && !part.state.is_settled() => Some("is still being sent"),
        Some(_) => None,
    }
}

/// The text that a part brings besides its files.
fn text_of(content: &PartContent) -> Option<&str> {
    let text = match content {
        PartContent::Text { text, .. }
        | PartContent::Question { text, .. }
        | PartContent::Voice { text, .. }
        | PartContent::Notice { text } => text,
        PartContent::File(_) | PartContent::Album { .. } => return None,
    };
    Some(text.as_str()).filter(|text| !text.trim().is_empty())
}

/// Stores what sends the text of a part once more, and `/resend N` for each of its files, once for each `key`. Returns the
/// messages.
///
/// # Errors
/// When the ledger fails.
pub(crate) async fn queue_resend(ledger: &Ledger, part: &Part, key: &str) -> Result<Vec<InboundMessage>, LedgerError> {
    let message = |what: &str| {
        let key = format!("{OPERATOR}:{}:{key}:{what}", part.id);
        InboundMessage::new(part.conversation.clone(), key, Sender::new(OPERATOR, OPERATOR))
    };
    let text = part.content().and_then(text_of).map(|text| InboundMessage {
        system_task: Some(SystemTask::ResendText { text: text.to_owned() }),
        ..message("text")
    });
    let files = part.operation.files().iter().map(|item| {
        let number = item.attachment.number;
        InboundMessage { text: format!("/resend {number}"), ..message(&number.to_string()) }
    });
    let queued: Vec<InboundMessage> = text.into_iter().chain(files).collect();
    for message in &queued {
        ledger.inbox.receive(message, ClaimMode::Never).await?;
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
