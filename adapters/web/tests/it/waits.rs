//! Clients that wait for the finished turn.

use std::time::Duration;

use satchel_ports::Archive;
use serde_json::{Value, json};

use crate::stage::{Stage, header, problem, read};

/// Sends a message and waits for its turn in the background.
fn post(stage: &Stage, key: &str, wait: &str) -> tokio::task::JoinHandle<reqwest::Response> {
    let request = stage.post(&format!("/api/conversations/a/messages?wait={wait}"));
    let request = request.json(&json!({"key": key, "text": "Hello"}));
    tokio::spawn(async move { request.send().await.unwrap() })
}

/// Waits until a message is stored.
async fn stored(stage: &Stage, count: usize) {
    satchel_wait::wait_until_async("the message", async || stage.taken().len() == count).await;
}

#[tokio::test]
async fn finished_turn_is_the_response() {
    let stage = Stage::new().await;
    let waiting = post(&stage, "k1", "10m");
    stored(&stage, 1).await;
    stage.reply("Hi.", Vec::new()).await;
    let response = waiting.await.unwrap();
    assert_eq!(response.status(), 200);
    let turn = read(response).await;
    assert_eq!((&turn["state"], &turn["parts"][0]["text"]), (&json!("done"), &json!("Hi.")), "{turn}");
    let listed = stage.json("/api/conversations/a/turns").await;
    assert_eq!(turn, listed["turns"][0], "it has the page's shape");
    let repeated = post(&stage, "k1", "10m").await.unwrap();
    assert_eq!(read(repeated).await, turn, "a repeated message has its reply already");
}

#[tokio::test]
async fn unfinished_turn_is_found_where_the_response_says() {
    let stage = Stage::new().await;
    let response = post(&stage, "k1", "1s").await.unwrap();
    assert_eq!(response.status(), 202);
    let location = header(&response, "location");
    let turn = read(response).await["turn"].clone();
    assert_eq!(location, format!("/api/conversations/a/turns/{}", turn.as_str().unwrap()));
    let before = stage.json(&location).await;
    assert_eq!((&before["id"], &before["state"]), (&turn, &json!("running")));
    let request = stage.client.get(stage.url(&format!("{location}?wait=10m")));
    let waiting = tokio::spawn(async move { request.send().await.unwrap() });
    stage.reply("Hi.", Vec::new()).await;
    let after = read(waiting.await.unwrap()).await;
    assert_eq!((&after["state"], &after["parts"][0]["text"]), (&json!("done"), &json!("Hi.")));
    let elsewhere = location.replace("/a/", "/b/");
    problem(stage.get(&elsewhere).await, 404, "not_found").await;
}

#[tokio::test]
async fn client_that_stops_waiting_leaves_the_turn() {
    let stage = Stage::new().await;
    let waiting = post(&stage, "k1", "10m");
    stored(&stage, 1).await;
    waiting.abort();
    assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
    let parts = stage.reply("Hi.", Vec::new()).await;
    let record = stage.ledger.turn(parts[0].turn).await.unwrap().unwrap();
    assert!(record.ending.is_some(), "{record:?}");
    assert_eq!(stage.taken().len(), 1);
}

#[tokio::test]
async fn stop_of_the_server_ends_the_wait() {
    let mut stage = Stage::new().await;
    let waiting = post(&stage, "k1", "10m");
    stored(&stage, 1).await;
    stage.stopped().await;
    let response = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap();
    assert_eq!(response.status(), 202);
}

#[tokio::test]
async fn wait_without_unit_or_beyond_the_limit_is_refused() {
    let stage = Stage::new().await;
    for wrong in ["60", "11m", "1h", "", "-1s"] {
        let refused: Value = problem(post(&stage, "k1", wrong).await.unwrap(), 422, "invalid_request").await;
        assert!(refused["detail"].as_str().unwrap().contains("up to 10m"), "{refused}");
    }
    assert!(stage.taken().is_empty(), "nothing was stored");
}
