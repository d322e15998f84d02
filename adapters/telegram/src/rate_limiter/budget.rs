//! The rate budget of a chat or of the bot: a token bucket and a sliding window. Pure, with time as an argument.

use std::{collections::VecDeque, time::Duration};

use satchel_domain::capabilities::RateLimits;
use tokio::time::Instant;

/// How much slower than allowed messages are sent: evenly sent messages arrive unevenly.
const SAFETY_MARGIN: f64 = 0.02;

/// Edits leave one in this many requests of a window to sends.
const RESERVED_REQUESTS: usize = 4;

/// The budget of a chat, or of all of them.
#[derive(Debug, Clone)]
pub(super) struct RateBudget {
    bucket: Option<Bucket>,
    window: Option<SlidingWindow>,
    closed_until: Option<Instant>,
}

/// One message per interval, with a burst after a pause.
#[derive(Debug, Clone)]
struct Bucket {
    interval: Duration,
    burst: u32,
    /// When the bucket will be full again; the generic cell rate algorithm's theoretical arrival time.
    full_at: Option<Instant>,
}

/// At most this many messages in any period of this length.
#[derive(Debug, Clone)]
struct SlidingWindow {
    length: Duration,
    max_messages: usize,
    sent: VecDeque<Instant>,
}

impl RateBudget {
    /// Creates a budget without limits.
    pub(super) fn unlimited() -> Self {
        Self { bucket: None, window: None, closed_until: None }
    }

    /// Creates the budget that all chats share. Most of it is spread over the second: messages that are sent at once
    /// arrive late, and then together with the next ones.
    pub(super) fn global(limits: &RateLimits) -> Self {
        let window = limits.per_second.map(|max_messages| SlidingWindow::new(Duration::from_secs(1), max_messages));
        let bucket = limits.per_second.filter(|rate| *rate > 0).map(|rate| Bucket::new(rate, rate / 10));
        Self { bucket, window, ..Self::unlimited() }
    }

    /// Creates the budget of one chat.
    pub(super) fn for_chat(limits: &RateLimits, is_group: bool) -> Self {
        let rate = limits.per_conversation_second.filter(|rate| *rate > 0);
        let bucket = rate.map(|rate| Bucket::new(rate, limits.burst));
        let minute = limits.per_group_minute.filter(|_| is_group);
        let window = minute.map(|max_messages| SlidingWindow::new(Duration::from_secs(60), max_messages));
        Self { bucket, window, ..Self::unlimited() }
    }

    /// Counts a call with this many messages, or returns when it may be made.
    pub(super) fn acquire(&mut self, now: Instant, messages: usize) -> Result<(), Instant> {
        let ready_at = self.ready_at(now, messages);
        if ready_at > now {
            return Err(ready_at);
        }
        if let Some(bucket) = &mut self.bucket {
            bucket.full_at = Some(bucket.full_at.map_or(now, |full_at| full_at.max(now)) + bucket.interval);
        }
        if let Some(window) = &mut self.window {
            window.sent.extend(std::iter::repeat_n(now, messages));
            while window.sent.len() > window.max_messages {
                window.sent.pop_front();
            }
        }
        Ok(())
    }

    /// Whether an edit may be made and still leaves room for sends.
    pub(super) fn has_room_for_edit(&self, now: Instant) -> bool {
        let reserved = self.window.as_ref().map_or(0, |window| window.max_messages / RESERVED_REQUESTS);
        self.ready_at(now, 1 + reserved) <= now
    }

    /// Closes the budget until this time.
    pub(super) fn close_until(&mut self, until: Instant) {
        self.closed_until = Some(self.closed_until.map_or(until, |current| current.max(until)));
    }

    /// Whether the budget is closed.
    pub(super) fn is_closed(&self, now: Instant) -> bool {
        self.closed_until.is_some_and(|until| until > now)
    }

    /// Whether it is in the state of a new budget.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        let is_full = self.bucket.as_ref().and_then(|bucket| bucket.full_at).is_none_or(|full_at| full_at <= now);
        let is_empty = self
            .window
            .as_ref()
            .is_none_or(|window| window.sent.back().is_none_or(|last| *last + window.length <= now));
        is_full && is_empty && !self.is_closed(now)
    }

    /// When a call with this many messages may be made, `now` at the earliest.
    pub(super) fn ready_at(&self, now: Instant, messages: usize) -> Instant {
        let bucket = self.bucket.as_ref().and_then(|bucket| {
            let burst_tolerance = bucket.interval * (bucket.burst - 1);
            bucket.full_at.and_then(|full_at| full_at.checked_sub(burst_tolerance))
        });
        let window = self.window.as_ref().and_then(|window| {
            // A call with more messages than the window holds proceeds when it is empty.
            let max_others = window.max_messages.saturating_sub(messages);
            let blocking_index = window.sent.len().checked_sub(max_others + 1)?;
            Some(window.sent[blocking_index] + window.length)
        });
        [bucket, window, self.closed_until].into_iter().flatten().fold(now, Instant::max)
    }
}

impl Bucket {
    fn new(rate: u32, burst: u32) -> Self {
        Self { interval: with_margin(Duration::from_secs(1) / rate), burst: burst.max(1), full_at: None }
    }
}

impl SlidingWindow {
    fn new(length: Duration, max_messages: u32) -> Self {
        let max_messages = usize::try_from(max_messages).unwrap_or(usize::MAX).max(1);
        Self { length: with_margin(length), max_messages, sent: VecDeque::new() }
    }
}

fn with_margin(time: Duration) -> Duration {
    time.mul_f64(1.0 + SAFETY_MARGIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TELEGRAM: RateLimits =
        RateLimits { per_second: Some(30), per_conversation_second: Some(1), burst: 3, per_group_minute: Some(20) };

    /// When calls are let through that are made as fast as they are.
    fn greedy(mut budgets: Vec<&mut RateBudget>, start: Instant, seconds: u64) -> Vec<Duration> {
        let (mut now, end) = (start, start + Duration::from_secs(seconds));
        let mut sent = Vec::new();
        while now < end {
            let next = budgets.iter().map(|budget| budget.ready_at(now, 1)).fold(now, Instant::max);
            if next > now {
                now = next;
                continue;
            }
            budgets.iter_mut().for_each(|budget| budget.acquire(now, 1).expect("its time has come"));
            sent.push(now - start);
        }
        sent
    }

    /// The most that arrive in any span of a length, each later than it left by no more than `late`.
    fn max_arrivals_within(sent: &[Duration], length: Duration, late: impl Fn(usize) -> Duration) -> usize {
        let mut arrivals: Vec<Duration> = sent.iter().enumerate().map(|(index, at)| *at + late(index)).collect();
        arrivals.sort_unstable();
        let within = |start: &Duration| arrivals.iter().filter(|at| **at >= *start && **at < *start + length).count();
        arrivals.iter().map(within).max().unwrap_or(0)
    }

    #[test]
    fn chat_rate_is_burst_then_one_per_second() {
        let start = Instant::now();
        let sent = greedy(vec![&mut RateBudget::for_chat(&TELEGRAM, false)], start, 100);
        assert!(sent[..3].iter().all(Duration::is_zero), "{sent:?}");
        assert!(sent[3] >= Duration::from_secs(1), "{sent:?}");
        let in_steady_state = sent[3..].len();
        assert!((95..=100).contains(&in_steady_state), "{in_steady_state} in 100 s");
    }

    #[test]
    fn group_gets_nineteen_or_twenty_per_minute() {
        let sent = greedy(vec![&mut RateBudget::for_chat(&TELEGRAM, true)], Instant::now(), 600);
        let jitter = |index: usize| Duration::from_millis([0, 300, 20, 150][index % 4]);
        assert!(max_arrivals_within(&sent, Duration::from_secs(60), jitter) <= 20);
        assert!(sent.len() >= 190, "{} of 200 in ten minutes", sent.len());
    }

    #[test]
    fn all_chats_together_get_almost_thirty_a_second() {
        let sent = greedy(vec![&mut RateBudget::global(&TELEGRAM)], Instant::now(), 60);
        let jitter = |index: usize| Duration::from_millis([0, 15, 3, 8][index % 4]);
        assert!(max_arrivals_within(&sent, Duration::from_secs(1), jitter) <= 30);
        assert!(sent.len() >= 60 * 30 * 95 / 100, "{} of 1800", sent.len());
    }

    #[test]
    fn closed_bucket_reopens_exactly_on_time() {
        let start = Instant::now();
        let mut budget = RateBudget::for_chat(&TELEGRAM, false);
        budget.close_until(start + Duration::from_secs(7));
        budget.close_until(start + Duration::from_secs(3));
        assert_eq!(budget.acquire(start, 1), Err(start + Duration::from_secs(7)));
        assert!(budget.is_closed(start) && !budget.is_fresh(start));
        assert_eq!(budget.acquire(start + Duration::from_secs(7), 1), Ok(()));
    }

    #[test]
    fn album_counts_each_item() {
        let start = Instant::now();
        let mut budget = RateBudget::for_chat(&TELEGRAM, true);
        assert_eq!(budget.acquire(start, 10), Ok(()));
        assert_eq!(budget.acquire(start, 10), Ok(()));
        assert!(budget.acquire(start + Duration::from_secs(59), 1).is_err(), "twenty in a minute are enough");
        assert_eq!(
            budget.acquire(start + Duration::from_secs(62), 25),
            Ok(()),
            "more than ever fit are let through alone"
        );
    }

    #[test]
    fn edits_leave_room_for_sends() {
        let start = Instant::now();
        let mut budget = RateBudget::for_chat(&TELEGRAM, true);
        let mut edits = 0;
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            if budget.has_room_for_edit(now) {
                budget.acquire(now, 1).unwrap();
                edits += 1;
            }
        }
        assert_eq!(edits, 15);
        assert_eq!(budget.acquire(start + Duration::from_secs(60), 1), Ok(()));
    }

    proptest! {
        #[test]
        fn no_rule_is_ever_broken(waits in prop::collection::vec(0u64..9_000, 1..200), group: bool) {
            let start = Instant::now();
            let (mut chat, mut now, mut sent) = (RateBudget::for_chat(&TELEGRAM, group), start, Vec::new());
            for wait in waits {
                now += Duration::from_millis(wait);
                if chat.acquire(now, 1).is_ok() {
                    sent.push(now - start);
                }
            }
            let none = |_: usize| Duration::ZERO;
            for seconds in [1, 2, 10, 60] {
                let max_arrivals = 3 + usize::try_from(seconds).unwrap();
                prop_assert!(max_arrivals_within(&sent, Duration::from_secs(seconds), none) <= max_arrivals);
            }
            prop_assert!(!group || max_arrivals_within(&sent, Duration::from_secs(60), none) <= 20);
        }
    }
}
