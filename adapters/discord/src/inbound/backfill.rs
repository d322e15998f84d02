//! The backfill: which channels' histories are read after a session could not be resumed, how far, and when again.
//!
//! It is pure: requests and times come in as values.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::checkpoint::UnreadHistory;
use crate::snowflake;

/// How many messages a page of history has, which is the most that Discord returns.
pub(super) const PAGE_SIZE: usize = 100;

/// How many channels' histories are read at the same time.
const MAX_CONCURRENT_READS: usize = 8;

/// How many more that were unavailable before. However long these take, no other waits for them.
const MAX_CONCURRENT_RETRIES: usize = 1;

/// Many machines make ids, so a message may arrive after one with a greater id: this span before the watermark is read
/// again.
const OVERLAP_MS: u64 = 60_000;

/// The types of channels without messages: categories, forums and media channels, whose threads have them (Channel
/// Types).
const TYPES_WITHOUT_MESSAGES: [u64; 3] = [4, 15, 16];

/// Returns the id after which a backfill starts if everything up to `watermark` is stored.
pub(super) fn overlap_start(watermark: u64) -> u64 {
    watermark.saturating_sub(snowflake::span(OVERLAP_MS))
}

/// Returns the channels and threads of a guild, as in GUILD_CREATE, with messages after an id.
pub(super) fn channels_with_new_messages(guild: &Value, after: u64) -> Vec<u64> {
    let has_new_messages = |channel: &&Value| {
        let kind = channel.get("type").and_then(Value::as_u64);
        snowflake::read(channel, "last_message_id").is_some_and(|last| last > after)
            && kind.is_none_or(|kind| !TYPES_WITHOUT_MESSAGES.contains(&kind))
    };
    let lists = ["channels", "threads"].into_iter().filter_map(|list| guild.get(list)?.as_array());
    lists.flatten().filter(has_new_messages).filter_map(|channel| snowflake::read(channel, "id")).collect()
}

/// Reads the histories of channels, page by page and several at the same time.
#[derive(Debug)]
pub(super) struct Backfill {
    /// The guilds of a new session that are not available yet.
    awaited_guilds: BTreeSet<u64>,
    channels: BTreeMap<u64, ChannelBackfill>,
    reads: RoundRobin,
    retries: RoundRobin,
}

/// Channels that are read in turn.
#[derive(Debug)]
struct RoundRobin {
    /// The channels whose next page can be requested.
    queue: VecDeque<u64>,
    /// How many pages are requested or being stored; this bounds the memory that they take.
    in_flight: usize,
    max_in_flight: usize,
}

/// The backfill of one channel.
#[derive(Debug, Default)]
struct ChannelBackfill {
    next: PageRequest,
    /// Whether a page is being stored.
    is_storing: bool,
    has_more: bool,
    /// Whether messages may have been missed since the last request.
    is_requested_again: bool,
    /// Whether the channel was deleted meanwhile.
    is_removed: bool,
}

/// A page to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PageRequest {
    pub(super) channel: u64,
    /// The guild for which the backfill was started, which a page doesn't name; `None` for a direct channel.
    pub(super) guild: Option<u64>,
    /// The id after which the page starts.
    pub(super) after: u64,
    /// Whether it must have messages: it is the first page of a guild's channel with new messages.
    pub(super) is_expected: bool,
    /// Whether the history was unavailable before. New messages then wait only while a page is being stored.
    pub(super) is_retry: bool,
}

/// Where the messages of a page were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageOrigin {
    Direct,
    Guild(u64),
    /// A channel that is gone.
    Removed,
}

impl Default for Backfill {
    fn default() -> Self {
        Self {
            awaited_guilds: BTreeSet::new(),
            channels: BTreeMap::new(),
            reads: RoundRobin::new(MAX_CONCURRENT_READS),
            retries: RoundRobin::new(MAX_CONCURRENT_RETRIES),
        }
    }
}

impl RoundRobin {
    fn new(max_in_flight: usize) -> Self {
        Self { queue: VecDeque::new(), in_flight: 0, max_in_flight }
    }

    fn next(&mut self) -> Option<u64> {
        let channel = if self.in_flight < self.max_in_flight { self.queue.pop_front() } else { None }?;
        self.in_flight += 1;
        Some(channel)
    }

    /// Removes a channel from the queue. Returns whether it was there.
    fn remove_channel(&mut self, channel: u64) -> bool {
        let before = self.queue.len();
        self.queue.retain(|queued| *queued != channel);
        self.queue.len() < before
    }
}

impl Backfill {
    /// A new session has started with these guilds, which become available one after the other.
    pub(super) fn wait_for_guilds(&mut self, guilds: impl IntoIterator<Item = u64>) {
        self.awaited_guilds = guilds.into_iter().collect();
    }

    /// Whether a guild is not available yet.
    pub(super) fn is_waiting_for(&self, guild: u64) -> bool {
        self.awaited_guilds.contains(&guild)
    }

    /// A guild is available. Returns whether it was awaited.
    pub(super) fn on_guild_available(&mut self, guild: u64) -> bool {
        self.awaited_guilds.remove(&guild)
    }

    /// Stops waiting for guilds. Returns those that are not available.
    pub(super) fn stop_waiting(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.awaited_guilds)
    }

    /// Starts to read a channel's history after an id. `guild` is `None` for a direct channel.
    pub(super) fn start(&mut self, channel: u64, guild: Option<u64>, after: u64) {
        // A retry that is still queued takes its turn with the others now.
        if !self.retries.remove_channel(channel)
            && let Some(reading) = self.channels.get_mut(&channel)
        {
            reading.is_requested_again = true;
            return;
        }
        self.insert(PageRequest { channel, guild, after, is_expected: guild.is_some(), is_retry: false });
    }

    /// Starts to read a history that was unavailable, of a channel that is not being read.
    pub(super) fn start_retry(&mut self, channel: u64, unread: UnreadHistory) {
        let UnreadHistory { guild, after } = unread;
        self.insert(PageRequest { channel, guild, after, is_expected: false, is_retry: true });
    }

    fn insert(&mut self, next: PageRequest) {
        self.round_robin(next.is_retry).queue.push_back(next.channel);
        self.channels.insert(next.channel, ChannelBackfill { next, ..ChannelBackfill::default() });
    }

    fn round_robin(&mut self, is_retry: bool) -> &mut RoundRobin {
        if is_retry { &mut self.retries } else { &mut self.reads }
    }

    /// A channel is gone: what its pages still contain is for nobody.
    pub(super) fn remove_channel(&mut self, channel: u64) {
        if let Some(reading) = self.channels.get_mut(&channel) {
            reading.is_removed = true;
        }
    }

    /// A guild is gone with its channels.
    pub(super) fn remove_guild(&mut self, guild: u64) {
        self.awaited_guilds.remove(&guild);
        for reading in self.channels.values_mut().filter(|reading| reading.next.guild == Some(guild)) {
            reading.is_removed = true;
        }
    }

    /// Whether a channel's history is being read, or is queued.
    pub(super) fn contains(&self, channel: u64) -> bool {
        self.channels.contains_key(&channel)
    }

    /// Whether new messages of a channel have to wait for its history. They don't wait for the page of a retry, which
    /// may be unavailable again.
    pub(super) fn blocks(&self, channel: u64) -> bool {
        self.channels.get(&channel).is_some_and(|reading| !reading.next.is_retry || reading.is_storing)
    }

    /// Returns the next page to request, if one may be requested now.
    pub(super) fn next_request(&mut self) -> Option<PageRequest> {
        let channel = self.reads.next().or_else(|| self.retries.next())?;
        let reading = self.channels.get_mut(&channel).expect("a queued channel is being read");
        reading.is_requested_again = false;
        Some(reading.next)
    }

    /// A page has arrived, with this many messages and this last id. Returns where they were written.
    pub(super) fn on_page(&mut self, channel: u64, messages: usize, last: Option<u64>) -> PageOrigin {
        let reading = self.channels.get_mut(&channel).expect("a page arrives for a channel that is being read");
        // A page without progress would be returned for ever.
        let has_progress = last.is_some_and(|last| last > reading.next.after);
        reading.next.after = reading.next.after.max(last.unwrap_or(0));
        reading.has_more = messages >= PAGE_SIZE && has_progress && !reading.is_removed;
        reading.next.is_expected = false;
        reading.is_storing = true;
        match reading.next.guild {
            _ if std::mem::take(&mut reading.is_removed) => PageOrigin::Removed,
            Some(guild) => PageOrigin::Guild(guild),
            None => PageOrigin::Direct,
        }
    }

    /// A page is stored. Returns whether more is to be read of the channel; if not, its new messages wait no longer.
    pub(super) fn on_page_stored(&mut self, channel: u64) -> bool {
        let reading = self.channels.get_mut(&channel).expect("a page is stored of a channel that is being read");
        reading.is_storing = false;
        let (has_more, is_retry) = (reading.has_more || reading.is_requested_again, reading.next.is_retry);
        let round_robin = self.round_robin(is_retry);
        round_robin.in_flight -= 1;
        if has_more {
            round_robin.queue.push_back(channel);
        } else {
            self.channels.remove(&channel);
        }
        has_more
    }

    /// A page is unavailable, and the channel is no longer read. Returns what stays unread; `None` if the channel is
    /// gone.
    pub(super) fn on_unavailable(&mut self, channel: u64) -> Option<UnreadHistory> {
        let ChannelBackfill { next: PageRequest { guild, after, is_retry, .. }, is_removed, .. } =
            self.channels.remove(&channel).expect("a page was requested of a channel that is being read");
        self.round_robin(is_retry).in_flight -= 1;
        (!is_removed).then_some(UnreadHistory { guild, after })
    }

    /// Whether everything is stored, except for what is unavailable.
    pub(super) fn is_complete(&self) -> bool {
        self.awaited_guilds.is_empty() && self.channels.values().all(|reading| reading.next.is_retry)
    }
}

/// When unavailable histories are requested again.
#[derive(Debug, Default)]
pub(super) struct HistoryRetries(BTreeMap<u64, RetryEntry>);

#[derive(Debug, Default)]
struct RetryEntry {
    failures: u32,
    /// `None` while it is being requested.
    next_at: Option<Instant>,
}

impl HistoryRetries {
    /// A history is unavailable. `delay` returns the delay after this many failures.
    pub(super) fn schedule(&mut self, channel: u64, now: Instant, delay: impl Fn(u32) -> Duration) {
        let entry = self.0.entry(channel).or_default();
        entry.next_at = Some(now + delay(entry.failures));
        entry.failures = entry.failures.saturating_add(1);
    }

    pub(super) fn schedule_now(&mut self, channel: u64, now: Instant) {
        self.0.entry(channel).or_default().next_at = Some(now);
    }

    pub(super) fn cancel(&mut self, channel: u64) {
        self.0.remove(&channel);
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.0.values().filter_map(|entry| entry.next_at).min()
    }

    /// Returns the channels whose time has come, each once.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<u64> {
        let due = self.0.iter_mut().filter(|(_, entry)| entry.next_at.is_some_and(|next_at| next_at <= now));
        due.map(|(channel, entry)| {
            entry.next_at = None;
            *channel
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn history_retry_is_taken_once_when_due() {
        let second = |failures| Duration::from_secs(1 + u64::from(failures));
        let (mut retries, start) = (HistoryRetries::default(), Instant::now());
        assert_eq!((retries.next_at(), retries.take_due(start)), (None, vec![]));
        retries.schedule(1, start, second);
        retries.schedule(1, start, second);
        retries.schedule(2, start, second);
        for (seconds, channels) in [(1, vec![2]), (2, vec![1])] {
            let due = retries.next_at().expect("one is left");
            assert_eq!(due - start, Duration::from_secs(seconds), "each failure makes the delay longer");
            assert_eq!(retries.take_due(due), channels);
        }
        assert_eq!(retries.next_at(), None, "both are being requested");
        retries.schedule_now(1, start);
        retries.schedule_now(2, start);
        retries.cancel(2);
        assert_eq!(retries.take_due(start), [1]);
    }

    fn direct(channel: u64, after: u64) -> PageRequest {
        PageRequest { channel, guild: None, after, is_expected: false, is_retry: false }
    }

    #[test]
    fn overlap_starts_a_minute_earlier() {
        assert_eq!(overlap_start(snowflake::at_unix_ms(1_462_015_105_796)), snowflake::at_unix_ms(1_462_015_045_796));
        assert_eq!((snowflake::at_unix_ms(0), overlap_start(5)), (0, 0));
    }

    #[test]
    fn channels_and_threads_with_new_messages_are_read() {
        let guild = json!({
            "channels": [
                { "id": "1", "type": 0, "last_message_id": "101" },
                { "id": "2", "type": 0, "last_message_id": "100" },
                { "id": "3", "type": 2, "last_message_id": "900" },
                { "id": "4", "type": 15, "last_message_id": "900" },
                { "id": "5", "type": 0, "last_message_id": null },
                { "id": "6", "type": 0 },
                { "id": 7, "type": 0, "last_message_id": "900" },
                "odd",
            ],
            "threads": [{ "id": "8", "type": 11, "last_message_id": "101" }, { "id": "9", "last_message_id": "102" }],
        });
        assert_eq!(channels_with_new_messages(&guild, 100), [1, 3, 8, 9]);
        let odd = json!({ "channels": 7 });
        assert_eq!(channels_with_new_messages(&odd, 0), [0_u64; 0]);
    }

    #[test]
    fn long_history_is_read_to_its_end() {
        let mut backfill = Backfill::default();
        backfill.start(1, None, 10);
        for (after, messages) in [(10, PAGE_SIZE), (110, PAGE_SIZE), (210, 7)] {
            assert_eq!(backfill.next_request(), Some(direct(1, after)));
            assert_eq!(backfill.next_request(), None);
            assert!(backfill.blocks(1));
            backfill.on_page(1, messages, Some(after + 100));
            assert_eq!(backfill.on_page_stored(1), messages == PAGE_SIZE);
        }
        assert!(!backfill.blocks(1) && backfill.is_complete());
    }

    #[test]
    fn repeated_page_ends_the_backfill() {
        let mut backfill = Backfill::default();
        backfill.start(1, None, 10);
        assert_eq!(backfill.next_request(), Some(direct(1, 10)));
        backfill.on_page(1, PAGE_SIZE, Some(10));
        assert!(!backfill.on_page_stored(1));
    }

    #[test]
    fn messages_missed_during_backfill_are_read_too() {
        let mut backfill = Backfill::default();
        backfill.start(1, None, 10);
        assert_eq!(backfill.next_request(), Some(direct(1, 10)));
        backfill.start(1, None, 10);
        backfill.on_page(1, 3, Some(13));
        assert!(backfill.on_page_stored(1));
        assert_eq!(backfill.next_request(), Some(direct(1, 13)));
        backfill.on_page(1, 0, None);
        assert!(!backfill.on_page_stored(1));
    }

    #[test]
    fn backfill_concurrency_is_bounded_and_fair() {
        let mut backfill = Backfill::default();
        let channels: Vec<u64> = (0..MAX_CONCURRENT_READS as u64 + 2).collect();
        for channel in &channels {
            backfill.start(*channel, None, 0);
        }
        let requests: Vec<u64> =
            std::iter::from_fn(|| backfill.next_request()).map(|request| request.channel).collect();
        assert_eq!(requests, channels[..MAX_CONCURRENT_READS]);
        backfill.on_page(3, 1, Some(7));
        assert_eq!(backfill.next_request(), None, "the page is held until it is stored");
        assert!(!backfill.on_page_stored(3));
        assert_eq!(
            (backfill.next_request(), backfill.next_request()),
            (Some(direct(MAX_CONCURRENT_READS as u64, 0)), None)
        );
    }

    #[test]
    fn page_belongs_to_guild_of_its_request() {
        let mut backfill = Backfill::default();
        for (channel, guild) in [(1, None), (2, Some(9)), (3, Some(9)), (4, Some(8))] {
            backfill.start(channel, guild, 10);
        }
        let expected: Vec<bool> =
            std::iter::from_fn(|| backfill.next_request()).map(|request| request.is_expected).collect();
        assert_eq!(expected, [false, true, true, true]);
        backfill.remove_channel(3);
        backfill.remove_guild(8);
        let origins = [1, 2, 3, 4].map(|channel| backfill.on_page(channel, PAGE_SIZE, Some(20)));
        assert_eq!(origins, [PageOrigin::Direct, PageOrigin::Guild(9), PageOrigin::Removed, PageOrigin::Removed]);
        assert_eq!([1, 2, 3, 4].map(|channel| backfill.on_page_stored(channel)), [true, true, false, false]);
        backfill.next_request();
        let further = PageRequest { guild: Some(9), ..direct(2, 20) };
        assert_eq!(backfill.next_request(), Some(further), "nothing more is promised");
    }

    #[test]
    fn unavailable_history_stays_unread_from_its_position() {
        let mut backfill = Backfill::default();
        for channel in [1, 2] {
            backfill.start(channel, Some(9), 10);
            backfill.next_request();
        }
        backfill.on_page(1, PAGE_SIZE, Some(20));
        backfill.on_page_stored(1);
        backfill.next_request();
        backfill.remove_channel(2);
        let unread = UnreadHistory { guild: Some(9), after: 20 };
        assert_eq!([1, 2].map(|channel| backfill.on_unavailable(channel)), [Some(unread), None]);
        assert!(backfill.is_complete() && !backfill.blocks(1));
        backfill.start_retry(1, unread);
        assert_eq!(backfill.next_request(), Some(PageRequest { guild: Some(9), is_retry: true, ..direct(1, 20) }));
        assert!(backfill.is_complete() && backfill.contains(1) && !backfill.blocks(1), "nothing waits for it");
        backfill.on_page(1, PAGE_SIZE, Some(30));
        assert!(backfill.blocks(1), "but for what was shown");
        assert!(backfill.on_page_stored(1) && !backfill.blocks(1));
    }

    #[test]
    fn unavailable_history_is_retried_in_own_slot() {
        let mut backfill = Backfill::default();
        let retry = |channel| PageRequest { is_retry: true, ..direct(channel, 0) };
        for channel in [1, 2, 3] {
            backfill.start_retry(channel, UnreadHistory { guild: None, after: 0 });
        }
        for channel in 10..11 + MAX_CONCURRENT_READS as u64 {
            backfill.start(channel, None, 0);
        }
        let requests: Vec<PageRequest> = std::iter::from_fn(|| backfill.next_request()).collect();
        let (reads, retries) = requests.split_at(MAX_CONCURRENT_READS);
        assert!(reads.iter().all(|request| !request.is_retry), "{reads:?}");
        assert_eq!(retries, [retry(1)]);
        // A new session missed something there.
        backfill.start(2, None, 0);
        backfill.on_unavailable(1);
        assert_eq!((backfill.next_request(), backfill.next_request()), (Some(retry(3)), None));
        for channel in [10, 11] {
            backfill.on_page(channel, 0, None);
            backfill.on_page_stored(channel);
        }
        let last = [10 + MAX_CONCURRENT_READS as u64, 2].map(|channel| Some(direct(channel, 0)));
        assert_eq!([backfill.next_request(), backfill.next_request()], last);
        assert!(backfill.blocks(2));
    }

    #[test]
    fn backfill_completes_when_all_guilds_are_available() {
        let mut backfill = Backfill::default();
        backfill.wait_for_guilds([1, 2]);
        assert!(backfill.on_guild_available(1) && !backfill.on_guild_available(1) && !backfill.on_guild_available(3));
        assert!(!backfill.is_complete());
        assert!(backfill.on_guild_available(2));
        assert!(backfill.is_complete());
        backfill.wait_for_guilds([1, 2]);
        backfill.on_guild_available(1);
        assert_eq!(backfill.stop_waiting(), [2].into());
        assert!(backfill.is_complete() && !backfill.on_guild_available(2));
    }
}
