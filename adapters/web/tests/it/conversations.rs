//! The list of conversations: paged, named, pinned, archived, searched and forgotten.

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::stage::{Events, Stage, problem, sent};

/// Sends a message to a conversation of the web.
async fn say_in(stage: &Stage, conversation: &str, text: &str) {
    let path = format!("/api/conversations/{conversation}/messages");
    let key = format!("k{}", stage.taken().len());
    let answer = stage.post(&path).json(&json!({"key": key, "text": text})).send().await.unwrap();
    assert_eq!(answer.status(), 202);
}

async fn change(stage: &Stage, conversation: &str, change: Value) -> Response {
    let url = stage.url(&format!("/api/conversations/{conversation}"));
    stage.client.request(Method::PATCH, url).json(&change).send().await.unwrap()
}

async fn forget(stage: &Stage, conversation: &str) -> Response {
    stage.client.delete(stage.url(&format!("/api/conversations/{conversation}"))).send().await.unwrap()
}

/// Reads a list: the keys of the conversations, and whether there are more.
async fn list(stage: &Stage, query: &str) -> (Vec<String>, Value) {
    let page = stage.json(&format!("/api/conversations{query}")).await;
    let listed = page["conversations"].as_array().unwrap();
    let keys = listed.iter().map(|one| one["id"].as_str().unwrap().replace("web:", "")).collect();
    (keys, page["more"].clone())
}

/// The path of a search.
fn search_for(words: &str) -> String {
    let escaped: String = words.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("/api/search?q={escaped}")
}

async fn search(stage: &Stage, words: &str) -> Value {
    stage.json(&search_for(words)).await
}

#[tokio::test]
async fn conversations_come_in_pages() {
    let stage = Stage::new().await;
    for conversation in ["a", "b", "c", "d", "e"] {
        say_in(&stage, conversation, "hello").await;
    }
    assert_eq!(change(&stage, "b", json!({"pinned": true})).await.status(), 204);
    assert_eq!(list(&stage, "?limit=2").await, (vec!["b".into(), "e".into(), "d".into()], json!(true)));
    let first = stage.json("/api/conversations?limit=2").await;
    let last = first["conversations"][2]["last_turn"].as_str().unwrap();
    let rest = format!("?limit=2&before={last}");
    assert_eq!(list(&stage, &rest).await, (vec!["c".into(), "a".into()], json!(false)));
    problem(stage.get("/api/conversations?before=x").await, 422, "invalid_request").await;
    problem(stage.get("/api/conversations?archived=maybe").await, 422, "invalid_request").await;
}

#[tokio::test]
async fn conversation_is_named_pinned_and_archived() {
    let stage = Stage::new().await;
    say_in(&stage, "a", "the first words").await;
    say_in(&stage, "b", "other words").await;
    assert_eq!(change(&stage, "a", json!({"name": "  Holiday \n 2026 "})).await.status(), 204);
    let listed = stage.json("/api/conversations").await["conversations"][1].clone();
    assert_eq!((&listed["title"], &listed["named"]), (&json!("Holiday 2026"), &json!(true)));
    assert_eq!(stage.json("/api/conversations/a").await, listed);
    problem(stage.get("/api/conversations/never").await, 404, "not_found").await;
    assert_eq!(change(&stage, "a", json!({"name": ""})).await.status(), 204);
    let listed = stage.json("/api/conversations").await["conversations"][1].clone();
    assert_eq!((&listed["title"], &listed["named"]), (&json!("the first words"), &json!(false)));

    assert_eq!(change(&stage, "a", json!({"archived": true})).await.status(), 204);
    assert_eq!(list(&stage, "").await.0, ["b"]);
    assert_eq!(list(&stage, "?archived=true").await.0, ["a"]);
    say_in(&stage, "a", "again").await;
    assert_eq!(list(&stage, "").await.0, ["a", "b"], "a new message brings it back");

    let long = problem(change(&stage, "a", json!({"name": "x".repeat(101)})).await, 422, "invalid_request").await;
    assert_eq!(long["detail"], "A name has at most 100 characters.");
    problem(change(&stage, "a", json!({"name": "a\u{0007}"})).await, 422, "invalid_request").await;
    problem(change(&stage, "a", json!({"title": "x"})).await, 422, "invalid_request").await;
    problem(change(&stage, "a", json!({"pinned": true, "archived": true})).await, 422, "invalid_request").await;
    problem(change(&stage, "never", json!({"pinned": true})).await, 404, "not_found").await;
    problem(change(&stage, "not%20one", json!({"pinned": true})).await, 404, "not_found").await;
}

#[tokio::test]
async fn what_was_said_is_found() {
    let stage = Stage::new().await;
    say_in(&stage, "a", "Where is the contract?").await;
    stage.reply("In the blue <b>folder</b>.", Vec::new()).await;
    let found = search(&stage, "contr").await;
    assert_eq!((&found["more"], &found["unindexed"], &found["hits"][1]), (&json!(false), &json!(0), &Value::Null));
    let hit = &found["hits"][0];
    assert_eq!((&hit["conversation"], &hit["title"]), (&json!("web:a"), &json!("Where is the contract?")));
    assert!(hit["turn"].is_string() && hit["at"].as_i64() > Some(1_600_000_000_000), "{hit}");
    let excerpt = json!([
        {"text": "Where is the ", "matched": false},
        {"text": "contract", "matched": true},
        {"text": "?\nIn the blue <b>folder</b>.", "matched": false},
    ]);
    assert_eq!(hit["excerpt"], excerpt);
    for (words, hits) in
        [("folder NOT contract", 0), ("contract AND", 0), ("OR", 0), ("\"folder", 1), ("blue (folder)", 1)]
    {
        assert_eq!(search(&stage, words).await["hits"].as_array().unwrap().len(), hits, "{words}");
    }
    assert_eq!(search(&stage, "contract\0").await["hits"].as_array().unwrap().len(), 1, "no character is an error");
    for words in ["\"", "* - :", ""] {
        let refused = problem(stage.get(&search_for(words)).await, 422, "invalid_request").await;
        assert_eq!(refused["detail"], "Type a word or a number to search for.");
    }
    for key in 0..3 {
        say_in(&stage, "b", &format!("contract number {key}")).await;
        stage.reply("Noted.", Vec::new()).await;
    }
    let page = stage.json("/api/search?q=contract&limit=2").await;
    assert_eq!((&page["more"], page["hits"].as_array().unwrap().len()), (&json!(true), 2));
    let last = page["hits"][1]["turn"].as_str().unwrap();
    let rest = stage.json(&format!("/api/search?q=contract&limit=2&before={last}")).await;
    assert_eq!((&rest["more"], rest["hits"].as_array().unwrap().len()), (&json!(false), 2));
    problem(stage.get("/api/search").await, 422, "invalid_request").await;
}

#[tokio::test]
async fn forgotten_conversation_is_gone_for_the_page() {
    let stage = Stage::new().await;
    say_in(&stage, "a", "a secret").await;
    let busy = problem(forget(&stage, "a").await, 409, "busy").await;
    assert!(busy["detail"].as_str().unwrap().contains("under way"), "{busy}");
    let (lease, parts) = stage.answer("told", Vec::new()).await;
    problem(forget(&stage, "a").await, 409, "busy").await;
    stage.settle(&lease, &parts[0], sent(&parts[0])).await;
    let mut open = Events::of(&stage).await;
    assert_eq!(open.expect("snapshot").await["turns"].as_array().unwrap().len(), 1);
    assert_eq!(forget(&stage, "a").await.status(), 204);
    assert_eq!(open.next().await, None, "whoever looks at it connects again");
    assert_eq!(Events::of(&stage).await.expect("snapshot").await["turns"], json!([]));
    assert_eq!(list(&stage, "").await, (Vec::new(), json!(false)));
    assert_eq!(stage.json("/api/conversations/a/turns").await["turns"], json!([]));
    assert_eq!(search(&stage, "secret").await["hits"], json!([]));
    problem(forget(&stage, "a").await, 404, "not_found").await;
    problem(change(&stage, "a", json!({"pinned": true})).await, 404, "not_found").await;
}
