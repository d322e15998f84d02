//! What an engine makes, as one OGG/Opus: WAV is encoded as it comes, OGG/Opus is taken as it is.

use std::sync::Weak;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    decode::{Bounds, DecodeError, decode, is_ogg},
    encode::{EncodeError, EncodedSpeech, MAX_SAMPLES, VoiceEncoder, milliseconds},
    loudness::Loudness,
    resample::Resampler,
    wav::{UnsupportedAudio, WavReader},
};

/// The most bytes of OGG/Opus that an engine may send.
const LARGEST_OGG: usize = 16 << 20;

/// The rate of Opus itself.
const OPUS_RATE: i32 = 48_000;

/// The most that is decoded: the longest voice, and what a file may tell to leave out before and after it.
const MOST_DECODED: u64 = MAX_SAMPLES + 2 * 48_000;

/// What an engine makes.
#[derive(Debug)]
pub(crate) enum AudioChunk {
    /// The next bytes.
    Bytes(Bytes),
    /// The end of one piece; the next one begins anew.
    End,
}

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) enum MixError {
    /// Because of what the engine made.
    Unusable(UnsupportedAudio),
    BrokenOff,
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

/// One piece as far as it has come.
enum InputFormat {
    Unknown(Vec<u8>),
    Wav { reader: WavReader, resampler: Option<Resampler> },
    Ogg(Vec<u8>),
}

/// Makes one OGG/Opus of `pieces` pieces. Blocks the thread; ends when the sender does. An engine that fails tells so
/// itself, and nobody looks at what this made of it.
pub(crate) fn mix(
    mut incoming: mpsc::Receiver<AudioChunk>,
    pieces: usize,
    still_wanted: &Weak<()>,
) -> Result<EncodedSpeech, MixError> {
    let mut encoder = VoiceEncoder::new(MAX_SAMPLES)?;
    let mut piece = InputFormat::Unknown(Vec::new());
    while let Some(sound) = incoming.blocking_recv() {
        match sound {
            AudioChunk::Bytes(bytes) => piece = push_input(piece, &bytes, &mut encoder)?,
            AudioChunk::End => {
                let whole = std::mem::replace(&mut piece, InputFormat::Unknown(Vec::new()));
                if let (InputFormat::Ogg(ogg), 1) = (&whole, pieces) {
                    return passthrough(ogg, still_wanted);
                }
                finish_input(whole, &mut encoder, still_wanted)?;
            }
        }
    }
    Ok(encoder.finish()?)
}

fn push_input(piece: InputFormat, bytes: &[u8], encoder: &mut VoiceEncoder) -> Result<InputFormat, MixError> {
    match piece {
        InputFormat::Unknown(mut known) => {
            known.extend_from_slice(bytes);
            if known.len() < 4 {
                return Ok(InputFormat::Unknown(known));
            }
            let piece = match known.as_slice() {
                known if is_ogg(known) => InputFormat::Ogg(Vec::new()),
                known if WavReader::is_wav(known) => InputFormat::Wav { reader: WavReader::default(), resampler: None },
                known if known.starts_with(b"ID3") || known.starts_with(&[0xFF]) => {
                    return Err(UnsupportedAudio("MP3 or AAC, and WAV or OGG/Opus is needed").into());
                }
                _ => return Err(UnsupportedAudio("something that is neither WAV nor OGG/Opus").into()),
            };
            push_input(piece, &known, encoder)
        }
        InputFormat::Wav { mut reader, mut resampler } => {
            let (mut samples, mut resampled) = (Vec::new(), Vec::new());
            reader.push(bytes, &mut samples)?;
            if let Some(rate) = reader.rate() {
                resampler.get_or_insert_with(|| Resampler::new(rate)).push(&samples, &mut resampled);
                encoder.push(&resampled)?;
            }
            Ok(InputFormat::Wav { reader, resampler })
        }
        InputFormat::Ogg(mut ogg) => {
            if ogg.len() + bytes.len() > LARGEST_OGG {
                return Err(UnsupportedAudio("more than 16 MB of sound").into());
            }
            ogg.extend_from_slice(bytes);
            Ok(InputFormat::Ogg(ogg))
        }
    }
}

fn finish_input(piece: InputFormat, encoder: &mut VoiceEncoder, still_wanted: &Weak<()>) -> Result<(), MixError> {
    match piece {
        InputFormat::Unknown(_) => Err(UnsupportedAudio("no sound").into()),
        InputFormat::Wav { reader, .. } if !reader.is_whole() => Err(MixError::BrokenOff),
        InputFormat::Wav { resampler, .. } => {
            let mut resampled = Vec::new();
            if let Some(resampler) = resampler {
                resampler.finish(&mut resampled);
            }
            Ok(encoder.push(&resampled)?)
        }
        InputFormat::Ogg(ogg) => {
            let mut failed = None;
            let decoded = decode(ogg.as_slice(), OPUS_RATE, &bounds(still_wanted), |samples| {
                encoder.push(samples).map_err(|error| {
                    failed = Some(error);
                    std::io::Error::other("the encoder took no more")
                })
            });
            match (failed, decoded) {
                (Some(error), _) => Err(error.into()),
                (None, Err(error)) => Err(unsupported(&error).into()),
                (None, Ok(())) => Ok(()),
            }
        }
    }
}

/// An OGG/Opus that needs nothing but to be measured.
fn passthrough(ogg: &[u8], still_wanted: &Weak<()>) -> Result<EncodedSpeech, MixError> {
    let (mut loudness, mut samples) = (Loudness::default(), 0u64);
    let decoded = decode(ogg, OPUS_RATE, &bounds(still_wanted), |decoded| {
        loudness.push(decoded);
        samples += decoded.len() as u64;
        Ok(())
    });
    match decoded {
        Err(error) => Err(unsupported(&error).into()),
        Ok(()) if samples == 0 => Err(UnsupportedAudio("no sound").into()),
        Ok(()) => {
            Ok(EncodedSpeech { ogg: ogg.to_vec(), duration_ms: milliseconds(samples), waveform: loudness.waveform() })
        }
    }
}

fn bounds(still_wanted: &Weak<()>) -> Bounds<'_> {
    Bounds { max_samples: MOST_DECODED, still_wanted }
}

fn unsupported(error: &DecodeError) -> UnsupportedAudio {
    match error {
        DecodeError::TooLong => UnsupportedAudio("more than an hour of sound"),
        // That it is unwanted, nobody hears.
        DecodeError::Opus(_) | DecodeError::Unwanted => UnsupportedAudio("OGG that isn't Opus, or is damaged"),
    }
}
