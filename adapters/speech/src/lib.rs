//! Speech: words as OGG/Opus from a server or a program of one's own, and recordings as words.
//!
//! An engine's sound flows through `mix` while it is made, so that what is kept is only what was encoded: a quarter of
//! a megabyte a minute.

mod decode;
mod encode;
mod loudness;
mod mix;
mod program;
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

pub use crate::settings::{Engine, Program, Server, SpeechSettings};
use crate::{
    encode::Voiced,
    mix::{MixError, Sound, mix},
    server::{RemoteVoice, Task, extension},
};

/// The most words that are spoken at once, in characters: some twenty minutes.
const MOST_WORDS: usize = 20_000;

/// The largest recording that is listened to, whatever the caller allows.
const LARGEST_RECORDING: u64 = 100 << 20;

/// The most words that a program may write, in bytes.
const MOST_TRANSCRIBED: usize = 1 << 20;

/// How many pieces of sound wait to be encoded.
const WAITING: usize = 8;

/// How many bytes of a voice are handed over at once.
const PIECE: usize = 64 << 10;

/// Why a voice can't be set up as it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
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
pub struct Voice {
    speaker: Option<Voicing>,
    listener: Option<Voicing>,
    environment: Vec<(OsString, OsString)>,
    recordings: PathBuf,
}

enum Voicing {
    Program { command: Vec<OsString>, timeout: Duration },
    Server { server: Box<RemoteVoice>, timeout: Duration },
}

impl Voicing {
    fn of(engine: Engine, task: Task, section: &'static str) -> Result<Self, SetupError> {
        match engine {
            Engine::Program(Program { command, timeout }) => {
                if command.first().is_none_or(|program| program.trim().is_empty()) {
                    return Err(SetupError::NoProgram { section });
                }
                Ok(Self::Program { command: command.into_iter().map(OsString::from).collect(), timeout })
            }
            Engine::Server(server) => {
                let timeout = server.timeout;
                Ok(Self::Server { server: Box::new(RemoteVoice::new(server, task)?), timeout })
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
            Self::Program { command, .. } => format!("`{}`", program::name_of(&command[0])),
            Self::Server { server, .. } => server.who().to_owned(),
        }
    }
}

impl Voice {
    /// Sets it up. Nothing is started or asked yet.
    ///
    /// # Errors
    /// When it can't work as it is configured.
    pub fn new(settings: SpeechSettings) -> Result<Self, SetupError> {
        let SpeechSettings { speak, transcribe, environment, recordings } = settings;
        let speaker = speak.map(|engine| Voicing::of(engine, Task::Speak, "speech.speak")).transpose()?;
        let listener =
            transcribe.map(|engine| Voicing::of(engine, Task::Transcribe, "speech.transcribe")).transpose()?;
        recording::sweep(&recordings);
        Ok(Self { speaker, listener, environment, recordings })
    }

    async fn voiced(&self, speaker: &Voicing, words: &str) -> Result<Voiced, SpeechError> {
        let pieces = match speaker {
            Voicing::Program { .. } => vec![words],
            Voicing::Server { .. } => RemoteVoice::pieces(words),
        };
        let (out, sound) = mpsc::channel(WAITING);
        let count = pieces.len();
        // Lives as long as this future.
        let wanted = Arc::new(());
        let still_wanted = Arc::downgrade(&wanted);
        let mixing = tokio::task::spawn_blocking(move || mix(sound, count, &still_wanted));
        let making = async {
            match speaker {
                Voicing::Program { command, .. } => program::run(command, &self.environment, words, out).await,
                Voicing::Server { server, .. } => server.speak(&pieces, out).await,
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

    async fn heard(&self, listener: &Voicing, recording: Recording) -> Result<String, SpeechError> {
        let command = match listener {
            Voicing::Server { server, .. } => return server.transcribe(recording).await,
            Voicing::Program { command, .. } => command,
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
        let (out, written) = mpsc::channel(WAITING);
        let (ran, words) = tokio::join!(program::run(&command, &self.environment, "", out), gather(written));
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

fn not_set_up(reason: &str, task: Task) -> SpeechError {
    SpeechError { reason: reason.to_owned(), remedy: Some(format!("set {}", task.section())), retryable: false }
}

/// What a program writes; `None` when that is too much.
async fn gather(mut written: mpsc::Receiver<Sound>) -> Option<Vec<u8>> {
    let mut words = Vec::new();
    while let Some(Sound::Bytes(bytes)) = written.recv().await {
        words.extend_from_slice(&bytes);
        if words.len() > MOST_TRANSCRIBED {
            return None;
        }
    }
    Some(words)
}

fn too_slow(engine: &Voicing) -> SpeechError {
    let reason = format!("{} took longer than {} s", engine.name(), engine.timeout().as_secs());
    SpeechError { reason, remedy: None, retryable: true }
}

#[async_trait]
impl Speech for Voice {
    fn can_speak(&self) -> bool {
        self.speaker.is_some()
    }

    fn can_transcribe(&self) -> bool {
        self.listener.is_some()
    }

    async fn speak(&self, words: &str) -> Result<SynthesizedSpeech, SpeechError> {
        let words = words.trim();
        let never = |reason: &str| SpeechError { reason: reason.to_owned(), remedy: None, retryable: false };
        let Some(speaker) = &self.speaker else { return Err(not_set_up("no voice is configured", Task::Speak)) };
        if words.is_empty() {
            return Err(never("there is no text to speak"));
        }
        if words.chars().count() > MOST_WORDS {
            return Err(never(&format!(
                "the text is too long; the limit for one voice message is {MOST_WORDS} characters"
            )));
        }
        let voiced = tokio::time::timeout(speaker.timeout(), self.voiced(speaker, words)).await;
        let Voiced { ogg, duration_ms, waveform } = voiced.map_err(|_| too_slow(speaker))??;
        let ogg = Bytes::from(ogg);
        let pieces: Vec<_> =
            (0..ogg.len()).step_by(PIECE).map(|at| Ok(ogg.slice(at..ogg.len().min(at + PIECE)))).collect();
        Ok(SynthesizedSpeech { content: stream::iter(pieces).boxed(), duration_ms, waveform })
    }

    async fn transcribe(&self, recording: Recording) -> Result<String, SpeechError> {
        let never = |reason: &str| SpeechError { reason: reason.to_owned(), remedy: None, retryable: false };
        let Some(listener) = &self.listener else {
            return Err(not_set_up("no transcription is configured", Task::Transcribe));
        };
        if recording.bytes > LARGEST_RECORDING {
            return Err(never("the recording is too large"));
        }
        let heard = tokio::time::timeout(listener.timeout(), self.heard(listener, recording)).await;
        heard.map_err(|_| too_slow(listener))?
    }
}
