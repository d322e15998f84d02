//! What a person is told when something goes wrong, on every wire, and what is tried again.

use satchel_fake_model::{
    FinishReason, ModelFault, ModelReply, ModelWire, ProviderErrorCase, ReplyPiece, RequestStatus,
};
use satchel_models::{ModelProvider, ModelSettings, RemoteModel, RequestPolicy};
use satchel_ports::ModelError;
use secrecy::SecretString;

use crate::stage::{ModelAnswer, Stage, ask, request, short_policy, user};

/// Asks once, with a scripted failure that never ends.
async fn told(wire: ModelWire, reply: ModelReply) -> (ModelAnswer, usize) {
    let stage = Stage::new().await;
    stage.server.reply(reply.every_time());
    let answer = ask(&stage.model(wire), request(vec![user("hello", Vec::new())])).await;
    (answer, stage.server.requests().len())
}

fn error(answer: ModelAnswer) -> ModelError {
    let shown = format!("it failed: {answer:?}");
    answer.error.expect(&shown)
}

/// The server is another than the provider's own, as far as Satchel knows.
fn who(wire: ModelWire) -> &'static str {
    if wire == ModelWire::Ollama { "Ollama" } else { "the server" }
}

#[tokio::test]
async fn refusals_are_explained_and_transient_ones_retried() {
    for wire in ModelWire::ALL {
        let (who, model) = (who(wire), wire.model());
        for (meaning, wanted, passing) in [
            (ProviderErrorCase::Key, format!("{who} does not accept the key: check models.main.api_key"), false),
            (ProviderErrorCase::NotAllowed, format!("this key has no access to the model {model} at {who}"), false),
            (ProviderErrorCase::Model, format!("{who} has no model {model}: check models.main.model"), false),
            (
                ProviderErrorCase::Quota,
                format!(
                    "the account at {who} has no credit left, or its quota is used up: check the account's billing page"
                ),
                false,
            ),
            (
                ProviderErrorCase::ContextTooLong,
                format!("this conversation is too long for {model}; start a new one with /new"),
                false,
            ),
            (
                ProviderErrorCase::TooLarge,
                format!("this turn's text and files are too large for {who}; send less at once"),
                false,
            ),
            (ProviderErrorCase::Filtered, format!("{who} blocked the answer under its content policy"), false),
            (
                ProviderErrorCase::NoTools,
                format!("the model {model} can't use tools: choose another model in models.main.model"),
                false,
            ),
            (ProviderErrorCase::Overloaded, format!("{who} is overloaded; try again in a few minutes"), true),
            (ProviderErrorCase::Server, format!("{who} returned a server error; try again in a few minutes"), true),
        ] {
            let (answer, asked) = told(wire, ModelReply::fault(ModelFault::Says(meaning))).await;
            let error = error(answer);
            assert_eq!(error.to_string(), wanted, "{wire:?} {meaning:?}");
            assert_eq!(error.retryable, passing, "{wire:?} {meaning:?}");
            assert_eq!(asked, if passing { 4 } else { 1 }, "{wire:?} {meaning:?}: how often it was asked");
        }
    }
}

#[tokio::test]
async fn long_rate_limit_fails_fast_with_its_delay() {
    for wire in ModelWire::ALL {
        let limited = ModelReply::fault(ModelFault::RateLimit { retry_after: "300".into() });
        let (answer, asked) = told(wire, limited).await;
        let error = error(answer);
        let wanted = format!("{} has rate-limited your requests; try again in 5 minutes", who(wire));
        assert_eq!(error.reason, wanted, "{wire:?}");
        assert!(error.retryable && asked == 1, "{wire:?}: asked {asked} times");
    }
    // Gemini names the wait in the body.
    let (answer, asked) = told(ModelWire::Gemini, ModelReply::fault(ModelFault::Says(ProviderErrorCase::Rate))).await;
    let wanted = "the server has rate-limited your requests; try again in 34 seconds";
    assert_eq!((error(answer).reason.as_str(), asked), (wanted, 1));
}

#[tokio::test]
async fn what_no_provider_says_is_told_too() {
    for wire in ModelWire::ALL {
        let who = who(wire);
        for (fault, wanted, times) in [
            (ModelFault::BadGateway, format!("{who} returned a server error; try again in a few minutes"), 4),
            (ModelFault::Cut, "its answer was cut off in the middle".to_owned(), 4),
            (
                ModelFault::Moved,
                format!("{who} redirects to another address: set models.main.base_url to that address"),
                1,
            ),
        ] {
            let (answer, asked) = told(wire, ModelReply::fault(fault.clone())).await;
            assert_eq!((error(answer).to_string(), asked), (wanted, times), "{wire:?} {fault:?}");
        }
        let (answer, _) = told(wire, ModelReply::fault(ModelFault::Page)).await;
        let error = error(answer);
        let unreadable = format!("{who} sent an answer that could not be understood");
        assert!(
            [unreadable.as_str(), "its answer was cut off in the middle"].contains(&error.reason.as_str()),
            "{wire:?} {error}"
        );
        assert!(error.retryable, "{wire:?}");
    }
}

/// A stream that was cut is an error, and what came before it is not said again.
#[tokio::test]
async fn stream_cut_midway_is_retryable_error() {
    for wire in ModelWire::ALL {
        for (piece, wanted) in [
            (ReplyPiece::Cut, "its answer was cut off in the middle".to_owned()),
            (ReplyPiece::StopShort, "its answer was cut off in the middle".to_owned()),
            (ReplyPiece::Garbage, format!("{} sent an answer that could not be understood", who(wire))),
            (
                ReplyPiece::Trouble(ProviderErrorCase::Overloaded),
                format!("{} is overloaded; try again in a few minutes", who(wire)),
            ),
            (
                ReplyPiece::Trouble(ProviderErrorCase::Server),
                format!("{} returned a server error; try again in a few minutes", who(wire)),
            ),
        ] {
            let shown = format!("{wire:?} {piece:?}");
            let (answer, asked) = told(wire, ModelReply::pieces([ReplyPiece::Text("So f".into()), piece])).await;
            assert_eq!((answer.text().as_str(), asked), ("So f", 1), "{shown}");
            let error = error(answer);
            assert_eq!((error.to_string(), error.retryable), (wanted, true), "{shown}");
        }
    }
}

/// Nothing was said yet, so the model is asked again.
#[tokio::test]
async fn stream_broken_before_first_delta_is_retried() {
    for wire in ModelWire::ALL {
        for piece in [ReplyPiece::Cut, ReplyPiece::StopShort, ReplyPiece::Trouble(ProviderErrorCase::Overloaded)] {
            let stage = Stage::new().await;
            stage.server.reply(ModelReply::pieces([piece.clone()]));
            stage.server.reply(ModelReply::text("Here I am."));
            let answer = ask(&stage.model(wire), request(vec![user("hello", Vec::new())])).await;
            assert_eq!((answer.text().as_str(), answer.error), ("Here I am.", None), "{wire:?} {piece:?}");
            assert_eq!(stage.server.requests().len(), 2, "{wire:?} {piece:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_the_filter_ends_is_told() {
    for wire in ModelWire::ALL.into_iter().filter(|wire| *wire != ModelWire::OpenAiResponses) {
        let (answer, _) = told(wire, ModelReply::text("Take two ").ending(FinishReason::Filtered)).await;
        assert_eq!(answer.text(), "Take two ", "{wire:?}");
        let error = error(answer);
        let wanted = format!("{} blocked the answer under its content policy", who(wire));
        assert_eq!((error.to_string(), error.retryable), (wanted, false), "{wire:?}");
    }
}

#[tokio::test]
async fn provider_refusal_is_quoted_without_secrets() {
    let stage = Stage::new().await;
    let mut settings = stage.settings(ModelWire::OpenAiChat);
    // A server of another kind at the address: everything is refused with words of its own.
    settings.provider = ModelProvider::OpenAiResponses;
    let mut broken = request(vec![user("hello", Vec::new())]);
    broken.tools = broken
        .tools
        .iter()
        .map(|tool| satchel_ports::ToolSpec { parameters: serde_json::json!({"type": "string"}), ..tool.clone() })
        .collect();
    let error = error(ask(&stage.model_with(settings), broken).await);
    assert_eq!(
        error.reason,
        "the server refused the request (400): Invalid schema for function 'file_read': schema must be of 'type: \
         \"object\"'"
    );
    assert!(!error.retryable);
    assert!(matches!(stage.server.last().status, RequestStatus::Refused(_)));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told() {
    // It has a port and does not listen.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = deaf.local_addr().unwrap();
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let mut settings = stage.settings(wire);
        settings.base_url = Some(SecretString::from(format!("http://{closed}/v1")));
        let error = error(ask(&stage.model_with(settings.clone()), request(vec![user("hello", Vec::new())])).await);
        let wanted = format!("{} can't be reached: check that the server runs, and models.main.base_url", who(wire));
        assert_eq!((error.to_string(), error.retryable), (wanted, true), "{wire:?}");
        settings.base_url = Some(SecretString::from("http://no-such-host.invalid/v1"));
        let model = stage.model_with_policy(settings, RequestPolicy { max_retries: 0, ..short_policy() });
        let unresolved = ask(&model, request(vec![user("hello", Vec::new())])).await.error.unwrap();
        assert!(unresolved.reason.contains("can't be reached"), "{wire:?} {unresolved}");
    }
}

#[tokio::test]
async fn a_wrong_address_is_told() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let mut settings = stage.settings(wire);
        settings.base_url = Some(SecretString::from(stage.server.base_url(ModelWire::Ollama) + "nowhere/"));
        let error = error(ask(&stage.model_with(settings), request(vec![user("hello", Vec::new())])).await);
        let wanted = "the server at that address does not offer this API: check models.main.base_url";
        assert_eq!((error.to_string().as_str(), error.retryable), (wanted, false), "{wire:?}");
    }
}

/// What answers without encryption where encryption is asked for is no server.
#[tokio::test]
async fn an_encrypted_way_that_leads_nowhere_is_told() {
    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}/v1/", plain.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = plain.accept().await {
            drop(stream);
        }
    });
    let stage = Stage::new().await;
    let settings =
        ModelSettings { base_url: Some(SecretString::from(address)), ..stage.settings(ModelWire::OpenAiChat) };
    match RemoteModel::with_policy(settings, stage.blobs.clone(), short_policy()) {
        Ok(model) => {
            let error = error(ask(&model, request(vec![user("hello", Vec::new())])).await);
            assert!(error.reason.starts_with("the server can't be reached") && error.retryable, "{error}");
        }
        Err(error) => assert!(error.to_string().contains("ca-certificates"), "{error}"),
    }
}
