//! Several processes on one bot: one receives the messages, another takes over, and agents answer.

use std::time::Duration;

use satchel_fake_model::{ModelReply, ReplyPiece};

use crate::day::{
    harness::{DayHarness, TestChat},
    telegram::TelegramChat,
    text_reply,
};

const SECOND_LOG: &str = "second-log";

/// What a process logs while it waits for the gateway.
const WAITING: &str = "another process receives the channel's messages";

/// What a delivery worker logs beside another one of a channel.
const WORKER_WAITING: &str = "another process tells agents that the channel has delivery workers";

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
    let _second = harness.spawn(SECOND_LOG, &[]);
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
    let _second = harness.spawn(SECOND_LOG, &[]);
    harness.wait_until("the second process waits", |_| harness.read_log(SECOND_LOG).contains(WAITING)).await;
    harness.stop().await;
    ask(&harness, "and now?", "Still here.").await;
    assert!(!harness.read_log(SECOND_LOG).contains("Conflict"), "{}", harness.read_log(SECOND_LOG));
}

/// Longer than any test.
const WRITING_TIME: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn agents_answer_what_a_gateway_receives() {
    let harness = DayHarness::new(TelegramChat::open().await).await;
    let _gateway = harness.spawn("gateway-log", &["--role", "gateway"]);
    let mut agent = harness.spawn("agent-log", &["--role", "agent"]);
    ask(&harness, "hello", "Good morning.").await;

    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("A long answer.".to_owned())];
    harness.model.reply(ModelReply::pieces(pieces));
    harness.chat.send("tell me a story");
    harness.wait_until("the request", |_| harness.model.requests().len() == 2).await;
    harness.chat.send("/stop");
    harness.wait_for_text("Stopped").await;

    agent.kill().await.expect("a process can be killed");
    harness.model.reply(text_reply("Still here."));
    let polls = harness.chat.poll_count();
    harness.chat.send("and now?");
    // The poll after the one that brings the message confirms it.
    harness.wait_until("the gateway has the message", |chat| chat.poll_count() > polls).await;
    assert_eq!(harness.model.requests().len(), 2, "a gateway answers nothing");
    let _successor = harness.spawn("agent-log", &["--role", "agent"]);
    harness.wait_for_text("Still here.").await;
}

/// Catches: a reply that nobody sends, because workers run that don't have its platform.
#[tokio::test(flavor = "multi_thread")]
async fn agent_delivers_on_platform_without_delivery_worker() {
    let harness = DayHarness::new(TelegramChat::open().await).await;
    harness.write_local_file("worker.yaml", b"model: offline\nweb: { listen: '127.0.0.1:0' }\n");
    let worker = ["--role", "delivery", "--config", "worker.yaml"];
    let _workers = ["worker-log", SECOND_LOG].map(|log| harness.spawn(log, &worker));
    let is_seen = || ["worker-log", SECOND_LOG].iter().any(|log| harness.read_log(log).contains(WORKER_WAITING));
    harness.wait_until("both workers run", |_| is_seen()).await;
    let _gateway = harness.spawn("gateway-log", &["--role", "gateway"]);
    let _agent = harness.spawn("agent-log", &["--role", "agent"]);
    ask(&harness, "hello", "Good morning.").await;
    assert_eq!(harness.chat.texts(), ["Good morning."], "once");
}
