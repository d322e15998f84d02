//! The fake gateway: what a raw client is told, what it is refused with which code, and what a test does to it.

mod faults;
mod handshake;
mod limits;
mod resuming;

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use reqwest_websocket::{CloseCode, Message, Upgrade, WebSocket};
use satchel_fake_discord::gateway::{
    DIRECT_MESSAGES, FakeGateway, GUILD_MESSAGES, GUILDS, GatewayRules, GatewaySnapshot, MESSAGE_CONTENT,
};
use satchel_fake_kit::TestClock;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

const TOKEN: &str = "a.fake.token";

/// What Satchel asks for.
const INTENTS: u64 = GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES | MESSAGE_CONTENT;

/// A gateway with one guild, served alone.
pub(crate) struct Gateway {
    pub(crate) hub: FakeGateway,
    /// It stands still until a test advances it.
    pub(crate) clock: TestClock,
    /// Its address, as READY and GET /gateway/bot name it.
    url: String,
    again: String,
    _stops: DropGuard,
}

impl Gateway {
    pub(crate) async fn start(rules: GatewayRules) -> Self {
        satchel_fake_kit::install_tls_provider();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a loopback port");
        let base = format!("ws://{}", listener.local_addr().expect("an address"));
        let stopped = CancellationToken::new();
        let clock = TestClock::default();
        clock.pause();
        let hub = FakeGateway::new(rules, TOKEN, &base, stopped.clone(), clock.clone());
        hub.set_snapshot(snapshot);
        let served = axum::serve(listener, hub.router()).with_graceful_shutdown(stopped.clone().cancelled_owned());
        tokio::spawn(async move { served.await });
        let url = hub.bot_address()["url"].as_str().expect("an address").to_owned();
        Self { hub, clock, url, again: String::new(), _stops: stopped.drop_guard() }
    }

    /// A client that has been told HELLO.
    pub(crate) async fn client(&self) -> Client {
        let mut client = Client::connect(&format!("{}/?v=10&encoding=json", self.url)).await.expect("a socket");
        assert_eq!(client.payload().await["op"], 10);
        client
    }

    /// A client with a session: READY and the guild have been heard.
    pub(crate) async fn identified(&mut self) -> (Client, String) {
        let mut client = self.client().await;
        client.identify(INTENTS).await;
        let ready = client.event("READY").await;
        self.again = ready["d"]["resume_gateway_url"].as_str().expect("an address").to_owned();
        assert_eq!(client.event("GUILD_CREATE").await["s"], 2);
        (client, ready["d"]["session_id"].as_str().expect("an id").to_owned())
    }

    /// A client that has asked for a session to go on.
    pub(crate) async fn resuming(&self, session: &str, seq: u64) -> Client {
        let mut client = Client::connect(&format!("{}/?v=10&encoding=json", self.again)).await.expect("a socket");
        assert_eq!(client.payload().await["op"], 10);
        client.say(6, json!({ "token": TOKEN, "session_id": session, "seq": seq })).await;
        client
    }

    /// Somebody says something in the guild.
    pub(crate) fn message(&self, content: &str) {
        self.hub.dispatch("MESSAGE_CREATE", json!({ "guild_id": "21", "content": content }));
    }
}

/// A bot in one guild.
pub(crate) fn snapshot() -> GatewaySnapshot {
    GatewaySnapshot {
        user: json!({ "id": "11", "username": "satchel", "bot": true }),
        application: 12,
        guilds: vec![json!({ "id": "21", "name": "Home", "channels": [], "threads": [] })],
    }
}

/// A client that does nothing by itself.
pub(crate) struct Client {
    socket: WebSocket,
}

/// What a client hears.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    Text(String),
    Binary(Vec<u8>),
    Closed(u16),
    Dropped,
}

impl Client {
    /// Opens a socket; the status of the answer where that fails.
    pub(crate) async fn connect(url: &str) -> Result<Self, u16> {
        let asked = reqwest::Client::new().get(url).upgrade().send().await.expect("an answer");
        let status = asked.status().as_u16();
        asked.into_websocket().await.map(|socket| Self { socket }).map_err(|_| status)
    }

    pub(crate) async fn say(&mut self, opcode: u64, data: Value) {
        self.say_text(&json!({ "op": opcode, "d": data }).to_string()).await;
    }

    pub(crate) async fn say_text(&mut self, text: &str) {
        self.socket.send(Message::Text(text.to_owned())).await.expect("a connection");
    }

    pub(crate) async fn identify(&mut self, intents: u64) {
        self.say(2, identify(intents)).await;
    }

    pub(crate) async fn hear(&mut self) -> Heard {
        let next = tokio::time::timeout(Duration::from_secs(5), self.socket.next()).await.expect("something in time");
        match next {
            Some(Ok(Message::Text(text))) => Heard::Text(text),
            Some(Ok(Message::Binary(bytes))) => Heard::Binary(bytes.to_vec()),
            Some(Ok(Message::Close { code, .. })) => Heard::Closed(code.into()),
            None | Some(Err(_)) => Heard::Dropped,
            Some(Ok(other)) => unreachable!("{other:?}"),
        }
    }

    pub(crate) async fn payload(&mut self) -> Value {
        match self.hear().await {
            Heard::Text(text) => serde_json::from_str(&text).expect("JSON"),
            other => unreachable!("{other:?}"),
        }
    }

    /// The next payload, which is an event of this name.
    pub(crate) async fn event(&mut self, name: &str) -> Value {
        let payload = self.payload().await;
        assert_eq!(payload["t"], name, "{payload}");
        assert_eq!(payload["op"], 0);
        payload
    }

    /// The next payload, which is a message with this content and number.
    pub(crate) async fn message(&mut self, content: &str, number: u64) {
        let event = self.event("MESSAGE_CREATE").await;
        assert_eq!((&event["d"]["content"], &event["s"]), (&json!(content), &json!(number)));
    }

    /// The code that the connection is closed with.
    pub(crate) async fn closed(&mut self) -> u16 {
        match self.hear().await {
            Heard::Closed(code) => code,
            other => unreachable!("{other:?}"),
        }
    }

    /// Nothing is said for a while.
    pub(crate) async fn silence(&mut self) {
        let next = tokio::time::timeout(Duration::from_millis(60), self.socket.next()).await;
        assert!(next.is_err(), "{next:?}");
    }

    pub(crate) async fn leave(self, code: u16) {
        self.socket.close(CloseCode::from(code), None).await.expect("a connection");
    }
}

pub(crate) fn identify(intents: u64) -> Value {
    let properties = json!({ "os": "linux", "browser": "satchel", "device": "satchel" });
    json!({ "token": TOKEN, "intents": intents, "properties": properties })
}
