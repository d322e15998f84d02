//! Drives the backfill: when it starts, and what follows from each page of a channel's history.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use futures::FutureExt;
use serde_json::Value;
use tokio::time::Instant;

use super::{InboundProcessor, TaskOutcome};
use crate::{
    inbound::{
        backfill::{PageOrigin, PageRequest, channels_with_new_messages, overlap_start},
        store::{HistoryPage, StoreJob},
    },
    snowflake,
};

impl InboundProcessor {
    /// A new session has started: earlier messages are only in the history.
    pub(super) fn on_ready(&mut self, ready: &Value) {
        tracing::debug!("a new Discord session started; reading missed messages from the history");
        self.begin_backfill();
        self.guilds_deadline = Some(Instant::now() + self.store.timeouts.guilds_timeout);
        // Those that had returned are listed again, or are unavailable by now.
        self.returning_guilds.clear();
        let listed = ready.get("guilds").and_then(Value::as_array);
        let guilds: BTreeSet<_> =
            listed.into_iter().flatten().filter_map(|guild| snowflake::read(guild, "id")).collect();
        if listed.is_some() {
            self.remove_guilds_except(&guilds);
        }
        self.backfill.wait_for_guilds(guilds);
        let after = overlap_start(self.tracker.low_watermark()).max(self.tracker.start_id());
        for channel in self.tracker.direct_channels().collect::<Vec<_>>() {
            self.start_backfill(channel, None, after);
        }
        self.retry_all_now();
        self.request_pages();
    }

    /// A new session lists all guilds of the bot. No event reports those that it has left meanwhile.
    fn remove_guilds_except(&mut self, guilds: &BTreeSet<u64>) {
        let mut cached = self.store.cache.guild_ids();
        cached.extend(self.tracker.guilds());
        for removed in cached.difference(guilds) {
            self.remove_guild(*removed);
        }
    }

    /// Discord is reachable and reports unavailable guilds, so each unavailable history is requested at once.
    pub(super) fn retry_all_now(&mut self) {
        let now = Instant::now().into_std();
        for (channel, _) in self.tracker.all_unread() {
            self.retries.schedule_now(channel, now);
        }
    }

    fn begin_backfill(&mut self) {
        if self.backfill_id.is_none() {
            self.backfill_id = Some(self.tracker.begin_backfill());
        }
    }

    fn start_backfill(&mut self, channel: u64, guild: Option<u64>, after: u64) {
        self.pause_channel(channel);
        let after = self.tracker.unread(channel).map_or(after, |unread| unread.after.min(after));
        // If the bot has left and come back, an unread history may start before it was there.
        let after = guild.map_or(after, |guild| self.store.cache.first_visible_id(guild).max(after));
        self.backfill.start(channel, guild, after);
    }

    /// From now on, what arrives in a channel waits for its history.
    fn pause_channel(&mut self, channel: u64) {
        if let Some(queue) = self.queues.get_mut(&channel).filter(|_| !self.backfill.blocks(channel)) {
            queue.start_backfill();
        }
    }

    /// A guild is available: what was missed there is read.
    pub(super) fn on_guild_available(&mut self, guild: &Value) {
        // An unavailable one is reported again.
        if guild.get("unavailable").and_then(Value::as_bool) == Some(true) {
            return;
        }
        let Some(id) = snowflake::read(guild, "id") else { return };
        let behind = self.tracker.behind(id);
        if !self.backfill.on_guild_available(id) && behind.is_none() {
            // The bot has just joined: earlier messages are not for it.
            return;
        }
        self.begin_backfill();
        self.returning_guilds.extend(behind.map(|_| id));
        let watermark = behind.unwrap_or_else(|| self.tracker.low_watermark());
        let first_visible = self.store.cache.first_visible_id(id);
        let after = overlap_start(watermark).max(self.tracker.start_id()).max(first_visible);
        for channel in channels_with_new_messages(guild, after) {
            self.start_backfill(channel, Some(id), after);
        }
        let unread: Vec<_> = self.tracker.all_unread().filter(|(_, unread)| unread.guild == Some(id)).collect();
        for (channel, unread) in unread {
            self.start_backfill(channel, Some(id), unread.after);
        }
        self.request_pages();
    }

    /// A guild has an outage, and returns. Messages of the time between are only in its history.
    pub(super) fn on_guild_unavailable(&mut self, guild: u64) {
        let watermark = self.tracker.low_watermark();
        self.tracker.mark_behind(guild, watermark);
        self.returning_guilds.retain(|returning| *returning != guild);
    }

    /// The bot is no longer in a guild.
    pub(super) fn on_guild_removed(&mut self, guild: u64) {
        self.remove_guild(guild);
        self.request_pages();
    }

    fn remove_guild(&mut self, guild: u64) {
        self.store.cache.remove_guild(guild);
        self.backfill.remove_guild(guild);
        if self.tracker.remove_guild(guild) {
            self.log_if_caught_up();
        }
    }

    pub(super) fn on_channel_removed(&mut self, channel: u64) {
        self.store.cache.remove_channel(channel);
        self.backfill.remove_channel(channel);
        self.clear_unread(channel);
    }

    fn clear_unread(&mut self, channel: u64) {
        self.retries.cancel(channel);
        if self.tracker.clear_unread(channel) {
            self.log_if_caught_up();
        }
    }

    fn log_if_caught_up(&self) {
        if self.tracker.all_unread().next().is_none() {
            tracing::info!("backfill complete for channels that failed before");
        }
    }

    /// A guild may be unavailable for hours. The others continue; the checkpoint records how far each of these was read.
    pub(super) fn stop_waiting_for_guilds(&mut self) {
        self.guilds_deadline = None;
        let (watermark, unavailable) = (self.tracker.low_watermark(), self.backfill.stop_waiting());
        if !unavailable.is_empty() {
            tracing::warn!(
                guilds = unavailable.len(),
                "some guilds are unavailable; their backfill waits until they return"
            );
        }
        for guild in unavailable {
            self.tracker.mark_behind(guild, watermark);
        }
        self.request_pages();
        self.schedule_checkpoint();
    }

    fn is_unavailable(&self, guild: u64) -> bool {
        self.backfill.is_waiting_for(guild)
            || (self.tracker.behind(guild).is_some() && !self.returning_guilds.contains(&guild))
    }

    /// Requests the unavailable histories again whose time has come. Channels that are being read, and guilds when they
    /// return, need no retry.
    pub(super) fn retry_due(&mut self) {
        for channel in self.retries.take_due(Instant::now().into_std()) {
            let Some(unread) = self.tracker.unread(channel) else {
                self.retries.cancel(channel);
                continue;
            };
            if !self.backfill.contains(channel) && !unread.guild.is_some_and(|guild| self.is_unavailable(guild)) {
                self.backfill.start_retry(channel, unread);
            }
        }
        self.request_pages();
    }

    /// Requests the pages that may be requested now, and ends the backfill if it is complete.
    fn request_pages(&mut self) {
        while let Some(request) = self.backfill.next_request() {
            let store = Arc::clone(&self.store);
            let requesting = async move { TaskOutcome::Page { request, page: store.request_page(request).await } };
            self.tasks.push(requesting.boxed());
        }
        if !self.backfill.is_complete() {
            return;
        }
        if let Some(id) = self.backfill_id.take() {
            self.guilds_deadline = None;
            self.tracker.complete(id);
            for guild in self.returning_guilds.drain(..) {
                self.tracker.clear_behind(guild);
            }
        }
        let messages = std::mem::take(&mut self.backfilled_messages);
        if messages > 0 {
            tracing::info!(messages, "backfill stored the missed messages");
        }
    }

    /// The request for a page has ended.
    pub(super) fn on_page(&mut self, request: PageRequest, page: HistoryPage) {
        match page {
            HistoryPage::Messages(messages) => {
                // Without the permission to read the history, Discord returns an empty page.
                if messages.is_empty() && request.is_expected {
                    self.log_forbidden_channel(request.channel);
                }
                self.on_messages(request.channel, &messages);
            }
            // During an outage, Discord may refuse what it allows otherwise.
            HistoryPage::Forbidden if request.guild.is_some_and(|guild| self.is_unavailable(guild)) => {
                self.on_unavailable(request.channel);
            }
            HistoryPage::Forbidden => {
                if request.is_expected || request.is_retry {
                    self.log_forbidden_channel(request.channel);
                }
                self.on_messages(request.channel, &[]);
            }
            HistoryPage::Unavailable(error) => {
                if self.tracker.unread(request.channel).is_none() {
                    tracing::warn!(
                        channel = request.channel,
                        %error,
                        "backfill of a channel failed; it will be retried"
                    );
                }
                self.on_unavailable(request.channel);
            }
        }
    }

    fn log_forbidden_channel(&mut self, channel: u64) {
        if !std::mem::replace(&mut self.is_forbidden_reported, true) {
            tracing::warn!(
                channel,
                "backfill of a channel is not allowed; give the bot the permission Read Message History there"
            );
        }
    }

    fn on_messages(&mut self, channel: u64, messages: &[Value]) {
        let last = messages.last().and_then(|message| snowflake::read(message, "id"));
        let origin = self.backfill.on_page(channel, messages.len(), last);
        let guild = if let PageOrigin::Guild(guild) = origin { Some(guild) } else { None };
        let messages = messages.iter().filter(|_| origin != PageOrigin::Removed);
        let jobs: VecDeque<StoreJob> = messages.filter_map(|message| self.store.read_history(message, guild)).collect();
        jobs.iter().for_each(|job| self.edited.record(job));
        let queue = self.queues.entry(channel).or_default();
        for id in queue.drain_covered(&self.edited) {
            self.waiting -= 1;
            self.tracker.complete(id);
        }
        if jobs.is_empty() {
            self.on_page_stored(channel);
        } else {
            queue.set_backfill(jobs);
            self.store_next(channel);
        }
    }

    /// A channel's history stays unread for now, also in the next process; its new messages continue.
    fn on_unavailable(&mut self, channel: u64) {
        if let Some(unread) = self.backfill.on_unavailable(channel) {
            let (timeouts, now) = (self.store.timeouts, Instant::now().into_std());
            self.tracker.mark_unread(channel, unread);
            self.retries.schedule(channel, now, |failures| timeouts.recheck_delay(failures));
        }
        self.request_pages();
        self.store_next(channel);
    }

    pub(super) fn on_page_stored(&mut self, channel: u64) {
        if !self.backfill.on_page_stored(channel) {
            self.clear_unread(channel);
        }
        self.request_pages();
        self.store_next(channel);
    }
}
