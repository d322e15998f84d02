//! Files on their way to the platform: whole, streamed, shown while they are uploaded, and never in part.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::StoredBlob;
use satchel_domain::part::FileItem;
use satchel_ports::{BlobError, BlobHint, ByteStream};

use super::*;
use crate::channel::file_item;

const CHUNK_BYTES: usize = 1 << 20;
const CHUNKS: usize = 64;

/// More than the buffers of a connection take while the server reads nothing.
const MAX_CHUNKS_AHEAD: usize = CHUNKS / 2;

fn generated(length: usize) -> Bytes {
    (0..length).map(|number| (number % 251) as u8).collect()
}

/// Catches: a file that is cut, or changed on its way.
pub async fn large_file_arrives_whole<F: PlatformFixture>() {
    let fixture = F::start().await;
    fixture.allow_large_files();
    let item = file_item(&fixture, "big.bin", generated(40_000_000)).await;
    let sha256 = item.attachment.sha256;
    fixture.channel().post(&part(&fixture, PartContent::File(item))).await.unwrap();
    let arrived = fixture.arrived_messages().await;
    let files: Vec<Sha256> = arrived.iter().flat_map(|message| &message.files).map(|file| file.1).collect();
    assert_eq!(files, [sha256]);
}

/// Blobs that count how many chunks of them were read.
#[derive(Default)]
struct CountingBlobs {
    read: Arc<AtomicUsize>,
}

#[async_trait]
impl Blobs for CountingBlobs {
    async fn put(&self, _: ByteStream, _: &BlobHint, _: u64) -> Result<StoredBlob, BlobError> {
        panic!("nothing is stored here");
    }

    async fn open(&self, _: &Sha256, _: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        let (read, chunk) = (Arc::clone(&self.read), Bytes::from(vec![7; CHUNK_BYTES]));
        let chunks = stream::iter(0..CHUNKS).map(move |_| {
            read.fetch_add(1, Ordering::Relaxed);
            Ok(chunk.clone())
        });
        Ok(chunks.boxed())
    }

    async fn list_stale(&self, _: Duration) -> Result<Vec<Sha256>, BlobError> {
        Ok(Vec::new())
    }

    async fn mark(&self, _: &[Sha256], _: Duration) -> Result<(), BlobError> {
        Ok(())
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        Ok(0)
    }
}

/// Catches: a file that is read whole into memory before it is sent.
pub async fn upload_is_streamed<F: PlatformFixture>() {
    let fixture = F::start().await;
    // It accepts connections and never reads from them.
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let blobs = CountingBlobs::default();
    let read = Arc::clone(&blobs.read);
    let opened = F::open_channel(ChannelOptions {
        token: F::OTHER_TOKEN.to_owned(),
        api_url: Some(format!("http://{}", server.local_addr().unwrap())),
        blobs: Arc::new(blobs),
        response_timeout: Duration::from_secs(1),
    });
    let mut item = file_item(&fixture, "endless.bin", "in its place").await;
    item.attachment.bytes = (CHUNKS * CHUNK_BYTES) as u64;
    let outcome = opened.unwrap().channel.post(&part(&fixture, PartContent::File(item))).await;
    assert!(matches!(outcome, Err(SendError::InDoubt { .. })), "{outcome:?}");
    let read = read.load(Ordering::Relaxed);
    assert!((1..MAX_CHUNKS_AHEAD).contains(&read), "{read} of {CHUNKS} chunks were read for a server that reads none");
}

/// Catches: a file that arrives in part, or as other bytes than those that were stored.
pub async fn unreadable_bytes_are_sent_to_nobody<F: PlatformFixture>() {
    type Damage<F> = fn(&F, &mut FileItem);
    let damages: [(&str, Damage<F>); 4] = [
        ("missing", |fixture, item| fixture.damage_blob(&item.attachment.sha256, BlobDamage::Missing)),
        ("damaged", |fixture, item| fixture.damage_blob(&item.attachment.sha256, BlobDamage::Damaged)),
        ("shorter", |_, item| item.attachment.bytes += 1),
        ("longer", |_, item| item.attachment.bytes -= 1),
    ];
    for (name, damage) in damages {
        let fixture = F::start().await;
        let mut items = vec![
            file_item(&fixture, "b.bin", generated(2_000)).await,
            file_item(&fixture, "a.bin", generated(300_000)).await,
        ];
        damage(&fixture, &mut items[1]);
        for content in [PartContent::File(items[1].clone()), PartContent::Album { items }] {
            let outcome = fixture.channel().post(&part(&fixture, content)).await;
            assert_eq!(ExpectedOutcome::from(outcome), ExpectedOutcome::Unreadable, "{name}");
        }
        assert_eq!(fixture.arrived_messages().await, [], "{name}");
    }
}

/// Catches: a person who sees nothing happen for minutes.
pub async fn long_upload_shows_activity<F: PlatformFixture>() {
    let fixture = F::start().await;
    let opened = F::open_channel(ChannelOptions {
        token: fixture.token(),
        api_url: Some(fixture.api_url()),
        blobs: fixture.blobs(),
        response_timeout: Duration::from_secs(1),
    });
    let request = part(&fixture, PartContent::File(file_item(&fixture, "a.bin", "bytes").await));
    fixture.script_next(PlatformOperation::Upload, F::fault(PlatformFault::Hang { performed: true }));
    let outcome = opened.unwrap().channel.post(&request).await;
    assert!(matches!(outcome, Err(SendError::InDoubt { .. })), "{outcome:?}");
    assert_eq!(fixture.shown_activities(), [F::UPLOAD_ACTIVITY]);
}
