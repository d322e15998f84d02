//! Events from the gateway: read, stored in the order of their channel, and only then counted as stored. Drives the
//! backfill: when it starts, and what follows from each page of a channel's history.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use satchel_domain::UndecodableUpdate;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{
    backfill::{
        Backfill, ChannelQueue, EditedMessages, HistoryRetries, PageOrigin, PageRequest, channels_with_new_messages,
        overlap_start,
    },
    checkpoint::{GatewayCheckpoint, InFlightId, WatermarkTracker},
    interactions,
    store::{Cancelled, DirectSender, HistoryPage, InboundStore, StoreJob, StoreOutcome},
};
use crate::{
    gateway::GatewayEvent,
    snowflake::{self, channel_name},
};

/// How many events wait to be stored before nothing more is read from the gateway.
const MAX_WAITING: usize = 500;

/// At the end: for what is being stored, and for the last checkpoint.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Processes the gateway's events.
pub(super) struct InboundProcessor {
    store: Arc<InboundStore>,
    tracker: WatermarkTracker,
    backfill: Backfill,
    /// In flight until the backfill is complete.
    backfill_id: Option<InFlightId>,
    backfilled_messages: usize,
    /// When the backfill stops waiting for unavailable guilds.
    guilds_deadline: Option<Instant>,
    /// The guilds that became available after that deadline, and are being read.
    returning_guilds: Vec<u64>,
    retries: HistoryRetries,
    is_forbidden_reported: bool,
    edited: EditedMessages,
    queues: HashMap<u64, ChannelQueue>,
    tasks: FuturesUnordered<BoxFuture<'static, TaskOutcome>>,
    waiting: usize,
    saved: Option<GatewayCheckpoint>,
    save_at: Option<Instant>,
    is_saving: bool,
    /// Whether a checkpoint with a session was to be saved.
    has_saved_session: bool,
}

enum TaskOutcome {
    /// A job of a channel. It has an id unless it comes from the history.
    Stored { channel: u64, id: Option<InFlightId>, outcome: Result<StoreOutcome, Cancelled> },
    /// A page of the history.
    Page { request: PageRequest, page: Result<HistoryPage, Cancelled> },
    /// The response to an interaction.
    Responded,
    /// A checkpoint, and whether it is saved.
    CheckpointSaved { checkpoint: GatewayCheckpoint, is_saved: bool },
}

impl InboundProcessor {
    /// Continues at a checkpoint.
    pub(super) fn new(store: InboundStore, checkpoint: GatewayCheckpoint) -> Self {
        Self {
            store: Arc::new(store),
            saved: Some(checkpoint.clone()),
            tracker: WatermarkTracker::from_checkpoint(checkpoint),
            backfill: Backfill::default(),
            backfill_id: None,
            backfilled_messages: 0,
            guilds_deadline: None,
            returning_guilds: Vec::new(),
            retries: HistoryRetries::default(),
            is_forbidden_reported: false,
            edited: EditedMessages::default(),
            queues: HashMap::new(),
            tasks: FuturesUnordered::new(),
            waiting: 0,
            save_at: None,
            is_saving: false,
            has_saved_session: false,
        }
    }

    /// Processes events until there are no more or the process stops. Drains what is being stored then.
    pub(super) async fn run(mut self, mut events: mpsc::Receiver<GatewayEvent>) {
        let (stop, cache) = (self.store.stop.clone(), Arc::clone(&self.store.cache));
        loop {
            let retry_at = self.retries.next_at().map(Instant::from_std);
            let save_at = self.save_at.filter(|_| !self.is_saving);
            let guilds_deadline = self.guilds_deadline;
            tokio::select! {
                () = stop.cancelled() => break,
                event = events.recv(), if self.waiting < MAX_WAITING => match event {
                    Some(event) => self.handle_event(event),
                    None => break,
                },
                Some(outcome) = self.tasks.next() => self.on_task_done(outcome),
                channels = cache.wait_for_opened() => self.on_channels_opened(channels),
                () = sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => self.retry_due(),
                () = sleep_until(save_at.unwrap_or_else(Instant::now)), if save_at.is_some() => self.save_checkpoint(),
                () = sleep_until(guilds_deadline.unwrap_or_else(Instant::now)), if guilds_deadline.is_some() => {
                    self.stop_waiting_for_guilds();
                }
            }
        }
        stop.cancel();
        self.drain().await;
    }

    async fn drain(mut self) {
        let finishing = async {
            while let Some(outcome) = self.tasks.next().await {
                self.on_task_done(outcome);
            }
        };
        // Discord repeats what is not stored by then.
        let _ = timeout(DRAIN_TIMEOUT, finishing).await;
        if let Some(channels) = Arc::clone(&self.store.cache).wait_for_opened().now_or_never() {
            self.on_channels_opened(channels);
        }
        let checkpoint = self.checkpoint();
        if self.saved.as_ref() != Some(&checkpoint) {
            let _ = timeout(DRAIN_TIMEOUT, self.store.save_checkpoint(&checkpoint)).await;
        }
    }

    fn handle_event(&mut self, event: GatewayEvent) {
        match event {
            GatewayEvent::Dispatch { resume_state, name, data } => {
                self.handle_dispatch(&name, data, resume_state.has_message_content);
                self.tracker.advance(resume_state);
            }
            GatewayEvent::Undecodable { key, reason } => {
                let id = self.tracker.begin(None);
                let (channel, raw, reason) = (channel_name(), Value::Null, reason.to_owned());
                let update = UndecodableUpdate { channel, key, sender: None, raw, reason };
                self.enqueue(0, id, StoreJob::Undecodable(Box::new(update)));
            }
        }
        self.schedule_checkpoint();
    }

    fn handle_dispatch(&mut self, name: &str, data: Value, has_message_content: bool) {
        let cache = Arc::clone(&self.store.cache);
        let id = snowflake::read(&data, "id");
        match name {
            "READY" => self.on_ready(&data),
            "RESUMED" => self.retry_all_now(),
            "GUILD_CREATE" => {
                cache.record_guild(&data);
                self.on_guild_available(&data);
            }
            "GUILD_UPDATE" => cache.record_guild(&data),
            "GUILD_DELETE" => match id {
                // An outage: the guild returns.
                Some(guild) if data.get("unavailable").and_then(Value::as_bool) == Some(true) => {
                    self.on_guild_unavailable(guild);
                }
                // The bot is no longer in it.
                Some(guild) => {
                    self.remove_guild(guild);
                    self.request_pages();
                }
                None => {}
            },
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => cache.record_channel(&data),
            "THREAD_LIST_SYNC" => {
                for thread in data.get("threads").and_then(Value::as_array).into_iter().flatten() {
                    cache.record_channel(thread);
                }
            }
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                if let Some(channel) = id {
                    self.on_channel_removed(channel);
                }
            }
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "INTERACTION_CREATE" => {
                self.handle_message(name, data, has_message_content);
            }
            _ => {}
        }
    }

    fn handle_message(&mut self, name: &str, data: Value, has_message_content: bool) {
        let channel = snowflake::read(&data, "channel_id").unwrap_or(0);
        let message = snowflake::read(&data, "id").filter(|_| name == "MESSAGE_CREATE");
        if let Some(message) = message {
            self.tracker.observe_message(message);
        }
        // An interaction contains all that is needed, and Discord waits for its response.
        let job = if name != "INTERACTION_CREATE" && self.store.needs_lookup(channel, &data) {
            Some(StoreJob::Unresolved { channel, name: name.to_owned(), data, has_message_content })
        } else {
            self.store.read(name, &data, has_message_content)
        };
        if let Some(job) = job.filter(|job| !self.edited.covers(job)) {
            let id = self.tracker.begin(message);
            self.enqueue(channel, id, job);
        }
    }

    fn enqueue(&mut self, channel: u64, id: InFlightId, job: StoreJob) {
        self.waiting += 1;
        self.queues.entry(channel).or_default().push(id, job);
        self.store_next(channel);
    }

    /// Starts to store the next job of a channel, unless one is being stored.
    fn store_next(&mut self, channel: u64) {
        if self.store.stop.is_cancelled() {
            return;
        }
        let queue = self.queues.entry(channel).or_default();
        if queue.is_busy {
            return;
        }
        let is_blocked = self.backfill.blocks(channel);
        let Some((id, job)) = queue.pop(is_blocked) else {
            if !is_blocked {
                self.queues.remove(&channel);
            }
            return;
        };
        queue.is_busy = true;
        let store = Arc::clone(&self.store);
        self.tasks.push(async move { TaskOutcome::Stored { channel, id, outcome: store.store(job).await } }.boxed());
    }

    /// The bot has opened direct channels, to write to people.
    fn on_channels_opened(&mut self, channels: Vec<u64>) {
        let remembered: BTreeSet<_> = self.tracker.direct_channels().collect();
        let has_new = channels.iter().any(|channel| !remembered.contains(channel));
        for channel in channels {
            self.tracker.touch_direct_channel(channel);
        }
        if has_new {
            // No event lists a direct channel in which nobody has written yet.
            self.save_at = Some(Instant::now());
        } else {
            self.schedule_checkpoint();
        }
    }

    fn on_task_done(&mut self, outcome: TaskOutcome) {
        match outcome {
            TaskOutcome::Stored { channel, id, outcome: Ok(outcome) } => self.on_stored(channel, id, outcome),
            TaskOutcome::Page { request, page: Ok(page) } => {
                self.on_page(request, page);
                self.schedule_checkpoint();
            }
            TaskOutcome::CheckpointSaved { checkpoint, is_saved } => {
                self.is_saving = false;
                if is_saved {
                    self.saved = Some(checkpoint);
                } else {
                    self.save_at = Some(Instant::now() + self.store.timeouts.checkpoint_interval);
                }
            }
            TaskOutcome::Stored { outcome: Err(Cancelled), .. }
            | TaskOutcome::Page { page: Err(Cancelled), .. }
            | TaskOutcome::Responded => {}
        }
    }

    fn on_stored(&mut self, channel: u64, id: Option<InFlightId>, outcome: StoreOutcome) {
        match outcome.direct_sender {
            Some(DirectSender::Person(person)) => {
                self.tracker.touch_direct_channel(channel);
                self.store.cache.record_direct_channel(person, channel);
            }
            Some(DirectSender::Stranger) => self.tracker.touch_stranger_channel(channel),
            None => {}
        }
        match id {
            Some(id) => {
                self.waiting -= 1;
                self.tracker.complete(id);
            }
            None => self.backfilled_messages += 1,
        }
        if let Some(interaction) = outcome.interaction {
            let store = Arc::clone(&self.store);
            let responding = async move { interactions::respond(&store.rest, &interaction).await };
            self.tasks.push(responding.map(|()| TaskOutcome::Responded).boxed());
        }
        let queue = self.queues.entry(channel).or_default();
        queue.is_busy = false;
        if id.is_none() && queue.is_backfill_done() {
            self.on_page_stored(channel);
        } else {
            self.store_next(channel);
        }
        self.schedule_checkpoint();
    }

    /// Saves a checkpoint soon, not with each event.
    fn schedule_checkpoint(&mut self) {
        let now = Instant::now();
        if !self.has_saved_session && self.tracker.has_resume_state() {
            // The first session at once: without one, the next process would identify again and need a backfill.
            self.save_at = Some(now);
        } else {
            self.save_at.get_or_insert(now + self.store.timeouts.checkpoint_interval);
        }
    }

    fn checkpoint(&mut self) -> GatewayCheckpoint {
        GatewayCheckpoint { boosted_guilds: self.store.cache.boosted_guilds(), ..self.tracker.checkpoint() }
    }

    fn save_checkpoint(&mut self) {
        self.save_at = None;
        let checkpoint = self.checkpoint();
        self.has_saved_session |= checkpoint.resume_state.is_some();
        if self.saved.as_ref() == Some(&checkpoint) {
            return;
        }
        self.is_saving = true;
        let store = Arc::clone(&self.store);
        let saving = async move {
            let is_saved = store.save_checkpoint(&checkpoint).await;
            TaskOutcome::CheckpointSaved { checkpoint, is_saved }
        };
        self.tasks.push(saving.boxed());
    }

    /// A new session has started: earlier messages are only in the history.
    fn on_ready(&mut self, ready: &Value) {
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
    fn retry_all_now(&mut self) {
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
        // From now on, what arrives in the channel waits for its history.
        if let Some(queue) = self.queues.get_mut(&channel).filter(|_| !self.backfill.blocks(channel)) {
            queue.start_backfill();
        }
        let after = self.tracker.unread(channel).map_or(after, |unread| unread.after.min(after));
        // If the bot has left and come back, an unread history may start before it was there.
        let after = guild.map_or(after, |guild| self.store.cache.first_visible_id(guild).max(after));
        self.backfill.start(channel, guild, after);
    }

    /// A guild is available: what was missed there is read.
    fn on_guild_available(&mut self, guild: &Value) {
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
    fn on_guild_unavailable(&mut self, guild: u64) {
        let watermark = self.tracker.low_watermark();
        self.tracker.mark_behind(guild, watermark);
        self.returning_guilds.retain(|returning| *returning != guild);
    }

    /// The bot is no longer in a guild.
    fn remove_guild(&mut self, guild: u64) {
        self.store.cache.remove_guild(guild);
        self.backfill.remove_guild(guild);
        if self.tracker.remove_guild(guild) {
            self.log_if_caught_up();
        }
    }

    fn on_channel_removed(&mut self, channel: u64) {
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
    fn stop_waiting_for_guilds(&mut self) {
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
    fn retry_due(&mut self) {
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
    fn on_page(&mut self, request: PageRequest, page: HistoryPage) {
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

    fn on_page_stored(&mut self, channel: u64) {
        if !self.backfill.on_page_stored(channel) {
            self.clear_unread(channel);
        }
        self.request_pages();
        self.store_next(channel);
    }
}
