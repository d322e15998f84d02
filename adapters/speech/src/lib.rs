//! Speech: synthesis of text to OGG/Opus by a server or the user's program, and transcription of recordings.
//!
//! An engine's audio streams through `mix`, so that only the encoded bytes are kept: a quarter of a megabyte a minute.

mod decoder;
mod encoder;
mod loudness;
mod mix;
mod recording;
mod server;
mod settings;
mod wav;
mod wav_file;

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_ports::{AudioDecoder, Recording, Speech, SpeechError, SynthesizedSpeech};
use satchel_worker_process::{UserProgramError, collect_output, program_name, run_user_program};
use tokio::sync::mpsc;

pub use crate::settings::{CommandEngine, EngineSettings, ServerEngine, SpeechSettings};
use crate::{
    encoder::EncodedSpeech,
    mix::{MixError, mix_audio},
    server::{SpeechServerClient, SpeechTask, file_extension},
};

/// The longest text of one synthesis, in characters: about twenty minutes.
const MAX_TEXT_CHARS: usize = 20_000;

/// The largest recording that is transcribed, whatever the caller allows.
const MAX_RECORDING_BYTES: u64 = 100 << 20;

/// The longest transcription of a program, in bytes.
const MAX_TRANSCRIPT_BYTES: usize = 1 << 20;

/// How many chunks of audio wait to be encoded.
const CHANNEL_CAPACITY: usize = 8;

/// How many bytes of speech each chunk of the result has.
const CHUNK_BYTES: usize = 64 << 10;

/// Why speech can't be set up as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpeechSetupError {
    /// The command is empty.
    #[error("{section}.command is empty")]
    NoProgram {
        /// Where that is configured.
        section: &'static str,
    },
    /// The address is invalid.
    #[error("{section}.base_url must start with http:// or https://")]
    Address {
        /// Where that is configured.
        section: &'static str,
    },
    /// The system has no root certificates.
    #[error("the system has no root certificates; install the package ca-certificates")]
    Certificates,
}

/// Synthesizes and transcribes with the configured engines.
pub struct SpeechEngine {
    synthesizer: Option<EngineBackend>,
    transcriber: Option<EngineBackend>,
    environment: Vec<(OsString, OsString)>,
    recordings: PathBuf,
    decoder: Option<Arc<dyn AudioDecoder>>,
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

    /// Its name in errors.
    fn name(&self) -> String {
        match self {
            Self::Program { command, .. } => format!("`{}`", program_name(&command[0])),
            Self::Server { server, .. } => server.display_name().to_owned(),
        }
    }
}

impl SpeechEngine {
    /// Sets up the engines. Nothing is started or requested yet.
    ///
    /// # Errors
    /// When an engine can't work as configured.
    pub fn new(settings: SpeechSettings) -> Result<Self, SpeechSetupError> {
        let SpeechSettings { speak, transcribe, environment, recordings } = settings;
        let speaker =
            speak.map(|engine| EngineBackend::from_engine(engine, SpeechTask::Speak, "speech.speak")).transpose()?;
        let listener = transcribe
            .map(|engine| EngineBackend::from_engine(engine, SpeechTask::Transcribe, "speech.transcribe"))
            .transpose()?;
        recording::remove_stale(&recordings);
        Ok(Self { synthesizer: speaker, transcriber: listener, environment, recordings, decoder: None })
    }

    /// Converts recordings with this decoder for programs that read only WAV. Without it they get no others.
    #[must_use]
    pub fn with_audio_decoder(self, decoder: Arc<dyn AudioDecoder>) -> Self {
        Self { decoder: Some(decoder), ..self }
    }

    async fn synthesize(&self, speaker: &EngineBackend, text: &str) -> Result<EncodedSpeech, SpeechError> {
        let pieces = match speaker {
            EngineBackend::Program { .. } => vec![text],
            EngineBackend::Server { .. } => SpeechServerClient::split_text(text),
        };
        let (out, chunks) = mpsc::channel(CHANNEL_CAPACITY);
        let count = pieces.len();
        // Lives as long as this future.
        let caller_token = Arc::new(());
        let caller = Arc::downgrade(&caller_token);
        let mix_task = tokio::task::spawn_blocking(move || mix_audio(chunks, count, &caller));
        let engine_task = async {
            match speaker {
                EngineBackend::Program { command, .. } => {
                    run_user_program(command, &self.environment, text.as_bytes(), out).await.map_err(program_error)
                }
                EngineBackend::Server { server, .. } => server.speak(&pieces, out).await,
            }
        };
        let (engine_result, mix_result) = tokio::join!(engine_task, mix_task);
        engine_result?;
        let engine = speaker.name();
        mix_result
            .map_err(|_| SpeechError {
                reason: format!("the sound from {engine} can't be encoded"),
                remedy: None,
                retryable: false,
            })?
            .map_err(|error| match error {
                MixError::Unusable(unusable) => {
                    SpeechError { reason: format!("{engine} produced {}", unusable.0), remedy: None, retryable: false }
                }
                MixError::Truncated => SpeechError {
                    reason: format!("{engine} stopped in the middle of its output"),
                    remedy: None,
                    retryable: true,
                },
                MixError::Encoder(error) => SpeechError {
                    reason: format!("the sound from {engine} can't be encoded: {error}"),
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
        let (mime, work_share) = (recording.mime.clone(), recording.work_share.clone());
        let extension = file_extension(&mime);
        let file = recording::write_recording(&self.recordings, recording.content, extension, recording.bytes).await?;
        let uses_placeholder =
            |placeholder: &str| command.iter().any(|argument| argument.to_string_lossy().contains(placeholder));
        let wav = match uses_placeholder("{wav}") {
            true => {
                recording::convert_to_wav(&self.recordings, &file, &mime, work_share, self.decoder.as_deref()).await?
            }
            false => None,
        };
        let wav_path = wav.as_ref().unwrap_or(&file).path();
        let fill_placeholders = |argument: &OsString| match argument.to_str() {
            Some(text) if text.contains("{file}") || text.contains("{wav}") => {
                let file = file.path().to_string_lossy();
                OsString::from(text.replace("{file}", &file).replace("{wav}", &wav_path.to_string_lossy()))
            }
            _ => argument.clone(),
        };
        let mut command: Vec<OsString> = command.iter().map(fill_placeholders).collect();
        if !uses_placeholder("{file}") && !uses_placeholder("{wav}") {
            command.push(file.path().into());
        }
        let (out, output) = mpsc::channel(CHANNEL_CAPACITY);
        let (run_result, output_bytes) = tokio::join!(
            run_user_program(&command, &self.environment, b"", out),
            collect_output(output, MAX_TRANSCRIPT_BYTES)
        );
        run_result.map_err(program_error)?;
        match output_bytes {
            Some(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
            None => Err(SpeechError {
                reason: format!("{}'s output does not end", listener.name()),
                remedy: None,
                retryable: false,
            }),
        }
    }
}

fn program_error(UserProgramError { reason, retryable }: UserProgramError) -> SpeechError {
    SpeechError { reason, remedy: None, retryable }
}

fn setup_error(reason: &str, task: SpeechTask) -> SpeechError {
    SpeechError { reason: reason.to_owned(), remedy: Some(format!("set {}", task.section())), retryable: false }
}

fn timeout_error(engine: &EngineBackend) -> SpeechError {
    let reason = format!("{} took longer than {} s", engine.name(), engine.timeout().as_secs());
    SpeechError { reason, remedy: None, retryable: true }
}

#[async_trait]
impl Speech for SpeechEngine {
    fn can_speak(&self) -> bool {
        self.synthesizer.is_some()
    }

    fn can_transcribe(&self) -> bool {
        self.transcriber.is_some()
    }

    async fn speak(&self, text: &str) -> Result<SynthesizedSpeech, SpeechError> {
        let text = text.trim();
        let permanent_error = |reason: &str| SpeechError { reason: reason.to_owned(), remedy: None, retryable: false };
        let Some(speaker) = &self.synthesizer else {
            return Err(setup_error("no voice is configured", SpeechTask::Speak));
        };
        if text.is_empty() {
            return Err(permanent_error("there is no text to speak"));
        }
        if text.chars().count() > MAX_TEXT_CHARS {
            return Err(permanent_error(&format!(
                "the text is too long; the limit for one voice message is {MAX_TEXT_CHARS} characters"
            )));
        }
        let speech = tokio::time::timeout(speaker.timeout(), self.synthesize(speaker, text)).await;
        let EncodedSpeech { ogg, duration_ms, waveform } = speech.map_err(|_| timeout_error(speaker))??;
        let ogg = Bytes::from(ogg);
        let chunks: Vec<_> = (0..ogg.len())
            .step_by(CHUNK_BYTES)
            .map(|start| Ok(ogg.slice(start..ogg.len().min(start + CHUNK_BYTES))))
            .collect();
        Ok(SynthesizedSpeech { content: stream::iter(chunks).boxed(), duration_ms, waveform })
    }

    async fn transcribe(&self, recording: Recording) -> Result<String, SpeechError> {
        let permanent_error = |reason: &str| SpeechError { reason: reason.to_owned(), remedy: None, retryable: false };
        let Some(listener) = &self.transcriber else {
            return Err(setup_error("no transcription is configured", SpeechTask::Transcribe));
        };
        if recording.bytes > MAX_RECORDING_BYTES {
            return Err(permanent_error("the recording is too large"));
        }
        let transcription = tokio::time::timeout(listener.timeout(), self.transcribe_with(listener, recording)).await;
        transcription.map_err(|_| timeout_error(listener))?
    }
}
