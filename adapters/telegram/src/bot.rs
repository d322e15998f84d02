//! The Bot API's wire: one client, which keeps the token to itself and tells how a call failed.
//!
//! teloxide's own client is not used. It loses the error code, sleeps ten seconds on a 5xx, takes an answer that holds
//! a field it doesn't know for a failure, and shows the token in `Debug`; here only what is needed is read.

mod answer;
mod exchange;

use std::{fmt, net::IpAddr, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{
    Url,
    header::{CONTENT_TYPE, HeaderValue},
    multipart::Form,
};
use satchel_ports::ByteStream;
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use teloxide::requests::Payload;

pub(crate) use answer::{CallError, Refused};
pub(crate) use exchange::Progress;

/// Where Telegram answers unless something else is configured.
const TELEGRAM: &str = "https://api.telegram.org";

/// How long a connection is kept for the next call. Telegram closes idle ones after a minute or so; a call written
/// onto one that is just being closed would be in doubt.
const KEPT: Duration = Duration::from_secs(25);

/// Why the bot can't work.
#[derive(Debug, thiserror::Error)]
pub enum TelegramError {
    /// The token has not the form of one.
    #[error("this is not a Telegram token: a token looks like 123456789:AbC-dEf… and comes from @BotFather")]
    Token,
    /// The server's address can't be used.
    #[error("the Bot API's address must start with http:// or https:// and a host")]
    Address,
    /// The client could not be built.
    #[error("the system has no root certificates; install the package ca-certificates")]
    Client,
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

/// How long Telegram is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    pub connect: Duration,
    /// For an answer once the request is written. Uploads add the time in which a slow line would carry them once more,
    /// since a server passes them on before it answers.
    pub answer: Duration,
    /// For the next bytes of an upload to be taken, or of a download to come.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), answer: Duration::from_secs(30), silence: Duration::from_secs(30) }
    }
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
    http: reqwest::Client,
    /// `<server>/bot<token>`, to which a slash and a method's name are added.
    methods: SecretString,
    /// `<server>/file/bot<token>`, to which a file's path is added.
    files: SecretString,
    token: SecretString,
    own_server: bool,
    patience: Patience,
}

impl BotClient {
    /// A client of Telegram's server, or of another one at `api_url`.
    ///
    /// Proxies are taken from the environment (`HTTPS_PROXY`), as people behind one expect; none leads to this machine.
    pub(crate) fn new(
        token: &SecretString,
        api_url: Option<&SecretString>,
        patience: Patience,
    ) -> Result<Self, TelegramError> {
        let written = token.expose_secret().trim();
        if !is_token(written) {
            return Err(TelegramError::Token);
        }
        let server = api_url.map_or(TELEGRAM, |url| url.expose_secret().trim()).trim_end_matches('/');
        let address = Url::parse(server).map_err(|_| TelegramError::Address)?;
        let Some(host) = address.host_str().filter(|_| matches!(address.scheme(), "http" | "https")) else {
            return Err(TelegramError::Address);
        };
        if address.query().is_some() || address.fragment().is_some() {
            return Err(TelegramError::Address);
        }
        // Whoever installs a provider first has chosen for the whole process.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder()
            .connect_timeout(patience.connect)
            .pool_idle_timeout(KEPT)
            // The token is in the path, and would be sent along.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("satchel/", env!("CARGO_PKG_VERSION")));
        let builder = if address.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
        let builder = if is_this_machine(host) { builder.no_proxy() } else { builder };
        Ok(Self {
            http: builder.build().map_err(|_| TelegramError::Client)?,
            methods: format!("{server}/bot{written}").into(),
            files: format!("{server}/file/bot{written}").into(),
            token: written.into(),
            own_server: server != TELEGRAM,
            patience,
        })
    }

    /// Whether it speaks to another server than Telegram's own.
    pub(crate) fn has_own_server(&self) -> bool {
        self.own_server
    }

    /// Words that somebody else wrote, without the token.
    pub(crate) fn without_token(&self, words: &str) -> String {
        words.replace(self.token.expose_secret(), "<token>")
    }

    /// Calls a method and reads what is needed of the result: `T` decides.
    pub(crate) async fn ask<P, T>(&self, payload: &P) -> Result<T, CallError>
    where
        P: Payload + Serialize + Sync,
        T: DeserializeOwned,
    {
        let body = serde_json::to_vec(payload).expect("a payload of texts and numbers is JSON");
        self.ask_json(P::NAME, body, Duration::ZERO).await
    }

    /// Calls a method with a body of JSON, which the server lets wait for so long, as `getUpdates` does.
    pub(crate) async fn ask_json<T: DeserializeOwned>(
        &self,
        method: &str,
        body: Vec<u8>,
        wait: Duration,
    ) -> Result<T, CallError> {
        let request = self.http.post(self.method_url(method));
        let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body);
        let (status, body) = exchange::exchange(request, &Progress::none(), self.patience.waiting(wait)).await?;
        answer::decode(status, &body, &self.token)
    }

    /// Calls a method with files. `progress` watches the bodies of `form`.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        form: Form,
        progress: &Progress,
    ) -> Result<T, CallError> {
        let request = self.http.post(self.method_url(method)).multipart(form);
        let (status, body) = exchange::exchange(request, progress, self.patience).await?;
        answer::decode(status, &body, &self.token)
    }

    /// Opens a file by the path that `getFile` has told.
    pub(crate) async fn download(&self, path: &str) -> Result<Download, CallError> {
        let mut url = Url::parse(self.files.expose_secret()).expect("it was parsed when the client was built");
        url.path_segments_mut().expect("http has paths").extend(path.split('/'));
        let answered = tokio::time::timeout(self.patience.answer, self.http.get(url).send()).await;
        let answered = answered.map_err(|_| CallError::Lost { reason: "no response in time".to_owned() })?;
        let response = answered.map_err(CallError::unanswered)?;
        let silence = self.patience.silence;
        if !response.status().is_success() {
            let (status, body) = exchange::read(response, silence).await?;
            return Err(answer::decode::<serde::de::IgnoredAny>(status, &body, &self.token).err().unwrap_or_else(
                || CallError::NotAnAnswer { status, reason: "the response is not the requested file".to_owned() },
            ));
        }
        let bytes = response.content_length();
        let pieces = response.bytes_stream().boxed();
        let content = stream::try_unfold(pieces, move |mut pieces| async move {
            match tokio::time::timeout(silence, pieces.try_next()).await {
                Ok(Ok(piece)) => Ok(piece.map(|piece| (piece, pieces))),
                Ok(Err(error)) => Err(std::io::Error::other(error.without_url())),
                Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
            }
        });
        Ok(Download { bytes, content: content.boxed() })
    }

    fn method_url(&self, method: &str) -> String {
        format!("{}/{method}", self.methods.expose_secret())
    }
}

impl fmt::Debug for BotClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BotClient").field("own_server", &self.own_server).finish_non_exhaustive()
    }
}

impl Patience {
    /// The same, with an answer that may come so much later.
    fn waiting(self, longer: Duration) -> Self {
        Self { answer: self.answer + longer, ..self }
    }
}

/// Whether a text has the form of a token. It becomes a part of a path, so nothing else may.
fn is_token(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split_once(':').is_some_and(|(id, secret)| {
        !id.is_empty() && id.chars().all(|c| c.is_ascii_digit()) && !secret.is_empty() && secret.chars().all(fits)
    })
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
