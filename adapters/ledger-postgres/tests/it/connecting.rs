//! Connecting to what isn't there, refuses or is another version's: a clear error, without the password.

use std::{error::Error, sync::Arc, time::Duration};

use futures::future::join_all;
use satchel_ledger_postgres::{ConnectError, PostgresLedger, SchemaMismatch, Settings};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    Archive, Inbox,
    ledger::{ClaimMode, LedgerError},
};
use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;
use sqlx::PgPool;

use crate::{connect, message};

async fn try_connect(url: &str) -> Result<PostgresLedger, ConnectError> {
    PostgresLedger::connect(Settings::new(url.into()), Arc::new(SystemClock::new()), Arc::new(UuidV7)).await
}

/// The texts of an error and of what caused it, none of which may tell the password.
async fn refused(url: &str) -> (ConnectError, String) {
    let error = try_connect(url).await.expect_err("it can't be used");
    let mut texts = vec![error.to_string(), format!("{error:?}")];
    let mut source = error.source();
    while let Some(cause) = source {
        texts.push(cause.to_string());
        source = cause.source();
    }
    assert!(texts.iter().all(|text| !text.contains("wrong-horse") && !text.contains("correct-horse")), "{texts:?}");
    let text = error.to_string();
    (error, text)
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    database.require_password().await.unwrap();
    let (url, role, port) = (database.url(), database.role(), database.port());
    try_connect(&url).await.expect("the right password is let in");

    let (error, text) = refused(&url.replace("correct-horse", "wrong-horse")).await;
    assert!(matches!(error, ConnectError::Refused { .. }) && text.contains(role), "{error:?}");
    let (error, text) = refused(&url.replace("/tests?", "/nowhere?")).await;
    assert!(matches!(error, ConnectError::NoDatabase { .. }) && text.contains("CREATE DATABASE nowhere"), "{error:?}");
    let (error, text) = refused(&url.replace(&format!(":{port}/"), ":1/")).await;
    assert!(matches!(error, ConnectError::Unreachable { .. }) && text.contains("127.0.0.1:1"), "{error:?}");
    assert!(error.is_retryable());
    let (error, _) = refused(&url.replace("?", "?sslmode=require&")).await;
    assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");
    let (error, text) = refused("postgres://ada:wrong-horse@localhost:port/x").await;
    assert!(matches!(error, ConnectError::Url { .. }) && text.contains("postgres://user:"), "{error:?}");
    let (error, text) = refused(&url.replace(&format!("search_path%3D{role}"), "search_path%3Da-b")).await;
    assert!(matches!(error, ConnectError::SchemaName { .. }) && text.contains("`a-b`"), "{error:?}");
    let (error, text) = refused(&url.replace(&format!("search_path%3D{role}"), "search_path%3Dother")).await;
    assert!(matches!(error, ConnectError::NoPermission { .. }), "{error:?}");
    assert!(text.contains("CREATE SCHEMA IF NOT EXISTS other"), "{text}");
}

#[tokio::test]
async fn role_needs_its_schema_alone() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    for forbidden in ["CREATE SCHEMA another", "CREATE TABLE public.another (x INT)"] {
        let error = sqlx::raw_sql(forbidden).execute(&pool).await.unwrap_err();
        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("42501"), "{forbidden}");
    }
    let ledger = connect(&database).await;
    let turn = ledger.receive(&message("console:a", "1"), ClaimMode::Never).await.unwrap().turn;
    assert!(connect(&database).await.turn(turn).await.unwrap().is_some());
}

#[tokio::test]
async fn missing_schema_is_created_where_that_is_allowed() {
    let Some(database) = required(TestDatabase::create_whole().await) else { return };
    let opened = join_all((0..4).map(|_| connect(&database))).await;
    for (number, ledger) in opened.iter().enumerate() {
        ledger.receive(&message("console:a", &number.to_string()), ClaimMode::Never).await.unwrap();
    }
    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    let stored: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM satchel.inbox").fetch_one(&pool).await.unwrap();
    assert_eq!(stored, 4, "all have the same");
}

/// Catches: a process that waits while another one creates the schema, and takes that for an older one in use.
#[tokio::test]
async fn processes_that_start_together_create_one_schema() {
    for _ in 0..10 {
        let Some(database) = required(TestDatabase::create().await) else { return };
        let url = database.url();
        for ledger in join_all((0..4).map(|_| try_connect(&url))).await {
            ledger.unwrap();
        }
    }
}

#[tokio::test]
async fn schema_of_others_is_left_alone() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    sqlx::raw_sql("CREATE TABLE lanes (swimmer TEXT)").execute(&pool).await.unwrap();
    let (error, text) = refused(&database.url()).await;
    assert!(matches!(error, ConnectError::Foreign { .. }) && text.contains("other tables"), "{error:?}");
    let tables: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM pg_tables WHERE schemaname = current_schema()")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(tables, 1, "nothing was changed");
}

#[tokio::test]
async fn newer_schema_is_refused() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    drop(connect(&database).await);
    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    sqlx::raw_sql("UPDATE schema_version SET version = 99").execute(&pool).await.unwrap();
    let (error, text) = refused(&database.url()).await;
    assert!(matches!(error, ConnectError::Schema(SchemaMismatch::Newer { found: 99, .. })), "{error:?}");
    assert!(text.contains("version 99") && text.contains("update this Satchel"), "{text}");
}

/// A process that lost its connections while a newer one has converted the schema beside it.
#[tokio::test]
async fn running_process_refuses_a_converted_schema() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let settings = Settings { connect_timeout: Duration::from_secs(2), ..Settings::new(database.url().into()) };
    let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
    let ledger = PostgresLedger::connect(settings, clock, ids).await.unwrap();
    ledger.receive(&message("console:a", "1"), ClaimMode::Never).await.unwrap();
    let end = "UPDATE schema_version SET version = 99; SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE usename = 'ROLE' AND pid <> pg_backend_pid()";
    database.run_as_superuser(&end.replace("ROLE", database.role())).await.unwrap();
    let refused = ledger.receive(&message("console:a", "2"), ClaimMode::Never).await.unwrap_err();
    let LedgerError::Store { source, .. } = &refused else { panic!("{refused:?}") };
    assert!(source.to_string().contains("update this Satchel"), "{source}");
}
