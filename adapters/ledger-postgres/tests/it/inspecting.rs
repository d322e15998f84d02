//! What an inspection says of a database, and that it changes nothing there.

use satchel_ledger_postgres::{ConnectError, DatabaseInspection, Settings};
use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;
use satchel_wait::wait_until_async;
use sqlx::PgPool;

use crate::connect;

async fn inspect(database: &TestDatabase) -> DatabaseInspection {
    DatabaseInspection::read(&Settings::new(database.url().into())).await.unwrap()
}

async fn count_tables(pool: &PgPool) -> i64 {
    let query = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = current_schema()";
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn inspection_sees_the_schema_and_who_works_with_it() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    let empty = inspect(&database).await;
    let expected = DatabaseInspection {
        server: format!("127.0.0.1:{}", database.port()),
        database: "tests".to_owned(),
        schema: database.role().to_owned(),
        role: database.role().to_owned(),
        version: None,
        known: 7,
        processes: 0,
        notifications: Vec::new(),
        is_foreign: false,
        can_create: true,
        is_superuser: false,
    };
    assert_eq!(empty, expected);
    assert_eq!(count_tables(&pool).await, 0, "it made nothing");

    let ledger = connect(&database).await;
    let used = DatabaseInspection { version: Some(7), processes: 1, ..expected };
    assert_eq!(inspect(&database).await, used);
    drop(ledger);
    sqlx::raw_sql("UPDATE schema_version SET version = 99").execute(&pool).await.unwrap();
    assert_eq!(inspect(&database).await.version, Some(99));
    sqlx::raw_sql("UPDATE schema_version SET version = 0").execute(&pool).await.unwrap();
    assert_eq!(inspect(&database).await.version, Some(0));
    wait_until_async("the process is gone", async || inspect(&database).await.processes == 0).await;
    let version: i64 = sqlx::query_scalar("SELECT version FROM schema_version").fetch_one(&pool).await.unwrap();
    assert_eq!(version, 0, "it converted nothing");
}

#[tokio::test]
async fn inspection_tells_what_a_start_would_be_refused() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    sqlx::raw_sql("CREATE TABLE lanes (swimmer TEXT)").execute(&pool).await.unwrap();
    assert!(inspect(&database).await.is_foreign);

    let other_schema = database.url().replace(&format!("search_path%3D{}", database.role()), "search_path%3Dother");
    let inspection = DatabaseInspection::read(&Settings::new(other_schema.into())).await.unwrap();
    assert!(!inspection.can_create && !inspection.is_foreign, "{inspection:?}");

    let nowhere = Settings::new(database.url().replace("/tests?", "/nowhere?").into());
    let error = DatabaseInspection::read(&nowhere).await.unwrap_err();
    assert!(matches!(error, ConnectError::NoDatabase { .. }), "{error:?}");
}
