//! Garbage collection without locks: a mark names objects, and every put writes a new one.
//!
//! A put that completes before the mark makes the blob too young to be marked; one after it writes an object that the
//! mark doesn't name. So whatever a sweep removes, the newest put stays.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, multipart::MultipartStore, path::Path};
use satchel_domain::Sha256;
use satchel_ports::BlobError;
use uuid::Uuid;

use crate::{
    blobs::{S3Blobs, name_of},
    bucket::{BLOBS, INCOMING, MARKED, ServerTime, time_of},
    error::BucketError,
};

/// How old an unfinished upload is when its process counts as dead: no upload takes so long, and no clock of a machine is
/// wrong by so much.
const UPLOAD_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How many requests of a collection are under way at once.
const CONCURRENCY: usize = 8;

impl S3Blobs {
    pub(crate) async fn list_stale_blobs(&self, grace: Duration) -> Result<Vec<Sha256>, BlobError> {
        let operation = "list the stored files";
        let now = self.server_time(operation).await?;
        let mut newest: BTreeMap<Sha256, ServerTime> = BTreeMap::new();
        let mut objects = self.bucket.store.list(Some(&self.bucket.folder(BLOBS)));
        while let Some(object) = objects.next().await {
            let object = object.map_err(|error| self.bucket.blob_error(operation, &error))?;
            let Some(sha256) = address_of(&object.location) else { continue };
            let time = time_of(&object);
            let entry = newest.entry(sha256).or_insert(time);
            *entry = time.max(*entry);
        }
        Ok(newest.into_iter().filter(|(_, time)| now.since(*time) >= grace).map(|(sha256, _)| sha256).collect())
    }

    /// Marks the objects of blobs of which none was put within the grace.
    pub(crate) async fn mark_blobs(&self, unreferenced: &[Sha256], grace: Duration) -> Result<(), BlobError> {
        if unreferenced.is_empty() {
            return Ok(());
        }
        let now = self.server_time("mark unused files").await?;
        let marks = stream::iter(unreferenced.iter().map(Ok::<_, BlobError>));
        marks.try_for_each_concurrent(CONCURRENCY, |sha256| self.mark_blob(sha256, now, grace)).await
    }

    async fn mark_blob(&self, sha256: &Sha256, now: ServerTime, grace: Duration) -> Result<(), BlobError> {
        let mark_error = |error| self.bucket.blob_error(format!("mark {sha256}"), &error);
        let copies = self.bucket.list_copies(sha256).await.map_err(mark_error)?;
        if copies.iter().any(|copy| now.since(time_of(copy)) < grace) {
            return Ok(());
        }
        for copy in copies {
            let mark = self.bucket.folder(MARKED).join(sha256.to_string()).join(name_of(&copy.location));
            self.bucket.store.put(&mark, PutPayload::new()).await.map_err(mark_error)?;
        }
        Ok(())
    }

    /// Removes the marked objects, and what dead processes have left.
    pub(crate) async fn sweep_marked(&self) -> Result<u64, BlobError> {
        let sweep_error = |error| self.bucket.blob_error("remove unused files", &error);
        let marks: Vec<_> =
            self.bucket.store.list(Some(&self.bucket.folder(MARKED))).try_collect().await.map_err(sweep_error)?;
        let marks = stream::iter(marks).map(|mark| self.sweep_one(mark.location)).buffer_unordered(CONCURRENCY);
        let freed = marks.try_fold(0, |sum, freed| async move { Ok(sum + freed) }).await.map_err(sweep_error)?;
        // What is left of uploads costs room at most; a store without that permission collects its garbage all the same.
        if let Err(error) = self.remove_abandoned().await {
            tracing::warn!(%error, "looking for unfinished uploads failed");
        }
        Ok(freed)
    }

    async fn sweep_one(&self, mark: Path) -> object_store::Result<u64> {
        let freed = match address_of(&mark) {
            None => 0,
            Some(sha256) => {
                let key = self.bucket.blob_folder(&sha256).join(name_of(&mark));
                match self.bucket.store.head(&key).await {
                    // A put has replaced it, or another machine swept it.
                    Err(object_store::Error::NotFound { .. }) => 0,
                    Err(error) => return Err(error),
                    Ok(object) => {
                        self.bucket.delete(&key).await?;
                        object.size
                    }
                }
            }
        };
        self.bucket.delete(&mark).await?;
        Ok(freed)
    }

    /// Removes incoming objects and unfinished uploads that are a day old.
    async fn remove_abandoned(&self) -> Result<(), BucketError> {
        let bucket = &self.bucket;
        let objects = bucket.store.list(Some(&bucket.folder(INCOMING))).map_ok(|object| object.location);
        let objects: Vec<Path> = objects.try_collect().await.map_err(|error| bucket.error(&error))?;
        let uploads = bucket.list_multiparts().await?;
        if objects.is_empty() && uploads.is_empty() {
            return Ok(());
        }
        let now = bucket.server_time().await?;
        let is_abandoned = |key: &Path| start_of(key).is_some_and(|start| now.since(start) >= UPLOAD_TTL);
        for key in objects.iter().filter(|key| is_abandoned(key)) {
            bucket.delete(key).await.map_err(|error| bucket.error(&error))?;
            tracing::info!(%key, "removed an upload of a dead process");
        }
        for (key, id) in uploads.iter().filter(|(key, _)| is_abandoned(key)) {
            bucket.store.abort_multipart(key, id).await.map_err(|error| bucket.error(&error))?;
            tracing::info!(%key, "ended an upload of a dead process");
        }
        Ok(())
    }

    async fn server_time(&self, operation: &str) -> Result<ServerTime, BlobError> {
        let failed = |error: BucketError| BlobError::Store { operation: operation.to_owned(), source: error.into() };
        self.bucket.server_time().await.map_err(failed)
    }
}

/// The address in the key of an object or a mark, which is the part before the last.
fn address_of(key: &Path) -> Option<Sha256> {
    key.as_ref().rsplit('/').nth(1)?.parse().ok()
}

/// When an upload began: its key holds the time of the machine that began it.
fn start_of(key: &Path) -> Option<ServerTime> {
    let time = name_of(key).parse::<Uuid>().ok()?.get_timestamp()?;
    let (seconds, nanoseconds) = time.to_unix();
    Some(ServerTime(i64::try_from(seconds).ok()? * 1000 + i64::from(nanoseconds / 1_000_000)))
}
