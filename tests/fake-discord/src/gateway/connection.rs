//! One connection: what its client says, what it is told, and the heartbeat in between.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use crate::gateway::{
    Connected, Shared,
    frame::{self, ZlibStream, close, opcode},
    handshake::Refused,
};

/// How long a client that was told goodbye may take to say it too: real time, since its answer comes over a real socket.
const GOODBYE: Duration = Duration::from_secs(1);

/// What a connection is to do.
#[derive(Debug)]
pub(crate) enum Order {
    Say(String),
    SayBinary(Vec<u8>),
    AskToReconnect,
    Freeze,
    Close(u16),
    Drop,
}

/// How a connection ends.
enum Ending {
    /// The gateway closes it.
    Close(u16),
    /// The gateway drops it.
    Drop,
    /// The client has closed it, or is gone.
    Left(Option<u16>),
}

pub(crate) struct Connection {
    shared: Arc<Shared>,
    socket: WebSocket,
    number: u64,
    orders: mpsc::UnboundedReceiver<Order>,
    packing: Option<ZlibStream>,
    /// Whether it was opened at the `resume_gateway_url`.
    again: bool,
    /// When the client's last payloads came.
    heard: VecDeque<Instant>,
    last_beat: Instant,
    leaves_at: Option<Instant>,
    frozen: bool,
    /// Whether what the client says is left unread.
    deaf: bool,
}

/// Serves one client to the end.
pub(crate) async fn serve(shared: Arc<Shared>, socket: WebSocket, packing: Option<ZlibStream>, again: bool) {
    let (sender, orders) = mpsc::unbounded_channel();
    let (number, frozen, deaf) = {
        let mut state = shared.state();
        state.report.connections += 1;
        let number = state.report.connections;
        state.connections.insert(number, Connected { orders: sender, session: None });
        let silent = state.trouble.silent_connections;
        state.trouble.silent_connections = silent.saturating_sub(1);
        (number, silent > 0, state.trouble.is_deaf)
    };
    shared.changed.notify_waiters();
    let last_beat = shared.clock.now();
    let mut connection = Connection {
        shared,
        socket,
        number,
        orders,
        packing,
        again,
        heard: VecDeque::new(),
        last_beat,
        leaves_at: None,
        frozen,
        deaf,
    };
    let ending = connection.run().await;
    connection.end(ending).await;
}

impl Connection {
    async fn run(&mut self) -> Ending {
        let rules = self.shared.rules;
        let interval = u64::try_from(rules.heartbeat_interval.as_millis()).unwrap_or(u64::MAX);
        // Hello Event: what a client hears first.
        if let Err(ending) = self.say(frame::control(opcode::HELLO, json!({ "heartbeat_interval": interval }))).await {
            return ending;
        }
        loop {
            let too_late = self.last_beat + rules.heartbeat_interval + rules.heartbeat_grace;
            let leaves_at = self.leaves_at;
            let shared = Arc::clone(&self.shared);
            // What the client has said counts before it is found silent.
            let step = tokio::select! {
                biased;
                () = shared.stopped.cancelled() => Err(Ending::Drop),
                Some(order) = self.orders.recv() => self.perform(order).await,
                said = self.socket.recv(), if !self.deaf => self.hear(said).await,
                // Heartbeat Interval: "your connection will be closed and you will be forced to Resume", so it is
                // none of the codes that end a session.
                () = shared.clock.sleep_until(too_late), if !self.frozen && !self.deaf => Err(Ending::Close(close::UNKNOWN_ERROR)),
                () = shared.clock.sleep_until(leaves_at.unwrap_or(too_late)), if leaves_at.is_some() => Err(Ending::Drop),
            };
            if let Err(ending) = step {
                return ending;
            }
        }
    }

    async fn perform(&mut self, order: Order) -> Result<(), Ending> {
        match order {
            Order::Say(payload) => self.say(payload).await,
            Order::SayBinary(bytes) => self.send(Message::Binary(bytes.into())).await,
            Order::AskToReconnect => {
                self.leaves_at = Some(self.shared.clock.now() + self.shared.rules.reconnect_within);
                self.say(frame::control(opcode::RECONNECT, Value::Null)).await
            }
            Order::Freeze => {
                self.frozen = true;
                Ok(())
            }
            Order::Close(code) => Err(Ending::Close(code)),
            Order::Drop => Err(Ending::Drop),
        }
    }

    async fn say(&mut self, payload: String) -> Result<(), Ending> {
        let message = match &mut self.packing {
            Some(stream) => Message::Binary(stream.pack(&payload).into()),
            None => Message::Text(payload.into()),
        };
        self.send(message).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Ending> {
        if self.frozen {
            return Ok(());
        }
        self.socket.send(message).await.map_err(|_| Ending::Left(None))
    }

    async fn hear(&mut self, said: Option<Result<Message, axum::Error>>) -> Result<(), Ending> {
        let text = match said {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(frame))) => return Err(Ending::Left(frame.map(|frame| frame.code))),
            None | Some(Err(_)) => return Err(Ending::Left(None)),
            // The socket answers these by itself.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
            // Sending Events: "serialized in plain-text JSON", since no other encoding is taken here.
            Some(Ok(Message::Binary(_))) => return Err(Ending::Close(close::DECODE_ERROR)),
        };
        if self.frozen {
            return Ok(());
        }
        self.count()?;
        // Sending Events: "If an event payload does exceed 4096 bytes, the connection will be closed with a 4002".
        if text.len() > self.shared.rules.payload_bytes {
            return Err(Ending::Close(close::DECODE_ERROR));
        }
        let undecodable = Ending::Close(close::DECODE_ERROR);
        let Ok(payload) = serde_json::from_str::<Value>(&text) else { return Err(undecodable) };
        let Some(opcode) = payload["op"].as_u64() else { return Err(undecodable) };
        self.understand(opcode, &payload["d"]).await
    }

    /// Rate Limiting: those who "surpass the limit are immediately disconnected".
    fn count(&mut self) -> Result<(), Ending> {
        let rules = &self.shared.rules;
        let now = self.shared.clock.now();
        while self.heard.front().is_some_and(|at| now.saturating_duration_since(*at) >= rules.sends_within) {
            self.heard.pop_front();
        }
        self.heard.push_back(now);
        if self.heard.len() > rules.sends { Err(Ending::Close(close::RATE_LIMITED)) } else { Ok(()) }
    }

    async fn understand(&mut self, opcode: u64, data: &Value) -> Result<(), Ending> {
        let authenticated = self.session().is_some();
        let answer = match opcode {
            opcode::HEARTBEAT => return self.beat(data).await,
            opcode::IDENTIFY | opcode::RESUME if authenticated => Err(Refused::Close(close::ALREADY_AUTHENTICATED)),
            opcode::IDENTIFY => self.shared.identify(self.number, data),
            opcode::RESUME => self.shared.resume(self.number, self.again, data),
            opcode::PRESENCE_UPDATE
            | opcode::VOICE_STATE_UPDATE
            | opcode::REQUEST_GUILD_MEMBERS
            | opcode::REQUEST_SOUNDBOARD_SOUNDS => {
                // Nothing that people see follows from these.
                if authenticated { Ok(()) } else { Err(Refused::Close(close::NOT_AUTHENTICATED)) }
            }
            _ => Err(Refused::Close(close::UNKNOWN_OPCODE)),
        };
        match answer {
            Ok(()) | Err(Refused::Ignored) => Ok(()),
            Err(Refused::Close(code)) => Err(Ending::Close(code)),
            Err(Refused::InvalidSession) => self.say(frame::control(opcode::INVALID_SESSION, json!(false))).await,
        }
    }

    fn session(&self) -> Option<String> {
        self.shared.state().connections.get(&self.number).and_then(|connection| connection.session.clone())
    }

    /// Heartbeat: `d` is "the last sequence number received by the client. If you have not yet received one, send null".
    async fn beat(&mut self, data: &Value) -> Result<(), Ending> {
        let seen = data.as_u64();
        if seen.is_none() && !data.is_null() {
            return Err(Ending::Close(close::DECODE_ERROR));
        }
        self.last_beat = self.shared.clock.now();
        let (withholds, delay, orders) = {
            let mut state = self.shared.state();
            state.report.heartbeats.push(seen);
            let orders = state.connections.get(&self.number).map(|connection| connection.orders.clone());
            (state.trouble.withholds_acks, state.trouble.delays_acks, orders)
        };
        self.shared.changed.notify_waiters();
        let ack = frame::control(opcode::HEARTBEAT_ACK, Value::Null);
        if withholds {
            return Ok(());
        }
        if delay.is_zero() {
            return self.say(ack).await;
        }
        let (clock, at) = (self.shared.clock.clone(), self.last_beat + delay);
        tokio::spawn(async move {
            clock.sleep_until(at).await;
            let _gone = orders.map(|orders| orders.send(Order::Say(ack)));
        });
        Ok(())
    }

    async fn end(mut self, ending: Ending) {
        let code = match ending {
            Ending::Close(code) => Some(code),
            Ending::Drop | Ending::Left(_) => None,
        };
        {
            let mut state = self.shared.state();
            let ends = match ending {
                Ending::Close(code) => {
                    state.report.closed.push(code);
                    close::ends_session(code)
                }
                Ending::Drop => false,
                Ending::Left(code) => {
                    state.report.left.push(code);
                    // Initiating a Disconnect: "with close code 1000 or 1001, your session will be invalidated".
                    matches!(code, Some(1000 | 1001))
                }
            };
            let name = state.connections.remove(&self.number).and_then(|connection| connection.session);
            if let Some(name) = name {
                if ends {
                    state.sessions.remove(&name);
                } else if let Some(session) = state.sessions.get_mut(&name) {
                    session.leave(self.shared.clock.now());
                }
            }
        }
        self.shared.changed.notify_waiters();
        if let Some(code) = code {
            self.say_goodbye(code).await;
        }
    }

    /// Sends a close frame, and reads on until the client has it: what is left unread when a connection ends may take
    /// the frame with it.
    async fn say_goodbye(&mut self, code: u16) {
        let frame = CloseFrame { code, reason: close::reason(code).into() };
        if self.socket.send(Message::Close(Some(frame))).await.is_err() {
            return;
        }
        let answered = async { while let Some(Ok(_)) = self.socket.recv().await {} };
        let _gave_up = tokio::time::timeout(GOODBYE, answered).await;
    }
}
