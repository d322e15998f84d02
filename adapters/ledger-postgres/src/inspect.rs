//! What a database holds, found without changing it: for checks beside a running process.

use satchel_domain::ConversationId;
use satchel_ledger_sql::COUNT_QUEUED_NOTIFICATIONS;
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};

use crate::{
    ConnectError, Settings,
    connect::{ConnectionTarget, parse_url},
    connections::set_up,
    schema::{MigrateError, Schema, SchemaMismatch},
};

/// The name by which an inspection shows itself, which is no process that works with the schema.
const APPLICATION_NAME: &str = "satchel doctor";

/// What a database holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseInspection {
    /// Its host and port.
    pub server: String,
    pub database: String,
    pub schema: String,
    pub role: String,
    /// The version of the schema; `None` where the first start creates it.
    pub version: Option<i64>,
    /// The version that this program needs.
    pub known: i64,
    /// How many processes work with the schema.
    pub processes: usize,
    /// How many notifications wait, by conversation.
    pub notifications: Vec<(ConversationId, u64)>,
    /// Whether the schema has tables, and none of them says that it is Satchel's.
    pub is_foreign: bool,
    /// Whether the role may make the tables that are missing.
    pub can_create: bool,
    /// Whether it may do everything on the server.
    pub is_superuser: bool,
}

impl DatabaseInspection {
    /// Finds out what the database of these settings holds.
    ///
    /// # Errors
    /// When the database can't be used, in words for the person who runs Satchel.
    pub async fn read(settings: &Settings) -> Result<Self, ConnectError> {
        let (options, schema) = parse_url(settings)?;
        let options = options.application_name(APPLICATION_NAME);
        let target = ConnectionTarget::new(&options, &schema);
        let inspected = tokio::time::timeout(settings.verb_timeout, inspect(&options, &schema, &target)).await;
        match inspected {
            Ok(Ok(inspection)) => Ok(inspection),
            Ok(Err(error)) => Err(target.describe(error)),
            Err(elapsed) => Err(ConnectError::Unreachable { server: target.server, source: Box::new(elapsed) }),
        }
    }
}

async fn inspect(
    options: &PgConnectOptions,
    schema: &Schema,
    target: &ConnectionTarget,
) -> Result<DatabaseInspection, MigrateError> {
    let mut connection = PgConnection::connect_with(options).await?;
    set_up(&mut connection, schema).await?;
    if let Some(mismatch @ (SchemaMismatch::Moved { .. } | SchemaMismatch::Unfinished { .. })) =
        schema.check(&mut connection).await?
    {
        return Err(MigrateError::Mismatch(mismatch));
    }
    let version = schema.read_state(&mut connection).await?.map(|state| state.version);
    let processes = schema.count_processes(&mut connection).await?;
    let (is_foreign, can_create, is_superuser): (bool, bool, bool) = sqlx::query_as(
        "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = $1 AND $2), \
         CASE WHEN EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1) THEN has_schema_privilege($1, 'CREATE') \
         ELSE has_database_privilege(current_database(), 'CREATE') END, \
         (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)",
    )
    .bind(&schema.name)
    .bind(version.is_none())
    .fetch_one(&mut connection)
    .await?;
    // Another version may have other tables.
    let notifications = match version == Some(schema.newest_version()) {
        true => count_notifications(&mut connection).await?,
        false => Vec::new(),
    };
    let _closed = connection.close().await;
    let ConnectionTarget { server, role, database, .. } = target;
    Ok(DatabaseInspection {
        server: server.clone(),
        database: database.clone(),
        schema: schema.name.clone(),
        role: role.clone(),
        version,
        known: schema.newest_version(),
        processes: usize::try_from(processes).unwrap_or(0),
        notifications,
        is_foreign,
        can_create,
        is_superuser,
    })
}

async fn count_notifications(connection: &mut PgConnection) -> Result<Vec<(ConversationId, u64)>, sqlx::Error> {
    let counts: Vec<(String, i64)> = sqlx::query_as(COUNT_QUEUED_NOTIFICATIONS).fetch_all(connection).await?;
    let count = |(conversation, count): (String, i64)| Some((conversation.parse().ok()?, count.cast_unsigned()));
    Ok(counts.into_iter().filter_map(count).collect())
}
