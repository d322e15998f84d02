//! The client's side of the fake platform: a small adapter of the `Channel` port.

mod classify;
mod listen;
mod upload;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, MessageRef, PartContent,
    capabilities::Idempotency,
    delivery::{Refusal, SendError},
};
use satchel_ports::{
    Activity, Blobs, ByteStream, Channel, FetchedFile, FileFetchError, LookupOutcome, LookupRange, LookupRequest,
    SendRequest,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    FakeMode,
    channel::{
        classify::{NoAnswer, decode, no_answer, send_error},
        upload::{Progress, form},
    },
    wire::{HistoryQuery, MessageAddress, PastMessage, Why, WireError},
};

/// How long a client waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// For an answer, or the next bytes of one, while nothing more is being uploaded.
    pub answer: Duration,
    /// For updates, in one long poll.
    pub poll: Duration,
    /// Before a poll that failed is repeated, and after a message was not taken; doubled each time up to 32 times.
    pub backoff: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            answer: Duration::from_secs(5),
            poll: Duration::from_secs(20),
            backoff: Duration::from_millis(50),
        }
    }
}

impl Timeouts {
    /// Waits for tests in which answers never come.
    #[must_use]
    pub fn short() -> Self {
        Self {
            connect: Duration::from_millis(500),
            answer: Duration::from_millis(400),
            poll: Duration::from_secs(2),
            backoff: Duration::from_millis(5),
        }
    }
}

/// A channel whose platform is a [`crate::FakePlatform`].
pub struct FakeChannel {
    name: ChannelName,
    base_url: String,
    mode: FakeMode,
    capabilities: ChannelCapabilities,
    blobs: Arc<dyn Blobs>,
    timeouts: Timeouts,
    client: reqwest::Client,
}

fn client(timeouts: Timeouts, kept_connections: usize) -> reqwest::Client {
    crate::install_tls_provider();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(kept_connections)
        .connect_timeout(timeouts.connect)
        .build()
        .expect("a client without TLS has nothing to load")
}

impl FakeChannel {
    /// A channel of this name on the platform at `base_url`.
    #[must_use]
    pub fn new(
        name: ChannelName,
        base_url: impl Into<String>,
        mode: FakeMode,
        capabilities: ChannelCapabilities,
        blobs: Arc<dyn Blobs>,
        timeouts: Timeouts,
    ) -> Self {
        // A connection of its own for each request: whether one was refused or a kept one was cut is then never in
        // question.
        let client = client(timeouts, 0);
        Self { name, base_url: base_url.into(), mode, capabilities, blobs, timeouts, client }
    }

    /// The channel with connections that are kept between requests, as platforms' own clients do.
    #[must_use]
    pub fn keeping_connections(self) -> Self {
        Self { client: client(self.timeouts, usize::MAX), ..self }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base_url)
    }

    /// Sends a request without files and reads the answer.
    async fn ask(&self, path: &str, body: &impl Serialize) -> Result<Result<Value, WireError>, SendError> {
        let request = self.client.post(self.url(path)).json(body);
        self.answer(request, &Progress::default()).await
    }

    /// Waits for an answer as long as something moves. The outer error is that there is none.
    async fn answer(
        &self,
        request: reqwest::RequestBuilder,
        progress: &Progress,
    ) -> Result<Result<Value, WireError>, SendError> {
        let exchange = async {
            let response = request.send().await?;
            response.bytes().await
        };
        let answered = tokio::select! {
            answered = exchange => answered,
            () = progress.stalled(self.timeouts.answer) => {
                return Err(SendError::InDoubt { reason: "no response in time".to_owned() });
            }
        };
        if let Some(reason) = progress.unreadable() {
            // The request can't have been complete, so nobody can have taken it.
            return Err(SendError::Unreadable { reason });
        }
        match answered {
            Ok(body) => decode(&body),
            Err(error) => Err(match no_answer(&error) {
                NoAnswer::NotConnected(reason) => SendError::NotSent { retry_after_ms: None, reason },
                NoAnswer::Lost(reason) => SendError::InDoubt { reason },
            }),
        }
    }

    async fn upload(
        &self,
        url: String,
        part: &SendRequest,
        nonce: Option<String>,
    ) -> Result<Result<Value, WireError>, SendError> {
        let progress = Progress::default();
        let form = form(&self.blobs, part, nonce, &progress).await?;
        self.answer(self.client.post(url).multipart(form), &progress).await
    }

    /// The key of a part, where the channel has keys.
    fn nonce(&self, part: &SendRequest) -> Option<String> {
        let keyed = matches!(self.capabilities.idempotency, Idempotency::Key { .. });
        (keyed && self.mode == FakeMode::DiscordLike).then(|| upload::nonce(part.part))
    }
}

#[async_trait]
impl Channel for FakeChannel {
    fn name(&self) -> ChannelName {
        self.name.clone()
    }

    fn capabilities(&self, _conversation: &ConversationId) -> ChannelCapabilities {
        self.capabilities.clone()
    }

    async fn send(&self, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        if part.content == PartContent::Withdraw {
            // There is no message to take back, and so nothing to do.
            return Ok(Vec::new());
        }
        match self.upload(self.url("send"), part, self.nonce(part)).await? {
            Ok(result) => message_ids(result),
            Err(refused) => Err(send_error(refused)),
        }
    }

    async fn edit(&self, message: &MessageRef, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        if part.content == PartContent::Withdraw {
            self.delete(&part.conversation, message).await?;
            return Ok(Vec::new());
        }
        match self.upload(self.url(&format!("edit?message={message}")), part, None).await? {
            Ok(result) => message_ids(result),
            Err(refused) if refused.why == Why::NotModified => Ok(vec![message.clone()]),
            Err(refused) => Err(send_error(refused)),
        }
    }

    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError> {
        let address = MessageAddress { conversation: conversation.clone(), message: message.clone() };
        match self.ask("delete", &address).await? {
            Ok(_) => Ok(()),
            Err(refused) if refused.why == Why::TargetGone => Ok(()),
            Err(refused) => Err(send_error(refused)),
        }
    }

    async fn find_sent(&self, request: &LookupRequest) -> Result<LookupOutcome, SendError> {
        let LookupRequest { part, range: LookupRange::After(after), .. } = request else {
            return Ok(LookupOutcome::uncertain("history has no duplicates"));
        };
        if self.capabilities.look_up != satchel_domain::capabilities::LookupRule::History {
            return Ok(LookupOutcome::uncertain("the platform has no history"));
        }
        let query = HistoryQuery { conversation: part.conversation.clone(), after: after.clone() };
        let past = match self.ask("history", &query).await? {
            Ok(result) => serde_json::from_value::<Vec<PastMessage>>(result).map_err(undecodable)?,
            Err(refused) if matches!(refused.why, Why::Forbidden | Why::Other) => {
                return Ok(LookupOutcome::uncertain("the history may not be read"));
            }
            Err(refused) => return Err(send_error(refused)),
        };
        let wanted = upload::outgoing(part, None);
        let files: Vec<(String, u64)> =
            wanted.files.iter().map(|file| file.filename.clone()).zip(upload::sizes(part)).collect();
        let matching = |message: &&PastMessage| message.own && message.text == wanted.text && message.files == files;
        let mut found = past.iter().filter(matching);
        match (found.next(), found.next()) {
            (Some(only), None) => {
                Ok(LookupOutcome::Found { messages: vec![only.message.clone()], duplicates: Vec::new() })
            }
            _ => Ok(LookupOutcome::uncertain("not exactly one message in the history is like it")),
        }
    }

    async fn probe(&self) -> Result<(), SendError> {
        let request = self.client.get(self.url("probe"));
        match self.answer(request, &Progress::default()).await? {
            Ok(_) => Ok(()),
            Err(refused) => Err(send_error(refused)),
        }
    }

    async fn show_activity(&self, _: &ConversationId, _: Activity) {}

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        let again = |reason: &str| FileFetchError::Retryable { reason: reason.to_owned() };
        let request = self.client.get(self.url(&format!("files/{}", reference.locator))).send();
        let response = tokio::time::timeout(self.timeouts.answer, request).await;
        let response = response
            .map_err(|_| again("the platform didn't answer in time"))?
            .map_err(|_| again("the platform can't be reached"))?;
        if !response.status().is_success() {
            let body = tokio::time::timeout(self.timeouts.answer, response.bytes()).await;
            let body = body.ok().and_then(Result::ok).unwrap_or_default();
            let Ok(Err(refused)) = decode(&body) else { return Err(again("the platform's answer can't be read")) };
            return Err(match refused.why {
                Why::RateLimited { .. } | Why::Server => FileFetchError::Retryable { reason: refused.description },
                Why::Expired => FileFetchError::Permanent { reason: "it has expired".to_owned() },
                Why::TooLarge { .. } => {
                    FileFetchError::Permanent { reason: "it is too large to be fetched".to_owned() }
                }
                _ => FileFetchError::Permanent { reason: refused.description },
            });
        }
        let bytes = response.content_length();
        Ok(FetchedFile::Bytes { bytes, content: timed(response.bytes_stream().boxed(), self.timeouts.answer) })
    }
}

/// Ends a download in which nothing comes any more.
fn timed(content: stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>, longest_wait: Duration) -> ByteStream {
    let blocks = stream::try_unfold(content, move |mut content| async move {
        match tokio::time::timeout(longest_wait, content.try_next()).await {
            Ok(Ok(block)) => Ok(block.map(|block| (block, content))),
            Ok(Err(error)) => Err(std::io::Error::other(error)),
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    });
    blocks.boxed()
}

fn message_ids(result: Value) -> Result<Vec<MessageRef>, SendError> {
    serde_json::from_value(result).map_err(undecodable)
}

fn undecodable(error: serde_json::Error) -> SendError {
    SendError::InDoubt { reason: format!("the answer can't be read: {error}") }
}

/// The refusal that each of the platform's reasons means.
fn refusal(why: &Why) -> Refusal {
    match why {
        Why::TooLarge { limit } => Refusal::TooLarge { limit: *limit },
        Why::WrongKind => Refusal::UnsupportedKind,
        Why::BadMarkup => Refusal::BadMarkup,
        Why::VoiceForbidden => Refusal::VoiceForbidden,
        Why::TargetGone => Refusal::TargetGone,
        Why::Item { index } => Refusal::Item { index: *index },
        Why::RateLimited { .. } | Why::Server | Why::NotModified | Why::Forbidden | Why::Expired | Why::Other => {
            Refusal::Other
        }
    }
}
