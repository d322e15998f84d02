//! Encodes audio at 48 kHz to OGG/Opus as it arrives: only encoded bytes are kept, a quarter of a megabyte a minute.

use opus_pure::{Application, MAX_PACKET_BYTES, OggOpusWriter, OpusEncoder, OpusHead, OpusTags};

use crate::{loudness::LoudnessMeter, wav::UnsupportedAudio};

/// The rate of Opus itself, in samples per second.
pub(crate) const OUTPUT_RATE: u32 = 48_000;

/// Bits per second: enough for speech with music.
const BITRATE: i32 = 32_000;

/// The samples of a packet: 20 ms.
const FRAME_SAMPLES: usize = 960;

/// The longest speech: an hour, about 15 MB.
pub(crate) const MAX_SAMPLES: u64 = 60 * 60 * OUTPUT_RATE as u64;

/// Complete speech as OGG/Opus.
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
    loudness: LoudnessMeter,
    pre_skip: u64,
    received_samples: u64,
    max_samples: u64,
}

impl VoiceEncoder {
    /// An encoder that accepts at most `max_samples`.
    pub(crate) fn new(max_samples: u64) -> Result<Self, opus_pure::Error> {
        let rate = i32::try_from(OUTPUT_RATE).expect("48000 is small");
        let mut encoder = OpusEncoder::new(rate, 1, Application::Voip)?;
        encoder.bitrate_bps = BITRATE;
        let head = OpusHead::for_encoder(&encoder, OUTPUT_RATE);
        let pre_skip = u64::from(head.pre_skip);
        let mut tags = OpusTags::new();
        tags.push("ENCODER", concat!("satchel ", env!("CARGO_PKG_VERSION")))?;
        Ok(Self {
            encoder,
            writer: OggOpusWriter::with_tags(Vec::new(), head, tags)?,
            packet: vec![0; MAX_PACKET_BYTES],
            pending: Vec::new(),
            loudness: LoudnessMeter::default(),
            pre_skip,
            received_samples: 0,
            max_samples,
        })
    }

    /// Encodes the next samples, from -1 to 1, at 48 kHz.
    pub(crate) fn push(&mut self, samples: &[f32]) -> Result<(), EncodeError> {
        self.received_samples += samples.len() as u64;
        if self.received_samples > self.max_samples {
            return Err(EncodeError::Unusable(UnsupportedAudio("more than an hour of sound")));
        }
        self.loudness.push(samples);
        self.pending.extend_from_slice(samples);
        let complete = self.pending.len() - self.pending.len() % FRAME_SAMPLES;
        for frame in self.pending[..complete].chunks_exact(FRAME_SAMPLES) {
            let bytes = self.encoder.encode(frame, FRAME_SAMPLES, &mut self.packet)?;
            self.writer.write_packet(&self.packet[..bytes])?;
        }
        self.pending.drain(..complete);
        Ok(())
    }

    /// Encodes the rest and returns the complete speech.
    pub(crate) fn finish(mut self) -> Result<EncodedSpeech, EncodeError> {
        if self.received_samples == 0 {
            return Err(EncodeError::Unusable(UnsupportedAudio("no sound")));
        }
        // The encoder runs behind its input, so silence follows until the last sample is out; the last packet says
        // where the audio ends, or players would play the silence.
        let end = self.pre_skip + self.received_samples;
        loop {
            self.pending.resize(FRAME_SAMPLES, 0.0);
            let bytes = self.encoder.encode(&self.pending, FRAME_SAMPLES, &mut self.packet)?;
            self.pending.clear();
            let remaining = end - self.writer.granule().unsigned_abs();
            if remaining <= FRAME_SAMPLES as u64 {
                let remaining = u32::try_from(remaining).expect("no more than a frame");
                self.writer.write_packet_with_duration(&self.packet[..bytes], remaining)?;
                break;
            }
            self.writer.write_packet(&self.packet[..bytes])?;
        }
        let duration_ms = duration_ms(self.received_samples);
        Ok(EncodedSpeech { ogg: self.writer.finish()?, duration_ms, waveform: self.loudness.waveform() })
    }
}

/// How long samples at 48 kHz last.
pub(crate) fn duration_ms(samples: u64) -> u64 {
    samples * 1_000 / u64::from(OUTPUT_RATE)
}

/// Why audio could not be encoded.
#[derive(Debug)]
pub(crate) enum EncodeError {
    /// The audio is unsupported.
    Unusable(UnsupportedAudio),
    /// The encoder failed, which no audio should cause.
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
    use crate::decoder::{DecodeBounds, decode};

    fn decoded(ogg: &[u8]) -> Vec<f32> {
        let mut samples = Vec::new();
        let wanted = Arc::new(());
        let bounds = DecodeBounds { max_samples: u64::MAX, caller: &Arc::downgrade(&wanted) };
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
