//! The port that measures sound and videos.

use async_trait::async_trait;
use satchel_domain::{MediaInfo, Sha256};

/// A stored file that is to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaRequest {
    /// The address of its bytes.
    pub sha256: Sha256,
    /// Their number.
    pub bytes: u64,
    /// What the bytes were found to be, such as `video/mp4`. Only the reason of an error names it: the bytes decide.
    pub mime: String,
}

/// Why a file was not measured: what it is, or what is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct MediaError {
    /// For the log.
    pub reason: String,
}

/// Measures sound and videos by their containers, none of which can harm the calling process.
///
/// # Contract
/// - Whatever a file holds, `measure` ends within the adapter's time limit. Waiting for a free worker comes before that, and
///   is bounded.
/// - No sample and no frame is decoded. Values that the container doesn't tell are absent; sides come in pairs.
/// - What is present is plausible: no side and no duration is zero.
/// - A call that is dropped is stopped.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait MediaMeter: Send + Sync {
    /// Returns how long a file plays, and how large its pictures are.
    async fn measure(&self, request: &MediaRequest) -> Result<MediaInfo, MediaError>;
}
