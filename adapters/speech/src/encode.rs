//! Sound at 48 kHz as OGG/Opus, encoded as it comes: what is kept is what was encoded, a quarter of a megabyte a minute.

use opus_pure::{Application, MAX_PACKET_BYTES, OggOpusWriter, OpusEncoder, OpusHead, OpusTags};

use crate::{loudness::Loudness, resample::RATE, wav::UnsupportedAudio};

/// How many bits a second: speech is clear with fewer, and music in it is still music.
const BITRATE: i32 = 32_000;

/// The samples of a packet: 20 ms.
const FRAME: usize = 960;

/// The longest speech: an hour, some 15 MB.
pub(crate) const MAX_SAMPLES: u64 = 60 * 60 * RATE as u64;

/// Words as OGG/Opus, whole.
#[derive(Debug)]
pub(crate) struct EncodedSpeech {
    pub(crate) ogg: Vec<u8>,
    pub(crate) duration_ms: u64,
    pub(crate) waveform: Vec<u8>,
}

pub(crate) struct VoiceEncoder {
    encoder: OpusEncoder,
    writer: OggOpusWriter<Vec<u8>>,
    packet: Vec<u8>,
    /// Samples that don't fill a packet yet.
    pending: Vec<f32>,
    loudness: Loudness,
    pre_skip: u64,
    came: u64,
    longest: u64,
}

impl VoiceEncoder {
    /// An encoder of at most so many samples.
    pub(crate) fn new(longest: u64) -> Result<Self, opus_pure::Error> {
        let rate = i32::try_from(RATE).expect("48000 is small");
        let mut encoder = OpusEncoder::new(rate, 1, Application::Voip)?;
        encoder.bitrate_bps = BITRATE;
        let head = OpusHead::for_encoder(&encoder, RATE);
        let pre_skip = u64::from(head.pre_skip);
        let mut tags = OpusTags::new();
        tags.push("ENCODER", concat!("satchel ", env!("CARGO_PKG_VERSION")))?;
        Ok(Self {
            encoder,
            writer: OggOpusWriter::with_tags(Vec::new(), head, tags)?,
            packet: vec![0; MAX_PACKET_BYTES],
            pending: Vec::new(),
            loudness: Loudness::default(),
            pre_skip,
            came: 0,
            longest,
        })
    }

    /// Encodes the next samples, from -1 to 1, at 48 kHz.
    pub(crate) fn push(&mut self, samples: &[f32]) -> Result<(), EncodeError> {
        self.came += samples.len() as u64;
        if self.came > self.longest {
            return Err(EncodeError::Unusable(UnsupportedAudio("more than an hour of sound")));
        }
        self.loudness.push(samples);
        self.pending.extend_from_slice(samples);
        let whole = self.pending.len() - self.pending.len() % FRAME;
        for frame in self.pending[..whole].chunks_exact(FRAME) {
            let bytes = self.encoder.encode(frame, FRAME, &mut self.packet)?;
            self.writer.write_packet(&self.packet[..bytes])?;
        }
        self.pending.drain(..whole);
        Ok(())
    }

    /// Encodes what is left and says how much it was.
    pub(crate) fn finish(mut self) -> Result<EncodedSpeech, EncodeError> {
        if self.came == 0 {
            return Err(EncodeError::Unusable(UnsupportedAudio("no sound")));
        }
        // The encoder runs behind its input, so silence follows until the last sample is out; the last packet says where
        // the sound ends, or players would play the silence.
        let end = self.pre_skip + self.came;
        loop {
            self.pending.resize(FRAME, 0.0);
            let bytes = self.encoder.encode(&self.pending, FRAME, &mut self.packet)?;
            self.pending.clear();
            let left = end - self.writer.granule().unsigned_abs();
            if left <= FRAME as u64 {
                let left = u32::try_from(left).expect("no more than a frame");
                self.writer.write_packet_with_duration(&self.packet[..bytes], left)?;
                break;
            }
            self.writer.write_packet(&self.packet[..bytes])?;
        }
        let duration_ms = milliseconds(self.came);
        Ok(EncodedSpeech { ogg: self.writer.finish()?, duration_ms, waveform: self.loudness.waveform() })
    }
}

/// How long samples at 48 kHz last.
pub(crate) fn milliseconds(samples: u64) -> u64 {
    samples * 1_000 / u64::from(RATE)
}

/// Why sound could not be encoded.
#[derive(Debug)]
pub(crate) enum EncodeError {
    /// Because of what it is.
    Unusable(UnsupportedAudio),
    /// The encoder failed, which it does with no sound.
    Encoder(opus_pure::Error),
}

impl From<opus_pure::Error> for EncodeError {
    fn from(error: opus_pure::Error) -> Self {
        Self::Encoder(error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;

    use super::*;
    use crate::decode::{Bounds, decode};

    fn decoded(ogg: &[u8]) -> Vec<f32> {
        let mut samples = Vec::new();
        let wanted = Arc::new(());
        let bounds = Bounds { max_samples: u64::MAX, still_wanted: &Arc::downgrade(&wanted) };
        decode(ogg, 48_000, &bounds, |decoded| {
            samples.extend_from_slice(decoded);
            Ok(())
        })
        .unwrap();
        samples
    }

    #[rstest]
    fn encoded_audio_keeps_exact_length(#[values(1, 311, 312, 648, 649, 959, 960, 961, 1_920, 48_001)] samples: usize) {
        let mut encoder = VoiceEncoder::new(MAX_SAMPLES).unwrap();
        for piece in vec![0.25; samples].chunks(700) {
            encoder.push(piece).unwrap();
        }
        let voiced = encoder.finish().unwrap();
        assert_eq!(decoded(&voiced.ogg).len(), samples);
        assert_eq!(voiced.duration_ms, samples as u64 / 48);
        assert_eq!(voiced.waveform.len(), samples.div_ceil(960));
    }

    #[test]
    fn nothing_and_too_much_are_told() {
        let unusable = |result: Result<EncodedSpeech, EncodeError>| match result {
            Err(EncodeError::Unusable(unusable)) => unusable.0,
            other => panic!("{other:?}"),
        };
        assert_eq!(unusable(VoiceEncoder::new(MAX_SAMPLES).unwrap().finish()), "no sound");
        let mut encoder = VoiceEncoder::new(2_000).unwrap();
        encoder.push(&[0.0; 2_000]).unwrap();
        let voiced = encoder.push(&[0.0]).and_then(|()| VoiceEncoder::new(MAX_SAMPLES)?.finish());
        assert_eq!(unusable(voiced), "more than an hour of sound");
    }
}
