//! The connections of a process: few, set up alike, and refused where the schema is another one's.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use sqlx::{
    PgConnection, PgPool, Postgres,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::{
    database::execute,
    error::{Error, Result},
    process::Settings,
    schema::{Schema, SchemaMismatch},
};

/// How long a connection may have been idle without being tried out before its next use.
const TRUSTED_IDLE_TIME: Duration = Duration::from_secs(1);

/// How long a connection is kept that nobody uses, and how long any is.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
const MAX_LIFETIME: Duration = Duration::from_secs(30 * 60);

/// Limits that the server keeps: of a statement, of waiting for a lane that another process works on, and, shorter than that,
/// of a process that is stopped in the middle of a verb and would keep its lane locked. And how soon it notices that a machine
/// is gone, whose processes count until then.
const LIMITS: &str = "SET statement_timeout TO '15s'; SET lock_timeout TO '10s'; \
    SET idle_in_transaction_session_timeout TO '5s'; \
    SET tcp_keepalives_idle TO 30; SET tcp_keepalives_interval TO 10; SET tcp_keepalives_count TO 3; \
    SET tcp_user_timeout TO '30s'";

/// How many prepared statements a connection keeps: more than there are.
pub(crate) const STATEMENT_CACHE_CAPACITY: usize = 256;

/// The connections of a ledger.
pub(crate) struct Connections {
    pool: PgPool,
    /// Set once the schema was found to be another version's.
    mismatch: Arc<OnceLock<SchemaMismatch>>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The options of the pool hold the password.
        f.debug_struct("Connections").field("open", &self.pool.size()).finish_non_exhaustive()
    }
}

impl Connections {
    /// Prepares connections to a schema that is up to date.
    pub(crate) fn new(options: PgConnectOptions, schema: Arc<Schema>, settings: &Settings) -> Self {
        let mismatch = Arc::new(OnceLock::new());
        let found = Arc::clone(&mismatch);
        let pool = PgPoolOptions::new()
            // By its connections others see that the process runs.
            .min_connections(1)
            .max_connections(settings.max_connections.max(2))
            .acquire_timeout(settings.connect_timeout)
            .idle_timeout(IDLE_TIMEOUT)
            .max_lifetime(MAX_LIFETIME)
            .test_before_acquire(false)
            .before_acquire(|connection, state| {
                Box::pin(async move {
                    use sqlx::Connection;
                    Ok(state.idle_for < TRUSTED_IDLE_TIME || connection.ping().await.is_ok())
                })
            })
            .after_connect(move |connection, _| {
                let (schema, found) = (Arc::clone(&schema), Arc::clone(&found));
                Box::pin(async move {
                    set_up(connection, &schema).await?;
                    match schema.check(connection).await? {
                        None => Ok(()),
                        Some(mismatch) => {
                            let refused = sqlx::Error::Configuration(mismatch.to_string().into());
                            let _first = found.set(mismatch);
                            Err(refused)
                        }
                    }
                })
            });
        Self { pool: pool.connect_lazy_with(options), mismatch }
    }

    pub(crate) async fn acquire(&self) -> Result<PoolConnection<Postgres>> {
        let refused = || self.mismatch.get().cloned().map(Error::Schema);
        if let Some(refused) = refused() {
            return Err(refused);
        }
        self.pool.acquire().await.map_err(|error| refused().unwrap_or(Error::Disconnected(error)))
    }
}

/// Chooses the schema and sets the limits.
pub(crate) async fn set_up(connection: &mut PgConnection, schema: &Schema) -> Result<(), sqlx::Error> {
    execute(connection, &format!("SET search_path TO \"{}\"; {LIMITS}", schema.name)).await
}
