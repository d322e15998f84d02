//! Events from the gateway: read, stored in the order of their channel, and only then counted as stored.

mod backfill;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use satchel_domain::UndecodableUpdate;
use serde_json::Value;
use serenity::model::Timestamp;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{
    backfill::{Backfill, HistoryRetries, PageRequest},
    checkpoint::{GatewayCheckpoint, InFlightId, WatermarkTracker},
    interactions,
    store::{Cancelled, DirectSender, HistoryPage, InboundStore, StoreJob, StoreOutcome},
};
use crate::{address::channel_name, gateway::GatewayEvent, snowflake};

/// How many events wait to be stored before nothing more is read from the gateway.
const MAX_WAITING: usize = 500;

/// At the end: for what is being stored, and for the last checkpoint.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// How many edited messages of the history are remembered. The events of their edits arrive within seconds.
const MAX_TRACKED_EDITS: usize = 10_000;

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
                let (channel, reason) = (channel_name(), reason.to_owned());
                let update = UndecodableUpdate { channel, key, sender: None, raw: Value::Null, reason };
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
                Some(guild) => self.on_guild_removed(guild),
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
            TaskOutcome::CheckpointSaved { checkpoint, is_saved } => self.on_checkpoint_saved(checkpoint, is_saved),
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

    fn on_checkpoint_saved(&mut self, checkpoint: GatewayCheckpoint, is_saved: bool) {
        self.is_saving = false;
        if is_saved {
            self.saved = Some(checkpoint);
        } else {
            self.save_at = Some(Instant::now() + self.store.timeouts.checkpoint_interval);
        }
    }
}

/// What is to be stored of a channel, in order.
#[derive(Debug, Default)]
struct ChannelQueue {
    /// Whether a job is being stored.
    is_busy: bool,
    /// What arrived before the backfill started.
    before: VecDeque<(InFlightId, StoreJob)>,
    /// The page of the history that is being stored.
    backfill: VecDeque<StoreJob>,
    waiting: VecDeque<(InFlightId, StoreJob)>,
}

impl ChannelQueue {
    fn push(&mut self, id: InFlightId, job: StoreJob) {
        self.waiting.push_back((id, job));
    }

    /// Starts a backfill: what has arrived so far is stored before it.
    fn start_backfill(&mut self) {
        self.before.append(&mut self.waiting);
    }

    fn set_backfill(&mut self, jobs: VecDeque<StoreJob>) {
        self.backfill = jobs;
    }

    fn is_backfill_done(&self) -> bool {
        self.backfill.is_empty()
    }

    /// Removes the next job. While the channel `is_blocked` by its backfill, what has arrived since waits.
    fn pop(&mut self, is_blocked: bool) -> Option<(Option<InFlightId>, StoreJob)> {
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
    fn drain_covered(&mut self, edited: &EditedMessages) -> Vec<InFlightId> {
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
struct EditedMessages(BTreeMap<u64, String>);

impl EditedMessages {
    /// Records a job of the history.
    fn record(&mut self, job: &StoreJob) {
        let Some((message, Some(edited_at))) = job.version() else { return };
        if self.0.get(&message).is_none_or(|recorded| is_not_after(recorded, edited_at)) {
            self.0.insert(message, edited_at.to_owned());
        }
        if self.0.len() > MAX_TRACKED_EDITS {
            self.0.pop_first();
        }
    }

    /// Whether a job contains a recorded message in the same or an earlier state.
    fn covers(&self, job: &StoreJob) -> bool {
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
