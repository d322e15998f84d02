//! The streams that JetStream keeps for Satchel, made where they are missing, and protected from programs that may do
//! nothing but send requests.
//!
//! The server confirms a request to whatever subject its program names, also to one that the program may not publish to.
//! There the confirmation counts as an order to JetStream: it is a valid order to purge a stream, and to delete the message
//! with its number. See ADR 0042.

use std::{error::Error, time::Duration};

use async_nats::jetstream::{
    Context,
    context::CreateStreamError,
    response::Response,
    stream::{Config, DiscardPolicy, Info, RetentionPolicy},
};
use serde_json::{Map, Value, json};

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

/// One sender fills at most this share of the space for requests.
const MAX_SENDER_SHARE: i64 = 4;

/// How long a request that is published twice is kept once: as short as the server allows. The ids of messages count for all
/// senders, so that a program could suppress or delete a request of another one by its id. The ledger knows a repeat by
/// the request's own id.
const REQUEST_DUPLICATE_WINDOW: Duration = Duration::from_millis(100);

/// Creates the streams that are missing. One that exists keeps what an operator has changed, and gets the protection that
/// it lacks.
pub(crate) async fn create_missing(jetstream: &Context) -> Result<(), CreateStreamError> {
    let max_waiting = max_waiting_requests(jetstream.client().max_payload());
    let events = Config {
        name: EVENT_STREAM.to_owned(),
        subjects: vec![EVENTS.to_owned(), RECEIPTS.to_owned()],
        max_age: EVENT_TTL,
        max_bytes: MAX_EVENT_BYTES,
        discard: DiscardPolicy::Old,
        duplicate_window: DUPLICATE_WINDOW,
        deny_delete: true,
        deny_purge: true,
        ..Config::default()
    };
    let requests = Config {
        name: REQUEST_STREAM.to_owned(),
        subjects: vec![REQUESTS.to_owned()],
        max_bytes: MAX_REQUEST_BYTES,
        discard: DiscardPolicy::New,
        retention: RetentionPolicy::WorkQueue,
        max_messages_per_subject: max_waiting,
        discard_new_per_subject: true,
        duplicate_window: REQUEST_DUPLICATE_WINDOW,
        // Not `deny_delete`: Satchel removes what is stored. The number in a confirmation is that of the program's own request.
        deny_purge: true,
        ..Config::default()
    };
    let events = jetstream.get_or_create_stream(events).await?;
    protect(jetstream, EVENT_STREAM, find_missing_in_events(events.cached_info())).await;
    let requests = jetstream.get_or_create_stream(requests).await?;
    protect(jetstream, REQUEST_STREAM, find_missing_in_requests(requests.cached_info(), max_waiting)).await;
    Ok(())
}

/// Calls JetStream. The response is read as plain JSON, because the library's types leave out what they don't know.
pub(crate) async fn call(jetstream: &Context, subject: String, body: &Value) -> Result<Value, CreateStreamError> {
    match jetstream.request(subject, body).await? {
        Response::Ok(answer) => Ok(answer),
        Response::Err { error } => Err(error.into()),
    }
}

/// How many requests of one sender may wait, where each can be as large as the server allows.
fn max_waiting_requests(max_payload: usize) -> i64 {
    let max_payload = i64::try_from(max_payload).unwrap_or(i64::MAX).max(1);
    (MAX_REQUEST_BYTES / MAX_SENDER_SHARE / max_payload).max(1)
}

/// Lists the settings that a stream of events lacks.
fn find_missing_in_events(Info { config, .. }: &Info) -> Map<String, Value> {
    let mut missing = Map::new();
    if !config.deny_delete {
        missing.insert("deny_delete".to_owned(), true.into());
    }
    if !config.deny_purge {
        missing.insert("deny_purge".to_owned(), true.into());
    }
    missing
}

/// Lists the settings that a stream of requests lacks.
fn find_missing_in_requests(Info { config, state, .. }: &Info, max_waiting: i64) -> Map<String, Value> {
    let mut missing = Map::new();
    if !config.deny_purge {
        missing.insert("deny_purge".to_owned(), true.into());
    }
    if config.duplicate_window > REQUEST_DUPLICATE_WINDOW {
        let nanos = u64::try_from(REQUEST_DUPLICATE_WINDOW.as_nanos()).expect("100 ms fit");
        missing.insert("duplicate_window".to_owned(), nanos.into());
    }
    // Where the oldest are dropped, or where too many wait, the limit would remove requests.
    let is_unlimited = config.max_messages_per_subject <= 0 && config.discard == DiscardPolicy::New;
    if is_unlimited && i64::try_from(state.messages).is_ok_and(|waiting| waiting <= max_waiting) {
        missing.insert("max_msgs_per_subject".to_owned(), max_waiting.into());
        missing.insert("discard_new_per_subject".to_owned(), true.into());
    }
    missing
}

/// Adds settings to a stream. A server that refuses them takes requests and events anyway.
async fn protect(jetstream: &Context, stream: &str, settings: Map<String, Value>) {
    if settings.is_empty() {
        return;
    }
    let names = settings.keys().cloned().collect::<Vec<_>>().join(", ");
    match update(jetstream, stream, settings).await {
        Ok(()) => {
            tracing::info!(stream, settings = names, "protected a stream on NATS from programs that send requests")
        }
        Err(error) => tracing::warn!(
            stream,
            settings = names,
            error = &error as &dyn Error,
            "a stream on NATS can't be protected from programs that send requests; change these settings yourself"
        ),
    }
}

async fn update(jetstream: &Context, stream: &str, settings: Map<String, Value>) -> Result<(), CreateStreamError> {
    let mut info = call(jetstream, format!("STREAM.INFO.{stream}"), &json!({})).await?;
    let Some(config) = info.get_mut("config") else { return Ok(()) };
    if let Some(config) = config.as_object_mut() {
        config.extend(settings);
    }
    call(jetstream, format!("STREAM.UPDATE.{stream}"), config).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_fills_a_quarter_at_most() {
        for (max_payload, expected) in [(1 << 20, 64), (8 << 20, 8), (64 << 20, 1), (usize::MAX, 1)] {
            assert_eq!(max_waiting_requests(max_payload), expected, "{max_payload}");
        }
    }
}
