//! OpenAI's API: its shapes, its errors, and what a retry does.

use satchel_domain::{ConversationId, HistoryMessage, TurnId};
use satchel_ports::{Archive, BusEvent, ledger::TurnQuery};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::stage::{Stage, header, read};

fn request(text: &str) -> Value {
    json!({"model": "satchel", "messages": [{"role": "user", "content": text}]})
}

/// Sends a request in the background.
fn post(stage: &Stage, body: &Value, headers: &[(&str, &str)]) -> JoinHandle<reqwest::Response> {
    let request = stage.post("/v1/chat/completions").json(body);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    tokio::spawn(async move { request.send().await.unwrap() })
}

/// Waits until so many messages are stored.
async fn stored(stage: &Stage, count: usize) {
    satchel_wait::wait_until_async("the message", async || stage.taken().len() == count).await;
}

/// Asks, answers, and returns the completion.
async fn ask(stage: &Stage, body: &Value, headers: &[(&str, &str)], count: usize, answer: &str) -> Value {
    let waiting = post(stage, body, headers);
    stored(stage, count).await;
    stage.reply(answer, Vec::new()).await;
    let response = waiting.await.unwrap();
    assert_eq!(response.status(), 200);
    read(response).await
}

async fn error(response: reqwest::Response, status: u16, code: &str) -> Value {
    assert_eq!(response.status(), status, "{code}");
    let body = read(response).await;
    let error = &body["error"];
    assert_eq!(error["code"], code, "{body}");
    assert!(error["message"].is_string() && error["type"].is_string(), "{body}");
    error.clone()
}

#[tokio::test]
async fn completion_is_a_turn_that_the_page_does_not_list() {
    let stage = Stage::new().await;
    let body = json!({"model": "satchel", "temperature": 0.1, "messages": [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "Arr."},
        {"role": "user", "content": [
            {"type": "text", "text": "what is this?"},
            {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}},
        ]},
    ]});
    let completion = ask(&stage, &body, &[], 1, "A file.").await;
    assert_eq!((&completion["object"], &completion["model"]), (&json!("chat.completion"), &json!("satchel")));
    let choice = &completion["choices"][0];
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!("A file."), &json!("stop")));
    let message = stage.taken().pop().unwrap();
    assert_eq!((message.text.as_str(), message.files[0].filename.as_str()), ("what is this?", "a.txt"));
    let context = message.context.unwrap();
    assert_eq!(context.instructions.as_deref(), Some("You are a pirate."));
    assert!(
        matches!(&context.history[..], [HistoryMessage::Person { text, .. }, HistoryMessage::Model { .. }] if text == "hello")
    );
    assert_eq!(message.conversation.channel().as_str(), "api");
    assert_eq!(stage.json("/api/conversations").await["conversations"], json!([]));
}

#[tokio::test]
async fn named_conversation_gets_the_last_message() {
    let stage = Stage::new().await;
    let body = json!({"messages": [
        {"role": "system", "content": ""},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "Arr."},
        {"role": "user", "content": "and now?"},
    ]});
    ask(&stage, &body, &[("x-satchel-conversation", "web:a")], 1, "Now.").await;
    let turns = stage.json("/api/conversations/a/turns").await;
    assert_eq!(turns["turns"][0]["messages"][0]["text"], "and now?");
    assert_eq!(stage.taken()[0].context, None, "it has a history of its own");
    let refused = post(&stage, &body, &[("x-satchel-conversation", "telegram:41")]).await.unwrap();
    error(refused, 400, "invalid_value").await;
}

#[tokio::test]
async fn named_conversation_keeps_the_same_words_twice() {
    let stage = Stage::new().await;
    let named = [("x-satchel-conversation", "a")];
    let first = ask(&stage, &request("yes"), &named, 1, "Saved.").await;
    let second = ask(&stage, &request("yes"), &named, 2, "Deleted.").await;
    assert_ne!(second["id"], first["id"]);
    assert_eq!(second["choices"][0]["message"]["content"], "Deleted.");
}

#[tokio::test]
async fn named_conversation_has_its_own_model_and_instructions() {
    let choice = |name: &str| satchel_web::PageCommandChoice {
        name: name.into(),
        description: String::new(),
        inputs: Vec::new(),
    };
    let stage = Stage::with(|settings| {
        settings.model = "small".into();
        settings.commands.push(satchel_web::PageCommand {
            name: "model".into(),
            description: String::new(),
            choices: vec![choice("small"), choice("large")],
        });
    })
    .await;
    let named = [("x-satchel-conversation", "a")];
    let with_model = |model: &str| json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
    let large = post(&stage, &with_model("large"), &named).await.unwrap();
    assert_eq!(error(large, 400, "unsupported_parameter").await["param"], "model");
    for role in ["system", "developer"] {
        let body =
            json!({"messages": [{"role": role, "content": "You are a pirate."}, {"role": "user", "content": "hi"}]});
        let pirate = post(&stage, &body, &named).await.unwrap();
        assert_eq!(error(pirate, 400, "unsupported_parameter").await["param"], "messages");
    }
    assert!(stage.taken().is_empty(), "nothing of it was stored");
    ask(&stage, &with_model("small"), &named, 1, "Hi.").await;
}

#[tokio::test]
async fn reply_files_are_links_that_open() {
    let stage = Stage::new().await;
    let waiting = post(&stage, &request("draw"), &[]);
    stored(&stage, 1).await;
    let made = stage.made("a[1].txt", "drawn").await;
    stage.reply("Here.", vec![made]).await;
    let content = read(waiting.await.unwrap()).await["choices"][0]["message"]["content"].clone();
    let content = content.as_str().unwrap();
    let (text, url) = content.split_once("](").unwrap();
    assert!(text.starts_with("Here.\n\n[a_1_.txt"), "{content}");
    let opened = stage.visitor.get(url.trim_end_matches(')')).send().await.unwrap();
    assert_eq!(opened.text().await.unwrap(), "drawn");
}

/// What the model reads it may pass on to others, and what is stored is in backups.
#[tokio::test]
async fn links_of_earlier_replies_are_not_stored() {
    let stage = Stage::new().await;
    let waiting = post(&stage, &request("draw"), &[]);
    stored(&stage, 1).await;
    let made = stage.made("a.txt", "drawn").await;
    stage.reply("Here.", vec![made]).await;
    let content = read(waiting.await.unwrap()).await["choices"][0]["message"]["content"].clone();
    assert!(content.as_str().unwrap().contains("/links/"), "{content}");
    let body = json!({"messages": [
        {"role": "system", "content": content.clone()},
        {"role": "user", "content": "draw"},
        {"role": "assistant", "content": content.clone()},
        {"role": "user", "content": content},
    ]});
    ask(&stage, &body, &[], 2, "I see.").await;
    let message = stage.taken().pop().unwrap();
    assert!(message.text.contains("(a link)"), "{}", message.text);
    let message = serde_json::to_string(&message).unwrap();
    assert!(!message.contains("/links/"), "{message}");
}

#[tokio::test]
async fn counted_retry_joins_and_new_call_does_not() {
    let stage = Stage::new().await;
    let count = |count| [("x-stainless-retry-count", count)];
    let first = ask(&stage, &request("time?"), &count("0"), 1, "Noon.").await;
    let retried = read(post(&stage, &request("time?"), &count("1")).await.unwrap()).await;
    assert_eq!((&retried["id"], &retried["choices"]), (&first["id"], &first["choices"]));
    let second = ask(&stage, &request("time?"), &count("0"), 2, "Later.").await;
    assert_ne!(second["id"], first["id"], "it is asked once more");
    assert_eq!(second["choices"][0]["message"]["content"], "Later.");
    let retried = read(post(&stage, &request("time?"), &count("2")).await.unwrap()).await;
    assert_eq!(retried["id"], second["id"], "of the second call");
    assert_eq!(stage.taken().len(), 2);
}

#[tokio::test]
async fn idempotency_key_is_one_turn() {
    let stage = Stage::new().await;
    let key = [("idempotency-key", "k1")];
    let first = ask(&stage, &request("save it"), &key, 1, "Saved.").await;
    let retried = read(post(&stage, &request("save it"), &key).await.unwrap()).await;
    assert_eq!(retried["id"], first["id"]);
    let other = post(&stage, &request("delete it"), &key).await.unwrap();
    error(other, 422, "idempotency_key_reused").await;
    let named = [("idempotency-key", "k1"), ("x-satchel-conversation", "a")];
    let elsewhere = ask(&stage, &request("save it"), &named, 3, "Saved here.").await;
    assert_ne!(elsewhere["id"], first["id"]);
}

#[tokio::test]
async fn same_body_joins_a_running_turn() {
    let stage = Stage::new().await;
    let waiting = [post(&stage, &request("hello"), &[]), post(&stage, &request("hello"), &[])];
    satchel_wait::wait_until_async("a message", async || !stage.taken().is_empty()).await;
    let third = post(&stage, &request("hello"), &[]);
    stage.reply("Hi.", Vec::new()).await;
    let mut ids = Vec::new();
    for waiting in waiting.into_iter().chain([third]) {
        ids.push(read(waiting.await.unwrap()).await["id"].clone());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let conversation: ConversationId = stage.taken()[0].conversation.clone();
    let turns = stage.ledger.turns(&TurnQuery { conversation, before: None, limit: 9 }).await.unwrap();
    assert_eq!(turns.len(), 1);
}

#[tokio::test]
async fn stream_has_the_text_once_and_an_end() {
    let stage = Stage::new().await;
    let body = json!({"stream": true, "messages": [{"role": "user", "content": "hello"}]});
    let mut response = post(&stage, &body, &[]).await.unwrap();
    assert_eq!(header(&response, "content-type"), "text/event-stream");
    stored(&stage, 1).await;
    let conversation = stage.taken()[0].conversation.clone();
    let turns = TurnQuery { conversation: conversation.clone(), before: None, limit: 1 };
    let turn: TurnId = stage.ledger.turns(&turns).await.unwrap()[0].id;
    let delta = |message, text: &str| BusEvent::TextDelta {
        conversation: conversation.clone(),
        turn,
        message,
        text: text.into(),
    };
    stage.publish(delta(0, "Let me look.")).await;
    stage.publish(delta(1, "Hel")).await;
    let mut received = String::new();
    while !received.contains("Hel") {
        received.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().expect("it goes on")));
    }
    stage.reply("Hello.", Vec::new()).await;
    received.push_str(&response.text().await.unwrap());
    let data: Vec<&str> = received.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(data.last(), Some(&"[DONE]"));
    let chunks: Vec<Value> = data[..data.len() - 1].iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "Let me look.\n\nHello.");
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"]));
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

/// The finished reply has the text before the tool, too. The format `text` asks for nothing else.
#[tokio::test]
async fn stream_and_reply_have_the_same_texts() {
    for format in [json!(null), json!({"type": "text"})] {
        let stage = Stage::new().await;
        let messages = json!([{"role": "user", "content": "save the list"}]);
        let body = json!({"stream": true, "response_format": format, "messages": messages});
        let mut response = post(&stage, &body, &[]).await.unwrap();
        stored(&stage, 1).await;
        let conversation = stage.taken()[0].conversation.clone();
        let turns = TurnQuery { conversation: conversation.clone(), before: None, limit: 1 };
        let turn: TurnId = stage.ledger.turns(&turns).await.unwrap()[0].id;
        for (message, text) in [(0, "Milk and bread. "), (1, "\nSaved.")] {
            let text = text.to_owned();
            stage.publish(BusEvent::TextDelta { conversation: conversation.clone(), turn, message, text }).await;
        }
        let mut received = String::new();
        while !received.contains("Saved.") {
            received.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().expect("it goes on")));
        }
        stage.reply("Milk and bread.\n\nSaved.", Vec::new()).await;
        received.push_str(&response.text().await.unwrap());
        let data = received.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        let chunks = data.map(|data| serde_json::from_str::<Value>(data).unwrap());
        let text: String =
            chunks.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect();
        assert_eq!(text, "Milk and bread.\n\nSaved.", "{format}");
    }
}

#[tokio::test]
async fn errors_have_the_shape_that_clients_know() {
    let stage = Stage::new().await;
    let stranger = stage.visitor.post(stage.url("/v1/chat/completions")).json(&request("hi")).send().await.unwrap();
    assert_eq!(header(&stranger, "www-authenticate"), "Bearer");
    assert_eq!(error(stranger, 401, "unauthorized").await["type"], "authentication_error");
    let tools = json!({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]});
    let tools = error(post(&stage, &tools, &[]).await.unwrap(), 400, "unsupported_parameter").await;
    assert_eq!((&tools["param"], &tools["type"]), (&json!("tools"), &json!("invalid_request_error")));
    let mut model = request("x");
    model["model"] = json!("gpt-9");
    assert!(
        error(post(&stage, &model, &[]).await.unwrap(), 404, "model_not_found").await["message"]
            .as_str()
            .unwrap()
            .contains("gpt-9")
    );
    let broken = stage.post("/v1/chat/completions").header("content-type", "application/json").body("{");
    error(broken.send().await.unwrap(), 400, "invalid_value").await;
    let part = json!({"type": "file", "file": {"filename": "a", "file_data": "aGk="}});
    let files = json!({"messages": [{"role": "user", "content": [part, part, part, part]}]});
    error(post(&stage, &files, &[]).await.unwrap(), 400, "invalid_value").await;
    let long =
        error(post(&stage, &request(&"x".repeat((1 << 20) + 1)), &[]).await.unwrap(), 400, "invalid_value").await;
    assert_eq!(long["param"], "messages[0]");
    error(stage.get("/v1/embeddings").await, 404, "unknown_url").await;
    error(stage.get("/v1/chat/completions").await, 404, "unknown_url").await;
    assert!(stage.taken().is_empty(), "nothing of it was stored");
}

#[tokio::test]
async fn models_are_listed_with_those_that_can_be_chosen() {
    let stage = Stage::with(|settings| {
        let choice = |name: &str| satchel_web::PageCommandChoice {
            name: name.into(),
            description: String::new(),
            inputs: Vec::new(),
        };
        settings.commands.push(satchel_web::PageCommand {
            name: "model".into(),
            description: String::new(),
            choices: vec![choice("large")],
        });
    })
    .await;
    let models = stage.json("/v1/models").await;
    let ids: Vec<_> = models["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    assert_eq!(ids, ["satchel", "large"]);
    assert_eq!(stage.json("/v1/models/large").await["object"], "model");
    error(stage.get("/v1/models/small").await, 404, "model_not_found").await;
    let mut body = request("hi");
    body["model"] = json!("large");
    ask(&stage, &body, &[], 1, "Hi.").await;
    assert_eq!(stage.taken()[0].context.as_ref().unwrap().model.as_deref(), Some("large"));
}
