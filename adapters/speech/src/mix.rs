//! Joins an engine's output into one OGG/Opus: WAV is encoded as it arrives, OGG/Opus is passed through.

use std::sync::Weak;

use bytes::Bytes;
use satchel_resampler::Resampler;
use satchel_worker_process::OutputChunk;
use tokio::sync::mpsc;

use crate::{
    decoder::{DecodeBounds, DecodeError, decode, is_ogg},
    encoder::{EncodeError, EncodedSpeech, MAX_SAMPLES, OUTPUT_RATE, VoiceEncoder, duration_ms},
    loudness::LoudnessMeter,
    wav::{UnsupportedAudio, WavReader},
};

/// The most bytes of OGG/Opus that an engine may send.
const MAX_OGG_BYTES: usize = 16 << 20;

/// The rate of Opus itself.
const OPUS_RATE: i32 = 48_000;

/// The most samples that are decoded: the longest speech, and what a file may skip before and after it.
const MAX_DECODED_SAMPLES: u64 = MAX_SAMPLES + 2 * 48_000;

/// A chunk of an engine's output.
#[derive(Debug)]
pub(crate) enum AudioChunk {
    Bytes(Bytes),
    /// The end of one input; the next chunk starts another.
    End,
}

impl From<OutputChunk> for AudioChunk {
    fn from(chunk: OutputChunk) -> Self {
        match chunk {
            OutputChunk::Bytes(bytes) => Self::Bytes(bytes),
            OutputChunk::End => Self::End,
        }
    }
}

#[derive(Debug)]
pub(crate) enum MixError {
    /// The engine's output is unsupported.
    Unusable(UnsupportedAudio),
    Truncated,
    Encoder(opus_pure::Error),
}

impl From<EncodeError> for MixError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Unusable(unusable) => Self::Unusable(unusable),
            EncodeError::Encoder(error) => Self::Encoder(error),
        }
    }
}

impl From<UnsupportedAudio> for MixError {
    fn from(unusable: UnsupportedAudio) -> Self {
        Self::Unusable(unusable)
    }
}

impl From<opus_pure::Error> for MixError {
    fn from(error: opus_pure::Error) -> Self {
        Self::Encoder(error)
    }
}

/// The state of the current input.
enum InputState {
    Unknown(Vec<u8>),
    Wav { reader: WavReader, resampler: Option<Resampler> },
    Ogg(Vec<u8>),
}

/// Joins `input_count` inputs into one OGG/Opus. Blocks the thread; ends when the sender does. If the engine fails, its
/// own error is used and this result is discarded.
pub(crate) fn mix_audio(
    mut incoming: mpsc::Receiver<AudioChunk>,
    input_count: usize,
    caller: &Weak<()>,
) -> Result<EncodedSpeech, MixError> {
    let mut encoder = VoiceEncoder::new(MAX_SAMPLES)?;
    let mut input = InputState::Unknown(Vec::new());
    while let Some(chunk) = incoming.blocking_recv() {
        match chunk {
            AudioChunk::Bytes(bytes) => input = push_input(input, &bytes, &mut encoder)?,
            AudioChunk::End => {
                let finished = std::mem::replace(&mut input, InputState::Unknown(Vec::new()));
                if let (InputState::Ogg(ogg), 1) = (&finished, input_count) {
                    return passthrough(ogg, caller);
                }
                finish_input(finished, &mut encoder, caller)?;
            }
        }
    }
    Ok(encoder.finish()?)
}

fn push_input(input: InputState, bytes: &[u8], encoder: &mut VoiceEncoder) -> Result<InputState, MixError> {
    match input {
        InputState::Unknown(mut head) => {
            head.extend_from_slice(bytes);
            if head.len() < 4 {
                return Ok(InputState::Unknown(head));
            }
            let input = match head.as_slice() {
                head if is_ogg(head) => InputState::Ogg(Vec::new()),
                head if WavReader::is_wav(head) => InputState::Wav { reader: WavReader::default(), resampler: None },
                head if head.starts_with(b"ID3") || head.starts_with(&[0xFF]) => {
                    return Err(UnsupportedAudio("MP3 or AAC, and WAV or OGG/Opus is needed").into());
                }
                _ => return Err(UnsupportedAudio("something that is neither WAV nor OGG/Opus").into()),
            };
            push_input(input, &head, encoder)
        }
        InputState::Wav { mut reader, mut resampler } => {
            let (mut samples, mut resampled) = (Vec::new(), Vec::new());
            reader.push(bytes, &mut samples)?;
            if let Some(rate) = reader.rate() {
                resampler.get_or_insert_with(|| Resampler::new(rate, OUTPUT_RATE)).push(&samples, &mut resampled);
                encoder.push(&resampled)?;
            }
            Ok(InputState::Wav { reader, resampler })
        }
        InputState::Ogg(mut ogg) => {
            if ogg.len() + bytes.len() > MAX_OGG_BYTES {
                return Err(UnsupportedAudio("more than 16 MB of sound").into());
            }
            ogg.extend_from_slice(bytes);
            Ok(InputState::Ogg(ogg))
        }
    }
}

fn finish_input(input: InputState, encoder: &mut VoiceEncoder, caller: &Weak<()>) -> Result<(), MixError> {
    match input {
        InputState::Unknown(_) => Err(UnsupportedAudio("no sound").into()),
        InputState::Wav { reader, .. } if !reader.is_complete() => Err(MixError::Truncated),
        InputState::Wav { resampler, .. } => {
            let mut resampled = Vec::new();
            if let Some(resampler) = resampler {
                resampler.finish(&mut resampled);
            }
            Ok(encoder.push(&resampled)?)
        }
        InputState::Ogg(ogg) => {
            let mut encode_error = None;
            let decoded = decode(ogg.as_slice(), OPUS_RATE, &decode_bounds(caller), |samples| {
                encoder.push(samples).map_err(|error| {
                    encode_error = Some(error);
                    std::io::Error::other("the encoder took no more")
                })
            });
            match (encode_error, decoded) {
                (Some(error), _) => Err(error.into()),
                (None, Err(error)) => Err(unsupported_audio(&error).into()),
                (None, Ok(())) => Ok(()),
            }
        }
    }
}

/// Passes OGG/Opus through and only measures it.
fn passthrough(ogg: &[u8], caller: &Weak<()>) -> Result<EncodedSpeech, MixError> {
    let (mut loudness, mut samples) = (LoudnessMeter::default(), 0u64);
    let decoded = decode(ogg, OPUS_RATE, &decode_bounds(caller), |decoded| {
        loudness.push(decoded);
        samples += decoded.len() as u64;
        Ok(())
    });
    match decoded {
        Err(error) => Err(unsupported_audio(&error).into()),
        Ok(()) if samples == 0 => Err(UnsupportedAudio("no sound").into()),
        Ok(()) => {
            Ok(EncodedSpeech { ogg: ogg.to_vec(), duration_ms: duration_ms(samples), waveform: loudness.waveform() })
        }
    }
}

fn decode_bounds(caller: &Weak<()>) -> DecodeBounds<'_> {
    DecodeBounds { max_samples: MAX_DECODED_SAMPLES, caller }
}

fn unsupported_audio(error: &DecodeError) -> UnsupportedAudio {
    match error {
        DecodeError::TooLong => UnsupportedAudio("more than an hour of sound"),
        // The caller of a cancelled task is gone.
        DecodeError::Opus | DecodeError::Cancelled => UnsupportedAudio("OGG that isn't Opus, or is damaged"),
    }
}
