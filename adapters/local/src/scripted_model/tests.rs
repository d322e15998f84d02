//! What the scripted model promises.

use std::sync::Arc;

use futures::StreamExt;
use serde_json::json;

use super::*;

fn user(text: &str) -> ModelMessage {
    ModelMessage::User { text: text.to_owned(), attachments: vec![] }
}

fn assistant(text: &str) -> ModelMessage {
    ModelMessage::Assistant { text: text.to_owned(), calls: vec![] }
}

fn request(messages: Vec<ModelMessage>) -> ModelRequest {
    ModelRequest { system: String::new(), messages, tools: Arc::default(), work_share: None }
}

fn scripted(script: Value) -> ScriptedModel {
    ScriptedModel::new(serde_json::from_value(script).expect("a script"))
}

async fn answer(model: &ScriptedModel, messages: Vec<ModelMessage>) -> Vec<Result<ModelEvent, ModelError>> {
    match model.stream(&request(messages)).await {
        Ok(stream) => stream.collect().await,
        Err(error) => vec![Err(error)],
    }
}

fn text(words: &str) -> Result<ModelEvent, ModelError> {
    Ok(ModelEvent::Text(words.to_owned()))
}

#[tokio::test]
async fn scripted_answers_are_ordered_until_script_ends() {
    let model = ScriptedModel::from_texts(["one", "two"]).with_request_log(10);
    for expected in ["one", "two"] {
        assert_eq!(answer(&model, vec![user("hi")]).await, [text(expected), Ok(ModelEvent::Done)]);
    }
    let error = answer(&model, vec![user("hi")]).await.remove(0).expect_err("nothing is left");
    assert_eq!(error.reason, "the script of this model is over: none of its 2 answers is left for this request");
    assert!(!error.retryable);
    assert_eq!((model.request_count(), model.requests().len()), (3, 3));
    assert_eq!(model.requests()[0], request(vec![user("hi")]));
}

#[tokio::test]
async fn every_kind_of_piece_comes_as_written() {
    let model = scripted(json!({"answers": [
        {"pieces": [
            {"text": "Hel"}, {"wait_ms": 1}, {"text": "lo"},
            {"call": {"name": "no.such", "arguments": "not {json"}}, {"call": {"name": "b"}},
            {"usage": {"input_tokens": 1, "output_tokens": 2}}]},
        {"refuse": {"reason": "overloaded", "retryable": true}},
        {"pieces": [{"text": "a"}, {"fail": {"reason": "gone"}}, {"text": "never"}]},
        {"pieces": [{"text": "a"}, "break_off", {"text": "never"}]},
    ]}));
    let call = |at: &str, name: &str, arguments: Value| {
        Ok(ModelEvent::Call(ModelToolCall { id: at.to_owned(), name: name.to_owned(), arguments }))
    };
    let failed = |reason: &str, retryable| Err(ModelError { reason: reason.to_owned(), retryable, remedy: None });
    assert_eq!(
        answer(&model, vec![]).await,
        [
            text("Hel"),
            text("lo"),
            call("scripted-0-0", "no.such", json!("not {json")),
            call("scripted-0-1", "b", Value::Null),
            Ok(ModelEvent::Usage(TokenUsage { input_tokens: 1, output_tokens: 2 })),
            Ok(ModelEvent::Done),
        ]
    );
    assert_eq!(answer(&model, vec![]).await, [failed("overloaded", true)]);
    assert_eq!(answer(&model, vec![]).await, [text("a"), failed("gone", false)]);
    assert_eq!(answer(&model, vec![]).await, [text("a")], "broken off: no Done");
}

#[tokio::test]
async fn by_progress_the_request_alone_decides() {
    let script = json!({"pick": "by_progress", "answers": [
        {"when": "first", "pieces": [{"text": "first 0"}]},
        {"when": "second", "pieces": [{"text": "second 0"}]},
        {"when": "first", "pieces": [{"text": "first 1"}]},
    ]});
    let model = scripted(script.clone());
    let begun = vec![user("the first")];
    let gone_on = vec![user("the first"), assistant("first 0")];
    let later = vec![user("the first"), assistant("first 0"), assistant("first 1"), user("the second")];
    for _repeated in 0..2 {
        let restarted = scripted(script.clone());
        for model in [&model, &restarted] {
            assert_eq!(answer(model, gone_on.clone()).await[0], text("first 1"));
            assert_eq!(answer(model, begun.clone()).await[0], text("first 0"));
            assert_eq!(answer(model, later.clone()).await[0], text("second 0"));
        }
    }
    assert!(answer(&model, vec![user("the second"), assistant("second 0")]).await[0].is_err());
}

#[tokio::test]
async fn memory_is_bounded() {
    let model = ScriptedModel::from_texts(["one"]).with_request_log(256);
    for at in 0..300 {
        drop(model.stream(&request(vec![user(&at.to_string())])).await);
    }
    assert_eq!((model.request_count(), model.requests().len()), (300, 256));
    assert_eq!(model.requests()[0], request(vec![user("44")]), "the oldest went");
}

#[test]
fn scripts_survive_json() {
    let script = ModelScript {
        pick: AnswerOrder::ByProgress,
        answers: vec![ScriptedAnswer {
            pieces: vec![ScriptedPiece::Hang, ScriptedPiece::WaitMs(5)],
            ..ScriptedAnswer::default()
        }],
    };
    let written = serde_json::to_string(&script).expect("JSON");
    assert_eq!(written, r#"{"pick":"by_progress","answers":[{"pieces":["hang",{"wait_ms":5}]}]}"#);
    assert_eq!(serde_json::from_str::<ModelScript>(&written).expect("a script"), script);
    assert!(serde_json::from_str::<ModelScript>(r#"{"answers":[{"peices":[]}]}"#).is_err(), "a typo is told");
}
