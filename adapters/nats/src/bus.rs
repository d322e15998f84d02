//! The bus over NATS: subscribers in this process get events at once, those elsewhere through the server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_nats::{Subscriber, jetstream::message::PublishMessage};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use satchel_ports::{
    Blobs, BusError, BusEvent, EventBus,
    event_bus::{DecodeEventError, EventStream, decode_event, encode_event},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use uuid::Uuid;

use crate::{
    CHANNEL, NatsConnection, NatsError,
    connection::StoreError,
    outgoing::write_event,
    streams::EVENT_STREAM,
    subject::{EVENTS, LIVE, event_subject, is_live},
};

/// How many events wait for the server; further ones are not published.
const QUEUE_CAPACITY: usize = 4096;

/// The delay before the first retry.
const MIN_DELAY: Duration = Duration::from_millis(100);

/// The delay before later retries.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// For how long an event is tried that a server which answers doesn't take.
const MAX_REFUSED_TIME: Duration = Duration::from_secs(30);

/// An [`EventBus`] over NATS.
///
/// `publish` hands an event to the subscribers of this process and puts it into a bounded queue for the server. A server
/// that is away slows nobody down: events wait, and beyond the queue they are dropped.
pub struct NatsBus {
    local: Arc<dyn EventBus>,
    queue: mpsc::Sender<QueueItem>,
    counts: Arc<EventCounts>,
    tasks: [JoinHandle<()>; 2],
}

/// What was not published and not read.
#[derive(Debug, Default)]
struct EventCounts {
    dropped: AtomicU64,
    skipped: AtomicU64,
    is_dropping: AtomicBool,
}

#[expect(clippy::large_enum_variant, reason = "nearly every item is an event: a box would cost each an allocation")]
enum QueueItem {
    Event(BusEvent),
    /// Reports that everything before it was published.
    Flush(oneshot::Sender<()>),
}

/// Publishes what is queued.
struct Publisher {
    connection: NatsConnection,
    blobs: Arc<dyn Blobs>,
    /// Makes the ids of messages unique, so that a retry is stored once.
    run: Uuid,
    published: u64,
}

impl NatsBus {
    /// Starts to exchange events with other processes. `local` is the bus within this one, and `blobs` has the bytes of
    /// the files that events carry.
    ///
    /// # Errors
    /// When the server refuses the subscription.
    pub async fn start(
        connection: &NatsConnection,
        local: Arc<dyn EventBus>,
        blobs: Arc<dyn Blobs>,
    ) -> Result<Self, NatsError> {
        let counts = Arc::new(EventCounts::default());
        let mut subscribers = Vec::new();
        for subject in [EVENTS, LIVE] {
            subscribers.push(connection.client.subscribe(subject).await.map_err(|source| NatsError::Refused {
                action: "the subscription to events",
                source: Box::new(source),
            })?);
        }
        // Its response comes after the server has read the subscriptions.
        let stream = connection.jetstream.get_stream(EVENT_STREAM).await;
        stream.map_err(|source| NatsError::Refused { action: "the stream of events", source: Box::new(source) })?;
        let (queue, queued) = mpsc::channel(QUEUE_CAPACITY);
        let publisher = Publisher { connection: connection.clone(), blobs, run: Uuid::new_v4(), published: 0 };
        let forwarding = forward_events(subscribers, Arc::clone(&local), Arc::clone(&counts));
        let tasks = [tokio::spawn(publisher.run(queued)), tokio::spawn(forwarding)];
        Ok(Self { local, queue, counts, tasks })
    }

    /// Waits until everything published so far has reached the server; `false` if that takes too long.
    pub async fn flush(&self, limit: Duration) -> bool {
        let (done, flushed) = oneshot::channel();
        let flush = async { self.queue.send(QueueItem::Flush(done)).await.is_ok() && flushed.await.is_ok() };
        timeout(limit, flush).await.unwrap_or(false)
    }

    /// How many events were not published because the server was away for too long.
    #[must_use]
    pub fn dropped_events(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// How many events of others were skipped: of a later version, of an unknown type, or malformed.
    #[must_use]
    pub fn skipped_events(&self) -> u64 {
        self.counts.skipped.load(Ordering::Relaxed)
    }

    fn enqueue(&self, event: BusEvent) {
        match self.queue.try_send(QueueItem::Event(event)) {
            Ok(()) => self.counts.is_dropping.store(false, Ordering::Relaxed),
            Err(_full) => {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                if !self.counts.is_dropping.swap(true, Ordering::Relaxed) {
                    tracing::warn!("too many events wait for NATS; further ones are not published until it is back");
                }
            }
        }
    }
}

impl Drop for NatsBus {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[async_trait]
impl EventBus for NatsBus {
    async fn publish(&self, event: BusEvent) -> Result<(), BusError> {
        if !is_delivered_otherwise(&event) {
            self.enqueue(event.clone());
        }
        self.local.publish(event).await
    }

    async fn subscribe(&self) -> Result<EventStream, BusError> {
        self.local.subscribe().await
    }
}

/// Whether the channel of bus peers publishes it itself, as the delivery of a part.
fn is_delivered_otherwise(event: &BusEvent) -> bool {
    let is_response = matches!(event, BusEvent::ResponseText { .. } | BusEvent::ResponseBinary { .. });
    is_response && event.conversation().channel().as_str() == CHANNEL
}

impl Publisher {
    async fn run(mut self, mut queued: mpsc::Receiver<QueueItem>) {
        while let Some(item) = queued.recv().await {
            match item {
                QueueItem::Event(event) if is_live(&event) => self.publish_live(&event).await,
                QueueItem::Event(event) => self.publish_stored(event).await,
                QueueItem::Flush(done) => {
                    // The bus may have stopped waiting.
                    let _ = done.send(());
                }
            }
        }
    }

    /// Publishes a hint. One that can't be sent now is out of date by the time it could.
    async fn publish_live(&self, event: &BusEvent) {
        if !self.connection.is_connected() {
            return;
        }
        let payload = Bytes::from(encode_event(event));
        if let Err(error) = self.connection.client.publish(event_subject(event), payload).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "publishing a text delta failed");
        }
    }

    /// Publishes an event until JetStream has stored it.
    async fn publish_stored(&mut self, event: BusEvent) {
        let subject = event_subject(&event);
        let max_payload = self.connection.client.max_payload();
        let Some(payload) = write_event(event, &self.blobs, max_payload).await else {
            tracing::warn!(subject, max_payload, "an event is too large for NATS; it is not published");
            return;
        };
        let payload = Bytes::from(payload);
        self.published += 1;
        let message_id = format!("{}-{}", self.run, self.published);
        let mut delay = MIN_DELAY;
        let mut refused_since = None;
        loop {
            let message = PublishMessage::build().payload(payload.clone()).message_id(&message_id);
            match self.connection.store(subject.clone(), message).await {
                Ok(()) => return,
                Err(StoreError::TooLarge) => {
                    tracing::warn!(subject, "an event is too large for NATS; it is not published");
                    return;
                }
                Err(StoreError::NotConnected) => refused_since = None,
                // The server answers, and never takes it: all later events would wait behind it.
                Err(error) if refused_since.get_or_insert_with(Instant::now).elapsed() > MAX_REFUSED_TIME => {
                    tracing::warn!(subject, %error, "NATS does not take an event; it is not published");
                    return;
                }
                Err(error) => tracing::debug!(subject, %error, "publishing an event failed; retrying"),
            }
            sleep(delay).await;
            delay = (delay * 2).min(MAX_DELAY);
        }
    }
}

/// Hands events of other processes to the subscribers of this one.
async fn forward_events(subscribers: Vec<Subscriber>, local: Arc<dyn EventBus>, counts: Arc<EventCounts>) {
    let mut messages = futures::stream::select_all(subscribers);
    while let Some(message) = messages.next().await {
        match decode_event(&message.payload) {
            Ok(event) => {
                if let Err(error) = local.publish(event).await {
                    tracing::debug!(error = &error as &dyn std::error::Error, "an event was not handed on");
                }
            }
            Err(error) => {
                counts.skipped.fetch_add(1, Ordering::Relaxed);
                log_skipped(&message.subject, &error);
            }
        }
    }
}

fn log_skipped(subject: &str, error: &DecodeEventError) {
    tracing::debug!(subject, error = error as &dyn std::error::Error, "skipped an event");
}
