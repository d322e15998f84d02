//! When the channels that withhold their history are asked again: soon at first, and ever later while it comes to nothing.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// The channels that withhold their history.
#[derive(Debug, Default)]
pub(super) struct Again(BTreeMap<u64, Attempts>);

/// How often a channel was asked in vain, and when it is asked again, unless it is being asked.
#[derive(Debug, Default)]
struct Attempts {
    failures: u32,
    due: Option<Instant>,
}

impl Again {
    /// A channel withholds its history. `pause` tells how long it is left alone after so many failures.
    pub(super) fn later(&mut self, channel: u64, pause: impl Fn(u32) -> Duration) {
        let attempts = self.0.entry(channel).or_default();
        attempts.due = Some(Instant::now() + pause(attempts.failures));
        attempts.failures = attempts.failures.saturating_add(1);
    }

    /// A channel is to be asked at once.
    pub(super) fn now(&mut self, channel: u64) {
        self.0.entry(channel).or_default().due = Some(Instant::now());
    }

    /// A channel withholds nothing any more.
    pub(super) fn never(&mut self, channel: u64) {
        self.0.remove(&channel);
    }

    /// When the next channel is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().filter_map(|attempts| attempts.due).min()
    }

    /// The channels that are due.
    pub(super) fn take_due(&mut self) -> Vec<u64> {
        let now = Instant::now();
        let due = self.0.iter_mut().filter(|(_, attempts)| attempts.due.is_some_and(|due| due <= now));
        due.map(|(channel, attempts)| {
            attempts.due = None;
            *channel
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn history_retry_is_taken_once_when_due() {
        let second = |failures| Duration::from_secs(1 + u64::from(failures));
        let mut again = Again::default();
        assert_eq!((again.due(), again.take_due()), (None, vec![]));
        again.later(1, second);
        again.later(1, second);
        again.later(2, second);
        let began = Instant::now();
        for (after, channels) in [(1, vec![2]), (2, vec![1])] {
            let due = again.due().expect("one is left");
            assert_eq!(due - began, Duration::from_secs(after), "the more it has failed the later it is asked");
            tokio::time::sleep_until(due).await;
            assert_eq!(again.take_due(), channels);
        }
        assert_eq!(again.due(), None, "both are being asked");
        again.now(1);
        again.now(2);
        again.never(2);
        assert_eq!(again.take_due(), [1]);
    }
}
