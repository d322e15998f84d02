//! Spoken words.

use async_trait::async_trait;

use crate::ByteStream;

/// Words as sound.
pub struct Spoken {
    /// OGG/Opus.
    pub content: ByteStream,
    /// Playing time in milliseconds.
    pub duration_ms: u64,
    /// Loudness from 0 to 255 at no more than 256 points.
    pub waveform: Vec<u8>,
}

/// Why words could not be spoken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SpeechError {
    /// Why, in words for the person.
    pub reason: String,
    /// Whether trying again may help.
    pub retryable: bool,
}

/// Speaks.
///
/// # Contract
/// - `speak` yields OGG/Opus, whatever the engine makes.
/// - Its stream ends: one that makes no progress for the adapter's time limit ends in an error.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Speech: Send + Sync {
    /// Speaks the words.
    async fn speak(&self, words: &str) -> Result<Spoken, SpeechError>;
}
