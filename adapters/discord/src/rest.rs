//! The client of the REST API. It doesn't leak the token, and its errors show whether a request may have arrived.
//!
//! serenity's own client is not used. It brings another HTTP and TLS stack, doesn't report whether a message may have
//! arrived, and with its rate limiter on calls discord.com despite a configured server (ADR 0012).

mod buckets;
mod gateway_bot;
mod rate_limiter;
mod request;
mod response;
mod retry;

use std::{error::Error, fmt, time::Duration};

use reqwest::{
    RequestBuilder, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
    multipart::Form,
};
use reqwest_websocket::{Upgrade, WebSocket};
use satchel_domain::capabilities::RateLimits;
use satchel_platform_http::{ApiClient, ApiClientSettings, HttpTimeouts, ServerUrl, UploadProgress, exchange};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

pub(crate) use gateway_bot::{TrustedHosts, get_gateway_bot};
use rate_limiter::RateLimiter;
pub(crate) use request::ApiRequest;
pub(crate) use response::{ApiError, CallError};
pub(crate) use retry::{RetryTracker, delay_after_error, next_delay_logged};

/// Discord's server, unless another one is configured.
const DEFAULT_API_URL: &str = "https://discord.com";

/// The path prefix of the API version.
const API_PATH: &str = "/api/v10";

/// The user agent in Discord's format (Reference, User Agent). The project has no URL, so its name is used.
const USER_AGENT: &str = concat!("DiscordBot (satchel, ", env!("CARGO_PKG_VERSION"), ")");

/// Pause after a rejection that names no `Retry-After`: a 429 of a proxy in front of Discord, and a
/// 401. Ten thousand such responses in ten minutes would ban the address (Rate Limits, Invalid Request Limit).
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Why the bot can't work.
#[derive(Debug, thiserror::Error)]
pub enum DiscordError {
    /// The token is malformed.
    #[error("this is not a Discord bot token: get one in the developer portal, under Bot, Reset Token")]
    Token,
    /// The server's address can't be used.
    #[error("Discord's address must start with http:// or https:// and a host, without user name or password")]
    Address,
    #[error(transparent)]
    Client(#[from] satchel_platform_http::ClientError),
    /// Discord rejects the token.
    #[error(
        "Discord doesn't accept this token; create a new one in the developer portal \
         (discord.com/developers/applications): your application, Bot, Reset Token"
    )]
    UnknownToken,
    /// Discord refused something else.
    #[error("Discord refused: {reason}")]
    Refused {
        /// Discord's message, and what can be done about it.
        reason: String,
    },
}

/// Calls the REST API. None of its errors, log lines or `Debug` output contains the token or the server's address.
#[derive(Clone)]
pub(crate) struct RestClient {
    api: ApiClient,
    token: SecretString,
    has_custom_server: bool,
    rate_limiter: RateLimiter,
}

impl RestClient {
    /// Creates a client of Discord's server, or of the one at `api_url`, with these rate limits; without any, it only
    /// respects a 429.
    pub(crate) fn new(
        token: &SecretString,
        api_url: Option<&SecretString>,
        timeouts: HttpTimeouts,
        rate_limits: Option<RateLimits>,
    ) -> Result<Self, DiscordError> {
        let token = token.expose_secret().trim();
        let token = token.strip_prefix("Bot ").unwrap_or(token);
        if !is_token(token) {
            return Err(DiscordError::Token);
        }
        let server = ServerUrl::parse(api_url.map_or(DEFAULT_API_URL, |url| url.expose_secret()));
        // Credentials would replace the token in the `Authorization` header.
        let server = server.filter(|server| !server.has_credentials()).ok_or(DiscordError::Address)?;
        // The gateway's WebSocket uses the same client and needs HTTP/1.1.
        let settings = ApiClientSettings { server, user_agent: USER_AGENT, http1_only: true, timeouts };
        let api = ApiClient::new(settings)?;
        Ok(Self {
            api,
            token: token.into(),
            has_custom_server: api_url.is_some(),
            rate_limiter: RateLimiter::new(rate_limits),
        })
    }

    /// Opens a WebSocket with the same HTTP client, and so through the same proxy. Adds no token. The error is for the
    /// operator, and contains no URL.
    pub(crate) async fn open_websocket(&self, url: Url) -> Result<WebSocket, String> {
        let upgrade = async { self.api.http().get(url).upgrade().send().await?.into_websocket().await };
        let HttpTimeouts { connect, response, .. } = self.timeouts();
        match timeout(connect + response, upgrade).await {
            Ok(opened) => opened.map_err(describe_websocket_error),
            Err(_) => Err("the gateway did not answer".to_owned()),
        }
    }

    pub(crate) fn token(&self) -> &SecretString {
        &self.token
    }

    /// Returns the server's host, if it isn't Discord's own.
    pub(crate) fn custom_server_host(&self) -> Option<&str> {
        self.has_custom_server.then(|| self.api.server().host())
    }

    /// Returns the server's origin, such as `https://discord.com`.
    pub(crate) fn origin(&self) -> &str {
        self.api.server().origin()
    }

    pub(crate) fn timeouts(&self) -> HttpTimeouts {
        self.api.timeouts()
    }

    /// Sends a request and decodes the response as `T`, which is `()` if nothing of it is needed.
    pub(crate) async fn request<T: DeserializeOwned>(&self, request: ApiRequest) -> Result<T, CallError> {
        self.request_with_date(request).await.map(|(response, _)| response)
    }

    /// Like [`RestClient::request`], with the time of the response by the server's clock, in milliseconds since 1970,
    /// if it has a `Date` header.
    pub(crate) async fn request_with_date<T: DeserializeOwned>(
        &self,
        request: ApiRequest,
    ) -> Result<(T, Option<u64>), CallError> {
        let builder = self.build_request(&request);
        let builder = match request.body() {
            Some(body) => builder.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body),
            None => builder,
        };
        self.execute(&request, builder, &UploadProgress::none()).await
    }

    /// Sends a request with files. Its own body is ignored, because it is a field of the form; `progress` tracks the
    /// bodies of `form`.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        request: ApiRequest,
        form: Form,
        progress: &UploadProgress,
    ) -> Result<T, CallError> {
        self.execute(&request, self.build_request(&request).multipart(form), progress)
            .await
            .map(|(response, _)| response)
    }

    async fn execute<T: DeserializeOwned>(
        &self,
        request: &ApiRequest,
        builder: RequestBuilder,
        progress: &UploadProgress,
    ) -> Result<(T, Option<u64>), CallError> {
        let mut permit = self.rate_limiter.acquire(request).await?;
        let response = exchange(builder, progress, self.timeouts()).await?;
        permit.record_headers(&response.headers);
        let decoded = response::decode(&response, &self.token);
        match &decoded {
            Err(CallError::RateLimited { retry_after, global, .. }) => {
                permit.close_route(retry_after.unwrap_or(DEFAULT_RETRY_AFTER), *global);
            }
            // Interactions have their own tokens.
            Err(CallError::Refused(ApiError { status: 401, .. })) if !request.is_interaction() => {
                permit.close_route(DEFAULT_RETRY_AFTER, true);
            }
            _ => {}
        }
        decoded.map(|decoded| (decoded, response::parse_date(&response.headers)))
    }

    fn build_request(&self, request: &ApiRequest) -> RequestBuilder {
        let mut authorization = HeaderValue::try_from(format!("Bot {}", self.token.expose_secret()))
            .expect("a token is letters, digits, dots, dashes and underscores");
        authorization.set_sensitive(true);
        let builder = self.api.request(request.method().clone(), &format!("{API_PATH}{}", request.path()));
        builder.header(AUTHORIZATION, authorization)
    }
}

impl fmt::Debug for RestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestClient").field("timeouts", &self.timeouts()).finish_non_exhaustive()
    }
}

/// Returns the root cause of an error, without a URL.
pub(crate) fn describe_websocket_error(error: reqwest_websocket::Error) -> String {
    let error = match error {
        reqwest_websocket::Error::Reqwest(error) => reqwest_websocket::Error::Reqwest(error.without_url()),
        error => error,
    };
    let mut cause: &dyn Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Whether a text has the form of a token, which is safe in a header.
fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests;
