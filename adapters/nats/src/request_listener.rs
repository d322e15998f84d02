//! Takes requests of other programs off the bus. Each is removed after its message is stored, so that a crash in
//! between repeats it, and the ledger knows it by its id.

use std::{collections::HashMap, error::Error, mem, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use async_nats::jetstream::message::PublishMessage;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use satchel_domain::{FileReference, InboundMessage, Sender};
use satchel_ports::{BlobError, BlobHint, Blobs, Inbound};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{
    NatsConnection, NatsGroups,
    membership::Membership,
    request::{Rejection, RequestAttachment, RequestReceipt, TurnRequest},
    request_queue::{BoxError, RequestQueue, WaitingRequest, WaitingSubjects},
    streams,
    subject::receipt_subject,
};

/// How often senders with waiting requests are looked for. Further requests of one that is found wait for nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Pause after a request that could not be stored.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The longest pause after a request whose handling panics each time.
const MAX_PANIC_DELAY: Duration = Duration::from_secs(60);

/// How many senders are served at the same time.
const MAX_CONCURRENT_SENDERS: usize = 64;

/// How many requests are handled at the same time. Each may be as large as the server allows, and is in memory several
/// times until it is stored: as a response, as JSON, and as the files in it.
const MAX_CONCURRENT_REQUESTS: usize = 8;

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

/// Receives requests, which it passes to intake. One process at a time listens.
#[derive(Clone)]
pub struct RequestListener {
    connection: NatsConnection,
    queue: RequestQueue,
    blobs: Arc<dyn Blobs>,
    limits: RequestLimits,
    groups: Arc<NatsGroups>,
    is_allowed: SenderCheck,
    /// Given in turn, so that a sender with many requests takes no more of them than others.
    permits: Arc<Semaphore>,
}

/// What is done with a request.
enum RequestOutcome {
    /// It is stored, or known to have been.
    Stored,
    Rejected(Rejection),
}

impl RequestListener {
    #[must_use]
    pub fn new(
        connection: NatsConnection,
        blobs: Arc<dyn Blobs>,
        limits: RequestLimits,
        groups: NatsGroups,
        is_allowed: SenderCheck,
    ) -> Self {
        let queue = RequestQueue::new(connection.client.clone());
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS));
        Self { connection, queue, blobs, limits, groups: Arc::new(groups), is_allowed, permits }
    }

    /// Takes requests until it is stopped. A server that is away is waited for.
    pub async fn listen(self, inbound: Arc<dyn Inbound>, stop: CancellationToken) {
        stop.run_until_cancelled(self.serve_senders(&inbound)).await;
    }

    /// Serves each sender in a task of its own for as long as requests of it wait, so that a slow one holds up its own
    /// sender alone. Never ends; the tasks end when it is dropped.
    async fn serve_senders(&self, inbound: &Arc<dyn Inbound>) {
        let mut tasks = JoinSet::new();
        let mut by_subject: HashMap<String, AbortHandle> = HashMap::new();
        let mut is_failing = false;
        loop {
            while tasks.try_join_next().is_some() {}
            by_subject.retain(|_, task| !task.is_finished());
            match self.list_waiting().await {
                Ok(WaitingSubjects { created, subjects }) => {
                    is_failing = false;
                    for subject in subjects {
                        if by_subject.len() < MAX_CONCURRENT_SENDERS && !by_subject.contains_key(&subject) {
                            let serving =
                                self.clone().serve_sender(subject.clone(), created.clone(), Arc::clone(inbound));
                            by_subject.insert(subject, tasks.spawn(serving));
                        }
                    }
                }
                Err(error) => {
                    if !mem::replace(&mut is_failing, true) {
                        log_failure(&*error, "requests can't be read from NATS; retrying");
                    }
                }
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Lists the subjects under which requests wait. A stream that is gone is made again.
    async fn list_waiting(&self) -> Result<WaitingSubjects, BoxError> {
        // The connection itself reports an outage.
        if !self.connection.is_connected() {
            return Ok(WaitingSubjects::default());
        }
        let listed = self.queue.list_subjects().await;
        if listed.is_err() {
            streams::create_missing(&self.connection.jetstream).await?;
        }
        listed
    }

    /// Takes the requests under a subject in their order, until none waits or the stream that was created then is gone.
    async fn serve_sender(self, subject: String, created: Option<String>, inbound: Arc<dyn Inbound>) {
        let mut is_failing = false;
        let mut panic_delay = RETRY_DELAY;
        loop {
            let taking = AssertUnwindSafe(self.take_first(&subject, created.as_deref(), &inbound)).catch_unwind();
            match taking.await {
                Ok(Ok(true)) => (is_failing, panic_delay) = (false, RETRY_DELAY),
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    if !mem::replace(&mut is_failing, true) {
                        log_failure(&*error, "handling a request on NATS failed; retrying");
                    }
                    sleep(RETRY_DELAY).await;
                }
                // A task that panics would be started again by each poll. The panic itself is written to stderr.
                Err(_panic) => {
                    tracing::error!(?subject, delay = ?panic_delay, "handling a request on NATS panicked; retrying");
                    sleep(panic_delay).await;
                    panic_delay = (panic_delay * 2).min(MAX_PANIC_DELAY);
                }
            }
        }
    }

    /// Handles the first request under a subject and removes it; `false` if none waits in the stream that was created then.
    async fn take_first(
        &self,
        subject: &str,
        created: Option<&str>,
        inbound: &Arc<dyn Inbound>,
    ) -> Result<bool, BoxError> {
        // A retry waits without it.
        let _permit = self.permits.acquire().await?;
        let Some(request) = self.queue.read_first(subject).await? else { return Ok(false) };
        self.handle(&request, inbound).await?;
        self.queue.remove(&request, created).await
    }

    /// Stores or rejects a request, and reports that to its sender.
    async fn handle(&self, waiting: &WaitingRequest, inbound: &Arc<dyn Inbound>) -> Result<(), BoxError> {
        let sender_id = waiting.subject.rsplit('.').next().unwrap_or_default();
        let outcome = match TurnRequest::parse(&waiting.payload, sender_id, &self.limits, &self.groups) {
            Ok(request) => self.accept(request, inbound).await?,
            Err(rejection) => RequestOutcome::Rejected(rejection),
        };
        let RequestOutcome::Rejected(Rejection { id, reason }) = outcome else { return Ok(()) };
        let id = id.as_deref();
        tracing::warn!(sender = ?sender_id, request.id = id, reason = ?reason, "rejected a request on NATS");
        self.send_receipt(sender_id, id, &RequestReceipt::rejected(id, &reason)).await
    }

    /// Stores a request as a message and reports it to its sender.
    async fn accept(&self, request: TurnRequest, inbound: &Arc<dyn Inbound>) -> Result<RequestOutcome, BoxError> {
        let TurnRequest { id, conversation, membership, sender, text, files } = request;
        let sender_id = sender.id.clone();
        // Its parts can't hold a colon.
        let key = match membership {
            Membership::Own => format!("{}:{id}", conversation.key()),
            // One member's ids don't hide requests of another.
            Membership::Group => format!("{}:{sender_id}:{id}", conversation.key()),
        };
        let is_allowed = (self.is_allowed)(sender.clone()).await?;
        let mut message = InboundMessage::new(conversation.clone(), key, sender);
        message.group = membership == Membership::Group;
        message.text = text;
        // Intake turns a stranger away; the files would stay until they are collected.
        for file in files.into_iter().filter(|_| is_allowed) {
            match self.store_file(file).await {
                Ok(reference) => message.files.push(reference),
                Err(error @ BlobError::TooLarge { .. }) => {
                    let rejection = Rejection { id: Some(id), reason: error.to_string() };
                    return Ok(RequestOutcome::Rejected(rejection));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let Some(turn) = inbound.accept(message).await? else {
            let reason = "the sender is not allowed; the operator names people in `nats.allow_users`";
            return Ok(RequestOutcome::Rejected(Rejection { id: Some(id), reason: reason.to_owned() }));
        };
        self.send_receipt(&sender_id, Some(&id), &RequestReceipt::accepted(&id, &conversation, turn)).await?;
        Ok(RequestOutcome::Stored)
    }

    async fn store_file(&self, file: RequestAttachment) -> Result<FileReference, BlobError> {
        let RequestAttachment { filename, mime, content } = file;
        let hint = BlobHint { filename: Some(filename.clone()), mime, bytes: Some(content.len() as u64) };
        let content = stream::once(async move { Ok(content) }).boxed();
        let stored = self.blobs.put(content, &hint, self.limits.file_bytes).await?;
        Ok(FileReference::stored(&stored, filename))
    }

    async fn send_receipt(
        &self,
        sender_id: &str,
        id: Option<&str>,
        receipt: &RequestReceipt<'_>,
    ) -> Result<(), BoxError> {
        let payload = serde_json::to_vec(receipt).expect("receipts are plain data");
        let message = PublishMessage::build().payload(payload.into());
        Ok(self.connection.store(receipt_subject(sender_id, id), message).await?)
    }
}

fn log_failure(error: &(dyn Error + 'static), consequence: &'static str) {
    tracing::warn!(error, "{consequence}");
}
