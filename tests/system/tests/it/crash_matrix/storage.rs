//! Where the processes of a run keep what must last: on the disk, or on real servers as several machines share them.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU32, Ordering},
};

use futures::TryStreamExt;
use satchel_domain::Sha256;
use satchel_ports::Blobs;
use satchel_servers::{S3Server, postgres::TestDatabase};
use satchel_system::crash::{
    CrashOptions, CrashReport,
    storage::{StorageOptions, open_blobs},
};
use sha2::Digest;

/// The storage of all runs of a scenario.
#[derive(Debug)]
pub(crate) enum MatrixStorage {
    /// SQLite and a directory.
    Disk,
    /// PostgreSQL, and a bucket of which each run has a prefix.
    Servers { bucket: Box<S3Server>, runs: AtomicU32 },
}

impl MatrixStorage {
    /// Starts the servers. The error is what a test would need.
    pub(crate) async fn start_servers() -> Result<Self, String> {
        Ok(Self::Servers { bucket: Box::new(S3Server::start().await?), runs: AtomicU32::new(0) })
    }

    /// Opens empty storage for a run.
    pub(crate) async fn open(&self) -> RunStorage {
        match self {
            Self::Disk => RunStorage::Disk,
            Self::Servers { bucket, runs } => {
                let database = TestDatabase::create().await.expect("the server that all tests share");
                let blobs_url = bucket.url(&format!("run-{}", runs.fetch_add(1, Ordering::Relaxed)));
                RunStorage::Servers { database, blobs_url }
            }
        }
    }
}

/// The storage of one run.
pub(crate) enum RunStorage {
    Disk,
    Servers { database: TestDatabase, blobs_url: String },
}

impl RunStorage {
    pub(crate) fn options(&self) -> StorageOptions {
        match self {
            Self::Disk => StorageOptions::Disk,
            Self::Servers { database, blobs_url } => {
                StorageOptions::Servers { database_url: database.url(), blobs_url: blobs_url.clone() }
            }
        }
    }

    /// Ends the leases of a process that died. On the disk its lock did it; on PostgreSQL they are ended instead of every
    /// run's waiting for it. The clock stays as it is: an album that is still coming in would be complete by then.
    pub(crate) async fn expire_leases(&self) {
        let Self::Servers { database, .. } = self else { return };
        let ended = database.run_as_superuser("UPDATE lanes SET expires_at = 0").await;
        ended.expect("the processes have created the schema");
    }

    /// Reads the files of a report from the bucket, and returns the digests of what is there.
    pub(crate) async fn read_bucket(&self, options: &CrashOptions, report: &CrashReport) -> BTreeSet<Sha256> {
        let Self::Servers { .. } = self else { return BTreeSet::new() };
        let blobs = open_blobs(options).expect("its processes have used it");
        let mut found = BTreeSet::new();
        for file in report.conversations.iter().flat_map(|conversation| &conversation.attachments) {
            found.extend(read_digest(&*blobs, &file.sha256).await);
        }
        found
    }
}

/// Returns the digest of the bytes at an address; `None` if they can't be read.
async fn read_digest(blobs: &dyn Blobs, address: &Sha256) -> Option<Sha256> {
    let bytes = blobs.open(address, None).await.ok()?;
    let hasher = bytes.try_fold(sha2::Sha256::new(), async |hasher, block| Ok(hasher.chain_update(block)));
    Some(Sha256(hasher.await.ok()?.finalize().into()))
}
