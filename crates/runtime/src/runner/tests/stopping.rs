//! A process that stops while a tool runs.

use std::time::Duration;

use satchel_wait::{wait_until, wait_until_async};

use super::stage::{Stage, message, place};

/// The outcome is recorded by the process that has made the call, and the next one goes on from there.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_lets_running_call_end_and_starts_no_other_turn() {
    let (stage, here, there) = (Stage::new(), place("main"), place("other"));
    let first = stage.start_with(|intervals| intervals.renew = Duration::from_millis(20)).await;
    first.hears(&message(&here, "1", "hang")).await;
    wait_until("the tool runs", || *stage.hanging.borrow() == 1).await;
    first.begin_stop();
    first.hears(&message(&here, "2", "two")).await;
    first.hears(&message(&there, "1", "one")).await;
    let renewals = || first.ledger.hook.calls().iter().filter(|verb| **verb == "ledger.renew").count();
    let before = renewals();
    // It takes new lanes before it renews the leases.
    wait_until("it keeps the running call's lane", || renewals() > before + 2).await;
    assert!(first.is_running(), "it waits for the tool");
    stage.released.send_replace(true);
    let _first = first.stops().await;
    assert_eq!(*stage.model.asked.borrow(), 1, "no model was asked while it stopped");

    let second = stage.start().await;
    wait_until("what waited", || stage.chat.log(&there) == ["re: one"]).await;
    wait_until_async("all answers", async || second.unsettled().await == 0 && !stage.chat.log(&here).is_empty()).await;
    let answers = stage.chat.log(&here).join("\n");
    assert_eq!(answers.matches("let go").count(), 1, "{answers}");
    assert!(!answers.contains("outcome unknown"), "{answers}");
    assert_eq!(*stage.hanging.borrow(), 1, "the tool ran once");
}

/// Mutation: the second call starts during the stop, which has no time left for it.
#[tokio::test(flavor = "multi_thread")]
async fn call_that_waits_at_shutdown_is_made_by_the_next_process() {
    let (stage, here) = (Stage::new(), place("main"));
    let first = stage.start().await;
    first.hears(&message(&here, "1", "hang twice")).await;
    wait_until("the first call runs", || *stage.hanging.borrow() == 1).await;
    first.begin_stop();
    stage.released.send_replace(true);
    let _first = first.stops().await;
    assert_eq!(*stage.hanging.borrow(), 1, "the second call waits for the next process");

    let second = stage.start().await;
    wait_until("the answer", || stage.chat.log(&here) == ["re: let go, let go"]).await;
    second.settles().await;
    assert_eq!(*stage.hanging.borrow(), 2, "each call ran once");
}
