//! Where the processes of the crash matrix keep what must last: on the disk, or on servers as several machines share them.

use std::sync::Arc;

use satchel_blobs_s3::{S3Blobs, S3Settings};
use satchel_files::DirectoryBlobs;
use satchel_ledger_postgres::PostgresLedger;
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_ports::{
    Archive, Blobs, Clock, Conversations, Ids, Inbox, Leases, Logins, Outbox, Pairings, Reminders, Storage, Turns,
    intercept::Intercepted,
    ledger::{Gateways, Ledger},
};
use serde::{Deserialize, Serialize};

use super::{CrashOptions, crash_wrapper::CrashHook, points::CrashPoints};

/// Where a process keeps what must last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum StorageOptions {
    /// SQLite and a directory of blobs, in the data directory.
    Disk,
    /// PostgreSQL and a bucket, by their URLs.
    Servers { database_url: String, blobs_url: String },
}

/// An open ledger.
pub(super) struct OpenLedger {
    pub(super) ledger: Ledger,
    /// The same with a crash point before and after each verb.
    pub(super) wrapped: Ledger,
}

impl OpenLedger {
    pub(super) async fn open(
        options: &CrashOptions,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        points: &Arc<CrashPoints>,
    ) -> anyhow::Result<Self> {
        match &options.storage {
            StorageOptions::Disk => {
                let ledger = SqliteLedger::open(&options.data, Settings::default(), clock, ids).await?;
                Ok(Self::new(ledger, points))
            }
            StorageOptions::Servers { database_url, .. } => {
                let settings = satchel_ledger_postgres::Settings::new(database_url.as_str().into());
                Ok(Self::new(PostgresLedger::connect(settings, clock, ids).await?, points))
            }
        }
    }

    fn new<T>(ledger: T, points: &Arc<CrashPoints>) -> Self
    where
        T: Inbox
            + Gateways
            + Leases
            + Turns
            + Outbox
            + Pairings
            + Archive
            + Conversations
            + Reminders
            + Storage
            + Logins
            + 'static,
    {
        let ledger = Arc::new(ledger);
        let wrapped = Intercepted { inner: Arc::clone(&ledger), hook: CrashHook(Arc::clone(points)) };
        Self { ledger: ledger.into(), wrapped: Arc::new(wrapped).into() }
    }
}

/// Opens what holds the bytes of files.
///
/// # Errors
/// When it can't be used.
pub fn open_blobs(options: &CrashOptions) -> anyhow::Result<Arc<dyn Blobs>> {
    Ok(match &options.storage {
        StorageOptions::Disk => Arc::new(DirectoryBlobs::open(&options.data.join("blobs"))?),
        StorageOptions::Servers { blobs_url, .. } => Arc::new(S3Blobs::new(&S3Settings::parse(blobs_url, |_| None)?)?),
    })
}
