//! A growing reply on a platform with previews: what is shown, when it grows in a message instead, and that the ledger knows nothing
//! of previews.

use satchel_domain::{
    MessageRef, Part, PartState,
    capabilities::StreamRule,
    delivery::{Refusal, SendError},
};

use super::scene::{INTERVAL, Stage, opened};

const TTL: u64 = 30_000;

fn stage() -> Stage {
    let mut stage = Stage::default();
    stage.capabilities.stream = StreamRule::Previews { interval_ms: INTERVAL, ttl_ms: TTL };
    stage
}

/// Catches: a message, or a part of the outbox, before the reply is complete.
#[tokio::test(start_paused = true)]
async fn reply_grows_by_previews_of_which_nothing_is_recorded() {
    let mut scene = stage().open();
    scene.writes("One");
    scene.passes(310).await;
    scene.writes(" two");
    scene.passes(100).await;
    scene.writes(" three");
    scene.passes(INTERVAL).await;
    scene.finish().await;
    scene.passes(3 * TTL).await;
    assert_eq!(scene.log(), ["preview: One", "preview: One two three"]);
    let calls = scene.calls();
    assert!(calls[1].0 - calls[0].0 >= INTERVAL, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn reply_that_is_complete_in_a_moment_needs_no_preview() {
    let mut scene = stage().open();
    scene.writes("Hello.");
    scene.passes(200).await;
    scene.finish().await;
    scene.passes(TTL).await;
    assert_eq!(scene.log(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn tool_call_lets_the_reply_grow_in_a_message() {
    let mut scene = stage().open();
    scene.writes("Looking.");
    scene.passes(310).await;
    scene.calls_tool("\n\n… file_read");
    scene.passes(INTERVAL).await;
    scene.begins_message();
    scene.writes("Looking.\n\nDone.");
    scene.passes(INTERVAL).await;
    let expected = [
        "preview: Looking.",
        "begin",
        "send part 5: Looking.\n\n… file_read",
        "answer",
        "save open m1",
        "edit m1: Looking.\n\nDone.",
        "answer",
    ];
    assert_eq!(scene.log(), expected, "it stays with the message");
    scene.finish().await;
}

/// Catches: a question of a tool above the text that leads to it, which waits for the next preview's time.
#[tokio::test(start_paused = true)]
async fn tool_call_does_not_wait_for_the_next_preview() {
    let mut scene = stage().open();
    scene.writes("I'll");
    scene.passes(310).await;
    scene.writes(" look.");
    scene.passes(50).await;
    scene.calls_tool("\n\n… file_read");
    scene.passes(20).await;
    let expected = ["preview: I'll", "begin", "send part 5: I'll look.\n\n… file_read", "answer", "save open m1"];
    assert_eq!(scene.log(), expected);
    scene.finish().await;
}

/// Catches: tools that are never shown because their message was sent while the platform asked to wait.
#[tokio::test(start_paused = true)]
async fn message_waits_as_long_as_a_preview_was_told_to() {
    let limited = SendError::NotSent { retry_after_ms: Some(5_000), reason: "429".into() };
    let mut scene = Stage { previews: vec![Err(limited)], ..stage() }.open();
    scene.writes("Looking.");
    scene.passes(1_000).await;
    scene.calls_tool("\n\n… file_read");
    scene.passes(3_000).await;
    assert_eq!(scene.log(), ["preview: Looking."]);
    scene.passes(2_000).await;
    let expected = ["begin", "send part 5: Looking.\n\n… file_read", "answer", "save open m1"];
    assert_eq!(scene.log()[1..], expected);
    scene.finish().await;
}

/// The preview is shown once more before it vanishes, and a message takes its place when it has vanished.
#[tokio::test(start_paused = true)]
async fn thirty_seconds_without_news_let_the_reply_grow_in_a_message() {
    let mut scene = stage().open();
    scene.writes("Thinking");
    scene.passes(TTL).await;
    assert_eq!(scene.log(), ["preview: Thinking", "preview: Thinking"]);
    scene.passes(310).await;
    assert_eq!(scene.log()[2..], ["begin", "send part 5: Thinking", "answer", "save open m1"]);
    scene.writes(" is done.");
    scene.passes(INTERVAL).await;
    assert_eq!(scene.calls().last().unwrap().1, "edit m1: Thinking is done.");
    scene.finish().await;
}

/// Catches: a preview that vanishes although the model still writes, beyond what a message holds.
#[tokio::test(start_paused = true)]
async fn full_preview_is_repeated_as_long_as_there_is_news() {
    let mut stage = stage();
    stage.capabilities.text.max = Some(40);
    let mut scene = stage.open();
    scene.writes(&"word ".repeat(20));
    for _ in 0..120 {
        scene.writes("more ");
        scene.passes(1_000).await;
    }
    let calls = scene.calls();
    assert!(calls.iter().all(|(_, call)| call.starts_with("preview: word") && call.len() <= 49), "{calls:?}");
    assert!(calls.windows(2).all(|pair| pair[1].0 - pair[0].0 < TTL), "{calls:?}");
    assert!((4..=7).contains(&calls.len()), "{calls:?}");
    scene.finish().await;
}

#[tokio::test(start_paused = true)]
async fn refused_preview_becomes_a_message_at_once() {
    let refused = SendError::Refused { refusal: Refusal::BadMarkup, reason: "no".into() };
    for answer in [refused, SendError::Forbidden { reason: "the server is too old".into() }] {
        let mut scene = Stage { previews: vec![Err(answer)], ..stage() }.open();
        scene.writes("One");
        scene.passes(310).await;
        let expected = ["preview: One", "begin", "send part 5: One", "answer", "save open m1"];
        assert_eq!(scene.log(), expected, "nobody waits for it");
        scene.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn flood_and_outage_postpone_previews() {
    let limited = SendError::NotSent { retry_after_ms: Some(5_000), reason: "429".into() };
    let lost = SendError::InDoubt { reason: "reset".into() };
    let mut scene = Stage { previews: vec![Err(limited), Err(lost)], ..stage() }.open();
    scene.writes("One");
    scene.passes(1_000).await;
    scene.writes(" two");
    scene.passes(4_000).await;
    assert_eq!(scene.calls().len(), 1, "as long as the platform says");
    scene.passes(1_000).await;
    scene.writes(" three");
    scene.passes(2 * INTERVAL).await;
    assert_eq!(scene.log(), ["preview: One", "preview: One two", "preview: One two three"]);
    scene.finish().await;
}

/// Catches: a preview that reaches the person after the reply has.
#[tokio::test(start_paused = true)]
async fn end_of_the_turn_waits_for_the_preview_in_flight() {
    let mut scene = Stage { takes_ms: 3_000, ..stage() }.open();
    scene.writes("One");
    scene.passes(310).await;
    let begun = tokio::time::Instant::now();
    scene.finish().await;
    assert!(begun.elapsed().as_millis() > 2_500, "{:?}", begun.elapsed());
    scene.passes(TTL).await;
    assert_eq!(scene.log(), ["preview: One"]);
}

/// Catches: a reply that is held back for as long as the call of a preview hangs.
#[tokio::test(start_paused = true)]
async fn end_of_the_turn_gives_a_hanging_preview_up() {
    let mut scene = Stage { takes_ms: 40_000, ..stage() }.open();
    scene.writes("One");
    scene.passes(310).await;
    let begun = tokio::time::Instant::now();
    scene.finish().await;
    assert!((4_900..5_200).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    scene.passes(TTL).await;
    assert_eq!(scene.log(), ["preview: One"]);
}

/// Catches: a turn that starts again although the person has seen a part of its reply.
#[tokio::test(start_paused = true)]
async fn seen_preview_is_not_withdrawn() {
    let mut early = stage().open();
    early.writes("Early.");
    early.passes(200).await;
    assert!(early.withdraws().await);

    let mut seen = stage().open();
    seen.writes("Seen.");
    seen.passes(310).await;
    assert!(!seen.withdraws().await);

    let limited = SendError::NotSent { retry_after_ms: Some(5_000), reason: "429".into() };
    let mut unseen = Stage { previews: vec![Err(limited)], ..stage() }.open();
    unseen.writes("Unseen.");
    unseen.passes(310).await;
    assert!(unseen.withdraws().await);
}

/// The message of an earlier process stands in the chat: the reply grows in it.
#[tokio::test(start_paused = true)]
async fn message_of_an_earlier_attempt_grows_on() {
    let earlier = Part { state: PartState::Open { message: MessageRef("m9".into()) }, ..opened() };
    let mut scene = Stage { earlier: Some(earlier), ..stage() }.open();
    scene.writes("Again");
    scene.passes(310).await;
    assert_eq!(scene.log(), ["edit m9: Again", "answer"]);
    scene.finish().await;
}
