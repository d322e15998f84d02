//! A process that stops while a tool runs.

use std::time::Duration;

use satchel_wait::{wait_until, wait_until_async};
use tokio::time::sleep;

use super::stage::{Stage, message, place};

/// The outcome is recorded by the process that has made the call, and the next one goes on from there.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_lets_running_call_end_and_starts_no_other_turn() {
    let (stage, here, there) = (Stage::new(), place("main"), place("other"));
    let first = stage.start().await;
    first.hears(&message(&here, "1", "hang")).await;
    wait_until("the tool runs", || *stage.hanging.borrow() == 1).await;
    first.begin_stop();
    first.hears(&message(&here, "2", "two")).await;
    first.hears(&message(&there, "1", "one")).await;
    // Nothing announces what must not happen meanwhile.
    sleep(Duration::from_millis(300)).await;
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
