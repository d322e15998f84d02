//! A ledger is moved between SQLite and PostgreSQL: every column of every table, with its numbers, or nothing.

mod rows;

use std::{path::Path, sync::Arc, time::Duration};

use satchel_ledger::transfer::{ExclusiveLedger, TABLES, TransferError, UNMOVED_TABLES, copy_rows, digest};
use satchel_ledger_postgres::{
    ConnectError, DatabaseInspection, ExclusivePostgres, PostgresLedger, SchemaMismatch, Settings,
};
use satchel_ledger_sqlite::{ExclusiveSqlite, OpenError, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;
use satchel_wait::wait_until_async;
use sqlx::PgPool;
use tempfile::TempDir;

use self::rows::sample_rows;
use crate::connect;

/// The number of a row that is gone, behind all that are there.
const LAST_AUDIT: i64 = 90;

async fn lock_sqlite(directory: &Path) -> Result<ExclusiveSqlite, OpenError> {
    SqliteLedger::open_exclusive(directory, Arc::new(UuidV7)).await
}

async fn lock_postgres(database: &TestDatabase) -> Result<ExclusivePostgres, ConnectError> {
    PostgresLedger::open_exclusive(&Settings::new(database.url().into())).await
}

/// Fills the ledger of a directory with rows in which no column is NULL throughout.
async fn fill(directory: &Path) {
    let mut ledger = lock_sqlite(directory).await.unwrap();
    for (name, rows) in sample_rows() {
        let table = ledger.table(name).await.unwrap();
        let mut columns: Vec<_> = rows[0].iter().map(|(column, _)| (*column).to_owned()).collect();
        columns.sort();
        assert_eq!(columns, table.columns, "the columns of {name}");
        let rows = rows.into_iter().map(|mut row| {
            row.sort_by_key(|(column, _)| *column);
            row.into_iter().map(|(_, value)| value).collect()
        });
        ledger.insert(&table, rows.collect()).await.unwrap();
    }
    // The last rows are gone.
    ledger.set_counters([("audit".to_owned(), LAST_AUDIT)].into()).await.unwrap();
    ledger.publish("nowhere").await.unwrap();
    Box::new(ledger).activate().await.unwrap();
}

/// Copies a filled ledger from a directory, and commits nothing.
async fn copy_filled_ledger(database: &TestDatabase) -> (TempDir, ExclusiveSqlite, ExclusivePostgres) {
    let old = tempfile::tempdir().unwrap();
    fill(old.path()).await;
    let mut source = lock_sqlite(old.path()).await.unwrap();
    let mut target = lock_postgres(database).await.unwrap();
    copy_rows(&mut source, &mut target, &|_| ()).await.unwrap();
    (old, source, target)
}

/// Copies everything and commits.
async fn move_rows(source: &mut dyn ExclusiveLedger, mut target: Box<dyn ExclusiveLedger>) {
    copy_rows(source, &mut *target, &|_| ()).await.unwrap();
    target.publish("elsewhere").await.unwrap();
    target.activate().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_is_equal_after_it_moved_there_and_back() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fill(old.path()).await;
    let mut source = lock_sqlite(old.path()).await.unwrap();
    let original = digest(&mut source, &|_| ()).await.unwrap();
    let blobs = source.list_blobs().await.unwrap();
    assert!(blobs.len() == 3 && blobs.iter().any(|blob| blob.bytes == 7), "{blobs:?}");
    move_rows(&mut source, Box::new(lock_postgres(&database).await.unwrap())).await;

    let mut middle = lock_postgres(&database).await.unwrap();
    assert_eq!(digest(&mut middle, &|_| ()).await.unwrap(), original);
    assert_eq!(middle.list_blobs().await.unwrap(), blobs);
    move_rows(&mut middle, Box::new(lock_sqlite(new.path()).await.unwrap())).await;

    let mut back = lock_sqlite(new.path()).await.unwrap();
    assert_eq!(digest(&mut back, &|_| ()).await.unwrap(), original);
    assert_eq!(back.list_blobs().await.unwrap(), blobs);
    let (counters, expected) = (back.counters().await.unwrap(), source.counters().await.unwrap());
    assert_eq!((counters["audit"], counters), (LAST_AUDIT, expected));
    // What one has added, the others don't see: nothing was committed with it.
    drop(middle);
    let next = PgPool::connect(&database.url()).await.unwrap();
    let sequence: i64 =
        sqlx::query_scalar("SELECT nextval(pg_get_serial_sequence('lanes', 'id'))").fetch_one(&next).await.unwrap();
    assert_eq!(sequence, 3, "it goes on behind the last lane, which SQLite doesn't count");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_opens_once_it_is_activated() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let (_old, _source, mut target) = copy_filled_ledger(&database).await;
    target.publish("/old").await.unwrap();
    drop(target);
    let settings = Settings::new(database.url().into());
    let refused = PostgresLedger::connect(settings.clone(), Arc::new(SystemClock::new()), Arc::new(UuidV7)).await;
    for error in [refused.unwrap_err(), DatabaseInspection::read(&settings).await.unwrap_err()] {
        let is_unfinished =
            matches!(&error, ConnectError::Schema(SchemaMismatch::Unfinished { origin, .. }) if origin == "/old");
        assert!(is_unfinished, "{error:?}");
    }
    let mut target = lock_postgres(&database).await.unwrap();
    assert_eq!(target.find_origin().await.unwrap().as_deref(), Some("/old"));
    Box::new(target).activate().await.unwrap();
    drop(connect(&database).await);
}

/// Every table is moved, or is known not to be.
#[tokio::test]
async fn no_table_is_left_behind() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    drop(connect(&database).await);
    let pool = PgPool::connect(&database.url()).await.unwrap();
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT tablename::TEXT FROM pg_tables WHERE schemaname = current_schema()")
            .fetch_all(&pool)
            .await
            .unwrap();
    let known: Vec<&str> = TABLES.into_iter().chain(UNMOVED_TABLES).collect();
    let left: Vec<_> = tables.iter().filter(|table| !known.contains(&table.as_str())).collect();
    assert!(tables.len() > 20 && left.is_empty(), "neither in TABLES nor in UNMOVED_TABLES: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_moved_until_all_is_compared_and_committed() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let (_old, mut source, target) = copy_filled_ledger(&database).await;
    drop(target);
    let mut target = lock_postgres(&database).await.unwrap();
    assert_eq!(digest(&mut target, &|_| ()).await.unwrap().rows(), 0, "it was dropped before its commit");

    // A database that stores something else than what it was given.
    drop(target);
    let pool = PgPool::connect(&database.url()).await.unwrap();
    sqlx::raw_sql(
        "CREATE FUNCTION change() RETURNS TRIGGER LANGUAGE plpgsql AS \
         $$ BEGIN NEW.filename := 'another'; RETURN NEW; END $$; \
         CREATE TRIGGER change BEFORE INSERT ON attachments FOR EACH ROW EXECUTE FUNCTION change()",
    )
    .execute(&pool)
    .await
    .unwrap();
    let mut target = lock_postgres(&database).await.unwrap();
    let error = copy_rows(&mut source, &mut target, &|_| ()).await.unwrap_err();
    assert!(matches!(error, TransferError::Differs { table: "attachments" }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_in_use_or_moved_is_refused() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let directory = tempfile::tempdir().unwrap();
    let open = async || {
        let settings = satchel_ledger_sqlite::Settings::default();
        SqliteLedger::open(directory.path(), settings, Arc::new(SystemClock::new()), Arc::new(UuidV7)).await
    };
    let (running, connected) = (open().await.unwrap(), connect(&database).await);
    let error = lock_sqlite(directory.path()).await.err().expect("a process has it open");
    assert!(matches!(error, OpenError::InUse { processes: 1, .. }), "{error:?}");
    let error = lock_postgres(&database).await.err().expect("a process is connected");
    assert!(matches!(error, ConnectError::InUse { processes: 1, .. }), "{error:?}");
    drop(running);
    drop(connected);

    let mut locked = None;
    wait_until_async("the connections are closed", async || {
        locked = lock_postgres(&database).await.ok();
        locked.is_some()
    })
    .await;
    Box::new(locked.expect("it is locked")).retire("file:/elsewhere").await.unwrap();
    let settings = Settings::new(database.url().into());
    let refused = PostgresLedger::connect(settings, Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap_err();
    let is_moved = |error: &ConnectError| matches!(error, ConnectError::Schema(SchemaMismatch::Moved { location, .. }) if location == "file:/elsewhere");
    assert!(is_moved(&refused), "{refused:?}");
    assert!(is_moved(&lock_postgres(&database).await.err().expect("it was moved")));
    Box::new(lock_sqlite(directory.path()).await.unwrap()).retire("postgres://elsewhere/x").await.unwrap();
    for refused in [open().await.err(), lock_sqlite(directory.path()).await.err()] {
        let text = refused.expect("it was moved").to_string();
        assert!(text.contains("was moved to postgres://elsewhere/x"), "{text}");
    }
}

/// It is still connected when the move begins, as a process is for a moment after its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_is_just_ending_is_waited_for() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let ending = connect(&database).await;
    let pool = PgPool::connect(&database.url()).await.unwrap();
    let ends = async {
        wait_until_async("the schema is locked", async || {
            let locks = "SELECT COUNT(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
                         AND relation = 'schema_version'::REGCLASS";
            sqlx::query_scalar::<_, i64>(locks).fetch_one(&pool).await.unwrap() == 1
        })
        .await;
        // The count of the processes has begun.
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(ending);
    };
    let (locked, ()) = tokio::join!(lock_postgres(&database), ends);
    assert!(locked.is_ok(), "{:?}", locked.err());
}
