//! What is remembered of lanes, and when it is not.

use std::time::Duration;

use satchel_ports::ledger::HolderId;
use uuid::Uuid;

use super::*;

const LONG: Duration = Duration::from_secs(600);

fn lease(conversation: &str, token: u64) -> Lease {
    Lease { conversation: conversation.parse().unwrap(), holder: HolderId(Uuid::from_u128(1)), token }
}

fn later() -> Instant {
    Instant::now() + LONG
}

fn note(text: &str) -> HistoryMessage {
    HistoryMessage::Note { text: text.to_owned() }
}

fn notes(texts: &[&str]) -> Vec<HistoryMessage> {
    texts.iter().map(|text| note(text)).collect()
}

/// What is known of a history of at most ten messages.
fn known(held: &Held, lease: &Lease) -> Option<Vec<HistoryMessage>> {
    match held.history(&lease.conversation, 10) {
        CachedHistory::Messages(messages) => Some(messages),
        CachedHistory::Nothing(_) => None,
    }
}

/// Reads a history as the ledger does.
fn read(held: &Held, lease: &Lease, messages: &[HistoryMessage]) {
    let CachedHistory::Nothing(reading) = held.history(&lease.conversation, 10) else { panic!("it is known already") };
    held.learn(&lease.conversation, reading.expect("the lane is held"), messages, 10);
}

fn complete(held: &Held, lease: &Lease, change: HistoryChange) {
    let history = held.take_history(lease);
    held.put_history(lease, history, Some(change));
}

#[test]
fn history_is_read_once_and_extended_across_leases() {
    let held = Held::default();
    let first = lease("console:main", 7);
    held.claimed(&first, later());
    assert_eq!(known(&held, &first), None);
    read(&held, &first, &notes(&["a"]));
    complete(&held, &first, HistoryChange::Append(notes(&["b", "c"])));
    assert_eq!(known(&held, &first), Some(notes(&["a", "b", "c"])));
    assert_eq!(
        held.history(&first.conversation, 2),
        CachedHistory::Messages(notes(&["b", "c"])),
        "fewer are asked for"
    );
    assert!(matches!(held.history(&first.conversation, 11), CachedHistory::Nothing(Some(_))), "more are asked for");

    held.given_back(&first);
    assert_eq!(held.history(&first.conversation, 10), CachedHistory::Nothing(None), "anybody may go on with it");
    let second = lease("console:main", 8);
    held.claimed(&second, later());
    assert_eq!(known(&held, &second), Some(notes(&["a", "b", "c"])));
    complete(&held, &second, HistoryChange::Reset);
    assert_eq!(known(&held, &second), Some(Vec::new()));
    let many: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    complete(&held, &second, HistoryChange::Append(many.iter().map(|text| note(text)).collect()));
    assert_eq!(known(&held, &second).unwrap().first(), Some(&note("2")), "ten are kept");
}

#[test]
fn cache_misses_after_foreign_claim() {
    let held = Held::default();
    let first = lease("console:main", 1);
    let learned = || {
        held.claimed(&first, later());
        if known(&held, &first).is_none() {
            read(&held, &first, &notes(&["a"]));
        }
    };
    learned();
    held.given_back(&first);
    let third = lease("console:main", 3);
    held.claimed(&third, later());
    assert_eq!(known(&held, &third), None, "somebody had the second lease");

    held.evict(&first.conversation);
    learned();
    held.renewed(std::slice::from_ref(&first), &[], Instant::now());
    assert_eq!(known(&held, &first), None, "the lease has run out");
    learned();
    held.renewed(std::slice::from_ref(&first), &[], later());
    assert_eq!(known(&held, &first), Some(notes(&["a"])));
    held.renewed(std::slice::from_ref(&first), std::slice::from_ref(&first), later());
    assert_eq!(known(&held, &first), None, "the lease is lost");

    learned();
    held.evict(&first.conversation);
    assert_eq!(known(&held, &first), None, "the conversation has another name");
}

#[test]
fn history_read_during_completion_is_not_cached() {
    let held = Held::default();
    let lease = lease("console:main", 1);
    held.claimed(&lease, later());
    let CachedHistory::Nothing(Some(reading)) = held.history(&lease.conversation, 10) else {
        panic!("nothing is known")
    };
    complete(&held, &lease, HistoryChange::Append(notes(&["b"])));
    held.learn(&lease.conversation, reading, &notes(&["a"]), 10);
    assert_eq!(known(&held, &lease), None);

    read(&held, &lease, &notes(&["a", "b"]));
    let taken = held.take_history(&lease);
    assert_eq!(held.history(&lease.conversation, 10), CachedHistory::Nothing(None), "it is being changed");
    held.put_history(&lease, taken, None);
    assert_eq!(known(&held, &lease), None, "nobody knows whether the turn was completed");

    read(&held, &lease, &notes(&["a", "b"]));
    // A caller who waits no longer for a completion that may have come about.
    assert!(held.take_history(&lease).is_some());
    assert_eq!(held.history(&lease.conversation, 10), CachedHistory::Nothing(None));
    let next = self::lease("console:main", 2);
    held.claimed(&next, later());
    read(&held, &next, &notes(&["a", "b", "c"]));
    assert_eq!(known(&held, &next), Some(notes(&["a", "b", "c"])));
}

#[test]
fn cache_is_bounded_and_evicts_least_recently_used() {
    let held = Held::default();
    let of = |n: usize| lease(&format!("console:{n}"), 1);
    let long = "x".repeat(ROOM / 8);
    for n in 0..20 {
        held.claimed(&of(n), later());
        read(&held, &of(n), &notes(&[&long]));
        if n > 0 {
            assert!(known(&held, &of(0)).is_some(), "it is used again and again");
        }
    }
    let kept: Vec<usize> = (0..20).filter(|n| known(&held, &of(*n)).is_some()).collect();
    assert_eq!(kept, [0, 14, 15, 16, 17, 18, 19]);
    assert!(held.lanes().bytes <= ROOM);
    held.claimed(&of(20), later());
    read(&held, &of(20), &notes(&[&"x".repeat(ROOM / 2)]));
    assert_eq!(known(&held, &of(20)), None, "one alone does not take the room of all");
    assert_eq!(known(&held, &of(19)), Some(notes(&[&long])));
    for n in 0..21 {
        held.given_back(&of(n));
        held.claimed(&of(n), Instant::now());
    }
    held.renewed(&[], &[], later());
    let lanes = held.lanes();
    assert_eq!((lanes.bytes, lanes.of.len()), (0, 0));
}

#[test]
fn optimistic_commit_is_allowed_until_state_may_change() {
    let held = Held::default();
    let (lease, part) = (lease("console:a", 1), PartId(Uuid::from_u128(3)));
    assert!(!held.is_quiet(&lease), "nothing is known of it");
    held.claimed(&lease, later());
    assert!(held.is_quiet(&lease));
    held.crowd(&lease);
    assert!(!held.is_quiet(&lease));
    held.completed(&lease, Some(part), 1);
    assert!(held.is_quiet(&lease) && held.is_last(&lease, part));
    held.expect_more(&lease.conversation);
    assert!(!held.is_last(&lease, part), "something has come behind it");
    held.completed(&lease, Some(part), 2);
    assert!(!held.is_last(&lease, part), "another part follows");
    held.completed(&lease, None, 1);
    assert!(!held.is_quiet(&lease), "something is under way");
    let next = Lease { token: 2, ..lease.clone() };
    held.claimed(&next, later());
    assert!(held.is_quiet(&next) && !held.is_quiet(&lease));
}
