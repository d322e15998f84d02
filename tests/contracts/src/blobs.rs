//! The promises of [`Blobs`], one function each; [`blobs_contract!`](crate::blobs_contract) runs them all.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, future::join_all, stream};
use satchel_domain::{Filename, Sha256};
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream, StoredBlob};
pub use satchel_requirements::required;

/// A store for one test, and how a test damages it.
#[async_trait]
pub trait BlobsFixture: Send + Sync + Sized {
    /// Makes an empty store, or says what a test would need.
    async fn new() -> Result<Self, String>;

    fn blobs(&self) -> Arc<dyn Blobs>;

    /// How finely the store knows when a blob was put.
    fn time_resolution(&self) -> Duration {
        Duration::ZERO
    }

    /// Opens the same data again, as the next start does.
    async fn restart(self) -> Self;

    /// Counts temporary files or unfinished uploads.
    async fn count_leftovers(&self) -> usize;

    /// Changes one byte of a stored blob and keeps its length.
    async fn damage(&self, sha256: &Sha256);

    /// Cuts the last byte off a stored blob.
    async fn truncate(&self, sha256: &Sha256);
}

/// Runs every promise of [`Blobs`] against a [`BlobsFixture`].
#[macro_export]
macro_rules! blobs_contract {
    ($fixture:ty) => {
        $crate::blobs_contract!(@each $fixture:
            open_returns_put_bytes
            put_returns_digest
            empty_blob_is_stored
            blob_survives_restart
            concurrent_equal_puts_store_once
            failed_put_leaves_nothing
            dropped_put_leaves_nothing
            put_holds_few_buffers
            put_over_limit_fails_at_once
            put_at_limit_succeeds
            damaged_blob_read_fails
            truncated_blob_read_fails
            put_repairs_damaged_blob
            range_is_clamped
            missing_blob_is_not_found
            fresh_blob_is_not_stale
            put_after_listing_prevents_sweep
            put_clears_gc_mark
            sweep_removes_only_marked_blobs
            marking_missing_blob_is_noop
            concurrent_puts_and_sweeps_lose_nothing
            mime_type_is_detected_from_bytes
        );
    };
    (@each $fixture:ty: $($promise:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let fixture = <$fixture as $crate::blobs::BlobsFixture>::new().await;
                let Some(fixture) = $crate::blobs::required(fixture) else { return };
                $crate::blobs::$promise(fixture).await;
            }
        )*
    };
}

/// Mutation: buffers are written twice, not at all, or in the wrong order when a blob is longer than one.
pub async fn open_returns_put_bytes(fixture: impl BlobsFixture) {
    for length in [1, 4_095, 262_144, 262_145, 524_287, 524_288, 524_289, 1_048_576, 3_000_000] {
        let content = pattern(length);
        let stored = put(&fixture, chunk_stream(&content, 70_001)).await.unwrap();
        assert_eq!(stored.bytes, length as u64);
        assert_eq!(read(&fixture, &stored.sha256).await.unwrap(), content, "{length} bytes");
    }
}

/// Mutation: the digest is taken of something else than the bytes, such as of each buffer alone.
pub async fn put_returns_digest(fixture: impl BlobsFixture) {
    let stored = put(&fixture, chunk_stream(b"hello", 2)).await.unwrap();
    assert_eq!(stored.sha256.to_string(), "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
}

/// Mutation: an empty stream is taken for one that failed.
pub async fn empty_blob_is_stored(fixture: impl BlobsFixture) {
    let stored = put(&fixture, chunk_stream(b"", 1)).await.unwrap();
    assert_eq!(stored.sha256.to_string(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!((stored.bytes, read(&fixture, &stored.sha256).await.unwrap()), (0, Vec::new()));
}

/// Mutation: blobs are kept in memory, or a start throws them away with the leftovers.
pub async fn blob_survives_restart(fixture: impl BlobsFixture) {
    let stored = put(&fixture, chunk_stream(b"kept", 4)).await.unwrap();
    let fixture = fixture.restart().await;
    assert_eq!(read(&fixture, &stored.sha256).await.unwrap(), b"kept");
}

/// Mutation: all puts of one address share a temporary file, or the second publication fails because the name is taken.
pub async fn concurrent_equal_puts_store_once(fixture: impl BlobsFixture) {
    let content = pattern(600_000);
    let puts = (1..=8).map(|n| put(&fixture, chunk_stream(&content, n * 10_007)));
    let stored: Vec<StoredBlob> = join_all(puts).await.into_iter().map(Result::unwrap).collect();
    assert!(stored.iter().all(|blob| *blob == stored[0]));
    assert_eq!(fixture.blobs().list_stale(Duration::ZERO).await.unwrap(), [stored[0].sha256]);
    assert_eq!(read(&fixture, &stored[0].sha256).await.unwrap(), content);
    assert_eq!(fixture.count_leftovers().await, 0);
}

/// Mutation: the bytes that came before the error are published, or their temporary file stays.
pub async fn failed_put_leaves_nothing(fixture: impl BlobsFixture) {
    let broken =
        chunk_stream(&pattern(700_000), 50_000).chain(stream::iter([Err(io::Error::other("connection reset"))]));
    match put(&fixture, broken.boxed()).await {
        Err(BlobError::Source(error)) => assert_eq!(error.to_string(), "connection reset"),
        other => panic!("{other:?}"),
    }
    assert_nothing_stored(&fixture).await;
    assert_eq!(fixture.count_leftovers().await, 0);
}

/// Mutation: a dropped put goes on in the background and publishes what it has.
pub async fn dropped_put_leaves_nothing(fixture: impl BlobsFixture) {
    let endless = chunk_stream(&pattern(700_000), 50_000).chain(stream::pending());
    let dropped = tokio::time::timeout(Duration::from_millis(100), put(&fixture, endless.boxed())).await;
    assert!(dropped.is_err());
    assert_nothing_stored(&fixture).await;
    let fixture = fixture.restart().await;
    assert_nothing_stored(&fixture).await;
    assert_eq!(fixture.count_leftovers().await, 0);
}

/// Mutation: the stream is collected before it is written.
pub async fn put_holds_few_buffers(fixture: impl BlobsFixture) {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct CountedBuffer(Vec<u8>);
    impl AsRef<[u8]> for CountedBuffer {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for CountedBuffer {
        fn drop(&mut self) {
            ALIVE.fetch_sub(self.0.len(), Ordering::SeqCst);
        }
    }
    let max_alive = Arc::new(AtomicUsize::new(0));
    let shared_max = Arc::clone(&max_alive);
    let content = stream::iter(0..512).map(move |_| {
        let piece = CountedBuffer(vec![7; 64 * 1024]);
        let alive = ALIVE.fetch_add(piece.0.len(), Ordering::SeqCst) + piece.0.len();
        shared_max.fetch_max(alive, Ordering::SeqCst);
        Ok(Bytes::from_owner(piece))
    });
    assert_eq!(put(&fixture, content.boxed()).await.unwrap().bytes, 32 * 1024 * 1024);
    assert!(max_alive.load(Ordering::SeqCst) <= 8 * 1024 * 1024, "{} bytes at once", max_alive.load(Ordering::SeqCst));
}

/// Mutation: the size is checked at the end, so that an endless stream fills the disk.
pub async fn put_over_limit_fails_at_once(fixture: impl BlobsFixture) {
    let polls = Arc::new(AtomicUsize::new(0));
    let shared_polls = Arc::clone(&polls);
    let endless = stream::repeat_with(move || {
        shared_polls.fetch_add(1, Ordering::SeqCst);
        Ok(Bytes::from_static(&[1; 1000]))
    });
    let refused = fixture.blobs().put(endless.boxed(), &BlobHint::default(), 5_999).await;
    assert!(matches!(refused, Err(BlobError::TooLarge { limit: 5_999 })), "{refused:?}");
    assert_eq!(polls.load(Ordering::SeqCst), 6, "nothing is read beyond the first byte too many");
    assert_nothing_stored(&fixture).await;
    assert_eq!(fixture.count_leftovers().await, 0);
}

/// Mutation: `<` where `<=` is meant.
pub async fn put_at_limit_succeeds(fixture: impl BlobsFixture) {
    let stored = fixture.blobs().put(chunk_stream(&pattern(6_000), 1_000), &BlobHint::default(), 6_000).await.unwrap();
    assert_eq!(stored.bytes, 6_000);
}

/// Mutation: the digest isn't checked, or checked after the last bytes were given out.
pub async fn damaged_blob_read_fails(fixture: impl BlobsFixture) {
    for length in [3, 1_000_000] {
        let stored = put(&fixture, chunk_stream(&pattern(length), 100_000)).await.unwrap();
        fixture.damage(&stored.sha256).await;
        let mut stream = fixture.blobs().open(&stored.sha256, None).await.unwrap();
        let mut read_bytes = 0;
        let error = loop {
            match stream.next().await {
                Some(Ok(bytes)) => read_bytes += bytes.len(),
                Some(Err(error)) => break error,
                None => panic!("{length} damaged bytes were given out as if they were right"),
            }
        };
        assert!(read_bytes < length, "all {length} bytes were given out before the error");
        assert!(error.to_string().contains("damaged"), "{error}");
        assert!(stream.next().await.is_none(), "the stream ends with the error");
    }
}

/// Mutation: the end of the file is taken for the end of the blob.
pub async fn truncated_blob_read_fails(fixture: impl BlobsFixture) {
    let stored = put(&fixture, chunk_stream(&pattern(300_000), 100_000)).await.unwrap();
    fixture.truncate(&stored.sha256).await;
    let error = read(&fixture, &stored.sha256).await.unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");

    let stored = put(&fixture, chunk_stream(&pattern(5_000_000), 100_000)).await.unwrap();
    let mut stream = fixture.blobs().open(&stored.sha256, None).await.unwrap();
    fixture.truncate(&stored.sha256).await;
    let mut read_bytes = 0;
    loop {
        match stream.next().await {
            Some(Ok(bytes)) => read_bytes += bytes.len(),
            // A store may go on giving out what it had when it was opened.
            None => {
                break assert_eq!(read_bytes, 5_000_000, "a blob that is cut off while it is read does not just end");
            }
            Some(Err(error)) => break assert!(error.to_string().contains("damaged"), "{error}"),
        }
    }
    assert!(stream.next().await.is_none(), "the stream ends with the error");
}

/// Mutation: a put leaves what is stored at its address, whatever that is.
pub async fn put_repairs_damaged_blob(fixture: impl BlobsFixture) {
    let content = pattern(1_000);
    let stored = put(&fixture, chunk_stream(&content, 1_000)).await.unwrap();
    fixture.damage(&stored.sha256).await;
    put(&fixture, chunk_stream(&content, 1_000)).await.unwrap();
    assert_eq!(read(&fixture, &stored.sha256).await.unwrap(), content);
}

/// Mutation: a range beyond the end is an error, a panic or an endless read.
pub async fn range_is_clamped(fixture: impl BlobsFixture) {
    let content = pattern(1_600_000);
    let stored = put(&fixture, chunk_stream(&content, 100_000)).await.unwrap();
    for (range, expected) in [
        (0..10, &content[..10]),
        (262_140..262_150, &content[262_140..262_150]),
        (100_000..1_500_000, &content[100_000..1_500_000]),
        (1_599_990..u64::MAX, &content[1_599_990..]),
        (0..u64::MAX, &content[..]),
        (1_600_000..1_600_001, &[]),
        (7_000_000..8_000_000, &[]),
        (5..5, &[]),
    ] {
        let stream = fixture.blobs().open(&stored.sha256, Some(range.clone())).await.unwrap();
        assert_eq!(collect(stream).await.unwrap(), expected, "{range:?}");
    }
}

/// Mutation: a missing blob opens as an empty one.
pub async fn missing_blob_is_not_found(fixture: impl BlobsFixture) {
    let missing = Sha256([7; 32]);
    let opened = fixture.blobs().open(&missing, None).await;
    assert!(matches!(opened.err(), Some(BlobError::Missing(sha256)) if sha256 == missing));
}

/// Mutation: the grace is ignored.
pub async fn fresh_blob_is_not_stale(fixture: impl BlobsFixture) {
    let stored = put(&fixture, chunk_stream(b"fresh", 5)).await.unwrap();
    let blobs = fixture.blobs();
    assert_eq!(blobs.list_stale(Duration::from_secs(3600)).await.unwrap(), []);
    assert_eq!(blobs.list_stale(Duration::ZERO).await.unwrap(), [stored.sha256]);
}

/// Mutation: `mark` believes the list that `stale` gave, though a put came in between.
pub async fn put_after_listing_prevents_sweep(fixture: impl BlobsFixture) {
    let stored = put(&fixture, chunk_stream(b"again", 5)).await.unwrap();
    let grace = Duration::from_millis(500) + 2 * fixture.time_resolution();
    // Older than the grace, by the clock of whoever keeps it.
    tokio::time::sleep(grace + fixture.time_resolution() + Duration::from_millis(100)).await;
    let blobs = fixture.blobs();
    assert_eq!(blobs.list_stale(grace).await.unwrap(), [stored.sha256]);
    put(&fixture, chunk_stream(b"again", 5)).await.unwrap();
    blobs.mark(&[stored.sha256], grace).await.unwrap();
    assert_eq!(blobs.sweep().await.unwrap(), 0);
    assert_eq!(read(&fixture, &stored.sha256).await.unwrap(), b"again");
}

/// Mutation: a put of known bytes is answered from the directory and leaves the mark.
pub async fn put_clears_gc_mark(fixture: impl BlobsFixture) {
    let blobs = fixture.blobs();
    let stored = put(&fixture, chunk_stream(b"marked", 6)).await.unwrap();
    blobs.mark(&[stored.sha256], Duration::ZERO).await.unwrap();
    assert_eq!(put(&fixture, chunk_stream(b"marked", 6)).await.unwrap(), stored);
    assert_eq!(blobs.sweep().await.unwrap(), 0);
    assert_eq!(read(&fixture, &stored.sha256).await.unwrap(), b"marked");
}

/// Mutation: everything that is stale is swept, or nothing.
pub async fn sweep_removes_only_marked_blobs(fixture: impl BlobsFixture) {
    let blobs = fixture.blobs();
    let goes = put(&fixture, chunk_stream(b"goes", 4)).await.unwrap();
    let stays = put(&fixture, chunk_stream(b"stays", 5)).await.unwrap();
    blobs.mark(&[goes.sha256], Duration::ZERO).await.unwrap();
    assert_eq!(blobs.sweep().await.unwrap(), 4);
    assert!(matches!(blobs.open(&goes.sha256, None).await.err(), Some(BlobError::Missing(_))));
    assert_eq!(read(&fixture, &stays.sha256).await.unwrap(), b"stays");
    assert_eq!(blobs.sweep().await.unwrap(), 0);
    put(&fixture, chunk_stream(b"goes", 4)).await.unwrap();
    assert_eq!(blobs.sweep().await.unwrap(), 0, "a mark goes with its blob");
    assert_eq!(read(&fixture, &goes.sha256).await.unwrap(), b"goes");
}

/// Mutation: a mark waits for bytes that come later.
pub async fn marking_missing_blob_is_noop(fixture: impl BlobsFixture) {
    let blobs = fixture.blobs();
    let sha256: Sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824".parse().unwrap();
    blobs.mark(&[sha256], Duration::ZERO).await.unwrap();
    put(&fixture, chunk_stream(b"hello", 5)).await.unwrap();
    assert_eq!(blobs.sweep().await.unwrap(), 0);
    assert_eq!(read(&fixture, &sha256).await.unwrap(), b"hello");
}

/// Mutation: the sweep removes without the lock under which puts publish.
pub async fn concurrent_puts_and_sweeps_lose_nothing(fixture: impl BlobsFixture) {
    let blobs = fixture.blobs();
    let sweeper = tokio::spawn({
        let blobs = Arc::clone(&blobs);
        async move {
            loop {
                blobs.sweep().await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
    for round in 0..60 {
        let stored = put(&fixture, chunk_stream(b"contended", 9)).await.unwrap();
        let marked = blobs.mark(std::slice::from_ref(&stored.sha256), Duration::ZERO);
        let (marked, again) = tokio::join!(marked, put(&fixture, chunk_stream(b"contended", 9)));
        marked.unwrap();
        again.unwrap();
        // The mark may have come after the second put; a third one is certain to come after the mark.
        put(&fixture, chunk_stream(b"contended", 9)).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(read(&fixture, &stored.sha256).await.unwrap(), b"contended", "round {round}");
    }
    sweeper.abort();
}

/// Mutation: the claimed name or type is believed.
pub async fn mime_type_is_detected_from_bytes(fixture: impl BlobsFixture) {
    let gif: &[u8] = b"GIF89a\x03\0\x02\0\0\0\0;";
    let hint = BlobHint {
        filename: Some(Filename::from_untrusted("x.txt")),
        mime: Some("text/plain".to_owned()),
        bytes: None,
    };
    let stored = fixture.blobs().put(chunk_stream(gif, 5), &hint, 1_000).await.unwrap();
    assert_eq!(stored.mime, "image/gif");
    assert_eq!((stored.media.width, stored.media.height), (Some(3), Some(2)));
}

async fn put(fixture: &impl BlobsFixture, content: ByteStream) -> Result<StoredBlob, BlobError> {
    fixture.blobs().put(content, &BlobHint::default(), 1 << 30).await
}

async fn read(fixture: &impl BlobsFixture, sha256: &Sha256) -> io::Result<Vec<u8>> {
    collect(fixture.blobs().open(sha256, None).await.map_err(io::Error::other)?).await
}

async fn collect(mut stream: ByteStream) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(bytes) = stream.next().await {
        all.extend_from_slice(&bytes?);
    }
    Ok(all)
}

async fn assert_nothing_stored(fixture: &impl BlobsFixture) {
    assert_eq!(fixture.blobs().list_stale(Duration::ZERO).await.unwrap(), []);
}

/// Bytes in which no two buffers are alike.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

fn chunk_stream(content: &[u8], size: usize) -> ByteStream {
    let chunks: Vec<io::Result<Bytes>> = content.chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    stream::iter(chunks).boxed()
}
