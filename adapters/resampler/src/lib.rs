//! Resamples audio of any rate to any other as it arrives, by a windowed sinc: no aliases, no drift, a few kB of memory.
//!
//! Speech is resampled to 48 kHz to be encoded, and in the decoder worker recordings to 16 kHz to be transcribed.

use std::f64::consts::PI;

/// How many zero crossings of the sinc are counted on each side.
const CROSSINGS: f64 = 16.0;

/// How much of the band below the lower of the two Nyquist frequencies is kept; the filter falls off in the rest.
const PASSBAND: f64 = 0.94;

/// How many filter points cover the time between two incoming samples; between points it is interpolated linearly.
const FILTER_POINTS: usize = 512;

/// Resamples audio of one channel.
#[derive(Debug)]
pub struct Resampler {
    rate: u64,
    output_rate: u64,
    /// Half of the filter, from its middle outwards.
    filter: Vec<f32>,
    /// How many incoming samples the filter reaches to each side.
    reach: usize,
    /// The incoming samples that are still needed, after silence for the time before the first.
    window: Vec<f32>,
    /// How many incoming samples have left the window.
    drained: u64,
    received: u64,
    produced: u64,
}

impl Resampler {
    /// A resampler for audio from one rate to another, both in samples per second and at least 1.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the filter is short"
    )]
    pub fn new(rate: u32, output_rate: u32) -> Self {
        let band = (f64::from(output_rate) / f64::from(rate)).min(1.0) * PASSBAND;
        let reach = (CROSSINGS / band).ceil() as usize;
        let point = |index: usize| {
            let x = index as f64 / FILTER_POINTS as f64;
            let sinc = if index == 0 { 1.0 } else { (PI * band * x).sin() / (PI * band * x) };
            let t = x / reach as f64;
            // Blackman's window: its stop band is 74 dB down.
            let window = 0.42 + 0.5 * (PI * t).cos() + 0.08 * (2.0 * PI * t).cos();
            (band * sinc * window) as f32
        };
        let mut filter: Vec<f32> = (0..reach * FILTER_POINTS).map(point).collect();
        filter.extend([0.0, 0.0]);
        let (rate, output_rate) = (u64::from(rate), u64::from(output_rate));
        let window = vec![0.0; reach];
        Self { rate, output_rate, filter, reach, window, drained: 0, received: 0, produced: 0 }
    }

    /// Takes samples and appends the resampled ones to `out`.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.received += samples.len() as u64;
        if self.rate == self.output_rate {
            out.extend_from_slice(samples);
            return;
        }
        self.window.extend_from_slice(samples);
        self.produce(out);
    }

    /// Appends the rest to `out`.
    pub fn finish(mut self, out: &mut Vec<f32>) {
        if self.rate == self.output_rate {
            return;
        }
        self.window.resize(self.window.len() + self.reach + 1, 0.0);
        let missing = usize::try_from((self.received * self.output_rate).div_ceil(self.rate) - self.produced)
            .unwrap_or(usize::MAX);
        let start = out.len();
        self.produce(out);
        out.truncate(start.saturating_add(missing));
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate and what is left of a division by it are small")]
    fn produce(&mut self, out: &mut Vec<f32>) {
        loop {
            // The place of the next outgoing sample among the incoming ones, without rounding: it never drifts.
            let position = self.produced * self.rate;
            let (whole, fraction) = (position / self.output_rate, position % self.output_rate);
            // The window begins `reach` samples before the first one that is still there.
            let first = usize::try_from(whole - self.drained).expect("what is needed has not left the window") + 1;
            let last = first + 2 * self.reach - 1;
            if last >= self.window.len() {
                let drained = (first - 1).min(self.window.len());
                self.window.drain(..drained);
                self.drained += drained as u64;
                return;
            }
            let part = fraction as f32 / self.output_rate as f32;
            let middle = first + self.reach - 1;
            let mut sum = 0.0;
            for (at, sample) in self.window[first..=last].iter().enumerate() {
                let at = at + first;
                let distance = if at <= middle { (middle - at) as f32 + part } else { (at - middle) as f32 - part };
                sum += sample * self.weight(distance);
            }
            out.push(sum);
            self.produced += 1;
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place within the filter"
    )]
    fn weight(&self, distance: f32) -> f32 {
        let place = distance * FILTER_POINTS as f32;
        let at = (place as usize).min(self.filter.len() - 2);
        let between = place - at as f32;
        self.filter[at] + (self.filter[at + 1] - self.filter[at]) * between.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a short tone")]
    fn tone(hertz: f64, rate: u32, samples: usize) -> Vec<f32> {
        (0..samples).map(|at| (2.0 * PI * hertz * at as f64 / f64::from(rate)).sin() as f32 * 0.5).collect()
    }

    fn resampled(samples: &[f32], rate: u32, output_rate: u32, piece: usize) -> Vec<f32> {
        let (mut resampler, mut out) = (Resampler::new(rate, output_rate), Vec::new());
        for samples in samples.chunks(piece) {
            resampler.push(samples, &mut out);
        }
        resampler.finish(&mut out);
        out
    }

    /// The largest difference in the middle, where the edges of the tone are out of the filter's reach.
    fn difference(one: &[f32], two: &[f32]) -> f32 {
        let middle = one.len() / 10..one.len() * 9 / 10;
        one[middle.clone()].iter().zip(&two[middle]).map(|(one, two)| (one - two).abs()).fold(0.0, f32::max)
    }

    #[rstest]
    fn a_tone_stays_the_tone_it_is(
        #[values(8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000, 192_000)] rate: u32,
        #[values(16_000, 48_000)] output_rate: u32,
        #[values(200.0, 1_000.0, 3_000.0)] hertz: f64,
    ) {
        let samples = tone(hertz, rate, rate as usize);
        let out = resampled(&samples, rate, output_rate, 777);
        assert_eq!(out.len(), output_rate as usize, "a second stays a second");
        let difference = difference(&tone(hertz, output_rate, output_rate as usize), &out);
        assert!(difference < 0.002, "{rate} Hz, a tone of {hertz} Hz: off by {difference}");
    }

    #[test]
    fn inaudible_frequencies_do_not_alias() {
        let out = resampled(&tone(30_000.0, 96_000, 48_000), 96_000, 48_000, 4_096);
        let loudest = out[2_400..21_600].iter().fold(0.0f32, |loudest, sample| loudest.max(sample.abs()));
        assert!(loudest < 0.002, "{loudest}");
    }

    #[test]
    fn it_does_not_matter_how_the_samples_come() {
        let samples = tone(440.0, 22_050, 5_000);
        let whole = resampled(&samples, 22_050, 48_000, 5_000);
        for piece in [1, 2, 31, 1_000] {
            assert_eq!(resampled(&samples, 22_050, 48_000, piece), whole, "in pieces of {piece}");
        }
        assert_eq!(resampled(&[0.5], 22_050, 48_000, 1).len(), 3);
        assert_eq!(resampled(&[], 22_050, 48_000, 1), [] as [f32; 0]);
    }

    #[test]
    fn long_resampling_has_no_drift_and_small_buffer() {
        let (mut resampler, mut out) = (Resampler::new(11_025, 48_000), Vec::new());
        let silence = vec![0.0; 11_025];
        let mut made = 0;
        for _ in 0..60 {
            resampler.push(&silence, &mut out);
            made += out.len();
            out.clear();
            assert!(resampler.window.len() < 2_000);
        }
        resampler.finish(&mut out);
        assert_eq!(made + out.len(), 60 * 48_000);
    }
}
