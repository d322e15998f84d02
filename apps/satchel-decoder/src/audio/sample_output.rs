//! The result of decoding: resampled to one rate, as samples of 16 bits, in chunks, within a limit.

use satchel_decoders::protocol::{AudioBounds, MAX_CHUNK_BYTES};
use satchel_resampler::Resampler;

use super::track_decoder::SoundBlock;
use crate::error::FileDecodeError;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Takes sound, and passes it on in chunks.
pub(super) struct SampleOutput<F> {
    bounds: AudioBounds,
    on_chunk: F,
    /// How long all sound plays that was decoded, in nanoseconds, with what the file says to skip. Whatever a file says of
    /// its length, this is the work that it makes.
    decoded_nanos: u64,
    /// The rate of the sound, and its resampler.
    resampler: Option<(u32, Resampler)>,
    resampled: Vec<f32>,
    chunk: Vec<u8>,
    sent_samples: u64,
}

impl<F: FnMut(&[u8])> SampleOutput<F> {
    pub(super) fn new(bounds: AudioBounds, on_chunk: F) -> Self {
        let chunk = Vec::with_capacity(MAX_CHUNK_BYTES);
        Self { bounds, on_chunk, decoded_nanos: 0, resampler: None, resampled: Vec::new(), chunk, sent_samples: 0 }
    }

    /// Takes the sound of a packet, whose rate may be another than before.
    pub(super) fn push(&mut self, block: &SoundBlock<'_>) -> Result<(), FileDecodeError> {
        let nanos = u128::from(block.decoded) * u128::from(NANOS_PER_SECOND) / u128::from(block.rate);
        self.decoded_nanos = self.decoded_nanos.saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX));
        let limit = u128::from(self.bounds.max_samples) * u128::from(NANOS_PER_SECOND);
        if u128::from(self.decoded_nanos) * u128::from(self.bounds.sample_rate) > limit {
            return Err(self.too_long());
        }
        if self.resampler.as_ref().is_some_and(|(rate, _)| *rate != block.rate) {
            self.finish_resampler()?;
        }
        let (_, resampler) =
            self.resampler.get_or_insert_with(|| (block.rate, Resampler::new(block.rate, self.bounds.sample_rate)));
        resampler.push(block.samples, &mut self.resampled);
        self.send_resampled()
    }

    /// Sends the rest, and returns how many samples were sent.
    pub(super) fn finish(mut self) -> Result<u64, FileDecodeError> {
        self.finish_resampler()?;
        if !self.chunk.is_empty() {
            (self.on_chunk)(&self.chunk);
        }
        match self.sent_samples {
            0 => Err(FileDecodeError::damaged("it holds no sound")),
            samples => Ok(samples),
        }
    }

    fn finish_resampler(&mut self) -> Result<(), FileDecodeError> {
        if let Some((_, resampler)) = self.resampler.take() {
            resampler.finish(&mut self.resampled);
        }
        self.send_resampled()
    }

    fn send_resampled(&mut self) -> Result<(), FileDecodeError> {
        self.sent_samples += self.resampled.len() as u64;
        if self.sent_samples > self.bounds.max_samples {
            return Err(self.too_long());
        }
        for sample in self.resampled.drain(..) {
            self.chunk.extend_from_slice(&to_i16(sample).to_le_bytes());
            if self.chunk.len() == MAX_CHUNK_BYTES {
                (self.on_chunk)(&self.chunk);
                self.chunk.clear();
            }
        }
        Ok(())
    }

    fn too_long(&self) -> FileDecodeError {
        let minutes = self.bounds.max_samples / u64::from(self.bounds.sample_rate.max(1)) / 60;
        FileDecodeError::TooLarge(format!("it is longer than {minutes} minutes"))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a sample is from -1 to 1")]
fn to_i16(sample: f32) -> i16 {
    (sample.clamp(-1.0, 1.0) * 32_767.0).round() as i16
}
