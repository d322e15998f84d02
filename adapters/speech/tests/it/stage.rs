//! What these tests share: a voice set up for a test, programs as scripts, and sound.

use std::{ffi::OsString, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use opus_pure::{MAX_PACKET_SAMPLES, OggOpusReader, Trim};
use satchel_ports::{AudioDecoder, AudioError, ByteStream, Recording, Speech, SpeechError, SynthesizedSpeech};
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
        .with_audio_decoder(Arc::new(StubAudioDecoder))
}

/// Decodes OGG/Opus alone; of WAV it knows nothing.
struct StubAudioDecoder;

#[async_trait]
impl AudioDecoder for StubAudioDecoder {
    async fn decode(&self, recording: Recording) -> Result<ByteStream, AudioError> {
        if recording.mime == "audio/wav" {
            return Err(AudioError::Unsupported { reason: "it is a WAV of another kind".to_owned() });
        }
        let ogg = recording.content.map_ok(|chunk| chunk.to_vec()).try_concat().await.expect("it is in memory");
        let broken = |_| AudioError::Unreadable { reason: "it isn't whole OGG/Opus".to_owned() };
        let samples = decode_opus(&ogg).map_err(broken)?;
        Ok(stream::iter([Ok(Bytes::from(samples))]).boxed())
    }
}

/// The samples of OGG/Opus, as the port wants them.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "16 bits of some channels")]
fn decode_opus(ogg: &[u8]) -> Result<Vec<u8>, opus_pure::Error> {
    let mut reader = OggOpusReader::new(ogg)?;
    let head = reader.head().clone();
    let channels = usize::from(head.channel_count);
    let (mut decoder, mut trim) = (head.decoder(16_000)?, Trim::new(&head, 16_000, channels)?);
    let (mut block, mut samples) = (vec![0.0; MAX_PACKET_SAMPLES * channels], Vec::new());
    while let Some(packet) = reader.read_packet()? {
        let decoded = decoder.decode(&packet.data, MAX_PACKET_SAMPLES, &mut block)?;
        for frame in trim.keep(&packet, &block[..decoded * channels]).chunks_exact(channels) {
            let mean = frame.iter().sum::<f32>() / channels as f32;
            samples.extend(((mean * 32_767.0) as i16).to_le_bytes());
        }
    }
    Ok(samples)
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
    Recording {
        content: stream::iter(pieces).boxed(),
        bytes: content.len() as u64,
        mime: mime.to_owned(),
        work_share: None,
    }
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
