//! The client of the REST API. It leaks the token to nobody, also not to a foreign gateway, and its errors show whether a
//! request may have arrived.
//!
//! serenity's own client is not used. It brings another HTTP and TLS stack, doesn't report whether a message may have
//! arrived, and with its rate limiter on calls discord.com despite a configured server (ADR 0027).

mod rate_limiter;
mod request;

use std::{
    error::Error,
    fmt::{self, Display},
    time::Duration,
};

use futures::FutureExt;
use rate_limiter::RateLimiter;
use reqwest::{
    RequestBuilder, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
    multipart::Form,
};
use reqwest_websocket::{Upgrade, WebSocket};
use satchel_domain::capabilities::RateLimits;
use satchel_platform_http::{
    AccountSettings, ApiClient, ApiClientSettings, BotAccount, BotToken, HttpTimeouts, PlatformError, ServerUrl,
    UploadProgress, exchange,
};
use secrecy::{ExposeSecret, SecretString};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use tokio::time::timeout;

pub(crate) use request::{ApiError, ApiRequest, CallError, REVOKED_TEXT, refuse_account};

/// Discord's server, unless another one is configured.
const DEFAULT_API_URL: &str = "https://discord.com";

/// The path prefix of the API version.
const API_PATH: &str = "/api/v10";

/// The user agent in Discord's format (Reference, User Agent). The project has no URL, so its name is used.
const USER_AGENT: &str = concat!("DiscordBot (satchel, ", env!("CARGO_PKG_VERSION"), ")");

/// Pause after a rejection that names no `Retry-After`: a 429 of a proxy in front of Discord. Ten thousand such responses in
/// ten minutes would ban the address (Rate Limits, Invalid Request Limit).
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The longest wait that Discord can request, so that an absurd number doesn't end the bot. Its limit of session starts
/// resets daily.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// The domains of Discord's own gateways.
const DISCORD_HOSTS: [&str; 2] = ["discord.gg", "discord.com"];

/// How an owner gets a new token.
const NEW_TOKEN_TEXT: &str = "create a new token in the developer portal (discord.com/developers/applications: your \
    application, Bot, Reset Token)";

/// The path of the bot's own user, by which a token is checked.
pub(crate) const OWN_USER_PATH: &str = "/users/@me";

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
    /// Discord refused the bot.
    #[error("Discord refused: {reason}")]
    Refused {
        /// Discord's message, and what can be done about it.
        reason: String,
    },
}

/// Calls the REST API as long as Discord accepts the token. None of its errors, log lines or `Debug` output contains the token or the server's address.
#[derive(Clone)]
pub(crate) struct RestClient {
    api: ApiClient,
    account: BotAccount,
    has_custom_server: bool,
    rate_limiter: RateLimiter,
}

impl RestClient {
    /// Creates a client of Discord's server, or of the one at `api_url`, with these rate limits; without any, it only
    /// respects a 429.
    pub(crate) fn new(
        token: &BotToken,
        api_url: Option<&SecretString>,
        timeouts: HttpTimeouts,
        rate_limits: Option<RateLimits>,
    ) -> Result<Self, DiscordError> {
        if parse_token(token.text()).is_none() {
            return Err(DiscordError::Token);
        }
        let server = ServerUrl::parse(api_url.map_or(DEFAULT_API_URL, |url| url.expose_secret()));
        // Credentials would replace the token in the `Authorization` header.
        let server = server.filter(|server| !server.has_credentials()).ok_or(DiscordError::Address)?;
        // The gateway's WebSocket uses the same client and needs HTTP/1.1.
        let settings = ApiClientSettings { server, user_agent: USER_AGENT, http1_only: true, timeouts };
        let api = ApiClient::new(settings)?;
        let account = BotAccount::new(token, account_settings(&api)).ok_or(DiscordError::Token)?;
        Ok(Self { api, account, has_custom_server: api_url.is_some(), rate_limiter: RateLimiter::new(rate_limits) })
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

    /// The account, which Discord may refuse.
    pub(crate) fn account(&self) -> &BotAccount {
        &self.account
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
        let token = self.call_token()?;
        let builder = build_json_request(&self.api, &token, &request);
        self.execute(&request, &token, builder, &UploadProgress::none()).await
    }

    /// Sends a request with files. Its own body is ignored, because it is a field of the form; `progress` tracks the
    /// bodies of `form`.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        request: ApiRequest,
        form: Form,
        progress: &UploadProgress,
    ) -> Result<T, CallError> {
        let token = self.call_token()?;
        let builder = build_request(&self.api, &token, &request).multipart(form);
        self.execute(&request, &token, builder, progress).await.map(|(response, _)| response)
    }

    /// The token for a call, unless the channel is closed.
    fn call_token(&self) -> Result<SecretString, CallError> {
        self.account.token()
    }

    async fn execute<T: DeserializeOwned>(
        &self,
        request: &ApiRequest,
        token: &SecretString,
        builder: RequestBuilder,
        progress: &UploadProgress,
    ) -> Result<(T, Option<u64>), CallError> {
        let mut permit = self.rate_limiter.acquire(request).await?;
        let response = exchange(builder, progress, self.timeouts()).await?;
        permit.record_headers(&response.headers);
        let decoded = request::decode(&response, token);
        if let Err(CallError::RateLimited { retry_after, global, .. }) = &decoded {
            permit.close_route(retry_after.unwrap_or(DEFAULT_RETRY_AFTER), *global);
        }
        // Interactions have their own tokens.
        let decoded = match request.is_interaction() {
            true => decoded,
            false => self.account.close_if_refused(token, decoded.map_err(refuse_account)),
        };
        decoded.map(|decoded| (decoded, request::parse_date(&response.headers)))
    }
}

/// How Discord's tokens are checked: by the bot's own user.
fn account_settings(api: &ApiClient) -> AccountSettings {
    let api = api.clone();
    let check = move |token: SecretString| {
        let api = api.clone();
        async move {
            let builder = build_json_request(&api, &token, &ApiRequest::get(OWN_USER_PATH));
            let response = exchange(builder, &UploadProgress::none(), api.timeouts()).await;
            response.and_then(|response| request::decode::<IgnoredAny>(&response, &token)).is_ok()
        }
        .boxed()
    };
    AccountSettings { platform: ApiError::PLATFORM, remedy: NEW_TOKEN_TEXT, parse: parse_token, check: Box::new(check) }
}

fn build_json_request(api: &ApiClient, token: &SecretString, request: &ApiRequest) -> RequestBuilder {
    let builder = build_request(api, token, request);
    match request.body() {
        Some(body) => builder.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body),
        None => builder,
    }
}

fn build_request(api: &ApiClient, token: &SecretString, request: &ApiRequest) -> RequestBuilder {
    let mut authorization = HeaderValue::try_from(format!("Bot {}", token.expose_secret()))
        .expect("a token is letters, digits, dots, dashes and underscores");
    authorization.set_sensitive(true);
    let builder = api.request(request.method().clone(), &format!("{API_PATH}{}", request.path()));
    builder.header(AUTHORIZATION, authorization)
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

/// Reads a token as it is configured.
fn parse_token(token: &SecretString) -> Option<SecretString> {
    let text = token.expose_secret().trim();
    let text = text.strip_prefix("Bot ").unwrap_or(text);
    is_token(text).then(|| text.into())
}

/// Whether a text has the form of a token, which is safe in a header.
fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

/// Counts failures in a row. All outages are one kind in the log.
pub(crate) type RetryTracker = satchel_platform_http::RetryTracker<()>;

/// Logs an outage, once until it is over. Returns the delay before the next attempt.
pub(crate) fn next_delay_logged(retries: &mut RetryTracker, error: &dyn Display) -> Duration {
    if retries.start_outage(()) {
        tracing::warn!(error = %error, "cannot reach Discord; retrying with backoff");
    }
    retries.next_delay()
}

/// Returns the delay before a failed call is retried.
pub(crate) fn delay_after_error(retries: &mut RetryTracker, error: &CallError) -> Duration {
    match error {
        // The account has logged it, and ends what is retried.
        CallError::AccountRefused { .. } => retries.next_delay(),
        CallError::RateLimited { retry_after, .. } => {
            let delay = next_delay_logged(retries, error);
            delay.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER))
        }
        _ => next_delay_logged(retries, error),
    }
}

/// The response of `GET /gateway/bot`.
#[derive(Debug, Deserialize)]
pub(crate) struct GatewayBot {
    pub(crate) url: String,
    #[serde(default)]
    session_start_limit: Option<SessionStartLimit>,
}

#[derive(Debug, Deserialize)]
struct SessionStartLimit {
    remaining: u64,
    /// In milliseconds.
    reset_after: u64,
}

pub(crate) async fn get_gateway_bot(rest: &RestClient) -> Result<GatewayBot, CallError> {
    rest.request(ApiRequest::get("/gateway/bot")).await
}

impl GatewayBot {
    /// How long no new session may be started, at most a day.
    pub(crate) fn wait_until_reset(&self) -> Option<Duration> {
        let limit = self.session_start_limit.as_ref().filter(|limit| limit.remaining == 0)?;
        Some(Duration::from_millis(limit.reset_after).min(MAX_RETRY_AFTER))
    }
}

/// Which gateways may receive the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrustedHosts {
    /// Only if REST calls, which carry the token too, are unencrypted as well.
    allows_unencrypted: bool,
    only_discord: bool,
}

impl TrustedHosts {
    /// Derives the rules from the origin of the API server.
    pub(crate) fn for_api_server(server: &str) -> Self {
        let server = Url::parse(server).ok();
        Self {
            allows_unencrypted: server.as_ref().is_some_and(|server| server.scheme() == "http"),
            only_discord: server.as_ref().is_none_or(is_discord_host),
        }
    }

    /// Returns the URL of a trusted gateway, with our protocol version and encoding.
    pub(crate) fn gateway_url(self, url: &str) -> Option<Url> {
        let mut url = Url::parse(url).ok()?;
        let is_allowed_scheme = url.scheme() == "wss" || (self.allows_unencrypted && url.scheme() == "ws");
        if !is_allowed_scheme || (self.only_discord && !is_discord_host(&url)) {
            return None;
        }
        url.set_query(Some("v=10&encoding=json"));
        Some(url)
    }
}

fn is_discord_host(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let is_within = |domain| host.strip_suffix(domain).is_some_and(|rest: &str| rest.is_empty() || rest.ends_with('.'));
    DISCORD_HOSTS.into_iter().any(is_within)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
    use rstest::rstest;
    use satchel_platform_http::ApiResponse;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        GatewayTimeouts,
        classify::{ApiOperation, classify_error},
    };

    #[test]
    fn rate_limit_is_awaited_and_refused_account_is_no_outage() {
        let mut retries = GatewayTimeouts::default().new_retry_tracker();
        let limited = |seconds| CallError::RateLimited {
            retry_after: Some(Duration::from_secs(seconds)),
            global: false,
            reason: String::new(),
        };
        assert_eq!(delay_after_error(&mut retries, &limited(90)), Duration::from_secs(90));
        assert_eq!(delay_after_error(&mut retries, &limited(u64::MAX)), MAX_RETRY_AFTER);
        let mut retries = GatewayTimeouts::default().new_retry_tracker();
        let refused = CallError::AccountRefused { reason: "no longer accepts the bot's token".to_owned() };
        assert!(delay_after_error(&mut retries, &refused) <= GatewayTimeouts::default().min_retry_delay);
        assert!(retries.start_outage(()), "no outage was reported");
    }

    /// From the bytes of an answer, or from what came in its place, to what the part is told.
    #[test]
    fn answers_map_to_outcomes() {
        let mut table = String::new();
        for (status, body) in [
            (200, r#"{"id":"7"}"#),
            (200, r#"{"typing":true}"#),
            (200, ""),
            (204, ""),
            (200, r#"{"id":"#),
            (200, "<html>"),
            (302, ""),
            (400, r#"{"message":"token is wrong","code":0}"#),
            (400, r#"{"message":"Invalid Form Body","code":50035,"errors":{"content":{}}}"#),
            (400, "{}"),
            (401, r#"{"message":"401: Unauthorized","code":0}"#),
            (403, r#"{"message":"Missing Access","code":50001}"#),
            (404, "<html>"),
            (413, r#"{"message":"Request entity too large","code":40005}"#),
            (413, "<html>"),
            (429, r#"{"message":"The token is limited","retry_after":1.2345,"global":true}"#),
            (429, r#"{"message":"You are being rate limited.","retry_after":2,"global":false}"#),
            (429, "<html>"),
            (500, r#"{"message":"500: Internal Server Error","code":0}"#),
            (502, "<html>"),
            (504, r#"{"message":"504: Gateway Timeout","code":0}"#),
        ] {
            let decoded = read::<IgnoredAny>(status, None, body).map_err(refuse_account);
            let outcome = decoded.map_err(|error| classify_error(error, ApiOperation::Text));
            writeln!(table, "{status} {body}\n  {outcome:?}").unwrap();
        }
        let reason = || "why".to_owned();
        for error in [
            CallError::NotConnected { reason: reason() },
            CallError::Lost { reason: reason() },
            CallError::Unreadable { reason: reason() },
        ] {
            let told =
                [ApiOperation::Text, ApiOperation::Harmless].map(|operation| classify_error(error.clone(), operation));
            writeln!(table, "{error:?}\n  {told:?}").unwrap();
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn only_well_formed_token_is_accepted() {
        for (text, is_one) in
            [("MTA.abc-d_E", true), ("x", true), ("", false), ("a b", false), ("a\r\nX: y", false), ("ü", false)]
        {
            assert_eq!(is_token(text), is_one, "{text}");
        }
    }

    #[test]
    fn only_an_address_of_a_server_is_one() {
        let made = |url: &str| RestClient::new(&"token".into(), Some(&url.into()), HttpTimeouts::default(), None);
        for (url, works) in [
            ("https://discord.example", true),
            ("http://127.0.0.1:8080/", true),
            ("http://name:word@host", false),
            ("http://name@host", false),
            ("http://:word@host", false),
            ("ftp://host", false),
        ] {
            assert_eq!(made(url).is_ok(), works, "{url}");
        }
        let client = made("http://host:8080/").unwrap();
        let url = client.api.url(API_PATH);
        assert_eq!((client.custom_server_host(), url.as_str()), (Some("host"), "http://host:8080/api/v10"));
        let of_discord = RestClient::new(&" Bot abc.d ".into(), None, HttpTimeouts::default(), None).unwrap();
        let token = of_discord.account().last_token();
        assert_eq!((of_discord.custom_server_host(), token.expose_secret()), (None, "abc.d"));
    }

    fn read<T: DeserializeOwned>(status: u16, retry_after: Option<&'static str>, body: &str) -> Result<T, CallError> {
        let mut headers = HeaderMap::new();
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        request::decode(&ApiResponse { status, headers, body: body.as_bytes().to_vec() }, &"token".into())
    }

    #[test]
    fn empty_response_suffices_where_no_body_is_needed() {
        assert_eq!(read::<()>(204, None, ""), Ok(()));
        assert!(matches!(read::<Vec<Value>>(204, None, ""), Err(CallError::InvalidResponse { status: 204, .. })));
    }

    #[test]
    fn retry_after_is_read_from_header_or_body() {
        let wait = |header, body: &str| match read::<()>(429, header, body) {
            Err(CallError::RateLimited { retry_after, global, .. }) => {
                (retry_after.map(|wait| wait.as_millis()), global)
            }
            other => panic!("{other:?}"),
        };
        for (header, body, expected) in [
            (None, r#"{"message":"x","retry_after":1.2345,"global":true}"#, (Some(1_235), true)),
            (Some("9"), r#"{"message":"x","retry_after":2,"global":false}"#, (Some(2_000), false)),
            (Some("9"), "<html>", (Some(9_000), true)),
            (Some("soon"), "<html>", (None, true)),
            (Some("9"), r#"{"message":"x","global":false}"#, (Some(9_000), true)),
            (None, r#"{"retry_after":-1}"#, (None, true)),
            (Some("9"), r#"{"retry_after":-1}"#, (Some(9_000), true)),
            (None, r#"{"retry_after":1e300}"#, (Some(2_592_000_000), false)),
        ] {
            assert_eq!(wait(header, body), expected, "{header:?} {body}");
        }
    }

    #[test]
    fn api_error_keeps_code_and_hides_token() {
        let refused = read::<()>(400, None, r#"{"message":"token is wrong","code":50035,"errors":{"content":{}}}"#);
        let expected = ApiError {
            status: 400,
            code: 50_035,
            message: "<token> is wrong".to_owned(),
            errors: serde_json::json!({ "content": {} }),
        };
        assert_eq!(refused, Err(CallError::Refused(expected)));
        assert!(matches!(read::<()>(400, None, "{}"), Err(CallError::InvalidResponse { status: 400, .. })));
        assert!(matches!(read::<()>(502, None, "<html>"), Err(CallError::InvalidResponse { status: 502, .. })));
    }

    #[test]
    fn an_answer_tells_its_time() {
        for (date, told) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777_000)),
            ("Sun, 22 Nov 2026 00:00:00 GMT", Some(1_795_305_600_000)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 06 Foo 1994 08:49:37 GMT", None),
            ("Sun, 66 Nov 1994 08:49:37 GMT", None),
            ("Mon, 01 Jan 1900 00:00:00 GMT", None),
            ("now", None),
        ] {
            let headers = HeaderMap::from_iter([(DATE, HeaderValue::from_static(date))]);
            assert_eq!(request::parse_date(&headers), told, "{date}");
        }
        assert_eq!(request::parse_date(&HeaderMap::new()), None);
    }

    #[test]
    fn gateway_url_names_version_and_encoding() {
        let gateway_url =
            |url| TrustedHosts::for_api_server("http://[::1]:9").gateway_url(url).map(|url| url.to_string());
        assert_eq!(
            gateway_url("wss://gateway.discord.gg").as_deref(),
            Some("wss://gateway.discord.gg/?v=10&encoding=json")
        );
        assert_eq!(gateway_url("ws://[::1]:9/x?v=6").as_deref(), Some("ws://[::1]:9/x?v=10&encoding=json"));
        assert_eq!((gateway_url("https://gateway.discord.gg"), gateway_url("gateway")), (None, None));
    }

    #[rstest]
    #[case::discord("https://discord.com", "wss://gateway-us-east1-b.discord.gg", true)]
    #[case::bare_domain("https://discord.com", "wss://discord.com:443/gateway", true)]
    #[case::capitals("https://discord.com", "wss://GATEWAY.DISCORD.GG", true)]
    #[case::unencrypted("https://discord.com", "ws://gateway.discord.gg", false)]
    #[case::foreign_host("https://discord.com", "wss://gateway.example", false)]
    #[case::similar_name("https://discord.com", "wss://evildiscord.gg", false)]
    #[case::name_as_subdomain("https://discord.com", "wss://discord.gg.example", false)]
    #[case::name_as_user("https://discord.com", "wss://gateway.discord.gg@gateway.example", false)]
    #[case::no_host("https://discord.com", "wss://", false)]
    #[case::foreign_host_of_custom_server("https://server.example", "wss://gateway.example", true)]
    #[case::unencrypted_beside_encrypted("https://server.example", "ws://server.example", false)]
    #[case::unencrypted_beside_unencrypted("http://127.0.0.1:9", "ws://127.0.0.1:9/gateway", true)]
    #[case::no_server("", "wss://gateway.example", false)]
    fn token_is_sent_only_to_trusted_hosts(#[case] server: &str, #[case] url: &str, #[case] is_trusted: bool) {
        assert_eq!(TrustedHosts::for_api_server(server).gateway_url(url).is_some(), is_trusted);
    }

    #[test]
    fn session_limit_is_awaited_at_most_one_day() {
        let response = |limit: &str| -> GatewayBot {
            serde_json::from_str(&format!(r#"{{"url":"wss://x","shards":1{limit}}}"#)).unwrap()
        };
        let limit = |remaining: u64, reset_after: u64| {
            let limit = json!({ "total": 1_000, "remaining": remaining, "reset_after": reset_after });
            format!(r#","session_start_limit":{limit}"#)
        };
        let wait = |remaining, reset_after| response(&limit(remaining, reset_after)).wait_until_reset();
        assert_eq!(wait(0, 5_000), Some(Duration::from_secs(5)));
        assert_eq!(wait(0, u64::MAX), Some(Duration::from_secs(24 * 3_600)), "no longer than a day");
        assert_eq!((wait(1, 5_000), response("").wait_until_reset()), (None, None));
    }
}
