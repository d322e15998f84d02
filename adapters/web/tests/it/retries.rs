//! Turns that are tried again, with the same words or with others.

use reqwest::Response;
use serde_json::{Value, json};

use crate::stage::{Events, Stage, problem, read, unknown_id};

async fn retry(stage: &Stage, turn: &str, body: Value) -> Response {
    stage.post(&format!("/api/conversations/a/turns/{turn}/retry")).json(&body).send().await.unwrap()
}

async fn turns(stage: &Stage) -> Vec<Value> {
    stage.json("/api/conversations/a/turns").await["turns"].as_array().unwrap().clone()
}

#[tokio::test]
async fn last_answer_is_tried_again() {
    let stage = Stage::new().await;
    let first = stage.say("k1", "what is a lane?").await.to_string();
    let busy = problem(retry(&stage, &first, json!({})).await, 409, "busy").await;
    assert!(busy["detail"].as_str().unwrap().contains("under way"), "{busy}");
    stage.reply("No idea.", Vec::new()).await;
    let mut open = Events::of(&stage).await;
    open.expect("snapshot").await;

    let accepted = retry(&stage, &first, json!({"text": "what is a lane, in short?"})).await;
    assert_eq!(accepted.status(), 202);
    let second = read(accepted).await["turn"].as_str().unwrap().to_owned();
    assert_eq!(open.next().await, None, "whoever looks at it connects again");
    let repeated = retry(&stage, &first, json!({})).await;
    assert_eq!((repeated.status().as_u16(), read(repeated).await["turn"].as_str().unwrap()), (202, second.as_str()));
    let shown = turns(&stage).await;
    assert_eq!(shown.len(), 2);
    assert_eq!(
        (&shown[0]["replaced_by"], &shown[0]["messages"][0]["text"]),
        (&json!(second), &json!("what is a lane?"))
    );
    assert_eq!(
        (&shown[1]["replaced_by"], &shown[1]["messages"][0]["text"], &shown[1]["state"]),
        (&Value::Null, &json!("what is a lane, in short?"), &json!("running"))
    );

    stage.reply("A queue.", Vec::new()).await;
    stage.say("k2", "thanks").await;
    stage.reply("You're welcome.", Vec::new()).await;
    problem(retry(&stage, &second, json!({})).await, 409, "not_last").await;
}

#[tokio::test]
async fn retry_that_means_nothing_is_refused() {
    let stage = Stage::new().await;
    problem(retry(&stage, &unknown_id(), json!({})).await, 404, "not_found").await;
    problem(retry(&stage, "no-id", json!({})).await, 404, "not_found").await;
    let turn = stage.say("k1", "hello").await.to_string();
    stage.reply("Hi.", Vec::new()).await;
    problem(retry(&stage, &turn, json!({"text": " \n"})).await, 422, "invalid_request").await;
    problem(retry(&stage, &turn, json!({"model": "another"})).await, 422, "invalid_request").await;
    assert_eq!(turns(&stage).await.len(), 1);
}
