//! The streams that JetStream keeps for Satchel, made where they are missing.

use std::time::Duration;

use async_nats::jetstream::{
    Context,
    context::CreateStreamError,
    stream::{Config, DiscardPolicy, RetentionPolicy},
};

use crate::subject::{EVENTS, RECEIPTS, REQUESTS};

/// The stream of events and receipts.
pub(crate) const EVENT_STREAM: &str = "SATCHEL_EVENTS";

/// The stream of requests; one whose message is stored is removed.
pub(crate) const REQUEST_STREAM: &str = "SATCHEL_REQUESTS";

/// How long a message that is published twice is kept once.
pub(crate) const DUPLICATE_WINDOW: Duration = Duration::from_secs(60 * 60);

/// How long events can be read, at most.
const EVENT_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The size of all events; the oldest go first. The server sets it aside on its disk.
const MAX_EVENT_BYTES: i64 = 512 << 20;

/// The size of all waiting requests; a further one is refused, which its sender sees.
const MAX_REQUEST_BYTES: i64 = 256 << 20;

/// Creates the streams that are missing. One that an operator has changed stays as it is.
pub(crate) async fn create_missing(jetstream: &Context) -> Result<(), CreateStreamError> {
    let events = Config {
        name: EVENT_STREAM.to_owned(),
        subjects: vec![EVENTS.to_owned(), RECEIPTS.to_owned()],
        max_age: EVENT_TTL,
        max_bytes: MAX_EVENT_BYTES,
        discard: DiscardPolicy::Old,
        duplicate_window: DUPLICATE_WINDOW,
        ..Config::default()
    };
    let requests = Config {
        name: REQUEST_STREAM.to_owned(),
        subjects: vec![REQUESTS.to_owned()],
        max_bytes: MAX_REQUEST_BYTES,
        discard: DiscardPolicy::New,
        retention: RetentionPolicy::WorkQueue,
        ..Config::default()
    };
    for stream in [events, requests] {
        jetstream.get_or_create_stream(stream).await?;
    }
    Ok(())
}
