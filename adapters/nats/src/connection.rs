//! The connection to the NATS servers that a URL names. Credentials are taken out of the URL before the library gets it,
//! because the library logs its URLs.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{
    Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr,
    connection::State,
    jetstream::{
        Context, ContextBuilder, ErrorCode,
        context::{CreateStreamError, CreateStreamErrorKind, PublishError, PublishErrorKind},
        message::PublishMessage,
    },
};
use secrecy::{ExposeSecret, SecretString};

use crate::streams;

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long JetStream may take to answer.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why NATS can't be used. None of it holds credentials.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// The URL names no server.
    #[error("the NATS URL names no server: write nats://HOST:4222, with commas between several")]
    Url,
    /// Nobody answers. A retry may help.
    #[error("NATS can't be reached at {hosts}; check that it runs there and that this machine may connect")]
    Unreachable {
        hosts: String,
        #[source]
        source: ConnectError,
    },
    /// The server answers, and doesn't let this process in.
    #[error("NATS at {hosts} refuses the connection; check the credentials")]
    Connect {
        hosts: String,
        #[source]
        source: ConnectError,
    },
    /// JetStream is off or may not be used.
    #[error(
        "NATS at {hosts} keeps no events; start it with JetStream (`-js`), with 768 MiB of free disk, and let this user \
             create streams"
    )]
    Streams {
        hosts: String,
        #[source]
        source: CreateStreamError,
    },
    /// The server refuses what is needed of it.
    #[error("NATS refused {action}")]
    Refused {
        action: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl NatsError {
    /// Whether a retry may help: nobody answers, or JetStream isn't ready yet.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Streams { source, .. } => match source.kind() {
                CreateStreamErrorKind::TimedOut => true,
                CreateStreamErrorKind::JetStream(error) => error.kind() == ErrorCode::CLUSTER_NOT_AVAILABLE,
                _ => false,
            },
            Self::Url | Self::Connect { .. } | Self::Refused { .. } => false,
        }
    }

    fn from_connect_error(source: ConnectError, hosts: &str) -> Self {
        let hosts = hosts.to_owned();
        match source.kind() {
            ConnectErrorKind::Dns | ConnectErrorKind::TimedOut | ConnectErrorKind::Io => {
                Self::Unreachable { hosts, source }
            }
            _ => Self::Connect { hosts, source },
        }
    }
}

/// Why a message was not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("NATS is away")]
    NotConnected,
    #[error("the stream was missing")]
    StreamMissing,
    #[error("the message is larger than the server takes")]
    TooLarge,
    /// It may have been stored.
    #[error("NATS did not confirm the message: {0}")]
    InDoubt(PublishError),
}

/// A connection that reconnects for ever. Its streams exist.
#[derive(Clone)]
pub struct NatsConnection {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
}

/// The servers of a URL, and how to log in there.
#[derive(Debug)]
struct Servers {
    addresses: Vec<ServerAddr>,
    credentials: Option<(String, Option<String>)>,
    /// For messages.
    hosts: String,
}

impl NatsConnection {
    /// Connects to `nats://USER:PASSWORD@HOST:PORT`, `nats://TOKEN@HOST`, or `tls://…`; further servers of a cluster
    /// follow after commas. `SSL_CERT_FILE` names certificates to trust.
    ///
    /// # Errors
    /// When no server can be reached, or it has no JetStream.
    pub async fn open(url: &SecretString) -> Result<Self, NatsError> {
        let Servers { addresses, credentials, hosts } = Servers::parse(url.expose_secret()).ok_or(NatsError::Url)?;
        let options = ConnectOptions::new()
            .name("satchel")
            // What this process publishes reaches its own subscribers without the server.
            .no_echo()
            .connection_timeout(CONNECT_TIMEOUT)
            .event_callback(log_outages(hosts.clone()));
        let options = match credentials {
            Some((user, Some(password))) => options.user_and_password(user, password),
            Some((token, None)) => options.token(token),
            None => options,
        };
        let connected = options.connect(addresses).await;
        let client = connected.map_err(|source| NatsError::from_connect_error(source, &hosts))?;
        let jetstream =
            ContextBuilder::new().timeout(RESPONSE_TIMEOUT).ack_timeout(RESPONSE_TIMEOUT).build(client.clone());
        let connection = Self { client, jetstream };
        let created = streams::create_missing(&connection.jetstream).await;
        created.map_err(|source| NatsError::Streams { hosts, source })?;
        Ok(connection)
    }

    /// Publishes a message and waits until JetStream has stored it. A stream that is gone is made again for the next try.
    pub(crate) async fn store(&self, subject: String, message: PublishMessage) -> Result<(), StoreError> {
        if !self.is_connected() {
            return Err(StoreError::NotConnected);
        }
        let stored = match self.jetstream.send_publish(subject, message).await {
            Ok(stored) => stored.await,
            Err(error) => Err(error),
        };
        let Err(error) = stored else { return Ok(()) };
        if error.kind() == PublishErrorKind::MaxPayloadExceeded {
            return Err(StoreError::TooLarge);
        }
        // Where others subscribe to the subject, a stream that is gone shows as a confirmation that doesn't come.
        if let Err(error) = streams::create_missing(&self.jetstream).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "a stream can't be created again");
        }
        match error.kind() {
            PublishErrorKind::StreamNotFound => Err(StoreError::StreamMissing),
            _ => Err(StoreError::InDoubt(error)),
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }
}

impl fmt::Debug for NatsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsConnection").finish_non_exhaustive()
    }
}

impl Servers {
    /// Reads the servers of a URL; the first credentials are those of all servers.
    fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let mut servers = Self { addresses: Vec::new(), credentials: None, hosts: String::new() };
        let mut hosts = Vec::new();
        for server in rest.trim_end_matches('/').split(',') {
            // Further servers may repeat the scheme.
            let server = server.split_once("://").map_or(server, |(_, server)| server).trim_end_matches('/');
            let (login, host) = server.rsplit_once('@').map_or((None, server), |(login, host)| (Some(login), host));
            if let (Some(login), None) = (login, &servers.credentials) {
                servers.credentials = Some(match login.split_once(':') {
                    Some((user, password)) => (percent_decode(user)?, Some(percent_decode(password)?)),
                    None => (percent_decode(login)?, None),
                });
            }
            servers.addresses.push(format!("{scheme}://{host}").parse().ok()?);
            hosts.push(host);
        }
        servers.hosts = hosts.join(", ");
        let is_host = |address: &ServerAddr| !address.host().is_empty();
        servers.addresses.iter().all(is_host).then_some(servers)
    }
}

/// Decodes `%XX`, as URLs write what has a meaning in them.
fn percent_decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

/// Logs once when the connection is lost and once when it is back.
fn log_outages(hosts: String) -> impl Fn(Event) -> std::future::Ready<()> + Send + Sync + 'static {
    let is_away = Arc::new(AtomicBool::new(false));
    move |event| {
        match event {
            Event::Disconnected if !is_away.swap(true, Ordering::Relaxed) => {
                tracing::warn!(hosts, "lost the connection to NATS; retrying with backoff, work continues with delays");
            }
            Event::Connected if is_away.swap(false, Ordering::Relaxed) => {
                tracing::info!(hosts, "connected to NATS again");
            }
            Event::ServerError(error) => {
                tracing::warn!(hosts, error = &error as &dyn std::error::Error, "NATS reported an error");
            }
            event => tracing::debug!(hosts, %event, "event of the NATS connection"),
        }
        std::future::ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_leave_the_url() {
        for (url, hosts, credentials) in [
            ("nats://h", "h", None),
            ("nats://ada:p%40ss@h:4222", "h:4222", Some(("ada", Some("p@ss")))),
            ("tls://t%2Fok@h/", "h", Some(("t/ok", None))),
            ("nats://a:b@h1:1,h2:2,nats://c:d@[::1]:3", "h1:1, h2:2, [::1]:3", Some(("a", Some("b")))),
        ] {
            let servers = Servers::parse(url).unwrap();
            let credentials = credentials.map(|(user, password)| (user.to_owned(), password.map(str::to_owned)));
            assert_eq!((servers.hosts.as_str(), servers.credentials), (hosts, credentials), "{url}");
            assert!(servers.addresses.iter().all(|address| !address.has_user_pass()), "{url}");
        }
        for wrong in ["h", "nats://", "nats://a:b@", "nats://%zz@h", "nats://h:port"] {
            assert!(Servers::parse(wrong).is_none(), "{wrong}");
        }
    }
}
