//! Speech: words as OGG/Opus from a server or a program of one's own, and recordings as words.
//!
//! An engine's sound flows through `mix` while it is made, so that what is kept is only what was encoded: a quarter of
//! a megabyte a minute.

mod command;
mod decode;
mod encode;
mod loudness;
mod mix;
mod recording;
mod resample;
mod server;
mod settings;
mod wav;

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_ports::{Recording, Speech, SpeechError, SynthesizedSpeech};
use tokio::sync::mpsc;

pub use crate::settings::{CommandEngine, EngineSettings, ServerEngine, SpeechSettings};
use crate::{
    encode::EncodedSpeech,
    mix::{AudioChunk, MixError, mix},
    server::{SpeechServerClient, SpeechTask, extension},
};

/// The most words that are spoken at once, in characters: some twenty minutes.
const MAX_TEXT_CHARS: usize = 20_000;

/// The largest recording that is listened to, whatever the caller allows.
const MAX_RECORDING_BYTES: u64 = 100 << 20;

/// The most words that a program may write, in bytes.
const MAX_TRANSCRIPT_BYTES: usize = 1 << 20;

/// How many pieces of sound wait to be encoded.
const CHANNEL_CAPACITY: usize = 8;

/// How many bytes of a voice are handed over at once.
const PIECE: usize = 64 << 10;

/// Why a voice can't be set up as it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpeechSetupError {
    /// There is nothing to run.
    #[error("{section}.command is empty")]
    NoProgram {
        /// Where that is configured.
        section: &'static str,
    },
    /// The address is none.
    #[error("{section}.base_url must start with http:// or https://")]
    Address {
        /// Where that is configured.
        section: &'static str,
    },
    /// Nothing can be trusted.
    #[error("the system has no root certificates; install the package ca-certificates")]
    Certificates,
}

/// Speaks and listens as it is set up.
pub struct SpeechEngine {
    speaker: Option<EngineBackend>,
    listener: Option<EngineBackend>,
    environment: Vec<(OsString, OsString)>,
    recordings: PathBuf,
}

enum EngineBackend {
    Program { command: Vec<OsString>, timeout: Duration },
    Server { server: Box<SpeechServerClient>, timeout: Duration },
}

impl EngineBackend {
    fn from_engine(engine: EngineSettings, task: SpeechTask, section: &'static str) -> Result<Self, SpeechSetupError> {
        match engine {
            EngineSettings::Program(CommandEngine { command, timeout }) => {
                if command.first().is_none_or(|program| program.trim().is_empty()) {
                    return Err(SpeechSetupError::NoProgram { section });
                }
                Ok(Self::Program { command: command.into_iter().map(OsString::from).collect(), timeout })
            }
            EngineSettings::Server(server) => {
                let timeout = server.timeout;
                Ok(Self::Server { server: Box::new(SpeechServerClient::new(server, task)?), timeout })
            }
        }
    }

    fn timeout(&self) -> Duration {
        match self {
            Self::Program { timeout, .. } | Self::Server { timeout, .. } => *timeout,
        }
    }

    /// What it is called in an error.
    fn name(&self) -> String {
        match self {
            Self::Program { command, .. } => format!("`{}`", command::name_of(&command[0])),
            Self::Server { server, .. } => server.who().to_owned(),
        }
    }
}

impl SpeechEngine {
    /// Sets it up. Nothing is started or asked yet.
    ///
    /// # Errors
    /// When it can't work as it is configured.
    pub fn new(settings: SpeechSettings) -> Result<Self, SpeechSetupError> {
        let SpeechSettings { speak, transcribe, environment, recordings } = settings;
        let speaker =
            speak.map(|engine| EngineBackend::from_engine(engine, SpeechTask::Speak, "speech.speak")).transpose()?;
        let listener = transcribe
            .map(|engine| EngineBackend::from_engine(engine, SpeechTask::Transcribe, "speech.transcribe"))
            .transpose()?;
        recording::sweep(&recordings);
        Ok(Self { speaker, listener, environment, recordings })
    }

    async fn voiced(&self, speaker: &EngineBackend, words: &str) -> Result<EncodedSpeech, SpeechError> {
        let pieces = match speaker {
            EngineBackend::Program { .. } => vec![words],
            EngineBackend::Server { .. } => SpeechServerClient::split_text(words),
        };
        let (out, sound) = mpsc::channel(CHANNEL_CAPACITY);
        let count = pieces.len();
        // Lives as long as this future.
        let wanted = Arc::new(());
        let still_wanted = Arc::downgrade(&wanted);
        let mixing = tokio::task::spawn_blocking(move || mix(sound, count, &still_wanted));
        let making = async {
            match speaker {
                EngineBackend::Program { command, .. } => command::run(command, &self.environment, words, out).await,
                EngineBackend::Server { server, .. } => server.speak(&pieces, out).await,
            }
        };
        let (made, mixed) = tokio::join!(making, mixing);
        made?;
        let who = speaker.name();
        mixed
            .map_err(|_| SpeechError {
                reason: format!("the sound from {who} can't be encoded"),
                remedy: None,
                retryable: false,
            })?
            .map_err(|error| match error {
                MixError::Unusable(unusable) => {
                    SpeechError { reason: format!("{who} produced {}", unusable.0), remedy: None, retryable: false }
                }
                MixError::BrokenOff => SpeechError {
                    reason: format!("{who} stopped in the middle of its output"),
                    remedy: None,
                    retryable: true,
                },
                MixError::Encoder(error) => SpeechError {
                    reason: format!("the sound from {who} can't be encoded: {error}"),
                    remedy: None,
                    retryable: false,
                },
            })
    }

    async fn transcribe_with(&self, listener: &EngineBackend, recording: Recording) -> Result<String, SpeechError> {
        let command = match listener {
            EngineBackend::Server { server, .. } => return server.transcribe(recording).await,
            EngineBackend::Program { command, .. } => command,
        };
        let extension = extension(&recording.mime);
        let file = recording::write(&self.recordings, recording.content, extension, recording.bytes).await?;
        let wants = |placeholder: &str| command.iter().any(|argument| argument.to_string_lossy().contains(placeholder));
        let wav = if wants("{wav}") { recording::as_wav(&self.recordings, &file).await? } else { None };
        let wav_path = wav.as_ref().unwrap_or(&file).path();
        let filled = |argument: &OsString| match argument.to_str() {
            Some(text) if text.contains("{file}") || text.contains("{wav}") => {
                let file = file.path().to_string_lossy();
                OsString::from(text.replace("{file}", &file).replace("{wav}", &wav_path.to_string_lossy()))
            }
            _ => argument.clone(),
        };
        let mut command: Vec<OsString> = command.iter().map(filled).collect();
        if !wants("{file}") && !wants("{wav}") {
            command.push(file.path().into());
        }
        let (out, written) = mpsc::channel(CHANNEL_CAPACITY);
        let (ran, words) = tokio::join!(command::run(&command, &self.environment, "", out), collect_audio(written));
        ran?;
        match words {
            Some(words) => Ok(String::from_utf8_lossy(&words).trim().to_owned()),
            None => Err(SpeechError {
                reason: format!("{}'s output does not end", listener.name()),
                remedy: None,
                retryable: false,
            }),
        }
    }
}

fn not_set_up(reason: &str, task: SpeechTask) -> SpeechError {
    SpeechError { reason: reason.to_owned(), remedy: Some(format!("set {}", task.section())), retryable: false }
}

/// What a program writes; `None` when that is too much.
async fn collect_audio(mut written: mpsc::Receiver<AudioChunk>) -> Option<Vec<u8>> {
    let mut words = Vec::new();
    while let Some(AudioChunk::Bytes(bytes)) = written.recv().await {
        words.extend_from_slice(&bytes);
        if words.len() > MAX_TRANSCRIPT_BYTES {
            return None;
        }
    }
    Some(words)
}

fn too_slow(engine: &EngineBackend) -> SpeechError {
    let reason = format!("{} took longer than {} s", engine.name(), engine.timeout().as_secs());
    SpeechError { reason, remedy: None, retryable: true }
}

#[async_trait]
impl Speech for SpeechEngine {
    fn can_speak(&self) -> bool {
        self.speaker.is_some()
    }

    fn can_transcribe(&self) -> bool {
        self.listener.is_some()
    }

    async fn speak(&self, words: &str) -> Result<SynthesizedSpeech, SpeechError> {
        let words = words.trim();
        let never = |reason: &str| SpeechError { reason: reason.to_owned(), remedy: None, retryable: false };
        let Some(speaker) = &self.speaker else { return Err(not_set_up("no voice is configured", SpeechTask::Speak)) };
        if words.is_empty() {
            return Err(never("there is no text to speak"));
        }
        if words.chars().count() > MAX_TEXT_CHARS {
            return Err(never(&format!(
                "the text is too long; the limit for one voice message is {MAX_TEXT_CHARS} characters"
            )));
        }
        let voiced = tokio::time::timeout(speaker.timeout(), self.voiced(speaker, words)).await;
        let EncodedSpeech { ogg, duration_ms, waveform } = voiced.map_err(|_| too_slow(speaker))??;
        let ogg = Bytes::from(ogg);
        let pieces: Vec<_> =
            (0..ogg.len()).step_by(PIECE).map(|at| Ok(ogg.slice(at..ogg.len().min(at + PIECE)))).collect();
        Ok(SynthesizedSpeech { content: stream::iter(pieces).boxed(), duration_ms, waveform })
    }

    async fn transcribe(&self, recording: Recording) -> Result<String, SpeechError> {
        let never = |reason: &str| SpeechError { reason: reason.to_owned(), remedy: None, retryable: false };
        let Some(listener) = &self.listener else {
            return Err(not_set_up("no transcription is configured", SpeechTask::Transcribe));
        };
        if recording.bytes > MAX_RECORDING_BYTES {
            return Err(never("the recording is too large"));
        }
        let heard = tokio::time::timeout(listener.timeout(), self.transcribe_with(listener, recording)).await;
        heard.map_err(|_| too_slow(listener))?
    }
}
