//! The commands that the page completes.

use satchel_web::{PageCommand, PageCommandChoice};
use serde_json::json;

use crate::stage::{Stage, header, problem, read};

/// The commands of a server with a task of a name that would act if it were shown as HTML.
fn commands() -> Vec<PageCommand> {
    let command =
        |name: &str, choices| PageCommand { name: name.to_owned(), description: format!("what /{name} does"), choices };
    let report = PageCommandChoice {
        name: "<img src=x onerror=alert(1)>".to_owned(),
        description: "a report".to_owned(),
        inputs: vec!["city".to_owned(), "day".to_owned()],
    };
    vec![command("files", Vec::new()), command("task", vec![report])]
}

#[tokio::test]
async fn commands_are_listed_with_their_names_and_inputs() {
    let stage = Stage::with(|settings| settings.commands = commands()).await;
    let listed = stage.get("/api/commands").await;
    assert_eq!(header(&listed, "cache-control"), "no-store");
    assert_eq!(header(&listed, "content-type"), "application/json");
    let report = json!({
        "name": "<img src=x onerror=alert(1)>", "description": "a report", "inputs": ["city", "day"],
    });
    let expected = json!({"commands": [
        {"name": "files", "description": "what /files does", "choices": []},
        {"name": "task", "description": "what /task does", "choices": [report]},
    ]});
    assert_eq!(read(listed).await, expected);
}

#[tokio::test]
async fn names_of_tasks_need_a_login() {
    let stage = Stage::with(|settings| settings.commands = commands()).await;
    problem(stage.visit("/api/commands").await, 401, "unauthorized").await;
    let cross_site = stage.client.get(stage.url("/api/commands")).header("sec-fetch-site", "cross-site");
    problem(cross_site.send().await.unwrap(), 403, "cross_origin").await;
}
