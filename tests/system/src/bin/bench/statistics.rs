//! Medians and percentiles, and durations as numbers.

use std::time::Duration;

use anyhow::Result;

/// The value below which `percent` of the samples lie.
pub(crate) fn percentile(samples: &[Duration], percent: usize) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default()
}

pub(crate) fn median(samples: &[Duration]) -> Duration {
    percentile(samples, 50)
}

/// The middle one of three measurements: a machine that is held up during one of them doesn't spoil it.
pub(crate) fn median_of_three(mut measure: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut samples = [measure()?, measure()?, measure()?];
    samples.sort_by(f64::total_cmp);
    Ok(samples[1])
}

pub(crate) fn to_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "sizes of memory are far below 2^52")]
pub(crate) fn to_mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Megabytes a second.
#[expect(clippy::cast_precision_loss, reason = "sizes of files are far below 2^52")]
pub(crate) fn megabytes_per_second(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn to_f64(count: u64) -> f64 {
    count as f64
}
