//! The client of the Bot API, which keeps the token to itself and tells how a call failed.
//!
//! teloxide's own client is not used. It loses the error code, sleeps ten seconds on a 5xx, takes an answer that holds
//! a field it doesn't know for a failure, and shows the token in `Debug`; here only what is needed is read.

mod response;

use std::{fmt, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{
    Method, RequestBuilder,
    header::{CONTENT_TYPE, HeaderValue},
    multipart::Form,
};
use satchel_platform_http::{
    ApiClient, ApiClientSettings, HttpTimeouts, ServerUrl, UploadProgress, exchange, read_response, redact_token,
};
use satchel_ports::ByteStream;
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use teloxide::requests::Payload;

pub(crate) use response::{ApiError, CallError};

/// Where Telegram answers unless something else is configured.
const TELEGRAM: &str = "https://api.telegram.org";

/// Why the bot can't work.
#[derive(Debug, thiserror::Error)]
pub enum TelegramError {
    /// The token has not the form of one.
    #[error("this is not a Telegram token: a token looks like 123456789:AbC-dEf… and comes from @BotFather")]
    Token,
    /// The server's address can't be used.
    #[error("the Bot API's address must start with http:// or https:// and a host")]
    Address,
    #[error(transparent)]
    Client(#[from] satchel_platform_http::ClientError),
    /// Telegram doesn't know the token, or not any more.
    #[error("Telegram doesn't accept this token; get the current one from @BotFather")]
    UnknownToken,
    /// Telegram said no to something else.
    #[error("Telegram refused: {reason}")]
    Refused {
        /// Its words, and what can be done about them.
        reason: String,
    },
    /// The address for the webhook can't be listened on.
    #[error("can't listen on {address}")]
    Listen {
        address: std::net::SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// A file on its way from Telegram.
pub(crate) struct Download {
    /// How many bytes come, where Telegram says so.
    pub(crate) bytes: Option<u64>,
    /// The bytes; an error where none come for too long.
    pub(crate) content: ByteStream,
}

/// Calls the Bot API. No error, log line or `Debug` of it holds the token, an address with it, or the credentials of
/// the server's address.
#[derive(Clone)]
pub(crate) struct BotClient {
    api: ApiClient,
    token: SecretString,
    own_server: bool,
}

impl BotClient {
    /// A client of Telegram's server, or of another one at `api_url`.
    pub(crate) fn new(
        token: &SecretString,
        api_url: Option<&SecretString>,
        timeouts: HttpTimeouts,
    ) -> Result<Self, TelegramError> {
        let token = token.expose_secret().trim();
        if !is_token(token) {
            return Err(TelegramError::Token);
        }
        let server = api_url.map_or(TELEGRAM, |url| url.expose_secret());
        let server = ServerUrl::parse(server).ok_or(TelegramError::Address)?;
        let own_server = server.origin() != TELEGRAM;
        let user_agent = concat!("satchel/", env!("CARGO_PKG_VERSION"));
        let settings = ApiClientSettings { server, user_agent, http1_only: false, timeouts };
        let api = ApiClient::new(settings)?;
        Ok(Self { api, token: token.into(), own_server })
    }

    /// Whether it speaks to another server than Telegram's own.
    pub(crate) fn has_own_server(&self) -> bool {
        self.own_server
    }

    /// What somebody else wrote, without the token.
    pub(crate) fn without_token(&self, text: &str) -> String {
        redact_token(text, &self.token)
    }

    /// Calls a method and reads what is needed of the result: `T` decides.
    pub(crate) async fn request<P, T>(&self, payload: &P) -> Result<T, CallError>
    where
        P: Payload + Serialize + Sync,
        T: DeserializeOwned,
    {
        let body = serde_json::to_vec(payload).expect("a payload of texts and numbers is JSON");
        self.request_json(P::NAME, body, Duration::ZERO).await
    }

    /// Calls a method with a body of JSON, which the server lets wait for so long, as `getUpdates` does.
    pub(crate) async fn request_json<T: DeserializeOwned>(
        &self,
        method: &str,
        body: Vec<u8>,
        wait: Duration,
    ) -> Result<T, CallError> {
        let json = HeaderValue::from_static("application/json");
        let request = self.build_request(method).header(CONTENT_TYPE, json).body(body);
        let timeouts = self.api.timeouts().with_longer_answer(wait);
        response::decode(&exchange(request, &UploadProgress::none(), timeouts).await?, &self.token)
    }

    /// Calls a method with files. `progress` watches the bodies of `form`.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        form: Form,
        progress: &UploadProgress,
    ) -> Result<T, CallError> {
        let request = self.build_request(method).multipart(form);
        response::decode(&exchange(request, progress, self.api.timeouts()).await?, &self.token)
    }

    /// Opens a file by the path that `getFile` has told.
    pub(crate) async fn download(&self, path: &str) -> Result<Download, CallError> {
        let mut url = self.api.url(&format!("/file/bot{}", self.token.expose_secret()));
        url.path_segments_mut().expect("http has paths").extend(path.split('/'));
        let HttpTimeouts { answer, silence, .. } = self.api.timeouts();
        let answered = tokio::time::timeout(answer, self.api.http().get(url).send()).await;
        let answered = answered.map_err(|_| CallError::Lost { reason: "no response in time".to_owned() })?;
        let response = answered.map_err(CallError::from_transport_error)?;
        if !response.status().is_success() {
            let response = read_response(response, silence).await?;
            return Err(response::decode::<serde::de::IgnoredAny>(&response, &self.token).err().unwrap_or_else(|| {
                let reason = "the response is not the requested file".to_owned();
                CallError::NotAnAnswer { status: response.status, reason }
            }));
        }
        let bytes = response.content_length();
        let chunks = response.bytes_stream().boxed();
        let content = stream::try_unfold(chunks, move |mut chunks| async move {
            match tokio::time::timeout(silence, chunks.try_next()).await {
                Ok(Ok(chunk)) => Ok(chunk.map(|chunk| (chunk, chunks))),
                Ok(Err(error)) => Err(std::io::Error::other(error.without_url())),
                Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
            }
        });
        Ok(Download { bytes, content: content.boxed() })
    }

    fn build_request(&self, method: &str) -> RequestBuilder {
        self.api.request(Method::POST, &format!("/bot{}/{method}", self.token.expose_secret()))
    }
}

impl fmt::Debug for BotClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BotClient").field("own_server", &self.own_server).finish_non_exhaustive()
    }
}

/// Whether a text has the form of a token. It becomes a part of a path, so nothing else may.
fn is_token(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split_once(':').is_some_and(|(id, secret)| {
        !id.is_empty() && id.chars().all(|c| c.is_ascii_digit()) && !secret.is_empty() && secret.chars().all(fits)
    })
}

#[cfg(test)]
mod tests;
