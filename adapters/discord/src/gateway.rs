//! The gateway: where it is, and the connection over which Discord delivers events, opened over and over.
//!
//! serenity's client is not used: events that it can't decode vanish, the next process can't resume its session, and it
//! wakes twice a second (ADR 0027). Its vocabulary is.

mod protocol;

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use reqwest::Url;
use reqwest_websocket::{CloseCode, Message, WebSocket};
use satchel_platform_http::random_fraction;
use secrecy::{ExposeSecret, SecretString};
use tokio::{
    sync::mpsc::{self, Permit},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::protocol::{CLOSE_KEEPING_SESSION, ClientFrame, GatewayProtocol, ProtocolAction, ProtocolEvent, Reconnect};
use crate::{
    GatewayTimeouts,
    rest::{
        DiscordError, REVOKED_TEXT, RestClient, RetryTracker, TrustedHosts, delay_after_error,
        describe_websocket_error, get_gateway_bot, next_delay_logged,
    },
};

pub(crate) use protocol::{GatewayEvent, ResumeState};

const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const UNTRUSTED_URL_TEXT: &str = "the gateway's address is not one that may receive the token";
const NO_MESSAGE_CONTENT_TEXT: &str = "the bot can't read guild messages that don't mention it; to change that, turn on \
    the Message Content Intent in the developer portal (discord.com/developers/applications: your application, Bot, \
    Privileged Gateway Intents), and restart Satchel";

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
            let token = self.rest.account().last_token();
            let closed = self.run_connection(connected, &token, &events, permit, stop).await;
            let Some((reconnect, reason)) = closed else { return Ok(()) };
            tracing::debug!(reason, "the gateway connection closed");
            if matches!(reconnect, Reconnect::AccountRefused) {
                self.rest.account().close(&token, REVOKED_TEXT);
            }
            let delay = self.reconnect_delay(reconnect, &reason)?;
            if stop.run_until_cancelled(sleep(delay)).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Opens a connection, with as many attempts as it takes.
    async fn connect(&mut self) -> WebSocket {
        loop {
            let url = self.gateway_url().await;
            match self.rest.open_websocket(url).await {
                Ok(socket) => return socket,
                Err(reason) => sleep(next_delay_logged(&mut self.retries, &reason)).await,
            }
            self.protocol.on(ProtocolEvent::ConnectFailed, Instant::now().into_std());
        }
    }

    /// Waits until a connection may be opened, and returns where.
    async fn gateway_url(&mut self) -> Url {
        let trusted_hosts = TrustedHosts::for_api_server(self.rest.origin());
        loop {
            if let Some(url) = self.protocol.resume_url().and_then(|url| trusted_hosts.gateway_url(url)) {
                return url;
            }
            if let (true, Some(identified_at)) = (self.protocol.needs_identify(), self.protocol.identified_at) {
                sleep_until(Instant::from_std(identified_at) + self.timeouts.identify_interval).await;
            }
            let delay = match get_gateway_bot(&self.rest).await {
                Err(error) => delay_after_error(&mut self.retries, &error),
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
                        return url;
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
        token: &SecretString,
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
                ProtocolAction::Send(frame) => stop.run_until_cancelled(send_frame(token, &mut socket, &frame)).await,
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
            Reconnect::Backoff | Reconnect::AccountRefused => self.retries.next_delay(),
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
