//! The loudness of sound as clients draw it: a few points from silent to loud.

/// How many samples at 48 kHz one measured stretch has: 20 ms.
const STRETCH: usize = 960;

/// The most points that a platform takes.
const POINTS: usize = 256;

/// Below this peak everything is silence; the hum of an engine is not drawn as speech.
const SILENCE: f32 = 0.001;

/// Measures sound as it comes.
#[derive(Debug, Default)]
pub(crate) struct Loudness {
    peaks: Vec<f32>,
    peak: f32,
    measured: usize,
}

impl Loudness {
    /// Measures samples at 48 kHz.
    pub(crate) fn push(&mut self, samples: &[f32]) {
        for sample in samples {
            self.peak = self.peak.max(sample.abs());
            self.measured += 1;
            if self.measured == STRETCH {
                self.peaks.push(std::mem::take(&mut self.peak));
                self.measured = 0;
            }
        }
    }

    /// At most 256 points from 0 to 255, the loudest of them 255.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 255")]
    pub(crate) fn waveform(mut self) -> Vec<u8> {
        if self.measured > 0 {
            self.peaks.push(self.peak);
        }
        let loudest = self.peaks.iter().copied().fold(0.0, f32::max);
        let points = self.peaks.len().min(POINTS);
        let point = |at: usize| {
            let stretches = at * self.peaks.len() / points..(at + 1) * self.peaks.len() / points;
            let peak = self.peaks[stretches].iter().copied().fold(0.0, f32::max);
            if loudest < SILENCE { 0 } else { (peak / loudest * 255.0).round() as u8 }
        };
        (0..points).map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waveform(samples: &[f32]) -> Vec<u8> {
        let mut loudness = Loudness::default();
        for samples in samples.chunks(777) {
            loudness.push(samples);
        }
        loudness.waveform()
    }

    #[test]
    fn loudest_point_is_255_and_others_are_proportional() {
        let samples = [vec![0.1; STRETCH], vec![-0.4; STRETCH], vec![0.0; STRETCH], vec![0.2; 5]].concat();
        assert_eq!(waveform(&samples), [64, 255, 0, 128]);
        assert_eq!(waveform(&[]), [] as [u8; 0]);
        assert_eq!(waveform(&vec![0.0005; STRETCH]), [0], "the hum of silence");
    }

    #[test]
    fn long_waveform_is_bounded_without_losing_peaks() {
        for stretches in [255, 256, 257, 1_000, 50_000] {
            let mut samples = vec![0.1; stretches * STRETCH];
            *samples.last_mut().unwrap() = 1.0;
            samples[stretches / 2 * STRETCH] = 0.5;
            let waveform = waveform(&samples);
            assert_eq!(waveform.len(), stretches.min(256));
            assert_eq!(waveform.last(), Some(&255), "{stretches}");
            assert_eq!(waveform.iter().filter(|point| **point == 128).count(), 1, "{stretches}");
        }
    }
}
