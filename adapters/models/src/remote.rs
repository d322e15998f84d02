//! A model behind the network as a `LanguageModel`: calls it, retries until the first delta, and forwards its events.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
use satchel_ports::{
    Blobs, ImageScaler, LanguageModel, ModelError, ModelEvent, ModelRequest,
    language_model::{InputSupport, ModelStream},
};
use secrecy::ExposeSecret;
use tracing::{Dispatch, instrument::WithSubscriber};

use crate::{
    capabilities::FileRules,
    check,
    error::{ErrorMapper, ProviderError, ProviderErrorKind},
    image_copies::ImageCopies,
    media_kind::MediaKind,
    provider_messages::{self, ProviderTurn, ResultFiles},
    reasoning::{ReasoningBlock, ReasoningCache},
    refused_files::{RefusalMemory, RefusalSearch, SentFile, sent_groups},
    relay::{Relay, RelayRoute, relay_client},
    request,
    request_policy::RequestPolicy,
    response_stream::{LastFrame, ResponseStep, ResponseStream},
    settings::{ModelProvider, ModelSettings, ModelSettingsError, ModelTarget},
    tool_names::ToolNames,
};

/// A model on a server.
pub struct RemoteModel {
    target: ModelTarget,
    rules: FileRules,
    policy: RequestPolicy,
    http: reqwest::Client,
    /// The vendor's, which reaches the provider through a relay.
    client: Client,
    blobs: Arc<dyn Blobs>,
    /// Copies of images that the model doesn't take; `None` where nothing makes any.
    copies: Option<ImageCopies>,
    error_mapper: ErrorMapper,
    reasoning: Arc<Mutex<ReasoningCache>>,
    refusals: RefusalMemory,
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
    /// A model with the usual timeouts of its provider.
    ///
    /// # Errors
    /// When a setting is invalid.
    pub fn new(settings: ModelSettings, blobs: Arc<dyn Blobs>) -> Result<Self, ModelSettingsError> {
        let is_own_server = settings.base_url.is_some() || settings.provider == ModelProvider::Ollama;
        Self::with_policy(
            settings,
            blobs,
            if is_own_server { RequestPolicy::with_own_server() } else { RequestPolicy::default() },
        )
    }

    /// A model with the caller's timeouts.
    ///
    /// # Errors
    /// When a setting is invalid.
    pub fn with_policy(
        settings: ModelSettings,
        blobs: Arc<dyn Blobs>,
        policy: RequestPolicy,
    ) -> Result<Self, ModelSettingsError> {
        let target = ModelTarget::new(settings)?;
        let http = http_client(&policy, target.is_encrypted, target.is_local)
            .map_err(|reason| target.settings_error("base_url", reason))?;
        let client_error = || target.settings_error("provider", "failed to create the HTTP client");
        let relay_client = relay_client().map_err(|_| client_error())?;
        let client = Client::builder().with_reqwest(relay_client).build().map_err(|_| client_error())?;
        let rules = FileRules::new(&target);
        let error_mapper = ErrorMapper::new(&target);
        let (reasoning, copies, refusals) = (Arc::default(), None, RefusalMemory::default());
        Ok(Self { target, rules, policy, http, client, blobs, copies, error_mapper, reasoning, refusals })
    }

    /// Scales images that the model doesn't take as they are; without it, they aren't sent.
    #[must_use]
    pub fn with_image_scaler(self, scaler: Arc<dyn ImageScaler>) -> Self {
        let copies = ImageCopies::new(scaler, Arc::clone(&self.blobs));
        Self { copies: Some(copies), ..self }
    }

    /// Checks with one cheap call whether the server is reachable, the key is valid and the model exists.
    ///
    /// # Errors
    /// When one of these is not so, with a reason for people.
    pub async fn check(&self) -> Result<(), ModelError> {
        check::check_model(&self.http, &self.target, &self.error_mapper, self.policy.response_timeout).await
    }

    /// Sends a conversation, up to the first step of the answer. If it is refused for its files, it is sent again without
    /// some, as a [`RefusalSearch`] for each kind of file chooses.
    async fn send_conversation(
        &self,
        request: &ModelRequest,
        names: &Arc<ToolNames>,
    ) -> Result<(ResponseStream, ResponseStep), ModelError> {
        let result_files = match self.target.provider {
            ModelProvider::Anthropic => ResultFiles::InResult,
            _ => ResultFiles::InNextMessage,
        };
        let messages = match &self.copies {
            Some(copies) => copies.replace(&request.messages, &self.rules, request.work_share.as_ref()).await,
            None => Cow::Borrowed(request.messages.as_slice()),
        };
        let tools = request::tool_definitions(self.target.provider, &request.tools, names);
        let mut prepared = PreparedRequest {
            system: request.system.clone(),
            turns: Vec::new(),
            tools,
            names: Arc::clone(names),
            sent: Mutex::default(),
        };
        let refused = self.refusals.refused();
        let mut searches: BTreeMap<MediaKind, RefusalSearch> = BTreeMap::new();
        loop {
            let left_out = refused.with_searches(searches.values());
            prepared.turns = provider_messages::build_turns(&messages, &self.rules, &left_out, names, result_files);
            let failure = match self.attempt_with_retries(&prepared).await {
                Ok(answer) => {
                    self.refusals.remember(searches.values());
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let ProviderErrorKind::InvalidFile(kind) = failure.kind else { return Err(failure.error) };
            let search = searches.entry(kind).or_insert_with(|| {
                RefusalSearch::new(sent_groups(&messages, &prepared.sent(), kind), &self.refusals.accepted())
            });
            if !search.advance() {
                return Err(failure.error);
            }
            tracing::info!(
                model = self.target.name,
                kind = kind.as_str(),
                reason = failure.error.reason,
                "a model request was refused for its files; sending it without some of them"
            );
        }
    }

    /// Makes attempts until one succeeds or a retry isn't worth it.
    async fn attempt_with_retries(
        &self,
        prepared: &PreparedRequest,
    ) -> Result<(ResponseStream, ResponseStep), ProviderError> {
        let max_delay = self.policy.max_delay;
        (|| self.attempt(prepared))
            .retry(self.policy.backoff())
            .sleep(tokio::time::sleep)
            .when(|failure| failure.can_retry)
            .adjust(|failure, delay| match (failure.retry_after, delay) {
                // The server's own number is a floor; one that is too high ends the attempts.
                (Some(retry_after), Some(delay)) => (retry_after <= max_delay).then(|| retry_after.max(delay)),
                (_, delay) => delay,
            })
            .notify(|failure, delay| {
                let reason = &failure.error.reason;
                tracing::info!(
                    model = self.target.name,
                    wait_ms = delay.as_millis(),
                    reason,
                    "a model request failed; retrying"
                );
            })
            .await
    }

    /// Makes one attempt, up to the first step of the answer.
    async fn attempt(&self, prepared: &PreparedRequest) -> Result<(ResponseStream, ResponseStep), ProviderError> {
        let find_reasoning = |calls: &_| {
            let block = self.reasoning.lock().unwrap_or_else(PoisonError::into_inner).get(calls);
            let placeholder = || ReasoningBlock {
                leading: vec![ContentPart::ReasoningContent(String::new())],
                ..ReasoningBlock::default()
            };
            block.or_else(|| self.target.needs_reasoning_echo().then(placeholder))
        };
        let provider = self.target.provider;
        let (request, sent) = request::build_request(
            provider,
            &prepared.system,
            &prepared.turns,
            prepared.tools.clone(),
            &*self.blobs,
            find_reasoning,
        )
        .await;
        let error_mapper = self.error_mapper.for_files(sent.iter().map(|file| file.kind));
        *prepared.sent() = sent;
        let relay_error = |_| error_mapper.provider_error(ProviderErrorKind::RelayFailed);
        let relay = Relay::bind().await.map_err(relay_error)?;
        let url = self.target.url();
        let endpoint = Endpoint::from_owned(relay.address_for(&url).map_err(relay_error)?);
        let last_frame = Arc::new(LastFrame::new(provider));
        let mut options = chat_options(&self.target);
        options.raw_frame_sink = Some(last_frame.clone());
        // The request is serialised here and dropped; only one body stays in memory.
        let stream_request = self.client.exec_chat_stream(self.service_target(endpoint), request, Some(&options));
        let response = stream_request
            .with_subscriber(Dispatch::none())
            .await
            .map_err(|error| error_mapper.map_client_error(&error, ""))?;
        let route = RelayRoute {
            http: self.http.clone(),
            url,
            provider,
            policy: self.policy,
            error_mapper: error_mapper.clone(),
        };
        let exchange = Box::pin(relay.run(route));
        let names = Arc::clone(&prepared.names);
        let mut stream = ResponseStream::new(response.stream, exchange, provider, names, last_frame, error_mapper);
        let first = stream.next().await?;
        Ok((stream, first))
    }

    fn service_target(&self, endpoint: Endpoint) -> ServiceTarget {
        let ModelTarget { provider, model, key, .. } = &self.target;
        let kind = match (provider, key) {
            // The same wire; the client's other adapter requires a key.
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
            // A user's own server that needs no key ignores this one.
            (_, None) => AuthData::from_single("none"),
        };
        ServiceTarget { endpoint, auth, model: ModelIden::new(kind, model.as_str()) }
    }
}

/// A request, prepared once for all attempts.
struct PreparedRequest {
    system: String,
    turns: Vec<ProviderTurn>,
    tools: Vec<Tool>,
    names: Arc<ToolNames>,
    /// What the last attempt sent besides text.
    sent: Mutex<BTreeSet<SentFile>>,
}

impl PreparedRequest {
    fn sent(&self) -> MutexGuard<'_, BTreeSet<SentFile>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl LanguageModel for RemoteModel {
    fn name(&self) -> String {
        self.target.name.clone()
    }

    fn input_support(&self) -> InputSupport {
        self.rules.input_support()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let names = Arc::new(ToolNames::new(&request.tools));
        let (stream, first) = self.send_conversation(request, &names).await?;
        let reasoning = Arc::clone(&self.reasoning);
        let state = ForwardingStream { stream: Some(stream), ready: Vec::new().into_iter(), reasoning };
        let state = state.with_step(Ok(first));
        Ok(Box::pin(stream::unfold(state, |mut state| async { state.next().await.map(|event| (event, state)) })))
    }
}

/// The rest of an answer, to be forwarded.
struct ForwardingStream {
    stream: Option<ResponseStream>,
    ready: std::vec::IntoIter<Result<ModelEvent, ModelError>>,
    reasoning: Arc<Mutex<ReasoningCache>>,
}

impl ForwardingStream {
    fn with_step(mut self, step: Result<ResponseStep, ProviderError>) -> Self {
        self.push_step(step);
        self
    }

    fn push_step(&mut self, step: Result<ResponseStep, ProviderError>) {
        let ready = match step {
            Ok(ResponseStep::Text(text)) => vec![Ok(ModelEvent::Text(text))],
            Ok(ResponseStep::End { events, reasoning: block }) => {
                self.stream = None;
                if let Some((calls, block)) = block {
                    self.reasoning.lock().unwrap_or_else(PoisonError::into_inner).insert(calls, block);
                }
                events.into_iter().map(Ok).collect()
            }
            Err(failure) => {
                self.stream = None;
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
            let step = self.stream.as_mut()?.next().await;
            self.push_step(step);
        }
    }
}

/// The options for the vendor's client. Timeouts are the relay's.
fn chat_options(target: &ModelTarget) -> ChatOptions {
    let mut options = ChatOptions::default().with_capture_usage(true).with_capture_tool_calls(true);
    // Anthropic and a few others require their reasoning back; for the rest, nothing would use it.
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
    // The client sends no key to Ollama; a server behind a proxy may require one.
    if let Some(key) = target.key.as_ref().filter(|_| target.provider == ModelProvider::Ollama) {
        return options.with_extra_headers([("Authorization", format!("Bearer {}", key.expose_secret()))]);
    }
    options
}

/// Builds a client that follows no redirect, because the key would be sent along, and loads certificates only where
/// they are needed.
///
/// # Errors
/// When the system has no certificates.
pub(crate) fn http_client(
    policy: &RequestPolicy,
    is_encrypted: bool,
    is_local: bool,
) -> Result<reqwest::Client, &'static str> {
    // The first caller installs the provider for the whole process.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .connect_timeout(policy.connect_timeout)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("satchel/", env!("CARGO_PKG_VERSION")));
    let builder = if is_encrypted { builder } else { builder.tls_certs_only([]) };
    let builder = if is_local { builder.no_proxy() } else { builder };
    builder.build().map_err(|_| "the system has no root certificates; install the package ca-certificates")
}
