//! The settings of speech engines.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use secrecy::SecretString;

/// The engines for synthesis and transcription.
#[derive(Debug, Clone)]
pub struct SpeechSettings {
    /// The engine for synthesis; `None` if it is off.
    pub speak: Option<EngineSettings>,
    /// The engine for transcription; `None` if it is off.
    pub transcribe: Option<EngineSettings>,
    /// The whole environment of the user's programs.
    pub environment: Vec<(OsString, OsString)>,
    /// The directory for recordings while the user's program transcribes them; it is created when needed.
    pub recordings: PathBuf,
}

/// An engine for synthesis or transcription.
#[derive(Debug, Clone)]
pub enum EngineSettings {
    /// A program on this machine.
    Program(CommandEngine),
    /// An OpenAI-compatible server.
    Server(ServerEngine),
}

/// A program on this machine.
#[derive(Debug, Clone)]
pub struct CommandEngine {
    /// The program and its arguments. For synthesis it reads the text from its standard input and writes WAV or
    /// OGG/Opus to its standard output. For transcription it writes the text to its standard output; `{file}` in its
    /// arguments is the recording as received, `{wav}` the recording as WAV (16 kHz, mono). Without either, the
    /// recording as received is the last argument.
    pub command: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// An OpenAI-compatible server: `/audio/speech` and `/audio/transcriptions`.
#[derive(Debug, Clone)]
pub struct ServerEngine {
    /// The address of another server than OpenAI's own.
    pub base_url: Option<SecretString>,
    /// The key that it requires.
    pub api_key: Option<SecretString>,
    /// The model's name on the server; without it one of OpenAI's.
    pub model: Option<String>,
    /// The voice's name on the server, for synthesis; without it one of OpenAI's.
    pub voice: Option<String>,
    /// The spoken language, for transcription, such as `en`; without it the server detects it.
    pub language: Option<String>,
    /// How long a response may take.
    pub timeout: Duration,
}
