//! Clients that are slow, go away, speak nonsense, or are many.

use std::time::{Duration, Instant};

use satchel_requirements::exclusion::has_own_process;
use satchel_wait::wait_until_async;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::stage::{Events, Stage, raw};

#[tokio::test]
async fn nonsense_is_answered_and_the_server_goes_on() {
    let stage = Stage::new().await;
    let long = "x".repeat(200_000);
    for (nonsense, expected) in [
        ("\r\n\r\nwhat\r\n\r\n".to_owned(), "400"),
        (format!("GET / HTTP/1.1\r\nhost: {}\r\nx: {long}\r\n\r\n", stage.address), "431"),
        (format!("GET /{long} HTTP/1.1\r\nhost: {}\r\n\r\n", stage.address), "4"),
        (format!("GET / HTTP/1.1\r\nhost: {}\r\n{}\r\n", stage.address, "a: b\r\n".repeat(500)), "431"),
        (format!("GET / HTTP/1.1\r\nhost: {}\r\ncontent-length: -1\r\n\r\n", stage.address), "400"),
        (
            format!("POST / HTTP/1.1\r\nhost: {}\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx", stage.address),
            "400",
        ),
    ] {
        let answer = raw(&stage, &nonsense).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{:.60} → {answer:.60}", nonsense);
    }
    assert_eq!(stage.get("/healthz").await.status(), 200);
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_is_forgotten() {
    let stage = Stage::new().await;
    for _ in 0..20 {
        Events::of(&stage).await.expect("snapshot").await;
    }
    let mut stays = Events::of(&stage).await;
    stays.expect("snapshot").await;
    stage.say("k1", "Hello").await;
    assert_eq!(stays.expect("turn").await["messages"][0]["text"], "Hello");
}

/// The figure is printed, since machines differ: what 200 open pages of one conversation cost.
#[tokio::test]
async fn two_hundred_pages_see_the_same() {
    if !has_own_process() {
        return;
    }
    let stage = Stage::new().await;
    let turn = stage.say("k1", "Hello").await;
    let before = resident();
    let mut pages = Vec::new();
    for _ in 0..200 {
        pages.push(Events::of(&stage).await);
    }
    for page in &mut pages {
        page.expect("snapshot").await;
    }
    let after = resident();
    let began = Instant::now();
    for number in 0..10 {
        stage.wrote(turn, 0, &format!("Piece {number}.\n\n")).await;
        // A rendering each: they are at least 60 ms apart.
        tokio::time::sleep(Duration::from_millis(70)).await;
    }
    stage.wrote(turn, 0, "The end").await;
    for page in &mut pages {
        let last = |data: &Value| data["blocks"].as_array().unwrap().last() == Some(&json!("<p>The end</p>"));
        page.find("blocks", last).await;
    }
    eprintln!(
        "200 pages, server and clients together: {} KiB more, {} ms for 11 pieces",
        after.saturating_sub(before),
        began.elapsed().as_millis()
    );
    assert!(after.saturating_sub(before) < 100 * 1024);
}

/// What this process has in memory, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn in_flight_upload_finishes_before_shutdown() {
    let mut stage = Stage::new().await;
    let mut socket = tokio::net::TcpStream::connect(stage.address).await.unwrap();
    let head = format!(
        "POST /api/conversations/a/uploads?filename=a HTTP/1.1\r\nhost: {}\r\ncontent-length: 200000\r\n\
         content-type: application/octet-stream\r\n\r\n",
        stage.host()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&[7; 100_000]).await.unwrap();
    wait_until_async("it is on its way", async || !stage.stored().is_empty()).await;
    let address = stage.address;
    let ends = async move {
        let is_stopping = async || tokio::net::TcpStream::connect(address).await.is_err();
        wait_until_async("nobody is let in any more", is_stopping).await;
        socket.write_all(&[7; 100_000]).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let (answer, ()) = tokio::join!(ends, stage.stopped());
    assert!(answer.starts_with("HTTP/1.1 201 Created"), "{answer}");
}
