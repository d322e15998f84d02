//! What is counted of a part's attempts, and what follows from when the first of them was made.

use super::*;

fn not_sent(retry_after_ms: Option<u64>) -> PartEvent {
    PartEvent::AttemptEnded(Err(SendError::NotSent { retry_after_ms, reason: "429".into() }))
}

/// Catches: a first attempt that is as young as the last one, so that a key is trusted that the platform has forgotten.
#[test]
fn the_first_attempt_keeps_its_time() {
    let planned = Part { attempts: 0, first_attempt_at: None, ..part(PartState::Pending) };
    let first = advance(&planned, PartEvent::Started, Timestamp(500), &RULES);
    let waiting = advance(&first, not_sent(None), Timestamp(600), &RULES);
    let second = advance(&waiting, PartEvent::Started, Timestamp(9_000), &RULES);
    assert_eq!((first.attempts, first.first_attempt_at), (1, Some(Timestamp(500))));
    assert_eq!((second.attempts, second.first_attempt_at), (2, Some(Timestamp(500))));
}

/// Catches: a window that counts from when a part was planned, although it had to wait for its turn.
#[test]
fn a_keys_window_begins_with_the_first_attempt() {
    let late = Part { first_attempt_at: Some(Timestamp(30_000)), ..doubtful() };
    assert_eq!(next_doubt_step(&late, Timestamp(39_999), &RULES, NONCE), DoubtStep::Retry);
    assert_ne!(next_doubt_step(&late, Timestamp(40_000), &RULES, NONCE), DoubtStep::Retry);
}

/// Catches: a part that is sent again as fast as the platform allows, which may be at once.
#[test]
fn backoff_doubles_above_retry_after() {
    let waited = |attempts, retry_after_ms| {
        let tried = Part { attempts, ..part(PartState::Sending) };
        match advance(&tried, not_sent(retry_after_ms), Timestamp(0), &RULES).state {
            PartState::Waiting { until, .. } => until.0,
            other => panic!("{other:?}"),
        }
    };
    for retry_after_ms in [None, Some(0), Some(50)] {
        let waits = [1, 2, 3, 4].map(|attempts| waited(attempts, retry_after_ms));
        for (wait, least) in waits.into_iter().zip([100, 200, 400, 800]) {
            assert!((least..=least * 5 / 4).contains(&wait), "{waits:?}");
        }
    }
    assert!((5_000..=6_250).contains(&waited(30, None)), "no longer than the cap and its jitter");
}

#[test]
fn a_deletion_in_doubt_is_repeated() {
    let operation = Operation::Delete { message: MessageRef("7".into()) };
    let deletion = Part { operation, ..doubtful() };
    for channel in [NO_KEY, NONCE] {
        assert_eq!(next_doubt_step(&deletion, Timestamp(50_000), &RULES, channel), DoubtStep::Retry);
    }
}
