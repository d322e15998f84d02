//! What an engine makes, as one OGG/Opus: WAV is encoded as it comes, OGG/Opus is taken as it is.

use std::sync::Weak;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    decode::{Bounds, DecodeError, decode, is_ogg},
    encode::{EncodeError, LONGEST, VoiceEncoder, Voiced, milliseconds},
    loudness::Loudness,
    resample::Resampler,
    wav::{Unusable, WavReader},
};

/// The most bytes of OGG/Opus that an engine may send.
const LARGEST_OGG: usize = 16 << 20;

/// The rate of Opus itself.
const OPUS_RATE: i32 = 48_000;

/// The most that is decoded: the longest voice, and what a file may tell to leave out before and after it.
const MOST_DECODED: u64 = LONGEST + 2 * 48_000;

/// What an engine makes.
#[derive(Debug)]
pub(crate) enum Sound {
    /// The next bytes.
    Bytes(Bytes),
    /// The end of one piece; the next one begins anew.
    End,
}

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) enum MixError {
    /// Because of what the engine made.
    Unusable(Unusable),
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

impl From<Unusable> for MixError {
    fn from(unusable: Unusable) -> Self {
        Self::Unusable(unusable)
    }
}

impl From<opus_pure::Error> for MixError {
    fn from(error: opus_pure::Error) -> Self {
        Self::Encoder(error)
    }
}

/// One piece as far as it has come.
enum Piece {
    Unknown(Vec<u8>),
    Wav { reader: WavReader, resampler: Option<Resampler> },
    Ogg(Vec<u8>),
}

/// Makes one OGG/Opus of `pieces` pieces. Blocks the thread; ends when the sender does. An engine that fails tells so
/// itself, and nobody looks at what this made of it.
pub(crate) fn mix(
    mut incoming: mpsc::Receiver<Sound>,
    pieces: usize,
    still_wanted: &Weak<()>,
) -> Result<Voiced, MixError> {
    let mut encoder = VoiceEncoder::new(LONGEST)?;
    let mut piece = Piece::Unknown(Vec::new());
    while let Some(sound) = incoming.blocking_recv() {
        match sound {
            Sound::Bytes(bytes) => piece = take(piece, &bytes, &mut encoder)?,
            Sound::End => {
                let whole = std::mem::replace(&mut piece, Piece::Unknown(Vec::new()));
                if let (Piece::Ogg(ogg), 1) = (&whole, pieces) {
                    return as_it_is(ogg, still_wanted);
                }
                end(whole, &mut encoder, still_wanted)?;
            }
        }
    }
    Ok(encoder.finish()?)
}

fn take(piece: Piece, bytes: &[u8], encoder: &mut VoiceEncoder) -> Result<Piece, MixError> {
    match piece {
        Piece::Unknown(mut known) => {
            known.extend_from_slice(bytes);
            if known.len() < 4 {
                return Ok(Piece::Unknown(known));
            }
            let piece = match known.as_slice() {
                known if is_ogg(known) => Piece::Ogg(Vec::new()),
                known if WavReader::is_wav(known) => Piece::Wav { reader: WavReader::default(), resampler: None },
                known if known.starts_with(b"ID3") || known.starts_with(&[0xFF]) => {
                    return Err(Unusable("MP3 or AAC, and WAV or OGG/Opus is needed").into());
                }
                _ => return Err(Unusable("something that is neither WAV nor OGG/Opus").into()),
            };
            take(piece, &known, encoder)
        }
        Piece::Wav { mut reader, mut resampler } => {
            let (mut samples, mut resampled) = (Vec::new(), Vec::new());
            reader.push(bytes, &mut samples)?;
            if let Some(rate) = reader.rate() {
                resampler.get_or_insert_with(|| Resampler::new(rate)).push(&samples, &mut resampled);
                encoder.push(&resampled)?;
            }
            Ok(Piece::Wav { reader, resampler })
        }
        Piece::Ogg(mut ogg) => {
            if ogg.len() + bytes.len() > LARGEST_OGG {
                return Err(Unusable("more than 16 MB of sound").into());
            }
            ogg.extend_from_slice(bytes);
            Ok(Piece::Ogg(ogg))
        }
    }
}

fn end(piece: Piece, encoder: &mut VoiceEncoder, still_wanted: &Weak<()>) -> Result<(), MixError> {
    match piece {
        Piece::Unknown(_) => Err(Unusable("no sound").into()),
        Piece::Wav { reader, .. } if !reader.is_whole() => Err(MixError::BrokenOff),
        Piece::Wav { resampler, .. } => {
            let mut resampled = Vec::new();
            if let Some(resampler) = resampler {
                resampler.finish(&mut resampled);
            }
            Ok(encoder.push(&resampled)?)
        }
        Piece::Ogg(ogg) => {
            let mut failed = None;
            let decoded = decode(ogg.as_slice(), OPUS_RATE, &bounds(still_wanted), |samples| {
                encoder.push(samples).map_err(|error| {
                    failed = Some(error);
                    std::io::Error::other("the encoder took no more")
                })
            });
            match (failed, decoded) {
                (Some(error), _) => Err(error.into()),
                (None, Err(error)) => Err(told(&error).into()),
                (None, Ok(())) => Ok(()),
            }
        }
    }
}

/// An OGG/Opus that needs nothing but to be measured.
fn as_it_is(ogg: &[u8], still_wanted: &Weak<()>) -> Result<Voiced, MixError> {
    let (mut loudness, mut samples) = (Loudness::default(), 0u64);
    let decoded = decode(ogg, OPUS_RATE, &bounds(still_wanted), |decoded| {
        loudness.push(decoded);
        samples += decoded.len() as u64;
        Ok(())
    });
    match decoded {
        Err(error) => Err(told(&error).into()),
        Ok(()) if samples == 0 => Err(Unusable("no sound").into()),
        Ok(()) => Ok(Voiced { ogg: ogg.to_vec(), duration_ms: milliseconds(samples), waveform: loudness.waveform() }),
    }
}

fn bounds(still_wanted: &Weak<()>) -> Bounds<'_> {
    Bounds { max_samples: MOST_DECODED, still_wanted }
}

fn told(error: &DecodeError) -> Unusable {
    match error {
        DecodeError::TooLong => Unusable("more than an hour of sound"),
        // That it is unwanted, nobody hears.
        DecodeError::Opus(_) | DecodeError::Unwanted => Unusable("OGG that isn't Opus, or is damaged"),
    }
}
