//! The key and the address never get into errors, `Debug` or the log.

use std::{
    io,
    sync::{Arc, Mutex},
};

use satchel_fake_model::{FakeModelServer, ModelFault, ModelReply, ModelWire, ProviderErrorCase, ReplyPiece};
use secrecy::SecretString;

use crate::stage::{Stage, ask, request, user};

/// The address holds a secret too, where the wire allows it.
const QUERY: &str = "canary-in-the-address";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics with it").write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_secret_is_told_or_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(move || writer.clone()).finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let mut said = String::new();
    for wire in ModelWire::ALL {
        for reply in [
            ModelReply::fault(ModelFault::Says(ProviderErrorCase::Key)),
            ModelReply::fault(ModelFault::Says(ProviderErrorCase::Invalid)),
            ModelReply::fault(ModelFault::BadGateway),
            ModelReply::fault(ModelFault::Cut),
            ModelReply::fault(ModelFault::Moved),
            ModelReply::pieces([ReplyPiece::Text("private words".into()), ReplyPiece::Garbage]),
            ModelReply::pieces([
                ReplyPiece::Text("private words".into()),
                ReplyPiece::Trouble(ProviderErrorCase::Server),
            ]),
        ] {
            let stage = Stage::new().await;
            stage.server.reply(reply.every_time());
            let mut settings = stage.settings(wire);
            if matches!(wire, ModelWire::OpenAiChat | ModelWire::OpenAiResponses) {
                let address = format!("{}?secret={QUERY}", stage.server.base_url(wire));
                settings.base_url = Some(SecretString::from(address));
            }
            said += &format!("{settings:?}");
            let model = stage.model_with(settings.clone());
            said += &format!("{model:?}");
            let answer = ask(&model, request(vec![user("my private words", Vec::new())])).await;
            said += &format!("{:?}", answer.error.expect("it failed"));
            // The wrong key comes back in the server's answer.
            settings.api_key = Some(SecretString::from(format!("{}x", FakeModelServer::KEY)));
            said += &format!("{:?}", stage.model_with(settings.clone()).check().await);
            settings.base_url = Some(SecretString::from(format!("http://127.0.0.1:9/{QUERY}")));
            let answer = ask(&stage.model_with(settings), request(vec![user("my private words", Vec::new())])).await;
            said += &format!("{:?}", answer.error.expect("it failed"));
        }
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("a model request failed; retrying"), "the log is listened to: {log}");
    for secret in [FakeModelServer::KEY, "5e7c1a90", QUERY, "private words", "127.0.0.1:9"] {
        assert!(!said.contains(secret), "{secret} is told: {said}");
        assert!(!log.contains(secret), "{secret} is logged: {log}");
    }
}
