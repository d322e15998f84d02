//! A schema of the shared server, whose clock follows the test's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel_contracts::ledger::LedgerFixture;
use satchel_domain::{ChannelName, Sender, Timestamp};
use satchel_ledger::quota::QuotaRules;
use satchel_ledger_postgres::{PostgresLedger, Settings, VerbSettings};
use satchel_local::UuidV7;
use satchel_ports::{
    Clock, ManualClock,
    intercept::{Hook, Intercepted},
    ledger::{Ledger, LedgerError, Quotas},
};
use satchel_servers::postgres::TestDatabase;
use sqlx::PgPool;

/// Makes the database's clock one that a test sets.
const MANUAL_CLOCK: &str = "
    CREATE TABLE IF NOT EXISTS manual_clock (now BIGINT NOT NULL);
    INSERT INTO manual_clock SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM manual_clock);
    CREATE OR REPLACE FUNCTION ledger_now() RETURNS BIGINT LANGUAGE SQL STABLE AS 'SELECT now FROM manual_clock'";

pub(crate) struct Store {
    pub(crate) database: TestDatabase,
    pub(crate) clock: Arc<ManualClock>,
}

impl Store {
    /// A schema that nobody else uses. The error is what a test would need.
    pub(crate) async fn new() -> Result<Self, String> {
        let database = TestDatabase::create().await?;
        Ok(Self { database, clock: Arc::new(ManualClock::at(Timestamp(1_700_000_000_000))) })
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings::new(self.database.url().into())
    }

    pub(crate) async fn open_with(&self, settings: Settings) -> Ledger {
        let clock = Arc::clone(&self.clock);
        let ledger = PostgresLedger::connect(settings, clock, Arc::new(UuidV7)).await.unwrap();
        let pool = PgPool::connect_lazy(&self.database.url()).unwrap();
        sqlx::raw_sql(MANUAL_CLOCK).execute(&pool).await.unwrap();
        let hook = DatabaseClock { clock: Arc::clone(&self.clock), pool, stored: AtomicI64::default() };
        Arc::new(Intercepted { inner: Arc::new(ledger), hook }).into()
    }
}

/// Sets the database's clock before each verb.
struct DatabaseClock {
    clock: Arc<ManualClock>,
    pool: PgPool,
    stored: AtomicI64,
}

#[async_trait]
impl Hook for DatabaseClock {
    type Passage = ();

    async fn before_call(&self, _: &'static str) -> Result<(), LedgerError> {
        let now = self.clock.now().0;
        if self.stored.swap(now, Ordering::Relaxed) != now {
            sqlx::query("UPDATE manual_clock SET now = $1").bind(now).execute(&self.pool).await.unwrap();
        }
        Ok(())
    }

    fn after_call(&self, _: &'static str, (): ()) {}
}

#[async_trait]
impl LedgerFixture for Store {
    async fn open(&self) -> Ledger {
        self.open_with(self.settings()).await
    }

    async fn open_with_quotas(&self, conversation: u64, person: u64) -> Ledger {
        let is_owner = Arc::new(|_: &ChannelName, sender: &Sender| sender.id == "owner");
        let quotas = QuotaRules { quotas: Quotas { conversation, person }, is_owner };
        self.open_with(Settings { verbs: VerbSettings { quotas, ..VerbSettings::default() }, ..self.settings() }).await
    }

    fn after_death(&self) {
        self.clock.advance(self.lease());
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn lease(&self) -> Duration {
        self.settings().verbs.lease
    }
}
