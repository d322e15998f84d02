//! Notifications: what other programs send to the people of a conversation. They wait in the inbox as messages do, so that
//! each is one commit, in order behind what is under way, and are delivered without a model.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{
    ConversationId, Ending, FileReference, HistoryMessage, InboundMessage, NotificationDelivery, OutgoingResponse,
    Sender, SystemTask, TurnId, Visibility, size,
};
use satchel_ports::{
    Archive, Conversations, FileLinks, Ids, MAX_NOTIFICATION_BYTES, Notification, NotificationError, Notifications,
    ledger::{HistoryChange, InboundFileState, QueuedTurn},
};

use crate::{commands::CommandReply, internal_inbound::InternalInbound};

/// The sender under whose name notifications are stored.
const NOTIFICATION_SENDER: &str = "notification";

/// The longest key of a notification, in characters.
const MAX_KEY_CHARS: usize = 128;

/// Stores notifications for the worker of their conversation.
#[derive(Clone)]
pub struct NotificationService {
    pub inbound: InternalInbound,
    pub conversations: Arc<dyn Conversations>,
    pub archive: Arc<dyn Archive>,
    pub ids: Arc<dyn Ids>,
    /// How many files a turn accepts.
    pub max_files: usize,
}

#[async_trait]
impl Notifications for NotificationService {
    async fn send(&self, notification: Notification) -> Result<TurnId, NotificationError> {
        check(&notification, self.max_files)?;
        let Notification { conversation, key, text, files } = notification;
        self.check_conversation(&conversation).await?;
        let unique = key.clone().unwrap_or_else(|| self.ids.next().to_string());
        // Neither a conversation nor a key has a space, so no two of them share a key; nor does any platform's message.
        let inbox_key = format!("{NOTIFICATION_SENDER} {} {unique}", conversation.key());
        let sender = Sender::new(NOTIFICATION_SENDER, "Notification");
        let files = files.iter().map(|file| FileReference::stored(&file.blob, file.filename.clone())).collect();
        let message = InboundMessage { files, ..InboundMessage::new(conversation, inbox_key, sender) };
        let task = SystemTask::DeliverNotification { text };
        let turn = self.inbound.accept(task.clone(), message.clone()).await?;
        if let Some(key) = key {
            self.check_first(key, turn, &task, &message).await?;
        }
        Ok(turn)
    }
}

impl NotificationService {
    /// Checks that a conversation exists and is worked on.
    ///
    /// # Errors
    /// When it is not, or the ledger can't be read.
    pub async fn check_conversation(&self, conversation: &ConversationId) -> Result<(), NotificationError> {
        if !self.inbound.hosts(conversation.channel()) {
            return Err(NotificationError::NotHosted(conversation.channel().clone()));
        }
        match self.conversations.find_conversation(conversation).await? {
            Some(_) => Ok(()),
            None => Err(NotificationError::UnknownConversation(conversation.clone())),
        }
    }

    /// Checks that the turn of a key is this notification's and not another one's, and that all of it was delivered or still
    /// can be. Nothing else is known about a forgotten one.
    async fn check_first(
        &self,
        key: String,
        turn: TurnId,
        task: &SystemTask,
        message: &InboundMessage,
    ) -> Result<(), NotificationError> {
        let Some(record) = self.archive.turn(turn).await? else { return Ok(()) };
        let stored = record.messages.iter().map(|queued| &queued.message).find(|stored| stored.key == message.key);
        let identity = |file: &FileReference| (file.stored, file.filename.clone());
        let has_same_files =
            |stored: &InboundMessage| stored.files.iter().map(identity).eq(message.files.iter().map(identity));
        if stored.is_some_and(|stored| stored.system_task.as_ref() != Some(task) || !has_same_files(stored)) {
            return Err(NotificationError::KeyReused(key));
        }
        match (record.routing_errors().first(), &record.ending) {
            (Some(failed), _) => {
                let (part, reason) = (Some(failed.part), failed.reason.to_string());
                Err(NotificationError::NotDelivered { key, part, reason })
            }
            (None, Some(ending)) if *ending != Ending::Done => {
                let reason = format!("its turn ended as {}", ending.as_str());
                Err(NotificationError::NotDelivered { key, part: None, reason })
            }
            (None, _) => Ok(()),
        }
    }
}

fn check(notification: &Notification, max_files: usize) -> Result<(), NotificationError> {
    let invalid = |reason: String| Err(NotificationError::Invalid(reason));
    let Notification { key, text, files, .. } = notification;
    if text.trim().is_empty() && files.is_empty() {
        return invalid("there is nothing to send: it has no text and no files".to_owned());
    }
    if text.len() > MAX_NOTIFICATION_BYTES {
        let limit = size::format_bytes(MAX_NOTIFICATION_BYTES as u64);
        return invalid(format!("the text is longer than {limit}; send it as a file"));
    }
    if files.len() > max_files {
        return invalid(format!("it has {} files; at most {max_files} are accepted at once", files.len()));
    }
    let is_key =
        |key: &String| (1..=MAX_KEY_CHARS).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    if key.as_ref().is_some_and(|key| !is_key(key)) {
        return invalid(format!(
            "a key consists of 1 to {MAX_KEY_CHARS} ASCII letters, digits and signs, without spaces"
        ));
    }
    Ok(())
}

/// Returns the text of the notification that a turn delivers; `None` for any other turn.
#[must_use]
pub fn notification_text(turn: &QueuedTurn) -> Option<&str> {
    turn.messages.iter().find_map(|queued| match &queued.message.system_task {
        Some(SystemTask::DeliverNotification { text }) => Some(text.as_str()),
        _ => None,
    })
}

/// Returns the reply of a turn that delivers a notification, whose files are all stored or refused. The model reads it
/// later, without our own `links`.
#[must_use]
pub fn delivery_reply(turn: &QueuedTurn, text: &str, links: Option<&dyn FileLinks>) -> CommandReply {
    let files = turn.messages.iter().flat_map(|queued| &queued.files);
    let mut attachments = Vec::new();
    for file in files {
        if let InboundFileState::Stored(attachment) = file {
            attachments.push(attachment.clone());
        }
    }
    attachments.iter_mut().for_each(|attachment| attachment.visibility = Visibility::Deliver);
    let text_for_model = links.map_or_else(|| text.to_owned(), |links| links.redact_links(text));
    let delivery = NotificationDelivery::Unknown;
    let note = HistoryMessage::Notification { text: text_for_model, attachments: attachments.clone(), delivery };
    let text = Some(text.to_owned()).filter(|text| !text.trim().is_empty());
    CommandReply {
        response: OutgoingResponse { text, attachments, ..OutgoingResponse::default() },
        history: HistoryChange::Append(vec![note]),
        setting: None,
        buttons: Vec::new(),
        changes: Vec::new(),
        answered: None,
        in_blocks: false,
    }
}

#[cfg(test)]
mod tests;
