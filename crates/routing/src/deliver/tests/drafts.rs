//! A draft against a scripted platform: what is committed, what is shown, and when.

mod previews;
mod scene;

use satchel_domain::{
    MessageRef, Part, PartState,
    capabilities::Idempotency,
    delivery::{Refusal, SendError},
};

use self::scene::{INTERVAL, Stage, opened};
use super::{Answer, in_doubt, not_sent, refused, sent};

fn forbidden() -> Answer {
    Err(SendError::Forbidden { reason: "no".into() })
}

#[tokio::test(start_paused = true)]
async fn draft_is_committed_before_send_and_its_id_after() {
    let mut scene = Stage::default().open();
    scene.writes("Hello.");
    scene.passes(310).await;
    assert_eq!(scene.log(), ["begin", "send part 5: Hello.", "answer", "save open m1"]);
    scene.finish().await;
}

#[tokio::test(start_paused = true)]
async fn edits_respect_interval_with_newest_text() {
    let mut scene = Stage { takes_ms: 150, ..Stage::default() }.open();
    for _ in 0..40 {
        scene.writes("ab ");
        scene.passes(100).await;
    }
    scene.finish().await;
    let calls = scene.calls();
    assert!((3..=5).contains(&calls.len()), "{calls:?}");
    for pair in calls.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= INTERVAL, "{calls:?}");
        assert!(pair[1].1.len() > pair[0].1.len() + 20, "each brings all that was written meanwhile: {calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_extends_interval_and_text_is_retried() {
    let mut scene = Stage { edits: vec![not_sent(5_000), sent()], ..Stage::default() }.open();
    scene.writes("One");
    scene.passes(INTERVAL + 310).await;
    scene.writes(" two");
    scene.passes(5_000 + 10).await;
    let calls = scene.calls();
    let texts: Vec<_> = calls.iter().map(|(_, call)| call.as_str()).collect();
    assert_eq!(texts, ["send part 5: One", "edit m1: One two", "edit m1: One two"]);
    assert!(calls[2].0 - calls[1].0 >= 5_000, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn draft_stops_at_text_limit_until_next_message() {
    let mut stage = Stage::default();
    stage.capabilities.text.max = Some(40);
    let mut scene = stage.open();
    for word in 0..30 {
        scene.writes(&format!("word{word} "));
        scene.passes(INTERVAL + 310).await;
    }
    let calls = scene.calls();
    let shown: Vec<_> = calls.iter().filter_map(|(_, call)| call.split_once(": ")).map(|(_, text)| text).collect();
    assert!(shown.iter().all(|text| text.chars().count() <= 40), "{shown:?}");
    let longest = shown.iter().map(|text| text.len()).max().unwrap();
    assert!(longest > 25, "{shown:?}");
    assert!(calls.len() < 12, "what stands beyond the limit brings no further edit: {shown:?}");
    // Its text is replaced by that of a later message, which grows within the limit again.
    scene.begins_message();
    scene.writes("Short.");
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.calls().last().unwrap().1, "edit m1: Short.");
}

#[tokio::test(start_paused = true)]
async fn draft_follows_earlier_reply() {
    let mut scene = Stage { busy: 3, ..Stage::default() }.open();
    scene.writes("Thinking");
    scene.passes(2 * INTERVAL + 310).await;
    assert_eq!(scene.log(), ["begin", "begin", "begin"]);
    scene.passes(INTERVAL).await;
    assert_eq!(scene.log()[3..5], ["begin", "send part 5: Thinking"], "though the model wrote no more meanwhile");
}

/// Catches: a reply that has been shown and is written anew, and one that is sent after it was withdrawn.
#[tokio::test(start_paused = true)]
async fn draft_is_withdrawn_only_before_it_is_opened() {
    let mut early = Stage::default().open();
    early.writes("Early.");
    early.passes(200).await;
    assert!(early.withdraws().await, "nothing of it is recorded");
    early.writes(" Late.");
    early.passes(INTERVAL + 310).await;
    assert_eq!(early.log(), [""; 0]);

    let mut sent = Stage { takes_ms: 500, ..Stage::default() }.open();
    sent.writes("Sent.");
    sent.passes(310).await;
    assert!(!sent.withdraws().await);
    assert_eq!(sent.log(), ["begin", "send part 5: Sent.", "answer", "save open m1"], "the call in flight was awaited");
    sent.writes(" And more.");
    sent.passes(INTERVAL + 310).await;
    assert_eq!(sent.calls().len(), 2, "it grows on");

    let mut behind = Stage { busy: 9, ..Stage::default() }.open();
    behind.writes("Thinking");
    behind.passes(310).await;
    assert_eq!(behind.log(), ["begin"]);
    assert!(behind.withdraws().await, "an earlier reply is on its way, and nothing of this one");

    let mut resumed = Stage { earlier: Some(opened()), ..Stage::default() }.open();
    assert!(!resumed.withdraws().await, "an earlier process may have shown something");
}

#[tokio::test(start_paused = true)]
async fn blank_text_is_not_shown() {
    let mut scene = Stage::default().open();
    scene.writes(" \n");
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.log(), [""; 0]);
    scene.finish().await;
}

#[tokio::test(start_paused = true)]
async fn finish_awaits_edit_in_flight_without_further_edits() {
    let mut scene = Stage { takes_ms: 3_000, ..Stage::default() }.open();
    scene.writes("One");
    scene.passes(310).await;
    scene.writes(" two");
    assert_eq!(scene.log(), ["begin", "send part 5: One"], "the answer is not there yet");
    scene.finish().await;
    assert_eq!(scene.log()[2..], ["answer", "save open m1"], "it was awaited, and its id stored");
    scene.passes(60_000).await;
    assert_eq!(scene.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn edit_timeout_exceeds_adapter_call_timeout() {
    let mut scene = Stage { takes_ms: 55_000, ..Stage::default() }.open();
    scene.writes("One");
    scene.passes(310).await;
    scene.finish().await;
    assert_eq!(scene.log(), ["begin", "send part 5: One", "answer", "save open m1"]);
}

#[tokio::test(start_paused = true)]
async fn hanging_edit_is_cut_off_and_possibly_visible() {
    let mut scene = Stage { takes_ms: 86_400_000, ..Stage::default() }.open();
    scene.writes("One");
    scene.passes(310).await;
    scene.finish().await;
    scene.passes(2 * 86_400_000).await;
    assert_eq!(scene.log(), ["begin", "send part 5: One"]);
}

fn earlier(part: Part) -> Stage {
    Stage { earlier: Some(part), ..Stage::default() }
}

#[tokio::test(start_paused = true)]
async fn message_with_id_is_edited_after_crash() {
    let mut scene = earlier(Part { state: PartState::Open { message: MessageRef("m9".into()) }, ..opened() }).open();
    scene.writes("Again");
    scene.passes(310).await;
    assert_eq!(scene.log(), ["edit m9: Again", "answer"]);
    scene.finish().await;
}

#[tokio::test(start_paused = true)]
async fn message_without_id_is_retried_within_key_window() {
    for (window_ms, silence, expected) in [
        (Some(180_000), 0, vec!["send part 5: Again", "answer", "save open m1"]),
        (None, 600_000, vec!["send part 5: Again", "answer", "save open m1"]),
        // The model takes its time to begin: meanwhile the platform has forgotten the key.
        (Some(180_000), 200_000, vec!["save in_doubt"]),
    ] {
        let mut stage = earlier(opened());
        stage.capabilities.idempotency = Idempotency::Key { window_ms };
        let mut scene = stage.open();
        scene.passes(silence).await;
        scene.writes("Again");
        scene.passes(310).await;
        assert_eq!(scene.log(), expected, "{window_ms:?} after {silence} ms");
        scene.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unsent_retry_leaves_message_in_doubt() {
    let mut stage = Stage { sends: vec![not_sent(1_000)], ..earlier(opened()) };
    stage.capabilities.idempotency = Idempotency::Key { window_ms: None };
    let mut scene = stage.open();
    scene.writes("Again");
    scene.passes(310).await;
    assert_eq!(scene.log(), ["send part 5: Again", "answer", "save in_doubt"]);
    scene.finish().await;
}

#[tokio::test(start_paused = true)]
async fn message_without_id_and_key_stays_in_doubt() {
    let in_doubt = PartState::InDoubt { until: satchel_domain::Timestamp(0), reason: "reset".into() };
    for (state, expected) in [(PartState::Sending, vec!["save in_doubt"]), (in_doubt, vec![])] {
        let mut scene = earlier(Part { state, ..opened() }).open();
        scene.writes("Again");
        scene.passes(INTERVAL * 3).await;
        assert_eq!(scene.log(), expected);
        scene.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unsent_draft_becomes_pending_and_grows_no_more() {
    for answer in [not_sent(0), refused(Refusal::Other)] {
        let mut scene = Stage { sends: vec![answer], ..Stage::default() }.open();
        scene.writes("One");
        scene.passes(INTERVAL + 310).await;
        scene.writes(" two");
        scene.passes(INTERVAL + 310).await;
        assert_eq!(scene.log(), ["begin", "send part 5: One", "answer", "save pending"]);
        scene.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn first_send_in_doubt_is_saved_without_retry() {
    let mut scene = Stage { sends: vec![in_doubt()], ..Stage::default() }.open();
    scene.writes("One");
    scene.passes(INTERVAL + 310).await;
    scene.writes(" two");
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.log(), ["begin", "send part 5: One", "answer", "save in_doubt"]);
    scene.finish().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_draft_is_never_resent() {
    let mut scene = Stage { edits: vec![refused(Refusal::TargetGone)], ..Stage::default() }.open();
    scene.writes("One");
    scene.passes(INTERVAL + 310).await;
    scene.writes(" two");
    scene.passes(3 * INTERVAL).await;
    scene.writes(" three");
    scene.passes(3 * INTERVAL).await;
    assert_eq!(scene.log()[4..], ["edit m1: One two", "answer", "save pending"]);
    scene.finish().await;
}

#[tokio::test(start_paused = true)]
async fn failed_edit_is_corrected_by_later_edit() {
    for answer in [in_doubt(), refused(Refusal::BadMarkup)] {
        let mut scene = Stage { edits: vec![answer, sent()], ..Stage::default() }.open();
        scene.writes("One *two");
        scene.passes(INTERVAL + 310).await;
        scene.writes(" three*");
        scene.passes(INTERVAL + 310).await;
        scene.writes(" four");
        scene.passes(INTERVAL + 310).await;
        assert_eq!(scene.calls().last().unwrap().1, "edit m1: One *two three* four");
        scene.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn permanently_refused_edit_ends_edits_but_keeps_message() {
    for answer in [forbidden(), refused(Refusal::Other), refused(Refusal::TooLarge { limit: None })] {
        let mut scene = Stage { edits: vec![answer], ..Stage::default() }.open();
        scene.writes("One");
        scene.passes(INTERVAL + 310).await;
        for _ in 0..5 {
            scene.writes(" more");
            scene.passes(INTERVAL + 310).await;
        }
        let shown: Vec<_> = scene.calls().into_iter().map(|(_, shown)| shown).collect();
        assert_eq!(shown, ["send part 5: One", "edit m1: One more"]);
        scene.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn ledger_error_ends_draft_silently() {
    let mut scene = Stage { begin_fails: true, ..Stage::default() }.open();
    scene.writes("One");
    scene.passes(INTERVAL + 310).await;
    scene.writes(" two");
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.log(), ["begin"]);
    scene.finish().await;

    let mut scene = Stage { save_fails: true, ..Stage::default() }.open();
    scene.writes("One");
    scene.passes(INTERVAL + 310).await;
    scene.writes(" two");
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.log(), ["begin", "send part 5: One", "answer", "save open m1"]);
    scene.finish().await;
}

#[tokio::test(start_paused = true)]
async fn panic_in_an_edit_ends_the_draft_alone() {
    let mut scene = Stage { panics: true, ..Stage::default() }.open();
    scene.writes("One");
    scene.passes(310).await;
    scene.writes(" two");
    scene.passes(INTERVAL * 2).await;
    scene.writes(" three");
    scene.passes(INTERVAL * 2).await;
    assert_eq!(scene.log(), ["begin", "send part 5: One", "answer", "save open m1"]);
    scene.finish().await;
}
