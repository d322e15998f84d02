//! The one cheap call of `doctor` and `init`.

use std::time::Duration;

use satchel_fake_model::ModelWire;
use satchel_models::RequestPolicy;
use secrecy::SecretString;

use crate::stage::{Stage, short_policy};

#[tokio::test]
async fn a_good_model_passes() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        assert_eq!(stage.model(wire).check().await, Ok(()), "{wire:?}");
        assert!(stage.server.requests().is_empty(), "{wire:?}: no model was asked anything");
    }
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let mut wrong_key = stage.settings(wire);
        wrong_key.api_key = Some(SecretString::from("sk-wrong-canary"));
        let error = stage.model_with(wrong_key).check().await.unwrap_err();
        assert!(error.to_string().ends_with("does not accept the key: check models.main.api_key"), "{wire:?} {error}");

        let mut no_model = stage.settings(wire);
        no_model.model = Some("gpt-0".into());
        let error = stage.model_with(no_model).check().await.unwrap_err();
        assert!(error.to_string().ends_with("has no model gpt-0: check models.main.model"), "{wire:?} {error}");

        let mut nobody = stage.settings(wire);
        nobody.base_url = Some(SecretString::from("http://127.0.0.1:9/"));
        let error = stage.model_with(nobody).check().await.unwrap_err();
        assert!(error.reason.contains("can't be reached"), "{wire:?} {error}");
    }
}

/// Not every server that speaks OpenAI's language lists its models.
#[tokio::test]
async fn a_server_without_a_list_passes() {
    let stage = Stage::new().await;
    let mut settings = stage.settings(ModelWire::OpenAiChat);
    settings.base_url = Some(SecretString::from(stage.server.base_url(ModelWire::Ollama) + "nowhere/"));
    assert_eq!(stage.model_with(settings).check().await, Ok(()));
}

#[tokio::test]
async fn a_check_ends() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", silent.local_addr().unwrap());
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let mut settings = stage.settings(wire);
        settings.base_url = Some(SecretString::from(address.clone()));
        let model = stage.model_with_policy(
            settings,
            RequestPolicy { response_timeout: Duration::from_millis(100), ..short_policy() },
        );
        let error = model.check().await.unwrap_err();
        assert!(error.reason.ends_with("did not start to answer in time"), "{wire:?} {error}");
    }
}
