//! The form of events outside of the process: JSON with a version.

use serde::{Deserialize, Serialize};

use super::BusEvent;

/// The version of the events that this release writes, and the latest that it reads.
pub const EVENT_VERSION: u32 = 1;

/// Why an event was not read. A consumer skips it: the ledger has what happened.
#[derive(Debug, thiserror::Error)]
pub enum DecodeEventError {
    /// A later release wrote it.
    #[error("the event has version {0}, and this release reads up to {EVENT_VERSION}")]
    LaterVersion(u32),
    /// Its type is none of [`BusEvent::TYPES`].
    #[error("the type of the event is unknown")]
    UnknownType,
    /// It is no event.
    #[error("the event is malformed")]
    Malformed(#[source] serde_json::Error),
}

/// An event as it is written.
#[derive(Serialize)]
struct VersionedEvent<'a> {
    v: u32,
    #[serde(flatten)]
    event: &'a BusEvent,
}

/// What is read of an event before anything else: a later version may change all the rest.
#[derive(Deserialize)]
struct EventHead {
    v: u32,
    #[serde(rename = "type")]
    type_name: String,
}

/// Writes an event with its version.
///
/// # Panics
/// Never: events are plain data.
#[must_use]
pub fn encode_event(event: &BusEvent) -> Vec<u8> {
    serde_json::to_vec(&VersionedEvent { v: EVENT_VERSION, event }).expect("events are plain data")
}

/// Reads an event that [`encode_event`] wrote. Fields that this release doesn't know are ignored.
///
/// # Errors
/// When this release can't read it.
pub fn decode_event(json: &[u8]) -> Result<BusEvent, DecodeEventError> {
    let head: EventHead = serde_json::from_slice(json).map_err(DecodeEventError::Malformed)?;
    if head.v > EVENT_VERSION {
        return Err(DecodeEventError::LaterVersion(head.v));
    }
    if !BusEvent::TYPES.contains(&head.type_name.as_str()) {
        return Err(DecodeEventError::UnknownType);
    }
    serde_json::from_slice(json).map_err(DecodeEventError::Malformed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    const GUIDE: &str = include_str!("../../../../docs/guide/events.md");

    /// The events among the JSON examples of the guide.
    fn examples() -> Vec<Value> {
        let blocks = GUIDE.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let values =
            blocks.map(|block| serde_json::from_str::<Value>(block).unwrap_or_else(|error| panic!("{error}: {block}")));
        let is_event = |value: &Value| !value["type"].as_str().is_some_and(|name| name.contains("turn.request"));
        values.filter(is_event).collect()
    }

    #[test]
    fn every_type_has_a_documented_example() {
        let mut documented = BTreeSet::new();
        for example in examples() {
            let event = decode_event(&serde_json::to_vec(&example).unwrap())
                .unwrap_or_else(|error| panic!("{error}: {example}"));
            let written: Value = serde_json::from_slice(&encode_event(&event)).unwrap();
            assert_eq!(written, example, "the example is exactly what is written");
            assert_eq!(written["type"], event.type_name());
            documented.insert(event.type_name());
        }
        assert_eq!(documented, BusEvent::TYPES.into_iter().collect());
        // The error lists the variants that serde knows, so that none is missing from the types.
        let unknown = serde_json::from_value::<BusEvent>(json!({ "type": "evt.unknown" })).unwrap_err().to_string();
        assert_eq!(unknown.matches("`evt.").count(), BusEvent::TYPES.len() + 1, "{unknown}");
    }

    #[test]
    fn later_unknown_and_malformed_events_are_distinguished() {
        let received = json!({ "v": 1, "type": "evt.message.received", "conversation": "web:a",
            "turn": "0197a000-0000-7000-8000-000000000001", "added": "by a later release" });
        let decode = |value: &Value| decode_event(&serde_json::to_vec(value).unwrap());
        assert!(decode(&received).is_ok(), "a field more is no later version");
        let with = |key: &str, value: Value| {
            let mut changed = received.clone();
            changed[key] = value;
            decode(&changed)
        };
        assert!(matches!(with("v", json!(2)), Err(DecodeEventError::LaterVersion(2))));
        assert!(matches!(with("type", json!("evt.other")), Err(DecodeEventError::UnknownType)));
        for (key, value) in
            [("v", json!(null)), ("type", json!(7)), ("conversation", json!("nowhere")), ("turn", json!("x"))]
        {
            assert!(matches!(with(key, value), Err(DecodeEventError::Malformed(_))), "{key}");
        }
        assert!(matches!(decode_event(b"\xff{"), Err(DecodeEventError::Malformed(_))));
    }
}
