//! The client of the REST API, which keeps the token to itself and tells how a call failed.
//!
//! serenity's own client is not used. It brings another HTTP and TLS stack, loses whether a message may have arrived,
//! and asks discord.com in spite of a configured server while its rate limiter is on (ADR 0012).

mod buckets;
mod rate_limiter;
mod request;
mod response;

use std::{fmt, time::Duration};

use reqwest::{
    RequestBuilder,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
    multipart::Form,
};
use satchel_domain::capabilities::RateLimits;
use satchel_platform_http::{ApiClient, ApiClientSettings, HttpTimeouts, ServerUrl, UploadProgress, exchange};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;

use rate_limiter::RateLimiter;
pub(crate) use request::ApiRequest;
pub(crate) use response::{ApiError, CallError};

/// Where Discord answers unless something else is configured.
const DISCORD: &str = "https://discord.com";

/// The version of the API that is spoken, as a path.
const VERSION: &str = "/api/v10";

/// How Discord wants a bot to name itself (Reference, User Agent). In place of an address, which the project has none
/// of, stands its name.
const USER_AGENT: &str = concat!("DiscordBot (satchel, ", env!("CARGO_PKG_VERSION"), ")");

/// Pause after a rejection that names no `Retry-After`: a 429 of a proxy in front of Discord, and a
/// 401. Ten thousand such answers in ten minutes would ban the address (Rate Limits, Invalid Request Limit).
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Why the bot can't work.
#[derive(Debug, thiserror::Error)]
pub enum DiscordError {
    /// The token has not the form of one.
    #[error("this is not a Discord bot token: get one in the developer portal, under Bot, Reset Token")]
    Token,
    /// The server's address can't be used.
    #[error("Discord's address must start with http:// or https:// and a host, without user name or password")]
    Address,
    #[error(transparent)]
    Client(#[from] satchel_platform_http::ClientError),
    /// Discord doesn't know the token, or not any more.
    #[error(
        "Discord doesn't accept this token; create a new one in the developer portal \
         (discord.com/developers/applications): your application, Bot, Reset Token"
    )]
    UnknownToken,
    /// Discord said no to something else.
    #[error("Discord refused: {reason}")]
    Refused {
        /// Its words, and what can be done about them.
        reason: String,
    },
}

/// Calls the REST API. No error, log line or `Debug` of it holds the token or the server's address.
#[derive(Clone)]
pub(crate) struct RestClient {
    api: ApiClient,
    token: SecretString,
    own_server: bool,
    pacer: RateLimiter,
}

impl RestClient {
    /// A client of Discord's server, or of another one at `api_url`, that keeps to `pace`; without one it heeds only
    /// what it is told with a 429.
    pub(crate) fn new(
        token: &SecretString,
        api_url: Option<&SecretString>,
        timeouts: HttpTimeouts,
        pace: Option<RateLimits>,
    ) -> Result<Self, DiscordError> {
        let token = token.expose_secret().trim();
        let token = token.strip_prefix("Bot ").unwrap_or(token);
        if !is_token(token) {
            return Err(DiscordError::Token);
        }
        let server = ServerUrl::parse(api_url.map_or(DISCORD, |url| url.expose_secret()));
        // Credentials would need the header that the token is in.
        let server = server.filter(|server| !server.has_credentials()).ok_or(DiscordError::Address)?;
        // The gateway's WebSocket goes over the same client, and knows nothing newer than HTTP/1.1.
        let settings = ApiClientSettings { server, user_agent: USER_AGENT, http1_only: true, timeouts };
        let api = ApiClient::new(settings)?;
        Ok(Self { api, token: token.into(), own_server: api_url.is_some(), pacer: RateLimiter::new(pace) })
    }

    /// The client beneath, for what is no call: the gateway's WebSocket. It adds no token.
    pub(crate) fn http(&self) -> &reqwest::Client {
        self.api.http()
    }

    pub(crate) fn token(&self) -> &SecretString {
        &self.token
    }

    /// The host of the server, where it isn't Discord's own.
    pub(crate) fn own_server(&self) -> Option<&str> {
        self.own_server.then(|| self.api.server().host())
    }

    /// The server's origin, as in `https://discord.com`.
    pub(crate) fn origin(&self) -> &str {
        self.api.server().origin()
    }

    pub(crate) fn timeouts(&self) -> HttpTimeouts {
        self.api.timeouts()
    }

    /// Makes a call and reads what is needed of the answer: `T` decides, and is `()` where nothing is.
    pub(crate) async fn request<T: DeserializeOwned>(&self, call: ApiRequest) -> Result<T, CallError> {
        self.request_dated(call).await.map(|(answer, _)| answer)
    }

    /// The same, with the second in which it was answered, in milliseconds since 1970 by the clock of whoever answered,
    /// where it tells.
    pub(crate) async fn request_dated<T: DeserializeOwned>(
        &self,
        call: ApiRequest,
    ) -> Result<(T, Option<u64>), CallError> {
        let request = self.build_request(&call);
        let request = match call.body() {
            Some(body) => request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body),
            None => request,
        };
        self.make(&call, request, &UploadProgress::none()).await
    }

    /// Makes a call with files, whose own body is ignored: it is a field of the form. `progress` watches the bodies of
    /// `form`.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        call: ApiRequest,
        form: Form,
        progress: &UploadProgress,
    ) -> Result<T, CallError> {
        self.make(&call, self.build_request(&call).multipart(form), progress).await.map(|(answer, _)| answer)
    }

    async fn make<T: DeserializeOwned>(
        &self,
        call: &ApiRequest,
        request: RequestBuilder,
        progress: &UploadProgress,
    ) -> Result<(T, Option<u64>), CallError> {
        let mut turn = self.pacer.acquire(call).await?;
        let response = exchange(request, progress, self.timeouts()).await?;
        turn.record_headers(&response.headers);
        let decoded = response::decode(&response, &self.token);
        match &decoded {
            Err(CallError::RateLimited { retry_after, global, .. }) => {
                turn.close_bucket(retry_after.unwrap_or(DEFAULT_RETRY_AFTER), *global);
            }
            // Those of interactions have tokens of their own.
            Err(CallError::Refused(ApiError { status: 401, .. })) if !call.is_of_an_interaction() => {
                turn.close_bucket(DEFAULT_RETRY_AFTER, true);
            }
            _ => {}
        }
        decoded.map(|decoded| (decoded, response::dated(&response.headers)))
    }

    fn build_request(&self, call: &ApiRequest) -> RequestBuilder {
        let mut authorization = HeaderValue::try_from(format!("Bot {}", self.token.expose_secret()))
            .expect("a token is letters, digits, dots, dashes and underscores");
        authorization.set_sensitive(true);
        let request = self.api.request(call.method().clone(), &format!("{VERSION}{}", call.path()));
        request.header(AUTHORIZATION, authorization)
    }
}

impl fmt::Debug for RestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestClient").field("timeouts", &self.timeouts()).finish_non_exhaustive()
    }
}

/// Whether a text has the form of a token. It becomes a header, so nothing else may.
fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

#[cfg(test)]
mod tests;
