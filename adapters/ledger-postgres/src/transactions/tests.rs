//! What becomes of a verb that doesn't come to its end.

use satchel_domain::{InboundMessage, Sender};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{Inbox, ledger::ClaimMode};
use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;
use tokio::sync::Notify;

use satchel_ledger_sql::{Session, params};

use super::*;
use crate::{Settings, lanes};

async fn connect(database: &TestDatabase) -> PostgresLedger {
    let settings = Settings { verb_timeout: Duration::from_secs(60), ..Settings::new(database.url().into()) };
    PostgresLedger::connect(settings, Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap()
}

fn message(key: &str) -> InboundMessage {
    InboundMessage::new("console:a".parse().unwrap(), key.to_owned(), Sender::new("7", "Ada"))
}

/// As by SIGSTOP, or where a machine is cut off. The server ends its transaction, and it finds that out.
#[tokio::test]
async fn process_stopped_in_a_verb_frees_its_lane() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let (stopped, other) = (Arc::new(connect(&database).await), connect(&database).await);
    stopped.receive(&message("1"), ClaimMode::Never).await.unwrap();
    let (locked, continued) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let running = tokio::spawn({
        let (ledger, locked, continued) = (Arc::clone(&stopped), Arc::clone(&locked), Arc::clone(&continued));
        async move {
            let conversation = message("").conversation;
            let verb = |db: Arc<Database>| {
                let (conversation, locked, continued) = (&conversation, &locked, &continued);
                async move {
                    lanes::find(&db, conversation).await?;
                    locked.notify_one();
                    continued.notified().await;
                    db.run("UPDATE turns SET crashes = 99", params![]).await
                }
            };
            ledger.attempt(VerbKind::Write, &verb).await
        }
    });
    locked.notified().await;
    let received = other.receive(&message("2"), ClaimMode::IfFree).await.unwrap();
    let turn = received.claimed.expect("the lane is free").turn.expect("one waits");
    continued.notify_one();
    let error = running.await.unwrap().unwrap_err();
    assert!(error.is_lost_connection(), "{error:?}");
    assert_eq!(turn.crashes, 0, "nothing of it was committed");
}

/// A caller that no longer waits, as where a connection to a browser ends.
#[tokio::test]
async fn verb_that_is_dropped_is_rolled_back() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let ledger = connect(&database).await;
    ledger.receive(&message("1"), ClaimMode::Never).await.unwrap();
    let changed = Notify::new();
    let verb = |db: Arc<Database>| {
        let changed = &changed;
        async move {
            db.run("UPDATE turns SET crashes = 99", params![]).await?;
            changed.notify_one();
            std::future::pending::<Result<()>>().await
        }
    };
    tokio::select! {
        _ = ledger.attempt(VerbKind::Write, &verb) => unreachable!("it never ends"),
        () = changed.notified() => {}
    }
    let received = ledger.receive(&message("2"), ClaimMode::IfFree).await.unwrap();
    assert_eq!(received.claimed.expect("the lane is free").turn.expect("one waits").crashes, 0);
}
