//! A model behind the network as a `LanguageModel`: asks, asks again as long as nothing was answered, and passes on.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use backon::Retryable;
use futures::stream;
use genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatOptions, ContentPart, ReasoningEffort, Tool},
    resolver::{AuthData, Endpoint},
};
use satchel_ports::{Blobs, LanguageModel, ModelError, ModelEvent, ModelRequest, language_model::ModelStream};
use secrecy::ExposeSecret;
use tracing::{Dispatch, instrument::WithSubscriber};

use crate::{
    capabilities::FileRules,
    check,
    error::{ErrorMapper, ProviderError},
    provider_messages::{self, ProviderTurn, ResultFiles},
    reasoning::{ReasoningBlock, ReasoningCache},
    request,
    request_policy::RequestPolicy,
    response_stream::{LastFrame, ResponseStep, ResponseStream},
    settings::{ModelProvider, ModelSettings, ModelSettingsError, ModelTarget},
    tool_names::ToolNames,
};

/// A model that a server answers for.
pub struct RemoteModel {
    target: ModelTarget,
    rules: FileRules,
    patience: RequestPolicy,
    http: reqwest::Client,
    client: Client,
    blobs: Arc<dyn Blobs>,
    teller: ErrorMapper,
    thoughts: Arc<Mutex<ReasoningCache>>,
}

impl fmt::Debug for RemoteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ModelTarget { name, provider, model, .. } = &self.target;
        f.debug_struct("RemoteModel")
            .field("name", name)
            .field("provider", provider)
            .field("model", model)
            .finish_non_exhaustive()
    }
}

impl RemoteModel {
    /// A model as it is described, waited for as long as is usual with its provider.
    ///
    /// # Errors
    /// When the description has a mistake.
    pub fn new(settings: ModelSettings, blobs: Arc<dyn Blobs>) -> Result<Self, ModelSettingsError> {
        let own = settings.base_url.is_some() || settings.provider == ModelProvider::Ollama;
        Self::with_policy(
            settings,
            blobs,
            if own { RequestPolicy::with_own_server() } else { RequestPolicy::default() },
        )
    }

    /// A model that is waited for as long as the caller wants.
    ///
    /// # Errors
    /// When the description has a mistake.
    pub fn with_policy(
        settings: ModelSettings,
        blobs: Arc<dyn Blobs>,
        patience: RequestPolicy,
    ) -> Result<Self, ModelSettingsError> {
        let target = ModelTarget::new(settings)?;
        let http = http_client(&patience, target.is_encrypted, target.is_local)
            .map_err(|reason| target.error("base_url", reason))?;
        let client = Client::builder()
            .with_reqwest(http.clone())
            .build()
            .map_err(|_| target.error("provider", "failed to create the HTTP client"))?;
        let rules = FileRules::new(&target);
        let teller = ErrorMapper::new(&target);
        Ok(Self { target, rules, patience, http, client, blobs, teller, thoughts: Arc::default() })
    }

    /// Asks the server, with one cheap call, whether it is there, the key is good and the model is known.
    ///
    /// # Errors
    /// When one of these is not so, in words for a person.
    pub async fn check(&self) -> Result<(), ModelError> {
        check::check(&self.http, &self.target, &self.teller, self.patience.begin).await
    }

    /// One attempt, up to the first piece of the answer.
    async fn attempt(&self, asking: &PreparedRequest) -> Result<(ResponseStream, ResponseStep), ProviderError> {
        let thought_of = |calls: &_| {
            let thought = self.thoughts.lock().unwrap_or_else(PoisonError::into_inner).get(calls);
            let forgotten = || ReasoningBlock {
                leading: vec![ContentPart::ReasoningContent(String::new())],
                ..ReasoningBlock::default()
            };
            thought.or_else(|| self.target.needs_reasoning_echo().then(forgotten))
        };
        let provider = self.target.provider;
        let request =
            request::build(provider, &asking.system, &asking.turns, asking.tools.clone(), &*self.blobs, thought_of)
                .await;
        let last_frame = Arc::new(LastFrame::new(provider));
        let mut options = options(&self.target, &self.patience);
        options.raw_frame_sink = Some(last_frame.clone());
        // The request is serialised in here and gone with it; what is kept is one body.
        let started = self.client.exec_chat_stream(self.service(), request, Some(&options));
        let response = started
            .with_subscriber(Dispatch::none())
            .await
            .map_err(|error| self.teller.map_client_error(&error, ""))?;
        let teller = self.teller.clone();
        let mut answering = ResponseStream::new(response.stream, provider, asking.names.clone(), last_frame, teller);
        let first = answering.next().await?;
        Ok((answering, first))
    }

    fn service(&self) -> ServiceTarget {
        let ModelTarget { provider, model, address, key, .. } = &self.target;
        let kind = match (provider, key) {
            // The same wire; only this one of the client's does without a key.
            (ModelProvider::OpenAi, None) => AdapterKind::Omlx,
            (ModelProvider::OpenAi, Some(_)) => AdapterKind::OpenAI,
            (ModelProvider::OpenAiResponses, _) => AdapterKind::OpenAIResp,
            (ModelProvider::Anthropic, _) => AdapterKind::Anthropic,
            (ModelProvider::Gemini, _) => AdapterKind::Gemini,
            (ModelProvider::Ollama, _) => AdapterKind::Ollama,
        };
        let auth = match (provider, key) {
            (_, Some(key)) => AuthData::from_single(key.expose_secret()),
            (ModelProvider::OpenAi, None) => AuthData::None,
            // A server of one's own that asks for no key ignores this one.
            (_, None) => AuthData::from_single("none"),
        };
        let endpoint = Endpoint::from_owned(address.expose_secret());
        ServiceTarget { endpoint, auth, model: ModelIden::new(kind, model.as_str()) }
    }
}

/// What is asked, arranged once for all attempts.
struct PreparedRequest {
    system: String,
    turns: Vec<ProviderTurn>,
    tools: Vec<Tool>,
    names: Arc<ToolNames>,
}

#[async_trait]
impl LanguageModel for RemoteModel {
    fn name(&self) -> String {
        self.target.name.clone()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let names = Arc::new(ToolNames::new(&request.tools));
        let place = match self.target.provider {
            ModelProvider::Anthropic => ResultFiles::Inside,
            _ => ResultFiles::After,
        };
        let turns = provider_messages::build_turns(&request.messages, &self.rules, &names, place);
        let tools = request::tool_definitions(self.target.provider, &request.tools, &names);
        let asking = PreparedRequest { system: request.system.clone(), turns, tools, names };
        let longest = self.patience.longest_wait;
        let (answering, first) = (|| self.attempt(&asking))
            .retry(self.patience.backoff())
            .sleep(tokio::time::sleep)
            .when(|failure| failure.again)
            .adjust(|failure, wait| match (failure.wait, wait) {
                // The server's own number is a floor; one that is too high ends the attempts.
                (Some(asked), Some(wait)) => (asked <= longest).then(|| asked.max(wait)),
                (_, wait) => wait,
            })
            .notify(|failure, wait| {
                let reason = &failure.error.reason;
                tracing::info!(
                    model = self.target.name,
                    wait_ms = wait.as_millis(),
                    reason,
                    "a model request failed; retrying"
                );
            })
            .await
            .map_err(|failure| failure.error)?;
        let thoughts = Arc::clone(&self.thoughts);
        let state = ForwardingStream { answering: Some(answering), ready: Vec::new().into_iter(), thoughts };
        let state = state.with_step(Ok(first));
        Ok(Box::pin(stream::unfold(state, |mut state| async { state.next().await.map(|event| (event, state)) })))
    }
}

/// What is still to be passed on of an answer.
struct ForwardingStream {
    answering: Option<ResponseStream>,
    ready: std::vec::IntoIter<Result<ModelEvent, ModelError>>,
    thoughts: Arc<Mutex<ReasoningCache>>,
}

impl ForwardingStream {
    fn with_step(mut self, step: Result<ResponseStep, ProviderError>) -> Self {
        self.push_step(step);
        self
    }

    fn push_step(&mut self, step: Result<ResponseStep, ProviderError>) {
        let ready = match step {
            Ok(ResponseStep::Text(text)) => vec![Ok(ModelEvent::Text(text))],
            Ok(ResponseStep::End { events, thought }) => {
                self.answering = None;
                if let Some((calls, thought)) = thought {
                    self.thoughts.lock().unwrap_or_else(PoisonError::into_inner).insert(calls, thought);
                }
                events.into_iter().map(Ok).collect()
            }
            Err(failure) => {
                self.answering = None;
                vec![Err(failure.error)]
            }
        };
        self.ready = ready.into_iter();
    }

    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.ready.next() {
                return Some(event);
            }
            let step = self.answering.as_mut()?.next().await;
            self.push_step(step);
        }
    }
}

/// How the vendor's client shall ask.
fn options(target: &ModelTarget, patience: &RequestPolicy) -> ChatOptions {
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_tool_calls(true)
        .with_stream_header_timeout(patience.begin)
        .with_stream_read_timeout(patience.silence);
    // Anthropic wants its signed thoughts back, and some others theirs; with the rest this would ask for more than we use.
    options.capture_reasoning_content =
        Some(target.provider == ModelProvider::Anthropic || target.needs_reasoning_echo());
    // The client reads `-max` or `-medium` at the end of a name as an effort and cuts it off; `qwen-max` and
    // `mistral-medium` are names. An effort that it sends nothing for keeps it from that.
    let would_be_cut = ReasoningEffort::from_model_name(&target.model).0.is_some();
    options.reasoning_effort = match target.provider {
        ModelProvider::Gemini | ModelProvider::Anthropic => would_be_cut.then_some(ReasoningEffort::Zero),
        ModelProvider::OpenAi | ModelProvider::OpenAiResponses => would_be_cut.then_some(ReasoningEffort::Budget(0)),
        ModelProvider::Ollama => None,
    };
    // The client sends no key to Ollama; one behind a gate asks for it.
    if let Some(key) = target.key.as_ref().filter(|_| target.provider == ModelProvider::Ollama) {
        return options.with_extra_headers([("Authorization", format!("Bearer {}", key.expose_secret()))]);
    }
    options
}

/// A client that follows no redirect, because a key would be sent along, and reads certificates only where it needs
/// them.
///
/// # Errors
/// When the system has no certificates.
pub(crate) fn http_client(
    patience: &RequestPolicy,
    encrypted: bool,
    local: bool,
) -> Result<reqwest::Client, &'static str> {
    // Whoever installs a provider first has chosen for the whole process.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .connect_timeout(patience.connect)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("satchel/", env!("CARGO_PKG_VERSION")));
    let builder = if encrypted { builder } else { builder.tls_certs_only([]) };
    let builder = if local { builder.no_proxy() } else { builder };
    builder.build().map_err(|_| "the system has no root certificates; install the package ca-certificates")
}
