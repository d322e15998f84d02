//! What other programs send to people through the API.

use satchel_domain::SystemTask;
use serde_json::{Value, json};

use crate::stage::{Stage, header, problem, read};

async fn send(stage: &Stage, body: Value) -> reqwest::Response {
    stage.post("/api/notifications").json(&body).send().await.unwrap()
}

async fn upload(stage: &Stage, conversation: &str, content: impl Into<reqwest::Body>) -> reqwest::Response {
    let path = format!("/api/notifications/uploads?conversation={conversation}&filename=..%2Freport.txt");
    let request = stage.post(&path).header("content-type", "application/octet-stream").body(content);
    request.send().await.unwrap()
}

#[tokio::test]
async fn notification_is_stored_with_its_files() {
    let stage = Stage::new().await;
    stage.say("k1", "Hello").await;
    let uploaded = upload(&stage, "web:a", "done").await;
    assert_eq!(uploaded.status(), 201);
    let uploaded = read(uploaded).await;
    assert_eq!((&uploaded["filename"], &uploaded["preview"]), (&json!("report.txt"), &Value::Null));
    let body = json!({"conversation": "web:a", "key": "b/1", "text": "*Done*", "uploads": [uploaded["upload"]]});
    let accepted = send(&stage, body.clone()).await;
    assert_eq!(accepted.status(), 202);
    let turn = read(accepted).await["turn"].clone();
    assert_eq!(read(send(&stage, body).await).await["turn"], turn, "the same key is the same message");
    let stored = stage.taken().pop().unwrap();
    assert_eq!(stored.system_task, Some(SystemTask::DeliverNotification { text: "*Done*".into() }));
    assert_eq!(stored.files[0].stored_blob().unwrap().bytes, 4);
    let turns = stage.json("/api/conversations/a/turns").await;
    assert_eq!(turns["turns"][1]["messages"], json!([]), "nobody wrote it");
    assert_eq!(turns["turns"][0]["messages"][0]["text"], "Hello");
}

#[tokio::test]
async fn what_can_not_be_sent_is_refused_by_name() {
    let stage = Stage::new().await;
    stage.say("k1", "Hello").await;
    let unknown = send(&stage, json!({"conversation": "telegram:41", "text": "x"})).await;
    let unknown = problem(unknown, 404, "unknown_conversation").await;
    assert!(unknown["detail"].as_str().unwrap().contains("`telegram:41`"), "{unknown}");
    let to_a =
        |key: &str, uploads: Value| json!({"conversation": "web:a", "text": "x", "key": key, "uploads": uploads});
    problem(send(&stage, to_a("reused", json!([]))).await, 409, "key_reused").await;
    problem(send(&stage, to_a("failed", json!([]))).await, 409, "not_delivered").await;
    problem(send(&stage, to_a("", json!([]))).await, 422, "invalid_request").await;
    problem(send(&stage, json!({"conversation": "a", "text": "x"})).await, 422, "invalid_request").await;
    let other = read(upload(&stage, "web:b", "done").await).await["upload"].clone();
    problem(send(&stage, to_a("k", json!([other]))).await, 422, "unknown_upload").await;
    problem(upload(&stage, "web:a", vec![0; 300_001]).await, 413, "too_large").await;
    problem(upload(&stage, "nowhere", "x").await, 422, "invalid_request").await;
    let stranger =
        stage.visitor.post(stage.url("/api/notifications")).json(&to_a("k", json!([]))).send().await.unwrap();
    assert_eq!(header(&stranger, "www-authenticate"), "Bearer");
    problem(stranger, 401, "unauthorized").await;
    assert_eq!(stage.taken().len(), 1, "nothing of it was stored");
}
