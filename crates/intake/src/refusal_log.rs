//! Counts refused messages and limits how often they are logged, so that a flood of strangers doesn't flood the log.

use std::{collections::HashMap, time::Duration};

use satchel_domain::{ChannelName, Timestamp};

/// How long after a line about somebody the next one is due.
const REPORT_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// How many people are followed at once, on all channels.
const MAX_TRACKED_SENDERS: usize = 200;

/// The numbers of one log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefusalReport {
    /// How often this person was refused since the last line.
    pub(crate) attempts: u64,
    /// How often others were for whom no line was written.
    pub(crate) others: u64,
}

/// The recently refused senders.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    entries: HashMap<(ChannelName, String), RefusalEntry>,
    unreported: u64,
}

#[derive(Debug)]
struct RefusalEntry {
    reported_at: Timestamp,
    attempts: u64,
}

impl RefusalLog {
    /// Counts a refused message; returns the report if a log line is due.
    pub(crate) fn record_refusal(
        &mut self,
        channel: &ChannelName,
        sender: &str,
        now: Timestamp,
    ) -> Option<RefusalReport> {
        let key = (channel.clone(), sender.to_owned());
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.attempts += 1;
            if now.saturating_duration_since(entry.reported_at) < REPORT_INTERVAL {
                return None;
            }
            let attempts = std::mem::take(&mut entry.attempts);
            entry.reported_at = now;
            return Some(RefusalReport { attempts, others: std::mem::take(&mut self.unreported) });
        }
        if self.entries.len() >= MAX_TRACKED_SENDERS {
            let mut dropped = 0;
            self.entries.retain(|_, entry| {
                let is_recent = now.saturating_duration_since(entry.reported_at) < REPORT_INTERVAL;
                dropped += if is_recent { 0 } else { entry.attempts };
                is_recent
            });
            self.unreported += dropped;
        }
        if self.entries.len() >= MAX_TRACKED_SENDERS {
            self.unreported += 1;
            return None;
        }
        self.entries.insert(key, RefusalEntry { reported_at: now, attempts: 0 });
        Some(RefusalReport { attempts: 1, others: std::mem::take(&mut self.unreported) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel() -> ChannelName {
        ChannelName::new("telegram").unwrap()
    }

    #[test]
    fn persistent_stranger_is_logged_every_few_minutes() {
        let mut refusals = RefusalLog::default();
        let lines: Vec<_> =
            (0..60).filter_map(|minute| refusals.record_refusal(&channel(), "5", Timestamp(minute * 60_000))).collect();
        assert_eq!(lines.iter().map(|line| line.attempts).collect::<Vec<_>>(), [1, 10, 10, 10, 10, 10]);
    }

    /// The attack: thousands of accounts, to fill the memory and the disk with what is remembered and logged of them.
    #[test]
    fn stranger_flood_is_bounded_in_memory_and_log() {
        let mut refusals = RefusalLog::default();
        let mut lines = 0;
        for number in 0..10_000 {
            lines += usize::from(refusals.record_refusal(&channel(), &number.to_string(), Timestamp(0)).is_some());
        }
        assert_eq!((lines, refusals.entries.len()), (MAX_TRACKED_SENDERS, MAX_TRACKED_SENDERS));
        let later =
            refusals.record_refusal(&channel(), "another", Timestamp(0).saturating_add(REPORT_INTERVAL)).unwrap();
        assert_eq!(
            later,
            RefusalReport { attempts: 1, others: 10_000 - MAX_TRACKED_SENDERS as u64 },
            "all of them are counted"
        );
        assert_eq!(refusals.entries.len(), 1);
    }
}
