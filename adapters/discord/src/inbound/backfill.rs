//! The backfill: which channels' histories are read after a session could not be resumed, how far, and when again; and in
//! which order a channel's messages are stored meanwhile, without the events that the history has made obsolete.
//!
//! It is pure: requests and times come in as values.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use serde_json::Value;
use serenity::model::Timestamp;

use super::{
    checkpoint::{InFlightId, UnreadHistory},
    store::StoreJob,
};
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

/// How many edited messages of the history are remembered. The events of their edits arrive within seconds.
const MAX_TRACKED_EDITS: usize = 10_000;

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

/// What is to be stored of a channel, in order.
#[derive(Debug, Default)]
pub(super) struct ChannelQueue {
    /// Whether a job is being stored.
    pub(super) is_busy: bool,
    /// What arrived before the backfill started.
    before: VecDeque<(InFlightId, StoreJob)>,
    /// The page of the history that is being stored.
    backfill: VecDeque<StoreJob>,
    waiting: VecDeque<(InFlightId, StoreJob)>,
}

impl ChannelQueue {
    pub(super) fn push(&mut self, id: InFlightId, job: StoreJob) {
        self.waiting.push_back((id, job));
    }

    /// Starts a backfill: what has arrived so far is stored before it.
    pub(super) fn start_backfill(&mut self) {
        self.before.append(&mut self.waiting);
    }

    pub(super) fn set_backfill(&mut self, jobs: VecDeque<StoreJob>) {
        self.backfill = jobs;
    }

    pub(super) fn is_backfill_done(&self) -> bool {
        self.backfill.is_empty()
    }

    /// Removes the next job. While the channel `is_blocked` by its backfill, what has arrived since waits.
    pub(super) fn pop(&mut self, is_blocked: bool) -> Option<(Option<InFlightId>, StoreJob)> {
        if let Some((id, job)) = self.before.pop_front() {
            return Some((Some(id), job));
        }
        if let Some(job) = self.backfill.pop_front() {
            return Some((None, job));
        }
        let (id, job) = if is_blocked { None } else { self.waiting.pop_front() }?;
        Some((Some(id), job))
    }

    /// Removes what waits and is covered by the history.
    pub(super) fn drain_covered(&mut self, edited: &EditedMessages) -> Vec<InFlightId> {
        let mut covered = Vec::new();
        self.waiting.retain(|(id, job)| {
            let is_covered = edited.covers(job);
            if is_covered {
                covered.push(*id);
            }
            !is_covered
        });
        covered
    }
}

/// Messages that the history returned in their state after an edit. Their earlier events are obsolete: each would become
/// a message of its own.
#[derive(Debug, Default)]
pub(super) struct EditedMessages(BTreeMap<u64, String>);

impl EditedMessages {
    /// Records a job of the history.
    pub(super) fn record(&mut self, job: &StoreJob) {
        let Some((message, Some(edited_at))) = job.version() else { return };
        if self.0.get(&message).is_none_or(|recorded| is_not_after(recorded, edited_at)) {
            self.0.insert(message, edited_at.to_owned());
        }
        if self.0.len() > MAX_TRACKED_EDITS {
            self.0.pop_first();
        }
    }

    /// Whether a job contains a recorded message in the same or an earlier state.
    pub(super) fn covers(&self, job: &StoreJob) -> bool {
        let Some((message, edited_at)) = job.version() else { return false };
        self.0.get(&message).is_some_and(|recorded| edited_at.is_none_or(|edited_at| is_not_after(edited_at, recorded)))
    }
}

/// Compares two times as Discord writes them.
fn is_not_after(one: &str, other: &str) -> bool {
    match (Timestamp::parse(one), Timestamp::parse(other)) {
        (Ok(one), Ok(other)) => one <= other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests;
