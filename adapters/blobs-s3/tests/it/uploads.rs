//! What uploads in parts leave, and what puts and sweeps of several machines do to each other.

use std::{io, time::Duration};

use futures::{StreamExt, stream};
use satchel_ports::{BlobError, Blobs};
use satchel_requirements::required;
use satchel_wait::wait_until_async;
use tokio::sync::mpsc;
use uuid::{NoContext, Timestamp, Uuid};

use crate::stage::{PREFIX, Stage, chunks, open, put, read};

#[tokio::test]
async fn large_blob_is_uploaded_in_parts() {
    let Some(stage) = required(Stage::start().await) else { return };
    // 12.5 MiB: two full parts and a rest.
    let stored = put(&stage.blobs, chunks(200)).await.unwrap();
    assert_eq!(stored.bytes, 200 * 64 * 1024);
    assert_eq!(read(&stage.blobs, &stored.sha256).await.unwrap().len(), 200 * 64 * 1024);
    assert_eq!(stage.bucket.count_leftovers().await, 0, "its parts are one object, under its address");
    // Full parts alone.
    let stored = put(&stage.blobs, chunks(160)).await.unwrap();
    assert_eq!(read(&stage.blobs, &stored.sha256).await.unwrap().len(), 160 * 64 * 1024);
}

#[tokio::test]
async fn broken_upload_leaves_no_parts() {
    let Some(stage) = required(Stage::start().await) else { return };
    let broken = chunks(200).chain(stream::iter([Err(io::Error::other("connection reset"))]));
    let error = put(&stage.blobs, broken.boxed()).await.unwrap_err();
    assert!(matches!(error, BlobError::Source(_)), "{error:?}");
    assert_eq!(stage.bucket.count_leftovers().await, 0);
    assert!(stage.bucket.keys("blobs").await.is_empty());
}

#[tokio::test]
async fn dropped_upload_leaves_no_parts() {
    let Some(stage) = required(Stage::start().await) else { return };
    let (drop_sender, mut dropped) = mpsc::channel::<()>(1);
    let stalled = chunks(200).chain(stream::pending().map(move |()| {
        let _alive = &drop_sender;
        Err(io::ErrorKind::Other.into())
    }));
    let blobs = stage.blobs.clone();
    let upload = tokio::spawn(async move { put(&blobs, stalled.boxed()).await });
    wait_until_async("parts are on their way", async || stage.bucket.count_multiparts().await == 1).await;
    upload.abort();
    assert_eq!(dropped.recv().await, None, "the put is dropped with its stream");
    wait_until_async("the upload is ended", async || stage.bucket.count_leftovers().await == 0).await;
    assert!(stage.bucket.keys("blobs").await.is_empty());
}

#[tokio::test]
async fn sweep_ends_uploads_of_dead_processes() {
    let Some(stage) = required(Stage::start().await) else { return };
    let name = |age: Duration| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Uuid::new_v7(Timestamp::from_unix(NoContext, (now - age).as_secs(), 0)).to_string()
    };
    let (day, hour) = (Duration::from_secs(25 * 60 * 60), Duration::from_secs(60 * 60));
    for age in [day, hour] {
        stage.bucket.abandon_upload(&name(age)).await;
        stage.bucket.put_incoming(&name(age)).await;
    }
    assert_eq!(stage.bucket.count_leftovers().await, 4);
    stage.blobs.sweep().await.unwrap();
    assert_eq!(stage.bucket.count_multiparts().await, 1, "that of an hour ago may be under way");
    assert_eq!(stage.bucket.keys("incoming").await.len(), 1, "so may that object");
}

#[tokio::test]
async fn put_of_another_machine_survives_sweep() {
    let Some(stage) = required(Stage::start().await) else { return };
    let other = open(&stage.server.url(PREFIX));
    let stored = put(&stage.blobs, chunks(1)).await.unwrap();
    stage.blobs.mark(&[stored.sha256], Duration::ZERO).await.unwrap();
    assert_eq!(put(&other, chunks(1)).await.unwrap(), stored);
    assert_eq!(stage.blobs.sweep().await.unwrap(), 0);
    assert_eq!(read(&other, &stored.sha256).await.unwrap().len(), 64 * 1024);
    assert_eq!(stage.bucket.keys("blobs").await.len(), 1, "the newer object has replaced the older one");
    assert!(stage.bucket.keys("marked").await.is_empty(), "the mark is gone");
}

#[tokio::test]
async fn prefixes_share_nothing() {
    let Some(stage) = required(Stage::start().await) else { return };
    let longer = open(&stage.server.url(&format!("{PREFIX}-2")));
    let whole = open(&stage.server.url(""));
    let stored = put(&stage.blobs, chunks(1)).await.unwrap();
    for other in [longer, whole] {
        assert!(matches!(other.open(&stored.sha256, None).await.err(), Some(BlobError::Missing(_))));
        assert_eq!(other.list_stale(Duration::ZERO).await.unwrap(), []);
        let own = put(&other, chunks(2)).await.unwrap();
        assert_eq!(read(&other, &own.sha256).await.unwrap().len(), 2 * 64 * 1024);
    }
}
