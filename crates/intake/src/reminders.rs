//! The reply of a reminder that is due: its text and its files, without a model.

use satchel_domain::{
    HistoryMessage, InboundMessage, OutgoingResponse, ReminderId, ReminderOrigin, SystemTask, Visibility,
};
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
        Some(SystemTask::DeliverReminder { reminder, text, files, missed, origin }) => {
            let origin = origin.as_ref().map(|origin| (*reminder, origin));
            Some((&queued.message, text, files, missed, origin))
        }
        _ => None,
    });
    let Some((message, text, files, missed, origin)) = due else { return Ok(None) };
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
    if let Some((reminder, origin)) = origin {
        reply.push_str(&format!("\n\n{}", describe_origin(reminder, origin, message)));
    }
    // What the person answers refers to it.
    let said = HistoryMessage::Model { text: reply.clone(), calls: Vec::new() };
    Ok(Some(CommandReply {
        response: OutgoingResponse { attachments, ..OutgoingResponse::from_text(reply) },
        history: HistoryChange::Append(vec![said]),
        setting: None,
        buttons: Vec::new(),
        changes: Vec::new(),
        answered: None,
        in_blocks: false,
    }))
}

/// Says who made a reminder and when: a document may have had a model make it.
fn describe_origin(reminder: ReminderId, origin: &ReminderOrigin, message: &InboundMessage) -> String {
    let person = message.group.then_some(message.sender.name.as_str());
    origin.describe(reminder, person)
}

#[cfg(test)]
mod tests {
    use satchel_domain::{InboxId, ReminderAuthor, Sender, Timestamp, TurnId};
    use satchel_ports::{
        MockArchive,
        ledger::{ConversationSettings, QueuedMessage},
    };
    use uuid::Uuid;

    use super::*;

    fn turn(group: bool, origin: Option<ReminderOrigin>) -> QueuedTurn {
        let (reminder, text) = (ReminderId(3), "tea".to_owned());
        let task = SystemTask::DeliverReminder { reminder, text, files: Vec::new(), missed: None, origin };
        let message = InboundMessage {
            group,
            system_task: Some(task),
            ..InboundMessage::new("telegram:7".parse().unwrap(), "k".into(), Sender::new("7", "Ada"))
        };
        let queued = QueuedMessage {
            id: InboxId(Uuid::nil()),
            turn: TurnId(Uuid::nil()),
            message,
            files: Vec::new(),
            transcriptions: std::collections::BTreeMap::new(),
            received_at: Timestamp(0),
        };
        QueuedTurn {
            id: TurnId(Uuid::nil()),
            messages: vec![queued],
            ready_at: Timestamp(0),
            has_followers: false,
            journal: Vec::new(),
            draft: None,
            crashes: 0,
            unreported_failures: Vec::new(),
            settings: ConversationSettings::default(),
            history: [].into(),
        }
    }

    async fn delivered(group: bool, origin: Option<ReminderOrigin>) -> String {
        let reply = delivery_reply(&turn(group, origin), &MockArchive::new()).await.unwrap().unwrap();
        reply.response.text.unwrap()
    }

    /// The attack: a document has the model make a reminder, and the person takes it for their own.
    #[tokio::test]
    async fn delivery_names_author_and_time() {
        let origin = |author, repeats| Some(ReminderOrigin { author, made: Some("Friday at 12:00".into()), repeats });
        let own = delivered(false, origin(ReminderAuthor::Person, false)).await;
        assert_eq!(own, "Reminder: tea\n\nYou set it on Friday at 12:00.");
        let planted = delivered(false, origin(ReminderAuthor::Model, true)).await;
        let expected =
            "Reminder: tea\n\nI set it on Friday at 12:00, in a reply to you. `/schedules cancel 3` ends it.";
        assert_eq!(planted, expected);
        let in_group = delivered(true, origin(ReminderAuthor::Model, false)).await;
        assert_eq!(in_group, "Reminder for `Ada`: tea\n\nI set it on Friday at 12:00, in a reply to `Ada`.");
        assert_eq!(delivered(false, None).await, "Reminder: tea", "an earlier version stored it");
    }
}
