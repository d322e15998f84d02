//! The connection to the NATS servers of a configuration, and clear words when that fails.

use std::{
    error::Error,
    fmt, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{
    Client, ConnectError, ConnectErrorKind, ConnectOptions, Event,
    connection::State,
    jetstream::{
        Context, ContextBuilder, ErrorCode,
        context::{CreateStreamError, CreateStreamErrorKind, PublishError, PublishErrorKind},
        message::PublishMessage,
    },
};
use secrecy::ExposeSecret;

use crate::{
    settings::{ClientCertificate, NatsLogin, NatsSettings, Servers},
    streams,
};

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long JetStream may take to answer.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Beneath it Satchel gets the responses of the server, which hold what other programs have sent. The usual `_INBOX` is
/// what permissions let every program read.
const INBOX_PREFIX: &str = "_INBOX_satchel";

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
    /// The connection can't be encrypted, or the server's certificate is not trusted.
    #[error("no encrypted connection to NATS at {hosts}; check `bus.ca_file` and the host of `bus.url`")]
    Tls {
        hosts: String,
        #[source]
        source: ConnectError,
    },
    /// The server answers, and doesn't let this process in.
    #[error("NATS at {hosts} refuses the login; check `bus.url`, `bus.credentials` and `bus.nkey`")]
    Login {
        hosts: String,
        #[source]
        source: ConnectError,
    },
    /// What stands in `bus.credentials` is no credentials file.
    #[error("`bus.credentials` is not the content of a credentials file, as `nsc generate creds` writes it")]
    Credentials,
    /// A file of certificates or of a key can't be read.
    #[error("failed to read `{path}`")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// JetStream is off or may not be used.
    #[error(
        "NATS at {hosts} keeps no events; start it with JetStream (`-js`), with 768 MiB of free disk, and let this \
             user create streams and subscribe to `_INBOX_satchel.>`"
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
        source: Box<dyn Error + Send + Sync>,
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
            _ => false,
        }
    }

    fn from_connect_error(source: ConnectError, hosts: &str) -> Self {
        let hosts = hosts.to_owned();
        match source.kind() {
            ConnectErrorKind::Tls => Self::Tls { hosts, source },
            // So the library calls a handshake that fails.
            ConnectErrorKind::Io if is_invalid_data(&source) => Self::Tls { hosts, source },
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                Self::Login { hosts, source }
            }
            _ => Self::Unreachable { hosts, source },
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
    /// For messages.
    pub(crate) hosts: String,
}

impl NatsConnection {
    /// Connects to the servers of the settings, makes the streams that are missing, and protects those that exist.
    ///
    /// # Errors
    /// When no server can be reached, or it refuses, or has no JetStream.
    pub async fn open(settings: &NatsSettings) -> Result<Self, NatsError> {
        let connection = Self::connect(settings).await?;
        let opened = streams::open(&connection.jetstream).await;
        opened.map_err(|source| NatsError::Streams { hosts: connection.hosts.clone(), source })?;
        Ok(connection)
    }

    /// Connects to the servers of the settings, and changes nothing there.
    pub(crate) async fn connect(settings: &NatsSettings) -> Result<Self, NatsError> {
        let Servers { addresses, credentials, hosts } =
            Servers::parse(settings.url.expose_secret()).ok_or(NatsError::Url)?;
        for path in settings.files() {
            let read = tokio::fs::read(path).await;
            read.map_err(|source| NatsError::File { path: path.clone(), source })?;
        }
        let mut options = ConnectOptions::new()
            .name("satchel")
            .custom_inbox_prefix(INBOX_PREFIX)
            // What this process publishes reaches its own subscribers without the server.
            .no_echo()
            .connection_timeout(CONNECT_TIMEOUT)
            .event_callback(log_outages(hosts.clone()));
        if let Some(ca_file) = &settings.ca_file {
            options = options.add_root_certificates(ca_file.clone());
        }
        if let Some(ClientCertificate { certificate_file, key_file }) = &settings.client_certificate {
            options = options.add_client_certificate(certificate_file.clone(), key_file.clone());
        }
        options = match credentials {
            Some((user, Some(password))) => options.user_and_password(user, password),
            Some((token, None)) => options.token(token),
            None => match &settings.login {
                Some(NatsLogin::Credentials(file)) => {
                    options.credentials(file.expose_secret()).map_err(|_| NatsError::Credentials)?
                }
                Some(NatsLogin::Nkey(seed)) => options.nkey(seed.expose_secret().to_owned()),
                None => options,
            },
        };
        let connected = options.connect(addresses).await;
        let client = connected.map_err(|source| NatsError::from_connect_error(source, &hosts))?;
        let jetstream =
            ContextBuilder::new().timeout(RESPONSE_TIMEOUT).ack_timeout(RESPONSE_TIMEOUT).build(client.clone());
        Ok(Self { client, jetstream, hosts })
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
            tracing::debug!(error = &error as &dyn Error, "a stream can't be created again");
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

/// Whether what came was no message of TLS, or not a trusted one.
fn is_invalid_data(error: &ConnectError) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::InvalidData)
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
                tracing::warn!(hosts, error = &error as &dyn Error, "NATS reported an error");
            }
            event => tracing::debug!(hosts, %event, "event of the NATS connection"),
        }
        std::future::ready(())
    }
}
