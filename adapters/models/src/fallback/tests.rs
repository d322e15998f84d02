//! Tests of the order in which models are asked.

use std::sync::Mutex;

use satchel_local::{
    ScriptedModel,
    scripted_model::{ModelScript, ScriptedAnswer, ScriptedFailure, ScriptedPiece},
};
use satchel_ports::{ModelEvent, ModelMessage};

use super::*;

/// A model that notes that it was asked.
struct Noted {
    name: &'static str,
    inner: ScriptedModel,
    asked: Arc<Mutex<Vec<&'static str>>>,
}

#[async_trait]
impl LanguageModel for Noted {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        self.asked.lock().unwrap().push(self.name);
        self.inner.stream(request).await
    }
}

fn request() -> ModelRequest {
    let messages = vec![ModelMessage::User { text: "hi".into(), attachments: Vec::new() }];
    ModelRequest { system: String::new(), messages, tools: [].into(), work_share: None }
}

fn refusing(reason: &str, retryable: bool) -> ScriptedAnswer {
    ScriptedAnswer { refuse: Some(ScriptedFailure { reason: reason.into(), retryable }), ..ScriptedAnswer::default() }
}

fn saying(pieces: Vec<ScriptedPiece>) -> ScriptedAnswer {
    ScriptedAnswer { pieces, ..ScriptedAnswer::default() }
}

/// Asks models that answer so, in this order; returns the text, the error and who was asked.
async fn ask(answers: Vec<ScriptedAnswer>) -> (String, Option<ModelError>, Vec<&'static str>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let names = ["first", "second", "third"];
    let models = answers.into_iter().zip(names).map(|(answer, name)| {
        let inner = ScriptedModel::new(ModelScript { answers: vec![answer], ..ModelScript::default() });
        Arc::new(Noted { name, inner, asked: asked.clone() }) as Arc<dyn LanguageModel>
    });
    let fallback = FallbackModel::new(models.collect());
    let (mut text, mut error) = (String::new(), None);
    match fallback.stream(&request()).await {
        Ok(mut events) => {
            while let Some(event) = events.next().await {
                match event {
                    Ok(ModelEvent::Text(piece)) => text.push_str(&piece),
                    Ok(_) => {}
                    Err(failed) => error = Some(failed),
                }
            }
        }
        Err(failed) => error = Some(failed),
    }
    let asked = asked.lock().unwrap().clone();
    (text, error, asked)
}

#[tokio::test]
async fn the_first_that_begins_answers() {
    let words = || saying(vec![ScriptedPiece::Text("Here.".into())]);
    for (answers, wanted) in [
        (vec![words(), words()], vec!["first"]),
        (vec![refusing("no key", false), words(), words()], vec!["first", "second"]),
        (
            vec![saying(vec![ScriptedPiece::Fail(ScriptedFailure { reason: "cut".into(), retryable: true })]), words()],
            vec!["first", "second"],
        ),
        (
            vec![saying(vec![ScriptedPiece::BreakOff]), refusing("down", true), words()],
            vec!["first", "second", "third"],
        ),
    ] {
        let (text, error, asked) = ask(answers).await;
        assert_eq!((text.as_str(), error, asked), ("Here.", None, wanted));
    }
}

#[tokio::test]
async fn a_model_that_has_begun_is_not_replaced() {
    let half = vec![
        ScriptedPiece::Text("So f".into()),
        ScriptedPiece::Fail(ScriptedFailure { reason: "cut".into(), retryable: true }),
    ];
    let (text, error, asked) = ask(vec![saying(half), saying(vec![ScriptedPiece::Text("no".into())])]).await;
    assert_eq!((text.as_str(), error.unwrap().reason.as_str(), asked), ("So f", "cut", vec!["first"]));
}

#[tokio::test]
async fn when_nobody_answers_every_reason_is_told() {
    let (_, error, asked) = ask(vec![refusing("no key", false), refusing("down", true)]).await;
    let error = error.unwrap();
    assert_eq!(error.reason, "first: no key; second: down");
    assert!(error.retryable, "one of them may be back soon");
    assert_eq!(asked, ["first", "second"]);
    let (_, error, _) = ask(vec![refusing("no key", false)]).await;
    assert_eq!(
        error,
        Some(ModelError { reason: "no key".into(), retryable: false, remedy: None }),
        "one alone needs no name"
    );
    let (_, error, _) = ask(Vec::new()).await;
    assert_eq!(error.unwrap().reason, "no model is configured");
}

#[test]
fn remedies_of_all_models_reach_the_owner() {
    let failed = |name: &str, reason: &str, remedy: Option<&str>| {
        let error = ModelError { reason: reason.into(), retryable: false, remedy: remedy.map(str::to_owned) };
        (name.to_owned(), error)
    };
    let error = combine_errors(vec![failed("first", "no key", Some("set it")), failed("second", "down", None)]);
    assert_eq!(error.owner_message(), "first: no key; second: down: for first, set it");
    assert_eq!(error.public_message(), "first: no key; second: down; ask the person who runs this bot");
}
