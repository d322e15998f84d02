//! Files flow: whole, watched, and never held.

use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt;
use satchel_domain::Sha256;
use satchel_fake_kit::{Fault, Moment};
use satchel_ports::{BlobError, StoredBlob};

use super::*;

const CREATE: &str = "POST /channels/{}/messages";

/// Blobs that can be made to stop flowing.
struct Slow {
    inner: Arc<MemoryBlobs>,
    /// How many pieces flow, and how long is waited before each; then nothing comes any more.
    pieces: usize,
    wait: Duration,
}

#[async_trait]
impl Blobs for Slow {
    async fn put(&self, content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError> {
        self.inner.put(content, hint, limit).await
    }

    async fn open(&self, sha256: &Sha256, range: Option<std::ops::Range<u64>>) -> Result<ByteStream, BlobError> {
        let content = self.inner.open(sha256, range).await?;
        let (pieces, wait) = (self.pieces, self.wait);
        let slow = content.enumerate().then(move |(number, piece)| async move {
            if number >= pieces {
                futures::future::pending::<()>().await;
            }
            tokio::time::sleep(wait).await;
            piece
        });
        Ok(slow.boxed())
    }

    async fn list_stale(&self, grace: Duration) -> Result<Vec<Sha256>, BlobError> {
        self.inner.list_stale(grace).await
    }

    async fn mark(&self, unreferenced: &[Sha256], grace: Duration) -> Result<(), BlobError> {
        self.inner.mark(unreferenced, grace).await
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        self.inner.sweep().await
    }
}

fn slow(stage: &Stage, pieces: usize, wait: Duration) -> DiscordChannel {
    let blobs = Slow { inner: Arc::clone(&stage.blobs), pieces, wait };
    channel_with(&stage.discord, Arc::new(blobs), unpaced())
}

#[tokio::test]
async fn a_file_of_forty_megabytes_goes_through_whole() {
    let stage = Stage::new().await;
    stage.discord.boost(GUILD, Tier::Two);
    let file = FakeFile::generated("big.bin", "application/octet-stream", 7, 40_000_000);
    let item = stage.item(&file).await;
    stage.send(PartContent::File(item)).await.unwrap();
    let transcript = stage.discord.transcript();
    let arrived = transcript.files(stage.place)[0];
    assert_eq!((arrived.bytes, arrived.sha256), (40_000_000, file.sha256()));
}

#[tokio::test]
async fn no_more_is_read_than_the_platform_takes() {
    let stage = Stage::new().await;
    let file = FakeFile::generated("big.bin", "application/octet-stream", 7, 40_000_000);
    let item = stage.item(&file).await;
    stage.discord.script_next(CREATE, Fault::Hang { performed: false });
    let answer = stage.send(PartContent::File(item)).await;
    assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}");
    // What the sockets' buffers hold, and no more: the file waits in the store and not in memory.
    assert!(stage.blobs.served() < 16 << 20, "{} bytes were read", stage.blobs.served());
}

#[tokio::test]
async fn an_upload_that_moves_slowly_is_waited_for_and_shown() {
    let stage = Stage::new().await;
    let file = FakeFile::generated("slow.bin", "application/octet-stream", 7, 10 * 64 * 1024);
    let part = stage.part(PartContent::File(stage.item(&file).await));
    // Twice the time limit for silence, and never silent for long.
    let channel = slow(&stage, usize::MAX, Duration::from_millis(150));
    channel.send(&part).await.unwrap();
    let transcript = stage.discord.transcript();
    assert_eq!(transcript.files(stage.place)[0].sha256, file.sha256());
    assert_eq!(transcript.channels[&stage.place].typed, 1);
}

#[tokio::test]
async fn an_upload_that_stops_moving_ends_in_doubt() {
    let stage = Stage::new().await;
    let file = FakeFile::generated("stuck.bin", "application/octet-stream", 7, 10 * 64 * 1024);
    let part = stage.part(PartContent::File(stage.item(&file).await));
    let began = Instant::now();
    let answer = slow(&stage, 3, Duration::ZERO).send(&part).await;
    assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(stage.discord.transcript().visible(stage.place).count(), 0);
}

#[tokio::test]
async fn bytes_that_cannot_be_read_to_their_end_are_unreadable_and_nothing_arrives() {
    for damage in ["missing", "damaged", "shorter", "longer"] {
        let stage = Stage::new().await;
        let file = FakeFile::generated("a.bin", "application/octet-stream", 7, 300_000);
        let mut items = vec![stage.item(&small("b.bin", 1)).await, stage.item(&file).await];
        match damage {
            "missing" => stage.blobs.lose(&file.sha256()),
            "damaged" => stage.blobs.damage(&file.sha256()),
            "shorter" => items[1].attachment.bytes += 1,
            _ => items[1].attachment.bytes -= 1,
        }
        for content in [PartContent::File(items[1].clone()), PartContent::Album { items }] {
            let answer = stage.send(content).await;
            assert!(matches!(answer, Err(SendError::Unreadable { .. })), "{damage}: {answer:?}");
        }
        assert_eq!(stage.discord.transcript().visible(stage.place).count(), 0, "{damage}");
    }
}

#[tokio::test]
async fn an_upload_that_is_dropped_stops() {
    let stage = Stage::new().await;
    let file = FakeFile::generated("dropped.bin", "application/octet-stream", 7, 10 * 64 * 1024);
    let part = stage.part(PartContent::File(stage.item(&file).await));
    let arrived = stage.discord.on_nth(CREATE, 1, Moment::Arrived);
    let channel = slow(&stage, 5, Duration::ZERO);
    tokio::select! {
        answer = channel.send(&part) => panic!("it never ends by itself: {answer:?}"),
        _ = arrived => {}
    }
    stage.send(text("the next")).await.unwrap();
    assert_eq!(stage.discord.transcript().visible(stage.place).count(), 1);
}
