//! An earlier schema is converted unless others work with it.

use std::str::FromStr;

use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;
use satchel_wait::is_met_in_time;
use sqlx::{Connection, postgres::PgConnectOptions};
use uuid::Uuid;

use super::*;
use crate::connections::set_up;

/// The schema of the version behind this one, with a step that adds a table.
const NEXT: &[&str] = &[STEPS[0], STEPS[1], "CREATE TABLE next_version (number BIGINT)"];

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
    assert!(matches!(mismatch, SchemaMismatch::InUse { found: 2, known: 3, processes: 1, .. }), "{mismatch:?}");
    assert!(text.contains("stop all of them"), "{text}");
    assert_eq!(known.check(&mut running).await.unwrap(), None, "and goes on as it was");

    running.close().await.unwrap();
    // The server takes a moment to notice.
    assert!(is_met_in_time(async || next.migrate(&mut newer).await.is_ok()).await);
    assert_eq!(next.read_state(&mut newer).await.unwrap(), Some(SchemaState { version: 3, ..SchemaState::default() }));
    sqlx::query("SELECT number FROM next_version").fetch_all(&mut newer).await.unwrap();

    let mut older = connect(&database, &known).await;
    let Err(MigrateError::Mismatch(mismatch)) = known.migrate(&mut older).await else { panic!("it is newer") };
    assert!(mismatch.to_string().contains("update this Satchel"), "{mismatch}");
    assert_eq!(known.check(&mut older).await.unwrap(), Some(mismatch));
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
