//! What these tests share: a voice set up for a test, programs as scripts, and sound.

use std::{ffi::OsString, path::Path, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use satchel_ports::{Recording, Speech, SpeechError, SynthesizedSpeech};
use satchel_speech::{CommandEngine, EngineSettings, SpeechEngine, SpeechSettings};

/// All that programs are given of the environment.
pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()), ("LANG".into(), "C.UTF-8".into())]
}

pub(crate) fn program(command: &[&str]) -> EngineSettings {
    timed(command, Duration::from_secs(60))
}

pub(crate) fn timed(command: &[&str], timeout: Duration) -> EngineSettings {
    EngineSettings::Program(CommandEngine { command: command.iter().map(|word| (*word).to_owned()).collect(), timeout })
}

/// A shell script as a program.
pub(crate) fn script(script: &str) -> EngineSettings {
    program(&["sh", "-c", script, "script"])
}

pub(crate) fn voice(
    speak: Option<EngineSettings>,
    transcribe: Option<EngineSettings>,
    directory: &Path,
) -> SpeechEngine {
    let recordings = directory.join("recordings");
    SpeechEngine::new(SpeechSettings { speak, transcribe, environment: environment(), recordings })
        .expect("it can work as it is set up")
}

/// What was spoken, whole.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) ogg: Vec<u8>,
    pub(crate) duration_ms: u64,
    pub(crate) waveform: Vec<u8>,
}

pub(crate) async fn speak(voice: &SpeechEngine, words: &str) -> Result<Heard, SpeechError> {
    let SynthesizedSpeech { content, duration_ms, waveform } = voice.speak(words).await?;
    let ogg = content.map_ok(|piece| piece.to_vec()).try_concat().await.expect("it was made already");
    Ok(Heard { ogg, duration_ms, waveform })
}

pub(crate) fn recording(content: &[u8], mime: &str) -> Recording {
    let pieces: Vec<_> = content.chunks(1_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    Recording { content: stream::iter(pieces).boxed(), bytes: content.len() as u64, mime: mime.to_owned() }
}

/// A WAV of 16 bits: a tone that is loud at first and then soft.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "16 bits of a short tone")]
pub(crate) fn tone(rate: u32, milliseconds: u64) -> Vec<u8> {
    let samples = u64::from(rate) * milliseconds / 1_000;
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + samples as u32 * 2).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(rate.to_le_bytes());
    wav.extend((rate * 2).to_le_bytes());
    wav.extend(b"\x02\0\x10\0data");
    wav.extend((samples as u32 * 2).to_le_bytes());
    for at in 0..samples {
        let loudness = if at < samples / 2 { 16_000.0 } else { 4_000.0 };
        let phase = at as f64 * 440.0 / f64::from(rate) * std::f64::consts::TAU;
        wav.extend(((phase.sin() * loudness) as i16).to_le_bytes());
    }
    wav
}
