//! What is read of the histories, and what is stored of what came meanwhile.

use satchel_domain::{InboundMessage, MessageRef, Sender};
use serde_json::json;

use super::*;
use crate::inbound::checkpoint::{GatewayCheckpoint, WatermarkTracker};

const FIRST: &str = "2026-11-22T09:01:00+00:00";
const SECOND: &str = "2026-11-22T09:01:00.250000+00:00";

#[test]
fn history_retry_is_taken_once_when_due() {
    let second = |failures| Duration::from_secs(1 + u64::from(failures));
    let (mut retries, start) = (HistoryRetries::default(), Instant::now());
    assert_eq!((retries.next_at(), retries.take_due(start)), (None, vec![]));
    retries.schedule(1, start, second);
    retries.schedule(1, start, second);
    retries.schedule(2, start, second);
    for (seconds, channels) in [(1, vec![2]), (2, vec![1])] {
        let due = retries.next_at().expect("one is left");
        assert_eq!(due - start, Duration::from_secs(seconds), "each failure makes the delay longer");
        assert_eq!(retries.take_due(due), channels);
    }
    assert_eq!(retries.next_at(), None, "both are being requested");
    retries.schedule_now(1, start);
    retries.schedule_now(2, start);
    retries.cancel(2);
    assert_eq!(retries.take_due(start), [1]);
}

fn direct(channel: u64, after: u64) -> PageRequest {
    PageRequest { channel, guild: None, after, is_expected: false, is_retry: false }
}

#[test]
fn overlap_starts_a_minute_earlier() {
    assert_eq!(overlap_start(snowflake::at_unix_ms(1_462_015_105_796)), snowflake::at_unix_ms(1_462_015_045_796));
    assert_eq!((snowflake::at_unix_ms(0), overlap_start(5)), (0, 0));
}

#[test]
fn channels_and_threads_with_new_messages_are_read() {
    let guild = json!({
        "channels": [
            { "id": "1", "type": 0, "last_message_id": "101" },
            { "id": "2", "type": 0, "last_message_id": "100" },
            { "id": "3", "type": 2, "last_message_id": "900" },
            { "id": "4", "type": 15, "last_message_id": "900" },
            { "id": "5", "type": 0, "last_message_id": null },
            { "id": "6", "type": 0 },
            { "id": 7, "type": 0, "last_message_id": "900" },
            "odd",
        ],
        "threads": [{ "id": "8", "type": 11, "last_message_id": "101" }, { "id": "9", "last_message_id": "102" }],
    });
    assert_eq!(channels_with_new_messages(&guild, 100), [1, 3, 8, 9]);
    let odd = json!({ "channels": 7 });
    assert_eq!(channels_with_new_messages(&odd, 0), [0_u64; 0]);
}

#[test]
fn long_history_is_read_to_its_end() {
    let mut backfill = Backfill::default();
    backfill.start(1, None, 10);
    for (after, messages) in [(10, PAGE_SIZE), (110, PAGE_SIZE), (210, 7)] {
        assert_eq!(backfill.next_request(), Some(direct(1, after)));
        assert_eq!(backfill.next_request(), None);
        assert!(backfill.blocks(1));
        backfill.on_page(1, messages, Some(after + 100));
        assert_eq!(backfill.on_page_stored(1), messages == PAGE_SIZE);
    }
    assert!(!backfill.blocks(1) && backfill.is_complete());
}

#[test]
fn repeated_page_ends_the_backfill() {
    let mut backfill = Backfill::default();
    backfill.start(1, None, 10);
    assert_eq!(backfill.next_request(), Some(direct(1, 10)));
    backfill.on_page(1, PAGE_SIZE, Some(10));
    assert!(!backfill.on_page_stored(1));
}

#[test]
fn messages_missed_during_backfill_are_read_too() {
    let mut backfill = Backfill::default();
    backfill.start(1, None, 10);
    assert_eq!(backfill.next_request(), Some(direct(1, 10)));
    backfill.start(1, None, 10);
    backfill.on_page(1, 3, Some(13));
    assert!(backfill.on_page_stored(1));
    assert_eq!(backfill.next_request(), Some(direct(1, 13)));
    backfill.on_page(1, 0, None);
    assert!(!backfill.on_page_stored(1));
}

#[test]
fn backfill_concurrency_is_bounded_and_fair() {
    let mut backfill = Backfill::default();
    let channels: Vec<u64> = (0..MAX_CONCURRENT_READS as u64 + 2).collect();
    for channel in &channels {
        backfill.start(*channel, None, 0);
    }
    let requests: Vec<u64> = std::iter::from_fn(|| backfill.next_request()).map(|request| request.channel).collect();
    assert_eq!(requests, channels[..MAX_CONCURRENT_READS]);
    backfill.on_page(3, 1, Some(7));
    assert_eq!(backfill.next_request(), None, "the page is held until it is stored");
    assert!(!backfill.on_page_stored(3));
    assert_eq!(
        (backfill.next_request(), backfill.next_request()),
        (Some(direct(MAX_CONCURRENT_READS as u64, 0)), None)
    );
}

#[test]
fn page_belongs_to_guild_of_its_request() {
    let mut backfill = Backfill::default();
    for (channel, guild) in [(1, None), (2, Some(9)), (3, Some(9)), (4, Some(8))] {
        backfill.start(channel, guild, 10);
    }
    let expected: Vec<bool> =
        std::iter::from_fn(|| backfill.next_request()).map(|request| request.is_expected).collect();
    assert_eq!(expected, [false, true, true, true]);
    backfill.remove_channel(3);
    backfill.remove_guild(8);
    let origins = [1, 2, 3, 4].map(|channel| backfill.on_page(channel, PAGE_SIZE, Some(20)));
    assert_eq!(origins, [PageOrigin::Direct, PageOrigin::Guild(9), PageOrigin::Removed, PageOrigin::Removed]);
    assert_eq!([1, 2, 3, 4].map(|channel| backfill.on_page_stored(channel)), [true, true, false, false]);
    backfill.next_request();
    let further = PageRequest { guild: Some(9), ..direct(2, 20) };
    assert_eq!(backfill.next_request(), Some(further), "nothing more is promised");
}

#[test]
fn unavailable_history_stays_unread_from_its_position() {
    let mut backfill = Backfill::default();
    for channel in [1, 2] {
        backfill.start(channel, Some(9), 10);
        backfill.next_request();
    }
    backfill.on_page(1, PAGE_SIZE, Some(20));
    backfill.on_page_stored(1);
    backfill.next_request();
    backfill.remove_channel(2);
    let unread = UnreadHistory { guild: Some(9), after: 20 };
    assert_eq!([1, 2].map(|channel| backfill.on_unavailable(channel)), [Some(unread), None]);
    assert!(backfill.is_complete() && !backfill.blocks(1));
    backfill.start_retry(1, unread);
    assert_eq!(backfill.next_request(), Some(PageRequest { guild: Some(9), is_retry: true, ..direct(1, 20) }));
    assert!(backfill.is_complete() && backfill.contains(1) && !backfill.blocks(1), "nothing waits for it");
    backfill.on_page(1, PAGE_SIZE, Some(30));
    assert!(backfill.blocks(1), "but for what was shown");
    assert!(backfill.on_page_stored(1) && !backfill.blocks(1));
}

#[test]
fn unavailable_history_is_retried_in_own_slot() {
    let mut backfill = Backfill::default();
    let retry = |channel| PageRequest { is_retry: true, ..direct(channel, 0) };
    for channel in [1, 2, 3] {
        backfill.start_retry(channel, UnreadHistory { guild: None, after: 0 });
    }
    for channel in 10..11 + MAX_CONCURRENT_READS as u64 {
        backfill.start(channel, None, 0);
    }
    let requests: Vec<PageRequest> = std::iter::from_fn(|| backfill.next_request()).collect();
    let (reads, retries) = requests.split_at(MAX_CONCURRENT_READS);
    assert!(reads.iter().all(|request| !request.is_retry), "{reads:?}");
    assert_eq!(retries, [retry(1)]);
    // A new session missed something there.
    backfill.start(2, None, 0);
    backfill.on_unavailable(1);
    assert_eq!((backfill.next_request(), backfill.next_request()), (Some(retry(3)), None));
    for channel in [10, 11] {
        backfill.on_page(channel, 0, None);
        backfill.on_page_stored(channel);
    }
    let last = [10 + MAX_CONCURRENT_READS as u64, 2].map(|channel| Some(direct(channel, 0)));
    assert_eq!([backfill.next_request(), backfill.next_request()], last);
    assert!(backfill.blocks(2));
}

#[test]
fn backfill_completes_when_all_guilds_are_available() {
    let mut backfill = Backfill::default();
    backfill.wait_for_guilds([1, 2]);
    assert!(backfill.on_guild_available(1) && !backfill.on_guild_available(1) && !backfill.on_guild_available(3));
    assert!(!backfill.is_complete());
    assert!(backfill.on_guild_available(2));
    assert!(backfill.is_complete());
    backfill.wait_for_guilds([1, 2]);
    backfill.on_guild_available(1);
    assert_eq!(backfill.stop_waiting(), [2].into());
    assert!(backfill.is_complete() && !backfill.on_guild_available(2));
}

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
