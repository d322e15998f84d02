//! A model that answers garbage, dies in the middle, calls what there isn't, and never comes to an end.

use std::{sync::Arc, time::Duration};

use satchel_domain::Ending;
use satchel_local::{
    ModelScript, ScriptedModel,
    scripted_model::{AnswerOrder, ScriptedAnswer, ScriptedFailure, ScriptedPiece},
};
use satchel_ports::{ModelMessage, ModelRequest, ledger::TurnRecord};
use satchel_system::crash::ChannelAdapter;
use serde_json::{Value, json};

use crate::product::{Product, ProductSetup};

/// What the model says once it has come to its senses.
const RECOVERED_TEXT: &str = "All is well again.";

/// A misbehaviour, how the turn ends, and what the person reads.
struct ModelCase {
    name: &'static str,
    answers: Vec<ScriptedAnswer>,
    ending: &'static str,
    expected_texts: &'static [&'static str],
}

fn scripted_answer(pieces: Vec<ScriptedPiece>) -> ScriptedAnswer {
    ScriptedAnswer { pieces, ..ScriptedAnswer::default() }
}

fn text_piece(body: &str) -> ScriptedPiece {
    ScriptedPiece::Text(body.to_owned())
}

fn call_piece(name: &str, arguments: Value) -> ScriptedPiece {
    ScriptedPiece::Call { name: name.to_owned(), arguments }
}

fn failure(reason: &str, retryable: bool) -> ScriptedFailure {
    ScriptedFailure { reason: reason.to_owned(), retryable }
}

/// A turn of a misbehaving model, what the person reads and what the model was asked; and a turn after it.
async fn run_two_turns(case: &str, answers: Vec<ScriptedAnswer>) -> (TurnRecord, Vec<String>, Vec<ModelRequest>) {
    let mut setup = ProductSetup::for_platform(ChannelAdapter::Telegram);
    setup.behaviour.agent.model_idle_timeout = Duration::from_millis(300);
    setup.behaviour.agent.tool_timeout = Duration::from_secs(5);
    let mut answers: Vec<ScriptedAnswer> =
        answers.into_iter().map(|answer| ScriptedAnswer { when: Some("misbehave".to_owned()), ..answer }).collect();
    answers.push(ScriptedAnswer {
        when: Some("behave yourself".to_owned()),
        ..scripted_answer(vec![text_piece(RECOVERED_TEXT)])
    });
    let model = Arc::new(ScriptedModel::new(ModelScript { pick: AnswerOrder::InOrder, answers }).with_request_log(2));
    let product = Product::start(setup, Arc::clone(&model) as _).await;
    let record = product.send("misbehave", Vec::new()).await;
    let texts = product.texts();
    let requests = model.requests();
    let after = product.send("behave yourself", Vec::new()).await;
    assert_eq!(after.ending, Some(Ending::Done), "{case}: the next turn is like any other");
    assert_eq!(product.texts().last().map(String::as_str), Some(RECOVERED_TEXT), "{case}");
    assert_eq!(record.routing_errors(), [], "{case}");
    product.stop().await;
    (record, texts, requests)
}

#[tokio::test]
async fn failed_model_is_reported_and_partial_text_delivered() {
    let cases = [
        ModelCase {
            name: "can't be asked",
            answers: vec![ScriptedAnswer {
                refuse: Some(failure("the key was revoked", false)),
                ..scripted_answer(vec![])
            }],
            ending: "model_failed",
            expected_texts: &["couldn't finish", "the key was revoked"],
        },
        ModelCase {
            name: "breaks off in the middle",
            answers: vec![scripted_answer(vec![text_piece("The first half of a th"), ScriptedPiece::BreakOff])],
            ending: "model_failed",
            expected_texts: &["The first half of a th", "couldn't finish"],
        },
        ModelCase {
            name: "fails in the middle",
            answers: vec![scripted_answer(vec![
                text_piece("Half. "),
                ScriptedPiece::Fail(failure("the server burns", false)),
            ])],
            ending: "model_failed",
            expected_texts: &["Half.", "the server burns"],
        },
        ModelCase {
            name: "falls silent in the middle",
            answers: vec![scripted_answer(vec![text_piece("Wait for it"), ScriptedPiece::Hang])],
            ending: "model_failed",
            expected_texts: &["Wait for it", "couldn't finish"],
        },
        ModelCase {
            name: "says nothing",
            answers: vec![scripted_answer(vec![])],
            ending: "done",
            expected_texts: &["without anything to send"],
        },
        ModelCase {
            name: "says nothing visible",
            answers: vec![scripted_answer(vec![text_piece(" \n\t ")])],
            ending: "done",
            expected_texts: &["without anything to send"],
        },
        ModelCase {
            name: "says controls",
            answers: vec![scripted_answer(vec![text_piece("\u{0}\u{1b}[2J\u{202e}seen\u{7f}")])],
            ending: "done",
            expected_texts: &["seen"],
        },
        ModelCase {
            name: "writes broken markup",
            answers: vec![scripted_answer(vec![text_piece("```rust\nfn main() {\n**bold `code <b>&amp; [link](")])],
            ending: "done",
            expected_texts: &["fn main()", "[link]("],
        },
    ];
    for ModelCase { name, answers, ending, expected_texts } in cases {
        let (record, texts, _) = run_two_turns(name, answers).await;
        assert_eq!(record.ending.as_ref().map(Ending::as_str), Some(ending), "{name}");
        let text = texts.join("\n").to_lowercase();
        for words in expected_texts {
            assert!(text.contains(&words.to_lowercase()), "{name}: no {words:?} in {texts:?}");
        }
    }
}

#[tokio::test]
async fn invalid_tool_call_is_answered_with_valid_options() {
    let deep = (0..200).fold(json!(1), |inside, _| json!([inside]));
    let cases = [
        ("no such tool", "launch_rocket", json!({}), "launch_rocket"),
        ("an empty name", "", json!({}), "no tool"),
        ("a name of controls", "file\u{0}\n_read", json!({}), "no tool"),
        ("arguments of nothing", "file_read", Value::Null, "json object"),
        ("arguments that are a list", "file_read", json!([1, 2]), "error"),
        ("arguments that are text", "attachment_save", json!("{\"index\":"), "error"),
        ("a wrong type", "attachment_save", json!({ "index": "first", "path": "/shared/a" }), "index"),
        ("an unknown argument", "file_list", json!({ "paht": "/shared" }), "paht"),
        ("an index out of bounds", "attachment_save", json!({ "index": 7, "path": "/shared/a" }), "no attachments"),
        ("a path out of the workspace", "file_read", json!({ "path": "/etc/passwd" }), "outside the workspace"),
        ("a foreign id", "attachment.get", json!({ "id": "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e" }), "error"),
        ("arguments without bottom", "file_write", deep, "json object"),
    ];
    for (name, tool, arguments, expected) in cases {
        let misbehaviour = scripted_answer(vec![call_piece(tool, arguments)]);
        let (record, texts, requests) =
            run_two_turns(name, vec![misbehaviour, scripted_answer(vec![text_piece("I see.")])]).await;
        assert_eq!(record.ending, Some(Ending::Done), "{name}");
        assert_eq!(texts, ["I see."], "{name}: the person isn't bothered with it");
        let read = requests.last().map(|request| request.messages.as_slice()).unwrap_or_default();
        let to_model = read.iter().rev().find_map(|message| match message {
            ModelMessage::Tool { text, .. } => Some(text.to_lowercase()),
            _ => None,
        });
        let to_model = to_model.unwrap_or_else(|| panic!("{name}: the model was answered: {requests:#?}"));
        assert!(to_model.starts_with("error"), "{name}: {to_model}");
        assert!(to_model.contains(expected), "{name}: no {expected:?} in {to_model}");
    }
}

#[tokio::test]
async fn endless_model_is_stopped_and_results_are_sent() {
    let listing = || call_piece("file_list", json!({ "path": "/shared" }));
    let made = call_piece("file_write", json!({ "path": "/shared/made.txt", "content": "made" }));
    let attached = call_piece("attachment.add", json!({ "paths": ["/shared/made.txt"] }));
    let endless = |count: usize| (0..count).map(|_| scripted_answer(vec![listing()]));
    let mut with_file = vec![scripted_answer(vec![made]), scripted_answer(vec![attached])];
    with_file.extend(endless(40));
    let cases = [
        ("asks for ever", endless(40).collect(), "model calls", 0),
        ("asks for ever after making a file", with_file, "model calls", 1),
        ("asks for everything at once", vec![scripted_answer((0..200).map(|_| listing()).collect())], "tool calls", 0),
    ];
    for (name, answers, budget, files) in cases {
        let (record, texts, _) = run_two_turns(name, answers).await;
        assert_eq!(record.ending.as_ref().map(Ending::as_str), Some("budget"), "{name}");
        assert!(texts.join("\n").contains(budget), "{name}: {texts:?}");
        let response = record.response.unwrap_or_default();
        assert_eq!(response.attachments.len(), files, "{name}");
    }
}
