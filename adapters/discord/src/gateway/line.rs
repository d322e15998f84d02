//! One connection: the socket beneath a talk.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use reqwest::Url;
use reqwest_websocket::{CloseCode, Message, Upgrade, WebSocket};
use satchel_platform_http::random_fraction;
use secrecy::{ExposeSecret, SecretString};
use tokio::{
    sync::mpsc::{self, Permit},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Event,
    backoff::RetryTracker,
    closing::{self, Next},
    frame::{self, Said},
    talk::{Step, Talk},
};
use crate::{digest::stable_key, rest::RestClient};

/// How long a frame may take to be written, and a goodbye.
const WRITING: Duration = Duration::from_secs(10);
const GOODBYE: Duration = Duration::from_secs(1);

/// Why a connection is over.
#[derive(Debug, PartialEq)]
pub(super) enum Ended {
    /// We were to stop, or nobody takes what comes any more.
    Stopped,
    /// It goes on like this, for this reason.
    Goes(Next, String),
}

/// Connects to the gateway. The error is for the operator, and holds no address.
pub(super) async fn connect(rest: &RestClient, address: Url) -> Result<WebSocket, String> {
    let upgraded = async {
        let response = rest.http().get(address).upgrade().send().await?;
        response.into_websocket().await
    };
    let timeouts = rest.timeouts();
    match timeout(timeouts.connect + timeouts.response, upgraded).await {
        Ok(Ok(socket)) => Ok(socket),
        Ok(Err(error)) => Err(told(error)),
        Err(_) => Err("the gateway did not answer".to_owned()),
    }
}

/// Talks until the connection is over. Nothing is read before there is room for it, as there is now.
pub(super) async fn hold(
    token: &SecretString,
    mut socket: WebSocket,
    talk: &mut Talk,
    retries: &mut RetryTracker,
    events: &mpsc::Sender<Event>,
    room: Permit<'_, Event>,
    stop: &CancellationToken,
) -> Ended {
    let mut room = Some(room);
    loop {
        let step = tokio::select! {
            () = stop.cancelled() => {
                leave(socket).await;
                return Ended::Stopped;
            }
            reserved = events.reserve(), if room.is_none() => match reserved {
                Ok(reserved) => {
                    room = Some(reserved);
                    continue;
                }
                Err(_) => {
                    leave(socket).await;
                    return Ended::Stopped;
                }
            },
            () = sleep_until(talk.due()) => {
                talk.beat(Instant::now(), room.is_some())
            }
            came = socket.next(), if room.is_some() => match came {
                Some(Ok(Message::Text(text))) => match frame::read(&text) {
                    Ok(frame) => talk.hear(frame, Instant::now(), random_fraction()),
                    Err(reason) => Step::Tell(garbled(text.as_bytes(), reason)),
                },
                Some(Ok(Message::Binary(bytes))) => Step::Tell(garbled(&bytes, "it is no text")),
                Some(Ok(Message::Close { code, .. })) => {
                    let code = u16::from(code);
                    return Ended::Goes(closing::after(Some(code)), format!("Discord closed the connection with close code {code}"));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => Step::Nothing,
                Some(Err(error)) => return Ended::Goes(closing::after(None), told(error)),
                None => return Ended::Goes(closing::after(None), "it ended".to_owned()),
            },
        };
        match step {
            Step::Nothing => {}
            Step::Say(said) => match stop.run_until_cancelled(say(token, &mut socket, &said)).await {
                Some(Ok(())) => {}
                Some(Err(reason)) => return Ended::Goes(closing::after(None), reason),
                None => {
                    leave(socket).await;
                    return Ended::Stopped;
                }
            },
            Step::Tell(event) => {
                room.take().expect("nothing is read without room for it").send(event);
                if talk.is_established() {
                    retries.mark_recovered();
                }
            }
            Step::Leave(next, reason) => {
                leave(socket).await;
                return Ended::Goes(next, reason.to_owned());
            }
        }
    }
}

async fn say(token: &SecretString, socket: &mut WebSocket, said: &Said) -> Result<(), String> {
    let written = frame::write(said, token.expose_secret());
    match timeout(WRITING, socket.send(Message::Text(written))).await {
        Ok(sent) => sent.map_err(told),
        Err(_) => Err("writing to the connection failed".to_owned()),
    }
}

/// Closes the connection so that the session can go on.
async fn leave(socket: WebSocket) {
    // Who doesn't hear it finds the connection gone.
    let _ = timeout(GOODBYE, socket.close(CloseCode::from(closing::LEFT), None)).await;
}

fn garbled(content: &[u8], reason: &'static str) -> Event {
    Event::Garbled { key: format!("frame-{}", stable_key(content)), reason }
}

/// What an error says, down to its cause, without an address.
fn told(error: reqwest_websocket::Error) -> String {
    let error = match error {
        reqwest_websocket::Error::Reqwest(error) => reqwest_websocket::Error::Reqwest(error.without_url()),
        error => error,
    };
    let mut deepest: &dyn std::error::Error = &error;
    while let Some(deeper) = deepest.source() {
        deepest = deeper;
    }
    deepest.to_string()
}
