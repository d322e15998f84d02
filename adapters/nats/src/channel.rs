//! Programs on NATS as a [`Channel`]: a part is one event for each text and each file, and it has arrived when JetStream
//! has stored them.

use std::{fmt, sync::Arc};

use async_nats::jetstream::message::PublishMessage;
use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, Filename, MessageRef, PartContent, Sender,
    delivery::{Refusal, SendError},
};
use satchel_ports::{
    BlobError, Blobs, BusEvent, Channel, FetchedFile, FileFetchError, PostRequest,
    event_bus::{EventBytes, encode_event},
};

use crate::{NatsConnection, NatsGroups, connection::StoreError, outgoing::attach_bytes, subject::event_subject};

/// The channel of programs on NATS.
pub const CHANNEL: &str = "nats";

/// The type of synthesised speech.
const SPEECH_TYPE: &str = "audio/ogg";

/// Delivers parts as events.
pub struct NatsChannel {
    connection: NatsConnection,
    capabilities: ChannelCapabilities,
    blobs: Arc<dyn Blobs>,
    groups: NatsGroups,
}

impl NatsChannel {
    #[must_use]
    pub fn new(
        connection: NatsConnection,
        capabilities: ChannelCapabilities,
        blobs: Arc<dyn Blobs>,
        groups: NatsGroups,
    ) -> Self {
        Self { connection, capabilities, blobs, groups }
    }

    /// Publishes one event of a part. A repeat with the same id is stored once.
    async fn publish(&self, event: BusEvent, message_id: &str) -> Result<(), SendError> {
        let attached = attach_bytes(&event, &self.blobs, self.connection.client.max_payload()).await;
        let event = attached.map_err(on_blob_error)?.unwrap_or(event);
        let message = PublishMessage::build().payload(encode_event(&event).into()).message_id(message_id);
        self.connection.store(event_subject(&event), message).await.map_err(|error| match error {
            StoreError::NotConnected | StoreError::StreamMissing => {
                SendError::NotSent { retry_after_ms: None, reason: error.to_string() }
            }
            StoreError::TooLarge => {
                let limit = u64::try_from(self.connection.client.max_payload()).ok();
                SendError::Refused { refusal: Refusal::TooLarge { limit }, reason: error.to_string() }
            }
            StoreError::InDoubt(_) => SendError::InDoubt { reason: error.to_string() },
        })
    }

    /// Checks that a file's bytes can be read, also where the event only names them.
    async fn check(&self, event: &BusEvent) -> Result<(), SendError> {
        let BusEvent::ResponseBinary { sha256, .. } = event else { return Ok(()) };
        self.blobs.open(sha256, Some(0..1)).await.map(drop).map_err(on_blob_error)
    }
}

impl fmt::Debug for NatsChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsChannel").field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

#[async_trait]
impl Channel for NatsChannel {
    fn name(&self) -> ChannelName {
        ChannelName::new(CHANNEL).expect("the name is lower-case letters")
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        self.capabilities.clone()
    }

    /// A group may have lost a member since a message was stored, and an earlier release took requests for any conversation.
    fn can_write(&self, conversation: &ConversationId, sender: &Sender) -> bool {
        self.groups.find_membership(conversation, &sender.id).is_some()
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let events = part_events(request);
        // First, so that a part whose last file is gone is not half sent.
        for event in &events {
            self.check(event).await?;
        }
        let mut messages = Vec::with_capacity(events.len());
        for (index, event) in events.into_iter().enumerate() {
            let id = match index {
                0 => request.part_id.to_string(),
                index => format!("{}.{index}", request.part_id),
            };
            self.publish(event, &id).await.map_err(|error| match error {
                // Something of the part has arrived.
                SendError::NotSent { reason, .. } if index > 0 => SendError::InDoubt { reason },
                error => error,
            })?;
            messages.push(MessageRef(id));
        }
        Ok(messages)
    }

    async fn probe(&self) -> Result<(), SendError> {
        match self.connection.is_connected() {
            true => Ok(()),
            false => Err(SendError::NotSent { retry_after_ms: None, reason: StoreError::NotConnected.to_string() }),
        }
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        let stored = reference.stored_blob().map(FetchedFile::Stored);
        stored.ok_or_else(|| FileFetchError::Permanent { reason: "no request brought it".to_owned() })
    }
}

/// The events that a part is, in order.
fn part_events(request: &PostRequest) -> Vec<BusEvent> {
    let (conversation, turn, part) = (&request.conversation, request.turn, Some(request.part_id));
    let (text, buttons) = match &request.content {
        PartContent::Text { text, .. } | PartContent::Notice { text } => (text.as_str(), &[][..]),
        PartContent::Question { text, buttons, .. } => (text.as_str(), buttons.as_slice()),
        PartContent::Voice { caption, .. } => (caption.as_str(), &[][..]),
        PartContent::File(_) | PartContent::Album { .. } => ("", &[][..]),
    };
    let mut events = Vec::new();
    if !text.is_empty() {
        let (conversation, text, buttons) = (conversation.clone(), text.to_owned(), buttons.to_vec());
        events.push(BusEvent::ResponseText { conversation, turn, part, text, buttons });
    }
    let mut push_file = |filename: Filename, mime: &str, bytes, sha256| {
        events.push(BusEvent::ResponseBinary {
            conversation: conversation.clone(),
            turn,
            part,
            filename: Some(filename),
            mime: mime.to_owned(),
            bytes,
            sha256,
            content: EventBytes::Blob(sha256),
        });
    };
    if let PartContent::Voice { prepared: Some(voice), .. } = &request.content {
        push_file(Filename::from_untrusted("voice.ogg"), SPEECH_TYPE, voice.bytes, voice.sha256);
    }
    for item in request.content.files() {
        let file = &item.attachment;
        push_file(file.filename.clone(), &file.mime, file.bytes, file.sha256);
    }
    events
}

fn on_blob_error(error: BlobError) -> SendError {
    match error {
        BlobError::Missing(_) | BlobError::Damaged(_) => SendError::Unreadable { reason: error.to_string() },
        // The store failed and not this file, so a retry can help.
        other => SendError::NotSent { retry_after_ms: None, reason: other.to_string() },
    }
}
