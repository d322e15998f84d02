//! A database that goes away: what was under way fails as something that a retry may help, or is settled.

use std::{error::Error, sync::Arc, time::Duration};

use satchel_domain::ChannelName;
use satchel_ledger_postgres::{PostgresLedger, Settings};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    Archive, Inbox, Leases, Turns,
    ledger::{ClaimMode, GatewayDuty, GatewayId, Gateways, LedgerError},
};
use satchel_requirements::required;
use satchel_servers::postgres::{PostgresServer, TestDatabase};
use satchel_wait::wait_until_async;
use sqlx::PgPool;

use crate::{
    completed, message,
    proxy::{Cut, Proxy},
};

async fn connect(url: &str, settings: impl FnOnce(Settings) -> Settings) -> PostgresLedger {
    let settings = settings(Settings::new(url.into()));
    PostgresLedger::connect(settings, Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap()
}

/// Counts the verbs that wait for a lock.
async fn count_waiting(pool: &PgPool) -> i64 {
    let query = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn restart_in_mid_transaction_is_retryable() {
    let Some(server) = required(PostgresServer::start_private().await) else { return };
    let database = server.create_database().await.unwrap();
    let ledger =
        connect(&database.url(), |settings| Settings { connect_timeout: Duration::from_secs(2), ..settings }).await;
    let ledger = Arc::new(ledger);
    let received = ledger.receive(&message("console:a", "1"), ClaimMode::IfFree).await.unwrap();
    let lease = received.claimed.unwrap().lease;

    // Its transaction has begun and waits for the lane.
    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    let mut blocking = pool.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM lanes FOR UPDATE").execute(&mut *blocking).await.unwrap();
    let running = tokio::spawn({
        let (ledger, lease) = (Arc::clone(&ledger), lease.clone());
        async move { ledger.complete_turn(&lease, &completed(received.turn, &["reply"])).await }
    });
    wait_until_async("the verb waits for the lane", async || count_waiting(&pool).await == 1).await;
    server.crash().await.unwrap();
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, LedgerError::Store { .. }), "{error:?}");
    assert!(error.source().unwrap().to_string().contains("a retry may help"), "{error:?}");

    server.start().await.unwrap();
    let begun = ledger.complete_turn(&lease, &completed(received.turn, &["reply"])).await.unwrap();
    assert!(begun.is_some(), "nothing of the first time was committed");
    assert_eq!(ledger.turn(received.turn).await.unwrap().unwrap().parts.len(), 1);
}

/// A verb that finds its connection closed, as after a restart that nobody noticed, takes another one.
#[tokio::test]
async fn restart_between_verbs_goes_unnoticed() {
    let Some(server) = required(PostgresServer::start_private().await) else { return };
    let database = server.create_database().await.unwrap();
    let ledger = connect(&database.url(), |settings| settings).await;
    for key in 0..4 {
        ledger.receive(&message("console:a", &key.to_string()), ClaimMode::Never).await.unwrap();
        if key % 2 == 0 {
            server.stop().await.unwrap();
            server.start().await.unwrap();
        }
    }
    ledger.ping().await.unwrap();
}

/// The outcome of a commit whose answer is lost is found by the transaction's number.
#[tokio::test]
async fn lost_answer_of_a_commit_is_settled() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let proxy = Proxy::start(database.port()).await;
    let url = database.url().replace(&format!(":{}/", database.port()), &format!(":{}/", proxy.port));
    let ledger = connect(&url, |settings| settings).await;
    for (key, cut) in [("1", Cut::BehindCommit), ("2", Cut::BeforeCommit)] {
        proxy.cut_once(cut);
        let received = ledger.receive(&message("console:a", key), ClaimMode::Never).await.unwrap();
        assert!(proxy.has_cut(), "{cut:?}");
        assert!(!received.duplicate, "{cut:?}: it was not stored once more");
        let record = ledger.turn(received.turn).await.unwrap().expect("it is stored");
        assert_eq!(record.messages.len(), 1, "{cut:?}");
    }
}

#[tokio::test]
async fn silent_server_ends_a_verb() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let ledger = Arc::new(connect(&database.url(), |settings| settings).await);
    ledger.receive(&message("console:a", "1"), ClaimMode::Never).await.unwrap();
    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    let mut blocking = pool.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM lanes FOR UPDATE").execute(&mut *blocking).await.unwrap();
    let running = tokio::spawn({
        let ledger = Arc::clone(&ledger);
        async move { ledger.receive(&message("console:a", "2"), ClaimMode::Never).await }
    });
    wait_until_async("the verb waits for the lane", async || count_waiting(&pool).await == 1).await;
    tokio::time::pause();
    tokio::time::advance(Settings::new(database.url().into()).verb_timeout).await;
    tokio::time::resume();
    let error = running.await.unwrap().unwrap_err();
    assert!(error.source().unwrap().to_string().contains("didn't answer in time"), "{error:?}");
    blocking.rollback().await.unwrap();
    let received = ledger.receive(&message("console:a", "2"), ClaimMode::Never).await.unwrap();
    assert!(!received.duplicate, "nothing of it was stored");
}

/// Verbs that wait have all connections; a lease is renewed all the same, and so is not lost.
#[tokio::test]
async fn leases_are_renewed_while_slow_verbs_have_all_connections() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let ledger = Arc::new(connect(&database.url(), |settings| Settings { max_connections: 2, ..settings }).await);
    let received = ledger.receive(&message("console:a", "1"), ClaimMode::IfFree).await.unwrap();
    let lease = received.claimed.unwrap().lease;
    let telegram = GatewayId { channel: ChannelName::new("telegram").unwrap(), duty: GatewayDuty::Receive };
    let gateway = ledger.claim_gateway(&telegram).await.unwrap().expect("it is free");
    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    let mut blocking = pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE inbox").execute(&mut *blocking).await.unwrap();
    let slow = ["b", "c"].map(|name| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move { ledger.receive(&message(&format!("console:{name}"), "1"), ClaimMode::Never).await })
    });
    wait_until_async("all connections wait", async || count_waiting(&pool).await == 2).await;
    assert_eq!(ledger.renew(std::slice::from_ref(&lease)).await.unwrap(), [], "no lease is lost");
    assert!(ledger.renew_gateway(&gateway).await.unwrap(), "it is still this process's");
    assert!(slow.iter().all(|verb| !verb.is_finished()));
    blocking.rollback().await.unwrap();
    for verb in slow {
        verb.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn full_database_is_reported_and_recoverable() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let ledger = connect(&database.url(), |settings| settings).await;
    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    // What the server says when its disk is full.
    let full = "CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS \
                    $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$; \
                CREATE TRIGGER refuse BEFORE INSERT ON inbox EXECUTE FUNCTION refuse()";
    sqlx::raw_sql(full).execute(&pool).await.unwrap();
    let error = ledger.receive(&message("console:a", "1"), ClaimMode::Never).await.unwrap_err();
    assert!(matches!(error, LedgerError::Full), "{error:?}");
    sqlx::raw_sql("DROP TRIGGER refuse ON inbox").execute(&pool).await.unwrap();
    let received = ledger.receive(&message("console:a", "1"), ClaimMode::Never).await.unwrap();
    assert!(!received.duplicate, "nothing of the failed one was kept");
}
