//! The loudness of audio as clients draw it: a few points from silent to loud.

/// How many samples at 48 kHz one measured window has: 20 ms.
const WINDOW_SAMPLES: usize = 960;

/// The most points that a platform accepts.
const MAX_POINTS: usize = 256;

/// Below this peak everything is silence; an engine's noise floor is not drawn as speech.
const SILENCE_PEAK: f32 = 0.001;

/// Measures audio as it arrives.
#[derive(Debug, Default)]
pub(crate) struct LoudnessMeter {
    peaks: Vec<f32>,
    peak: f32,
    window_samples: usize,
}

impl LoudnessMeter {
    /// Measures samples at 48 kHz.
    pub(crate) fn push(&mut self, samples: &[f32]) {
        for sample in samples {
            self.peak = self.peak.max(sample.abs());
            self.window_samples += 1;
            if self.window_samples == WINDOW_SAMPLES {
                self.peaks.push(std::mem::take(&mut self.peak));
                self.window_samples = 0;
            }
        }
    }

    /// At most 256 points from 0 to 255, the loudest of them 255.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 255")]
    pub(crate) fn waveform(mut self) -> Vec<u8> {
        if self.window_samples > 0 {
            self.peaks.push(self.peak);
        }
        let loudest = self.peaks.iter().copied().fold(0.0, f32::max);
        let points = self.peaks.len().min(MAX_POINTS);
        let point = |index: usize| {
            let windows = index * self.peaks.len() / points..(index + 1) * self.peaks.len() / points;
            let peak = self.peaks[windows].iter().copied().fold(0.0, f32::max);
            if loudest < SILENCE_PEAK { 0 } else { (peak / loudest * 255.0).round() as u8 }
        };
        (0..points).map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waveform(samples: &[f32]) -> Vec<u8> {
        let mut loudness = LoudnessMeter::default();
        for samples in samples.chunks(777) {
            loudness.push(samples);
        }
        loudness.waveform()
    }

    #[test]
    fn loudest_point_is_255_and_others_are_proportional() {
        let samples =
            [vec![0.1; WINDOW_SAMPLES], vec![-0.4; WINDOW_SAMPLES], vec![0.0; WINDOW_SAMPLES], vec![0.2; 5]].concat();
        assert_eq!(waveform(&samples), [64, 255, 0, 128]);
        assert_eq!(waveform(&[]), [] as [u8; 0]);
        assert_eq!(waveform(&vec![0.0005; WINDOW_SAMPLES]), [0], "the hum of silence");
    }

    #[test]
    fn long_waveform_is_bounded_without_losing_peaks() {
        for stretches in [255, 256, 257, 1_000, 50_000] {
            let mut samples = vec![0.1; stretches * WINDOW_SAMPLES];
            *samples.last_mut().unwrap() = 1.0;
            samples[stretches / 2 * WINDOW_SAMPLES] = 0.5;
            let waveform = waveform(&samples);
            assert_eq!(waveform.len(), stretches.min(256));
            assert_eq!(waveform.last(), Some(&255), "{stretches}");
            assert_eq!(waveform.iter().filter(|point| **point == 128).count(), 1, "{stretches}");
        }
    }
}
