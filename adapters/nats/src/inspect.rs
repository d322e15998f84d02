//! What a server offers and holds, found without changing it: for checks beside a running process.

use async_nats::jetstream::{
    Context, ErrorCode,
    context::{CreateStreamError, CreateStreamErrorKind},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use satchel_ports::event_bus::EVENT_VERSION;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::{
    NatsConnection, NatsError, NatsSettings,
    streams::{EVENT_STREAM, REQUEST_STREAM, call},
    subject::EVENTS,
};

/// What a server offers and holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusInspection {
    pub hosts: String,
    pub server_version: String,
    pub is_encrypted: bool,
    /// Whether both streams are there; otherwise the first start makes them, which this user may do.
    pub has_streams: bool,
    /// The version of the newest event, unless there is none.
    pub newest_event_version: Option<u64>,
    /// The newest version that this program reads.
    pub known_event_version: u64,
}

impl BusInspection {
    /// Finds out what the servers of these settings offer.
    ///
    /// # Errors
    /// When no server can be reached, or it refuses what Satchel needs, in words for the person who runs it.
    pub async fn read(settings: &NatsSettings) -> Result<Self, NatsError> {
        let connection = NatsConnection::connect(settings).await?;
        let NatsConnection { client, jetstream, hosts } = &connection;
        let refused = |source| NatsError::Streams { hosts: hosts.clone(), source };
        let mut has_streams = true;
        for stream in [EVENT_STREAM, REQUEST_STREAM] {
            if !is_there(jetstream, stream).await.map_err(refused)? {
                has_streams = false;
                check_permission(jetstream, stream).await.map_err(refused)?;
            }
        }
        let info = client.server_info();
        Ok(Self {
            hosts: hosts.clone(),
            server_version: info.version,
            is_encrypted: info.tls_required || settings.url.expose_secret().starts_with("tls:"),
            has_streams,
            newest_event_version: read_newest_version(jetstream).await,
            known_event_version: EVENT_VERSION.into(),
        })
    }
}

async fn is_there(jetstream: &Context, stream: &str) -> Result<bool, CreateStreamError> {
    match call(jetstream, format!("STREAM.INFO.{stream}"), &json!({})).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == CreateStreamErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Checks that the stream may be made: a request that contradicts itself is refused by JetStream, and by nobody before it.
async fn check_permission(jetstream: &Context, stream: &str) -> Result<(), CreateStreamError> {
    let contradiction = json!({ "name": format!("NOT_{stream}") });
    match call(jetstream, format!("STREAM.CREATE.{stream}"), &contradiction).await {
        Ok(_) => Ok(()),
        Err(error) => match error.kind() {
            CreateStreamErrorKind::JetStream(reason) if reason.kind() == ErrorCode::STREAM_MISMATCH => Ok(()),
            _ => Err(error),
        },
    }
}

/// Reads the version of the newest event, as far as there is one that this user may read.
async fn read_newest_version(jetstream: &Context) -> Option<u64> {
    let newest = json!({ "last_by_subj": EVENTS });
    let answer = call(jetstream, format!("STREAM.MSG.GET.{EVENT_STREAM}"), &newest).await.ok()?;
    let event = STANDARD.decode(answer["message"]["data"].as_str()?).ok()?;
    serde_json::from_slice::<Value>(&event).ok()?["v"].as_u64()
}
