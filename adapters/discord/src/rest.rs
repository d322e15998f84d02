//! The REST API's wire: one client, which keeps the token to itself and tells how a call failed.
//!
//! serenity's own client is not used. It brings another HTTP and TLS stack, loses whether a message may have arrived,
//! and asks discord.com in spite of a configured server while its rate limiter is on (ADR 0012).

mod answer;
mod call;
mod exchange;
mod limiter;
mod pacing;

use std::{fmt, net::IpAddr, time::Duration};

use reqwest::{
    RequestBuilder, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
    multipart::Form,
};
use satchel_domain::capabilities::RateLimits;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;

pub(crate) use answer::{CallError, Refused};
pub(crate) use call::Call;
pub(crate) use exchange::Progress;
use pacing::Pacer;

/// Where Discord answers unless something else is configured.
const DISCORD: &str = "https://discord.com";

/// The version of the API that is spoken.
const VERSION: &str = "api/v10";

/// How Discord wants a bot to name itself (Reference, User Agent). In place of an address, which the project has none
/// of, stands its name.
const USER_AGENT: &str = concat!("DiscordBot (satchel, ", env!("CARGO_PKG_VERSION"), ")");

/// How long a connection is kept for the next call. A call written onto one that is just being closed would be in
/// doubt.
const KEPT: Duration = Duration::from_secs(25);

/// Pause after a rejection that names no `Retry-After`: a 429 of a proxy in front of Discord, and a
/// 401. Ten thousand such answers in ten minutes would ban the address (Rate Limits, Invalid Request Limit).
const UNTOLD: Duration = Duration::from_secs(60);

/// Why the bot can't work.
#[derive(Debug, thiserror::Error)]
pub enum DiscordError {
    /// The token has not the form of one.
    #[error("this is not a Discord bot token: get one in the developer portal, under Bot, Reset Token")]
    Token,
    /// The server's address can't be used.
    #[error("Discord's address must start with http:// or https:// and a host, without user name or password")]
    Address,
    /// The client could not be built.
    #[error("the system has no root certificates; install the package ca-certificates")]
    Client,
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

/// How long Discord is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    pub connect: Duration,
    /// For an answer once the request is written. Uploads add the time in which a slow line would carry them once more,
    /// since the server stores them before it answers.
    pub answer: Duration,
    /// For the next bytes of an upload to be taken, or of an answer to come.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), answer: Duration::from_secs(30), silence: Duration::from_secs(30) }
    }
}

/// Calls the REST API. No error, log line or `Debug` of it holds the token or the server's address.
#[derive(Clone)]
pub(crate) struct RestClient {
    http: reqwest::Client,
    /// `<server>/api/v10`, to which a path is added.
    base: SecretString,
    token: SecretString,
    own_server: Option<String>,
    patience: Patience,
    pacer: Pacer,
}

impl RestClient {
    /// A client of Discord's server, or of another one at `api_url`, that keeps to `pace`; without one it heeds only
    /// what it is told with a 429.
    ///
    /// Proxies are taken from the environment (`HTTPS_PROXY`), as people behind one expect; none leads to this machine.
    pub(crate) fn new(
        token: &SecretString,
        api_url: Option<&SecretString>,
        patience: Patience,
        pace: Option<RateLimits>,
    ) -> Result<Self, DiscordError> {
        let written = token.expose_secret().trim();
        let written = written.strip_prefix("Bot ").unwrap_or(written);
        if !is_token(written) {
            return Err(DiscordError::Token);
        }
        let server = api_url.map_or(DISCORD, |url| url.expose_secret().trim()).trim_end_matches('/');
        let address = Url::parse(server).map_err(|_| DiscordError::Address)?;
        let Some(host) = address.host_str().filter(|_| matches!(address.scheme(), "http" | "https")) else {
            return Err(DiscordError::Address);
        };
        // Credentials would need the header that the token is in.
        let has_credentials = !address.username().is_empty() || address.password().is_some();
        if has_credentials || address.query().is_some() || address.fragment().is_some() {
            return Err(DiscordError::Address);
        }
        // Whoever installs a provider first has chosen for the whole process.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder()
            .connect_timeout(patience.connect)
            .pool_idle_timeout(KEPT)
            .redirect(reqwest::redirect::Policy::none())
            // The gateway's WebSocket goes over the same client, and knows nothing newer.
            .http1_only()
            .user_agent(USER_AGENT);
        let builder = if address.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
        let builder = if is_this_machine(host) { builder.no_proxy() } else { builder };
        Ok(Self {
            http: builder.build().map_err(|_| DiscordError::Client)?,
            base: format!("{server}/{VERSION}").into(),
            token: written.into(),
            own_server: api_url.is_some().then(|| host.to_owned()),
            patience,
            pacer: Pacer::new(pace),
        })
    }

    /// The client beneath, for what is no call: the gateway's WebSocket. It adds no token.
    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    pub(crate) fn token(&self) -> &SecretString {
        &self.token
    }

    /// The host of the server, where it isn't Discord's own.
    pub(crate) fn own_server(&self) -> Option<&str> {
        self.own_server.as_deref()
    }

    /// The server's origin, as in `https://discord.com`.
    pub(crate) fn origin(&self) -> String {
        let base = Url::parse(self.base.expose_secret()).expect("it was parsed before");
        base.origin().ascii_serialization()
    }

    /// How long Discord is waited for.
    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// Makes a call and reads what is needed of the answer: `T` decides, and is `()` where nothing is.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, CallError> {
        self.ask_dated(call).await.map(|(answer, _)| answer)
    }

    /// The same, with the second in which it was answered, in milliseconds since 1970 by the clock of whoever answered,
    /// where it tells.
    pub(crate) async fn ask_dated<T: DeserializeOwned>(&self, call: Call) -> Result<(T, Option<u64>), CallError> {
        let request = self.request(&call);
        let request = match call.body() {
            Some(body) => request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body),
            None => request,
        };
        self.make(&call, request, &Progress::none()).await
    }

    /// Makes a call with files, whose own body is ignored: it is a field of the form. `progress` watches the bodies of
    /// `form`.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        call: Call,
        form: Form,
        progress: &Progress,
    ) -> Result<T, CallError> {
        self.make(&call, self.request(&call).multipart(form), progress).await.map(|(answer, _)| answer)
    }

    async fn make<T: DeserializeOwned>(
        &self,
        call: &Call,
        request: RequestBuilder,
        progress: &Progress,
    ) -> Result<(T, Option<u64>), CallError> {
        let mut turn = self.pacer.wait(call).await?;
        let answered = exchange::exchange(request, progress, self.patience).await?;
        turn.heed(&answered.headers);
        let decoded = answer::decode(&answered, &self.token);
        match &decoded {
            Err(CallError::RateLimited { retry_after, global, .. }) => {
                turn.close(retry_after.unwrap_or(UNTOLD), *global);
            }
            // Those of interactions have tokens of their own.
            Err(CallError::Refused(Refused { status: 401, .. })) if !call.is_of_an_interaction() => {
                turn.close(UNTOLD, true);
            }
            _ => {}
        }
        decoded.map(|decoded| (decoded, answer::dated(&answered.headers)))
    }

    fn request(&self, call: &Call) -> RequestBuilder {
        let mut authorization = HeaderValue::try_from(format!("Bot {}", self.token.expose_secret()))
            .expect("a token is letters, digits, dots, dashes and underscores");
        authorization.set_sensitive(true);
        let address = format!("{}{}", self.base.expose_secret(), call.path());
        self.http.request(call.method().clone(), address).header(AUTHORIZATION, authorization)
    }
}

impl fmt::Debug for RestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestClient").field("patience", &self.patience).finish_non_exhaustive()
    }
}

/// Whether a text has the form of a token. It becomes a header, so nothing else may.
fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
