//! Two processes on one bot: one receives the messages, the other takes over.

use crate::day::{
    harness::{DayHarness, TestChat},
    telegram::TelegramChat,
    text_reply,
};

const SECOND_LOG: &str = "second-log";

/// What a process logs while it waits for the gateway.
const WAITING: &str = "another process receives the channel's messages";

async fn ask(harness: &DayHarness<TelegramChat>, question: &str, reply: &str) {
    harness.model.reply(text_reply(reply));
    harness.chat.send(question);
    harness.wait_for_text(reply).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_process_takes_over_when_the_first_is_killed() {
    let mut harness = DayHarness::new(TelegramChat::open().await).await;
    harness.start().await;
    ask(&harness, "hello", "Good morning.").await;
    let _second = harness.spawn(SECOND_LOG);
    harness.wait_until("the second process waits", |_| harness.read_log(SECOND_LOG).contains(WAITING)).await;
    ask(&harness, "are you there?", "I am here.").await;
    harness.kill().await;
    ask(&harness, "and now?", "Still here.").await;
    let texts = harness.chat.texts();
    assert_eq!(texts, ["Good morning.", "I am here.", "Still here."], "each once");
    for log in [harness.log(), harness.read_log(SECOND_LOG)] {
        assert!(!log.contains("Conflict"), "Telegram never saw two connections of the bot:\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_process_hands_the_gateway_over() {
    let mut harness = DayHarness::new(TelegramChat::open().await).await;
    harness.start().await;
    ask(&harness, "hello", "Good morning.").await;
    let _second = harness.spawn(SECOND_LOG);
    harness.wait_until("the second process waits", |_| harness.read_log(SECOND_LOG).contains(WAITING)).await;
    harness.stop().await;
    ask(&harness, "and now?", "Still here.").await;
    assert!(!harness.read_log(SECOND_LOG).contains("Conflict"), "{}", harness.read_log(SECOND_LOG));
}
