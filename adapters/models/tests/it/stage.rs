//! What the tests have in common: a fake server, models that ask it, files, and requests.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::{AttachmentId, AttachmentSource, Filename, MediaInfo, Visibility};
use satchel_fake_kit::FaultyBlobs;
use satchel_fake_model::{FakeModelServer, ModelWire};
use satchel_models::{ModelProvider, ModelSettings, RemoteModel, RequestPolicy};
use satchel_ports::{
    BlobHint, Blobs, LanguageModel, ModelError, ModelEvent, ModelFile, ModelMessage, ModelRequest, SafetyTier,
    ToolSpec,
    language_model::{ModelToolCall, TokenUsage},
};
use secrecy::SecretString;
use serde_json::json;
use uuid::Uuid;

/// A picture of one red pixel.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde";

/// Enough of a PDF to be taken for one.
pub(crate) const PDF: &[u8] = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n";

/// A server and what the models that ask it need.
pub(crate) struct Stage {
    pub(crate) server: FakeModelServer,
    pub(crate) blobs: Arc<FaultyBlobs>,
}

#[derive(Debug, Default)]
pub(crate) struct ModelAnswer {
    pub(crate) texts: Vec<String>,
    pub(crate) calls: Vec<ModelToolCall>,
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) done: bool,
    pub(crate) error: Option<ModelError>,
}

impl ModelAnswer {
    pub(crate) fn text(&self) -> String {
        self.texts.concat()
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self { server: FakeModelServer::start().await.expect("a loopback port is free"), blobs: Arc::default() }
    }

    pub(crate) fn settings(&self, wire: ModelWire) -> ModelSettings {
        ModelSettings {
            name: "main".into(),
            provider: provider(wire),
            base_url: Some(SecretString::from(self.server.base_url(wire))),
            api_key: Some(SecretString::from(FakeModelServer::KEY)),
            model: Some(wire.model().into()),
            accepts: None,
        }
    }

    pub(crate) fn model(&self, wire: ModelWire) -> RemoteModel {
        self.model_with(self.settings(wire))
    }

    pub(crate) fn model_with(&self, settings: ModelSettings) -> RemoteModel {
        self.model_with_policy(settings, short_policy())
    }

    pub(crate) fn model_with_policy(&self, settings: ModelSettings, policy: RequestPolicy) -> RemoteModel {
        RemoteModel::with_policy(settings, self.blobs.clone(), policy).expect("the settings are right")
    }

    pub(crate) async fn file(&self, name: &str, mime: &str, bytes: &[u8]) -> ModelFile {
        let content = Bytes::copy_from_slice(bytes);
        let content = stream::iter([Ok(content)]).boxed();
        let stored = self.blobs.put(content, &BlobHint::default(), u64::MAX).await.expect("memory takes them");
        ModelFile {
            id: AttachmentId(Uuid::from_u128(stored.bytes.into())),
            number: None,
            source: AttachmentSource::User,
            filename: Filename::from_untrusted(name),
            mime: mime.into(),
            bytes: stored.bytes,
            sha256: stored.sha256,
            media: MediaInfo::default(),
            visibility: Visibility::Deliver,
        }
    }
}

/// Waits that a test can afford.
pub(crate) fn short_policy() -> RequestPolicy {
    RequestPolicy {
        connect_timeout: Duration::from_secs(5),
        response_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(5),
        max_retries: 3,
        min_delay: Duration::from_millis(10),
        max_delay: Duration::from_secs(2),
    }
}

pub(crate) fn provider(wire: ModelWire) -> ModelProvider {
    match wire {
        ModelWire::OpenAiChat => ModelProvider::OpenAi,
        ModelWire::OpenAiResponses => ModelProvider::OpenAiResponses,
        ModelWire::Anthropic => ModelProvider::Anthropic,
        ModelWire::Gemini => ModelProvider::Gemini,
        ModelWire::Ollama => ModelProvider::Ollama,
    }
}

pub(crate) fn user(text: &str, attachments: Vec<ModelFile>) -> ModelMessage {
    ModelMessage::User { text: text.into(), attachments }
}

pub(crate) fn tool(call: &ModelToolCall, text: &str, attachments: Vec<ModelFile>) -> ModelMessage {
    ModelMessage::Tool { call: call.id.clone(), text: text.into(), attachments }
}

/// The tools of a request, one of them with a dot in its name.
pub(crate) fn tools() -> Arc<[ToolSpec]> {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: format!("{} for a test.", name.repeat(50)),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}, "size": {"type": "integer"}},
            "required": ["path"], "additionalProperties": false}),
        tier: SafetyTier::ReadOnly,
        time_limit: None,
    };
    [tool("file_read"), tool("attachment.save_all"), tool("web_search")].into()
}

pub(crate) fn request(messages: Vec<ModelMessage>) -> ModelRequest {
    ModelRequest { system: "Be brief.".into(), messages, tools: tools(), work_share: None }
}

/// The same call under the id that Satchel gives it.
pub(crate) fn renamed(calls: &[ModelToolCall], turn: u128) -> Vec<ModelToolCall> {
    let id = |ordinal: usize| format!("{}-{ordinal}", Uuid::from_u128(turn));
    calls.iter().enumerate().map(|(ordinal, call)| ModelToolCall { id: id(ordinal), ..call.clone() }).collect()
}

/// Asks and gathers the whole answer.
pub(crate) async fn ask(model: &dyn LanguageModel, request: ModelRequest) -> ModelAnswer {
    let mut whole = ModelAnswer::default();
    let mut events = match model.stream(&request).await {
        Ok(events) => events,
        Err(error) => return ModelAnswer { error: Some(error), ..whole },
    };
    while let Some(event) = events.next().await {
        assert!(!whole.done && whole.error.is_none(), "nothing comes after the end: {event:?}");
        match event {
            Ok(ModelEvent::Text(text)) => whole.texts.push(text),
            Ok(ModelEvent::Call(call)) => whole.calls.push(call),
            Ok(ModelEvent::Usage(usage)) => assert_eq!(whole.usage.replace(usage), None, "usage comes once"),
            Ok(ModelEvent::Done) => whole.done = true,
            Err(error) => whole.error = Some(error),
        }
    }
    whole
}
