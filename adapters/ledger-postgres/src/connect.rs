//! Connecting to the database, and clear words when that fails.

use std::{io::ErrorKind, str::FromStr, sync::Arc};

use satchel_ports::{Clock, Ids};
use secrecy::ExposeSecret;
use sqlx::{ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};

use crate::{
    PostgresLedger,
    connections::{ConnectionPurpose, Connections, STATEMENT_CACHE_CAPACITY, set_up},
    error::is_disconnected,
    process::{Process, Settings},
    schema::{MigrateError, Schema, SchemaMismatch},
};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why the ledger can't be used. Its texts name the server, the role and the database, never the password.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL can't be read.
    #[error("the database's URL is invalid; its form is `postgres://user:password@host:port/database`")]
    Url {
        #[source]
        source: Source,
    },
    /// The schema's name can't be used.
    #[error("`{name}` can't be the name of a schema; use up to 46 of a-z, 0-9 and _, beginning with a letter")]
    SchemaName { name: String },
    /// Nobody answers, or the server doesn't serve now. A retry may help.
    #[error("PostgreSQL can't be reached at {server}; check that it runs there and that this machine may connect")]
    Unreachable {
        server: String,
        #[source]
        source: Source,
    },
    /// The connection can't be encrypted as the URL wants it, or the server's certificate is not trusted.
    #[error("no encrypted connection to PostgreSQL at {server}; check `sslmode` and `sslrootcert` of the URL")]
    Tls {
        server: String,
        #[source]
        source: Source,
    },
    /// The role, its password or its address is refused.
    #[error("PostgreSQL at {server} refuses the role `{role}`; check the user and the password of the URL")]
    Refused {
        server: String,
        role: String,
        #[source]
        source: Source,
    },
    /// The server has no such database.
    #[error("PostgreSQL at {server} has no database `{database}`; create it with `CREATE DATABASE {database}`")]
    NoDatabase {
        server: String,
        database: String,
        #[source]
        source: Source,
    },
    /// The role may not do what is needed.
    #[error(
        "the role `{role}` may not create what Satchel needs in schema `{schema}`; run `CREATE SCHEMA IF NOT EXISTS {schema} \
         AUTHORIZATION {role}` as an administrator"
    )]
    NoPermission {
        role: String,
        schema: String,
        #[source]
        source: Source,
    },
    /// The schema has tables that are not Satchel's.
    #[error("schema `{schema}` holds other tables; choose an empty one with `?options=-c search_path=NAME` in the URL")]
    Foreign {
        schema: String,
        #[source]
        source: Source,
    },
    /// The schema is another version's, or its ledger was moved.
    #[error(transparent)]
    Schema(SchemaMismatch),
    /// It is wanted by one process alone.
    #[error(
        "schema `{schema}` of PostgreSQL at {server} is in use; stop Satchel first, on all machines (running processes: \
         {processes})"
    )]
    InUse { server: String, schema: String, processes: i64 },
    /// A process has it for itself.
    #[error(
        "schema `{schema}` of PostgreSQL at {server} is locked, as `satchel migrate` locks it while it runs; wait for it"
    )]
    Locked {
        server: String,
        schema: String,
        #[source]
        source: Source,
    },
    /// Anything else.
    #[error("PostgreSQL at {server} can't be used")]
    Other {
        server: String,
        #[source]
        source: Source,
    },
}

impl ConnectError {
    /// Whether a retry may help: nobody answers, or the server doesn't serve now.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// What the texts of errors name.
pub(crate) struct ConnectionTarget {
    pub(crate) server: String,
    pub(crate) role: String,
    pub(crate) database: String,
    pub(crate) schema: String,
    /// Whether it is reached by a host and not by a file.
    is_networked: bool,
}

impl PostgresLedger {
    /// Connects to the database, and creates its schema or brings it up to date.
    ///
    /// Several processes may do so; each is a holder of its own.
    ///
    /// # Errors
    /// When the database can't be used, in words for the person who starts Satchel.
    pub async fn connect(settings: Settings, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Self, ConnectError> {
        let (options, schema) = parse_url(&settings)?;
        let holder = settings.verbs.scope.holder_id(ids.next());
        let options = options
            .application_name(&schema.application_name(holder))
            .statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
        let target = ConnectionTarget::new(&options, &schema);
        let schema = Arc::new(schema);
        let prepared = tokio::time::timeout(settings.verb_timeout, prepare(&options, &schema)).await;
        match prepared {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(target.describe(error)),
            Err(elapsed) => return Err(ConnectError::Unreachable { server: target.server, source: Box::new(elapsed) }),
        }
        let connections = Connections::new(options, schema, &settings);
        if let Err(error) = connections.acquire(ConnectionPurpose::Verb).await {
            return Err(ConnectError::Unreachable { server: target.server, source: Box::new(error) });
        }
        let process = Arc::new(Process { holder, settings, clock, ids });
        Ok(Self { process, connections })
    }
}

/// Reads a URL: how to connect, and to which schema.
pub(crate) fn parse_url(settings: &Settings) -> Result<(PgConnectOptions, Schema), ConnectError> {
    let options = PgConnectOptions::from_str(settings.url.expose_secret())
        .map_err(|source| ConnectError::Url { source: Box::new(source) })?;
    let schema = Schema::from_options(options.get_options()).map_err(|name| ConnectError::SchemaName { name })?;
    Ok((options.disable_statement_logging(), schema))
}

/// Brings the schema up to date, on a connection of its own.
async fn prepare(options: &PgConnectOptions, schema: &Schema) -> Result<(), MigrateError> {
    let mut connection = PgConnection::connect_with(options).await?;
    set_up(&mut connection, schema).await?;
    let prepared = match schema.migrate(&mut connection).await {
        Ok(()) => schema.check(&mut connection).await.map_err(MigrateError::from),
        Err(error) => Err(error),
    };
    let _closed = connection.close().await;
    match prepared? {
        Some(mismatch) => Err(MigrateError::Mismatch(mismatch)),
        None => Ok(()),
    }
}

/// Whether the connection could not be encrypted. Over a network only a file of certificates can be missing.
fn is_tls_failure(error: &sqlx::Error, is_networked: bool) -> bool {
    match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(error) if error.kind() == ErrorKind::NotFound => is_networked,
        sqlx::Error::Io(error) => matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::IsADirectory),
        _ => false,
    }
}

impl ConnectionTarget {
    pub(crate) fn new(options: &PgConnectOptions, schema: &Schema) -> Self {
        Self {
            server: format!("{}:{}", options.get_host(), options.get_port()),
            role: options.get_username().to_owned(),
            database: options.get_database().unwrap_or(options.get_username()).to_owned(),
            schema: schema.name.clone(),
            is_networked: options.get_socket().is_none() && !options.get_host().starts_with('/'),
        }
    }

    pub(crate) fn describe(self, error: MigrateError) -> ConnectError {
        let Self { server, role, database, schema, is_networked } = self;
        let (error, is_creating) = match error {
            MigrateError::Mismatch(mismatch) => return ConnectError::Schema(mismatch),
            MigrateError::MayNotCreate(error) => (error, true),
            MigrateError::Database(error) => (error, false),
        };
        let code = error.as_database_error().and_then(|error| error.code()).map(|code| code.into_owned());
        let is_retryable = is_disconnected(&error);
        let is_tls = is_tls_failure(&error, is_networked);
        let source = Box::new(error);
        match code.as_deref() {
            Some("28P01" | "28000") => ConnectError::Refused { server, role, source },
            Some("3D000") => ConnectError::NoDatabase { server, database, source },
            Some("42501") => ConnectError::NoPermission { role, schema, source },
            Some("42P07" | "42723") => ConnectError::Foreign { schema, source },
            Some("55P03") => ConnectError::Locked { server, schema, source },
            _ if is_creating => ConnectError::NoPermission { role, schema, source },
            _ if is_tls => ConnectError::Tls { server, source },
            _ if is_retryable => ConnectError::Unreachable { server, source },
            _ => ConnectError::Other { server, source },
        }
    }
}
