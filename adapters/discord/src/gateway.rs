//! The gateway: where it is, and the connection over which Discord delivers events, opened over and over.
//!
//! serenity's client is not used: events that it can't decode vanish, the next process can't resume its session, and it
//! wakes twice a second (ADR 0012). Its vocabulary is.

mod protocol;

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use reqwest::Url;
use reqwest_websocket::{CloseCode, Message, WebSocket};
use satchel_platform_http::random_fraction;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::{
    sync::mpsc::{self, Permit},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::protocol::{CLOSE_KEEPING_SESSION, ClientFrame, GatewayProtocol, ProtocolAction, ProtocolEvent, Reconnect};
use crate::{
    GatewayTimeouts,
    rest::{
        ApiRequest, CallError, DiscordError, MAX_RETRY_AFTER, RestClient, RetryTracker, delay_after_error,
        describe_websocket_error, next_delay_logged,
    },
};

pub(crate) use protocol::{GatewayEvent, ResumeState};

const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const UNTRUSTED_URL_TEXT: &str = "the gateway's address is not one that may receive the token";
const NO_MESSAGE_CONTENT_TEXT: &str = "the bot can't read guild messages that don't mention it; to change that, turn on \
    the Message Content Intent in the developer portal (discord.com/developers/applications: your application, Bot, \
    Privileged Gateway Intents), and restart Satchel";

/// The domains of Discord's own gateways.
const DISCORD_HOSTS: [&str; 2] = ["discord.gg", "discord.com"];

/// A gateway session, over all of its connections.
pub(crate) struct GatewaySession {
    rest: RestClient,
    timeouts: GatewayTimeouts,
    retries: RetryTracker,
    protocol: GatewayProtocol,
    is_limit_reported: bool,
}

impl GatewaySession {
    /// Creates a session that resumes another one, if there is one of the same server and with message content.
    pub(crate) fn new(rest: RestClient, timeouts: GatewayTimeouts, resume_state: Option<ResumeState>) -> Self {
        let (response_timeout, now) = (rest.timeouts().response, Instant::now().into_std());
        let protocol = GatewayProtocol::new(rest.origin(), resume_state, response_timeout, now);
        Self { rest, timeouts, retries: timeouts.new_retry_tracker(), protocol, is_limit_reported: false }
    }

    /// Delivers events in Discord's order, until `stop` or until nobody takes them any more; retries while Discord can't
    /// be reached. The last connection is closed so that the session can be resumed.
    ///
    /// While `events` is full nothing is read from the connection, which is kept alive.
    ///
    /// # Errors
    /// If Discord refuses the bot and no further attempt can help.
    pub(crate) async fn run(
        mut self,
        events: mpsc::Sender<GatewayEvent>,
        stop: &CancellationToken,
    ) -> Result<(), DiscordError> {
        loop {
            // A connection that can't be read would look dead.
            let Some(Ok(permit)) = stop.run_until_cancelled(events.reserve()).await else { return Ok(()) };
            let Some(connected) = stop.run_until_cancelled(self.connect()).await else { return Ok(()) };
            let closed = self.run_connection(connected?, &events, permit, stop).await;
            let Some((reconnect, reason)) = closed else { return Ok(()) };
            tracing::debug!(reason, "the gateway connection closed");
            let delay = self.reconnect_delay(reconnect, &reason)?;
            if stop.run_until_cancelled(sleep(delay)).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Opens a connection, with as many attempts as it takes.
    async fn connect(&mut self) -> Result<WebSocket, DiscordError> {
        loop {
            let url = self.gateway_url().await?;
            match self.rest.open_websocket(url).await {
                Ok(socket) => return Ok(socket),
                Err(reason) => sleep(next_delay_logged(&mut self.retries, &reason)).await,
            }
            self.protocol.on(ProtocolEvent::ConnectFailed, Instant::now().into_std());
        }
    }

    /// Waits until a connection may be opened, and returns where.
    async fn gateway_url(&mut self) -> Result<Url, DiscordError> {
        let trusted_hosts = TrustedHosts::for_api_server(self.rest.origin());
        loop {
            if let Some(url) = self.protocol.resume_url().and_then(|url| trusted_hosts.gateway_url(url)) {
                return Ok(url);
            }
            if let (true, Some(identified_at)) = (self.protocol.needs_identify(), self.protocol.identified_at) {
                sleep_until(Instant::from_std(identified_at) + self.timeouts.identify_interval).await;
            }
            let delay = match get_gateway_bot(&self.rest).await {
                Err(error) => delay_after_error(&mut self.retries, &error)?,
                Ok(gateway) => match (gateway.wait_until_reset(), trusted_hosts.gateway_url(&gateway.url)) {
                    (Some(wait), _) if self.protocol.needs_identify() => {
                        if !std::mem::replace(&mut self.is_limit_reported, true) {
                            let minutes = wait.as_secs().div_ceil(60).max(1);
                            tracing::warn!(minutes, "session start limit reached; waiting for its reset");
                        }
                        // Discord may name a reset that has just passed.
                        wait.max(self.retries.next_delay())
                    }
                    (_, Some(url)) => {
                        self.is_limit_reported = false;
                        return Ok(url);
                    }
                    (_, None) => next_delay_logged(&mut self.retries, &UNTRUSTED_URL_TEXT),
                },
            };
            sleep(delay).await;
        }
    }

    /// Runs a connection until it is closed. Returns when to open the next one, or `None` to stop.
    async fn run_connection(
        &mut self,
        mut socket: WebSocket,
        events: &mpsc::Sender<GatewayEvent>,
        permit: Permit<'_, GatewayEvent>,
        stop: &CancellationToken,
    ) -> Option<(Reconnect, String)> {
        let mut permit = Some(permit);
        let mut next = Some(ProtocolEvent::Connected { jitter: random_fraction() });
        while let Some(event) = next.take() {
            let is_open = !matches!(event, ProtocolEvent::Closed { .. });
            let sent = match self.protocol.on(event, Instant::now().into_std()) {
                ProtocolAction::None => Some(Ok(())),
                ProtocolAction::Send(frame) => {
                    stop.run_until_cancelled(send_frame(self.rest.token(), &mut socket, &frame)).await
                }
                ProtocolAction::Emit { event, is_ready } => {
                    permit.take().expect("nothing is read without a permit").send(event);
                    if is_ready {
                        self.retries.mark_recovered();
                    }
                    Some(Ok(()))
                }
                ProtocolAction::Close { reconnect, reason, has_lasted } => {
                    if is_open {
                        close(socket).await;
                    }
                    if has_lasted {
                        self.retries.reset();
                    }
                    return Some((reconnect, reason));
                }
            };
            next = match sent {
                Some(Ok(())) => next_event(&self.protocol, &mut socket, events, &mut permit, stop).await,
                Some(Err(reason)) => Some(ProtocolEvent::Closed { code: None, reason }),
                None => None,
            };
        }
        close(socket).await;
        None
    }

    fn reconnect_delay(&mut self, reconnect: Reconnect, reason: &str) -> Result<Duration, DiscordError> {
        Ok(match reconnect {
            Reconnect::Backoff => self.retries.next_delay(),
            Reconnect::Outage { is_session_dropped } => {
                if is_session_dropped {
                    tracing::info!("Discord invalidated the session; identifying again");
                }
                next_delay_logged(&mut self.retries, &reason)
            }
            Reconnect::NewSession { is_outage } => {
                let delay = if is_outage { next_delay_logged(&mut self.retries, &reason) } else { Duration::ZERO };
                delay.max(self.timeouts.new_session_delay())
            }
            Reconnect::WithoutMessageContent => {
                tracing::warn!("{NO_MESSAGE_CONTENT_TEXT}");
                Duration::ZERO
            }
            Reconnect::Fail(error) => return Err(error),
        })
    }
}

/// Waits for the next event of a connection; `None` to stop. Reads nothing without a permit to deliver it.
async fn next_event<'a>(
    protocol: &GatewayProtocol,
    socket: &mut WebSocket,
    events: &'a mpsc::Sender<GatewayEvent>,
    permit: &mut Option<Permit<'a, GatewayEvent>>,
    stop: &CancellationToken,
) -> Option<ProtocolEvent> {
    loop {
        return tokio::select! {
            () = stop.cancelled() => None,
            reserved = events.reserve(), if permit.is_none() => {
                *permit = Some(reserved.ok()?);
                continue;
            }
            () = sleep_until(Instant::from_std(protocol.next_timer())) => {
                Some(ProtocolEvent::Timer { is_reading: permit.is_some() })
            }
            message = socket.next(), if permit.is_some() => Some(match message {
                Some(Ok(Message::Text(text))) => ProtocolEvent::Text(text),
                Some(Ok(Message::Binary(bytes))) => ProtocolEvent::Binary(bytes.into()),
                Some(Ok(Message::Close { code, .. })) => {
                    let code = u16::from(code);
                    let reason = format!("Discord closed the connection with close code {code}");
                    ProtocolEvent::Closed { code: Some(code), reason }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Err(error)) => ProtocolEvent::Closed { code: None, reason: describe_websocket_error(error) },
                None => ProtocolEvent::Closed { code: None, reason: "it ended".to_owned() },
            }),
        };
    }
}

async fn send_frame(token: &SecretString, socket: &mut WebSocket, frame: &ClientFrame) -> Result<(), String> {
    let text = frame.encode(token.expose_secret());
    match timeout(WRITE_TIMEOUT, socket.send(Message::Text(text))).await {
        Ok(sent) => sent.map_err(describe_websocket_error),
        Err(_) => Err("writing to the connection failed".to_owned()),
    }
}

/// Closes a connection so that the session can be resumed.
async fn close(socket: WebSocket) {
    // If Discord doesn't receive the close frame, it finds the connection gone.
    let _ = timeout(CLOSE_TIMEOUT, socket.close(CloseCode::from(CLOSE_KEEPING_SESSION), None)).await;
}

/// The response of `GET /gateway/bot`.
#[derive(Debug, Deserialize)]
struct GatewayBot {
    url: String,
    #[serde(default)]
    session_start_limit: Option<SessionStartLimit>,
}

#[derive(Debug, Deserialize)]
struct SessionStartLimit {
    remaining: u64,
    /// In milliseconds.
    reset_after: u64,
}

async fn get_gateway_bot(rest: &RestClient) -> Result<GatewayBot, CallError> {
    rest.request(ApiRequest::get("/gateway/bot")).await
}

impl GatewayBot {
    /// How long no new session may be started, at most a day.
    fn wait_until_reset(&self) -> Option<Duration> {
        let limit = self.session_start_limit.as_ref().filter(|limit| limit.remaining == 0)?;
        Some(Duration::from_millis(limit.reset_after).min(MAX_RETRY_AFTER))
    }
}

/// Which gateways may receive the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TrustedHosts {
    /// Only if REST calls, which carry the token too, are unencrypted as well.
    allows_unencrypted: bool,
    only_discord: bool,
}

impl TrustedHosts {
    /// Derives the rules from the origin of the API server.
    fn for_api_server(server: &str) -> Self {
        let server = Url::parse(server).ok();
        Self {
            allows_unencrypted: server.as_ref().is_some_and(|server| server.scheme() == "http"),
            only_discord: server.as_ref().is_none_or(is_discord_host),
        }
    }

    /// Returns the URL of a trusted gateway, with our protocol version and encoding.
    fn gateway_url(self, url: &str) -> Option<Url> {
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
    use rstest::rstest;
    use serde_json::json;

    use super::*;

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
