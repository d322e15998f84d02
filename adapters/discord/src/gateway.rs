//! The gateway: the connection over which Discord tells what happens, kept up whatever becomes of it.
//!
//! serenity's client is not used: events that it can't decode vanish, the next process can't go on with its session,
//! and it looks twice a second whether something is to be done (ADR 0012). Its vocabulary is.

mod backoff;
mod closing;
mod entrance;
mod frame;
mod line;
mod pulse;
mod talk;

use std::{sync::Arc, time::Duration};

use reqwest::Url;
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use self::{closing::Next, entrance::Trust, line::Ended, talk::Talk};
use crate::rest::{DiscordError, RestClient};

pub use backoff::GatewayTimeouts;
pub(crate) use backoff::{RetryTracker, delay_after_error, next_delay_logged};

/// How often a session is tried in vain where it said that it goes on before Discord is asked for another address, and
/// how often there before it is given up.
const TRIES: u32 = 3;

/// What an operator is told when Discord doesn't show the bot what people write.
const WITHOUT_CONTENT: &str = "the bot can't read guild messages that don't mention it; to change that, turn on the Message \
    Content Intent in the developer portal (discord.com/developers/applications: your application, Bot, Privileged \
    Gateway Intents), and restart Satchel";

/// A place in a session's stream: everything up to it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    /// The origin of the server whose session it is. The token goes nowhere that another one has named.
    pub(crate) server: Arc<str>,
    /// Discord's id of the session. Whoever has it and the token can go on with the session.
    pub(crate) session_id: Arc<str>,
    /// Where the session goes on after a connection is lost.
    pub(crate) resume_url: Arc<str>,
    /// The number of the last event that came.
    pub(crate) seq: u64,
    /// Whether Discord shows this session what people write in guilds.
    pub(crate) content: bool,
}

/// Something that happened, as Discord tells it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dispatch {
    /// Its place in the stream.
    pub(crate) position: Position,
    /// What it is, such as `MESSAGE_CREATE`. `READY` begins a new session, to which nothing is told again of what
    /// happened before it.
    pub(crate) name: String,
    /// What Discord says about it.
    pub(crate) data: Value,
}

/// What comes from the gateway.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Dispatch(Dispatch),
    /// A frame that can't be read.
    Garbled {
        /// The same for the same frame.
        key: String,
        /// What is wrong with it, without anything of its content.
        reason: &'static str,
    },
}

/// The connection to the gateway, over and over.
pub(crate) struct Session {
    rest: RestClient,
    waits: GatewayTimeouts,
    /// The origin of the server that is asked where the gateway is.
    server: Arc<str>,
    trust: Trust,
    retries: RetryTracker,
    position: Option<Position>,
    /// Whether what people write in guilds is asked for; not any more once Discord has refused it.
    content: bool,
    /// When a session was begun last.
    began: Option<Instant>,
    /// How often in a row the session was tried to go on, and nothing came of it.
    in_vain: u32,
    /// Whether it was said that no more sessions may be begun for now.
    told_closed: bool,
}

impl Session {
    /// A session that goes on at a position, if there is one. One that isn't shown what people write doesn't: whoever
    /// runs the bot may have changed that since. Nor does another server's.
    pub(crate) fn new(rest: RestClient, waits: GatewayTimeouts, position: Option<Position>) -> Self {
        let server: Arc<str> = rest.origin().into();
        let position = position.filter(|position| position.content && position.server == server);
        Self {
            rest,
            waits,
            trust: Trust::beside(&server),
            server,
            retries: waits.new_retry_tracker(),
            position,
            content: true,
            began: None,
            in_vain: 0,
            told_closed: false,
        }
    }

    /// Hands on what happens, in Discord's order, until `stop` or until nobody takes it any more. While Discord can't
    /// be reached it goes on trying. In the end the session is left so that it can go on.
    ///
    /// While `events` is full nothing is read from the connection; it is kept alive all the same.
    ///
    /// # Errors
    /// When Discord refuses the bot and no further try can help.
    pub(crate) async fn run(
        mut self,
        events: mpsc::Sender<Event>,
        stop: &CancellationToken,
    ) -> Result<(), DiscordError> {
        loop {
            // A connection from which nothing can be read would look dead.
            let Some(Ok(room)) = stop.run_until_cancelled(events.reserve()).await else { return Ok(()) };
            let connected = async {
                let address = self.address().await?;
                Ok(self.connect(address).await)
            };
            let socket = match stop.run_until_cancelled(connected).await {
                None => return Ok(()),
                Some(Err(error)) => return Err(error),
                Some(Ok(None)) => continue,
                Some(Ok(Some(socket))) => socket,
            };
            let patience = self.rest.timeouts().response;
            let (server, position) = (Arc::clone(&self.server), self.position.take());
            let mut talk = Talk::new(self.content, server, position, Instant::now(), patience);
            let ended = line::hold(self.rest.token(), socket, &mut talk, &mut self.retries, &events, room, stop).await;
            let Ended::Goes(next, reason) = ended else { return Ok(()) };
            tracing::debug!(reason, "the gateway connection closed");
            let wait = self.after(&talk, next, &reason)?;
            if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Where to connect to, once a connection may be made.
    async fn address(&mut self) -> Result<Url, DiscordError> {
        loop {
            if let Some(position) = self.position.as_ref().filter(|_| self.in_vain < TRIES)
                && let Some(address) = self.trust.address(&position.resume_url)
            {
                return Ok(address);
            }
            if let (None, Some(began)) = (&self.position, self.began) {
                tokio::time::sleep_until(began + self.waits.between_sessions).await;
            }
            let wait = match entrance::ask(&self.rest).await {
                Err(error) => delay_after_error(&mut self.retries, &error)?,
                Ok(entrance) => match (entrance.closed_for(), self.trust.address(&entrance.url)) {
                    (Some(closed), _) if self.position.is_none() => {
                        if !std::mem::replace(&mut self.told_closed, true) {
                            let minutes = closed.as_secs().div_ceil(60).max(1);
                            tracing::warn!(minutes, "session start limit reached; waiting for its reset");
                        }
                        // A wait that is over at once is none.
                        closed.max(self.retries.next_delay())
                    }
                    (_, Some(address)) => {
                        self.told_closed = false;
                        return Ok(address);
                    }
                    (_, None) => next_delay_logged(
                        &mut self.retries,
                        &"the gateway's address is not one that may receive the token",
                    ),
                },
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Connects; waits where that fails.
    async fn connect(&mut self, address: Url) -> Option<reqwest_websocket::WebSocket> {
        match line::connect(&self.rest, address).await {
            Ok(socket) => Some(socket),
            Err(reason) => {
                // Where there is no line nothing is learnt about the session.
                if self.in_vain < TRIES {
                    self.in_vain += 1;
                }
                let wait = next_delay_logged(&mut self.retries, &reason);
                tokio::time::sleep(wait).await;
                None
            }
        }
    }

    /// Learns from a connection that is over. Returns how long to wait before the next one.
    fn after(&mut self, talk: &Talk, next: Next, reason: &str) -> Result<Duration, DiscordError> {
        self.position = talk.position().cloned();
        self.began = talk.began().or(self.began);
        if talk.is_established() {
            self.in_vain = 0;
        } else if !talk.went_on() {
            self.in_vain += 1;
        }
        if talk.has_lasted() {
            self.retries.reset();
        }
        Ok(match next {
            Next::Never(words) => return Err(DiscordError::Refused { reason: words.to_owned() }),
            Next::Resume if talk.is_established() => self.retries.next_delay(),
            Next::Resume => {
                if self.in_vain >= 2 * TRIES && self.position.take().is_some() {
                    tracing::info!("Discord invalidated the session; identifying again");
                }
                next_delay_logged(&mut self.retries, &reason)
            }
            Next::UnknownToken if self.position.is_some() && !talk.is_established() => {
                self.position = None;
                next_delay_logged(&mut self.retries, &reason)
            }
            Next::UnknownToken => return Err(DiscordError::UnknownToken),
            Next::Anew => {
                self.position = None;
                let refused = talk.began().is_some() && !talk.is_established();
                let wait = if refused { next_delay_logged(&mut self.retries, &reason) } else { Duration::ZERO };
                wait.max(self.waits.before_new_session())
            }
            Next::WithoutContent if self.content => {
                tracing::warn!("{WITHOUT_CONTENT}");
                self.position = None;
                self.content = false;
                Duration::ZERO
            }
            Next::WithoutContent => return Err(DiscordError::Refused { reason: closing::TOO_OLD.to_owned() }),
        })
    }
}
