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
    stream::{Config, DiscardPolicy, RetentionPolicy},
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

/// One sender fills at most this share of the space for requests, unless that is fewer than `MIN_WAITING_REQUESTS`.
const MAX_SENDER_SHARE: i64 = 4;

/// So many requests of one sender may wait at least, because most are far smaller than the server allows.
const MIN_WAITING_REQUESTS: i64 = 64;

/// How long a request that is published twice is kept once: as short as the server allows. The ids of messages count for all
/// senders, so that a program could suppress or delete a request of another one by its id. The ledger knows a repeat by
/// the request's own id.
const REQUEST_DUPLICATE_WINDOW: Duration = Duration::from_millis(100);

/// Creates the streams that are missing, and gives those that exist the protection that they lack. For the start of a
/// process alone: what an operator changes later stays until the next one.
pub(crate) async fn open(jetstream: &Context) -> Result<(), CreateStreamError> {
    create_missing(jetstream).await?;
    let events = read_info(jetstream, EVENT_STREAM).await?;
    let missing = find_missing_in_events(&events);
    protect(jetstream, EVENT_STREAM, events, missing).await;
    let requests = read_info(jetstream, REQUEST_STREAM).await?;
    let missing = find_missing_in_requests(&requests, max_waiting_requests(jetstream.client().max_payload()));
    protect(jetstream, REQUEST_STREAM, requests, missing).await;
    Ok(())
}

/// Creates the streams that are missing, with their protection. One that exists is not changed.
pub(crate) async fn create_missing(jetstream: &Context) -> Result<(), CreateStreamError> {
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
        max_messages_per_subject: max_waiting_requests(jetstream.client().max_payload()),
        discard_new_per_subject: true,
        duplicate_window: REQUEST_DUPLICATE_WINDOW,
        // Not `deny_delete`: Satchel removes what is stored. The number in a confirmation is that of the program's own request.
        deny_purge: true,
        ..Config::default()
    };
    jetstream.get_or_create_stream(events).await?;
    jetstream.get_or_create_stream(requests).await?;
    Ok(())
}

/// Calls JetStream. The response is read as plain JSON, because the library's types leave out what they don't know.
pub(crate) async fn call(jetstream: &Context, subject: String, body: &Value) -> Result<Value, CreateStreamError> {
    match jetstream.request(subject, body).await? {
        Response::Ok(answer) => Ok(answer),
        Response::Err { error } => Err(error.into()),
    }
}

/// How many requests of one sender may wait, where each can be as large as the server allows. The size of the stream limits
/// them, too.
fn max_waiting_requests(max_payload: usize) -> i64 {
    let max_payload = i64::try_from(max_payload).unwrap_or(i64::MAX).max(1);
    (MAX_REQUEST_BYTES / MAX_SENDER_SHARE / max_payload).max(MIN_WAITING_REQUESTS)
}

/// Reads what JetStream says about a stream. It stays JSON, so that an update loses no setting.
async fn read_info(jetstream: &Context, stream: &str) -> Result<Value, CreateStreamError> {
    call(jetstream, format!("STREAM.INFO.{stream}"), &json!({})).await
}

/// Lists the settings that a stream of events lacks.
fn find_missing_in_events(info: &Value) -> Map<String, Value> {
    let mut missing = Map::new();
    for setting in ["deny_delete", "deny_purge"] {
        if info["config"][setting] != true {
            missing.insert(setting.to_owned(), true.into());
        }
    }
    missing
}

/// Lists the settings that a stream of requests lacks.
fn find_missing_in_requests(info: &Value, max_waiting: i64) -> Map<String, Value> {
    let config = &info["config"];
    let mut missing = Map::new();
    if config["deny_purge"] != true {
        missing.insert("deny_purge".to_owned(), true.into());
    }
    let window = u64::try_from(REQUEST_DUPLICATE_WINDOW.as_nanos()).expect("100 ms fit");
    if config["duplicate_window"].as_u64().is_some_and(|nanos| nanos > window) {
        missing.insert("duplicate_window".to_owned(), window.into());
    }
    // Where the oldest are dropped, or where requests wait, the limit could remove some.
    let is_unlimited = config["max_msgs_per_subject"].as_i64().unwrap_or_default() <= 0 && config["discard"] == "new";
    if is_unlimited && info["state"]["messages"] == 0 {
        missing.insert("max_msgs_per_subject".to_owned(), max_waiting.into());
        missing.insert("discard_new_per_subject".to_owned(), true.into());
    }
    missing
}

/// Adds settings to the stream that was read. A server that refuses them takes requests and events anyway.
async fn protect(jetstream: &Context, stream: &str, mut info: Value, settings: Map<String, Value>) {
    if settings.is_empty() {
        return;
    }
    let names = settings.keys().cloned().collect::<Vec<_>>().join(", ");
    let Some(config) = info.get_mut("config") else { return };
    if let Some(config) = config.as_object_mut() {
        config.extend(settings);
    }
    match call(jetstream, format!("STREAM.UPDATE.{stream}"), config).await {
        Ok(_) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_fills_a_quarter_or_has_64_waiting() {
        for (max_payload, expected) in [(1 << 19, 128), (1 << 20, 64), (8 << 20, 64), (usize::MAX, 64)] {
            assert_eq!(max_waiting_requests(max_payload), expected, "{max_payload}");
        }
    }
}
