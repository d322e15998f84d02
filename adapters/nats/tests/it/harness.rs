//! A server, the buses of two processes of one Satchel, and another program that reads along.

use std::{sync::Arc, time::Duration};

use async_nats::jetstream::{self, stream::Config};
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::{ConversationId, TurnId};
use satchel_files::DirectoryBlobs;
use satchel_local::LocalBus;
use satchel_nats::{NatsBus, NatsConnection, NatsSettings};
use satchel_ports::{BlobHint, Blobs, BusEvent, StoredBlob};
use satchel_servers::nats::NatsServer;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;
use uuid::Uuid;

/// Longer than anything takes on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(25);

pub(crate) struct Harness {
    pub(crate) server: NatsServer,
    pub(crate) blobs: Arc<dyn Blobs>,
    url: String,
    _directory: TempDir,
}

/// Another program that reads along.
pub(crate) struct Follower {
    pub(crate) client: async_nats::Client,
    messages: async_nats::Subscriber,
}

impl Harness {
    pub(crate) async fn start() -> Result<Self, String> {
        Self::start_with("").await
    }

    pub(crate) async fn start_with(configuration: &str) -> Result<Self, String> {
        NatsServer::start_with(configuration).await.map(Self::with_server)
    }

    /// Starts one with the users and permissions of the guide.
    pub(crate) async fn start_as_in_guide() -> Result<Self, String> {
        NatsServer::start_as_in_guide().await.map(Self::with_server)
    }

    /// Starts one with the accounts of the guide.
    pub(crate) async fn start_with_accounts_of_guide() -> Result<Self, String> {
        NatsServer::start_with_accounts_of_guide().await.map(Self::with_server)
    }

    fn with_server(server: NatsServer) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Arc::new(DirectoryBlobs::open(&directory.path().join("blobs")).unwrap());
        let url = server.url();
        Self { server, blobs, url, _directory: directory }
    }

    /// Connects as this user from now on.
    pub(crate) fn log_in_as(&mut self, login: &str) {
        self.url = format!("nats://{login}@{}", self.server.address());
    }

    pub(crate) async fn connect(&self) -> NatsConnection {
        NatsConnection::open(&NatsSettings::new(self.url.as_str().into())).await.unwrap()
    }

    /// Starts the bus of a process.
    pub(crate) async fn bus(&self) -> NatsBus {
        NatsBus::start(&self.connect().await, Arc::new(LocalBus::new()), Arc::clone(&self.blobs)).await.unwrap()
    }

    pub(crate) async fn follow(&self, subject: &str) -> Follower {
        let client = async_nats::connect(self.url.as_str()).await.unwrap();
        let messages = client.subscribe(subject.to_owned()).await.unwrap();
        // Its response comes after the subscription was read.
        jetstream::new(client.clone())
            .get_or_create_stream(Config { name: "PROBE".into(), ..Config::default() })
            .await
            .unwrap();
        Follower { client, messages }
    }

    pub(crate) async fn put(&self, content: Vec<u8>) -> StoredBlob {
        let content = stream::once(async move { Ok(Bytes::from(content)) }).boxed();
        self.blobs.put(content, &BlobHint::default(), 1 << 30).await.unwrap()
    }

    /// How many messages a stream holds.
    pub(crate) async fn stored_messages(&self, stream: &str) -> u64 {
        let client = async_nats::connect(self.url.as_str()).await.unwrap();
        let mut stream = jetstream::new(client).get_stream(stream).await.unwrap();
        stream.info().await.unwrap().state.messages
    }
}

impl Follower {
    /// The next message: its subject and its JSON.
    pub(crate) async fn next(&mut self) -> (String, Value) {
        let message = timeout(TIMEOUT, self.messages.next()).await.expect("a message comes").expect("it is open");
        (message.subject.to_string(), serde_json::from_slice(&message.payload).expect("it is JSON"))
    }
}

pub(crate) fn conversation() -> ConversationId {
    "telegram:-100123/42".parse().unwrap()
}

pub(crate) fn turn(number: u128) -> TurnId {
    TurnId(Uuid::from_u128(number))
}

pub(crate) fn received(number: u128) -> BusEvent {
    BusEvent::MessageReceived { conversation: conversation(), turn: turn(number) }
}
