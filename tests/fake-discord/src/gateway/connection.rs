//! One connection: what its client says, what it is told, and the heartbeat in between.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use crate::gateway::{
    ConnectionHandle, Shared,
    frame::{self, ZlibStream, close, opcode},
    handshake::HandshakeRefusal,
};

/// How long a client that was told goodbye may take to say it too: real time, since its answer comes over a real socket.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What a connection is to do.
#[derive(Debug)]
pub(crate) enum ConnectionCommand {
    Send(String),
    SendBinary(Vec<u8>),
    AskToReconnect,
    Freeze,
    Close(u16),
    Drop,
}

/// How a connection ends.
enum SocketEnd {
    /// The gateway closes it.
    Close(u16),
    /// The gateway drops it.
    Drop,
    /// The client has closed it, or is gone.
    Left(Option<u16>),
}

pub(crate) struct GatewayConnection {
    shared: Arc<Shared>,
    socket: WebSocket,
    number: u64,
    commands: mpsc::UnboundedReceiver<ConnectionCommand>,
    compression: Option<ZlibStream>,
    /// Whether it was opened at the `resume_gateway_url`.
    is_at_resume_url: bool,
    /// When the client's last payloads came.
    received_at: VecDeque<Instant>,
    last_heartbeat: Instant,
    leaves_at: Option<Instant>,
    is_frozen: bool,
    /// Whether what the client says is left unread.
    is_deaf: bool,
}

/// Serves one client to the end.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    socket: WebSocket,
    compression: Option<ZlibStream>,
    is_at_resume_url: bool,
) {
    let (sender, commands) = mpsc::unbounded_channel();
    let (number, is_frozen, is_deaf) = {
        let mut state = shared.state();
        state.report.connections += 1;
        let number = state.report.connections;
        state.connections.insert(number, ConnectionHandle { commands: sender, session: None });
        let silent = state.faults.silent_connections;
        state.faults.silent_connections = silent.saturating_sub(1);
        (number, silent > 0, state.faults.is_deaf)
    };
    shared.changed.notify_waiters();
    let last_heartbeat = shared.clock.now();
    let mut connection = GatewayConnection {
        shared,
        socket,
        number,
        commands,
        compression,
        is_at_resume_url,
        received_at: VecDeque::new(),
        last_heartbeat,
        leaves_at: None,
        is_frozen,
        is_deaf,
    };
    let ending = connection.run().await;
    connection.end(ending).await;
}

impl GatewayConnection {
    async fn run(&mut self) -> SocketEnd {
        let rules = self.shared.rules;
        let interval = u64::try_from(rules.heartbeat_interval.as_millis()).unwrap_or(u64::MAX);
        // Hello Event: what a client hears first.
        if let Err(ending) =
            self.send_payload(frame::control(opcode::HELLO, json!({ "heartbeat_interval": interval }))).await
        {
            return ending;
        }
        loop {
            let too_late = self.last_heartbeat + rules.heartbeat_interval + rules.heartbeat_grace;
            let leaves_at = self.leaves_at;
            let shared = Arc::clone(&self.shared);
            // What the client has sent counts before it is found silent.
            let step = tokio::select! {
                biased;
                () = shared.stopped.cancelled() => Err(SocketEnd::Drop),
                Some(command) = self.commands.recv() => self.run_command(command).await,
                received = self.socket.recv(), if !self.is_deaf => self.read_frame(received).await,
                // Heartbeat Interval: "your connection will be closed and you will be forced to Resume", so it is
                // none of the codes that end a session.
                () = shared.clock.sleep_until(too_late), if !self.is_frozen && !self.is_deaf => Err(SocketEnd::Close(close::UNKNOWN_ERROR)),
                () = shared.clock.sleep_until(leaves_at.unwrap_or(too_late)), if leaves_at.is_some() => Err(SocketEnd::Drop),
            };
            if let Err(ending) = step {
                return ending;
            }
        }
    }

    async fn run_command(&mut self, command: ConnectionCommand) -> Result<(), SocketEnd> {
        match command {
            ConnectionCommand::Send(payload) => self.send_payload(payload).await,
            ConnectionCommand::SendBinary(bytes) => self.send_frame(Message::Binary(bytes.into())).await,
            ConnectionCommand::AskToReconnect => {
                self.leaves_at = Some(self.shared.clock.now() + self.shared.rules.reconnect_within);
                self.send_payload(frame::control(opcode::RECONNECT, Value::Null)).await
            }
            ConnectionCommand::Freeze => {
                self.is_frozen = true;
                Ok(())
            }
            ConnectionCommand::Close(code) => Err(SocketEnd::Close(code)),
            ConnectionCommand::Drop => Err(SocketEnd::Drop),
        }
    }

    async fn send_payload(&mut self, payload: String) -> Result<(), SocketEnd> {
        let message = match &mut self.compression {
            Some(stream) => Message::Binary(stream.pack(&payload).into()),
            None => Message::Text(payload.into()),
        };
        self.send_frame(message).await
    }

    async fn send_frame(&mut self, message: Message) -> Result<(), SocketEnd> {
        if self.is_frozen {
            return Ok(());
        }
        self.socket.send(message).await.map_err(|_| SocketEnd::Left(None))
    }

    async fn read_frame(&mut self, received: Option<Result<Message, axum::Error>>) -> Result<(), SocketEnd> {
        let text = match received {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(frame))) => return Err(SocketEnd::Left(frame.map(|frame| frame.code))),
            None | Some(Err(_)) => return Err(SocketEnd::Left(None)),
            // The socket answers these by itself.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
            // Sending Events: "serialized in plain-text JSON", since no other encoding is taken here.
            Some(Ok(Message::Binary(_))) => return Err(SocketEnd::Close(close::DECODE_ERROR)),
        };
        if self.is_frozen {
            return Ok(());
        }
        self.count()?;
        // Sending Events: "If an event payload does exceed 4096 bytes, the connection will be closed with a 4002".
        if text.len() > self.shared.rules.payload_bytes {
            return Err(SocketEnd::Close(close::DECODE_ERROR));
        }
        let undecodable = SocketEnd::Close(close::DECODE_ERROR);
        let Ok(payload) = serde_json::from_str::<Value>(&text) else { return Err(undecodable) };
        let Some(opcode) = payload["op"].as_u64() else { return Err(undecodable) };
        self.handle_frame(opcode, &payload["d"]).await
    }

    /// Rate Limiting: those who "surpass the limit are immediately disconnected".
    fn count(&mut self) -> Result<(), SocketEnd> {
        let rules = &self.shared.rules;
        let now = self.shared.clock.now();
        while self.received_at.front().is_some_and(|at| now.saturating_duration_since(*at) >= rules.sends_within) {
            self.received_at.pop_front();
        }
        self.received_at.push_back(now);
        if self.received_at.len() > rules.sends { Err(SocketEnd::Close(close::RATE_LIMITED)) } else { Ok(()) }
    }

    async fn handle_frame(&mut self, opcode: u64, data: &Value) -> Result<(), SocketEnd> {
        let authenticated = self.session().is_some();
        let answer = match opcode {
            opcode::HEARTBEAT => return self.on_heartbeat(data).await,
            opcode::IDENTIFY | opcode::RESUME if authenticated => {
                Err(HandshakeRefusal::Close(close::ALREADY_AUTHENTICATED))
            }
            opcode::IDENTIFY => self.shared.identify(self.number, data),
            opcode::RESUME => self.shared.resume(self.number, self.is_at_resume_url, data),
            opcode::PRESENCE_UPDATE
            | opcode::VOICE_STATE_UPDATE
            | opcode::REQUEST_GUILD_MEMBERS
            | opcode::REQUEST_SOUNDBOARD_SOUNDS => {
                // Nothing that people see follows from these.
                if authenticated { Ok(()) } else { Err(HandshakeRefusal::Close(close::NOT_AUTHENTICATED)) }
            }
            _ => Err(HandshakeRefusal::Close(close::UNKNOWN_OPCODE)),
        };
        match answer {
            Ok(()) | Err(HandshakeRefusal::Ignored) => Ok(()),
            Err(HandshakeRefusal::Close(code)) => Err(SocketEnd::Close(code)),
            Err(HandshakeRefusal::InvalidSession) => {
                self.send_payload(frame::control(opcode::INVALID_SESSION, json!(false))).await
            }
        }
    }

    fn session(&self) -> Option<String> {
        self.shared.state().connections.get(&self.number).and_then(|connection| connection.session.clone())
    }

    /// Heartbeat: `d` is "the last sequence number received by the client. If you have not yet received one, send null".
    async fn on_heartbeat(&mut self, data: &Value) -> Result<(), SocketEnd> {
        let seen = data.as_u64();
        if seen.is_none() && !data.is_null() {
            return Err(SocketEnd::Close(close::DECODE_ERROR));
        }
        self.last_heartbeat = self.shared.clock.now();
        let (withholds, delay, commands) = {
            let mut state = self.shared.state();
            state.report.heartbeats.push(seen);
            let commands = state.connections.get(&self.number).map(|connection| connection.commands.clone());
            (state.faults.withholds_acks, state.faults.delays_acks, commands)
        };
        self.shared.changed.notify_waiters();
        let ack = frame::control(opcode::HEARTBEAT_ACK, Value::Null);
        if withholds {
            return Ok(());
        }
        if delay.is_zero() {
            return self.send_payload(ack).await;
        }
        let (clock, at) = (self.shared.clock.clone(), self.last_heartbeat + delay);
        tokio::spawn(async move {
            clock.sleep_until(at).await;
            let _gone = commands.map(|commands| commands.send(ConnectionCommand::Send(ack)));
        });
        Ok(())
    }

    async fn end(mut self, ending: SocketEnd) {
        let code = match ending {
            SocketEnd::Close(code) => Some(code),
            SocketEnd::Drop | SocketEnd::Left(_) => None,
        };
        {
            let mut state = self.shared.state();
            let ends = match ending {
                SocketEnd::Close(code) => {
                    state.report.closed.push(code);
                    close::ends_session(code)
                }
                SocketEnd::Drop => false,
                SocketEnd::Left(code) => {
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
                    session.disconnect(self.shared.clock.now());
                }
            }
        }
        self.shared.changed.notify_waiters();
        if let Some(code) = code {
            self.close_socket(code).await;
        }
    }

    /// Sends a close frame, and reads on until the client has it: what is left unread when a connection ends may take
    /// the frame with it.
    async fn close_socket(&mut self, code: u16) {
        let frame = CloseFrame { code, reason: close::reason(code).into() };
        if self.socket.send(Message::Close(Some(frame))).await.is_err() {
            return;
        }
        let answered = async { while let Some(Ok(_)) = self.socket.recv().await {} };
        let _gave_up = tokio::time::timeout(CLOSE_TIMEOUT, answered).await;
    }
}
