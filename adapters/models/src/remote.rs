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
    abilities::FileRules,
    answer::{Answering, LastFrame, Step},
    check,
    conversation::{self, ResultFiles, Turn},
    failure::{Failure, Teller},
    names::ToolNames,
    patience::Patience,
    request,
    settings::{ModelSettings, Provider, SettingsError, Target},
    thoughts::{Thought, Thoughts},
};

/// A model that a server answers for.
pub struct RemoteModel {
    target: Target,
    rules: FileRules,
    patience: Patience,
    http: reqwest::Client,
    client: Client,
    blobs: Arc<dyn Blobs>,
    teller: Teller,
    thoughts: Arc<Mutex<Thoughts>>,
}

impl fmt::Debug for RemoteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target { name, provider, model, .. } = &self.target;
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
    pub fn new(settings: ModelSettings, blobs: Arc<dyn Blobs>) -> Result<Self, SettingsError> {
        let own = settings.base_url.is_some() || settings.provider == Provider::Ollama;
        Self::with_patience(settings, blobs, if own { Patience::with_own_server() } else { Patience::default() })
    }

    /// A model that is waited for as long as the caller wants.
    ///
    /// # Errors
    /// When the description has a mistake.
    pub fn with_patience(
        settings: ModelSettings,
        blobs: Arc<dyn Blobs>,
        patience: Patience,
    ) -> Result<Self, SettingsError> {
        let target = Target::new(settings)?;
        let http = http_client(&patience, target.is_encrypted, target.is_local)
            .map_err(|reason| target.error("base_url", reason))?;
        let client = Client::builder()
            .with_reqwest(http.clone())
            .build()
            .map_err(|_| target.error("provider", "failed to create the HTTP client"))?;
        let rules = FileRules::new(&target);
        let teller = Teller::new(&target);
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
    async fn attempt(&self, asking: &Asking) -> Result<(Answering, Step), Failure> {
        let thought_of = |calls: &_| {
            let thought = self.thoughts.lock().unwrap_or_else(PoisonError::into_inner).of(calls);
            let forgotten =
                || Thought { leading: vec![ContentPart::ReasoningContent(String::new())], ..Thought::default() };
            thought.or_else(|| self.target.wants_thoughts_back().then(forgotten))
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
        let response = started.with_subscriber(Dispatch::none()).await.map_err(|error| self.teller.of(&error, ""))?;
        let teller = self.teller.clone();
        let mut answering = Answering::new(response.stream, provider, asking.names.clone(), last_frame, teller);
        let first = answering.next().await?;
        Ok((answering, first))
    }

    fn service(&self) -> ServiceTarget {
        let Target { provider, model, address, key, .. } = &self.target;
        let kind = match (provider, key) {
            // The same wire; only this one of the client's does without a key.
            (Provider::OpenAi, None) => AdapterKind::Omlx,
            (Provider::OpenAi, Some(_)) => AdapterKind::OpenAI,
            (Provider::OpenAiResponses, _) => AdapterKind::OpenAIResp,
            (Provider::Anthropic, _) => AdapterKind::Anthropic,
            (Provider::Gemini, _) => AdapterKind::Gemini,
            (Provider::Ollama, _) => AdapterKind::Ollama,
        };
        let auth = match (provider, key) {
            (_, Some(key)) => AuthData::from_single(key.expose_secret()),
            (Provider::OpenAi, None) => AuthData::None,
            // A server of one's own that asks for no key ignores this one.
            (_, None) => AuthData::from_single("none"),
        };
        let endpoint = Endpoint::from_owned(address.expose_secret());
        ServiceTarget { endpoint, auth, model: ModelIden::new(kind, model.as_str()) }
    }
}

/// What is asked, arranged once for all attempts.
struct Asking {
    system: String,
    turns: Vec<Turn>,
    tools: Vec<Tool>,
    names: Arc<ToolNames>,
}

#[async_trait]
impl LanguageModel for RemoteModel {
    fn name(&self) -> String {
        self.target.name.clone()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let names = Arc::new(ToolNames::of(&request.tools));
        let place = match self.target.provider {
            Provider::Anthropic => ResultFiles::Inside,
            _ => ResultFiles::After,
        };
        let turns = conversation::arrange(&request.messages, &self.rules, &names, place);
        let tools = request::offered(self.target.provider, &request.tools, &names);
        let asking = Asking { system: request.system.clone(), turns, tools, names };
        let longest = self.patience.longest_wait;
        let (answering, first) = (|| self.attempt(&asking))
            .retry(self.patience.waits())
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
        let state = Passing { answering: Some(answering), ready: Vec::new().into_iter(), thoughts };
        let state = state.after(Ok(first));
        Ok(Box::pin(stream::unfold(state, |mut state| async { state.next().await.map(|event| (event, state)) })))
    }
}

/// What is still to be passed on of an answer.
struct Passing {
    answering: Option<Answering>,
    ready: std::vec::IntoIter<Result<ModelEvent, ModelError>>,
    thoughts: Arc<Mutex<Thoughts>>,
}

impl Passing {
    fn after(mut self, step: Result<Step, Failure>) -> Self {
        self.take(step);
        self
    }

    fn take(&mut self, step: Result<Step, Failure>) {
        let ready = match step {
            Ok(Step::Text(text)) => vec![Ok(ModelEvent::Text(text))],
            Ok(Step::End { events, thought }) => {
                self.answering = None;
                if let Some((calls, thought)) = thought {
                    self.thoughts.lock().unwrap_or_else(PoisonError::into_inner).keep(calls, thought);
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
            self.take(step);
        }
    }
}

/// How the vendor's client shall ask.
fn options(target: &Target, patience: &Patience) -> ChatOptions {
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_tool_calls(true)
        .with_stream_header_timeout(patience.begin)
        .with_stream_read_timeout(patience.silence);
    // Anthropic wants its signed thoughts back, and some others theirs; with the rest this would ask for more than we use.
    options.capture_reasoning_content = Some(target.provider == Provider::Anthropic || target.wants_thoughts_back());
    // The client reads `-max` or `-medium` at the end of a name as an effort and cuts it off; `qwen-max` and
    // `mistral-medium` are names. An effort that it sends nothing for keeps it from that.
    let would_be_cut = ReasoningEffort::from_model_name(&target.model).0.is_some();
    options.reasoning_effort = match target.provider {
        Provider::Gemini | Provider::Anthropic => would_be_cut.then_some(ReasoningEffort::Zero),
        Provider::OpenAi | Provider::OpenAiResponses => would_be_cut.then_some(ReasoningEffort::Budget(0)),
        Provider::Ollama => None,
    };
    // The client sends no key to Ollama; one behind a gate asks for it.
    if let Some(key) = target.key.as_ref().filter(|_| target.provider == Provider::Ollama) {
        return options.with_extra_headers([("Authorization", format!("Bearer {}", key.expose_secret()))]);
    }
    options
}

/// A client that follows no redirect, because a key would be sent along, and reads certificates only where it needs
/// them.
///
/// # Errors
/// When the system has no certificates.
pub(crate) fn http_client(patience: &Patience, encrypted: bool, local: bool) -> Result<reqwest::Client, &'static str> {
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
