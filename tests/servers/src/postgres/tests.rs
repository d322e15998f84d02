//! The shared server is one for all, and a private one comes back with its data.

use satchel_requirements::required;

use super::*;

#[tokio::test]
async fn tests_share_one_server_and_no_schema() {
    let Some(one) = required(TestDatabase::create().await) else { return };
    let two = TestDatabase::create().await.unwrap();
    assert_eq!(one.port(), two.port());
    one.run_as_superuser("CREATE TABLE words (word TEXT)").await.unwrap();
    two.run_as_superuser("CREATE TABLE words (word TEXT)").await.unwrap();
    let again = one.run_as_superuser("CREATE TABLE words (word TEXT)").await.unwrap_err();
    assert!(again.contains("already exists"), "{again}");
}

#[tokio::test]
async fn private_server_restarts_with_its_data() {
    let Some(server) = required(PostgresServer::start_private().await) else { return };
    let database = server.create_database().await.unwrap();
    database.run_as_superuser("CREATE TABLE words (word TEXT)").await.unwrap();
    server.crash().await.unwrap();
    assert!(database.run_as_superuser("SELECT 1").await.is_err(), "it is stopped");
    server.start().await.unwrap();
    database.run_as_superuser("SELECT * FROM words").await.unwrap();
    server.stop().await.unwrap();
    server.start().await.unwrap();
    database.run_as_superuser("SELECT * FROM words").await.unwrap();
}
