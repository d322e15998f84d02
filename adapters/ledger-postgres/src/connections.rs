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

/// How many connections renewals have for themselves: for one of lanes and one of gateways.
const RENEWAL_CONNECTIONS: u32 = 2;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionPurpose {
    Verb,
    /// Of a lease, which would be lost if it had to wait until slow verbs have ended.
    Renewal,
}

/// The connections of a ledger.
pub(crate) struct Connections {
    verbs: PgPool,
    renewals: PgPool,
    /// Set once the schema was found to be another version's.
    mismatch: Arc<OnceLock<SchemaMismatch>>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The options of the pool hold the password.
        let open = self.verbs.size() + self.renewals.size();
        f.debug_struct("Connections").field("open", &open).finish_non_exhaustive()
    }
}

impl Connections {
    /// Prepares connections to a schema that is up to date.
    pub(crate) fn new(options: PgConnectOptions, schema: Arc<Schema>, settings: &Settings) -> Self {
        let mismatch = Arc::new(OnceLock::new());
        let pool = |limit: u32| pool_options(settings, &schema, &mismatch).max_connections(limit);
        // By its connections others see that the process runs.
        let verbs = pool(settings.max_connections.max(2)).min_connections(1).connect_lazy_with(options.clone());
        let renewals = pool(RENEWAL_CONNECTIONS).connect_lazy_with(options);
        Self { verbs, renewals, mismatch }
    }

    pub(crate) async fn acquire(&self, purpose: ConnectionPurpose) -> Result<PoolConnection<Postgres>> {
        let pool = match purpose {
            ConnectionPurpose::Verb => &self.verbs,
            ConnectionPurpose::Renewal => &self.renewals,
        };
        let refused = || self.mismatch.get().cloned().map(Error::Schema);
        if let Some(refused) = refused() {
            return Err(refused);
        }
        pool.acquire().await.map_err(|error| refused().unwrap_or(Error::Disconnected(error)))
    }
}

/// How connections are opened and tried out. The first one that finds the schema to be another version's says so.
fn pool_options(settings: &Settings, schema: &Arc<Schema>, mismatch: &Arc<OnceLock<SchemaMismatch>>) -> PgPoolOptions {
    let (schema, mismatch) = (Arc::clone(schema), Arc::clone(mismatch));
    PgPoolOptions::new()
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
            let (schema, mismatch) = (Arc::clone(&schema), Arc::clone(&mismatch));
            Box::pin(async move {
                set_up(connection, &schema).await?;
                match schema.check(connection).await? {
                    None => Ok(()),
                    Some(found) => {
                        let refused = sqlx::Error::Configuration(found.to_string().into());
                        let _first = mismatch.set(found);
                        Err(refused)
                    }
                }
            })
        })
}

/// Chooses the schema and sets the limits.
pub(crate) async fn set_up(connection: &mut PgConnection, schema: &Schema) -> Result<(), sqlx::Error> {
    execute(connection, &format!("SET search_path TO \"{}\"; {LIMITS}", schema.name)).await
}

/// Runs statements without parameters on a connection that is no verb's.
pub(crate) async fn execute(connection: &mut PgConnection, sql: &str) -> Result<(), sqlx::Error> {
    use sqlx::Executor;
    connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql))).await?;
    Ok(())
}
