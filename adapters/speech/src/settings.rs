//! What speaks and what listens, as whoever starts Satchel chooses them.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use secrecy::SecretString;

/// What speaks and what listens.
#[derive(Debug, Clone)]
pub struct SpeechSettings {
    /// What speaks; `None` for nothing.
    pub speak: Option<EngineSettings>,
    /// What listens; `None` for nothing.
    pub transcribe: Option<EngineSettings>,
    /// All of the environment that a program of one's own is given.
    pub environment: Vec<(OsString, OsString)>,
    /// The directory for recordings while a program of one's own listens to them; it is made when it is needed.
    pub recordings: PathBuf,
}

/// What speaks or listens.
#[derive(Debug, Clone)]
pub enum EngineSettings {
    /// A program on this machine.
    Program(CommandEngine),
    /// A server that speaks OpenAI's language.
    Server(ServerEngine),
}

/// A program on this machine.
#[derive(Debug, Clone)]
pub struct CommandEngine {
    /// The program and its arguments. One that speaks reads the words from its standard input and writes WAV or OGG/Opus
    /// to its standard output. One that listens writes the words to its standard output; `{file}` among its arguments is
    /// the recording as it came, `{wav}` the recording as WAV (16 kHz, mono), and with neither the recording as it came
    /// is the last argument.
    pub command: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// A server that speaks OpenAI's language: `/audio/speech` and `/audio/transcriptions`.
#[derive(Debug, Clone)]
pub struct ServerEngine {
    /// Another server than OpenAI's own.
    pub base_url: Option<SecretString>,
    /// The key that it asks for.
    pub api_key: Option<SecretString>,
    /// Its name of the model; without it one of OpenAI's.
    pub model: Option<String>,
    /// Its name of the voice, for speaking; without it one of OpenAI's.
    pub voice: Option<String>,
    /// The language that is spoken, for listening, such as `en`; without it the server finds out.
    pub language: Option<String>,
    /// How long an answer may take.
    pub timeout: Duration,
}
