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
const WELL: &str = "All is well again.";

/// A misbehaviour, how the turn ends, and what the person reads.
struct Case {
    name: &'static str,
    answers: Vec<ScriptedAnswer>,
    ending: &'static str,
    told: &'static [&'static str],
}

fn answer(pieces: Vec<ScriptedPiece>) -> ScriptedAnswer {
    ScriptedAnswer { pieces, ..ScriptedAnswer::default() }
}

fn text(words: &str) -> ScriptedPiece {
    ScriptedPiece::Text(words.to_owned())
}

fn call(name: &str, arguments: Value) -> ScriptedPiece {
    ScriptedPiece::Call { name: name.to_owned(), arguments }
}

fn failure(reason: &str, retryable: bool) -> ScriptedFailure {
    ScriptedFailure { reason: reason.to_owned(), retryable }
}

/// A turn of a misbehaving model, what the person reads and what the model was asked; and a turn after it.
async fn talk(case: &str, answers: Vec<ScriptedAnswer>) -> (TurnRecord, Vec<String>, Vec<ModelRequest>) {
    let mut setup = ProductSetup::for_platform(ChannelAdapter::Telegram);
    setup.behaviour.agent.model_silence = Duration::from_millis(300);
    setup.behaviour.agent.tool_time = Duration::from_secs(5);
    let mut answers: Vec<ScriptedAnswer> =
        answers.into_iter().map(|answer| ScriptedAnswer { when: Some("misbehave".to_owned()), ..answer }).collect();
    answers.push(ScriptedAnswer { when: Some("behave yourself".to_owned()), ..answer(vec![text(WELL)]) });
    let model = Arc::new(ScriptedModel::new(ModelScript { pick: AnswerOrder::InOrder, answers }).with_request_log(2));
    let product = Product::start(setup, Arc::clone(&model) as _).await;
    let record = product.send("misbehave", Vec::new()).await;
    let told = product.texts();
    let requests = model.requests();
    let after = product.send("behave yourself", Vec::new()).await;
    assert_eq!(after.ending, Some(Ending::Done), "{case}: the next turn is like any other");
    assert_eq!(product.texts().last().map(String::as_str), Some(WELL), "{case}");
    assert_eq!(record.routing_errors(), [], "{case}");
    product.stop().await;
    (record, told, requests)
}

#[tokio::test]
async fn failed_model_is_reported_and_partial_text_delivered() {
    let cases = [
        Case {
            name: "can't be asked",
            answers: vec![ScriptedAnswer { refuse: Some(failure("the key was revoked", false)), ..answer(vec![]) }],
            ending: "model_failed",
            told: &["couldn't finish", "the key was revoked"],
        },
        Case {
            name: "breaks off in the middle",
            answers: vec![answer(vec![text("The first half of a th"), ScriptedPiece::BreakOff])],
            ending: "model_failed",
            told: &["The first half of a th", "couldn't finish"],
        },
        Case {
            name: "fails in the middle",
            answers: vec![answer(vec![text("Half. "), ScriptedPiece::Fail(failure("the server burns", false))])],
            ending: "model_failed",
            told: &["Half.", "the server burns"],
        },
        Case {
            name: "falls silent in the middle",
            answers: vec![answer(vec![text("Wait for it"), ScriptedPiece::Hang])],
            ending: "model_failed",
            told: &["Wait for it", "couldn't finish"],
        },
        Case {
            name: "says nothing",
            answers: vec![answer(vec![])],
            ending: "done",
            told: &["without anything to send"],
        },
        Case {
            name: "says nothing visible",
            answers: vec![answer(vec![text(" \n\t ")])],
            ending: "done",
            told: &["without anything to send"],
        },
        Case {
            name: "says controls",
            answers: vec![answer(vec![text("\u{0}\u{1b}[2J\u{202e}seen\u{7f}")])],
            ending: "done",
            told: &["seen"],
        },
        Case {
            name: "writes broken markup",
            answers: vec![answer(vec![text("```rust\nfn main() {\n**bold `code <b>&amp; [link](")])],
            ending: "done",
            told: &["fn main()", "[link]("],
        },
    ];
    for Case { name, answers, ending, told } in cases {
        let (record, texts, _) = talk(name, answers).await;
        assert_eq!(record.ending.as_ref().map(Ending::as_str), Some(ending), "{name}");
        let shown = texts.join("\n").to_lowercase();
        for words in told {
            assert!(shown.contains(&words.to_lowercase()), "{name}: no {words:?} in {texts:?}");
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
    for (name, tool, arguments, answered) in cases {
        let misbehaviour = answer(vec![call(tool, arguments)]);
        let (record, texts, requests) = talk(name, vec![misbehaviour, answer(vec![text("I see.")])]).await;
        assert_eq!(record.ending, Some(Ending::Done), "{name}");
        assert_eq!(texts, ["I see."], "{name}: the person isn't bothered with it");
        let read = requests.last().map(|request| request.messages.as_slice()).unwrap_or_default();
        let to_model = read.iter().rev().find_map(|message| match message {
            ModelMessage::Tool { text, .. } => Some(text.to_lowercase()),
            _ => None,
        });
        let to_model = to_model.unwrap_or_else(|| panic!("{name}: the model was answered: {requests:#?}"));
        assert!(to_model.starts_with("error"), "{name}: {to_model}");
        assert!(to_model.contains(answered), "{name}: no {answered:?} in {to_model}");
    }
}

#[tokio::test]
async fn endless_model_is_stopped_and_results_are_sent() {
    let listing = || call("file_list", json!({ "path": "/shared" }));
    let made = call("file_write", json!({ "path": "/shared/made.txt", "content": "made" }));
    let attached = call("attachment.add", json!({ "paths": ["/shared/made.txt"] }));
    let endless = |count: usize| (0..count).map(|_| answer(vec![listing()]));
    let mut with_file = vec![answer(vec![made]), answer(vec![attached])];
    with_file.extend(endless(40));
    let cases = [
        ("asks for ever", endless(40).collect(), "model calls", 0),
        ("asks for ever after making a file", with_file, "model calls", 1),
        ("asks for everything at once", vec![answer((0..200).map(|_| listing()).collect())], "tool calls", 0),
    ];
    for (name, answers, used_up, files) in cases {
        let (record, texts, _) = talk(name, answers).await;
        assert_eq!(record.ending.as_ref().map(Ending::as_str), Some("budget"), "{name}");
        assert!(texts.join("\n").contains(used_up), "{name}: {texts:?}");
        let response = record.response.unwrap_or_default();
        assert_eq!(response.attachments.len(), files, "{name}");
    }
}
