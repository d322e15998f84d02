//! The port for speech synthesis and transcription.

use async_trait::async_trait;
use satchel_domain::{WorkShare, remedy};

use crate::ByteStream;

/// Synthesized speech.
pub struct SynthesizedSpeech {
    /// OGG/Opus.
    pub content: ByteStream,
    /// Playing time in milliseconds.
    pub duration_ms: u64,
    /// Loudness from 0 to 255 at no more than 256 points.
    pub waveform: Vec<u8>,
}

/// A recorded voice message.
pub struct Recording {
    /// The bytes, in whatever the platform records.
    pub content: ByteStream,
    /// Their number.
    pub bytes: u64,
    /// What the bytes were found to be, such as `audio/ogg`.
    pub mime: String,
    /// For whom, so that one person's files don't keep those of others waiting; `None` where nobody knows.
    pub work_share: Option<WorkShare>,
}

/// Why synthesis or transcription failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.owner_message())]
pub struct SpeechError {
    /// Why, in words for the person.
    pub reason: String,
    /// What the owner can do about it; no part of the reason, since others can't.
    pub remedy: Option<String>,
    /// Whether trying again may help.
    pub retryable: bool,
}

impl SpeechError {
    /// Returns the reason for an owner and for the log, with the remedy where there is one.
    #[must_use]
    pub fn owner_message(&self) -> String {
        remedy::message_for(&self.reason, self.remedy.as_deref(), true)
    }

    /// Returns the reason for anybody else.
    #[must_use]
    pub fn public_message(&self) -> String {
        remedy::message_for(&self.reason, self.remedy.as_deref(), false)
    }
}

/// Synthesizes and transcribes speech.
///
/// # Contract
/// - `speak` yields OGG/Opus, whatever the engine makes.
/// - Its stream ends: one that makes no progress for the adapter's time limit ends in an error.
/// - `transcribe` yields the words alone, trimmed; silence is an empty text and no error.
/// - What isn't configured is an error that no retry mends and that says what to configure.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Speech: Send + Sync {
    /// Returns whether synthesis is configured, so that it is offered only where it works.
    fn can_speak(&self) -> bool;

    /// Returns whether transcription is configured.
    fn can_transcribe(&self) -> bool;

    /// Synthesizes a text.
    async fn speak(&self, text: &str) -> Result<SynthesizedSpeech, SpeechError>;

    /// Transcribes a recording.
    async fn transcribe(&self, recording: Recording) -> Result<String, SpeechError>;
}
