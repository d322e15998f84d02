//! Counts what goes through a channel: attempts, what was answered, how long it took, bytes both ways.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, MessageRef, PartContent, delivery::SendError,
};
use satchel_ports::{
    Activity, Channel, LookupOutcome, LookupRequest,
    channel::{FetchedFile, FileFetchError, SendRequest},
};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::{AttemptLabels, ByteLabels, ChannelLabels, Metrics, bus::KINDS, one_of};

/// A channel that counts.
pub struct MeasuredChannel {
    inner: Arc<dyn Channel>,
    figures: Arc<Metrics>,
    name: String,
}

impl MeasuredChannel {
    /// Counts what goes through `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Channel>, figures: Arc<Metrics>) -> Self {
        let name = figures.channel(inner.name().as_str());
        Self { inner, figures, name }
    }

    fn count(&self, content: &PartContent, began: Instant, answer: &Result<Vec<MessageRef>, SendError>) {
        let channel = self.name.clone();
        let took = began.elapsed().as_secs_f64();
        self.figures.attempt_seconds.get_or_create(&ChannelLabels { channel: channel.clone() }).observe(took);
        let (kind, answered) = (one_of(content.kind(), &KINDS), word_for(answer));
        self.figures.attempts.get_or_create(&AttemptLabels { channel, kind, answer: answered }).inc();
        if answer.is_ok() {
            self.bytes("out").inc_by(bytes_of(content));
        }
    }

    fn bytes(&self, direction: &'static str) -> prometheus_client::metrics::counter::Counter {
        self.figures.bytes.get_or_create_owned(&ByteLabels { channel: self.name.clone(), direction })
    }
}

#[async_trait]
#[warn(clippy::missing_trait_methods)]
impl Channel for MeasuredChannel {
    fn name(&self) -> ChannelName {
        self.inner.name()
    }

    fn capabilities(&self, conversation: &ConversationId) -> ChannelCapabilities {
        self.inner.capabilities(conversation)
    }

    async fn send(&self, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        let began = Instant::now();
        let answer = self.inner.send(part).instrument(span("send", part)).await;
        self.count(&part.content, began, &answer);
        answer
    }

    async fn edit(&self, message: &MessageRef, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        let began = Instant::now();
        let answer = self.inner.edit(message, part).instrument(span("edit", part)).await;
        self.count(&part.content, began, &answer);
        answer
    }

    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError> {
        self.inner.delete(conversation, message).await
    }

    async fn find_sent(&self, request: &LookupRequest) -> Result<LookupOutcome, SendError> {
        self.inner.find_sent(request).await
    }

    async fn probe(&self) -> Result<(), SendError> {
        self.inner.probe().await
    }

    async fn show_activity(&self, conversation: &ConversationId, activity: Activity) {
        self.inner.show_activity(conversation, activity).await;
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        let counter = self.bytes("in");
        Ok(match self.inner.fetch(reference).await? {
            FetchedFile::Bytes { bytes, content } => {
                let counted = content.inspect_ok(move |piece| {
                    counter.inc_by(piece.len() as u64);
                });
                FetchedFile::Bytes { bytes, content: Box::pin(counted) }
            }
            FetchedFile::Stored(stored) => {
                counter.inc_by(stored.bytes);
                FetchedFile::Stored(stored)
            }
        })
    }
}

/// The span of an attempt, by which it is found from its turn.
fn span(operation: &'static str, part: &SendRequest) -> Span {
    let SendRequest { part, turn, conversation, content, .. } = part;
    let kind = content.kind();
    tracing::debug_span!("attempt", operation, part.id = %part, turn.id = %turn, chat.id = %conversation, part.kind = kind)
}

fn word_for(answer: &Result<Vec<MessageRef>, SendError>) -> &'static str {
    match answer {
        Ok(_) => "sent",
        Err(SendError::NotSent { .. }) => "not_sent",
        Err(SendError::Refused { .. }) => "refused",
        Err(SendError::Forbidden { .. }) => "forbidden",
        Err(SendError::Unreadable { .. }) => "unreadable",
        Err(SendError::InDoubt { .. }) => "in_doubt",
    }
}

fn bytes_of(content: &PartContent) -> u64 {
    match content {
        PartContent::Voice { prepared: Some(voice), .. } => voice.bytes,
        content => content.files().iter().map(|item| item.attachment.bytes).sum(),
    }
}
