//! The port that decodes the sound of recordings.

use async_trait::async_trait;

use crate::{ByteStream, Recording};

/// The samples per second of decoded sound: what transcription expects.
pub const DECODED_SAMPLE_RATE: u32 = 16_000;

/// The longest sound that is decoded: two hours.
pub const MAX_DECODED_SAMPLES: u64 = 2 * 60 * 60 * DECODED_SAMPLE_RATE as u64;

/// Why a recording could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AudioError {
    /// It has no sound in a format that is decoded.
    #[error("{reason}")]
    Unsupported {
        /// What it is.
        reason: String,
    },
    /// It is damaged or too long, or takes too long.
    #[error("{reason}")]
    Unreadable {
        /// Why.
        reason: String,
    },
    /// It could not be decoded this time: no decoder is free, or its bytes could not be read.
    #[error("{reason}")]
    Interrupted {
        /// Why.
        reason: String,
    },
    /// Nothing decodes recordings here.
    #[error("{reason}")]
    Unavailable {
        /// What is missing, for the operator.
        reason: String,
    },
}

/// Decodes the sound of recordings and videos, none of which can harm the calling process.
///
/// The result is the samples alone, not WAV: its header has their number, which is known only at the end.
///
/// # Contract
/// - The result is samples of 16 bits, little-endian, [`DECODED_SAMPLE_RATE`] a second, mixed down to one channel: at most
///   [`MAX_DECODED_SAMPLES`], or the stream ends in an error.
/// - Whatever a recording holds, the stream ends within the adapter's time limit, and the caller's memory holds no more
///   than a few chunks. Waiting for a free worker comes before that, and is bounded.
/// - Requesters share the workers fairly.
/// - A stream that ends without an error holds all the sound that could be decoded. An error within it has the
///   [`AudioError`] as its source.
/// - What is no sound at all is an error of `decode` and not of the stream.
/// - A call or stream that is dropped is stopped: nothing of it continues.
/// - A failure concerns the one recording.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait AudioDecoder: Send + Sync {
    /// Starts decoding, and returns the samples as they come.
    async fn decode(&self, recording: Recording) -> Result<ByteStream, AudioError>;
}
