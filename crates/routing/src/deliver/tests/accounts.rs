//! A platform that refuses the bot's account: what is to be sent waits until it accepts it, in its order.

use super::*;

fn account_refused() -> Answer {
    Err(SendError::AccountRefused { reason: "revoked".into() })
}

#[tokio::test(start_paused = true)]
async fn parts_wait_for_the_account_and_are_sent_in_order() {
    let started = tokio::time::Instant::now();
    let parts = vec![text(1), part(2, PartContent::from_text("more"))];
    let log = DeliveryHarness::new(parts, vec![account_refused(), account_refused(), sent(), sent()]).log().await;
    assert_eq!(
        log,
        [
            "save sending",
            "send hello",
            "save waiting",
            "save sending",
            "send hello",
            "save waiting",
            "save sending",
            "send hello",
            "settle sent",
            "send more",
            "settle sent"
        ]
    );
    assert_eq!(started.elapsed(), Duration::ZERO, "the channel is opened at once");
}

/// Catches: a channel that refuses calls and says that it is open, which is asked in a loop.
#[tokio::test(start_paused = true)]
async fn channel_that_says_it_is_open_is_used_after_a_pause() {
    let started = tokio::time::Instant::now();
    let harness = DeliveryHarness::new(vec![text(1)], vec![account_refused(), account_refused(), sent()]);
    let log = DeliveryHarness { state: ChannelState::Open, ..harness }.log().await;
    assert_eq!(log.last().unwrap(), "settle sent");
    let waited = started.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(2)).contains(&waited), "{waited:?}");
}
