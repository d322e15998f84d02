//! Takes requests of other programs off the bus. Each is acknowledged after its message is stored, so that a crash in
//! between repeats it, and the ledger knows it by its id.

use std::{sync::Arc, time::Duration};

use async_nats::jetstream::{
    AckKind, Message,
    consumer::{AckPolicy, PullConsumer, pull},
    message::PublishMessage,
};
use futures::{StreamExt, future::BoxFuture, stream};
use satchel_domain::{FileReference, InboundMessage, Sender};
use satchel_ports::{BlobError, BlobHint, Blobs, Inbound};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    NatsConnection, NatsError,
    request::{Rejection, RequestAttachment, RequestReceipt, TurnRequest},
    streams::{self, REQUEST_STREAM},
    subject::{REQUESTS, receipt_subject},
};

/// The name under which JetStream remembers what was taken. All processes of one Satchel share it.
const CONSUMER: &str = "satchel";

/// How long one request may take before JetStream gives it to another process.
const ACK_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause after a request that could not be stored, and before JetStream is used again after an error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// What a request may hold.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// The maximum number of files.
    pub files: usize,
    /// The maximum size of each.
    pub file_bytes: u64,
}

/// Tells whether a sender may write: what a stranger sends is not stored.
pub type SenderCheck = Arc<dyn Fn(Sender) -> BoxFuture<'static, Result<bool, BoxError>> + Send + Sync>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Receives requests, which it passes to intake.
#[derive(Clone)]
pub struct RequestListener {
    connection: NatsConnection,
    blobs: Arc<dyn Blobs>,
    limits: RequestLimits,
    is_allowed: SenderCheck,
}

/// What is done with a request.
enum RequestOutcome {
    /// It is stored, or known to have been.
    Stored,
    Rejected(Rejection),
    /// It can't be stored now.
    Failed(BoxError),
}

impl RequestListener {
    #[must_use]
    pub fn new(
        connection: NatsConnection,
        blobs: Arc<dyn Blobs>,
        limits: RequestLimits,
        is_allowed: SenderCheck,
    ) -> Self {
        Self { connection, blobs, limits, is_allowed }
    }

    /// Takes requests until it is stopped. A server that is away is waited for.
    pub async fn listen(self, inbound: Arc<dyn Inbound>, stop: CancellationToken) {
        let mut is_failing = false;
        while let Some(Err(error)) = stop.run_until_cancelled(self.take_requests(&inbound)).await {
            if !std::mem::replace(&mut is_failing, true) {
                tracing::warn!(error = &error as &dyn std::error::Error, "requests can't be read from NATS; retrying");
            }
            if stop.run_until_cancelled(sleep(RETRY_DELAY)).await.is_none() {
                return;
            }
        }
    }

    /// Takes requests until NATS fails.
    async fn take_requests(&self, inbound: &Arc<dyn Inbound>) -> Result<(), NatsError> {
        let consumer = self.open_consumer().await?;
        let refused = |source| NatsError::Refused { action: "the delivery of requests", source };
        let messages = consumer.stream().max_messages_per_batch(1).messages().await;
        let mut messages = messages.map_err(|error| refused(Box::new(error)))?;
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| refused(Box::new(error)))?;
            let kind = self.handle(&message, inbound).await;
            if let Err(error) = message.ack_with(kind).await {
                tracing::debug!(error, "a request could not be acknowledged; it comes again");
            }
        }
        Ok(())
    }

    async fn open_consumer(&self) -> Result<PullConsumer, NatsError> {
        let refused = |source| NatsError::Refused { action: "a consumer of requests", source };
        let jetstream = &self.connection.jetstream;
        streams::create_missing(jetstream).await.map_err(|error| refused(Box::new(error)))?;
        let stream = jetstream.get_stream_no_info(REQUEST_STREAM).await.map_err(|error| refused(Box::new(error)))?;
        let config = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_TIMEOUT,
            // One at a time, so that they keep their order, and none waits at a process that ends.
            max_ack_pending: 1,
            filter_subject: REQUESTS.to_owned(),
            ..pull::Config::default()
        };
        stream.get_or_create_consumer(CONSUMER, config).await.map_err(|error| refused(Box::new(error)))
    }

    /// Handles a request, and returns how it is acknowledged.
    async fn handle(&self, message: &Message, inbound: &Arc<dyn Inbound>) -> AckKind {
        let sender_id = message.subject.rsplit('.').next().unwrap_or_default();
        let outcome = match TurnRequest::parse(&message.payload, sender_id, &self.limits) {
            Ok(request) => self.accept(request, inbound).await,
            Err(rejection) => RequestOutcome::Rejected(rejection),
        };
        match outcome {
            RequestOutcome::Stored => AckKind::Ack,
            RequestOutcome::Rejected(Rejection { id, reason }) => {
                let id = id.as_deref();
                tracing::warn!(sender = ?sender_id, request.id = id, reason = ?reason, "rejected a request on NATS");
                let receipt = RequestReceipt::rejected(id, &reason);
                // Rejected again when it comes again.
                match self.send_receipt(id, &receipt).await {
                    Ok(()) => AckKind::Term,
                    Err(error) => retry_later(&*error),
                }
            }
            RequestOutcome::Failed(error) => retry_later(&*error),
        }
    }

    /// Stores a request as a message and reports it to its sender.
    async fn accept(&self, request: TurnRequest, inbound: &Arc<dyn Inbound>) -> RequestOutcome {
        let TurnRequest { id, conversation, sender, text, files } = request;
        // Its parts can't hold a colon.
        let key = format!("{}:{id}", conversation.key());
        let is_allowed = match (self.is_allowed)(sender.clone()).await {
            Ok(is_allowed) => is_allowed,
            Err(error) => return RequestOutcome::Failed(error),
        };
        let mut message = InboundMessage::new(conversation.clone(), key, sender);
        message.text = text;
        // Intake turns a stranger away; the files would stay until they are collected.
        for file in files.into_iter().filter(|_| is_allowed) {
            match self.store_file(file).await {
                Ok(reference) => message.files.push(reference),
                Err(error @ BlobError::TooLarge { .. }) => {
                    return RequestOutcome::Rejected(Rejection { id: Some(id), reason: error.to_string() });
                }
                Err(error) => return RequestOutcome::Failed(Box::new(error)),
            }
        }
        let turn = match inbound.accept(message).await {
            Ok(Some(turn)) => turn,
            Ok(None) => {
                let reason = "the sender is not allowed; the operator names people in `nats.allow_users`";
                return RequestOutcome::Rejected(Rejection { id: Some(id), reason: reason.to_owned() });
            }
            Err(error) => return RequestOutcome::Failed(Box::new(error)),
        };
        let receipt = RequestReceipt::accepted(&id, &conversation, turn);
        match self.send_receipt(Some(&id), &receipt).await {
            Ok(()) => RequestOutcome::Stored,
            Err(error) => RequestOutcome::Failed(error),
        }
    }

    async fn store_file(&self, file: RequestAttachment) -> Result<FileReference, BlobError> {
        let RequestAttachment { filename, mime, content } = file;
        let hint = BlobHint { filename: Some(filename.clone()), mime, bytes: Some(content.len() as u64) };
        let content = stream::once(async move { Ok(content) }).boxed();
        let stored = self.blobs.put(content, &hint, self.limits.file_bytes).await?;
        Ok(FileReference::stored(&stored, filename))
    }

    async fn send_receipt(&self, id: Option<&str>, receipt: &RequestReceipt<'_>) -> Result<(), BoxError> {
        let payload = serde_json::to_vec(receipt).expect("receipts are plain data");
        let message = PublishMessage::build().payload(payload.into());
        Ok(self.connection.store(receipt_subject(id), message).await?)
    }
}

fn retry_later(error: &(dyn std::error::Error + 'static)) -> AckKind {
    tracing::warn!(error, "a request on NATS could not be stored; it is taken again");
    AckKind::Nak(Some(RETRY_DELAY))
}
