//! Files are copied once, read back, and missed where they are lost.

use std::sync::Arc;

use futures::stream;
use satchel_files::MemoryBlobs;
use satchel_ports::Blobs;

use super::*;

async fn put(blobs: &dyn Blobs, content: &'static str) -> NamedBlob {
    let stream = Box::pin(stream::iter([Ok(content.into())]));
    let stored = blobs.put(stream, &BlobHint::default(), u64::MAX).await.expect("the bytes are stored");
    NamedBlob { sha256: stored.sha256, bytes: stored.bytes }
}

/// Of five files the source has lost one and damaged one; the target has one, and another that is damaged there.
#[tokio::test]
async fn files_are_copied_once_and_repaired() {
    let (source, target) = (Arc::new(MemoryBlobs::default()), Arc::new(MemoryBlobs::default()));
    let mut named = Vec::new();
    for content in ["copied", "present", "damaged there", "lost", "damaged here"] {
        named.push(put(&*source, content).await);
    }
    put(&*target, "present").await;
    put(&*target, "damaged there").await;
    target.damage(&named[2].sha256, "bad");
    source.lose(&named[3].sha256);
    source.damage(&named[4].sha256, "damaged herE");
    let progress = Progress::start("files", 5, 0);
    let mut report = copy(&named, &*source, &*target, &progress).await.expect("the stores work");
    report.lost.sort_by_key(|(_, reason)| *reason);
    let lost = vec![(named[4].sha256, "damaged"), (named[3].sha256, "missing")];
    let bytes = "copied".len() + "present".len() + "damaged there".len();
    assert_eq!(report, FileReport { copied: 2, present: 1, bytes: bytes as u64, lost });
    for blob in &named[..3] {
        assert_eq!(verify(&*target, blob.sha256).await.expect("it is there"), blob.bytes);
    }
    let again = copy(&named[..3], &*source, &*target, &progress).await.expect("the stores work");
    assert_eq!(again, FileReport { copied: 0, present: 3, bytes: bytes as u64, lost: Vec::new() });
}
