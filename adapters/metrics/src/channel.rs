//! Counts a channel's attempts, their results and durations, and the bytes in both directions.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ChannelState, ConversationId, FileReference, MessageRef, PartContent, Sender,
    delivery::SendError,
};
use satchel_ports::{
    Activity, Channel, LookupOutcome, LookupRequest,
    channel::{FetchedFile, FileFetchError, PostRequest, PreviewRequest},
};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::{AttemptLabels, ByteLabels, ChannelLabels, Metrics, bus::KINDS, label_value};

/// A channel that counts.
pub struct MeasuredChannel {
    inner: Arc<dyn Channel>,
    metrics: Arc<Metrics>,
    name: String,
}

impl MeasuredChannel {
    /// Counts the calls of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Channel>, metrics: Arc<Metrics>) -> Self {
        let name = metrics.channel_label(inner.name().as_str());
        Self { inner, metrics, name }
    }

    fn record_attempt(&self, content: &PartContent, started_at: Instant, result: &Result<Vec<MessageRef>, SendError>) {
        let channel = self.name.clone();
        let seconds = started_at.elapsed().as_secs_f64();
        self.metrics.attempt_seconds.get_or_create(&ChannelLabels { channel: channel.clone() }).observe(seconds);
        let (kind, answer) = (label_value(content.kind(), &KINDS), answer_label(result));
        self.metrics.attempts.get_or_create(&AttemptLabels { channel, kind, answer }).inc();
        if result.is_ok() {
            self.byte_counter("out").inc_by(content_bytes(content));
        }
    }

    fn byte_counter(&self, direction: &'static str) -> prometheus_client::metrics::counter::Counter {
        self.metrics.bytes.get_or_create_owned(&ByteLabels { channel: self.name.clone(), direction })
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

    fn can_write(&self, conversation: &ConversationId, sender: &Sender) -> bool {
        self.inner.can_write(conversation, sender)
    }

    async fn find_parents(&self, conversation: &ConversationId) -> Result<Vec<ConversationId>, SendError> {
        self.inner.find_parents(conversation).await
    }

    fn state(&self) -> ChannelState {
        self.inner.state()
    }

    async fn next_state(&self, state: &ChannelState) -> ChannelState {
        self.inner.next_state(state).await
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let started_at = Instant::now();
        let result = self.inner.post(request).instrument(attempt_span("send", request)).await;
        self.record_attempt(&request.content, started_at, &result);
        result
    }

    async fn edit(&self, message: &MessageRef, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let started_at = Instant::now();
        let result = self.inner.edit(message, request).instrument(attempt_span("edit", request)).await;
        self.record_attempt(&request.content, started_at, &result);
        result
    }

    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError> {
        self.inner.delete(conversation, message).await
    }

    async fn show_preview(&self, request: &PreviewRequest) -> Result<(), SendError> {
        self.inner.show_preview(request).await
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
        let counter = self.byte_counter("in");
        Ok(match self.inner.fetch(reference).await? {
            FetchedFile::Bytes { bytes, content } => {
                let counted = content.inspect_ok(move |chunk| {
                    counter.inc_by(chunk.len() as u64);
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

/// The span of an attempt, with the id of its turn.
fn attempt_span(operation: &'static str, request: &PostRequest) -> Span {
    let PostRequest { part_id, turn, conversation, content, .. } = request;
    let kind = content.kind();
    tracing::debug_span!("attempt", operation, part.id = %part_id, turn.id = %turn, chat.id = %conversation, part.kind = kind)
}

fn answer_label(result: &Result<Vec<MessageRef>, SendError>) -> &'static str {
    match result {
        Ok(_) => "sent",
        Err(SendError::NotSent { .. }) => "not_sent",
        Err(SendError::Refused { .. }) => "refused",
        Err(SendError::Forbidden { .. }) => "forbidden",
        Err(SendError::AccountRefused { .. }) => "account_refused",
        Err(SendError::Unreadable { .. }) => "unreadable",
        Err(SendError::InDoubt { .. }) => "in_doubt",
    }
}

fn content_bytes(content: &PartContent) -> u64 {
    match content {
        PartContent::Voice { prepared: Some(voice), .. } => voice.bytes,
        content => content.files().iter().map(|item| item.attachment.bytes).sum(),
    }
}
