//! Encrypted connections: to the server that a known authority vouches for, and to no other.

use std::{error::Error, path::Path, sync::Arc};

use satchel_ledger_postgres::{ConnectError, PostgresLedger, Settings};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{Inbox, ledger::ClaimMode};
use satchel_requirements::required;
use satchel_servers::{
    TestAuthority,
    postgres::{PostgresServer, TestDatabase},
};

use crate::message;

/// A server with TLS and a role on it.
async fn start(authority: &TestAuthority, subject: &str) -> Result<(PostgresServer, TestDatabase), String> {
    let server = PostgresServer::start_private().await?;
    server.turn_on_tls(&authority.issue(subject)?).await?;
    let database = server.create_database().await?;
    database.require_password().await?;
    Ok((server, database))
}

async fn connect(database: &TestDatabase, mode: &str, ca_file: &Path) -> Result<PostgresLedger, ConnectError> {
    let url = format!("{}&sslmode={mode}&sslrootcert={}", database.url(), ca_file.display());
    PostgresLedger::connect(Settings::new(url.into()), Arc::new(SystemClock::new()), Arc::new(UuidV7)).await
}

/// The error and what caused it, as one text; a retry doesn't help.
async fn refused(database: &TestDatabase, mode: &str, ca_file: &Path) -> String {
    let error = connect(database, mode, ca_file).await.expect_err("it is not trusted");
    assert!(matches!(error, ConnectError::Tls { .. }) && !error.is_retryable(), "{error:?}");
    let text = format!("{error}: {}", error.source().expect("a cause"));
    assert!(
        text.starts_with(&format!("no encrypted connection to PostgreSQL at 127.0.0.1:{}", database.port())),
        "{text}"
    );
    assert!(!text.contains("correct-horse"), "{text}");
    text
}

#[tokio::test]
async fn only_the_right_server_of_a_known_authority_is_trusted() {
    let Some(authority) = required(TestAuthority::create()) else { return };
    let Some((_server, database)) = required(start(&authority, "IP:127.0.0.1").await) else { return };
    let known = authority.certificate();
    let ledger = connect(&database, "verify-full", &known).await.unwrap();
    ledger.receive(&message("console:a", "1"), ClaimMode::Never).await.unwrap();
    let encrypted = format!(
        "DO $$ BEGIN IF EXISTS (SELECT 1 FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) \
         WHERE usename = '{}' AND NOT ssl) THEN RAISE 'in the clear'; END IF; END $$",
        database.role()
    );
    database.run_as_superuser(&encrypted).await.expect("each connection is encrypted");

    let other = TestAuthority::create().unwrap();
    assert!(refused(&database, "verify-full", &other.certificate()).await.contains("UnknownIssuer"));
    let missing = known.with_file_name("missing.pem");
    assert!(refused(&database, "verify-full", &missing).await.contains("No such file"));

    // Another host's certificate, which the same authority has issued.
    let Some((_server, database)) = required(start(&authority, "DNS:other.example").await) else { return };
    assert!(refused(&database, "verify-full", &known).await.contains("not valid for name"));
    connect(&database, "verify-ca", &known).await.expect("the host is not compared");
}
