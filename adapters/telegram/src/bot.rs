//! The Bot API client, which keeps the token secret and reports how a request failed.
//!
//! teloxide's own client is not used. It loses the error code, sleeps ten seconds on a 5xx, fails on a response with an
//! unknown field, and shows the token in `Debug`; here only the needed fields are decoded.

mod response;

use std::{fmt, time::Duration};

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use reqwest::{
    Method, RequestBuilder,
    header::{CONTENT_TYPE, HeaderValue},
    multipart::Form,
};
use satchel_platform_http::{
    AccountSettings, ApiClient, ApiClientSettings, BotAccount, BotToken, HttpTimeouts, PlatformError, ServerUrl,
    UploadProgress, exchange, read_response, redact_token,
};
use satchel_ports::ByteStream;
use secrecy::{ExposeSecret, SecretString};
use serde::{
    Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use teloxide::requests::Payload;

pub(crate) use response::{ApiError, CallError};

/// Telegram's Bot API server, used unless another one is configured.
const TELEGRAM_API_URL: &str = "https://api.telegram.org";

/// How an owner gets a new token.
const NEW_TOKEN_TEXT: &str = "get the current token from @BotFather";

/// Why the bot can't work.
#[derive(Debug, thiserror::Error)]
pub enum TelegramError {
    /// The token is malformed.
    #[error("this is not a Telegram token: a token looks like 123456789:AbC-dEf… and comes from @BotFather")]
    Token,
    /// The server's URL is invalid.
    #[error("the Bot API's address must start with http:// or https:// and a host")]
    Address,
    #[error(transparent)]
    Client(#[from] satchel_platform_http::ClientError),
    /// Telegram refused a request.
    #[error("Telegram refused: {reason}")]
    Refused {
        /// Telegram's reason, and what can be done about it.
        reason: String,
    },
    /// The webhook's listen address could not be bound.
    #[error("can't listen on {address}")]
    Listen {
        address: std::net::SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

/// A file being downloaded from Telegram.
pub(crate) struct Download {
    /// The size, if Telegram reports it.
    pub(crate) bytes: Option<u64>,
    /// The bytes; the stream fails if none arrive for too long.
    pub(crate) content: ByteStream,
}

/// Calls the Bot API as long as Telegram accepts the token. No error, log line or `Debug` of it holds the token, a URL with
/// it, or the credentials of the server's URL.
#[derive(Clone)]
pub(crate) struct BotClient {
    api: ApiClient,
    account: BotAccount,
    custom_server: bool,
}

impl BotClient {
    /// Creates a client for Telegram's server, or for the one at `api_url`.
    pub(crate) fn new(
        token: &BotToken,
        api_url: Option<&SecretString>,
        timeouts: HttpTimeouts,
    ) -> Result<Self, TelegramError> {
        if parse_token(token.text()).is_none() {
            return Err(TelegramError::Token);
        }
        let server = api_url.map_or(TELEGRAM_API_URL, |url| url.expose_secret());
        let server = ServerUrl::parse(server).ok_or(TelegramError::Address)?;
        let own_server = server.origin() != TELEGRAM_API_URL;
        let user_agent = concat!("satchel/", env!("CARGO_PKG_VERSION"));
        let settings = ApiClientSettings { server, user_agent, http1_only: false, timeouts };
        let api = ApiClient::new(settings)?;
        let account = BotAccount::new(token, account_settings(&api)).ok_or(TelegramError::Token)?;
        Ok(Self { api, account, custom_server: own_server })
    }

    /// The account, which Telegram may refuse.
    pub(crate) fn account(&self) -> &BotAccount {
        &self.account
    }

    /// Whether it calls another server than Telegram's.
    pub(crate) fn has_custom_server(&self) -> bool {
        self.custom_server
    }

    /// Returns a foreign text without the token.
    pub(crate) fn redact_token(&self, text: &str) -> String {
        redact_token(text, &self.account.last_token())
    }

    /// Calls a method and decodes its result as `T`, which holds only the needed fields.
    pub(crate) async fn request<P, T>(&self, payload: &P) -> Result<T, CallError>
    where
        P: Payload + Serialize + Sync,
        T: DeserializeOwned,
    {
        let body = serde_json::to_vec(payload).expect("a payload of texts and numbers is JSON");
        self.request_json(P::NAME, body, Duration::ZERO).await
    }

    /// Calls a method with a JSON body. The extra timeout is for methods that hold the request open, such as
    /// `getUpdates`.
    pub(crate) async fn request_json<T: DeserializeOwned>(
        &self,
        method: &str,
        body: Vec<u8>,
        extra_timeout: Duration,
    ) -> Result<T, CallError> {
        let token = self.call_token()?;
        let result = post_json(&self.api, &token, method, body, extra_timeout).await;
        self.close_if_refused(&token, result).await
    }

    /// Calls a method with files. `progress` tracks the bodies of `form`.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        form: Form,
        progress: &UploadProgress,
    ) -> Result<T, CallError> {
        let token = self.call_token()?;
        let request = build_request(&self.api, &token, method).multipart(form);
        let response = exchange(request, progress, self.api.timeouts()).await?;
        self.close_if_refused(&token, response::decode(&response, &token)).await
    }

    /// The token for a call, unless the channel is closed.
    fn call_token(&self) -> Result<SecretString, CallError> {
        self.account.token()
    }

    /// Closes the channel if a method was refused because of the token.
    async fn close_if_refused<T>(&self, token: &SecretString, result: Result<T, CallError>) -> Result<T, CallError> {
        let result = match result {
            Err(CallError::Refused(error)) if error.is_unknown_path() => {
                let is_unknown = is_unknown_token(&self.api, token).await;
                let unknown = || CallError::AccountRefused { reason: response::UNKNOWN_TEXT.to_owned() };
                Err(if is_unknown { unknown() } else { CallError::Refused(error) })
            }
            result => result,
        };
        self.account.close_if_refused(token, result)
    }

    /// Downloads a file by the path that `getFile` returned.
    pub(crate) async fn download(&self, path: &str) -> Result<Download, CallError> {
        let token = self.call_token()?;
        let mut url = self.api.url(&format!("/file/bot{}", token.expose_secret()));
        url.path_segments_mut().expect("http has paths").extend(path.split('/'));
        let HttpTimeouts { response: response_timeout, idle: idle_timeout, .. } = self.api.timeouts();
        let result = tokio::time::timeout(response_timeout, self.api.http().get(url).send()).await;
        let result = result.map_err(|_| CallError::Lost { reason: "no response in time".to_owned() })?;
        let response = result.map_err(CallError::from_transport_error)?;
        if !response.status().is_success() {
            let response = read_response(response, idle_timeout).await?;
            let error = response::decode::<IgnoredAny>(&response, &token).err().unwrap_or_else(|| {
                let reason = "the response is not the requested file".to_owned();
                CallError::InvalidResponse { status: response.status, reason }
            });
            return self.account.close_if_refused(&token, Err(error));
        }
        let bytes = response.content_length();
        let chunks = response.bytes_stream().boxed();
        let content = stream::try_unfold(chunks, move |mut chunks| async move {
            match tokio::time::timeout(idle_timeout, chunks.try_next()).await {
                Ok(Ok(chunk)) => Ok(chunk.map(|chunk| (chunk, chunks))),
                Ok(Err(error)) => Err(std::io::Error::other(error.without_url())),
                Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
            }
        });
        Ok(Download { bytes, content: content.boxed() })
    }
}

/// How Telegram's tokens are checked: by the method that tells a bot who it is.
fn account_settings(api: &ApiClient) -> AccountSettings {
    let api = api.clone();
    let check = move |token: SecretString| {
        let api = api.clone();
        async move { get_me(&api, &token).await.is_ok() }.boxed()
    };
    AccountSettings { platform: ApiError::PLATFORM, remedy: NEW_TOKEN_TEXT, parse: parse_token, check: Box::new(check) }
}

/// Whether a path is unknown because of its token, and not because of its method.
async fn is_unknown_token(api: &ApiClient, token: &SecretString) -> bool {
    matches!(get_me(api, token).await, Err(CallError::Refused(error)) if error.is_unknown_path())
}

async fn get_me(api: &ApiClient, token: &SecretString) -> Result<IgnoredAny, CallError> {
    post_json(api, token, "getMe", b"{}".to_vec(), Duration::ZERO).await
}

async fn post_json<T: DeserializeOwned>(
    api: &ApiClient,
    token: &SecretString,
    method: &str,
    body: Vec<u8>,
    extra_timeout: Duration,
) -> Result<T, CallError> {
    let json = HeaderValue::from_static("application/json");
    let request = build_request(api, token, method).header(CONTENT_TYPE, json).body(body);
    let timeouts = api.timeouts().with_extra_response_time(extra_timeout);
    response::decode(&exchange(request, &UploadProgress::none(), timeouts).await?, token)
}

fn build_request(api: &ApiClient, token: &SecretString, method: &str) -> RequestBuilder {
    api.request(Method::POST, &format!("/bot{}/{method}", token.expose_secret()))
}

impl fmt::Debug for BotClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BotClient").field("own_server", &self.custom_server).finish_non_exhaustive()
    }
}

/// Reads a token as it is configured.
fn parse_token(token: &SecretString) -> Option<SecretString> {
    let text = token.expose_secret().trim();
    is_token(text).then(|| text.into())
}

/// Whether a text is a well-formed token. It becomes part of a URL path, so nothing else is accepted.
fn is_token(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split_once(':').is_some_and(|(id, secret)| {
        !id.is_empty() && id.chars().all(|c| c.is_ascii_digit()) && !secret.is_empty() && secret.chars().all(fits)
    })
}

#[cfg(test)]
mod tests;
