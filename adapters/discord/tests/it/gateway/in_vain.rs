//! Connections that open and lead to nothing: another address is tried, then another session, and a stop is heard.

use std::time::Duration;

use satchel_fake_discord::gateway::GatewayRules;
use tokio::time::Instant;

use super::bench::{ANN, Bench, GENERAL, Log, Taker, until};

/// How long these tests wait for a word.
const SHORTLY: Duration = Duration::from_millis(150);

/// A bot with a session that goes on, and that isn't waited for long.
async fn impatient() -> Bench {
    let mut bench = Bench::start().await;
    bench.timeouts.response = SHORTLY;
    bench
}

#[tokio::test]
async fn silent_resume_url_falls_back_to_general_gateway() {
    let bench = impatient().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.gateway().say_nothing(3);
    bench.fake.drop_connection();
    bench.fake.person_says(GENERAL, ANN, "meanwhile");
    taker.takes(1).await;
    bench.sessions_begun_and_resumed(1, 1).await;
    assert_eq!(bench.fake.gateway().report().resumes_misdirected, 1);
    assert_eq!(bench.fake.requests("GET /gateway/bot"), 2);
    listening.stop().await;
}

#[tokio::test]
async fn session_silent_everywhere_is_replaced_and_history_backfilled() {
    let bench = impatient().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.gateway().say_nothing(6);
    bench.fake.drop_connection();
    bench.fake.person_says(GENERAL, ANN, "meanwhile");
    taker.takes(1).await;
    bench.sessions_begun_and_resumed(2, 0).await;
    assert_eq!((taker.texts(), taker.repeated()), (vec!["meanwhile".to_owned()], vec![]));
    assert_eq!(bench.fake.gateway().report().connections, 8);
    listening.stop().await;
}

#[tokio::test]
async fn unanswered_resume_is_retried_after_timeout() {
    let bench = impatient().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.gateway().ignore_resumes(1);
    bench.fake.drop_connection();
    bench.fake.person_says(GENERAL, ANN, "meanwhile");
    taker.takes(1).await;
    bench.sessions_begun_and_resumed(1, 1).await;
    listening.stop().await;
}

#[tokio::test]
async fn session_is_replaced_after_every_resume_closes() {
    for code in [4002, 4003, 4005, 4099] {
        let bench = Bench::start().await;
        let taker = Taker::new();
        let listening = bench.connected(&taker).await;
        bench.fake.gateway().close_resumes_with(Some(code));
        bench.fake.drop_connection();
        bench.fake.person_says(GENERAL, ANN, "meanwhile");
        taker.takes(1).await;
        bench.sessions_begun_and_resumed(2, 0).await;
        let report = bench.fake.gateway().report();
        assert_eq!((report.resumes_refused, report.resumes_misdirected), (6, 3), "{code}");
        bench.fake.person_says(GENERAL, ANN, "after");
        taker.takes(2).await;
        assert_eq!(taker.texts(), ["meanwhile", "after"], "{code}");
        listening.stop().await;
    }
}

#[tokio::test]
async fn failed_connection_attempts_keep_the_session() {
    let bench = impatient().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.gateway().refuse_upgrades(12);
    bench.fake.gateway().say_nothing(1);
    bench.fake.drop_connection();
    bench.fake.person_says(GENERAL, ANN, "meanwhile");
    taker.takes(1).await;
    bench.sessions_begun_and_resumed(1, 1).await;
    listening.stop().await;
}

#[tokio::test]
async fn zero_session_limit_polls_slowly_and_warns_once() {
    let never = GatewayRules { session_starts: 0, session_starts_within: Duration::ZERO, ..GatewayRules::default() };
    let mut bench = Bench::with(|rules| rules.gateway = never).await;
    bench.waits.min_retry_delay = Duration::from_millis(20);
    bench.waits.max_retry_delay = Duration::from_secs(1);
    let (log, _guard) = Log::listen();
    let listening = bench.listen(&Taker::new());
    until("it is asked again", || bench.fake.requests("GET /gateway/bot") >= 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let asked = bench.fake.requests("GET /gateway/bot");
    assert!(asked < 10, "{asked}");
    assert_eq!(log.lines_with("session start limit reached"), 1, "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn stopping_is_heard_while_nothing_can_be_written() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    bench.connected(&taker).await.stop().await;
    let mut kept = taker.bookmark();
    // More than a line takes that nobody reads from.
    kept["session_id"] = "x".repeat(16 << 20).into();
    bench.fake.gateway().read_nothing(true);
    let connections = bench.fake.gateway().report().connections;
    let listening = bench.listen(&Taker::with_bookmark(kept));
    bench.fake.gateway().wait_until(|report| report.connections > connections).await.expect("it connects");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let asked = Instant::now();
    listening.stop().await;
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
}
