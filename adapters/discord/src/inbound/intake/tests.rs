//! The queue of a channel, and the edits that its history covers.

use satchel_domain::{InboundMessage, MessageRef, Sender};
use serde_json::json;

use super::*;

const FIRST: &str = "2026-11-22T09:01:00+00:00";
const SECOND: &str = "2026-11-22T09:01:00.250000+00:00";

fn accept(message: u64, edited: Option<&str>) -> StoreJob {
    let id = message.to_string();
    let key = edited.map_or_else(|| id.clone(), |at| format!("{id}:{at}"));
    let message = InboundMessage::new("discord:1".parse().unwrap(), key, Sender::new("7", "Ada"));
    let message = InboundMessage { edit_of: edited.map(|_| id.clone()), message: Some(MessageRef(id)), ..message };
    StoreJob::Accept(Box::new(message), None)
}

fn unresolved(name: &str, data: Value) -> StoreJob {
    StoreJob::Unresolved { channel: 1, name: name.to_owned(), data, has_message_content: true }
}

#[test]
fn edit_in_history_covers_earlier_events() {
    let mut edited = EditedMessages::default();
    edited.record(&accept(1, None));
    assert!(!edited.covers(&accept(1, None)), "it was never edited");
    edited.record(&accept(1, Some(SECOND)));
    edited.record(&accept(1, Some(FIRST)));
    for (job, is_covered) in [
        (accept(1, None), true),
        (accept(1, Some(FIRST)), true),
        (accept(1, Some(SECOND)), true),
        (accept(1, Some("2026-11-22T09:01:01+00:00")), false),
        (accept(1, Some("later")), false),
        (accept(2, None), false),
        (unresolved("MESSAGE_CREATE", json!({ "id": "1" })), true),
        (unresolved("MESSAGE_UPDATE", json!({ "id": "1", "edited_timestamp": FIRST })), true),
        (unresolved("MESSAGE_UPDATE", json!({ "id": "1", "edited_timestamp": "2027-01-01T00:00:00Z" })), false),
        (unresolved("MESSAGE_UPDATE", json!({ "id": "1" })), false),
    ] {
        assert_eq!(edited.covers(&job), is_covered, "{job:?}");
    }
}

#[test]
fn only_jobs_behind_the_backfill_are_covered() {
    let mut tracker = WatermarkTracker::from_checkpoint(GatewayCheckpoint::starting_at(0));
    let mut queue = ChannelQueue::default();
    let ids = [1, 2, 1].map(|message| (tracker.begin(None), message));
    for (id, message) in ids {
        queue.push(id, accept(message, None));
        if id == ids[0].0 {
            queue.start_backfill();
        }
    }
    let mut edited = EditedMessages::default();
    edited.record(&accept(1, Some(FIRST)));
    assert_eq!(queue.drain_covered(&edited), [ids[2].0]);
    let left: Vec<Option<InFlightId>> = std::iter::from_fn(|| queue.pop(false)).map(|(id, _)| id).collect();
    assert_eq!(left, [Some(ids[0].0), Some(ids[1].0)]);
}
