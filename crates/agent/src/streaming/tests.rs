//! The growing reply against a scripted platform: what is committed, what is shown, and when.

mod scene;

use satchel_domain::{MessageRef, Part, PartState, capabilities::Idempotency, delivery::Refusal};
use satchel_ports::BusEvent;

use self::scene::{INTERVAL, Stage, forbidden, in_doubt, not_sent, part, refused, sent};

#[tokio::test(start_paused = true)]
async fn stream_commits_before_send_and_stores_id_after() {
    let mut scene = Stage::default().open();
    scene.writes("Hello.").await;
    scene.passes(310).await;
    assert_eq!(scene.log(), ["begin", "send part 5: Hello.", "answer", "save sending m1"]);
    assert!(scene.finish().await, "there is a message to take over");
}

#[tokio::test(start_paused = true)]
async fn edits_respect_interval_with_newest_text() {
    let mut scene = Stage { takes_ms: 150, ..Stage::default() }.open();
    for _ in 0..40 {
        scene.writes("ab ").await;
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
    scene.writes("One").await;
    scene.passes(INTERVAL + 310).await;
    scene.writes(" two").await;
    scene.passes(5_000 + 10).await;
    let calls = scene.calls();
    let texts: Vec<_> = calls.iter().map(|(_, call)| call.as_str()).collect();
    assert_eq!(texts, ["send part 5: One", "edit m1: One two", "edit m1: One two"]);
    assert!(calls[2].0 - calls[1].0 >= 5_000, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn streaming_stops_at_text_limit_until_next_message() {
    let mut stage = Stage::default();
    stage.capabilities.text.max = Some(40);
    let mut scene = stage.open();
    for word in 0..30 {
        scene.writes(&format!("word{word} ")).await;
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
    scene.writes("Short.").await;
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.calls().last().unwrap().1, "edit m1: Short.");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_streamed_before_earlier_reply_settles() {
    let mut scene = Stage { busy: 3, ..Stage::default() }.open();
    scene.writes("Thinking").await;
    scene.passes(2 * INTERVAL + 310).await;
    assert_eq!(scene.log(), ["begin", "begin", "begin"]);
    scene.passes(INTERVAL).await;
    assert_eq!(scene.log()[3..5], ["begin", "send part 5: Thinking"], "though the model wrote no more meanwhile");
}

#[tokio::test(start_paused = true)]
async fn later_message_replaces_streamed_text() {
    let mut scene = Stage::default().open();
    scene.writes("Looking. ").await;
    scene.passes(INTERVAL + 310).await;
    scene.begins_message();
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.calls().len(), 1, "the progress line stands until text takes its place");
    scene.writes("Here ").await;
    scene.writes("it is.").await;
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.calls().last().unwrap().1, "edit m1: Here it is.");
}

#[tokio::test(start_paused = true)]
async fn running_tools_are_named_until_text_arrives() {
    let mut scene = Stage::default().open();
    scene.works(&["file_list"]);
    scene.passes(INTERVAL + 310).await;
    scene.writes("Looking.\n```").await;
    scene.works(&["file_read", "attachment.get"]);
    scene.passes(INTERVAL + 310).await;
    scene.begins_message();
    scene.writes("Done.").await;
    scene.passes(INTERVAL + 310).await;
    let shown: Vec<_> = scene.calls().into_iter().map(|(_, shown)| shown).collect();
    assert_eq!(
        shown,
        ["send part 5: … file_list", "edit m1: Looking.\n```\n```\n\n… file_read, attachment.get", "edit m1: Done."]
    );
}

#[tokio::test(start_paused = true)]
async fn blank_text_is_not_shown() {
    let mut scene = Stage::default().open();
    scene.writes(" \n").await;
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.log(), [""; 0]);
    assert!(!scene.finish().await, "there is nothing to take over");
}

#[tokio::test(start_paused = true)]
async fn finish_awaits_edit_in_flight_without_further_edits() {
    let mut scene = Stage { takes_ms: 3_000, ..Stage::default() }.open();
    scene.writes("One").await;
    scene.passes(310).await;
    scene.writes(" two").await;
    assert_eq!(scene.log(), ["begin", "send part 5: One"], "the answer is not there yet");
    assert!(scene.finish().await);
    assert_eq!(scene.log()[2..], ["answer", "save sending m1"], "it was awaited, and its id stored");
    scene.passes(60_000).await;
    assert_eq!(scene.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn edit_timeout_exceeds_adapter_call_timeout() {
    let mut scene = Stage { takes_ms: 55_000, ..Stage::default() }.open();
    scene.writes("One").await;
    scene.passes(310).await;
    assert!(scene.finish().await);
    assert_eq!(scene.log(), ["begin", "send part 5: One", "answer", "save sending m1"]);
}

#[tokio::test(start_paused = true)]
async fn hanging_edit_is_cut_off_and_possibly_visible() {
    let mut scene = Stage { takes_ms: 86_400_000, ..Stage::default() }.open();
    scene.writes("One").await;
    scene.passes(310).await;
    assert!(scene.finish().await, "nobody knows");
    scene.passes(2 * 86_400_000).await;
    assert_eq!(scene.log(), ["begin", "send part 5: One"]);
}

fn earlier(part: Part) -> Stage {
    Stage { earlier: Some(part), ..Stage::default() }
}

#[tokio::test(start_paused = true)]
async fn message_with_id_is_edited_after_crash() {
    let mut scene = earlier(Part { target: Some(MessageRef("m9".into())), ..part() }).open();
    scene.writes("Again").await;
    scene.passes(310).await;
    assert_eq!(scene.log(), ["edit m9: Again", "answer"]);
    assert!(scene.finish().await);
}

#[tokio::test(start_paused = true)]
async fn message_without_id_is_retried_within_key_window() {
    for (window_ms, silence, expected) in [
        (Some(180_000), 0, vec!["send part 5: Again", "answer", "save sending m1"]),
        (None, 600_000, vec!["send part 5: Again", "answer", "save sending m1"]),
        // The model takes its time to begin: meanwhile the platform has forgotten the key.
        (Some(180_000), 200_000, vec!["save in_doubt"]),
    ] {
        let mut stage = earlier(part());
        stage.capabilities.idempotency = Idempotency::Key { window_ms };
        let mut scene = stage.open();
        scene.passes(silence).await;
        scene.writes("Again").await;
        scene.passes(310).await;
        assert_eq!(scene.log(), expected, "{window_ms:?} after {silence} ms");
        assert!(scene.finish().await);
    }
}

#[tokio::test(start_paused = true)]
async fn unsent_retry_leaves_message_in_doubt() {
    let mut stage = Stage { sends: vec![not_sent(1_000)], ..earlier(part()) };
    stage.capabilities.idempotency = Idempotency::Key { window_ms: None };
    let mut scene = stage.open();
    scene.writes("Again").await;
    scene.passes(310).await;
    assert_eq!(scene.log(), ["send part 5: Again", "answer", "save in_doubt"]);
    assert!(scene.finish().await);
}

#[tokio::test(start_paused = true)]
async fn message_without_id_and_key_stays_in_doubt() {
    let in_doubt = PartState::InDoubt { until: satchel_domain::Timestamp(0), reason: "reset".into() };
    for (state, expected) in [(PartState::Sending, vec!["save in_doubt"]), (in_doubt, vec![])] {
        let mut scene = earlier(Part { state, ..part() }).open();
        scene.writes("Again").await;
        scene.passes(INTERVAL * 3).await;
        assert_eq!(scene.log(), expected);
        assert!(scene.finish().await, "it may be visible");
    }
}

#[tokio::test(start_paused = true)]
async fn unsent_message_becomes_pending_and_stream_ends() {
    for answer in [not_sent(0), refused(Refusal::Other)] {
        let mut scene = Stage { sends: vec![answer], ..Stage::default() }.open();
        scene.writes("One").await;
        scene.passes(INTERVAL + 310).await;
        scene.writes(" two").await;
        scene.passes(INTERVAL + 310).await;
        assert_eq!(scene.log(), ["begin", "send part 5: One", "answer", "save pending"]);
        assert!(!scene.finish().await, "the final text is a plain send");
    }
}

#[tokio::test(start_paused = true)]
async fn first_send_in_doubt_is_saved_without_retry() {
    let mut scene = Stage { sends: vec![in_doubt()], ..Stage::default() }.open();
    scene.writes("One").await;
    scene.passes(INTERVAL + 310).await;
    scene.writes(" two").await;
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.log(), ["begin", "send part 5: One", "answer", "save in_doubt"]);
    assert!(scene.finish().await);
}

#[tokio::test(start_paused = true)]
async fn deleted_message_is_not_resent_while_streaming() {
    let mut scene = Stage { edits: vec![refused(Refusal::TargetGone)], ..Stage::default() }.open();
    scene.writes("One").await;
    scene.passes(INTERVAL + 310).await;
    scene.writes(" two").await;
    scene.passes(3 * INTERVAL).await;
    scene.writes(" three").await;
    scene.passes(3 * INTERVAL).await;
    assert_eq!(scene.log()[4..], ["edit m1: One two", "answer", "save pending"]);
    assert!(!scene.finish().await);
}

#[tokio::test(start_paused = true)]
async fn failed_edit_is_corrected_by_later_edit() {
    for answer in [in_doubt(), refused(Refusal::BadMarkup)] {
        let mut scene = Stage { edits: vec![answer, sent()], ..Stage::default() }.open();
        scene.writes("One *two").await;
        scene.passes(INTERVAL + 310).await;
        scene.writes(" three*").await;
        scene.passes(INTERVAL + 310).await;
        scene.writes(" four").await;
        scene.passes(INTERVAL + 310).await;
        assert_eq!(scene.calls().last().unwrap().1, "edit m1: One *two three* four");
        assert!(scene.finish().await);
    }
}

#[tokio::test(start_paused = true)]
async fn permanently_refused_edit_ends_edits_but_keeps_message() {
    for answer in [forbidden(), refused(Refusal::Other), refused(Refusal::TooLarge { limit: None })] {
        let mut scene = Stage { edits: vec![answer], ..Stage::default() }.open();
        scene.writes("One").await;
        scene.passes(INTERVAL + 310).await;
        for _ in 0..5 {
            scene.writes(" more").await;
            scene.passes(INTERVAL + 310).await;
        }
        let shown: Vec<_> = scene.calls().into_iter().map(|(_, shown)| shown).collect();
        assert_eq!(shown, ["send part 5: One", "edit m1: One more"]);
        assert!(scene.finish().await, "the final text is an edit of it");
    }
}

#[tokio::test(start_paused = true)]
async fn ledger_error_ends_stream_silently() {
    let mut scene = Stage { begin_fails: true, ..Stage::default() }.open();
    scene.writes("One").await;
    scene.passes(INTERVAL + 310).await;
    scene.writes(" two").await;
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.log(), ["begin"]);
    assert!(!scene.finish().await);

    let mut scene = Stage { save_fails: true, ..Stage::default() }.open();
    scene.writes("One").await;
    scene.passes(INTERVAL + 310).await;
    scene.writes(" two").await;
    scene.passes(INTERVAL + 310).await;
    assert_eq!(scene.log(), ["begin", "send part 5: One", "answer", "save sending m1"]);
    assert!(scene.finish().await, "it is visible though its id is not stored");
}

#[tokio::test(start_paused = true)]
async fn delta_channels_get_published_deltas_without_sends() {
    let mut scene = Stage { capabilities: satchel_routing::tables::web(), ..Stage::default() }.open();
    scene.writes("Hel").await;
    scene.writes("lo.").await;
    scene.begins_message();
    scene.writes("Bye.").await;
    scene.passes(10 * INTERVAL).await;
    assert_eq!(scene.log(), [""; 0]);
    let delta = |event| match event {
        BusEvent::TextDelta { message, text, .. } => (message, text),
        other => panic!("not a delta: {other:?}"),
    };
    let deltas: Vec<_> = scene.events().into_iter().map(delta).collect();
    assert_eq!(deltas, [(0, "Hel".into()), (0, "lo.".into()), (1, "Bye.".into())]);
    assert!(!scene.finish().await);
}

#[tokio::test(start_paused = true)]
async fn earlier_streamed_message_is_taken_over_without_streaming() {
    let mut stage = earlier(Part { target: Some(MessageRef("m9".into())), ..part() });
    stage.capabilities = satchel_routing::tables::web();
    assert!(stage.open().finish().await);
}
