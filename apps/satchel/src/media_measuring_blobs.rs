//! [`Blobs`] that also say how long sound and videos play: a decoder worker measures each when it is stored.

use std::{ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{MediaInfo, Sha256};
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream, MediaMeter, MediaRequest, StoredBlob};
use tokio::time::timeout;

/// How long a file waits for its measures before it goes without, while the workers are busy.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(5);

/// Fills in what the store's own look at the header leaves open.
pub(crate) struct MediaMeasuringBlobs {
    inner: Arc<dyn Blobs>,
    media: Arc<dyn MediaMeter>,
}

impl MediaMeasuringBlobs {
    pub(crate) fn new(inner: Arc<dyn Blobs>, media: Arc<dyn MediaMeter>) -> Self {
        Self { inner, media }
    }

    /// The measures of a file, or those that are known if there are no others.
    async fn measure(&self, stored: &StoredBlob) -> MediaInfo {
        let StoredBlob { sha256, bytes, mime, media } = stored;
        let is_media = mime.starts_with("audio/") || mime.starts_with("video/");
        if !is_media || media.duration_ms.is_some() {
            return *media;
        }
        let request = MediaRequest { sha256: *sha256, bytes: *bytes, mime: mime.clone() };
        let measured = match timeout(MEASURE_TIMEOUT, self.media.measure(&request)).await {
            Ok(Ok(measured)) => measured,
            Ok(Err(error)) => {
                tracing::debug!(%sha256, %error, "media not measured; it has no duration");
                return *media;
            }
            Err(_) => {
                tracing::debug!(%sha256, timeout = ?MEASURE_TIMEOUT, "media not measured in time; it has no duration");
                return *media;
            }
        };
        let has_sides = media.width.is_some();
        MediaInfo {
            width: if has_sides { media.width } else { measured.width },
            height: if has_sides { media.height } else { measured.height },
            duration_ms: measured.duration_ms,
            animated: media.animated,
        }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Blobs for MediaMeasuringBlobs {
    async fn put(&self, content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError> {
        let stored = self.inner.put(content, hint, limit).await?;
        let media = self.measure(&stored).await;
        Ok(StoredBlob { media, ..stored })
    }

    async fn open(&self, sha256: &Sha256, range: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        self.inner.open(sha256, range).await
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

#[cfg(test)]
mod tests {
    use futures::stream;
    use satchel_ports::{MediaError, MockBlobs, MockMediaMeter};

    use super::*;

    const MEASURES: MediaInfo =
        MediaInfo { width: Some(64), height: Some(48), duration_ms: Some(1_500), animated: false };

    /// What is known of a file of this type once it is stored, and measured so at most once.
    async fn stored(mime: &str, known: MediaInfo, measured: Option<Result<MediaInfo, MediaError>>) -> MediaInfo {
        let (mut blobs, mut media) = (MockBlobs::new(), MockMediaMeter::new());
        let mime = mime.to_owned();
        blobs.expect_put().returning(move |_, _, _| {
            Ok(StoredBlob { sha256: Sha256([1; 32]), bytes: 3, mime: mime.clone(), media: known })
        });
        if let Some(measured) = measured {
            media.expect_measure().times(1).returning(move |_| measured.clone());
        }
        let blobs = MediaMeasuringBlobs::new(Arc::new(blobs), Arc::new(media));
        blobs.put(Box::pin(stream::empty()), &BlobHint::default(), 9).await.unwrap().media
    }

    #[tokio::test]
    async fn media_without_duration_is_measured() {
        let nothing = MediaInfo::default();
        for mime in ["audio/mpeg", "video/mp4"] {
            assert_eq!(stored(mime, nothing, Some(Ok(MEASURES))).await, MEASURES);
        }
        let sides = MediaInfo { width: Some(1), height: Some(2), ..nothing };
        let expected = MediaInfo { duration_ms: Some(1_500), ..sides };
        assert_eq!(stored("video/mp4", sides, Some(Ok(MEASURES))).await, expected, "known sides stay");
        let known = MediaInfo { duration_ms: Some(7), ..nothing };
        assert_eq!(stored("video/mp4", known, None).await, known);
        assert_eq!(stored("image/gif", nothing, None).await, nothing);
    }

    #[tokio::test]
    async fn failed_measuring_changes_nothing() {
        let error = MediaError { reason: "there is no worker".to_owned() };
        assert_eq!(stored("audio/ogg", MediaInfo::default(), Some(Err(error))).await, MediaInfo::default());
    }
}
