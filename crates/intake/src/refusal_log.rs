//! Counts those who were turned away, and decides when a line in the log is due: a flood of strangers must not become a
//! flood of lines.

use std::{collections::HashMap, time::Duration};

use satchel_domain::{ChannelName, Timestamp};

/// How long after a line about somebody the next one is due.
const QUIET: Duration = Duration::from_secs(10 * 60);

/// How many people are followed at once, on all channels.
const FOLLOWED: usize = 200;

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefusalReport {
    /// How often this person was turned away since the line before.
    pub(crate) attempts: u64,
    /// How often others were for whom no line was written.
    pub(crate) others: u64,
}

/// Who was turned away of late.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    seen: HashMap<(ChannelName, String), RefusalEntry>,
    unseen: u64,
}

#[derive(Debug)]
struct RefusalEntry {
    reported_at: Timestamp,
    attempts: u64,
}

impl RefusalLog {
    /// Counts an attempt, and says what the log is told of it.
    pub(crate) fn count(&mut self, channel: &ChannelName, sender: &str, now: Timestamp) -> Option<RefusalReport> {
        let key = (channel.clone(), sender.to_owned());
        if let Some(seen) = self.seen.get_mut(&key) {
            seen.attempts += 1;
            if now.saturating_duration_since(seen.reported_at) < QUIET {
                return None;
            }
            let attempts = std::mem::take(&mut seen.attempts);
            seen.reported_at = now;
            return Some(RefusalReport { attempts, others: std::mem::take(&mut self.unseen) });
        }
        if self.seen.len() >= FOLLOWED {
            let mut forgotten = 0;
            self.seen.retain(|_, seen| {
                let keep = now.saturating_duration_since(seen.reported_at) < QUIET;
                forgotten += if keep { 0 } else { seen.attempts };
                keep
            });
            self.unseen += forgotten;
        }
        if self.seen.len() >= FOLLOWED {
            self.unseen += 1;
            return None;
        }
        self.seen.insert(key, RefusalEntry { reported_at: now, attempts: 0 });
        Some(RefusalReport { attempts: 1, others: std::mem::take(&mut self.unseen) })
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
            (0..60).filter_map(|minute| refusals.count(&channel(), "5", Timestamp(minute * 60_000))).collect();
        assert_eq!(lines.iter().map(|line| line.attempts).collect::<Vec<_>>(), [1, 10, 10, 10, 10, 10]);
    }

    /// The attack: thousands of accounts, to fill the memory and the disk with what is remembered and logged of them.
    #[test]
    fn stranger_flood_is_bounded_in_memory_and_log() {
        let mut refusals = RefusalLog::default();
        let mut lines = 0;
        for number in 0..10_000 {
            lines += usize::from(refusals.count(&channel(), &number.to_string(), Timestamp(0)).is_some());
        }
        assert_eq!((lines, refusals.seen.len()), (FOLLOWED, FOLLOWED));
        let later = refusals.count(&channel(), "another", Timestamp(0).saturating_add(QUIET)).unwrap();
        assert_eq!(later, RefusalReport { attempts: 1, others: 10_000 - FOLLOWED as u64 }, "all of them are counted");
        assert_eq!(refusals.seen.len(), 1);
    }
}
