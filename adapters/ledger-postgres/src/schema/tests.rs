//! An earlier schema is converted unless others work with it.

use std::str::FromStr;

use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;
use satchel_wait::is_met_in_time;
use sqlx::{Connection, postgres::PgConnectOptions};
use uuid::Uuid;

use super::*;
use crate::connections::{execute, set_up};

/// The steps of the version behind this one, with one that adds a table.
const NEXT: &[&str] = &[STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4], "CREATE TABLE next_version (number BIGINT)"];

async fn connect(database: &TestDatabase, schema: &Schema) -> PgConnection {
    let options = PgConnectOptions::from_str(&database.url())
        .unwrap()
        .application_name(&schema.application_name(HolderId(Uuid::now_v7())));
    let mut connection = PgConnection::connect_with(&options).await.unwrap();
    set_up(&mut connection, schema).await.unwrap();
    connection
}

#[tokio::test]
async fn schema_in_use_is_not_converted() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let known = Schema { name: database.role().to_owned(), steps: STEPS };
    let next = Schema { steps: NEXT, ..known.clone() };
    let mut running = connect(&database, &known).await;
    assert!(known.migrate(&mut running).await.is_ok());

    let mut newer = connect(&database, &next).await;
    let Err(MigrateError::Mismatch(mismatch)) = next.migrate(&mut newer).await else { panic!("it is in use") };
    let text = mismatch.to_string();
    assert!(matches!(mismatch, SchemaMismatch::InUse { found: 7, known: 8, processes: 1, .. }), "{mismatch:?}");
    assert!(text.contains("stop all of them"), "{text}");
    assert_eq!(known.check(&mut running).await.unwrap(), None, "and goes on as it was");

    running.close().await.unwrap();
    // The server takes a moment to notice.
    assert!(is_met_in_time(async || next.migrate(&mut newer).await.is_ok()).await);
    assert_eq!(next.read_state(&mut newer).await.unwrap(), Some(SchemaState { version: 8, ..SchemaState::default() }));
    sqlx::query("SELECT number FROM next_version").fetch_all(&mut newer).await.unwrap();

    let mut older = connect(&database, &known).await;
    let Err(MigrateError::Mismatch(mismatch)) = known.migrate(&mut older).await else { panic!("it is newer") };
    assert!(mismatch.to_string().contains("update this Satchel"), "{mismatch}");
    assert_eq!(known.check(&mut older).await.unwrap(), Some(mismatch));
}

/// The version before verbs were written once for all engines.
const OLDEST: &str = include_str!("version-2.sql");

/// What the tables, indexes and functions of a schema are.
async fn describe(connection: &mut PgConnection, schema: &str) -> Vec<String> {
    let sql = "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || COALESCE(column_default, '') || ' ' \
                   || is_nullable FROM information_schema.columns WHERE table_schema = $1 \
               UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = $1 \
               UNION ALL SELECT proname || ' ' || pg_get_function_arguments(pg_proc.oid) || ' ' || prosrc FROM pg_proc \
                   JOIN pg_namespace ON pg_namespace.oid = pronamespace WHERE nspname = $1 ORDER BY 1";
    let lines: Vec<String> = sqlx::query_scalar(sql).bind(schema).fetch_all(connection).await.unwrap();
    lines.into_iter().map(|line| line.replace(schema, "schema")).collect()
}

#[tokio::test]
async fn converted_schema_equals_new_one() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let known = Schema { name: database.role().to_owned(), steps: STEPS };
    let mut connection = connect(&database, &known).await;
    execute(&mut connection, OLDEST).await.unwrap();
    execute(&mut connection, "INSERT INTO lanes (conversation, channel) VALUES ('web:a', 'web')").await.unwrap();
    assert!(known.migrate(&mut connection).await.is_ok());
    assert_eq!(known.check(&mut connection).await.unwrap(), None);
    let kept: String = sqlx::query_scalar("SELECT conversation FROM lanes").fetch_one(&mut connection).await.unwrap();
    assert_eq!(kept, "web:a");

    let Some(empty) = required(TestDatabase::create().await) else { return };
    let new = Schema { name: empty.role().to_owned(), steps: STEPS };
    let mut other = connect(&empty, &new).await;
    assert!(new.migrate(&mut other).await.is_ok());
    let (converted, created) = (describe(&mut connection, &known.name).await, describe(&mut other, &new.name).await);
    assert_eq!(converted, created);
    assert!(converted.len() > 100, "{converted:?}");

    execute(&mut connection, "UPDATE schema_version SET version = 1").await.unwrap();
    execute(&mut connection, "ALTER TABLE schema_version DROP COLUMN moved_from").await.unwrap();
    let Err(MigrateError::Mismatch(mismatch)) = known.migrate(&mut connection).await else { panic!("it is too old") };
    let text = mismatch.to_string();
    assert!(text.contains("has version 1, this Satchel converts schemas from version 2 on"), "{text}");
}

#[test]
fn url_chooses_the_schema() {
    let name = |options: Option<&str>| Schema::from_options(options).map(|schema| schema.name);
    assert_eq!(name(None).as_deref(), Ok("satchel"));
    assert_eq!(name(Some("-c statement_timeout=5")).as_deref(), Ok("satchel"));
    assert_eq!(name(Some("-c search_path=Team_1,public -c x=y")).as_deref(), Ok("team_1"));
    for wrong in ["a-b", "1a", "pg_x", "", "x\"; DROP"] {
        assert!(name(Some(&format!("-c search_path={wrong};"))).is_err(), "{wrong}");
    }
}
