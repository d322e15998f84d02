//! One process after the other: a session outlives them, and the bookmark is never ahead of what is stored.

use std::time::{Duration, Instant};

use serde_json::json;

use super::bench::{ANN, BOB, Bench, GENERAL, OTHER, THREAD, Taker, until};

#[tokio::test]
async fn the_next_process_goes_on_with_the_session() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(GENERAL, ANN, "before");
    taker.takes(1).await;
    listening.stop().await;
    bench.fake.gateway().wait_until(|report| !report.left.is_empty()).await.expect("it has heard that we left");
    assert_eq!(bench.fake.gateway().report().left, [Some(4000)], "a code with which the session stays");
    bench.fake.person_says(GENERAL, ANN, "meanwhile");
    bench.fake.person_says(bench.direct, ANN, "directly");
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(GENERAL, ANN, "after");
    taker.takes(4).await;
    assert_eq!(taker.texts_of(GENERAL), ["before", "meanwhile", "after"]);
    assert_eq!((taker.texts_of(bench.direct), taker.repeated()), (vec!["directly".to_owned()], vec![]));
    bench.sessions_begun_and_resumed(1, 1).await;
    assert_eq!(bench.fake.requests("GET /channels/{}/messages"), 0, "the gateway tells everything");
    listening.stop().await;
}

#[tokio::test]
async fn message_stored_after_checkpoint_is_redelivered_and_deduplicated() {
    let mut bench = Bench::start().await;
    bench.waits.checkpoint_interval = Duration::from_secs(60);
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    let message = bench.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    listening.kill().await;
    let listening = bench.connected(&taker).await;
    until("it comes again", || !taker.repeated().is_empty()).await;
    assert_eq!((taker.texts(), taker.repeated()), (vec!["hello".to_owned()], vec![message.to_string()]));
    bench.sessions_begun_and_resumed(1, 1).await;
    listening.stop().await;
}

#[tokio::test]
async fn message_being_stored_at_crash_is_redelivered() {
    let bench = Bench::start().await;
    let taker = Taker::shut();
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(GENERAL, ANN, "hello");
    taker.tried(1).await;
    tokio::time::sleep(bench.waits.checkpoint_interval * 3).await;
    listening.kill().await;
    let survivor = taker.of_the_next_process();
    let listening = bench.listen(&survivor);
    survivor.takes(1).await;
    assert_eq!(survivor.texts(), ["hello"]);
    listening.stop().await;
}

#[tokio::test]
async fn checkpoint_stays_before_message_that_failed_to_store() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    taker.fail(GENERAL, u32::MAX);
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(OTHER, BOB, "before");
    bench.fake.person_says(GENERAL, ANN, "can't be stored");
    bench.fake.person_says(OTHER, BOB, "after");
    taker.takes(2).await;
    taker.keeps("the place before what can't be stored", |bookmark| bookmark["seq"] == 3).await;
    tokio::time::sleep(bench.waits.checkpoint_interval * 3).await;
    listening.stop().await;
    assert_eq!(taker.bookmark()["seq"], 3);
    let survivor = taker.of_the_next_process();
    let listening = bench.listen(&survivor);
    survivor.takes(2).await;
    assert_eq!(
        (survivor.texts_of(GENERAL), survivor.texts_of(OTHER)),
        (vec!["can't be stored".into()], vec!["after".into()])
    );
    listening.stop().await;
}

#[tokio::test]
async fn the_bookmark_is_kept_when_we_stop() {
    let mut bench = Bench::start().await;
    bench.waits.checkpoint_interval = Duration::from_secs(60);
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    let message = bench.fake.person_says(bench.direct, ANN, "hello");
    taker.takes(1).await;
    assert_ne!(taker.bookmark()["seq"], 3);
    listening.stop().await;
    let bookmark = taker.bookmark();
    assert_eq!((bookmark["seq"].clone(), bookmark["seen_up_to"].clone()), (json!(3), json!(message.to_string())));
    assert_eq!(bookmark["direct"], json!([bench.direct.to_string()]));
}

#[tokio::test]
async fn checkpoints_are_saved_periodically_not_per_event() {
    let mut bench = Bench::start().await;
    bench.waits.checkpoint_interval = Duration::from_millis(200);
    let (taker, began) = (Taker::new(), Instant::now());
    let listening = bench.connected(&taker).await;
    for number in 0..50 {
        bench.fake.person_says(GENERAL, ANN, &number.to_string());
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    taker.takes(50).await;
    taker.keeps("the last of them", |bookmark| bookmark["seq"] == 52).await;
    let most = began.elapsed().as_millis() / bench.waits.checkpoint_interval.as_millis() + 2;
    assert!(u128::from(taker.bookmarks()) <= most, "{} times and not {most}", taker.bookmarks());
    let kept = taker.bookmarks();
    tokio::time::sleep(bench.waits.checkpoint_interval * 2).await;
    assert_eq!(taker.bookmarks(), kept, "nothing has changed");
    listening.stop().await;
}

#[tokio::test]
async fn resumed_process_resolves_unannounced_thread() {
    let mut bench = Bench::start().await;
    bench.settings.answers_in = vec![GENERAL.to_string()];
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    taker.keeps("the guild was told", |bookmark| bookmark["seq"] == 2).await;
    listening.stop().await;
    bench.fake.person_says(THREAD, ANN, "in a thread of a channel where everything is for us");
    bench.fake.person_says(THREAD, ANN, "and more");
    bench.fake.person_says(OTHER, ANN, "not for us");
    let listening = bench.listen(&taker);
    taker.takes(2).await;
    bench.sessions_begun_and_resumed(1, 1).await;
    bench.fake.person_says(THREAD, ANN, "and more yet");
    taker.takes(3).await;
    assert_eq!(taker.taken().len(), taker.texts_of(THREAD).len());
    assert_eq!(bench.fake.requests("GET /channels/{}"), 3, "the thread, its channel and the other one");
    taker.keeps("all of it", |bookmark| bookmark["seq"] == 7).await;
    listening.stop().await;
}

#[tokio::test]
async fn foreign_server_gets_neither_resume_nor_token() {
    let (elsewhere, bench) = (Bench::start().await, Bench::start().await);
    let taker = Taker::new();
    elsewhere.connected(&taker).await.stop().await;
    let kept = taker.bookmark();
    assert_eq!(kept["server"], elsewhere.fake.api_url());
    let connections = elsewhere.fake.gateway().report().connections;
    bench.fake.person_says(GENERAL, ANN, "meanwhile");
    for (sessions, server) in (1..).zip([kept["server"].clone(), json!(null), json!("https://discord.com")]) {
        let mut kept = kept.clone();
        kept["server"] = server;
        let finder = Taker::with_bookmark(kept);
        let listening = bench.listen(&finder);
        finder.takes(1).await;
        assert_eq!(finder.texts(), ["meanwhile"], "history tells what was missed");
        bench.sessions_begun_and_resumed(sessions, 0).await;
        listening.stop().await;
    }
    let report = elsewhere.fake.gateway().report();
    assert_eq!((report.connections, report.resumes, report.resumes_refused), (connections, 0, 0));
}

#[tokio::test]
async fn untrusted_resume_url_falls_back_to_general_gateway() {
    let (elsewhere, bench) = (Bench::start().await, Bench::start().await);
    let taker = Taker::new();
    bench.connected(&taker).await.stop().await;
    let mut kept = taker.bookmark();
    kept["resume_url"] = json!(format!("{}/gateway-socket-again", elsewhere.fake.api_url()));
    let listening = bench.listen(&Taker::with_bookmark(kept));
    bench.sessions_begun_and_resumed(1, 1).await;
    assert_eq!(bench.fake.gateway().report().resumes_misdirected, 1);
    assert_eq!(elsewhere.fake.gateway().report().connections, 0);
    listening.stop().await;
}

#[tokio::test]
async fn token_rejected_on_resume_is_retried_with_identify() {
    let mut bench = Bench::start().await;
    let taker = Taker::new();
    bench.connected(&taker).await.stop().await;
    bench.fake.gateway().close_resumes_with(Some(4004));
    bench.fake.person_says(GENERAL, ANN, "meanwhile");
    let listening = bench.listen(&taker);
    taker.takes(1).await;
    bench.sessions_begun_and_resumed(2, 0).await;
    assert_eq!((bench.fake.gateway().report().resumes_refused, bench.fake.requests("GET /gateway/bot")), (1, 2));
    listening.stop().await;

    bench.settings.token = "NzY1.Nobodys.TokenCanary".into();
    let failed = bench.listen(&taker).ended().await.unwrap_err().to_string();
    assert!(failed.contains("Reset Token"), "{failed}");
}
