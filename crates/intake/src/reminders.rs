//! The reply of a reminder that is due: its text and its files, without a model.

use satchel_domain::{HistoryMessage, OutgoingResponse, SystemTask, Visibility};
use satchel_ports::{
    Archive, LedgerError,
    ledger::{AttachmentKey, HistoryChange, QueuedTurn},
};

use crate::{commands::CommandReply, system_tasks::inline_name};

/// Returns the reply of a turn that delivers a reminder; `None` for any other turn.
///
/// # Errors
/// When the ledger can't be read.
pub async fn delivery_reply(turn: &QueuedTurn, archive: &dyn Archive) -> Result<Option<CommandReply>, LedgerError> {
    let due = turn.messages.iter().find_map(|queued| match &queued.message.system_task {
        Some(SystemTask::DeliverReminder { text, files, missed, .. }) => Some((&queued.message, text, files, missed)),
        _ => None,
    });
    let Some((message, text, files, missed)) = due else { return Ok(None) };
    let (mut attachments, mut gone) = (Vec::new(), Vec::new());
    for file in files {
        match archive.attachment(&message.conversation, AttachmentKey::Id(*file)).await? {
            Some(attachment) if attachment.is_forgotten() => gone.push(format!("#{}", attachment.number)),
            Some(attachment) => attachments.push(attachment),
            None => {}
        }
    }
    attachments.iter_mut().for_each(|attachment| attachment.visibility = Visibility::Deliver);
    let mut heading = "Reminder".to_owned();
    if message.group {
        heading.push_str(&format!(" for {}", inline_name(&message.sender)));
    }
    if let Some(missed) = missed {
        heading.push_str(&format!(", due {missed}, when I was not running"));
    }
    let mut reply = match text.as_str() {
        "" => format!("{heading}."),
        text => format!("{heading}: {text}"),
    };
    if !gone.is_empty() {
        reply.push_str(&format!("\n\nRemoved since, so not sent: {}.", gone.join(", ")));
    }
    // What the person answers refers to it.
    let said = HistoryMessage::Model { text: reply.clone(), calls: Vec::new() };
    Ok(Some(CommandReply {
        response: OutgoingResponse { attachments, ..OutgoingResponse::from_text(reply) },
        history: HistoryChange::Append(vec![said]),
        setting: None,
        buttons: Vec::new(),
        changes: Vec::new(),
    }))
}
