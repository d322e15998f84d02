//! The port that scales images, and draws pages.

use async_trait::async_trait;
use bytes::Bytes;
use satchel_domain::{Sha256, WorkShare};
use tokio_util::sync::CancellationToken;

/// A stored image or document, and how large the result may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRequest {
    /// The address of its bytes.
    pub sha256: Sha256,
    /// Their number.
    pub bytes: u64,
    /// What the bytes were found to be, such as `image/jpeg`. Only the reason of an error names it: the bytes decide.
    pub mime: String,
    /// The page of a document that is drawn, from 1; `None` for the image that the file itself is.
    pub page: Option<u32>,
    /// The longest side of the result, in pixels.
    pub max_side: u32,
    /// The size of the result, in bytes.
    pub max_bytes: u64,
    /// For whom, so that one person's files don't keep those of others waiting; `None` where nobody knows.
    pub work_share: Option<WorkShare>,
}

/// An image that was scaled and encoded again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaledImage {
    /// `image/png` or `image/jpeg`.
    pub mime: String,
    /// In pixels, and at least 1.
    pub width: u32,
    /// In pixels, and at least 1.
    pub height: u32,
    /// The encoded image.
    pub content: Bytes,
}

/// Why an image could not be scaled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// It has no format that is decoded.
    #[error("{reason}")]
    Unsupported {
        /// What it is, for the model.
        reason: String,
    },
    /// It is damaged or too large, takes too long, or no copy is small enough.
    #[error("{reason}")]
    Unreadable {
        /// Why, for the model.
        reason: String,
    },
    /// Images can't be scaled at all now.
    #[error("{reason}")]
    Unavailable {
        /// What is missing, for the model and the operator.
        reason: String,
    },
    /// The call was cancelled.
    #[error("scaling was cancelled")]
    Cancelled,
}

/// Scales images, none of which can harm the calling process.
///
/// # Contract
/// - Whatever an image holds, `scale` ends within its time limit, and the caller's memory holds little more than the
///   result. Waiting for a free worker comes before that, and is bounded.
/// - `scale` returns after its last effect: nothing of it continues. One that is dropped is stopped.
/// - Requesters share the workers fairly, and neither documents nor recordings keep an image waiting. A page counts as a
///   document.
/// - The result keeps within `max_side` and `max_bytes`, and is never larger in pixels than the image. A page is drawn as
///   large as that allows, up to 300 pixels an inch.
/// - The result is upright and still: the orientation of the image is applied, and of an animation the first frame is
///   taken. It keeps transparency.
/// - The result holds nothing but pixels: neither the location nor any other metadata.
/// - A failure concerns the one image.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait ImageScaler: Send + Sync {
    /// Scales an image.
    async fn scale(&self, request: &ImageRequest, cancel: &CancellationToken) -> Result<ScaledImage, ImageError>;
}
