//! What happens before updates come: who we are, and the commands.

use satchel_contracts::log_capture::LogCapture;
use satchel_fake_kit::{Fault, FaultTiming};
use satchel_fake_telegram::{ApiRefusal, TelegramFault};
use satchel_wait::wait_until;
use serde_json::json;

use super::harness::{ANN, InboundHarness, RecordingInbound};

#[tokio::test]
async fn bot_identity_is_requested_until_available() {
    let bench = InboundHarness::start().await;
    bench.fake.script("getMe", FaultTiming::First(2), Fault::BadGateway { performed: false });
    bench.fake.person_says(ANN, ANN, "hello");
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert_eq!(taker.texts(), ["hello"]);
    assert_eq!(bench.fake.requests("getMe"), 3);
}

#[tokio::test]
async fn stopping_is_heard_while_telegram_is_not() {
    let bench = InboundHarness::start().await;
    bench.fake.script("getMe", FaultTiming::Every, Fault::Hang { performed: false });
    let listening = bench.listen(&RecordingInbound::new());
    wait_until("it is asked", || bench.fake.requests("getMe") == 1).await;
    listening.stop().await.unwrap();
}

#[tokio::test]
async fn people_are_offered_the_commands() {
    let bench = InboundHarness::start().await;
    let listening = bench.listen(&RecordingInbound::new());
    wait_until("they are told", || !bench.fake.commands().is_empty()).await;
    listening.stop().await.unwrap();
    assert_eq!(bench.fake.commands(), [json!({ "command": "files", "description": "Lists your files" })]);
}

#[tokio::test]
async fn commands_that_telegram_does_not_take_stop_nothing() {
    let bench = InboundHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    bench.fake.script(
        "setMyCommands",
        FaultTiming::Every,
        TelegramFault::Refuse(ApiRefusal::new(400, "Bad Request: no")),
    );
    let listening = bench.listen(&RecordingInbound::new());
    wait_until("it is told", || log.lines_with("registering the commands with Telegram failed") == 1).await;
    bench.fake.person_says(ANN, ANN, "hello");
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
}

#[tokio::test]
async fn token_is_never_logged() {
    let bench = InboundHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    let listening = bench.listen(&taker);
    bench.fake.script("getUpdates", FaultTiming::Nth(2), Fault::Outage { for_ms: 400 });
    bench.fake.script("getUpdates", FaultTiming::Nth(3), Fault::BadGateway { performed: false });
    let words = format!("Bad Request: /bot{}/getUpdates is not for you", bench.fake.token());
    bench.fake.script("getUpdates", FaultTiming::Nth(4), TelegramFault::Refuse(ApiRefusal::new(400, words)));
    bench.fake.person_says(ANN, ANN, "hello");
    wait_until("it got over all of it", || bench.fake.requests("getUpdates") >= 5).await;
    listening.stop().await.unwrap();
    assert_eq!(taker.texts(), ["hello"]);
    let (id, secret) = bench.fake.token().split_once(':').unwrap();
    assert!(
        log.lines_with("cannot reach Telegram") >= 1 && log.lines_with("Telegram refused the request") >= 1,
        "{}",
        log.text()
    );
    assert!(!log.text().contains(secret) && !log.text().contains(&format!("bot{id}:")), "{}", log.text());
}
